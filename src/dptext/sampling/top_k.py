"""Top-k randomized response over options or labels, and the k that is best on public text.

The choice among m options is one of the k best with probability k e^epsilon / (k e^epsilon + m - k).

    >>> choice = TopKRandomizedResponse(epsilon=3.0, k=1, size=4)
    >>> choice.distribution(np.array([[0.1, 0.9, 0.3, 0.2]])).round(3).tolist()
    [[0.043, 0.87, 0.043, 0.043]]
    >>> choice.event
    TopKEvent(epsilon=3.0, k=1, size=4, count=1)

Scores are `(rows, options)`, as in `exponential`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import TopKEvent
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import Rankable, blocks_of, checked
from dptext.types import Booleans, Floats, Int16s, Integers


def _ranked(scores: Rankable, size: int) -> NDArray[Any]:
    """Return integer scores unchanged, because integers compare faster than floats. Check other scores."""
    if np.issubdtype(scores.dtype, np.integer) and scores.ndim == 2 and scores.shape[1] == size:
        return scores
    return checked(scores, size)


def top_k_mask(values: NDArray[Any], k: int) -> Booleans:
    """Mark the k best options of each row. Ties go by index."""
    if k == 1:
        threshold = values.max(axis=1, keepdims=True)
    else:
        threshold = np.partition(values, values.shape[1] - k, axis=1)[:, [values.shape[1] - k]]
    above = values > threshold
    equal = values == threshold
    spare = k - above.sum(axis=1, keepdims=True)
    return np.asarray(above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= spare)))


def _pick(mask: Booleans, rank: Integers) -> Integers:
    """The index of the rank-th True of each row, `(rows,)`."""
    counts = mask.sum(axis=1)
    starts = np.cumsum(counts) - counts
    return np.asarray(np.flatnonzero(mask)[starts + rank] - np.arange(len(mask)) * mask.shape[1])


@dataclass(frozen=True, slots=True)
class TopKRandomizedResponse:
    """A choice: one of the k best options with probability k e^E / (k e^E + size - k), else another.

    Proof and numbers: derivations, "Top-k randomized response".

    Guarantee:
        Exactly epsilon for any two inputs: every option has one of two probabilities, whose ratio is e^epsilon, and
        only the *set* of the k best options depends on the input.
    """

    epsilon: float
    k: int
    size: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _ = self.event

    @property
    def event(self) -> TopKEvent:
        """The event of one choice."""
        return TopKEvent(self.epsilon, self.k, self.size)

    def _weights(self) -> tuple[int, int]:
        """Integer weights (best, other) with a ratio of at most e^epsilon, as close as 62 bits allow."""
        budget = 1 << 62
        # other is the largest power of 2 for which k * other * e^epsilon + size * other fits the budget.
        room = math.log2(budget) - 1 - max(math.log2(self.size), math.log2(self.k) + self.epsilon / math.log(2))
        other = 1 << max(0, math.floor(room))
        cap = (budget - self.size * other) // self.k
        log_best = math.log(other) + self.epsilon
        best = cap if log_best > math.log(cap) + 1e-9 else math.floor(other * math.exp(self.epsilon) * (1 - 2.0**-48))
        return max(min(best, cap), other), other

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`, exactly as drawn."""
        best, other = self._weights()
        total = self.k * best + (self.size - self.k) * other
        mask = top_k_mask(_ranked(scores, self.size), self.k)
        return np.asarray(np.where(mask, best / total, other / total))

    def drawn(self, rows: int, source: Randomness) -> tuple[Booleans, Integers]:
        """Draw whether each row's option is one of the k best, and its number among these or among the others."""
        best, other = self._weights()
        drawn = uniform_below(self.k * best + (self.size - self.k) * other, rows, source).astype(np.int64)
        hit = drawn < self.k * best
        return hit, np.where(hit, drawn // best, (drawn - self.k * best) // other)

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option per row, `(rows,)`, by one integer draw per row."""
        rows = len(scores)
        hit, rank = self.drawn(rows, source)
        result = np.empty(rows, np.int64)
        for block in blocks_of(rows, self.size):
            mask = top_k_mask(_ranked(scores[block], self.size), self.k)
            result[block] = _pick(mask == hit[block, None], rank[block])
        return result


def agreement(pool: Sequence[str | None], labels: Sequence[str | None]) -> Booleans:
    """Compare n labels with the m labels of the pool, `(n, m)`. A missing or unknown label equals none."""
    number = {label: i for i, label in enumerate(dict.fromkeys(pool)) if label is not None}
    own = np.array([number.get(label or "", -2) for label in pool], np.int32)
    asked = np.array([number.get(label or "", -1) for label in labels], np.int32)
    return np.asarray(asked[:, None] == own[None, :])


def best_number(scores: Int16s, gains: Floats, own: Booleans, epsilon: float) -> int:
    """The k at which top-k randomized response gains most on public texts.

    `scores` `(n, m)` rank the m members of the pool for each of n texts. `gains` `(n, m)` are the utilities of members
    to texts. `own` `(n, m)` marks a text's own members, which do not count. Their scores and gains are overwritten.
    """
    size = int(scores.shape[1])
    scores[own], gains[own] = np.iinfo(np.int16).min, 0.0
    order = np.argsort(~scores, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(gains, order, axis=1).mean(axis=0))

    def expected(k: int) -> float:
        hit = 1 / (1 + np.exp(-epsilon) * (size - k) / k)
        return float(hit * sums[k - 1] / k + (1 - hit) * (sums[-1] - sums[k - 1]) / (size - k))

    tried: set[int] = {min(size - 1, round(1.25**i)) for i in range(60)}
    return max(sorted(tried), key=expected)


@dataclass(frozen=True, slots=True)
class LabelResponse:
    """Randomized response on a label of a public set of L >= 2 labels (Warner 1965; Kairouz, Bonawitz and Ramage 2016).

    The own label is released with probability e^epsilon / (e^epsilon + L - 1), each other label with 1 / (e^epsilon +
    L - 1).

    Guarantee:
        `event`, for any two labels. A label that is missing or not among `labels` is replaced by a uniformly drawn
        label, so that the released label is uniform. This keeps epsilon: 1/L lies between the two probabilities p and
        q, and p L and 1 / (q L) are at most e^epsilon. The bound also holds with a delta, in any composition: the
        output is a mixture, with public weights, of the outputs of labelled records, and divergences are jointly
        convex.
    """

    epsilon: float
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ConfigError(
                f"Expected labels={self.labels!r} to be at least two, each named once. Name the public set."
            )

    @property
    def event(self) -> TopKEvent:
        """The event of one choice among the labels."""
        return self._choice.event

    @property
    def _choice(self) -> TopKRandomizedResponse:
        return TopKRandomizedResponse(self.epsilon, 1, len(self.labels))

    def _places(self, labels: Sequence[str | None]) -> Integers:
        place = {label: i for i, label in enumerate(self.labels)}
        return np.array([place.get(label or "", -1) for label in labels], np.int64)

    def distribution(self, label: str | None) -> Floats:
        """The probability of each label of the set `(L,)`, given the private label."""
        [place] = self._places([label]).tolist()
        every = self._choice.distribution(np.eye(len(self.labels)))
        return np.asarray(every.mean(axis=0) if place < 0 else every[place])

    def choose(self, labels: Sequence[str | None], source: Randomness) -> Integers:
        """The released label for each private label, as an index into `labels`, `(n,)`."""
        given = self._places(labels)
        # Every record draws, so that the use of random bits does not reveal which labels are unknown.
        anything = uniform_below(len(self.labels), len(given), source).astype(np.int64)
        true = np.where(given >= 0, given, anything)
        hit, rank = self._choice.drawn(len(true), source)
        return np.where(hit, true, rank + (rank >= true))  # the others are those before the true label and after it
