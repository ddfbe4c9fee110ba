"""Private texts in, streamed: a record is private and shows nothing of itself; a release is what may be written out.

Reading keeps one record in memory at a time, whatever the size of the file::

    records = read_records("private.jsonl.gz", Fields(text="review"))

No error of this module holds text, ids, labels or column names found in a file (the first line of a CSV file without
a header is private text), and none is chained to an exception that does: ``json.JSONDecodeError`` carries the whole
document, ``UnicodeDecodeError`` the bytes. Readers therefore hand faults on as values, and raise outside of ``except``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Generic, TypeVar

from dptext._validate import count
from dptext.errors import BrokenFileError, ConfigError, DataError
from dptext.text.formats import (
    Bad,
    Broken,
    Format,
    Scalar,
    as_string,
    file_error,
    file_format,
    file_rows,
    is_scalar,
    load_pyarrow,
    string_fault,
)

Output_co = TypeVar("Output_co", covariant=True)
Item = TypeVar("Item")

ID_FIELD: Final = "id"
TEXT_FIELD: Final = "text"
LABEL_FIELD: Final = "label"
MAX_CHARACTERS: Final = 5_000_000

# A character takes at most 12 bytes of a line (two JSON escapes, "\ud83d\ude00"); the rest is for the other fields.
_BYTES_PER_CHARACTER: Final = 12
_BYTES_FOR_OTHER_FIELDS: Final = 2**20


# --- what is read and written -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """One private text. Its ``repr`` shows nothing, because an id or a label can be as private as the text.

    Attributes:
        id: Name of the record, by default its position.
        text: The private text.
        label: Private class of the text, if there is one.
        author: Who wrote it, if the records say so.
        subject: Whose privacy budget pays for it, if the records say so; see `dptext.ledger`.
        kept: Fields that the caller declared public; they are copied to the release.
    """

    id: str = field(repr=False)
    text: str = field(repr=False)
    label: str | None = field(default=None, repr=False)
    author: str | None = field(default=None, repr=False)
    subject: str | None = field(default=None, repr=False, kw_only=True)
    kept: Mapping[str, Scalar] = field(default_factory=dict, repr=False, hash=False)

    def __repr__(self) -> str:
        return "Record(...)"


@dataclass(frozen=True)
class Release(Generic[Output_co]):
    """What a mechanism gives out for one record: the only thing that may be written out.

    Without slots: a frozen, slotted, generic dataclass cannot be made as ``Release[str](...)`` in Python 3.11.

    Attributes:
        id: Id of the record.
        output: What the mechanism drew; the empty text where only a vector leaves.
        label: The privatized label, if the mechanism privatizes labels.
        kept: Fields of the record that were declared public.
        vector: The privatized embedding, if the mechanism releases one. Files hold it in float32.
    """

    id: str
    output: Output_co
    label: str | None = None
    kept: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    vector: tuple[float, ...] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the input fields (keys of JSON objects and rows, columns of CSV and Parquet).

    Attributes:
        text: Field of the private text.
        id: Field of the ids, strings or integers; ``None`` numbers the records.
        label: Field of the label: a string, a number, a boolean, or null for no label.
        author: Field of the author, a string or an integer.
        subject: Field of the name under which a ledger charges the record, a string or an integer: the lasting name
            of the document, or of its author.
        keep: Fields that are public and are copied to the release.

    Raises:
        ConfigError: If a name is empty or given twice in ``keep``, or the text field is to be used as something else.
    """

    text: str = TEXT_FIELD
    id: str | None = None
    label: str | None = None
    author: str | None = None
    keep: tuple[str, ...] = ()
    subject: str | None = None

    def __post_init__(self) -> None:
        others = [name for name in (self.id, self.label, self.author, self.subject) if name is not None]
        if not all([self.text, *others, *self.keep]):
            raise ConfigError("Expected names of fields that are not empty. Name the field or leave it out.")
        if self.text in others or self.text in self.keep:
            raise ConfigError(
                f"Expected text={self.text!r} to be no other field. The text field holds the private text, which "
                "must not leave as an id, a label, an author, a subject or a kept field."
            )
        if len(set(self.keep)) < len(self.keep):
            raise ConfigError(f"Expected keep={self.keep!r} to name each field once. Remove the repetition.")


