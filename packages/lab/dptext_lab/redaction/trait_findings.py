"""Findings on two sets of texts: rows of a table from scores, and the bound on the epsilon of the sets."""

import math
from dataclasses import dataclass, replace
from typing import Final

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, accuracy_implies, epsilon_from_attribution
from dptext.audits.report import InferenceReport, InferenceRow, Result, exactly
from dptext.audits.roc import area_interval
from dptext.estimates import Estimate, clopper_pearson
from dptext.types import Booleans, Floats, Json, jsonable

#: Notes of every report on two sets.
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
    """The success of one attacker at telling the sets apart, and the similarity of the texts to their originals.

    `name` names the attacker, and the attacked texts if they are not the releases. Half of the texts are of each set.
    `auc` is the chance that a text of the first set has a higher score than a text of the second set, ties as one half;
    bootstrap over texts, right in the limit of many, without width where scores separate all. `accuracy` is the share
    of texts on their side of the threshold 0, which was fixed beforehand; Clopper-Pearson, because hits are independent
    for fixed texts. The accuracy speaks of further texts as far as the attacked texts are an independent sample of
    them, which sentences of few documents are not. `epsilon` is the epsilon that this accuracy needs, ln((accuracy -
    delta) / (1 - accuracy)), also at the ends of its interval. `similarity` is the mean cosine of the attacked texts to
    their own originals; bootstrap over texts.
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
    """The outcome of telling two redacted sets apart. The report shows no text.

    The texts are counted for each set. The baselines are the static attackers on the originals, and one set for every
    text (exact). The `best` attack has the highest accuracy. `bound` is the lower bound on the epsilon of the two sets
    by this attack, with the error divided among all attacks; `ceiling` is the bound if every guess were right.
    """

    best: str
    bound: EpsilonLowerBound
    ceiling: float

    LEFT_OUT = ("bound",)

    def _guessed(self) -> tuple[int, float]:
        return self.attacks[0].attacked, 0.5

    def refutes(self, epsilon: float) -> bool:
        """True if the sets cannot be indistinguishable at this epsilon and the report's delta; False is no proof.

        Such an epsilon of the sets may come from a measured divergence. ConfigError for a negative epsilon.
        """
        _validate.within(0, math.inf, epsilon=epsilon)
        return epsilon < self.bound.epsilon

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, without anything about the records."""
        bound = self.bound
        stated = {"epsilon_lower_bound": jsonable(bound.epsilon), "delta": bound.delta, "confidence": bound.confidence}
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
    """Return the epsilon of two sets that a balanced attack of this accuracy needs, by `accuracy_implies`.

    Epsilon rises with the accuracy, so the ends of the interval become ends of the same confidence. The attack shows
    the *low* end. The high end bounds no epsilon: another attack may be more accurate.
    """
    value, low, high = (accuracy_implies(x, delta=delta) for x in (accuracy.value, accuracy.low, accuracy.high))
    return Estimate(value, low, high, accuracy.confidence)


@dataclass(frozen=True, slots=True, repr=False)
class SetJudge:
    """Rows of the report from scores `(n_texts,)`.

    `true` `(n_texts,)` says which attacked texts are of the first set; `permuted` has the same values in a random
    order.
    """

    true: Booleans
    permuted: Booleans
    seed: int
    confidence: float
    delta: float

    def row(self, name: str, scores: Floats, similarity: Estimate, *, control: bool = False) -> TraitRow:
        """Return the row of an attack; a control compares the scores with permuted sets."""
        if control:
            return replace(self, true=self.permuted).row(name, scores, similarity)
        right = clopper_pearson(self.hits(scores), len(self.true), confidence=self.confidence)
        area = area_interval(scores[self.true], scores[~self.true], seed=self.seed, confidence=self.confidence)
        return TraitRow(name, area, right, epsilon_from_accuracy(right, delta=self.delta), similarity, len(self.true))

    def majority(self, similarity: Estimate) -> TraitRow:
        """Return the row of guessing one set for every text: exact, because each set has as many texts."""
        half, nothing = (exactly(x, self.confidence) for x in (0.5, 0.0))
        return TraitRow("majority: one set for all", half, half, nothing, similarity, len(self.true))

    def hits(self, scores: Floats) -> int:
        """Count the texts on their side of 0; a score of exactly 0 counts for the second set."""
        return int(((scores > 0) == self.true).sum())

    def bound(self, hits: int, *, tests: int) -> EpsilonLowerBound:
        """Return the bound on epsilon for this number of hits, as for two authors."""
        given = {"delta": self.delta, "confidence": self.confidence}
        return epsilon_from_attribution(hits, len(self.true), authors=2, tests=tests, **given)
