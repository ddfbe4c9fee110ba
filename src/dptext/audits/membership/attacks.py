"""Membership inference: was this record in the training data of the model?

`shokri` attacks a classifier as the ADePT paper does (Krishna et al. 2021, section 4.5, after Shokri et al. 2017),
`lira` (in a module beside it) as Carlini et al. 2022, and `from_scores` takes any score, such as an auto-encoder's
reconstruction loss. Each reports beside the attack a control, where there is nothing to find, and baselines.

A guarantee of local privacy is about what one release tells of its own record. That a classifier trained on releases
does not give its training records away is a consequence, and no test of it: membership inference on such a classifier
is a proxy that sees little of the harm (Habernal 2021, section 7). Nothing here refutes a guarantee.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext.audits.bounds import EpsilonLowerBound
from dptext.audits.features import load_sklearn
from dptext.audits.membership.members import (
    Scorer,
    Trainer,
    Transform,
    blind_scores,
    check_members,
    halves_of_both,
    logit_confidence,
    shared_texts,
    train_on,
)
from dptext.audits.roc import (
    RATES,
    Roc,
    TruePositives,
    area_interval,
    check_scores,
    curve,
    epsilon_measured,
    true_positives_at,
)
from dptext.audits.subjects import Progress
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.privacy.guarantee import Relation, format_delta
from dptext.text.records import Record
from dptext.types import Floats, Json

#: Scores of the members and of the non-members, higher where the attacker believes "member".
Scores = tuple[Floats, Floats]

#: How many confidence scores the ADePT paper's attacker sees.
TOP: Final = 5

PROXY: Final = (
    "A guarantee of local privacy is about the record itself; an attack on a classifier trained on releases is only a "
    "proxy (Habernal 2021, section 7)."
)


@dataclass(frozen=True, slots=True)
class Attack:
    """How well one score told members from non-members.

    Attributes:
        name: what the score is.
        auc: with an interval by bootstrap over records.
        tprs: true positives at 0.1% and 1% false ones.
        roc: true positive rates from 0.1% to 100% false ones, for `dptext.report.roc_figure`.
    """

    name: str
    auc: Estimate
    tprs: tuple[TruePositives, ...]
    roc: Roc

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "name": self.name,
            "auc": {**self.auc.to_dict()},
            "tprs": [rate.to_dict() for rate in self.tprs],
            "roc": self.roc.to_dict(),
        }

    def __str__(self) -> str:
        return "; ".join([f"AUC {self.auc}", *map(str, self.tprs)])


@dataclass(frozen=True, slots=True)
class MembershipResult:
    """The outcome of a membership attack on one trained model.

    Attributes:
        main: the attack.
        control: the same attack where there is nothing to find; its AUC must be about 1/2.
        baselines: attackers that do not look at the model, or look at it in the plainest way.
        epsilon: what the counts of the main attack amount to, for the trained model as a whole (central trust); a
            measured quantity, see `dptext.audits.roc.epsilon_measured`.
        relation: which neighbouring training sets that epsilon is about.
        members, non_members: how many of each were attacked.
        notes: what a reader must know.
        signature: the settings that made the numbers.
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

    @property
    def control_holds(self) -> bool:
        """Whether the control's interval holds 1/2, as it does in about 95 of 100 honest attacks."""
        return self.control.auc.low <= 0.5 <= self.control.auc.high

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        return {
            "main": self.main.to_dict(),
            "control": self.control.to_dict(),
            "baselines": [attack.to_dict() for attack in self.baselines],
            "epsilon_measured": self.epsilon.epsilon,
            "delta": self.epsilon.delta,
            "confidence": self.epsilon.confidence,
            "relation": str(self.relation),
            "members": self.members,
            "non_members": self.non_members,
            "control_holds": self.control_holds,
            "notes": list(self.notes),
            "signature": dict(self.signature),
        }

    def explain(self) -> str:
        """The result in plain words."""
        epsilon = self.epsilon
        at = f" at delta {format_delta(epsilon.delta)}" if epsilon.delta else ""
        lines = [
            f"Membership inference, {self.members:,} members and {self.non_members:,} non-members",
            f"  attack    {self.main.name}: {self.main}",
            f"  control   {self.control.name}: {self.control}",
            *(f"  baseline  {attack.name}: {attack}" for attack in self.baselines),
        ]
        lines.append(
            f"The counts amount to epsilon {epsilon.epsilon:.3g}{at} for {self.relation} of the training records, the "
            "model being public and its trainer trusted (central): measured on one model, it refutes no guarantee."
        )
        if not self.control_holds:
            lines.append("The control found something where there is nothing: do not rely on this attack.")
        lines += self.notes
        lines.append("[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in self.signature.items()) + "]")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Measure:
    """How scores become results: the settings that all attacks share.

    Attributes:
        seed: of bootstrap, halves and permutations.
        resamples: of the bootstrap.
        confidence: of all intervals.
        delta: of the measured epsilon.
        relation: which neighbours that is about. Members and non-members that are two halves of one size differ by
            replacing a record; where each was a member by a coin of its own, by adding or removing one.
    """

    seed: int = 0
    resamples: int = 1000
    confidence: float = 0.95
    delta: float = 0.0
    relation: Relation = Relation.REPLACE_ONE

    def attack(self, name: str, scores: Scores) -> Attack:
        """AUC, true positives and curve of a score.

        Raises:
            ConfigError: no scores, NaN, or a setting out of its range.
        """
        members, others = check_scores(f"{name}, member", scores[0]), check_scores(f"{name}, non-member", scores[1])
        return Attack(
            name,
            area_interval(members, others, seed=self.seed, resamples=self.resamples, confidence=self.confidence),
            tuple(true_positives_at(members, others, rate, confidence=self.confidence) for rate in RATES),
            curve(members, others),
        )

    def result(
        self,
        main: tuple[str, Scores],
        control: tuple[str, Scores],
        baselines: Mapping[str, Scores],
        *,
        notes: Sequence[str] = (),
        signature: Mapping[str, Json],
    ) -> MembershipResult:
        """All that is reported of an attack.

        Raises:
            ConfigError: as `attack`.
        """
        return MembershipResult(
            main=self.attack(*main),
            control=self.attack(*control),
            baselines=tuple(self.attack(name, scores) for name, scores in baselines.items()),
            epsilon=epsilon_measured(*main[1], seed=self.seed, delta=self.delta, confidence=self.confidence),
            relation=self.relation,
            members=len(main[1][0]),
            non_members=len(main[1][1]),
            notes=tuple(notes),
            signature={
                **signature,
                "seed": self.seed,
                "resamples": self.resamples,
                "confidence": self.confidence,
                "delta": self.delta,
            },
        )