class OnError(StrEnum):
    """What to do with a record that cannot be read."""

    STOP = "stop"
    SKIP = "skip"


_ALL_FIELDS: Final = Fields()
_ADVICE: Final = "Repair it or take it out."


def read_records(
    source: str | os.PathLike[str] | Iterable[Record | Mapping[str, object]],
    fields: Fields = _ALL_FIELDS,
    *,
    format: Format | None = None,
    on_error: OnError = OnError.STOP,
    on_skip: Callable[[int, str], None] | None = None,
    max_characters: int = MAX_CHARACTERS,
    advice: str = _ADVICE,
) -> Generator[Record, None, None]:
    """Stream the records of a file or of any iterable of rows, in order.

    Files are read strictly as UTF-8; a byte order mark at the start is dropped. One record is in memory at a time
    (one batch of rows of Parquet), and no line longer than ``max_characters`` calls for is read whole.

    - JSON Lines: one object a line, each key once, no NaN or infinity. Empty lines are allowed at the end only.
    - CSV: comma, double quotes, a header; every row has the columns of the header. Empty lines as in JSON Lines. There
      is no null: an empty field is the empty string (which names no id or author).
    - Parquet: needs the extra ``dptext[parquet]``.
    - Plain text: every line is a document, and an empty line an empty one.

    Ids are "0", "1", ... in the order of the records that could be read, unless ``fields.id`` names a field. Then they
    must be unique; to check that, a 16-byte hash of every id is kept (about 100 bytes of memory a record).

    Args:
        source: Path of a file; or rows, as mappings or as ready records. Ready records pass through with their own
            ids, after the same checks of their text.
        fields: Names of the fields. Plain text has none, so that only the default will do there.
        format: Format of the file, where its extension does not tell. Compression always goes by ``.gz``.
        on_error: Whether a record that cannot be read ends the reading or is skipped.
        on_skip: Called with number and reason of a skipped record. The numbers count from 1 over all records (rows
            of CSV after the header, lines of the others). They depend on private data: do not publish them.
        max_characters: Public bound on the length of a text; a longer one is an error.
        advice: What to do about a record that ends the reading, as the message says it: only the caller knows what
            its users can set.

    Yields:
        The records. Closing the generator closes the file, as its end does.

    Raises:
        ConfigError: If a setting is wrong or the file cannot be opened.
        DataError: If a record cannot be read: not UTF-8, malformed, a field missing or of the wrong type, a NUL
            character or a lone surrogate in a string, a text that is too long, an id used twice.
        BrokenFileError: If nothing more can be read, with any ``on_error``: damaged gzip or Parquet, CSV with broken
            quotes or a bad header, a file without records. (An iterable may be empty.)
        MissingExtraError: If Parquet is to be read and pyarrow is not installed.
    """
    count(max_characters=max_characters)
    check = _Checks(fields, max_characters)
    if not isinstance(source, str | os.PathLike):
        return _checked(iter(source), "the rows", check, on_error=on_error, on_skip=on_skip, advice=advice)
    path = Path(source)
    kind = file_format(path, format)
    if kind is Format.TEXT and fields != Fields(text=fields.text):
        raise ConfigError(
            f"Expected no ids, labels, authors, subjects or kept fields for {str(path)!r}: plain text has no fields."
        )
    if kind is Format.PARQUET:
        load_pyarrow()
    _require_file(path)
    return _file_records(path, kind, check, on_error=on_error, on_skip=on_skip, advice=advice)


def _file_records(
    path: Path,
    kind: Format,
    check: _Checks,
    *,
    on_error: OnError,
    on_skip: Callable[[int, str], None] | None,
    advice: str,
) -> Generator[Record, None, None]:
    with contextlib.closing(file_rows(path, kind, needed(check.fields), max_line=check.max_line)) as rows:
        first = next(rows, Broken("the file holds no records"))
        items = itertools.chain([first], rows)
        yield from _checked(items, str(path), check, on_error=on_error, on_skip=on_skip, advice=advice)


