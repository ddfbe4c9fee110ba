"""Private texts in, releases out: JSON Lines, CSV, Parquet and plain text, streamed.

A ``Record`` is private and shows nothing of itself. A ``Release`` is what may be written out. Reading keeps one record
in memory at a time, whatever the size of the file; writing goes to a file that only its owner can read, which takes
the place of the target when it is complete::

    records = read_records("private.jsonl.gz", Fields(text="review"))
    releases = (Release(record.id, "a public text") for record in records)
    write_releases("public.csv", releases)

No error of this module holds text, ids, labels or column names found in a file (the first line of a CSV file without
a header is private text), and none is chained to an exception that does: ``json.JSONDecodeError`` carries the whole
document, ``UnicodeDecodeError`` the bytes. Readers therefore hand faults on as values, and raise outside of ``except``.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import hashlib
import io
import itertools
import json
import math
import os
import secrets
import stat
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, Protocol, TypeGuard, TypeVar, assert_never

from dptext._validate import count
from dptext.errors import ConfigError, DataError, MissingExtraError

Output_co = TypeVar("Output_co", covariant=True)
Scalar = str | int | float | bool | None

ID_FIELD: Final = "id"
TEXT_FIELD: Final = "text"
LABEL_FIELD: Final = "label"
MAX_CHARACTERS: Final = 5_000_000

# A character takes at most 12 bytes of a line (two JSON escapes, "\ud83d\ude00"); the rest is for the other fields.
_BYTES_PER_CHARACTER: Final = 12
_BYTES_FOR_OTHER_FIELDS: Final = 2**20
_BOM: Final = b"\xef\xbb\xbf"
_DRAIN: Final = 2**16
_PARQUET_BATCH: Final = 256
_WRITE_BATCH: Final = 1024
_WRITE_CHARACTERS: Final = 8_000_000
_MAX_INTEGER_BITS: Final = 1024


# --- what is read and written -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """One private text. Its ``repr`` shows nothing, because an id or a label can be as private as the text.

    Attributes:
        id: Name of the record, by default its position.
        text: The private text.
        label: Private class of the text, if there is one.
        author: Who wrote it, if the records say so.
        kept: Fields that the caller declared public; they are copied to the release.
    """

    id: str = field(repr=False)
    text: str = field(repr=False)
    label: str | None = field(default=None, repr=False)
    author: str | None = field(default=None, repr=False)
    kept: Mapping[str, Scalar] = field(default_factory=dict, repr=False, hash=False)

    def __repr__(self) -> str:
        return "Record(...)"


@dataclass(frozen=True)
class Release(Generic[Output_co]):
    """What a mechanism gives out for one record: the only thing that may be written out.

    Without slots: a frozen, slotted, generic dataclass cannot be made as ``Release[str](...)`` in Python 3.11.

    Attributes:
        id: Id of the record.
        output: What the mechanism drew, a text or a vector.
        label: The privatized label, if the mechanism privatizes labels.
        kept: Fields of the record that were declared public.
    """

    id: str
    output: Output_co
    label: str | None = None
    kept: Mapping[str, Scalar] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the input fields (keys of JSON objects and rows, columns of CSV and Parquet).

    Attributes:
        text: Field of the private text.
        id: Field of the ids, strings or integers; ``None`` numbers the records.
        label: Field of the label: a string, a number, a boolean, or null for no label.
        author: Field of the author, a string or an integer.
        keep: Fields that are public and are copied to the release.

    Raises:
        ConfigError: If a name is empty or given twice in ``keep``, or the text field is to be used as something else.
    """

    text: str = TEXT_FIELD
    id: str | None = None
    label: str | None = None
    author: str | None = None
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        others = [name for name in (self.id, self.label, self.author) if name is not None]
        if not all([self.text, *others, *self.keep]):
            raise ConfigError("Expected names of fields that are not empty. Name the field or leave it out.")
        if self.text in others or self.text in self.keep:
            raise ConfigError(
                f"Expected text={self.text!r} to be no other field. The text field holds the private text, which "
                "must not leave as an id, a label, an author or a kept field."
            )
        if len(set(self.keep)) < len(self.keep):
            raise ConfigError(f"Expected keep={self.keep!r} to name each field once. Remove the repetition.")


