"""Whole columns of rows as a batch of records, where no row of them is doubtful.

What is accepted here, `row_checks` accepts row by row, and makes the same records of it. Where a column is doubtful,
the rows are looked at one by one: that alone says which is bad, and why.
"""

from collections.abc import Sequence
from typing import cast

from dptext.text.batches import Batch, Kept
from dptext.text.formats import Scalar, as_string
from dptext.text.lines import Chunk, Row, Table
from dptext.text.plain_texts import PlainTexts, kinds, plain_scalars, plain_texts
from dptext.text.records import Fields
from dptext.text.row_checks import needed


def batch_of(chunk: Chunk, fields: Fields, *, first: int, max_characters: int) -> Batch | None:
    """The records of a chunk, or None where it is doubtful; `first` is the number of the first, if they have any."""
    table = chunk if isinstance(chunk, dict) else _table(chunk, needed(fields))
    if table is None:
        return None
    texts = table[fields.text]
    nothing: list[None] = [None] * len(texts)
    ids = _numbers(first, len(texts)) if fields.id is None else _names(table[fields.id])
    authors = nothing if fields.author is None else _names(table[fields.author])
    subjects = nothing if fields.subject is None else _names(table[fields.subject])
    labels = nothing if fields.label is None else table[fields.label]
    kept = {name: column for name in fields.keep if plain_scalars(column := table[name])}
    if ids is None or authors is None or subjects is None or len(kept) < len(fields.keep):
        return None
    if not plain_scalars(labels) or not plain_texts(texts) or _longest(texts, max_characters) > max_characters:
        return None
    return Batch(ids, texts, _written(labels), authors, subjects, Kept(kept, len(texts)))


def _numbers(first: int, n: int) -> list[str]:
    return list(map(str, range(first, first + n)))


def _table(rows: list[Row], names: list[str]) -> Table | None:
    """The columns of rows that all have these fields."""
    if set(map(type, rows)) != {dict}:
        return None
    found = cast("list[dict[str, object]]", rows)
    try:
        return {name: [row[name] for row in found] for name in names}
    except KeyError:
        return None


def _longest(texts: Sequence[str], most: int) -> int:
    """Characters of the longest text; bytes, where these are not more than the most."""
    if isinstance(texts, PlainTexts) and (size := int(texts.sizes().max())) <= most:
        return size
    return max(map(len, texts))


def _names(column: Sequence[object]) -> Sequence[str] | None:
    """What names a record, an author or a subject; None where a value may name nobody."""
    if isinstance(column, PlainTexts):
        return column if column.sizes().all() else None
    if not kinds(column) <= {str, int} or not plain_scalars(column):
        return None
    names = column if kinds(column) <= {str} else list(map(str, column))
    return None if "" in names else cast("Sequence[str]", names)


def _written(labels: Sequence[Scalar]) -> Sequence[str | None]:
    """Labels as text: the others as JSON writes them, null stays."""
    if kinds(labels) <= {str, type(None)}:
        return cast("Sequence[str | None]", labels)
    return [None if label is None else as_string(label) for label in labels]
