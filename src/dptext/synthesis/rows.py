"""Rows of a table from noisy numbers by one column and by two: a tree of columns, from which rows are drawn.

Everything here reads noisy numbers and public settings alone, so that any number of rows costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.synthesis.agreement import Known
from dptext.synthesis.column_numbers import mean_of, on_simplex, one_way
from dptext.synthesis.marginals import Axes, Marginal
from dptext.synthesis.pool import apportioned, shuffled
from dptext.types import Floats, Integers

_BY_CHANCE: Final = 0.05  # chance at most that any pair of unrelated columns is used
_LEAST: Final = 1e-12
_ROUNDS: Final = 50  # of fitting a pair to its columns


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Two columns that belong together: shares of the cells of `child` by the cell of `parent`, in rows."""

    parent: int
    child: int
    shares: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RowModel:
    """A model of rows: shares of the cells of each axis, and the edges of a tree (or several), parents first.

    The first axis is the label. A column without edge is independent of all others. Topics are no axis of it.

    If `rounded`, the cells of a column are apportioned among the rows of each cell of its parent by largest remainders,
    and only which row gets which is drawn. Otherwise they are drawn.
    """

    axes: Axes
    shares: tuple[Floats, ...]
    edges: tuple[Edge, ...]
    rounded: bool = False

    @classmethod
    def of(cls, axes: Axes, marginals: Sequence[Marginal], known: Mapping[str, Known], labels: Known) -> Self:
        """Return the model of noisy numbers by the names of marginals, and of the `labels` `(labels or 1,)`.

        The numbers of a column are the means of all that are measured of it, weighted by their noise. A pair is used
        only where it is set apart from independent columns by more than noise explains, and is pulled towards them by
        the share of noise (positive-part James-Stein). The tree has the largest mutual information (Chow and Liu 1968).
        """
        both = [
            (each.axes, known[each.name].numbers.reshape(each.shape), known[each.name].deviation) for each in marginals
        ]
        n = 1 + len(axes.columns)
        wholes = [np.array([numbers.sum()]) for _, numbers, _ in both]
        total = max(1.0, float(mean_of(wholes, [d * math.sqrt(numbers.size) for _, numbers, d in both])[0]))
        alone = [Known(labels.numbers / labels.numbers.sum(), labels.deviation / total)]
        alone += [shares_of(one_way(axis, marginals, known), total) for axis in range(1, n)]
        two_way = [each for each in both if len(each[0]) > 1 and axes.topic not in each[0]]
        pairs = {
            places: related(Known(numbers / total, d / total), alone[places[0]], alone[places[1]], of=len(two_way))
            for places, numbers, d in two_way
        }
        worth = {places: _information(table) for places, table in pairs.items() if table is not None}
        return cls(axes, tuple(each.numbers for each in alone), tuple(_tree(worth, pairs, n)))

    def without_other(self) -> Self:
        """Return the model of rows in which every value is a listed one, or null where a column may be null.

        Listed values of which none was seen beyond noise are equally likely.
        """
        kept, own = [np.ones(len(self.shares[0]))], [self.shares[0]]
        for column, noisy in zip(self.axes.columns, self.shares[1:], strict=True):
            there = np.ones(len(column))
            there[column.unlisted] = column.null and column.unlisted == len(column) - 1
            kept.append(there)
            own.append(noisy if noisy @ there > 0 else _normal(there))
        for edge in reversed(self.edges):  # children first: a cell is as likely as its children's listed values make it
            likely = kept[edge.parent] * (edge.shares @ kept[edge.child])
            if edge.parent and own[edge.parent] @ likely > 0:  # labels are given
                kept[edge.parent] = likely
        shares = tuple(_normal(each * there) for each, there in zip(own, kept, strict=True))
        edges = tuple(
            replace(edge, shares=_rows(edge.shares * kept[edge.child], shares[edge.child])) for edge in self.edges
        )
        return replace(self, shares=shares, edges=edges)

    def rows(self, labels: Integers, source: Randomness) -> Integers:
        """Return cells of the columns for rows with these labels, `(n, columns)`."""
        n = len(labels)
        found = np.zeros((n, len(self.shares)), np.int64)
        found[:, 0] = labels
        known = {0}
        children = {edge.child: edge for edge in self.edges}
        for axis in self._order:
            if axis in known:
                continue
            edge = children.get(axis)
            groups = np.zeros(n, np.int64) if edge is None else found[:, edge.parent]
            chances = self.shares[axis][None] if edge is None else edge.shares
            found[:, axis] = _apportioned(groups, chances, source) if self.rounded else _drawn(groups, chances, source)
            known.add(axis)
        return found[:, 1:]

    @property
    def followed(self) -> tuple[tuple[str, str], ...]:
        """The names of the columns that follow another one, each after that one."""
        names = self.axes.names
        return tuple((names[edge.parent], names[edge.child]) for edge in self.edges)

    @property
    def _order(self) -> list[int]:
        """All axes, parents before their children."""
        children = [edge.child for edge in self.edges]
        return [*(axis for axis in range(len(self.shares)) if axis not in children), *children]


