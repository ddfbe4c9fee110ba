"""What a trait attack found, as data, as JSON and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, accuracy_implies
from dptext.audits.inference.judging import at_chance, rows_table
from dptext.audits.report import signature_line
from dptext.estimates import Estimate
from dptext.types import Json, as_json, fields_as_json

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
class TraitRow:
    """How well one attacker told the sets apart, and how much the texts still say.

    Attributes:
        name: of the attacker, and of what it attacked where that is not the releases.
        auc: chance that a text of the first set has a higher score than one of the second, ties as one half; bootstrap
            over texts. The interval is right in the limit of many texts, and has no width where scores separate all.
        accuracy: share of the texts on their side of the threshold 0, which was fixed beforehand; Clopper-Pearson. For
            fixed texts releases are independent, and so are hits. The interval speaks of further texts as far as the
            attacked ones are an independent sample of them, which sentences of few documents are not.
        epsilon: what that accuracy needs, ln((accuracy - delta) / (1 - accuracy)), also at the ends of its interval.
        similarity: mean cosine of the attacked texts to their own originals; bootstrap over texts.
        attacked: how many texts, half of each set.
    """

    name: str
    auc: Estimate
    accuracy: Estimate
    epsilon: Estimate
    similarity: Estimate
    attacked: int

    def cells(self) -> dict[str, Estimate]:
        """The numbers by the heading of their column."""
        return {
            "AUC": self.auc,
            "accuracy": self.accuracy,
            "epsilon needed": self.epsilon,
            "similarity": self.similarity,
        }

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class TraitReport:
    """The outcome of telling two redacted sets apart. It shows no text.

    Attributes:
        attacks: on the releases, static ones first.
        controls: the same scores held against permuted sets. They are at chance, or the audit counts wrongly.
        baselines: the static attackers on the originals (no redaction at all), and one set for all texts (exact).
        best: name of the attack with the highest accuracy.
        bound: the least epsilon of the two sets by the best attack, for which the error is divided among all.
        ceiling: what the bound would be if every guess were right.
        training_texts, attacked_texts: how many there are of each set.
        embedder: name of the embedder behind some attackers and the similarities.
        notes: what a reader must know.
        signature: the settings that made the numbers.
    """

    attacks: tuple[TraitRow, ...]
    controls: tuple[TraitRow, ...]
    baselines: tuple[TraitRow, ...]
    best: str
    bound: EpsilonLowerBound
    ceiling: float
    training_texts: int
    attacked_texts: int
    embedder: str
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> tuple[TraitRow, ...]:
        """All rows, in the order of the table."""
        return (*self.attacks, *self.controls, *self.baselines)

    @property
    def control_holds(self) -> bool:
        """Whether chance is in the interval of every control's accuracy, as in at least 95 of 100 honest audits."""
        return at_chance([(row.accuracy, row.attacked) for row in self.controls], 0.5)

    def refutes(self, epsilon: float) -> bool:
        """Whether the two sets cannot be indistinguishable at this epsilon and the report's delta.

        Somebody may state such an epsilon of the sets, say from a measured divergence. False is no proof of it.

        Raises:
            ConfigError: epsilon is negative or NaN.
        """
        _validate.within(0, math.inf, epsilon=epsilon)
        return epsilon < self.bound.epsilon

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        return {
            "attacks": as_json(self.attacks),
            "controls": as_json(self.controls),
            "baselines": as_json(self.baselines),
            "control_holds": self.control_holds,
            "best": self.best,
            "epsilon_lower_bound": as_json(self.bound.epsilon),
            "delta": self.bound.delta,
            "confidence": self.bound.confidence,
            "ceiling": as_json(self.ceiling),
            "training_texts": self.training_texts,
            "attacked_texts": self.attacked_texts,
            "embedder": self.embedder,
            "notes": list(self.notes),
            "signature": dict(self.signature),
        }

    def to_markdown(self) -> str:
        """A table in Markdown between its settings and what to know when reading it."""
        settings = (
            f"Two sets, {self.training_texts:,} training texts and {self.attacked_texts:,} attacked texts of each; "
            f"similarity by {self.embedder}; intervals at {100 * self.bound.confidence:.6g}%."
        )
        found = (
            f"Best attack: {self.best}. Epsilon of the two sets is at least {self.bound.epsilon:.3g} at delta "
            f"{self.bound.delta:g} ({self.ceiling:.3g} if every guess were right)."
        )
        fault = () if self.control_holds else ("A control is not at chance: do not rely on these numbers.",)
        signed = signature_line(self.signature)
        return "\n".join([settings, "", *rows_table(self.rows), "", found, *fault, *self.notes, signed]) + "\n"


def epsilon_from_accuracy(accuracy: Estimate, *, delta: float = 0.0) -> Estimate:
    """The epsilon of two sets that a balanced attack needs: ln((accuracy - delta) / (1 - accuracy)).

    It rises with the accuracy, so the ends of the interval become ends of the same confidence. The *low* end is what
    the attack shows. The high end bounds no epsilon: another attack may be more accurate.

    >>> print(epsilon_from_accuracy(Estimate(0.7, 0.67, 0.73, 0.95)))
    0.85 [0.71, 0.99] (95%)

    Args:
        accuracy: on as many texts of either set.
        delta: of the indistinguishability.

    Raises:
        ConfigError: an accuracy or delta outside [0, 1].
    """
    value, low, high = (accuracy_implies(x, delta=delta) for x in (accuracy.value, accuracy.low, accuracy.high))
    return Estimate(value, low, high, accuracy.confidence)