def from_scores(
    members: Floats,
    non_members: Floats,
    *,
    name: str,
    control: Scores | None = None,
    baselines: Mapping[str, Scores] | None = None,
    measure: Measure | None = None,
    notes: Sequence[str] = (),
) -> MembershipResult:
    """The attack that thresholds a given score, such as minus the reconstruction loss of an auto-encoder.

    Args:
        members: `(n,)`, higher where the attacker believes "member".
        non_members: `(m,)`.
        name: of the score.
        control: the same scores by a model that was trained on neither, or on as much of both; without it the
            membership of the given scores is permuted, which tests the counting alone.
        baselines: scores of plainer attackers, such as `blind_scores` of the texts.
        measure: settings of intervals and of the measured epsilon.
        notes: what a reader must know.

    Raises:
        ConfigError: no scores, NaN, or a setting out of its range.
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


def top_scores(scorer: Scorer, texts: Sequence[str], *, top: int = TOP) -> Floats:
    """The largest confidence scores of each text in decreasing order, `(n_texts, top)`; 0 where labels are fewer."""
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
    on_progress: Progress | None = None,
) -> MembershipResult:
    """The attack of the ADePT paper: a shadow classifier teaches what confidence in members looks like.

    The shadow is trained like the target on the attacker's own records; a logistic regression on its top five scores,
    sorted and standardised, learns to tell the shadow's members from its non-members, and is applied to the target's.
    The control attacks a classifier trained on half of the members and half of the non-members. Baselines: the loss
    threshold (Yeom et al. 2018) and the attacker that sees no model (`blind_scores`).

    Args:
        target: the attacked classifier; trained on the members, or on their transform.
        members: the original records, with their labels.
        non_members: as many others.
        shadow_train: the attacker's records that the shadow is trained on; disjoint from the target's where possible,
            else a note says how many are not.
        shadow_out: as many others of the attacker's.
        train: trains like the target was trained.
        seed: of shadow, control and bootstrap.
        transform: what the target's training records went through; the shadow's and the control's go through it too.
            The attack asks about original texts.
        measure: settings of intervals and of the measured epsilon; its seed is replaced by `seed`.
        on_progress: called with models trained and models in all.

    Raises:
        ConfigError: uneven or overlapping sides, missing labels, or a setting out of its range.
        MissingExtraError: scikit-learn is absent.
    """
    check_members(members, non_members)
    check_members(shadow_train, shadow_out, ("shadow_train", "shadow_out"))
    measure = seeded_measure(measure, seed)
    rng = np.random.default_rng(seed)

    def trained(records: Sequence[Record], done: int) -> Scorer:
        model = train_on(records, train=train, transform=transform, seed=int(rng.integers(2**31)))
        if on_progress is not None:
            on_progress(done, 2)
        return model

    shadow = trained(shadow_train, 1)
    learned = _learned(_features(shadow, shadow_train), _features(shadow, shadow_out))

    def scores(model: Scorer) -> Scores:
        return learned(_features(model, members)), learned(_features(model, non_members))

    control = trained(halves_of_both(members, non_members, rng), 2)
    overlap = shared_texts([*members, *non_members], [*shadow_train, *shadow_out])
    notes = [PROXY]
    if overlap:
        notes.append(
            f"{overlap:,} of the attacker's {2 * len(shadow_train):,} records are the target's: the attacker knew them."
        )
    return measure.result(
        (f"logistic regression on the top {TOP} scores of a shadow classifier", scores(target)),
        ("the same on a classifier trained on half of both", scores(control)),
        {
            "loss threshold": (logit_confidence(target, members), logit_confidence(target, non_members)),
            "no look at the model": blind_scores(members, non_members, seed=seed),
        },
        notes=notes,
        signature={
            "attack": "shokri",
            "shadow_train": len(shadow_train),
            "transform": transform is not None,
            "overlap": overlap,
        },
    )


def seeded_measure(measure: Measure | None, seed: int) -> Measure:
    """The settings with this seed."""
    old = measure or Measure()
    return Measure(seed, old.resamples, old.confidence, old.delta, old.relation)


def _features(model: Scorer, records: Sequence[Record]) -> Floats:
    return top_scores(model, [record.text for record in records])


def _learned(members: Floats, non_members: Floats) -> Callable[[Floats], Floats]:
    """Log odds of membership given features, `(n, top)` to `(n,)`."""
    sklearn = load_sklearn()
    stacked = np.concatenate([members, non_members])
    centre, spread = stacked.mean(axis=0), stacked.std(axis=0)
    spread[spread == 0] = 1.0  # the padding
    model = sklearn.linear_model.LogisticRegression(max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)  # a rough score is a score
        model.fit((stacked - centre) / spread, np.arange(len(stacked)) < len(members))
    return lambda features: np.asarray(model.decision_function((features - centre) / spread), np.float64)
