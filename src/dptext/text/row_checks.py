"""What a row must be like to become a record, and whole columns as a batch of records, where no row is doubtful.

What is accepted as columns is accepted row by row, and makes the same records. Where a column is doubtful, the rows are
looked at one by one: that alone says which is bad, and why. And ids that were used, to refuse one that is used twice.
"""

import contextlib
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from dptext.text.batches import Batch, Kept
from dptext.text.formats import Scalar, as_scalar, as_string, is_scalar, plain_scalars, plain_texts, string_fault
from dptext.text.lines import Bad, Broken, Chunk, Row, Table, missing_field
from dptext.text.records import Fields, Record

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
        id_, author, subject = (None if name is None else _identifier(row[name]) for name, _ in whom)
        for (name_of_it, it), found in zip(whom, (id_, author, subject), strict=True):
            if name_of_it is not None and found is None:
                return Bad(f"the field {name_of_it!r} is not a string or integer that can name {it}")
        label = None if fields.label is None else as_scalar(row[fields.label])
        if not is_scalar(label):
            return Bad(f"the field {fields.label!r} is not a string, a finite number, a boolean or null")
        kept: dict[str, Scalar] = {}
        for name in fields.keep:
            value = as_scalar(row[name])
            if not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a date, a boolean or null")
            kept[name] = value
        written = None if label is None else as_string(label)
        record = Record(id_ or default_id, text, written, author, kept, subject=subject)
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


def _identifier(value: object) -> str | None:
    """An id, author or subject; None where the value names nobody, as the empty string that CSV has for "unknown"."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not is_scalar(value):
        return None
    return str(value) or None


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
    if not plain_scalars(labels) or not plain_texts(texts) or max(map(len, texts)) > max_characters:
        return None
    return Batch(ids, texts, _written(labels), authors, subjects, Kept(kept, len(texts)))


def _table(rows: list[Row], names: list[str]) -> Table | None:
    found = cast("list[dict[str, object]]", rows)
    with contextlib.suppress(KeyError):
        return {name: [row[name] for row in found] for name in names} if set(map(type, rows)) == {dict} else None
    return None


def _names(column: Sequence[object]) -> Sequence[str] | None:
    """What names a record, an author or a subject; None where a value may name nobody."""
    if not set(map(type, column)) <= {str, int} or not plain_scalars(column):
        return None
    names = list(map(str, column))
    return None if "" in names else names


def _written(labels: Sequence[Scalar]) -> Sequence[str | None]:
    if set(map(type, labels)) <= {str, type(None)}:
        return cast("Sequence[str | None]", labels)
    return [None if label is None else as_string(label) for label in labels]


_LONGEST_KEPT: Final = 40  # characters of an id, as a UUID has 36; of a longer one its hash is kept


def _key_of(id_: str) -> str | bytes:
    """What to keep of an id: itself, or its hash where that is shorter. Text and bytes are never equal."""
    return id_ if len(id_) <= _LONGEST_KEPT else hashlib.blake2b(id_.encode(), digest_size=16).digest()


class Ids:
    """A growing set of ids."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = set[str | bytes]()

    def repeated(self, ids: Iterable[str]) -> list[int]:
        """The places of those that were there, or stood before in the list; all are there from now on."""
        keys = list(map(_key_of, ids))
        new = set(keys)
        if len(new) == len(keys) and self._seen.isdisjoint(new):
            self._seen |= new
            return []
        found = []
        for place, key in enumerate(keys):
            if key in self._seen:
                found.append(place)
            self._seen.add(key)
        return found