class Format(StrEnum):
    """How records lie in a file. Each but Parquet may also be gzipped (``.gz``)."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    TEXT = "text"


APPENDABLE: Final = frozenset({Format.JSONL, Format.CSV, Format.TEXT})
"""Formats whose files may be cut after any batch and continued; a Parquet file is unreadable until it is closed."""


class OnError(StrEnum):
    """What to do with a record that cannot be read."""

    STOP = "stop"
    SKIP = "skip"


class BrokenFileError(DataError):
    """Nothing after this record can be read, so that ``OnError.SKIP`` cannot help: a truncated gzip, an open quote."""


_EXTENSIONS: Final = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".txt": Format.TEXT,
}


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Whether the name of the file ends in ``.gz``."""
    return Path(path).suffix.lower() == ".gz"


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Tell the format by the file extension, in capitals or not: ``.jsonl .ndjson .csv .txt``, and ``.parquet``.

    Raises:
        ConfigError: If the extension is unknown.
    """
    path = Path(path)
    name = path.with_suffix("") if is_compressed(path) else path
    found = _EXTENSIONS.get(name.suffix.lower())
    if found is None or (found is Format.PARQUET and is_compressed(path)):
        raise ConfigError(
            f"Expected {str(path)!r} to end in {', '.join(_EXTENSIONS)} (each but .parquet also with .gz). "
            f"Rename the file or name its format with --format ({', '.join(Format)})."
        )
    return found


def _file_format(path: Path, named: Format | None) -> Format:
    if named is None:
        return detect_format(path)
    if named is Format.PARQUET and is_compressed(path):
        raise ConfigError(f"Expected {str(path)!r} not to be gzipped. Parquet is compressed inside; drop .gz.")
    return named


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bad:
    """A record that cannot be read; the next one can."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Broken:
    """Neither this record nor any after it can be read."""

    reason: str


_Line = bytes | _Bad | _Broken
_Row = Mapping[str, object] | _Bad | _Broken

_ALL_FIELDS: Final = Fields()


def read_records(
    source: str | os.PathLike[str] | Iterable[Record | Mapping[str, object]],
    fields: Fields = _ALL_FIELDS,
    *,
    format: Format | None = None,
    on_error: OnError = OnError.STOP,
    on_skip: Callable[[int, str], None] | None = None,
    max_characters: int = MAX_CHARACTERS,
) -> Iterator[Record]:
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

    Yields:
        The records.

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
        return _checked(iter(source), "the rows", check, on_error=on_error, on_skip=on_skip)
    path = Path(source)
    kind = _file_format(path, format)
    if kind is Format.TEXT and fields != Fields(text=fields.text):
        raise ConfigError(
            f"Expected no ids, labels, authors or kept fields for {str(path)!r}: plain text has no fields."
        )
    if kind is Format.PARQUET:
        _pyarrow()
    _require_file(path)
    return _file_records(path, kind, check, on_error=on_error, on_skip=on_skip)


def _file_records(
    path: Path, kind: Format, check: _Checks, *, on_error: OnError, on_skip: Callable[[int, str], None] | None
) -> Iterator[Record]:
    with contextlib.closing(_file_rows(path, kind, check)) as rows:
        first = next(rows, _Broken("the file holds no records"))
        items = itertools.chain([first], rows)
        yield from _checked(items, str(path), check, on_error=on_error, on_skip=on_skip)


