"""What a topic report says: noisy numbers of units by label and topic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.types import Floats, Json

_NORMAL: Final = 1.959964  # a normal variable is within so many deviations in 95%


@dataclass(frozen=True, slots=True)
class Topics:
    """Noisy numbers of units. Rows are labels (one row without any), columns topics (one column without any).

    Attributes:
        counts: noisy numbers, `(labels, topics)`; below 0 by chance.
        margin: half of the interval of each number, at 95%.
        topics: each topic's public words and public texts.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    margin: float
    topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    unit: str = "document"

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        counts: Floats,
        deviation: float,
        topics: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
        unit: str,
    ) -> Topics:
        """The report of numbers `(labels, topics)` whose noise has this standard deviation."""
        rows = tuple(tuple(map(float, row)) for row in counts)
        return cls(tuple(labels), rows, _NORMAL * deviation, topics, unit)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "unit": self.unit,
            "labels": list(self.labels),
            "counts": [[round(n, 3) for n in row] for row in self.counts],
            "margin": self.margin,
            "confidence": 0.95,
            "topics": [{"words": list(words), "examples": list(texts)} for words, texts in self.topics],
            "note": "numbers with noise: all names, words and examples are public",
        }

    def sentences(self) -> tuple[str, ...]:
        """The largest labels and topics in plain words."""
        found = np.array(self.counts, np.float64)
        several = found.shape[1]
        said = []
        if self.labels:
            margin = self.margin * math.sqrt(several)
            named = ", ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(self.labels, found.sum(axis=1)))
            said.append(f"Labels, in {self.unit}s, each within {margin:,.0f} at 95%: {named}.")
        if self.topics:
            margin = self.margin * math.sqrt(len(found))
            names = [" ".join(words[:3]) for words, _ in self.topics]
            named = "; ".join(f"{name} {max(n, 0):,.0f}" for name, n in _largest(names, found.sum(axis=0)))
            said.append(f"Topics, each within {margin:,.0f} at 95%: {named}.")
        return tuple(said)


def _largest(names: Sequence[str], numbers: Floats) -> list[tuple[str, float]]:
    order = np.argsort(-numbers, kind="stable")[:8]
    return [(names[i], float(numbers[i])) for i in order]
