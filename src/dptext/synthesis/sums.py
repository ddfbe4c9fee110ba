"""Sums over a private corpus, which are released once, with noise.

Every unit (a document, or all documents of an author) adds one vector of whole numbers whose length is at most `STEPS`.
Whole numbers add up exactly in any order, so that one more unit moves the sum by exactly its own vector. The noise is a
discrete Gaussian in the same steps. No rounding error is left to be accounted for.

Let s be the coordinates of a vector that may be negative, and u the others. If units are replaced, a vector must have
2 |s|^2 + |u|^2 <= `STEPS`^2. Then two vectors are at most sqrt(2) `STEPS` apart: |s - s'|^2 <= 2 |s|^2 + 2 |s'|^2, and
|u - u'|^2 <= |u|^2 + |u'|^2 because <u, u'> >= 0 (derivations, "One sum of blocks").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.guarantee import Relation
from dptext.sampling.discrete import discrete_gaussian, uniform_below
from dptext.sampling.hub import Nudged
from dptext.sampling.randomness import Randomness
from dptext.types import Booleans, Floats, Integers

#: The number of steps in a length of 1. A coordinate is rounded toward 0 by less than one step.
STEPS = 1 << 14
_MOST_SIGMA = 1 << 24  # the limit of `discrete_gaussian`
_TOGETHER = 4096  # authors whose sums are kept and merged together
_EXACT = 1 << 52  # below it the root of a whole number, rounded down, is exact in double precision


def in_steps(length: float) -> float:
    """Return `length` rounded down to a whole number of steps, which `PrivateSum.add` keeps exactly."""
    return math.floor(length * STEPS) / STEPS


@dataclass(frozen=True, slots=True)
class Noise:
    """Discrete Gaussian noise that makes a sum rho-zCDP.

    One more unit changes the sum by the vector of that unit: by at most `STEPS`. A replaced unit changes the sum by at
    most `sqrt(2) STEPS`, by the bound on vectors that `PrivateSum` enforces. The noise of a coordinate has parameter
    sigma = sensitivity / sqrt(2 rho), rounded up (Canonne, Kamath and Steinke 2020, theorem 14).

    Attributes:
        rho: parameter of zero-concentrated differential privacy; infinity for no noise, in experiments alone.
        relation: how neighbouring corpora differ: by one unit more (add or remove one), or by another unit in the place
            of one (replace one).
    """

    rho: float
    relation: Relation

    def __post_init__(self) -> None:
        if math.isnan(self.rho) or self.rho <= 0:
            raise ConfigError(f"Expected rho={self.rho!r} > 0.")
        if self.relation is Relation.REPLACE_SPECIAL:
            raise ConfigError("Expected relation='add_or_remove_one' or 'replace_one'.")
        if self.sigma > _MOST_SIGMA:
            least = (self.sensitivity / _MOST_SIGMA) ** 2 / 2
            remedy = "so much noise cannot be drawn. Choose a larger epsilon"
            raise ConfigError(f"Expected rho={self.rho:.2g} >= {least:.2g}: {remedy}.")

    @property
    def sensitivity(self) -> float:
        """The largest change of a sum by one unit, in steps, rounded up."""
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            return STEPS
        return math.nextafter(math.sqrt(2) * STEPS, math.inf)

    @property
    def sign_weight(self) -> int:
        """The weight of the square of a coordinate that may be negative in the length of a vector."""
        return 1 if self.relation is Relation.ADD_OR_REMOVE_ONE else 2

    @property
    def sigma(self) -> int:
        """The parameter of the noise, in steps; 0 for no noise."""
        return 0 if math.isinf(self.rho) else math.ceil(self.sensitivity / math.sqrt(2 * self.rho) * (1 + 2.0**-40))

    @property
    def scale(self) -> float:
        """The standard deviation of a coordinate's noise, in units in which a vector has length at most 1."""
        return self.sigma / STEPS

    def draw(self, size: int, randomness: Randomness) -> Integers:
        """Draw noise for `size` coordinates, in steps."""
        return discrete_gaussian(self.sigma, size, randomness) if self.sigma else np.zeros(size, np.int64)


