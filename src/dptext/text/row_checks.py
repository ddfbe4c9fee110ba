"""What a row must be like to become a record, and whole columns as a batch of records, where no row is doubtful.

What is accepted as columns is accepted row by row, and makes the same records. Where a column is doubtful, the rows are
looked at one by one: that alone says which is bad, and why. And ids that were used, to refuse one that is used twice.
"""

import contextlib
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from dptext.text.batches import Batch, Kept
from dptext.text.formats import Scalar, as_scalar, is_scalar, name_of, spelled, string_fault
from dptext.text.lines import Bad, Broken, Chunk, Row, Table, missing_field
from dptext.text.packed_rows import PlainTexts, kinds, plain_scalars, plain_texts
from dptext.text.records import Fields, Record
from dptext.types import Booleans, Integers

# A character takes at most 12 bytes of a line (two JSON escapes, "\ud83d\ude00"); the rest is for the other fields.
_BYTES_PER_CHARACTER: Final = 12
_BYTES_FOR_OTHER_FIELDS: Final = 2**20
_NULL: Final = (
    "the field {!r} is null (take such rows out, or read them as empty texts: --empty-nulls on the command line, "
    "empty_nulls=True in Python)"
)


@dataclass(frozen=True, slots=True)
class Checks:
    """What a row must be like to become a record. Every method gives the fault as a value."""

    fields: Fields
    max_characters: int
    empty_nulls: bool = False

    @property
    def max_line(self) -> int:
        """Bytes of the longest line that can hold a record."""
        return _BYTES_PER_CHARACTER * self.max_characters + _BYTES_FOR_OTHER_FIELDS

    def record(self, item: object, *, default_id: str) -> Record | Bad | Broken:
        """The record of a row, or a ready record after the checks of its strings."""
        match item:
            case Bad() | Broken():
                return item
            case Record():
                return self._strings(item, ("id", "text", "label", "author", "subject"))
            case Mapping():
                return self._row(item, default_id)
            case str():
                return self._strings(Record(default_id, item), ("id", "text", "label", "author", "subject"))
            case None if self.empty_nulls:
                return Record(default_id, "")
            case None:
                return Bad(_NULL.format("text"))
            case _:
                return Bad(f"the row is of type {type(item).__name__}, expected a text, a mapping or a Record")

    def _row(self, row: Mapping[str, object], default_id: str) -> Record | Bad:
        fields = self.fields
        for name in needed(fields):
            if name not in row:
                return Bad(missing_field(name, needed(fields), row))
        text = row[fields.text]
        if text is None:
            if not self.empty_nulls:
                return Bad(_NULL.format(fields.text))
            text = ""
        if not isinstance(text, str):
            return Bad(f"the field {fields.text!r} is not a string but of type {type(text).__name__}")
        whom = ((fields.id, "a record"), (fields.author, "an author"), (fields.subject, "a subject"))
        id_, author, subject = (None if name is None else name_of(row[name]) for name, _ in whom)
        for (name_of_it, it), found in zip(whom, (id_, author, subject), strict=True):
            if name_of_it is not None and found is None:
                return Bad(f"the field {name_of_it!r} is not a string or integer that can name {it}")
        label = None if fields.label is None else spelled(row[fields.label])
        if not isinstance(label, str | None):
            return Bad(f"the field {fields.label!r} is not a string, a finite number, a date, a boolean or null")
        kept: dict[str, Scalar] = {}
        for name in fields.keep:
            value = as_scalar(row[name])
            if not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a date, a boolean or null")
            kept[name] = value
        record = Record(id_ or default_id, text, label, author, kept, subject=subject)
        defaults = (fields.label or "label", fields.author or "author", fields.subject or "subject")
        return self._strings(record, (fields.id or "id", fields.text, *defaults))

    def _strings(self, record: Record, names: tuple[str, str, str, str, str]) -> Record | Bad:
        values: tuple[object, ...] = (record.id, record.text, record.label, record.author, record.subject)
        optional = (False, False, True, True, True)
        for name, value, may_miss in zip(names, values, optional, strict=True):
            if not isinstance(value, str) and not (may_miss and value is None):
                return Bad(f"the field {name!r} is not a string")
        for name, value in itertools.chain(zip(names, values, strict=True), record.kept.items()):
            if not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a boolean or null")
            fault = string_fault(value) if isinstance(value, str) else None
            if fault is not None:
                return Bad(f"the field {name!r} {fault}")
        if len(record.text) > self.max_characters:
            return Bad(f"the text is longer than max_characters={self.max_characters}")
        return record


