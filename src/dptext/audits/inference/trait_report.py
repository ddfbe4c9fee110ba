"""What a trait attack found: from scores of two sets to areas, accuracies and the bound on epsilon."""

import math
from dataclasses import dataclass, replace
from typing import Final

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, accuracy_implies, epsilon_from_attribution
from dptext.audits.report import InferenceReport, InferenceRow, Result, exactly
from dptext.audits.roc import area_interval
from dptext.estimates import Estimate, clopper_pearson
from dptext.types import Booleans, Floats, Json, as_json

#: The notes that every report has.
NO_GUARANTEE: Final = (
    "A measurement of these attackers on these texts, no guarantee: another attacker, or more training text, may do "
    "more, and a low accuracy proves nothing."
)
TWO_SETS: Final = (
    "Epsilon is of the two redacted sets, for one text drawn of either: Pr[S | one set] <= e^epsilon Pr[S | other set] "
    "+ delta. It is bounded from below only, and it is not differential privacy of any record."
)
EMPTY_TEXTS: Final = "Empty texts hide every trait: read each accuracy with the similarity beside it."


@dataclass(frozen=True, slots=True)
class TraitRow(InferenceRow):
    """How well one attacker told the sets apart, and how much the texts still say.

    The name is that of the attacker, and of what it attacked where that is not the releases. So many texts were
    attacked, half of each set.

    The `auc` is the chance that a text of the first set has a higher score than one of the second, ties as one half;
    bootstrap over texts. The interval is right in the limit of many texts, and has no width where scores separate all.
    The `accuracy` is the share of the texts on their side of the threshold 0, which was fixed beforehand;
    Clopper-Pearson. For fixed texts releases are independent, and so are hits. The interval speaks of further texts as
    far as the attacked ones are an independent sample of them, which sentences of few documents are not. The `epsilon`
    is what that accuracy needs, ln((accuracy - delta) / (1 - accuracy)), also at the ends of its interval. The
    `similarity` is the mean cosine of the attacked texts to their own originals; bootstrap over texts.
    """

    name: str
    auc: Estimate
    accuracy: Estimate
    epsilon: Estimate
    similarity: Estimate
    attacked: int

    CELLS = (("AUC", "auc"), ("accuracy", "accuracy"), ("epsilon needed", "epsilon"), ("similarity", "similarity"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraitReport(InferenceReport[TraitRow]):
    """The outcome of telling two redacted sets apart. It shows no text.

    The texts are counted for each set. The baselines are the static attackers on the originals, and one set for all
    texts (exact). The `best` attack has the highest accuracy. The `bound` is the least epsilon of the two sets by it,
    for which the error is divided among all; the `ceiling` is what that would be if every guess were right.
    """

    best: str
    bound: EpsilonLowerBound
    ceiling: float

    LEFT_OUT = ("bound",)

    def _guessed(self) -> tuple[int, float]:
        return self.attacks[0].attacked, 0.5

    def refutes(self, epsilon: float) -> bool:
        """Whether the two sets cannot be indistinguishable at this epsilon and the report's delta; False is no proof.

        Somebody may state such an epsilon of the sets, say from a measured divergence. ConfigError for a negative one.
        """
        _validate.within(0, math.inf, epsilon=epsilon)
        return epsilon < self.bound.epsilon

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        bound = self.bound
        stated = {"epsilon_lower_bound": as_json(bound.epsilon), "delta": bound.delta, "confidence": bound.confidence}
        return {**Result.to_dict(self), **stated}

    def _said(self) -> tuple[str, str]:
        settings = (
            f"Two sets, {self.training_texts:,} training texts and {self.attacked_texts:,} attacked texts of each; "
            f"similarity by {self.embedder}; intervals at {100 * self.bound.confidence:.6g}%."
        )
        right = next(row.accuracy.value for row in self.attacks if row.name == self.best)
        found = (
            f"The best of {len(self.attacks)} attacks, {self.best}, is right in {right:.3f}. With a correction for the "
            f"choice among them, epsilon of the two sets is at least {self.bound.epsilon:.3g} at delta "
            f"{self.bound.delta:g} ({self.ceiling:.3g} if every guess were right)."
        )
        return settings, found


def epsilon_from_accuracy(accuracy: Estimate, *, delta: float = 0.0) -> Estimate:
    """The epsilon of two sets that a balanced attack of this accuracy needs, by `accuracy_implies`.

    It rises with the accuracy, so the ends of the interval become ends of the same confidence. The *low* end is what
    the attack shows. The high end bounds no epsilon: another attack may be more accurate.
    """
    value, low, high = (accuracy_implies(x, delta=delta) for x in (accuracy.value, accuracy.low, accuracy.high))
    return Estimate(value, low, high, accuracy.confidence)


@dataclass(frozen=True, slots=True, repr=False)
class SetJudge:
    """Turns scores `(n_texts,)` into rows of the report.

    `true` `(n_texts,)` says which attacked texts are of the first set; `permuted` is the same in a random order.
    """

    true: Booleans
    permuted: Booleans
    seed: int
    confidence: float
    delta: float

    def row(self, name: str, scores: Floats, similarity: Estimate, *, control: bool = False) -> TraitRow:
        """The row of an attack; as a control scores are held against permuted sets."""
        if control:
            return replace(self, true=self.permuted).row(name, scores, similarity)
        right = clopper_pearson(self.hits(scores), len(self.true), confidence=self.confidence)
        area = area_interval(scores[self.true], scores[~self.true], seed=self.seed, confidence=self.confidence)
        return TraitRow(name, area, right, epsilon_from_accuracy(right, delta=self.delta), similarity, len(self.true))

    def majority(self, similarity: Estimate) -> TraitRow:
        """The row of a guess at one set for every text: exact, as there are as many texts of each."""
        half, nothing = (exactly(x, self.confidence) for x in (0.5, 0.0))
        return TraitRow("majority: one set for all", half, half, nothing, similarity, len(self.true))

    def hits(self, scores: Floats) -> int:
        """How many texts are on their side of 0; a score of exactly 0 counts for the second set."""
        return int(((scores > 0) == self.true).sum())

    def bound(self, hits: int, *, tests: int) -> EpsilonLowerBound:
        """The bound on epsilon for so many hits, as for two authors."""
        given = {"delta": self.delta, "confidence": self.confidence}
        return epsilon_from_attribution(hits, len(self.true), authors=2, tests=tests, **given)
