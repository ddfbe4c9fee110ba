"""Lengths of texts, in public bins of words: how many private texts are how long, and what is written as long.

The number of words of a text is the number of its parts between spaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from dptext.errors import ConfigError
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.synthesis.agreement import NORMAL, Estimated, Estimates, Known
from dptext.types import Floats, Integers

#: The least number of words of each bin but the first, which has shorter texts.
USUAL_LENGTHS: Final = (10, 20, 40, 80, 160)
_MOST: Final = 16  # bins, so that none is lost in the noise
_SENTENCE_END: Final = re.compile(r"[.!?…][\"'’”)\]]*(?=\s|$)|[。！？]")


@dataclass(frozen=True, slots=True)
class Length:
    """The texts of a bin: they have at least `least` words and fewer than `below`, which is None in the last bin."""

    least: int
    below: int | None

    def __str__(self) -> str:
        if self.below is None:
            return f"{self.least} words or more"
        return f"{self.least} to {self.below - 1} words" if self.least else f"fewer than {self.below} words"


@dataclass(frozen=True, slots=True)
class LengthBins:
    """Public bins of lengths. `edges` has the least number of words of each bin but the first; () is one bin."""

    edges: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip((0, *self.edges), self.edges, strict=False)):
            raise ConfigError(f"Expected lengths to grow from 1 word on, found {', '.join(map(str, self.edges))}.")
        if len(self.edges) >= _MOST:
            raise ConfigError(f"Expected fewer than {_MOST} lengths, found {len(self.edges)}.")

    def __len__(self) -> int:
        return len(self.edges) + 1

    def of(self, texts: Sequence[str]) -> Integers:
        """Return the bin of each text, `(n,)`."""
        return np.searchsorted(self.edges, [len(text.split()) for text in texts], side="right").astype(np.int64)

    @property
    def lengths(self) -> tuple[Length, ...]:
        """The lengths of the bins."""
        return tuple(Length(*both) for both in zip((0, *self.edges), (*self.edges, None), strict=True))


#: All lengths: none is measured.
ANY_LENGTH: Final = LengthBins()


@dataclass(frozen=True, slots=True)
class LengthNumbers:
    """Noisy numbers of units by length, for a report.

    Attributes:
        names: the lengths in words.
        counts: noisy numbers, `(labels or 1, bins)`; below 0 by chance.
        margin: half of the interval of each number, at 95%.
    """

    names: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    margin: float

    @classmethod
    def of(cls, bins: LengthBins, known: Known) -> Self:
        """Return the numbers of a summary, whose shape is `(labels or 1, bins)`."""
        counts = tuple(tuple(map(float, row)) for row in known.numbers)
        return cls(tuple(map(str, bins.lengths)), counts, NORMAL * known.deviation)

    def estimates(self, counted: Known | None, whole: float) -> Estimated:
        """Return numbers by length that are not negative and add up to `whole`, that of the report.

        `counted` are noisy numbers by label `(labels,)`, if there are some.
        """
        found = Estimates.of(Known(np.array(self.counts), self.margin / NORMAL), counted).by_topic
        return replace(found, numbers=found.numbers * (whole / max(float(found.numbers.sum()), 1e-9)))


def length_shares(known: Known, sizes: Floats) -> Floats:
    """Return the shares of the bins among the texts of each label, `(labels, bins)`, from noisy numbers of that shape.

    `sizes` `(labels,)` are the numbers of units. Each number of the mix of all labels is pulled to 0 by the share of
    noise in it, so that a bin that nobody is in gets few texts. The numbers of a label are pulled towards that mix by
    the share of noise in what sets them apart, as a rare label is lost in the noise (positive-part James-Stein, both).
    """
    whole = _pulled(known.numbers.sum(axis=0), known.deviation * math.sqrt(len(sizes)))
    mix = whole / whole.sum() if whole.any() else np.full(len(whole), 1 / len(whole))
    usual = sizes[:, None] * mix
    apart = known.numbers - usual
    noise = (len(mix) - 1) * known.deviation**2
    kept = np.maximum(0.0, 1 - noise / np.maximum(np.square(apart).sum(axis=1), 1e-12))
    found = _pulled(usual + kept[:, None] * apart, known.deviation * np.sqrt(kept)[:, None])
    found[~found.any(axis=1)] = mix  # nothing but noise below 0
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _pulled(numbers: Floats, deviation: float | Floats) -> Floats:
    """Return numbers pulled to 0 by the share of noise in each; 0 where the noise is larger."""
    positive = np.maximum(numbers, 0.0)
    return np.asarray(positive * np.maximum(0.0, 1 - np.square(deviation / np.maximum(positive, 1e-12))))


def drawn_numbers(shares: Floats, n: int, source: Randomness) -> list[int]:
    """Divide `n` texts among bins by `shares` `(bins,)`: each bin gets its share, rounded at random.

    One bin takes all, and draws nothing.
    """
    if len(shares) == 1:
        return [n]
    (start,) = uniform_below(1 << 32, 1, source)
    ends = np.floor(np.cumsum(shares) * n + float(start) / (1 << 32)).astype(int)
    ends[-1] = n
    return [int(n) for n in np.diff(np.minimum(ends, n), prepend=0)]


def whole_sentences(text: str, least: int) -> str:
    """Return a text that was cut off up to the end of its last whole sentence.

    It stays as it is if fewer than `least` words, or less than half of it, would be left.
    """
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    if not ends or ends[-1] == len(text):
        return text
    kept = text[: ends[-1]]
    words = len(kept.split())
    return kept if words >= max(least, len(text.split()) / 2) else text
