"""Membership inference: was a given record in the training data of a model?

`shokri` attacks a classifier as the ADePT paper does; `lira`, in a module of its own, as Carlini et al. 2022.
`from_scores` takes any score, such as an auto-encoder's reconstruction loss. Each attack reports baselines, and a
control where there is nothing to find.

A guarantee of local privacy bounds what one release reveals of its own record. It follows that a classifier trained on
releases does not reveal its training records, but that is no test of the guarantee: membership inference on such a
classifier is a proxy that sees little of the harm (Habernal 2021, section 7). No result here refutes a guarantee.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from dptext.audits.bounds import EpsilonLowerBound
from dptext.audits.features import shared_texts, standardiser
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
from dptext.audits.report import Result, signature_line
from dptext.audits.roc import Attack, attack, check_scores, epsilon_measured
from dptext.audits.subjects import OnCount, untold
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Relation, format_delta
from dptext.text.records import Record
from dptext.types import Floats, Json, fields_as_json

#: Scores of the members and of the non-members, `(n,)` each, higher for likelier members.
MemberScores = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class MembershipResult(Result):
    """The outcome of a membership attack on one trained model.

    `control` is the same attack where there is nothing to find: its AUC must be about 1/2. `baselines` are attackers
    that do not look at the model, or look at it in the simplest way. `epsilon` is measured from the counts of the main
    attack by `dptext.audits.roc.epsilon_measured`, for the trained model as a whole (central trust) and for training
    sets that are neighbours by `relation`.
    """

    main: Attack
    control: Attack
    baselines: tuple[Attack, ...]
    epsilon: EpsilonLowerBound
    relation: Relation
    members: int
    non_members: int
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    LEFT_OUT = ("epsilon",)
    ALSO = ("control_holds",)

    @property
    def control_holds(self) -> bool:
        """Return whether the control's interval holds 1/2, as about 95 of 100 honest attacks do."""
        return self.control.auc.low <= 0.5 <= self.control.auc.high

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, without anything about the records."""
        epsilon = self.epsilon
        stated = {"epsilon_measured": epsilon.epsilon, "delta": epsilon.delta, "confidence": epsilon.confidence}
        return {**Result.to_dict(self), **stated}

    def explain(self) -> str:
        """Return the result in plain words."""
        epsilon = self.epsilon
        at = f" at delta {format_delta(epsilon.delta)}" if epsilon.delta else ""
        lines = [
            f"Membership inference, {self.members:,} members and {self.non_members:,} non-members",
            f"  attack    {self.main.name}: {self.main}",
            f"  control   {self.control.name}: {self.control}",
            *(f"  baseline  {plain.name}: {plain}" for plain in self.baselines),
        ]
        lines.append(
            f"The counts amount to epsilon {epsilon.epsilon:.3g}{at} for {self.relation} of the training records, the "
            "model being public and its trainer trusted (central): measured on one model, it refutes no guarantee."
        )
        if not self.control_holds:
            lines.append("The control found something where there is nothing: do not rely on this attack.")
        return "\n".join([*lines, *self.notes, signature_line(self.signature)])


@dataclass(frozen=True, slots=True)
class Measure:
    """Settings that all attacks share, and the computation of results from scores.

    `seed` seeds bootstrap, halves and permutations. `relation` is the neighbouring relation of epsilon. Two halves of
    one size, members and non-members, differ by replacing a record. If an independent coin decided the membership of
    each record, the sets differ by adding or removing a record.
    """

    seed: int = 0
    resamples: int = 1000
    confidence: float = 0.95
    delta: float = 0.0
    relation: Relation = Relation.REPLACE_ONE

    def result(
        self, named: Sequence[tuple[str, MemberScores]], *, notes: Sequence[str] = (), signature: Mapping[str, Json]
    ) -> MembershipResult:
        """Return the result of scores by name: the attack, its control, then baselines; errors as `roc.attack`."""
        settings = {name: value for name, value in fields_as_json(self).items() if name != "relation"}
        judge = partial(attack, seed=self.seed, resamples=self.resamples, confidence=self.confidence)
        main, control, *baselines = (judge(name, *scores) for name, scores in named)
        members, others = named[0][1]
        return MembershipResult(
            main=main,
            control=control,
            baselines=tuple(baselines),
            epsilon=epsilon_measured(members, others, seed=self.seed, delta=self.delta, confidence=self.confidence),
            relation=self.relation,
            members=len(members),
            non_members=len(others),
            notes=tuple(notes),
            signature={**signature, **settings},
        )


#: Name of the trained control.
CONTROL: Final = "the same on a classifier trained on half of both"
#: The number of confidence scores that the ADePT paper's attacker sees.
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
    """Attack by a threshold on a given score, such as minus the reconstruction loss of an auto-encoder.

    The scores are `(n,)` of members and `(m,)` of others, higher for likelier members. `control` has the same scores by
    a model that was trained on neither side, or on equal parts of both. Without `control` the membership of the given
    scores is permuted, which tests the counting alone. `baselines` are scores of simpler attackers, such as
    `blind_scores` of the texts. ConfigError for no scores, NaN, or a setting out of its range.
    """
    measure = measure or Measure()
    members, non_members = check_scores("member", members), check_scores("non-member", non_members)
    shown = "the same score by a model that knows nothing of who is a member"
    if control is None:
        shown = "membership permuted"
        mixed = np.random.default_rng(measure.seed).permutation(np.concatenate([members, non_members]))
        control = mixed[: len(members)], mixed[len(members) :]
    named = [(name, (members, non_members)), (shown, control), *(baselines or {}).items()]
    return measure.result(named, notes=notes, signature={"attack": "scores"})


def top_scores(scorer: Scorer, texts: Sequence[str], *, top: int = TOP_SCORES) -> Floats:
    """Return the largest confidence scores of each text, `(n_texts, top)`, falling; 0 beyond the number of labels."""
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
    """Attack as the ADePT paper does: a shadow classifier teaches how confident a model is in members.

    The attack is of Krishna et al. 2021, section 4.5, after Shokri et al. 2017. The shadow is trained like the target,
    on the attacker's own records. A logistic regression on its top five scores, sorted and standardised, learns to tell
    its members from its non-members, and is applied to the scores of the target. The control attacks a classifier
    trained on half of either side. The baselines are the loss threshold (Yeom et al. 2018) and the attacker that sees
    no model (`blind_scores`).

    The target was trained on the members, or on their `transform`, which the records of shadow and control go through,
    too. The members, the non-members and the attacker's two sides are records with labels, and the two sides of a pair
    have equal numbers. The attacker's records should not be the target's; a note says how many are. `seed` is of
    shadow, control and bootstrap. `on_progress` is called with the number of models trained and the number in all.
    ConfigError: uneven or overlapping sides, missing labels, or a setting out of its range.
    """
    check_members(members, non_members)
    check_members(shadow_train, shadow_out, ("shadow_train", "shadow_out"))
    measure = replace(measure or Measure(), seed=seed)
    rng = np.random.default_rng(seed)

    def trained(records: Sequence[Record], done: int) -> Scorer:
        model = train_on(records, train=train, transform=transform, seed=int(rng.integers(2**31)))
        (on_progress or untold)(done, 2)
        return model

    shadow = trained(shadow_train, 1)

    def features(model: Scorer, *sides: Sequence[Record]) -> MemberScores:
        first, second = (top_scores(model, [record.text for record in side]) for side in sides)
        return first, second

    learned = _learned(*features(shadow, shadow_train, shadow_out))

    def scores(model: Scorer) -> MemberScores:
        first, second = map(learned, features(model, members, non_members))
        return first, second

    control = trained(halves_of_both(members, non_members, rng), 2)
    overlap, sure = shared_texts([*members, *non_members], [*shadow_train, *shadow_out]), logit_confidence
    known = f"{overlap:,} of the attacker's {2 * len(shadow_train):,} records are the target's: the attacker knew them."
    signature: dict[str, Json] = {"attack": "shokri", "shadow_train": len(shadow_train)}
    signature |= {"transform": transform is not None, "overlap": overlap}
    named = [
        (f"logistic regression on the top {TOP_SCORES} scores of a shadow classifier", scores(target)),
        (CONTROL, scores(control)),
        ("loss threshold", (sure(target, members), sure(target, non_members))),
        ("no look at the model", blind_scores(members, non_members, seed=seed)),
    ]
    return measure.result(named, notes=[PROXY, known] if overlap else [PROXY], signature=signature)


def _learned(members: Floats, non_members: Floats) -> Callable[[Floats], Floats]:
    """Learn log odds of membership from features; the result maps `(n, top)` to `(n,)`."""
    stacked = np.concatenate([members, non_members])
    scaled = standardiser(stacked)  # the padding is constant
    model = load_sklearn().linear_model.LogisticRegression(max_iter=1000)
    fit_quietly(model, scaled(stacked), np.arange(len(stacked)) < len(members))
    return lambda features: np.asarray(model.decision_function(scaled(features)), np.float64)