def _checked(
    items: Iterator[object],
    name: str,
    check: _Checks,
    *,
    on_error: OnError,
    on_skip: Callable[[int, str], None] | None,
) -> Iterator[Record]:
    """Turn rows into records, and faults into errors or skips."""
    good = 0
    seen: set[bytes] = set()
    for number, item in enumerate(items, start=1):
        result = check.record(item, default_id=str(good))
        if isinstance(result, Record) and check.fields.id is not None:
            digest = hashlib.blake2b(result.id.encode(), digest_size=16).digest()
            if digest in seen:
                result = _Bad("its id was used before")
            seen.add(digest)
        if isinstance(result, Record):
            good += 1
            yield result
        elif isinstance(result, _Broken):
            raise BrokenFileError(f"{name}, record {number}: {result.reason}. Nothing from here on can be read.")
        elif on_error is OnError.STOP:
            raise DataError(
                f"{name}, record {number}: {result.reason}. Repair it, or skip such records with --on-error skip."
            )
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

    def record(self, item: object, *, default_id: str) -> Record | _Bad | _Broken:
        match item:
            case _Bad() | _Broken():
                return item
            case Record():
                return self._strings(item, ("id", "text", "label", "author"))
            case Mapping():
                return self._row(item, default_id)
            case _:
                return _Bad("the row is neither a mapping nor a Record")

    def _row(self, row: Mapping[str, object], default_id: str) -> Record | _Bad:
        fields = self.fields
        for name in _needed(fields):
            if name not in row:
                return _Bad(f"the field {name!r} is missing")
        text = row[fields.text]
        if not isinstance(text, str):
            return _Bad(f"the field {fields.text!r} is not a string")
        name_of_id, name_of_author = fields.id, fields.author
        id_ = default_id if name_of_id is None else _identifier(row[name_of_id])
        if id_ is None:
            return _Bad(f"the field {name_of_id!r} is not a string or integer that can name a record")
        author = None if name_of_author is None else _identifier(row[name_of_author])
        if name_of_author is not None and author is None:
            return _Bad(f"the field {name_of_author!r} is not a string or integer that can name an author")
        label = None if fields.label is None else row[fields.label]
        if not _is_scalar(label):
            return _Bad(f"the field {fields.label!r} is not a string, a finite number, a boolean or null")
        kept: dict[str, Scalar] = {}
        for name in fields.keep:
            value = row[name]
            if not _is_scalar(value):
                return _Bad(f"the field {name!r} is not a string, a finite number, a boolean or null")
            kept[name] = value
        record = Record(id_, text, None if label is None else _as_string(label), author, kept)
        return self._strings(
            record, (fields.id or "id", fields.text, fields.label or "label", fields.author or "author")
        )

    def _strings(self, record: Record, names: tuple[str, str, str, str]) -> Record | _Bad:
        values: tuple[object, ...] = (record.id, record.text, record.label, record.author)
        optional = (False, False, True, True)
        for name, value, may_miss in zip(names, values, optional, strict=True):
            if not isinstance(value, str) and not (may_miss and value is None):
                return _Bad(f"the field {name!r} is not a string")
        for name, value in itertools.chain(zip(names, values, strict=True), record.kept.items()):
            if not _is_scalar(value):
                return _Bad(f"the field {name!r} is not a string, a finite number, a boolean or null")
            fault = _string_fault(value) if isinstance(value, str) else None
            if fault is not None:
                return _Bad(f"the field {name!r} {fault}")
        if len(record.text) > self.max_characters:
            return _Bad(f"the text is longer than max_characters={self.max_characters}")
        return record


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        # Python refuses to write integers of thousands of digits.
        return value.bit_length() <= _MAX_INTEGER_BITS
    return value is None or isinstance(value, str)


