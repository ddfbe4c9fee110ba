"""The columns of a table that is written from a summary, beside its texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dptext.sampling.randomness import Randomness
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.summary import Summary
from dptext.text.formats import Scalar
from dptext.text.schema import IdColumn, ListedColumn


@dataclass(frozen=True, slots=True, repr=False)
class WrittenColumns:
    """The columns of a table beside its texts.

    Attributes:
        columns: the values of each column by name, but for the ids of rows.
        ids: the ids of the rows: fresh ones, or running numbers.
        id: the name of the column of fresh ids of rows; None without one.
    """

    columns: Mapping[str, Sequence[Scalar]]
    ids: Sequence[str]
    id: str | None

    @classmethod
    def of(cls, summary: Summary, made: Synthetic, source: Randomness) -> Self:
        """Return the columns of rows of texts, drawn from the noisy numbers of a summary unless texts follow them."""
        schema, n = summary.spec.schema, len(made.labels)
        cells = None if made.cells is None else np.array(made.cells, np.int64)
        if schema and cells is None:
            number = {label: i for i, label in enumerate(summary.spec.labels)}
            cells = summary.rows.rows(np.array([number.get(each or "", 0) for each in made.labels], np.int64), source)
        measured = iter(() if cells is None else cells.T)
        values = {
            each.name: each.values(np.zeros(n, np.int64) if isinstance(each, IdColumn) else next(measured), source)
            for each in schema
        }
        name = next((each.name for each in schema if isinstance(each, IdColumn) and each.rows == 1), None)
        ids = [str(i) for i in range(n)] if name is None else [str(value) for value in values.pop(name)]
        return cls(values, ids, name)

    @property
    def kept(self) -> Iterator[dict[str, Scalar]]:
        """The values of each row by the names of their columns."""
        if not self.columns:
            return iter([{}] * len(self.ids))
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True))

    def undeclared(self, summary: Summary) -> Iterator[str]:
        """Yield a sentence on columns in which no declared value was seen, and one on values that are not declared.

        These are empty in numbers and dates, else a text.
        """
        if not summary.spec.axes.columns:
            return
        own = [each for each in summary.spec.axes.columns if each.name in self.columns]
        names = {each.name: each.rest if isinstance(each, ListedColumn) else None for each in own}
        others = {
            each.name: sum(value == names[each.name] for value in self.columns[each.name])
            for each in own
            if names[each.name] is not None or not each.null
        }
        noisy = summary.noisy_rows.shares
        unseen = [
            each.name
            for axis, each in enumerate(summary.spec.axes.columns, 1)
            if not noisy[axis][: len(each.shown)].any()
        ]
        if unseen:
            yield (
                f"No declared value was seen beyond noise in {', '.join(unseen)}: is the declaration spelled as in the "
                f"table?{' Its values are drawn evenly.' * summary.drop_other}"
            )
        if any(others.values()):
            said = ", ".join(f"{n:,} of {name} ({names[name] or 'empty'})" for name, n in others.items() if n)
            yield f"Values that are not declared: {said}, as noisy numbers have them. --drop-other writes none."