def _checked(
    items: Iterator[object],
    name: str,
    check: _Checks,
    *,
    on_error: OnError,
    on_skip: Callable[[int, str], None] | None,
    advice: str,
) -> Generator[Record, None, None]:
    """Turn rows into records, and faults into errors or skips."""
    good = 0
    seen: set[bytes] = set()
    for number, item in enumerate(items, start=1):
        result = check.record(item, default_id=str(good))
        if isinstance(result, Record) and check.fields.id is not None:
            digest = hashlib.blake2b(result.id.encode(), digest_size=16).digest()
            if digest in seen:
                result = Bad("its id was used before")
            seen.add(digest)
        if isinstance(result, Record):
            good += 1
            yield result
        elif isinstance(result, Broken):
            raise BrokenFileError(f"{name}, record {number}: {result.reason}. Nothing from here on can be read.")
        elif on_error is OnError.STOP:
            raise DataError(f"{name}, record {number}: {result.reason}. {advice}")
        elif on_skip is not None:
            on_skip(number, result.reason)


@dataclass(frozen=True, slots=True)
class _Checks:
    """What a row must be like to become a record. Every method gives the fault as a value."""

    fields: Fields
    max_characters: int

    @property
    def max_line(self) -> int:
        return _BYTES_PER_CHARACTER * self.max_characters + _BYTES_FOR_OTHER_FIELDS

    def record(self, item: object, *, default_id: str) -> Record | Bad | Broken:
        match item:
            case Bad() | Broken():
                return item
            case Record():
                return self._strings(item, ("id", "text", "label", "author", "subject"))
            case Mapping():
                return self._row(item, default_id)
            case _:
                return Bad("the row is neither a mapping nor a Record")

    def _row(self, row: Mapping[str, object], default_id: str) -> Record | Bad:
        fields = self.fields
        for name in needed(fields):
            if name not in row:
                return Bad(f"the field {name!r} is missing (name another if no record has it)")
        text = row[fields.text]
        if not isinstance(text, str):
            return Bad(f"the field {fields.text!r} is not a string")
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
        label = None if fields.label is None else row[fields.label]
        if not is_scalar(label):
            return Bad(f"the field {fields.label!r} is not a string, a finite number, a boolean or null")
        kept: dict[str, Scalar] = {}
        for name in fields.keep:
            value = row[name]
            if not is_scalar(value):
                return Bad(f"the field {name!r} is not a string, a finite number, a boolean or null")
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
    """An id or an author. The empty string names nobody: it is what CSV writes for "unknown"."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not is_scalar(value):
        return None
    return str(value) or None


def _require_file(path: Path) -> None:
    """Refuse a path where there is nothing to read at the call, not at the first record."""
    problem: OSError | ValueError
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return
        problem = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except (OSError, ValueError) as error:
        problem = error
    raise file_error(path, "read", problem)


def needed(fields: Fields) -> list[str]:
    """The names of all fields, the text first, each once."""
    names = (fields.text, fields.id, fields.label, fields.author, fields.subject, *fields.keep)
    return list(dict.fromkeys(name for name in names if name is not None))


def batches(
    items: Iterable[Item], length: Callable[[Item], int], *, size: int, characters: int
) -> Iterator[list[Item]]:
    """Batches of at most `size` items, each ended by the item that brings it to so many characters."""
    batch: list[Item] = []
    total = 0
    for item in items:
        batch.append(item)
        total += length(item)
        if len(batch) >= size or total >= characters:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def require_labels(records: Sequence[Record], labels: Sequence[str], name: str) -> None:
    """Refuse records without one of the labels, where there are any.

    Args:
        records: public ones.
        labels: the public set; empty refuses nothing.
        name: what the records are, such as "public".

    Raises:
        ConfigError: a record has none or another; it says how many do.
    """
    unknown = sum(record.label not in labels for record in records) if labels else 0
    if unknown:
        raise ConfigError(
            f"Expected every {name} record to have one of the {len(labels)} labels of the settings, found "
            f"{unknown} of {len(records)} without: name the field of the label, complete labels=, or leave them out."
        )


def records_digest(records: Iterable[Record]) -> str:
    """sha256 of a set of labelled texts, whatever their order, ids and repetitions."""
    lines = {hashlib.sha256(f"{r.label or ''}\x1f{r.text}".encode("utf-8", "surrogatepass")).digest() for r in records}
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()