class Draws:
    """All random draws of a synthesis for private texts: noise of sums, choices among options, and groups of units.

    A synthesis draws by these methods alone. The contract passes a subclass that records draws and can repeat them, and
    so sees all draws, also of a synthesis from another package. `randomness` is for draws that depend on no private
    text, such as the order of released texts.
    """

    __slots__ = ("randomness",)

    def __init__(self, randomness: Randomness) -> None:
        self.randomness = randomness

    def __repr__(self) -> str:
        return "Draws(...)"

    def noisy(self, clean: Integers, noise: Noise) -> Floats:
        """Return a sum of whole steps `(cells,)` with its noise, in steps."""
        return np.asarray(clean + noise.draw(clean.size, self.randomness), np.float64)

    def chosen(self, choice: Nudged, total: Integers, public: Floats) -> Integers:
        """Choose one option for each row, `(rows,)`; see `Nudged.choose`."""
        return choice.choose(total, public, self.randomness)

    def groups(self, units: Sequence[tuple[int, str]], groups: Integers) -> list[int]:
        """Draw a group for each unit `(label, text)`, uniformly below `groups[label]`."""
        found = np.empty(len(units), np.int64)
        labels = np.array([label for label, _ in units], np.int64)
        for label, n in enumerate(groups.tolist()):
            own = labels == label
            found[own] = uniform_below(n, int(own.sum()), self.randomness)
        return found.tolist()

    def takes(self, n: int, before: str, text: str) -> bool:
        """Return whether an author's n-th `text` replaces the text kept so far, `before`, with probability 1/n.

        So each text of the author has the same chance to be kept at the end (reservoir sampling).
        """
        return bool(uniform_below(n, 1, self.randomness)[0] == 0)