def _identifier(value: object) -> str | None:
    """An id or an author. The empty string names nobody: it is what CSV writes for "unknown"."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not _is_scalar(value):
        return None
    return str(value) or None


def _as_string(value: object) -> str:
    """A scalar as one string: strings as they are, the others as JSON writes them."""
    return value if isinstance(value, str) else json.dumps(value)


def _string_fault(value: str) -> str | None:
    if "\x00" in value:
        return "holds a NUL character"
    try:
        # A JSON escape can make half of a surrogate pair, which no UTF-8 file can hold; a CSV field holds one where
        # its bytes were not UTF-8 (see _CsvLines).
        value.encode()
    except UnicodeEncodeError:
        return "is not UTF-8 (or holds a lone surrogate)"
    return None


def file_error(path: str | os.PathLike[str], verb: str, error: OSError) -> ConfigError:
    """The error to raise where the system refuses to open, read or write a file.

    Args:
        path: The file.
        verb: What was tried: "read" or "write".
        error: What the system answered. Only its wording is used.
    """
    advice = (
        "Give the path of an existing file that you may read."
        if verb == "read"
        else "Choose a folder that exists, that you may write to and whose disk has room."
    )
    return ConfigError(f"Cannot {verb} {str(path)!r}: {error.strerror or type(error).__name__}. {advice}")


def _require_file(path: Path) -> None:
    """Refuse a path where there is nothing to read at the call, not at the first record."""
    problem: OSError
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return
        problem = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        problem = error
    raise file_error(path, "read", problem)


def _open_input(path: Path) -> io.BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        problem = file_error(path, "read", error)
    raise problem


def _file_rows(path: Path, kind: Format, check: _Checks) -> Generator[_Row, None, None]:
    with _open_input(path) as raw:
        if kind is Format.PARQUET:
            yield from _parquet_rows(raw, check.fields)
            return
        # Not within a BufferedReader: it would lose what came out of a truncated file just before the fault.
        unzipped: io.BufferedIOBase = gzip.GzipFile(fileobj=raw) if is_compressed(path) else raw
        lines = _lines(unzipped, check.max_line)
        match kind:
            case Format.JSONL:
                yield from _jsonl_rows(lines)
            case Format.CSV:
                yield from _csv_rows(lines, check)
            case Format.TEXT:
                yield from _text_rows(lines, check.fields.text)
            case _:
                assert_never(kind)


def _lines(stream: io.BufferedIOBase, limit: int) -> Iterator[_Line]:
    first = True
    while True:
        line = _line(stream, limit)
        if isinstance(line, bytes):
            if first:
                line = line.removeprefix(_BOM)
            if not line:
                return
        first = False
        yield line
        if isinstance(line, _Broken):
            return


def _line(stream: io.BufferedIOBase, limit: int) -> _Line:
    """The next line with its end, or no bytes at the end of the stream. Of a line that is too long nothing is kept."""
    try:
        line = stream.readline(limit)
        if len(line) < limit or line.endswith(b"\n"):
            return line
        while (rest := stream.readline(_DRAIN)) and not rest.endswith(b"\n"):
            pass
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return _Broken("the gzip data is truncated or damaged")
    except OSError as error:
        return _Broken(f"the file cannot be read on ({error.strerror})")
    return _Bad(f"the line is longer than {limit} bytes")


def _text_rows(lines: Iterator[_Line], name: str) -> Iterator[_Row]:
    for line in lines:
        yield _text_row(line, name) if isinstance(line, bytes) else line


def _text_row(line: bytes, name: str) -> _Row:
    if line.endswith(b"\n"):
        line = line[:-1].removesuffix(b"\r")
    try:
        return {name: line.decode()}
    except UnicodeDecodeError:
        return _Bad("the line is not UTF-8")


def _jsonl_rows(lines: Iterator[_Line]) -> Iterator[_Row]:
    blanks = 0
    for line in lines:
        if isinstance(line, bytes) and not line.strip():
            blanks += 1
            continue
        yield from itertools.repeat(_Bad("the line is empty"), blanks)
        blanks = 0
        yield _json_row(line) if isinstance(line, bytes) else line


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # Of a repeated key Python keeps the last and others the first: two readers would see two texts.
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError
    return row


def _no_constant(_: str) -> None:
    raise ValueError


_JSON: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _json_row(line: bytes) -> _Row:
    try:
        value: object = _JSON.decode(line.decode())
    except UnicodeDecodeError:
        return _Bad("the line is not UTF-8")
    except (ValueError, RecursionError):
        # Also a number of too many digits, a key given twice, NaN, nesting that is too deep.
        return _Bad("the line is not valid JSON")
    return value if isinstance(value, dict) else _Bad("the line is not a JSON object")


class _CsvLines:
    """The lines of a CSV file as ``csv.reader`` wants them, with a bound on the bytes of one row.

    Without the bound a quote that is never closed would swallow the rest of the file. Bytes that are not UTF-8 become
    lone surrogates, so that the quotes still pair up and only the row that holds them is bad.
    """

    def __init__(self, lines: Iterator[_Line], limit: int) -> None:
        self._lines = lines
        self._limit = limit
        self.left = limit
        self.ended = False
        self.broken: _Broken | None = None

    def next_row(self) -> None:
        self.left = self._limit

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if isinstance(line, bytes):
            self.left -= len(line)
            if self.left >= 0:
                return line.decode("utf-8", "surrogateescape")
            line = _Broken(f"a row is longer than {self._limit} bytes, or a quote is not closed")
        if line is None:
            self.ended = True
        else:
            self.broken = _Broken(line.reason)
        raise StopIteration


_limits: list[int] = []
_limits_lock = threading.RLock()


@contextlib.contextmanager
def _field_limit(limit: int) -> Iterator[None]:
    """Raise the limit that the csv module sets on fields, for all readers of this process, while any file is read.

    The limit is one number per process. It is only ever raised, so that nobody else's reading fails for it, and the
    last of our readers puts it back.
    """
    with _limits_lock:
        if not _limits:
            _limits.append(csv.field_size_limit())
        _limits.append(limit)
        csv.field_size_limit(max(_limits))
    try:
        yield
    finally:
        with _limits_lock:
            _limits.remove(limit)
            csv.field_size_limit(max(_limits))
            if len(_limits) == 1:
                _limits.clear()


def _csv_rows(lines: Iterator[_Line], check: _Checks) -> Iterator[_Row]:
    source = _CsvLines(lines, check.max_line)
    with _field_limit(check.max_line):
        reader = csv.reader(source, strict=True)
        header = _csv_row(reader, source)
        if header is None or isinstance(header, _Broken):
            if header is not None:
                yield header
            return
        problem = _header_fault(header, check.fields)
        if problem is not None:
            yield problem
            return
        blanks = 0
        while (row := _csv_row(reader, source)) is not None:
            if row == []:
                blanks += 1
                continue
            yield from itertools.repeat(_Bad("the row is empty"), blanks)
            blanks = 0
            if isinstance(row, _Broken):
                yield row
                return
            if len(row) == len(header):
                yield dict(zip(header, row, strict=True))
            else:
                yield _Bad(f"the row has {len(row)} columns and the header {len(header)}")


def _csv_row(reader: Iterator[list[str]], source: _CsvLines) -> list[str] | _Broken | None:
    """The next row, or None at the end. After a broken quote nobody knows where the next row begins."""
    source.next_row()
    row = None
    reason = None
    try:
        row = next(reader, None)
    except csv.Error:
        reason = "a quote is opened and not closed" if source.ended else "the quotes are malformed"
    if source.broken is not None:
        return source.broken
    return row if reason is None else _Broken(reason)


def _needed(fields: Fields) -> list[str]:
    """The names of all fields, each once."""
    names = (fields.text, fields.id, fields.label, fields.author, *fields.keep)
    return list(dict.fromkeys(name for name in names if name is not None))


def _header_fault(header: list[str], fields: Fields) -> _Broken | None:
    # The header may be a row of private text. Only names that the caller gave may appear in a message.
    if not header:
        return _Broken("the first line is empty and should be the header")
    if any(_string_fault(name) is not None for name in header):
        return _Broken("the header is not UTF-8 or holds a NUL character")
    for name in _needed(fields):
        if header.count(name) != 1:
            return _Broken(f"the header has no column {name!r} or several (or there is no header)")
    return None


def _pyarrow() -> tuple[Any, Any]:
    """The modules pyarrow and pyarrow.parquet, loaded when first needed."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow. Install it: pip install 'dptext[parquet]'") from error
    return pyarrow, pyarrow.parquet


