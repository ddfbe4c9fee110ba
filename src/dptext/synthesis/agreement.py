"""Consistent estimates from noisy numbers: parts add up to their wholes. Post-processing costs no privacy.

The first step is weighted least squares. A sum has noisy cells c of labels and topics with one variance v, and perhaps
a noisy number k for each label with variance w. All noise is independent. The T cells of a label add up to s, with
variance T v. The best unbiased number of the label is the mean of k and s with weights 1/w and 1/(T v). The difference
between this number and s is spread evenly over the cells of the label. Topics and the whole are sums of these cells.

The second step finds the nearest numbers that are not negative: first the whole, then labels and topics that add up to
the whole, then cells that add up to both. Projecting the cells before the whole, in one problem, would add up the noise
above 0 in all empty cells.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from statistics import NormalDist
from typing import Final

import numpy as np

from dptext.types import Floats, Json

WRONG: Final = 0.05  # of the intervals do not hold their number, on average
NORMAL: Final = 1.959964  # a normal variable lies within this many standard deviations with probability 95%
_ROUNDS: Final = 2_000
_NEAR: Final = 1e-7  # tolerance of a column sum, relative to the whole plus 1


@dataclass(frozen=True, slots=True)
class Known:
    """Numbers and the standard deviation of their noise."""

    numbers: Floats
    deviation: float


@dataclass(frozen=True, slots=True)
class Agreeing:
    """Consistent numbers: cells `(labels, topics)`, labels `(labels,)`, topics `(topics,)` and the whole `(1,)`."""

    cells: Known
    by_label: Known
    by_topic: Known
    whole: Known


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """Numbers with confidence intervals for the numbers without noise, around the unbiased numbers.

    `width` is half of an interval in standard deviations, before it is cut at 0. `low` and `high` are at least 0 and
    enclose the number. An unbiased number below 0 has the upper end of one that is 0, as no number without noise is
    below 0: its own upper end can be 0 or less, which would say that there is surely nothing (Cowan et al. 2011).
    """

    numbers: Floats
    unbiased: Known
    width: float = NORMAL

    @property
    def low(self) -> Floats:
        """The lower ends."""
        return np.clip(self.unbiased.numbers - self.width * self.unbiased.deviation, 0.0, self.numbers)

    @property
    def high(self) -> Floats:
        """The upper ends."""
        least = np.maximum(self.unbiased.numbers, 0.0)
        return np.maximum(least + self.width * self.unbiased.deviation, self.numbers)

    def largest(self, most: int) -> tuple[list[int], Estimated]:
        """Return the places of at most so many of the largest numbers, and intervals that are right for these alone.

        The largest of many noisy numbers are often too large. If R of M are shown, each interval has the level
        1 - .05 R / M, so that on average at most 5% of those shown do not hold their number (Benjamini and Yekutieli
        2005). Where all are shown, the level is 95%.
        """
        order = (-self.numbers).argsort(kind="stable").tolist()
        shown = order[:most]
        if len(shown) == len(order):
            return shown, self
        width = NormalDist().inv_cdf(1 - WRONG / 2 * max(1, len(shown)) / len(order))
        return shown, replace(self, width=width)

    def shown(self, place: int) -> str:
        """Return the number at this place with its interval, in whole numbers."""
        n, low, high = (float(each[place]) for each in (self.numbers, self.low, self.high))
        return f"{n:,.0f} ({low:,.0f} to {high:,.0f})"

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data."""
        return {name: getattr(self, name).round(3).tolist() for name in ("numbers", "low", "high")}


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Numbers that are not negative and add up: cells `(labels, topics)`, labels, topics, and the whole `(1,)`."""

    cells: Estimated
    by_label: Estimated
    by_topic: Estimated
    whole: Estimated

    @classmethod
    def of(cls, cells: Known, counted: Known | None) -> Estimates:
        """Return estimates from noisy cells and, if there are some, noisy numbers of labels."""
        unbiased = least_squares(cells, counted)
        shown = not_negative(unbiased)
        return cls(*(Estimated(getattr(shown, each.name), getattr(unbiased, each.name)) for each in fields(cls)))

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data."""
        return {each.name: getattr(self, each.name).to_dict() for each in fields(self)}


def least_squares(cells: Known, counted: Known | None = None) -> Agreeing:
    """Return the best linear unbiased numbers from cells `(labels, topics)` and maybe numbers of labels `(labels,)`."""
    labels, topics = cells.numbers.shape
    variance, summed = cells.deviation**2, cells.numbers.sum(axis=1)
    known, of_label = summed, topics * variance
    if counted is not None and of_label:
        share = of_label / (of_label + counted.deviation**2)  # weight of the label's own number
        known, of_label = summed + share * (counted.numbers - summed), (1 - share) * of_label
    each = cells.numbers + ((known - summed) / topics)[:, None]
    of_cell = variance * (1 - 1 / topics) + of_label / topics**2
    return Agreeing(
        Known(each, of_cell**0.5),
        Known(known, of_label**0.5),
        Known(each.sum(axis=0), (labels * of_cell) ** 0.5),
        Known(known.sum(keepdims=True), (labels * of_label) ** 0.5),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Numbers with the shapes of `Agreeing`, none of them negative."""

    cells: Floats
    by_label: Floats
    by_topic: Floats
    whole: Floats


def not_negative(found: Agreeing) -> Shown:
    """Return the nearest numbers that are not negative and add up; the whole is fixed first."""
    whole = np.maximum(found.whole.numbers, 0.0)
    labels, topics = (_spread(each.numbers[None], whole)[0] for each in (found.by_label, found.by_topic))
    return Shown(nearest_cells(found.cells.numbers, labels, topics), labels, topics, whole)


def nearest_cells(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return the numbers >= 0 nearest to cells `(n, m)` that add up to `rows` `(n,)` and `columns` `(m,)`.

    The numbers have the form max(cells + a_row + b_column, 0). Updates of a and b in turn ascend the dual problem.
    """
    by_row, by_column = np.zeros((len(rows), 1)), np.zeros((1, len(columns)))
    for _ in range(_ROUNDS):
        by_column = -_threshold((cells + by_row).T, columns).T
        by_row = -_threshold(cells + by_column, rows)
        found = np.maximum(cells + by_row + by_column, 0.0)
        if np.abs(found.sum(axis=0) - columns).max() <= _NEAR * (1 + rows.sum()):
            break
    return found


def _spread(numbers: Floats, sums: Floats) -> Floats:
    """Return the nearest numbers `(n, m)` that are not negative and whose rows add up to `sums` `(n,)`."""
    return np.asarray(np.maximum(numbers - _threshold(numbers, sums), 0.0))


def _threshold(numbers: Floats, sums: Floats) -> Floats:
    """Return the `(n, 1)` thresholds of rows `(n, m)` whose excesses add up to `sums` `(n,)` (Duchi et al. 2008)."""
    sorted_ = -np.sort(-numbers, axis=1)
    over = sorted_.cumsum(axis=1) - sums[:, None]
    kept = np.maximum((sorted_ * np.arange(1, numbers.shape[1] + 1) > over).sum(axis=1), 1)[:, None]
    return np.asarray(np.take_along_axis(over, kept - 1, axis=1) / kept)
