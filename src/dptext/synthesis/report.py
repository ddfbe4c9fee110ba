"""What a topic report says: noisy numbers of units by label and topic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from dptext.types import Floats, Json

_SURE: Final = 3.0  # deviations beyond which a pool is said not to fit
_NOTHING: Final = (
    "There is hardly more than noise: is the corpus empty, or are its fields named otherwise? See dptext check."
)
_NORMAL: Final = 1.959964  # a normal variable is within so many deviations in 95%


@dataclass(frozen=True, slots=True)
class PoolFit:
    """Whether a public pool fits a private corpus.

    Attributes:
        share: noisy share of texts that are less like the pool than nine in ten of its own texts are; .1 is usual.
        margin: half of its interval, at 95%.
        fits: False where the share is above twice the usual, beyond chance.
    """

    share: float
    margin: float
    fits: bool

    @classmethod
    def of(
        cls, unlike: float, deviation: float, units: float, deviation_of_units: float, *, usual: float, compared: int
    ) -> PoolFit:
        """From noisy numbers and their deviations. `usual` was found with `compared` pool texts."""
        units = max(units, 1.0)
        least = 2 * usual

        def spread(share: float) -> float:  # of unlike - share * units: noise of both, chance of records and of `usual`
            chance = usual * (1 - usual) * (1 / units + 1 / compared) * units**2
            return math.sqrt(deviation**2 + (share * deviation_of_units) ** 2 + chance)

        share = min(max(unlike / units, 0.0), 1.0)
        misfit = unlike - least * units > _SURE * spread(least)
        return cls(share, min(1.0, _NORMAL * spread(share) / units), not misfit)

    @property
    def sentence(self) -> str:
        """What it says and what helps."""
        return (
            f"The pool does not fit: {self.share:.0%} of the texts (within {self.margin:.0%}) are less like it than "
            "nine in ten of its own are. Give public texts of the same kind."
        )


@dataclass(frozen=True, slots=True)
class Topics:
    """Noisy numbers of units. Rows are labels (one row without any), columns topics (one column without any).

    Attributes:
        counts: noisy numbers, `(labels, topics)`; below 0 by chance.
        margin: half of the interval of each number, at 95%.
        topics: each topic's public words and public texts.
        counted: noisy numbers by label that have less noise than the sums over the topics, `(labels,)`, where there are
            some, and half of their interval.
        fit: whether the pool fits, where that was asked.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    margin: float
    topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    unit: str = "document"
    counted: tuple[tuple[float, ...], float] | None = None
    fit: PoolFit | None = None

    @property
    def measure(self) -> str:
        """What the numbers are of; records of an author are clipped together, so that authors are not counted."""
        return "documents" if self.unit == "document" else "weight of authors"

    @property
    def note(self) -> str:
        """What the numbers are."""
        if self.unit == "document":
            return "Numbers of documents with noise."
        return (
            "Weights of authors with noise, not how many there are: the records of an author count together with "
            "length 1 at most, spread over labels and topics."
        )

    @property
    def by_label(self) -> tuple[list[float], float]:
        """Noisy numbers by label, and half of the interval of each."""
        if self.counted is not None:
            return list(self.counted[0]), self.counted[1]
        return [sum(row) for row in self.counts], self.margin * math.sqrt(len(self.counts[0]))

    @property
    def by_topic(self) -> tuple[list[float], float]:
        """Noisy numbers by topic, and half of the interval of each."""
        return [sum(column) for column in zip(*self.counts, strict=True)], self.margin * math.sqrt(len(self.counts))

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        counts: Floats,
        deviation: float,
        topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
        unit: str,
        fit: PoolFit | None,
        counted: tuple[Floats, float] | None = None,
    ) -> Topics:
        """The report of numbers `(labels, topics)` whose noise has this standard deviation; `counted` likewise."""
        rows = tuple(tuple(map(float, row)) for row in counts)
        own = None if counted is None else (tuple(map(float, counted[0])), _NORMAL * counted[1])
        return cls(tuple(labels), rows, _NORMAL * deviation, topics, unit, own, fit)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "unit": self.unit,
            "labels": list(self.labels),
            "counts": [[round(n, 3) for n in row] for row in self.counts],
            "margin": self.margin,
            "by_label": [round(n, 3) for n in self.by_label[0]] if self.labels else [],
            "margin_by_label": self.by_label[1],
            "confidence": 0.95,
            "unlike_pool": None if self.fit is None else asdict(self.fit),
            "topics": [{"words": list(words), "examples": list(texts)} for words, texts in self.topics],
            "note": f"{self.note} All names, words and examples are public.",
        }

    def sentences(self) -> tuple[str, ...]:
        """The largest labels and topics in plain words; before them, that the pool does not fit."""
        said = [] if self.fit is None or self.fit.fits else [self.fit.sentence]
        numbers, margin = self.by_label
        if sum(numbers) < margin * math.sqrt(len(numbers)):
            said.insert(0, _NOTHING)
        if self.labels:
            named = ", ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(self.labels, numbers))
            said.append(f"Labels, in {self.measure}, each within {margin:,.0f} at 95%: {named}.")
        if self.topics:
            numbers, margin = self.by_topic
            names = [" ".join(words[:3]) for words, _ in self.topics]
            named = "; ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(names, numbers))
            said.append(f"Topics, each within {margin:,.0f} at 95%: {named}.")
        return tuple(said)


def _largest(names: Sequence[str], numbers: Sequence[float]) -> list[tuple[str, float]]:
    return sorted(zip(names, numbers, strict=True), key=lambda each: -each[1])[:8]