def _parquet_rows(raw: io.BufferedReader, fields: Fields) -> Iterator[_Row]:
    arrow, parquet = _pyarrow()
    if not raw.peek(1):
        return
    # pyarrow quotes values in its messages.
    errors = (arrow.ArrowException, OSError, ValueError)
    file = None
    with contextlib.suppress(*errors):
        file = parquet.ParquetFile(raw)
    if file is None:
        yield _Broken("the file is not Parquet, or it is truncated or damaged")
        return
    columns = _needed(fields)
    for name in columns:
        if file.schema_arrow.names.count(name) != 1:
            yield _Broken(f"the file has no column {name!r} or several")
            return
    batches = None
    with contextlib.suppress(*errors):
        batches = file.iter_batches(batch_size=_PARQUET_BATCH, columns=columns, use_threads=False)
    while batches is not None:
        batch = None
        ended = False
        try:
            batch = next(batches)
        except StopIteration:
            ended = True
        except errors:
            pass
        if ended:
            return
        if batch is None:
            break
        for start in range(batch.num_rows):
            yield _parquet_row(batch, start, errors)
    yield _Broken("the Parquet data is truncated or damaged")


def _parquet_row(batch: Any, index: int, errors: tuple[type[Exception], ...]) -> _Row:
    try:
        row: dict[str, object] = batch.slice(index, 1).to_pylist()[0]
    except errors:
        return _Bad("a value is not UTF-8, or of a type that Python has no match for")
    return row


