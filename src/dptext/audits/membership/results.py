"""What a membership attack found: one score, one attack with its control and baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dptext.audits.bounds import EpsilonLowerBound
from dptext.audits.report import Result, signature_line
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
from dptext.estimates import Estimate
from dptext.privacy.guarantee import Relation, format_delta
from dptext.types import Floats, Json, fields_as_json

#: Scores of the members and of the non-members, `(n,)` each, higher where the attacker believes "member".
MemberScores = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Attack(Result):
    """How well one score told members from non-members.

    The `auc` has an interval by bootstrap over records. The `tprs` are true positives at 0.1% and 1% false ones, the
    `roc` those at 0.1% to 100%, for `dptext.report.roc_figure`.
    """

    name: str
    auc: Estimate
    tprs: tuple[TruePositives, ...]
    roc: Roc

    def __str__(self) -> str:
        return "; ".join([f"AUC {self.auc}", *map(str, self.tprs)])


@dataclass(frozen=True, slots=True)
class MembershipResult(Result):
    """The outcome of a membership attack on one trained model.

    The control is the same attack where there is nothing to find: its AUC must be about 1/2. The baselines are
    attackers that do not look at the model, or look at it in the plainest way. The epsilon is what the counts of the
    main attack amount to, for the trained model as a whole (central trust), by `dptext.audits.roc.epsilon_measured`,
    for training sets that are neighbours by the relation.
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
        """Whether the control's interval holds 1/2, as it does in about 95 of 100 honest attacks."""
        return self.control.auc.low <= 0.5 <= self.control.auc.high

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        epsilon = self.epsilon
        stated = {"epsilon_measured": epsilon.epsilon, "delta": epsilon.delta, "confidence": epsilon.confidence}
        return {**Result.to_dict(self), **stated}

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
        lines.append(signature_line(self.signature))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Measure:
    """How scores become results. All attacks share these settings.

    The seed is of bootstrap, halves and permutations. The relation says which neighbours the epsilon is about. Two
    halves of one size, members and non-members, differ by replacing a record. Where each record was a member by a coin
    of its own, they differ by adding or removing one.
    """

    seed: int = 0
    resamples: int = 1000
    confidence: float = 0.95
    delta: float = 0.0
    relation: Relation = Relation.REPLACE_ONE

    def attack(self, name: str, scores: MemberScores) -> Attack:
        """AUC, true positives and curve of a score; ConfigError where there are no scores, or NaN."""
        members, others = check_scores(f"{name}, member", scores[0]), check_scores(f"{name}, non-member", scores[1])
        return Attack(
            name,
            area_interval(members, others, seed=self.seed, resamples=self.resamples, confidence=self.confidence),
            tuple(true_positives_at(members, others, rate, confidence=self.confidence) for rate in RATES),
            curve(members, others),
        )

    def result(
        self,
        main: tuple[str, MemberScores],
        control: tuple[str, MemberScores],
        baselines: Mapping[str, MemberScores],
        *,
        notes: Sequence[str] = (),
        signature: Mapping[str, Json],
    ) -> MembershipResult:
        """All that is reported of an attack; ConfigError as `attack`."""
        settings = {name: value for name, value in fields_as_json(self).items() if name != "relation"}
        return MembershipResult(
            main=self.attack(*main),
            control=self.attack(*control),
            baselines=tuple(self.attack(name, scores) for name, scores in baselines.items()),
            epsilon=epsilon_measured(*main[1], seed=self.seed, delta=self.delta, confidence=self.confidence),
            relation=self.relation,
            members=len(main[1][0]),
            non_members=len(main[1][1]),
            notes=tuple(notes),
            signature={**signature, **settings},
        )