def shares_of(known: Known, total: float) -> Known:
    """Return the shares of cells in a noisy total, none below 0, with the deviation before they add up to 1."""
    return Known(on_simplex(known.numbers / total), known.deviation / total)


def related(noisy: Known, rows: Known, columns: Known, *, of: int) -> Floats | None:
    """Return the shares of a pair, whose sums are those of its columns; None if it tells nothing beyond noise.

    `noisy` `(rows, columns)` are its noisy shares; those of its columns are noisy, too. It is one `of` so many pairs:
    if all are of unrelated columns, any of them tells something in about 5% of summaries at most.
    """
    from scipy.special import chdtri  # noqa: PLC0415 (slow to load)

    one, two = rows.numbers, columns.numbers
    # Rows and columns of what sets the pair apart from independent columns add up to 0.
    apart = _centred(_centred(noisy.numbers - np.outer(one, two)).T).T
    free = (len(one) - 1) * (len(two) - 1)
    if not free:
        return None
    # Of unrelated columns it is the noise of the pair, and the noise of each column times the other column. Simplex
    # projection brings the shares of a column no further from the true ones.
    noises = [(free, noisy.deviation**2)]
    for own, other in ((rows, two), (columns, one)):
        uneven = float(np.square(_centred(other)).sum())
        noises.append((len(own.numbers), own.deviation**2 * uneven))
    noise = math.fsum(n * each for n, each in noises)
    most = math.fsum(float(chdtri(n, _BY_CHANCE / of)) * each for n, each in noises)
    size = float(np.square(apart).sum())
    if size <= most:
        return None
    found = np.outer(one, two) + (1 - noise / size) * apart
    fitted = np.maximum(found, 0.0) + _LEAST * np.outer(one > 0, two > 0)
    for _ in range(_ROUNDS):
        fitted *= (one / np.maximum(fitted.sum(axis=1), _LEAST))[:, None]
        fitted *= two / np.maximum(fitted.sum(axis=0), _LEAST)
    return np.asarray(fitted / fitted.sum())


def _centred(numbers: Floats) -> Floats:
    return np.asarray(numbers - numbers.mean(axis=0))


def _information(table: Floats) -> float:
    """Return the mutual information of the two sides of a table of shares, in nats."""
    alone = np.outer(table.sum(axis=1), table.sum(axis=0))
    there = table > 0
    return float((table[there] * np.log(table[there] / alone[there])).sum())


def _tree(worth: Mapping[tuple[int, ...], float], pairs: Mapping[tuple[int, ...], Floats | None], n: int) -> list[Edge]:
    """Return the edges of the trees of the largest mutual information, parents first; the label is a root."""
    part, chosen = list(range(n)), list[tuple[int, ...]]()
    for places in sorted(worth, key=lambda places: (-worth[places], places)):
        one, two = part[places[0]], part[places[1]]
        if one != two:
            chosen.append(places)
            part = [one if own == two else own for own in part]
    edges, reached, waiting = list[Edge](), set[int](), list(range(n))
    while waiting:
        parent = waiting.pop(0)
        reached.add(parent)
        for places in chosen:
            if parent not in places:
                continue
            child = places[1 - places.index(parent)]
            if child in reached:
                continue
            table = pairs[places]
            assert table is not None  # noqa: S101 (it has a worth)
            own = table if places[0] == parent else table.T
            edges.append(Edge(parent, child, _rows(own, own.sum(axis=0))))
            reached.add(child)
            waiting.remove(child)
            waiting.insert(0, child)  # the next one, so that a tree is finished before another begins
    return edges


def _normal(shares: Floats) -> Floats:
    return np.asarray(shares / max(float(shares.sum()), _LEAST))


def _rows(shares: Floats, usual: Floats) -> Floats:
    """Return rows that add up to 1; a row of nothing becomes the usual one."""
    sums = shares.sum(axis=1, keepdims=True)
    return np.asarray(np.where(sums > 0, shares / np.maximum(sums, _LEAST**2), _normal(usual)))


def _drawn(groups: Integers, chances: Floats, source: Randomness) -> Integers:
    """Return a cell for each row, drawn by the chances `(groups, cells)` of its group."""
    at = uniform_below(1 << 53, len(groups), source).astype(np.float64) / (1 << 53)
    ends = np.cumsum(chances, axis=1)
    found = np.zeros(len(groups), np.int64)
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        found[rows] = np.searchsorted(ends[group] / ends[group, -1], at[rows], side="right")
    return found


def _apportioned(groups: Integers, chances: Floats, source: Randomness) -> Integers:
    """Return a cell for each row: each group has its cells in proportion to its chances `(groups, cells)`.

    What a cell lacks in one group, because rows are whole, it gets in the next ones, so that all groups together have
    their cells in proportion, too.
    """
    found, left = np.zeros(len(groups), np.int64), np.zeros(chances.shape[1])
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        wanted = left + len(rows) * chances[group] / chances[group].sum()
        numbers = apportioned(np.maximum(wanted, 0.0), len(rows))
        left = wanted - numbers
        found[rows] = np.repeat(np.arange(len(numbers)), numbers)[shuffled(len(rows), source)]
    return found