# --- writing ----------------------------------------------------------------------------------------------------------


class ReleaseWriter(Protocol):
    """Writes batches of releases to an open file. Closing the writer completes the format and leaves the file open."""

    def write(self, releases: Sequence[Release[str]], /) -> None:
        """Write one batch and hand it to the operating system."""

    def close(self) -> None:
        """Write what the format needs at its end. A file without a single release becomes a valid empty one."""


def release_columns(format: Format, *, label: bool = False, keep: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names of the output columns: ``id``, ``text``, ``label`` where labels are released, and the kept fields.

    Raises:
        ConfigError: If two columns would have one name, or plain text is to hold more than texts.
    """
    if format is Format.TEXT:
        if label or keep:
            raise ConfigError(
                "Expected no labels or kept fields: plain text holds texts only. Write JSON Lines or CSV."
            )
        return (TEXT_FIELD,)
    columns = (ID_FIELD, TEXT_FIELD, *((LABEL_FIELD,) if label else ()), *keep)
    if len(set(columns)) < len(columns):
        raise ConfigError(
            f"Expected keep={keep!r} to name no field twice and none of the columns that are written anyway "
            f"({', '.join(columns[: len(columns) - len(keep)])}). To keep the ids, name the field of the ids."
        )
    return columns


def _row_values(release: Release[str], number: int, *, label: bool, keep: tuple[str, ...]) -> list[Scalar]:
    """The values of one release in the order of ``release_columns``.

    A release that does not fit the columns stops the writing: to leave a value out, or a column, would be a silent
    change of what was released.
    """
    where = f"Release {number} of the batch"
    if set(release.kept) != set(keep):
        raise ConfigError(f"{where} has other kept fields than keep={keep!r}. Write the fields that the records keep.")
    if release.label is not None and not label:
        raise ConfigError(f"{where} has a label, and label=False says that labels are not written.")
    values = [release.id, release.output, *((release.label,) if label else ()), *(release.kept[name] for name in keep)]
    for column, value in enumerate(values):
        wrong_type = not _is_scalar(value) or (column < 2 and not isinstance(value, str))
        if wrong_type or (isinstance(value, str) and _string_fault(value) is not None):
            raise DataError(f"{where} cannot be written: value {column + 1} is not text in UTF-8 or a plain number.")
    return values


def encode_batch(
    releases: Sequence[Release[str]],
    format: Format,
    *,
    compressed: bool = False,
    header: bool = False,
    label: bool = False,
    keep: tuple[str, ...] = (),
) -> bytes:
    r"""Write a batch as bytes that may stand alone or follow those of another batch.

    Compressed batches are complete gzip members without a time stamp: files of such batches, cut after any of them,
    are valid gzip, and the same batches give the same bytes.

    - JSON Lines: one object a line.
    - CSV: RFC 4180 (``\r\n``); kept values that are not strings as JSON writes them, null as an empty field.
    - Plain text: the texts alone, in order. Line ends within a text (``\n``, ``\r``) become spaces, as one line is one
      document. Ids are not written.

    Args:
        releases: The batch.
        format: JSON Lines, CSV or plain text.
        compressed: Whether to gzip.
        header: Whether the batch begins a file. Only CSV has something to say then.
        label: Whether labels are written.
        keep: The kept fields, in the order of the columns.

    Returns:
        The bytes; none for no releases, except for the header and the gzip frame.

    Raises:
        ConfigError: If the format is Parquet, or the columns are impossible or not those of the releases.
        DataError: If a value cannot be written as UTF-8.
    """
    columns = release_columns(format, label=label, keep=keep)
    rows = [_row_values(release, number, label=label, keep=keep) for number, release in enumerate(releases, start=1)]
    match format:
        case Format.JSONL:
            text = "".join(
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False) + "\n"
                for row in rows
            )
        case Format.CSV:
            buffer = io.StringIO(newline="")
            # "\r\n", because in Python 3.11 the csv module quotes only what is part of its own line end.
            writer = csv.writer(buffer, lineterminator="\r\n")
            if header:
                writer.writerow(columns)
            writer.writerows([["" if value is None else _as_string(value) for value in row] for row in rows])
            text = buffer.getvalue()
        case Format.TEXT:
            texts = (release.output for release in releases)
            text = "".join(line.replace("\r\n", " ").replace("\n", " ").replace("\r", " ") + "\n" for line in texts)
        case Format.PARQUET:
            raise ConfigError("Expected a format that can be appended to. Parquet is written by open_writer.")
        case _:
            assert_never(format)
    data = text.encode()
    return gzip.compress(data, mtime=0) if compressed else data


class _AppendingWriter:
    """Writes what ``encode_batch`` makes; the size of the file after any batch is a place to cut and continue."""

    def __init__(
        self, file: BinaryIO, format: Format, *, compressed: bool, header: bool, label: bool, keep: tuple[str, ...]
    ) -> None:
        release_columns(format, label=label, keep=keep)
        self._file = file
        self._format = format
        self._compressed = compressed
        self._header = header
        self._label = label
        self._keep = keep

    def write(self, releases: Sequence[Release[str]], /) -> None:
        data = encode_batch(
            releases,
            self._format,
            compressed=self._compressed,
            header=self._header,
            label=self._label,
            keep=self._keep,
        )
        self._header = False
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        if self._header:
            self.write([])


class _ParquetWriter:
    """Writes each batch as one row group; kept fields are strings, in JSON where they were none."""

    def __init__(self, file: BinaryIO, *, label: bool, keep: tuple[str, ...]) -> None:
        self._arrow, parquet = _pyarrow()
        self._columns = release_columns(Format.PARQUET, label=label, keep=keep)
        self._label = label
        self._keep = keep
        self._schema = self._arrow.schema(
            [
                self._arrow.field(name, self._arrow.string(), nullable=place > 1)
                for place, name in enumerate(self._columns)
            ]
        )
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, releases: Sequence[Release[str]], /) -> None:
        rows = [
            _row_values(release, number, label=self._label, keep=self._keep)
            for number, release in enumerate(releases, start=1)
        ]
        columns = {
            name: [None if row[place] is None else _as_string(row[place]) for row in rows]
            for place, name in enumerate(self._columns)
        }
        self._writer.write_table(self._arrow.Table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def open_writer(
    file: BinaryIO,
    format: Format,
    *,
    compressed: bool = False,
    header: bool = True,
    label: bool = False,
    keep: tuple[str, ...] = (),
) -> ReleaseWriter:
    """A writer of releases on an open binary file.

    After each ``write`` to a format in ``APPENDABLE``, the size of the file is a place where the file may be cut later;
    to go on there, open the file for appending and give ``header=False`` unless the size is 0.

    Args:
        file: Where to write. The caller flushes it to the disk and closes it.
        format: The format.
        compressed: Whether each batch is gzipped (not for Parquet, which compresses by itself).
        header: Whether the file is new: then CSV gets its header with the first batch.
        label: Whether labels are written.
        keep: The kept fields, in the order of the columns.

    Raises:
        ConfigError: If the columns are impossible, or Parquet is to be gzipped or continued.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    if format is not Format.PARQUET:
        return _AppendingWriter(file, format, compressed=compressed, header=header, label=label, keep=keep)
    if compressed or not header:
        raise ConfigError(
            "Expected a new Parquet file that is not gzipped: it cannot be continued. Write JSON Lines or CSV."
        )
    return _ParquetWriter(file, label=label, keep=keep)


def refuse_existing(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise ConfigError if there is something at the path already and nobody said that it may go."""
    if not force and os.path.lexists(path):
        raise ConfigError(f"Expected no file at {str(path)!r} yet. Choose another path or overwrite it with --force.")


def create_private(path: str | os.PathLike[str]) -> BinaryIO:
    """Create a file that only its owner may read (mode 0600) and open it for writing.

    Raises:
        ConfigError: If the file exists already or cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o600), "wb")
    except OSError as error:
        problem = file_error(path, "write", error)
    raise problem


