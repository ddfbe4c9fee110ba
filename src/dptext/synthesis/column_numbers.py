"""Noisy numbers of units by each column of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dptext.synthesis.agreement import NORMAL, Estimated, Known
from dptext.synthesis.marginals import Axes, Marginal
from dptext.text.schema import ListedColumn
from dptext.types import Floats


@dataclass(frozen=True, slots=True)
class ColumnNumbers:
    """Noisy numbers of units by one column, for a report.

    Attributes:
        name: the name of the column.
        cells: what its cells are called.
        counts: noisy numbers, one for each cell; below 0 by chance.
        margin: half of the interval of each number, at 95%.
        in_order: whether the cells have an order, as numbers and dates do.
    """

    name: str
    cells: tuple[str, ...]
    counts: tuple[float, ...]
    margin: float
    in_order: bool

    def estimates(self, whole: float) -> Estimated:
        """Return numbers that are not negative and add up to `whole`, that of the report."""
        counts = np.array(self.counts)
        return Estimated(whole * on_simplex(counts / max(1.0, whole)), Known(counts, self.margin / NORMAL))


def column_numbers(axes: Axes, marginals: Sequence[Marginal], known: Mapping[str, Known]) -> tuple[ColumnNumbers, ...]:
    """Return the numbers of each column: the means of all that is measured of it, weighted by their noise."""
    found = []
    for axis, column in enumerate(axes.columns, 1):
        own = one_way(axis, marginals, known)
        counts, listed = tuple(map(float, own.numbers)), isinstance(column, ListedColumn)
        found.append(ColumnNumbers(column.name, column.names, counts, NORMAL * own.deviation, not listed))
    return tuple(found)


def one_way(axis: int, marginals: Sequence[Marginal], known: Mapping[str, Known]) -> Known:
    """Return the numbers by one axis, from all marginals that have it."""
    own = [each for each in marginals if axis in each.axes]
    numbers = [_along(known[each.name].numbers.reshape(each.shape), each.axes, axis) for each in own]
    noise = [known[each.name].deviation * math.sqrt(each.size / len(n)) for each, n in zip(own, numbers, strict=True)]
    return Known(mean_of(numbers, noise), 1 / math.sqrt(sum(1 / deviation**2 for deviation in noise)))


def mean_of(numbers: Sequence[Floats], deviations: Sequence[float]) -> Floats:
    """Return the mean of numbers of one shape, weighted by the inverse square of their deviations."""
    return np.asarray(np.average(numbers, axis=0, weights=[1 / deviation**2 for deviation in deviations]))


def _along(numbers: Floats, places: tuple[int, ...], axis: int) -> Floats:
    """Return the numbers by one of the axes of a marginal."""
    others = tuple(i for i, place in enumerate(places) if place != axis)
    return np.asarray(numbers.sum(axis=others))


def on_simplex(shares: Floats) -> Floats:
    """Return the nearest numbers that are not negative and add up to 1 (Held, Wolfe and Crowder 1974)."""
    ordered = np.sort(shares)[::-1]
    over = np.cumsum(ordered) - 1.0
    n = int(np.flatnonzero(ordered * np.arange(1, len(shares) + 1) > over)[-1])
    return np.asarray(np.maximum(shares - over[n] / (n + 1), 0.0))
