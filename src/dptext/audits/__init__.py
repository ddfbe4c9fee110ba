"""Attacks on guarantees: an audit can refute a claim, never prove one.

    >>> import numpy as np
    >>> from dptext import audits
    >>> from dptext.sampling.top_k import TopKRandomizedResponse
    >>> choice = TopKRandomizedResponse(epsilon=2.0, k=1, size=4)
    >>> report = audits.exact(choice, np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0]), trials=1000)
    >>> round(report.epsilon_lower_bound, 6), report.refutes(audits.claim_of(choice))
    (2.0, False)

`distinguish` counts runs (black box), `whitebox` reads declared densities, `exact` sums over all outputs,
`reconstruct` guesses inputs, `sensitivity` looks at norms, `broken_assumptions` compares what no box can show.
`worst_pairs` and `worst_latents` propose neighbours. `shokri`, `lira` and `from_scores` ask a trained model who was in
its training set. `attribute` asks who wrote a release, `infer_trait` which of two sets it comes from, and
`measure` how far apart two sets of texts are.
"""

from dptext.audits.divergence.divergence import DivergenceSettings, measure, measure_vectors
from dptext.audits.divergence.report import DivergenceReport
from dptext.audits.inference.attribution import AttributionRow, epsilon_from_attribution
from dptext.audits.inference.authors import AuthorSplit, split_authors
from dptext.audits.inference.authorship import AuthorshipReport, attribute, attribute_releases
from dptext.audits.inference.trait import TraitReport, infer_trait, infer_trait_from_releases
from dptext.audits.membership.attacks import Attack, Measure, MembershipResult, from_scores, shokri
from dptext.audits.membership.lira import LiraResult, lira
from dptext.audits.membership.members import (
    MemberSplit,
    Scorer,
    Trainer,
    Transform,
    blind_scores,
    split_members,
    verbatim_share,
)
from dptext.audits.provenance import broken_assumptions
from dptext.audits.reconstruction.attack import Reconstruction, reconstruct
from dptext.audits.reconstruction.pools import feasible, random_candidates
from dptext.audits.report import Report
from dptext.audits.roc import Roc
from dptext.audits.sensitivity.claims import Claim, simulate, violating_pairs
from dptext.audits.subjects import Sampler, Subject, claim_of
from dptext.audits.trials.density import whitebox
from dptext.audits.trials.distinguishing import distinguish
from dptext.audits.trials.enumeration import exact, exact_delta, exact_epsilon
from dptext.audits.trials.pairs import Pair, worst_latents, worst_pairs
from dptext.text.records import records_digest

__all__ = [
    "Attack",
    "AttributionRow",
    "AuthorSplit",
    "AuthorshipReport",
    "Claim",
    "DivergenceReport",
    "DivergenceSettings",
    "LiraResult",
    "Measure",
    "MemberSplit",
    "MembershipResult",
    "Pair",
    "Reconstruction",
    "Report",
    "Roc",
    "Sampler",
    "Scorer",
    "Subject",
    "Trainer",
    "TraitReport",
    "Transform",
    "attribute",
    "attribute_releases",
    "blind_scores",
    "broken_assumptions",
    "claim_of",
    "distinguish",
    "epsilon_from_attribution",
    "exact",
    "exact_delta",
    "exact_epsilon",
    "feasible",
    "from_scores",
    "infer_trait",
    "infer_trait_from_releases",
    "lira",
    "measure",
    "measure_vectors",
    "random_candidates",
    "reconstruct",
    "records_digest",
    "shokri",
    "simulate",
    "split_authors",
    "split_members",
    "verbatim_share",
    "violating_pairs",
    "whitebox",
    "worst_latents",
    "worst_pairs",
]
