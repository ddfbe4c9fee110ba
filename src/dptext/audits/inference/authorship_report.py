"""What an authorship attack found, as data, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dptext.audits.inference.judging import at_chance, rows_table
from dptext.audits.report import Report, signature_line
from dptext.estimates import Estimate
from dptext.types import Json, fields_as_json

#: In the second column the author must be among so many guesses.
TOP_GUESSES: Final = 5


@dataclass(frozen=True, slots=True)
class AttributionRow:
    """How well one attacker named the authors of some texts, and how much the texts still say.

    Attributes:
        name: of the attacker, and of what it attacked where that is not the releases.
        accuracy: share of the texts (or bundles) whose author has the highest score, Clopper-Pearson. For fixed texts
            releases are independent, and so are hits, with chances of their own. The interval is of the mean chance. It
            errs on the safe side where chances differ (Hoeffding 1956), unless less than one hit or miss is expected.
            It speaks of further texts of these authors as far as the attacked ones are an independent sample of them,
            and not of other authors. The interval for originals, where nothing is random, speaks of further texts
            alone.
        top5: share whose author is among the five highest scores, Clopper-Pearson; 1 where there are no more authors.
        macro_f1: mean F1 over the authors who wrote some text or were taken for its author; bootstrap over texts
            (bundles), right in the limit of many.
        similarity: mean cosine of the attacked texts to their own originals; bootstrap over texts.
        attributed: how many texts, or bundles, were attributed.
    """

    name: str
    accuracy: Estimate
    top5: Estimate
    macro_f1: Estimate
    similarity: Estimate
    attributed: int

    def cells(self) -> dict[str, Estimate]:
        """The numbers by the heading of their column."""
        return {
            "accuracy": self.accuracy,
            f"top {TOP_GUESSES}": self.top5,
            "macro-F1": self.macro_f1,
            "similarity": self.similarity,
        }

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return fields_as_json(self)


#: The notes that every report has.
GARBAGE: Final = "Garbage hides authors perfectly: read each accuracy with the similarity beside it."
NO_PROOF: Final = (
    "A low accuracy proves nothing: another attacker, more training text or more texts a bundle may do more."
)


@dataclass(frozen=True, slots=True)
class AuthorshipReport:
    """The outcome of attributing releases to their authors. It shows no text and no author.

    Attributes:
        attacks: on the releases, static ones first.
        controls: the same guesses held against permuted authors. They are at chance, or the audit counts wrongly.
        baselines: the static attackers on the originals (no privacy at all), a guess at random (exact), and the author
            with most training texts for all.
        report: the lower bound on epsilon by the best attack, for which the error is divided among all. It is of single
            texts, for replacing one document, whatever the bundles. `report.refutes(guarantee)` compares.
        authors: how many there are.
        training_texts, attacked_texts: how many there are, of all authors.
        bundle: texts of one author that were attributed together.
        embedder: name of the embedder behind one attacker and the similarities.
        notes: what a reader must know.
        signature: the settings that made the numbers.
    """

    attacks: tuple[AttributionRow, ...]
    controls: tuple[AttributionRow, ...]
    baselines: tuple[AttributionRow, ...]
    report: Report
    authors: int
    training_texts: int
    attacked_texts: int
    bundle: int
    embedder: str
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> tuple[AttributionRow, ...]:
        """All rows, in the order of the table."""
        return (*self.attacks, *self.controls, *self.baselines)

    @property
    def control_holds(self) -> bool:
        """Whether chance is in the interval of every control, as in at least 95 of 100 honest audits."""
        return at_chance([(row.accuracy, row.attributed) for row in self.controls], 1 / self.authors)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        return {**fields_as_json(self), "report": self.report.to_dict(), "control_holds": self.control_holds}

    def to_markdown(self) -> str:
        """A table in Markdown between its settings and what to know when reading it."""
        together = "" if self.bundle == 1 else f", {self.bundle} texts of one author at a time"
        settings = (
            f"{self.authors:,} authors, {self.training_texts:,} training texts, {self.attacked_texts:,} attacked "
            f"texts{together}; similarity by {self.embedder}; intervals at {100 * self.report.confidence:.6g}%."
        )
        bound, ceiling = self.report.epsilon_lower_bound, self.report.ceiling
        found = (
            f"Single texts: epsilon is at least {bound:.3g} at delta {self.report.delta:g}, for replacing one document "
            f"({ceiling:.3g} if every guess were right)."
        )
        fault = () if self.control_holds else ("A control is not at chance: do not rely on these numbers.",)
        signed = signature_line(self.signature)
        return "\n".join([settings, "", *rows_table(self.rows), "", found, *fault, *self.notes, signed]) + "\n"