def publish(
    file: BinaryIO, partial: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False
) -> None:
    """Put a complete file in its place: write it to the disk, close it, rename it.

    After this returns, the file survives a loss of power. It keeps mode 0600.

    Args:
        file: The open file.
        partial: Where it lies, in the folder of ``path``.
        path: Where it shall lie.
        force: Whether a file that is there may be overwritten.

    Raises:
        ConfigError: If the disk refuses, or ``path`` exists.
    """
    refuse_existing(path, force=force)
    try:
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(partial, path)
    except OSError as error:
        problem = file_error(path, "write", error)
    else:
        _sync_folder(Path(path).parent)
        return
    raise problem


def _sync_folder(folder: Path) -> None:
    # Some file systems cannot sync a folder. The file itself is safe by then.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_releases(
    path: str | os.PathLike[str], releases: Iterable[Release[str]], *, format: Format | None = None, force: bool = False
) -> None:
    """Write releases to a file, which appears at ``path`` only when it is complete.

    The file has mode 0600. Columns are ``id``, ``text``, ``label`` if the first release has a label, and the kept
    fields of the first release; later releases must have the same. See ``encode_batch`` for the formats.

    Args:
        path: Where to write; gzipped if it ends in ``.gz``.
        releases: The releases, written in their order, in batches.
        format: The format, where the extension does not tell.
        force: Whether an existing file may be overwritten.

    Raises:
        ConfigError: If a setting is wrong, the file exists, or it cannot be written.
        DataError: If a release cannot be written as UTF-8.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    target = Path(path)
    kind = _file_format(target, format)
    refuse_existing(target, force=force)
    if kind is Format.PARQUET:
        _pyarrow()
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    # Before the first release is drawn: a folder that cannot be written to must not cost privacy.
    file = create_private(partial)
    try:
        _write_all(file, target, releases, kind)
        publish(file, partial, target, force=force)
    finally:
        # On a full disk, closing fails as well; the file is thrown away in any case.
        with contextlib.suppress(OSError):
            file.close()
        partial.unlink(missing_ok=True)


def _write_all(file: BinaryIO, target: Path, releases: Iterable[Release[str]], kind: Format) -> None:
    batches = _batches(releases)
    first = next(batches, [])
    writer = open_writer(
        file,
        kind,
        compressed=is_compressed(target),
        label=bool(first) and first[0].label is not None,
        keep=tuple(first[0].kept) if first else (),
    )
    try:
        for batch in itertools.chain([first] if first else [], batches):
            # Only our own writing is watched: an OSError of whoever makes the releases is not about this file.
            with _writing(target):
                writer.write(batch)
    except BaseException:
        # pyarrow would otherwise try to complete the file after it is closed. Nobody will read what it writes here.
        with contextlib.suppress(OSError):
            writer.close()
        raise
    with _writing(target):
        writer.close()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = file_error(path, "write", error)
    else:
        return
    raise problem


def _batches(releases: Iterable[Release[str]]) -> Iterator[list[Release[str]]]:
    """Batches bounded in number and in characters."""
    batch: list[Release[str]] = []
    characters = 0
    for release in releases:
        batch.append(release)
        characters += len(release.output)
        if len(batch) >= _WRITE_BATCH or characters >= _WRITE_CHARACTERS:
            yield batch
            batch = []
            characters = 0
    if batch:
        yield batch
