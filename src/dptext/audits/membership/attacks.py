"""Membership inference: was this record in the training data of the model?

`shokri` attacks a classifier as the ADePT paper does (Krishna et al. 2021, section 4.5, after Shokri et al. 2017).
`lira`, in a module beside it, does as Carlini et al. 2022. `from_scores` takes any score, such as an auto-encoder's
reconstruction loss. Each reports baselines beside the attack, and a control where there is nothing to find.

A guarantee of local privacy is about what one release tells of its own record. It follows that a classifier trained on
releases does not give its training records away, but that is no test of the guarantee: membership inference on such a
classifier is a proxy that sees little of the harm (Habernal 2021, section 7). Nothing here refutes a guarantee.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dptext.audits.features import standardiser
from dptext.audits.membership.members import (
    Scorer,
    Trainer,
    Transform,
    blind_scores,
    check_members,
    halves_of_both,
    logit_confidence,
    train_on,
)
from dptext.audits.membership.results import Measure, MemberScores, MembershipResult
from dptext.audits.roc import check_scores
from dptext.audits.subjects import OnCount
from dptext.audits.texts import shared_texts
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Floats

#: How many confidence scores the ADePT paper's attacker sees.
TOP_SCORES: Final = 5

PROXY: Final = (
    "A guarantee of local privacy is about the record itself; an attack on a classifier trained on releases is only a "
    "proxy (Habernal 2021, section 7)."
)


def from_scores(
    members: Floats,
    non_members: Floats,
    *,
    name: str,
    control: MemberScores | None = None,
    baselines: Mapping[str, MemberScores] | None = None,
    measure: Measure | None = None,
    notes: Sequence[str] = (),
) -> MembershipResult:
    """The attack that thresholds a given score, such as minus the reconstruction loss of an auto-encoder.

    The scores are `(n,)` of members and `(m,)` of others, higher where the attacker believes "member". The `control` is
    the same scores by a model that was trained on neither side, or on as much of both. Without it the membership of the
    given scores is permuted, which tests the counting alone. Baselines are scores of plainer attackers, such as
    `blind_scores` of the texts. ConfigError for no scores, NaN, or a setting out of its range.
    """
    measure = measure or Measure()
    members, non_members = check_scores("member", members), check_scores("non-member", non_members)
    shown = "the same score by a model that knows nothing of who is a member"
    if control is None:
        shown = "membership permuted"
        mixed = np.random.default_rng(measure.seed).permutation(np.concatenate([members, non_members]))
        control = mixed[: len(members)], mixed[len(members) :]
    return measure.result(
        (name, (members, non_members)), (shown, control), baselines or {}, notes=notes, signature={"attack": "scores"}
    )


def top_scores(scorer: Scorer, texts: Sequence[str], *, top: int = TOP_SCORES) -> Floats:
    """The largest confidence scores of each text, `(n_texts, top)`, falling; 0 where there are fewer labels."""
    scores = np.asarray(scorer.probabilities(texts), np.float64)
    if scores.ndim != 2 or len(scores) != len(texts) or np.isnan(scores).any():
        raise ConfigError(f"Expected probabilities of {len(texts)} rows without NaN, found shape {scores.shape}.")
    ordered = -np.sort(-scores, axis=1)[:, :top]
    return np.pad(ordered, ((0, 0), (0, top - ordered.shape[1])))


def shokri(
    target: Scorer,
    members: Sequence[Record],
    non_members: Sequence[Record],
    *,
    shadow_train: Sequence[Record],
    shadow_out: Sequence[Record],
    train: Trainer,
    seed: int,
    transform: Transform | None = None,
    measure: Measure | None = None,
    on_progress: OnCount | None = None,
) -> MembershipResult:
    """The attack of the ADePT paper: a shadow classifier teaches what confidence in members looks like.

    The shadow is trained like the target, on the attacker's own records. A logistic regression on its top five scores,
    sorted and standardised, learns to tell the shadow's members from its non-members. It is then applied to the scores
    of the target. The control attacks a classifier trained on half of the members and half of the non-members. The
    baselines are the loss threshold (Yeom et al. 2018) and the attacker that sees no model (`blind_scores`).

    Args:
        target: the attacked classifier, trained on the members or on their transform.
        members: the original records, with their labels.
        non_members: as many others.
        shadow_train: the attacker's records that the shadow is trained on. They should not be the target's; a note says
            how many are.
        shadow_out: as many others of the attacker's.
        train: trains like the target was trained.
        seed: of shadow, control and bootstrap, in the place of the seed of `measure`.
        transform: what the target's training records went through, and so the shadow's and the control's. The attack
            asks about original texts.
        measure: settings of intervals and of the measured epsilon.
        on_progress: called with models trained and models in all.

    Raises:
        ConfigError: uneven or overlapping sides, missing labels, or a setting out of its range.
        MissingExtraError: scikit-learn is absent.
    """
    check_members(members, non_members)
    check_members(shadow_train, shadow_out, ("shadow_train", "shadow_out"))
    measure = replace(measure or Measure(), seed=seed)
    rng = np.random.default_rng(seed)

    def trained(records: Sequence[Record], done: int) -> Scorer:
        model = train_on(records, train=train, transform=transform, seed=int(rng.integers(2**31)))
        if on_progress is not None:
            on_progress(done, 2)
        return model

    shadow = trained(shadow_train, 1)
    learned = _learned(_features(shadow, shadow_train), _features(shadow, shadow_out))

    def scores(model: Scorer) -> MemberScores:
        return learned(_features(model, members)), learned(_features(model, non_members))

    control = trained(halves_of_both(members, non_members, rng), 2)
    overlap, sure = shared_texts([*members, *non_members], [*shadow_train, *shadow_out]), logit_confidence
    known = f"{overlap:,} of the attacker's {2 * len(shadow_train):,} records are the target's: the attacker knew them."
    return measure.result(
        (f"logistic regression on the top {TOP_SCORES} scores of a shadow classifier", scores(target)),
        ("the same on a classifier trained on half of both", scores(control)),
        {
            "loss threshold": (sure(target, members), sure(target, non_members)),
            "no look at the model": blind_scores(members, non_members, seed=seed),
        },
        notes=[PROXY, known] if overlap else [PROXY],
        signature={
            "attack": "shokri",
            "shadow_train": len(shadow_train),
            "transform": transform is not None,
            "overlap": overlap,
        },
    )


def _features(model: Scorer, records: Sequence[Record]) -> Floats:
    return top_scores(model, [record.text for record in records])


def _learned(members: Floats, non_members: Floats) -> Callable[[Floats], Floats]:
    """Log odds of membership given features, `(n, top)` to `(n,)`."""
    stacked = np.concatenate([members, non_members])
    scaled = standardiser(stacked)  # the padding is constant
    model = load_sklearn().linear_model.LogisticRegression(max_iter=1000)
    fit_quietly(model, scaled(stacked), np.arange(len(stacked)) < len(members))
    return lambda features: np.asarray(model.decision_function(scaled(features)), np.float64)
