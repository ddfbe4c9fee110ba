"""What a topic report says: noisy numbers of units by label and topic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dptext.types import Floats, Json

_NORMAL: Final = 1.959964  # a normal variable is within so many deviations in 95%


@dataclass(frozen=True, slots=True)
class Topics:
    """Noisy numbers of units. Rows are labels (one row without any), columns topics (one column without any).

    Attributes:
        counts: noisy numbers, `(labels, topics)`; below 0 by chance.
        margin: half of the interval of each number, at 95%.
        topics: each topic's public words and public texts.
        counted: noisy numbers by label that have less noise than the sums over the topics, `(labels,)`, where there are
            some, and half of their interval.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    margin: float
    topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    unit: str = "document"
    counted: tuple[tuple[float, ...], float] | None = None

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
        counted: tuple[Floats, float] | None = None,
    ) -> Topics:
        """The report of numbers `(labels, topics)` whose noise has this standard deviation; `counted` likewise."""
        rows = tuple(tuple(map(float, row)) for row in counts)
        own = None if counted is None else (tuple(map(float, counted[0])), _NORMAL * counted[1])
        return cls(tuple(labels), rows, _NORMAL * deviation, topics, unit, own)

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
            "topics": [{"words": list(words), "examples": list(texts)} for words, texts in self.topics],
            "note": "numbers with noise: all names, words and examples are public",
        }

    def sentences(self) -> tuple[str, ...]:
        """The largest labels and topics in plain words."""
        said = []
        if self.labels:
            numbers, margin = self.by_label
            named = ", ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(self.labels, numbers))
            said.append(f"Labels, in {self.unit}s, each within {margin:,.0f} at 95%: {named}.")
        if self.topics:
            numbers, margin = self.by_topic
            names = [" ".join(words[:3]) for words, _ in self.topics]
            named = "; ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(names, numbers))
            said.append(f"Topics, each within {margin:,.0f} at 95%: {named}.")
        return tuple(said)


def _largest(names: Sequence[str], numbers: Sequence[float]) -> list[tuple[str, float]]:
    return sorted(zip(names, numbers, strict=True), key=lambda each: -each[1])[:8]
