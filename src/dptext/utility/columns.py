"""How near the columns of written rows come to those of real rows, and what a text tells of its row's columns.

Shares of values are compared, by one column and by two, never pairs of rows. Values are those of public declarations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.formats import cell_text
from dptext.text.records import Record
from dptext.text.schema import DeclaredColumn, IdColumn, ListedColumn, together
from dptext.types import Integers
from dptext.utility.classification import evaluate, train_tfidf

_FEW: Final = 12  # values of a column that is told from texts


@dataclass(frozen=True, slots=True)
class ColumnsKept:
    """Total variation of the columns of rows from those of real rows, by name, from 0 to 1.

    Attributes:
        one: of each column.
        two: of each pair of columns, such as "priority+amount".
        by_text: accuracy on real rows of a classifier that learned to tell a column from the texts of the rows.
    """

    one: Mapping[str, float]
    two: Mapping[str, float]
    by_text: Mapping[str, Estimate]

    def cells(self) -> Iterator[tuple[str, Estimate | float]]:
        """Yield the names and the known numbers: means of columns and pairs, each of them, and by text."""
        for name, found in (("columns_tv", self.one), ("pairs_tv", self.two)):
            if found:
                yield name, math.fsum(found.values()) / len(found)
        yield from ((f"{name} from text", value) for name, value in self.by_text.items())
        for found in (self.one, self.two):
            yield from ((f"{name} tv", value) for name, value in found.items())


def cells_of(records: Sequence[Record], columns: Sequence[DeclaredColumn], *, label: str = "") -> Integers:
    """Return the cells of records, `(n, columns)`. The column of the name `label` is that of labels."""
    found = np.zeros((len(records), len(columns)), np.int64)
    for i, column in enumerate(columns):
        given = (each.label if column.name == label else each.kept.get(column.name) for each in records)
        found[:, i] = column.cells([cell_text(value) for value in given])
    return found


def independent(cells: Integers, seed: int) -> Integers:
    """Return the cells with each column in another order: no column tells of another one."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(column) for column in cells.T], axis=1)


def columns_kept(
    cells: Integers,
    real: Integers,
    columns: Sequence[DeclaredColumn],
    *,
    texts: Sequence[str] = (),
    real_records: Sequence[Record] = (),
    seed: int = 0,
) -> ColumnsKept:
    """Compare rows with real rows that they were not made from, by their cells `(n, columns)`.

    With `texts` of the rows and the real records, listed columns of at most 12 values are told from texts, too.
    ConfigError: no rows, or no column but ids.
    """
    if any(isinstance(column, IdColumn) for column in columns) or not columns:
        raise ConfigError("Expected at least one column, and no ids, to compare.")
    if not len(cells) or not len(real):
        raise ConfigError(f"Expected rows to compare, found {len(cells)} and {len(real)}.")
    names, sizes = [column.name for column in columns], [len(column) for column in columns]
    found = [
        {
            together(names[i] for i in axes): _apart(cells[:, axes], real[:, axes], [sizes[i] for i in axes])
            for axes in itertools.combinations(range(len(columns)), k)
        }
        for k in (1, 2)
    ]
    told = dict[str, Estimate]()
    for i, column in enumerate(columns if texts else ()):
        if not isinstance(column, ListedColumn) or len(column.listed) > _FEW or len(set(cells[:, i].tolist())) < 2:
            continue
        trained = train_tfidf(list(texts), [column.names[cell] for cell in cells[:, i].tolist()], seed=seed)
        held = [replace(each, label=column.names[cell]) for each, cell in zip(real_records, real[:, i], strict=True)]
        told[column.name] = evaluate(trained, held, seed=seed).accuracy
    return ColumnsKept(found[0], found[1], told)


def _apart(one: Integers, other: Integers, shape: Sequence[int]) -> float:
    """Return the total variation of the shares of cells `(n, axes)`."""
    places = [np.ravel_multi_index(tuple(each.T), tuple(shape)) for each in (one, other)]
    there = np.unique(np.concatenate(places))  # far fewer than all cells of a wide pair
    shares = [np.bincount(np.searchsorted(there, each), minlength=len(there)) / len(each) for each in places]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