def needed(fields: Fields) -> list[str]:
    """The names of all fields, the text first, each once."""
    names = (fields.text, fields.id, fields.label, fields.author, fields.subject, *fields.keep)
    return list(dict.fromkeys(name for name in names if name is not None))


def batch_of(chunk: Chunk, fields: Fields, *, first: int, max_characters: int) -> Batch | None:
    """The records of a chunk, or None where it is doubtful; `first` is the number of the first, if they have any."""
    table = chunk if isinstance(chunk, dict) else _table(chunk, needed(fields))
    if table is None:
        return None
    texts = table[fields.text]
    nothing: list[None] = [None] * len(texts)
    ids = list(map(str, range(first, first + len(texts)))) if fields.id is None else _names(table[fields.id])
    authors, subjects = (nothing if name is None else _names(table[name]) for name in (fields.author, fields.subject))
    labels = nothing if fields.label is None else table[fields.label]
    kept = {name: column for name in fields.keep if plain_scalars(column := table[name])}
    if ids is None or authors is None or subjects is None or len(kept) < len(fields.keep):
        return None
    if not plain_scalars(labels) or not plain_texts(texts) or _longest(texts, max_characters) > max_characters:
        return None
    return Batch(ids, texts, _written(labels), authors, subjects, Kept(kept, len(texts)))


def _table(rows: list[Row], names: list[str]) -> Table | None:
    found = cast("list[dict[str, object]]", rows)
    with contextlib.suppress(KeyError):
        return {name: [row[name] for row in found] for name in names} if set(map(type, rows)) == {dict} else None
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
    if kinds(labels) <= {str, type(None)}:
        return cast("Sequence[str | None]", labels)
    return [cast("str | None", spelled(label)) for label in labels]


_SHORT: Final = 64  #: Characters of the longest id that is kept as it is


def key_of(id_: str) -> str | bytes:
    """What to keep of a single id: itself, or a hash of a long one. Text and bytes are never equal.

    Two hashes of 16 bytes agree by a chance of 2**-128.
    """
    return id_ if len(id_) <= _SHORT else hashlib.blake2b(id_.encode(), digest_size=16).digest()


@dataclass(slots=True)
class Ids:
    """A growing set of ids, for columns of them. Numbers that rise need no set: the last is the greatest."""

    _rising: list[PlainTexts | str] = field(default_factory=list)
    _last: float = -math.inf
    _seen: set[str | bytes] = field(default_factory=set)

    def fresh(self, ids: Sequence[str]) -> Booleans:
        """Which of these ids, at least one, were neither there nor before in the list; all are there from now on."""
        if not self._seen and (numbers := _rising_numbers(ids)) is not None and numbers[0] > self._last:
            self._last = int(numbers[-1])
            # The slice keeps no strings that are made of `ids` later; no id holds a NUL.
            self._rising.append(ids[:] if isinstance(ids, PlainTexts) else "\0".join(ids))  # type: ignore[arg-type]
            return np.ones(len(ids), bool)
        for earlier in self._rising:
            self._seen.update(_keys(earlier.split("\0") if isinstance(earlier, str) else earlier))
        self._rising.clear()
        keys = _keys(ids)
        if self._seen.isdisjoint(keys):
            n = len(self._seen)
            self._seen.update(keys)
            if len(self._seen) == n + len(keys):
                return np.ones(len(keys), bool)
            self._seen.difference_update(keys)  # some are twice in the list
        fresh = np.zeros(len(keys), bool)
        for place, key in enumerate(keys):
            fresh[place] = key not in self._seen
            self._seen.add(key)
        return fresh


def _rising_numbers(ids: Sequence[str]) -> Integers | None:
    """The ids as numbers, each greater than the one before; else None. Unequal numbers are of unequal ids."""
    with contextlib.suppress(ValueError, OverflowError):  # as those of pyarrow are
        found: Integers = (
            ids.__arrow_array__().cast("int64").to_numpy()
            if isinstance(ids, PlainTexts)
            else np.array(list(map(int, ids)), np.int64)
        )
        return found if (found[1:] > found[:-1]).all() else None
    return None


def _keys(ids: Sequence[str]) -> Sequence[str | bytes]:
    longest = int(ids.sizes().max()) if isinstance(ids, PlainTexts) else max(map(len, ids))
    return list(ids) if longest <= _SHORT else list(map(key_of, ids))