class PrivateSum:
    """The sum of one vector per unit, `(cells,)`, which cannot be read without noise.

    Units are documents, or authors; an author's documents add up before they are clipped. Memory is that of one vector
    and, for authors, that of the cells that each author touched, and as much again until runs are merged.

    Args:
        cells: number of coordinates.
        noise: noise of each coordinate.
        by_author: whether units are authors.
        signed: number of the first coordinates, which may be negative. The squares of these have `noise.sign_weight` in
            the length of a vector.
    """

    __slots__ = ("_authors", "_blocks", "_noise", "_signed", "_total")

    def __init__(self, cells: int, noise: Noise, *, by_author: bool = False, signed: int = 0) -> None:
        _validate.count(cells=cells)
        _validate.within(0, cells, signed=signed)
        self._noise, self._signed = noise, signed
        self._total = np.zeros(cells, np.int64)
        self._authors: dict[str, int] | None = {} if by_author else None  # numbers, in the order of their first records
        self._blocks: dict[int, _AuthorSums] = {}  # of so many authors each, by number

    def __repr__(self) -> str:
        return "PrivateSum(...)"

    def __reduce__(self) -> str:
        raise TypeError("A PrivateSum cannot be copied or serialised: it holds private sums without noise.")

    def add(self, cells: Integers, values: Floats, authors: list[str | None] | None = None) -> None:
        """Add one vector per document: row i adds `values[i]` to the cells `cells[i]`, both `(n, m)`.

        The cells of a row differ (else PrivacyError), and a row has length at most 1. A row that is longer or not
        finite adds nothing, nor does a row with a negative value in a cell that is not `signed`. If units are authors,
        a document without author adds nothing.
        """
        if cells.shape != values.shape or (cells.size and not (cells.min() >= 0 and cells.max() < len(self._total))):
            raise ConfigError(f"Expected cells below {len(self._total)}, one for each value.")
        doubtful = (np.diff(cells, axis=1) <= 0).any(axis=1)
        if (np.diff(np.sort(cells[doubtful], axis=1), axis=1) == 0).any():
            raise PrivacyError("A vector names a cell twice, so its length has no bound: nothing is released.")
        sound = np.abs(values).max(axis=1, initial=0.0) <= 1  # false if one is not a number
        steps = ((values if sound.all() else np.where(sound[:, None], values, 0.0)) * STEPS).astype(np.int64)
        signed = cells < self._signed
        steps[(self._weights(signed) * steps**2).sum(axis=1) > STEPS**2] = 0
        steps[((steps < 0) & ~signed).any(axis=1)] = 0
        if self._authors is None:
            self._total += _totals(cells, steps, len(self._total))
            return
        if len(authors or ()) != len(cells):
            raise ConfigError("Expected an author, or None, for each vector.")
        numbers = self._authors
        number = np.array([numbers.setdefault(each, len(numbers)) if each else -1 for each in authors or ()], np.int64)
        own = number >= 0
        self._keep(*_added_up((number[own, None] * len(self._total) + cells[own]).ravel(), steps[own].ravel()))

    def _keep(self, pairs: Integers, sums: Integers) -> None:
        """Keep the sums of pairs of an author and a cell, one whole number each, in their order."""
        blocks = pairs // (_TOGETHER * len(self._total))
        starts = np.flatnonzero(np.diff(blocks, prepend=-1)).tolist()
        for start, end in itertools.pairwise([*starts, len(pairs)]):
            block = self._blocks.setdefault(int(blocks[start]), _AuthorSums())
            block.add(pairs[start:end].copy(), sums[start:end].copy())  # a part would keep the whole

    def _clean(self) -> Integers:
        """The sum without noise: private, and for `release` alone."""
        total = self._total.copy()
        for block in self._blocks.values():
            pairs, sums = block.merged()
            where = pairs % len(total)
            starts = np.flatnonzero(np.diff(pairs // len(total), prepend=-1))
            total += _totals(where, each_clipped(sums, self._weights(where < self._signed), starts), len(total))
        return total

    def _weights(self, signed: Booleans) -> Integers:
        """The weight of each square in the length of a vector."""
        return np.where(signed, self._noise.sign_weight, 1)

    def release(self, draws: Draws) -> Floats:
        """Return the noisy sum `(cells,)`, in units of length 1. PrivacyError: it was released before."""
        if self._total.size == 0:
            raise PrivacyError("This sum was released before: with fresh noise it would be another release.")
        noisy = draws.noisy(self._clean(), self._noise)
        self._total, self._authors, self._blocks = np.empty(0, np.int64), None, {}
        return np.asarray(noisy / STEPS)


class _AuthorSums:
    """The sums of some authors, in runs: one whole number for each pair of an author and a cell, and the pair's sum.

    A pair is there once in the first run. Later runs may have it again.
    """

    __slots__ = ("_fresh", "_runs")

    def __init__(self) -> None:
        self._runs: list[tuple[Integers, Integers]] = []
        self._fresh = 0  # numbers in all runs but the first

    def add(self, pairs: Integers, sums: Integers) -> None:
        """Add a run. The runs are merged as soon as the later ones hold as much as the first."""
        self._fresh += len(pairs) if self._runs else 0
        self._runs.append((pairs, sums))
        if self._fresh >= len(self._runs[0][0]):
            self.merged()

    def merged(self) -> tuple[Integers, Integers]:
        """Return the distinct pairs in order, and the sum of each."""
        if len(self._runs) > 1:
            pairs, sums = map(np.concatenate, zip(*self._runs, strict=True))
            self._runs, self._fresh = [_added_up(pairs, sums)], 0
        return self._runs[0]


def each_clipped(steps: Integers, weights: Integers, starts: Integers) -> Integers:
    """Return `clipped` of each of several vectors, which lie end to end in `steps` `(n,)`, with their `weights` `(n,)`.

    `starts` has the place of each vector's first number, in order; no vector is empty.
    """
    ends = np.append(starts[1:], len(steps))
    squared = np.add.reduceat(weights * steps.astype(np.float64) ** 2, starts)  # exact below 2^53
    lengths = np.maximum(np.floor(np.sqrt(np.maximum(squared - 1, 0))) + 1, STEPS).astype(np.int64)
    found = np.sign(steps) * (np.abs(steps) * STEPS // np.repeat(lengths, ends - starts))
    for i in np.flatnonzero(squared >= _EXACT).tolist():
        found[starts[i] : ends[i]] = clipped(steps[starts[i] : ends[i]], weights[starts[i] : ends[i]])
    return np.asarray(found, np.int64)


def clipped(steps: Integers, weights: Integers) -> Integers:
    """Return whole numbers `(n,)`, scaled by one factor to length `STEPS` if they are longer, rounded toward 0.

    The length is the root of the sum of squares, each multiplied by its weight. One factor for all numbers keeps the
    totals of blocks equal (derivations, "One sum of blocks").
    """
    # Squares of an author's documents fit into 64 bits up to tens of thousands of them; Python's numbers have no limit.
    largest = max(int(steps.max(initial=0)), -int(steps.min(initial=0)))
    numbers = steps if len(steps) * int(weights.max(initial=1)) * largest**2 < 1 << 63 else steps.astype(object)
    squared = int((weights * numbers * numbers).sum())
    if squared <= STEPS**2:
        return steps
    length = math.isqrt(squared - 1) + 1  # rounded up
    return np.asarray(np.sign(numbers) * (np.abs(numbers) * STEPS // length), np.int64)


def _totals(places: Integers, steps: Integers, cells: int) -> Integers:
    """Return the sum of the steps at each place, `(cells,)`."""
    # Floats hold each sum exactly: no step is above `STEPS`, so that 2^38 of them are below 2^53.
    return np.bincount(places.ravel(), steps.ravel(), cells).astype(np.int64)


def _added_up(places: Integers, values: Integers) -> tuple[Integers, Integers]:
    """Return the distinct places in order, and the sum of the values at each."""
    if (places[1:] > places[:-1]).all():
        return places, values
    order = np.argsort(places, kind="stable")  # quick where runs are in order
    places = places[order]
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    return places[starts], np.add.reduceat(values[order], starts)
