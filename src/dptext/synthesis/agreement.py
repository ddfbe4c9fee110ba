"""Numbers whose wholes are the sums of their parts, of noisy ones: post-processing, which costs no privacy.

First weighted least squares. A sum has noisy cells c of labels and topics with one variance v, and perhaps a noisy
number k for each label with variance w, all independent. A label's T cells add up to s, of variance T v, so the best
unbiased number of the label is the mean of k and s by weights 1/w and 1/(T v), and what s lacks of it is shared out
over the cells alike. Topics and the whole are sums of that.

Then the nearest numbers that are not negative, the whole before its parts: labels and topics add up to the whole, cells
to both. Cells before the whole, in one problem, would add up the noise that is above 0 in all cells where nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from dptext.types import Floats, Json

NORMAL: Final = 1.959964  # a normal variable is within so many deviations in 95%
_ROUNDS: Final = 2_000
_NEAR: Final = 1e-7  # of the whole


@dataclass(frozen=True, slots=True)
class Known:
    """Numbers and the standard deviation of their noise."""

    numbers: Floats
    deviation: float


@dataclass(frozen=True, slots=True)
class Agreeing:
    """Cells `(labels, topics)`, labels `(labels,)`, topics `(topics,)` and the whole `(1,)`, which add up."""

    cells: Known
    by_label: Known
    by_topic: Known
    whole: Known


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """Numbers with the ends of their intervals at 95%, which hold the numbers without noise, and half of an interval.

    An end is not below 0, and an interval reaches its number.
    """

    numbers: Floats
    low: Floats
    high: Floats
    margin: float

    @classmethod
    def of(cls, unbiased: Known, shown: Floats) -> Estimated:
        """What is shown, with intervals about the unbiased numbers."""
        margin = NORMAL * unbiased.deviation
        low, high = (np.maximum(unbiased.numbers + by, 0.0) for by in (-margin, margin))
        return cls(shown, np.minimum(low, shown), np.maximum(high, shown), margin)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
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
        """From noisy cells, and perhaps noisy numbers of labels."""
        unbiased = least_squares(cells, counted)
        shown = not_negative(unbiased)
        return cls(*(Estimated.of(getattr(unbiased, each.name), getattr(shown, each.name)) for each in fields(cls)))

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {each.name: getattr(self, each.name).to_dict() for each in fields(self)}


def least_squares(cells: Known, counted: Known | None = None) -> Agreeing:
    """The best linear unbiased numbers, of cells `(labels, topics)` and perhaps numbers of labels `(labels,)`."""
    labels, topics = cells.numbers.shape
    variance, summed = cells.deviation**2, cells.numbers.sum(axis=1)
    known, of_label = summed, topics * variance
    if counted is not None and of_label:
        share = of_label / (of_label + counted.deviation**2)  # of the weight, that the label's own number has
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
    """Numbers as in `Agreeing`, none of them negative."""

    cells: Floats
    by_label: Floats
    by_topic: Floats
    whole: Floats


def not_negative(found: Agreeing) -> Shown:
    """The nearest numbers that are not negative and add up, the whole first."""
    whole = np.maximum(found.whole.numbers, 0.0)
    labels, topics = (_spread(each.numbers[None], whole)[0] for each in (found.by_label, found.by_topic))
    return Shown(nearest_cells(found.cells.numbers, labels, topics), labels, topics, whole)


def nearest_cells(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    """The nearest numbers to cells `(n, m)` that are not negative and add up to `rows` `(n,)` and `columns` `(m,)`.

    These have the form max(cells + a_row + b_column, 0); a and b are found in turn (ascent of the dual problem).
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
    """The nearest numbers `(n, m)` that are not negative and add up to `sums` `(n,)`."""
    return np.asarray(np.maximum(numbers - _threshold(numbers, sums), 0.0))


def _threshold(numbers: Floats, sums: Floats) -> Floats:
    """What each row `(n, m)` loses, `(n, 1)`, so that what stays above 0 adds up to `sums` (Duchi et al. 2008)."""
    sorted_ = -np.sort(-numbers, axis=1)
    over = sorted_.cumsum(axis=1) - sums[:, None]
    kept = np.maximum((sorted_ * np.arange(1, numbers.shape[1] + 1) > over).sum(axis=1), 1)[:, None]
    return np.asarray(np.take_along_axis(over, kept - 1, axis=1) / kept)
