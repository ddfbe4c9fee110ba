"""Attacks on guarantees: an audit can refute a claim, never prove one.

    >>> import numpy as np
    >>> from dptext import audits
    >>> from dptext.selection import TopKRandomizedResponse
    >>> choice = TopKRandomizedResponse(epsilon=2.0, k=1, size=4)
    >>> report = audits.exact(choice, np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0]), trials=1000)
    >>> round(report.epsilon_lower_bound, 6), report.refutes(audits.claim_of(choice))
    (2.0, False)

`distinguish` counts runs (black box), `whitebox` reads declared densities, `exact` sums over all outputs,
`reconstruct` guesses inputs, `sensitivity` looks at norms, `broken_assumptions` compares what no box can show.
`worst_pairs` and `worst_latents` propose neighbours.
"""

from dptext.audits.density import whitebox
from dptext.audits.distinguishing import distinguish
from dptext.audits.enumeration import exact, exact_delta, exact_epsilon
from dptext.audits.pairs import Pair, worst_latents, worst_pairs
from dptext.audits.pools import feasible, random_candidates
from dptext.audits.provenance import broken_assumptions, records_digest
from dptext.audits.reconstruction import Reconstruction, reconstruct
from dptext.audits.report import Report
from dptext.audits.sensitivity import Claim, simulate, violating_pairs
from dptext.audits.subjects import Sampler, Subject, claim_of

__all__ = [
    "Claim",
    "Pair",
    "Reconstruction",
    "Report",
    "Sampler",
    "Subject",
    "broken_assumptions",
    "claim_of",
    "distinguish",
    "exact",
    "exact_delta",
    "exact_epsilon",
    "feasible",
    "random_candidates",
    "reconstruct",
    "records_digest",
    "simulate",
    "violating_pairs",
    "whitebox",
    "worst_latents",
    "worst_pairs",
]
