"""Which columns of a table are measured together: numbers of units by one column, and by two.

The choice follows public settings alone: the declared columns, the noise, and about how many units there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.text.schema import DeclaredColumn, IdColumn, ListedColumn, together
from dptext.types import Integers

#: The name of the labels among columns.
LABEL: Final = "label"
#: The name of the topics of texts among columns.
TOPIC: Final = "topics"
#: Pairs are chosen by `usual_pairs`.
AUTO: Final = "auto"
#: No pairs are measured.
NONE: Final = "none"
_LARGEST: Final = 200_000  # cells of a pair that is named
# The largest share of a pair's units that noise alone moves to other cells: a pair with more is not measured.
_MOVED: Final = 0.15
_MEAN_NOISE: Final = 0.4  # half of the mean of |noise| in deviations
_FEW_VALUES: Final = 12  # of a column that texts follow unless some are named
_FOLLOWED: Final = 3  # columns that texts follow then, the label among them
_MOST_FOLLOWED: Final = 100  # cells of a column that texts follow
_ONE_WAY: Final = 4.0  # weight of the numbers by one column, beside those of a pair with as many cells


@dataclass(frozen=True, slots=True)
class Marginal:
    """Numbers of units by one column, or by two.

    Attributes:
        name: the name of its block.
        axes: places of its columns among all axes: 0 is the label, the declared columns follow, and the last one is
            the topic of the text.
        shape: number of cells of each.
    """

    name: str
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    def cells(self, places: Integers) -> Integers:
        """Return the cell of each unit, `(n,)`. `places` `(n, axes)` are its cells in each axis."""
        return np.ravel_multi_index(tuple(places[:, axis] for axis in self.axes), self.shape).astype(np.int64)


@dataclass(frozen=True)  # without slots: a wide table asks for names, sizes and pairs again and again
class Axes:
    """The labels, the columns that are measured, and `topics` topics of texts, in order.

    The axis of the labels is there without labels, too; that of topics is there if topics and columns are.
    """

    labels: int
    columns: tuple[DeclaredColumn, ...]
    topics: int = 0

    @classmethod
    def of(cls, labels: Sequence[str], schema: Sequence[DeclaredColumn], topics: int = 0) -> Axes:
        """Return the axes of labels, declared columns and a number of topics.

        ConfigError: a column is called as the labels or the topics are.
        """
        for there, name, what in ((len(labels), LABEL, "labels"), (topics, TOPIC, "topics")):
            if there and any(column.name == name for column in schema):
                raise ConfigError(f"Expected no column {name!r} beside {what}, which are a column of that name.")
        columns = tuple(column for column in schema if not isinstance(column, IdColumn))
        return cls(len(labels), columns, topics if columns else 0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all axes."""
        return (LABEL, *(column.name for column in self.columns), *((TOPIC,) if self.topics else ()))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each axis."""
        return (max(1, self.labels), *map(len, self.columns), *((self.topics,) if self.topics else ()))

    @property
    def topic(self) -> int:
        """The axis of topics; there is none at this place without topics."""
        return 1 + len(self.columns)

    @property
    def by_topic(self) -> Marginal:
        """The numbers by label and topic, which the block of topics has."""
        return Marginal(TOPIC, (0, self.topic), (self.sizes[0], self.topics))

    def marginal(self, *axes: int) -> Marginal:
        """Return the marginal of these axes."""
        return Marginal(
            f"columns {together(self.names[axis] for axis in axes)}", axes, tuple(self.sizes[axis] for axis in axes)
        )

    @property
    def one_way(self) -> tuple[Marginal, ...]:
        """The numbers by each column. Those by label are counts, and those by topic are topics."""
        return tuple(map(self.marginal, range(1, self.topic)))

    @cached_property
    def pairs(self) -> dict[str, Marginal]:
        """All pairs by name, such as "priority+amount", those with few cells first, but for labels and topics."""
        first = 0 if self.labels else 1
        both = (pair for pair in itertools.combinations(range(first, len(self.names)), 2) if pair != (0, self.topic))
        found = sorted((self.marginal(*pair) for pair in both), key=lambda each: (each.size, each.axes))
        return {together(self.names[axis] for axis in each.axes): each for each in found}

    def usually_followed(self) -> tuple[str, ...]:
        """Return the names of the columns that texts follow unless some are named."""
        few = (c.name for c in self.columns if isinstance(c, ListedColumn) and len(c.listed) <= _FEW_VALUES)
        return tuple(few)[: _FOLLOWED - bool(self.labels)]

    def followed(self, names: Sequence[str]) -> tuple[Marginal, ...]:
        """Return the marginals of the columns of these names, which texts follow.

        ConfigError: a name is unknown, or stands twice, or the column has too many cells.
        """
        known = {column.name: axis for axis, column in enumerate(self.columns, 1)}
        for name in names:
            if name not in known or list(names).count(name) > 1:
                raise ConfigError(
                    f"Expected different columns that texts follow, of {', '.join(known) or 'no columns'}, found "
                    f"{', '.join(names)}."
                )
            if (size := self.sizes[known[name]]) > _MOST_FOLLOWED:
                raise ConfigError(
                    f"Expected at most {_MOST_FOLLOWED} cells of {name}, which texts follow, found {size}."
                )
        return tuple(self.marginal(known[name]) for name in names)

    def named(self, pairs: Sequence[str]) -> tuple[Marginal, ...]:
        """Return the numbers by each column, and the pairs of these names, in either order.

        ConfigError: a name is unknown, or a pair has too many cells.
        """
        usual = self.pairs
        known = {together(self.names[axis] for axis in each.axes[::-1]): each for each in usual.values()} | usual
        for name in pairs:
            if name not in known:
                raise ConfigError(
                    f"Expected {name!r} to be a pair of columns, such as {', '.join([*usual][:4])}."
                    if usual
                    else f"Expected no pair {name!r}: there are fewer than two columns to measure."
                )
            if known[name].size > _LARGEST:
                raise ConfigError(f"Expected {name!r} to have at most {_LARGEST:,} cells, found {known[name].size:,}.")
        return (*self.one_way, *dict.fromkeys(known[name] for name in pairs))

    def usual_pairs(self, scale: float, about: int, followed: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the names of the pairs that are measured unless some are named, those with few cells first.

        `scale` is the deviation of the noise of one marginal that takes the share of all columns alone. A pair is taken
        if noise then moves at most 15% of the units of any taken pair to other cells. Pairs with topics come last, and
        not with the columns that are `followed`, whose class means say more of their texts.
        """
        pairs = {name: each for name, each in self.pairs.items() if self.topic not in each.axes}
        pairs |= {
            name: each
            for name, each in self.pairs.items()
            if self.topic in each.axes and self.names[each.axes[0]] not in followed
        }
        found, whole, largest = list[str](), math.fsum(map(_weight, self.one_way)), 0.0
        for name, pair in pairs.items():
            more, larger = whole + _weight(pair), max(largest, pair.size / math.sqrt(_weight(pair)))
            # Noise moves most of the pair with most cells: it grows with size / sqrt(weight). Further pairs of the same
            # kind have more cells, and are left out, too; one with topics may have fewer.
            if _MEAN_NOISE * scale * larger * math.sqrt(more) / about <= _MOVED:
                whole, largest = more, larger
                found.append(name)
        return tuple(found)


def marginal_shares(marginals: Sequence[Marginal]) -> Mapping[str, float]:
    """Return the share of each marginal of what all columns have, by name.

    The summed noise of all cells is least if shares grow with the power 2/3 of the number of cells.
    """
    weights = {each.name: _weight(each) for each in marginals}
    whole = sum(weights.values())
    return {name: weight / whole for name, weight in weights.items()}


def _weight(marginal: Marginal) -> float:
    return float(marginal.size ** (2 / 3)) * (_ONE_WAY if len(marginal.axes) == 1 else 1.0)
