"""What a row must be like to become a record."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dptext.text.column_names import missing_field
from dptext.text.formats import Scalar, as_scalar, as_string, is_scalar, string_fault
from dptext.text.lines import Bad, Broken
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
        name_of_id, name_of_author = fields.id, fields.author
        id_ = default_id if name_of_id is None else _identifier(row[name_of_id])
        if id_ is None:
            return Bad(f"the field {name_of_id!r} is not a string or integer that can name a record")
        author = None if name_of_author is None else _identifier(row[name_of_author])
        if name_of_author is not None and author is None:
            return Bad(f"the field {name_of_author!r} is not a string or integer that can name an author")
        subject = None if fields.subject is None else _identifier(row[fields.subject])
        if fields.subject is not None and subject is None:
            return Bad(f"the field {fields.subject!r} is not a string or integer that can name a subject")
        label = None if fields.label is None else as_scalar(row[fields.label])
        if not is_scalar(label):
            return Bad(f"the field {fields.label!r} is not a string, a finite number, a boolean or null")
        kept: dict[str, Scalar] = {}
        for name in fields.keep:
            value = as_scalar(row[name])
            if not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a date, a boolean or null")
            kept[name] = value
        record = Record(id_, text, None if label is None else as_string(label), author, kept, subject=subject)
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
