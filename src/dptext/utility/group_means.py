"""Means of number columns by the values of another column: what an analyst asks a table for first.

Values are those of the records, not middles of bins. Null, and what is no number, is left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext._wording import plural
from dptext.text.formats import cell_text
from dptext.text.records import Record
from dptext.text.schema import DeclaredColumn, ListedColumn, NumberColumn
from dptext.types import Json
from dptext.utility.columns import cells_of

_MOST_VALUES: Final = 12  # of a column that groups are made by
_MOST_PAIRS: Final = 6
_FEWEST: Final = 5  # rows of a group that has a mean
_NAMED: Final = 4  # values in a sentence


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """Means of the number column `number` by the values of the column `by`.

    Attributes:
        values: the values of `by`, in declared order.
        rows: the mean for each value, by row of the table; None for groups of fewer than 5 numbers.
        span: the width of the declared range of `number`, above 0.
    """

    number: str
    by: str
    values: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    span: float

    def apart(self, row: str, other: str) -> list[float | None]:
        """Return how far two rows are apart for each value, in spans; None where one of them has no mean."""
        both = zip(self.rows[row], self.rows[other], strict=True)
        return [None if one is None or two is None else abs(one - two) / self.span for one, two in both]

    def shown(self, mean: float | None) -> str:
        """Return a mean as text, to about a thousandth of the span."""
        return "-" if mean is None else f"{mean:.{max(0, 3 - math.ceil(math.log10(self.span)))}f}"

    def lines(self) -> list[list[str]]:
        """Return a line for each value: number, column, value, then the mean of each row."""
        means = zip(*self.rows.values(), strict=True)
        return [
            [self.number, self.by, value, *map(self.shown, own)] for value, own in zip(self.values, means, strict=True)
        ]

    def to_dict(self) -> dict[str, Json]:
        """Return the means as JSON-able data."""
        return {"number": self.number, "by": self.by, "values": [*self.values],
                "rows": {row: [*means] for row, means in self.rows.items()}}  # fmt: skip


def means_by_group(
    parts: Mapping[str, Sequence[Record]], columns: Sequence[DeclaredColumn], *, label: str = ""
) -> list[GroupMeans]:
    """Return the means of each number column by each listed column of at most 12 values; at most 6 pairs of columns.

    `parts` are records by row of the table. The column of the name `label` is that of labels.
    """
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    groups = [column for column in columns if isinstance(column, ListedColumn) and len(column.listed) <= _MOST_VALUES]
    found = []
    for number, by in itertools.islice(itertools.product(numbers, groups), _MOST_PAIRS):
        rows = {row: _means(records, number, by, label) for row, records in parts.items()}
        span = max(number.high - number.low, 1) / 10**number.decimals
        found.append(GroupMeans(number.name, by.name, by.listed, rows, span))
    return found


def furthest_means(found: Sequence[GroupMeans], made: str, private: str, chance: str = "") -> str:
    """Return a sentence on the pair of columns whose means in two rows are furthest apart, in spans; empty without any.

    Of many values it names the four that are furthest apart. The row `chance` has as many private rows as were written,
    if it is there: how far its means are from those of all is said, too.
    """
    apart = [max((far for far in each.apart(made, private) if far is not None), default=-1.0) for each in found]
    if max(apart, default=-1.0) < 0:
        return ""
    of = found[int(np.argmax(apart))]
    known = {i: far for i, far in enumerate(of.apart(made, private)) if far is not None}
    named = sorted(sorted(known, key=lambda i: -known[i])[:_NAMED])
    said = list[str]()
    for i in named:
        one, two = (of.shown(of.rows[row][i]) for row in (made, private))
        said.append(f"{of.values[i]} {one} ({two}{'' if said else ' in private rows'})")
    rest = len(known) - len(named)
    more = f"; {plural(rest, 'other value')} {'is' if rest == 1 else 'are'} nearer" if rest else ""
    drawn = max((far for far in of.apart(chance, private) if far is not None), default=None) if chance else None
    luck = "" if drawn is None else f" As many private rows are up to {of.shown(drawn * of.span)} off by chance."
    return f"The mean of {of.number} by {of.by}: {', '.join(said)}{more}.{luck}"


def _means(records: Sequence[Record], number: NumberColumn, by: ListedColumn, label: str) -> tuple[float | None, ...]:
    groups: list[list[float]] = [[] for _ in by.names]
    for place, record in zip(cells_of(records, [by], label=label)[:, 0].tolist(), records, strict=True):
        value = _number(record.label if number.name == label else record.kept.get(number.name))
        if value is not None:
            groups[place].append(value)
    return tuple(
        math.fsum(value / len(own) for value in own) if len(own) >= _FEWEST else None
        for own in groups[: len(by.listed)]
    )


def _number(value: object) -> float | None:
    """Return a value as a finite number; None if it is none."""
    try:
        found = float(cell_text(value) or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None
