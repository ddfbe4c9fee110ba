"""File formats: how rows lie in JSON Lines, CSV, Parquet and plain text, and what can be wrong with them.

Readers hand faults on as values (`Bad`, `Broken`), because exceptions of the parsers carry what they read:
``json.JSONDecodeError`` the whole document, ``UnicodeDecodeError`` the bytes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import math
import os
import threading
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeGuard, assert_never

from dptext.errors import ConfigError, MissingExtraError

Scalar = str | int | float | bool | None

_DRAIN: Final = 2**16
_BOM: Final = b"\xef\xbb\xbf"
_PARQUET_BATCH: Final = 256
_MAX_INTEGER_BITS: Final = 1024
#: How a cell begins that a spreadsheet computes.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Bytes of the largest file that is read as a whole: no certificate or model comes near, and a device never ends.
_MAX_WHOLE: Final = 2**28


class Format(StrEnum):
    """How records lie in a file. Each but Parquet may also be gzipped (``.gz``)."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    TEXT = "text"


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


def file_format(path: Path, named: Format | None) -> Format:
    """The named format, or the one that the extension tells.

    Raises:
        ConfigError: If the extension is unknown and nothing is named, or Parquet is to be gzipped.
    """
    if named is None:
        return detect_format(path)
    if named is Format.PARQUET and is_compressed(path):
        raise ConfigError(f"Expected {str(path)!r} not to be gzipped. Parquet is compressed inside; drop .gz.")
    return named


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that cannot be read; the next one can."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """Neither this record nor any after it can be read."""

    reason: str


_Line = bytes | Bad | Broken
Row = Mapping[str, object] | Bad | Broken


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Whether every format can write the value: a string, a finite number, a boolean or null."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        # Python refuses to write integers of thousands of digits.
        return value.bit_length() <= _MAX_INTEGER_BITS
    return value is None or isinstance(value, str)


def as_string(value: object) -> str:
    """A scalar as one string: strings as they are, the others as JSON writes them."""
    return value if isinstance(value, str) else json.dumps(value)


def safe_cell(value: object) -> str:
    """A cell of CSV that no spreadsheet computes: a text that begins like a formula gets an apostrophe.

    Numbers are none, as JSON writes them.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else as_string(value)


def string_fault(value: str) -> str | None:
    """What makes a string unfit for a UTF-8 file, or None."""
    if "\x00" in value:
        return "holds a NUL character"
    try:
        # A JSON escape can make half of a surrogate pair, which no UTF-8 file can hold; a CSV field holds one where
        # its bytes were not UTF-8 (see _CsvLines).
        value.encode()
    except UnicodeEncodeError:
        return "is not UTF-8 (or holds a lone surrogate)"
    return None


def file_error(path: str | os.PathLike[str], verb: str, error: OSError | ValueError) -> ConfigError:
    """The error to raise where the system refuses to open, read or write a file.

    Args:
        path: The file.
        verb: What was tried: "read" or "write".
        error: What the system answered, of which only the wording is used; a ValueError says that this is no path.
    """
    reason = "no path can hold a NUL character, or what the file system's encoding has not"
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
    advice = (
        "Give the path of an existing file that you may read."
        if verb == "read"
        else "Choose a folder that exists, that you may write to and whose disk has room."
    )
    return ConfigError(f"Cannot {verb} {str(path)!r}: {reason}. {advice}")


def open_input(path: Path) -> io.BufferedReader:
    """Open a file for reading.

    Raises:
        ConfigError: If the system refuses.
    """
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        problem = file_error(path, "read", error)
    raise problem


def read_whole(path: Path, *, limit: int = _MAX_WHOLE) -> bytes:
    """The bytes of a file that says what something else is: a certificate, settings, the description of a model.

    Raises:
        ConfigError: If it cannot be read, or is longer than ``limit`` bytes (as a device may be, without end).
    """
    with open_input(path) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            problem = file_error(path, "read", error)
        else:
            if len(data) <= limit:
                return data
            problem = ConfigError(f"Expected {str(path)!r} to be at most {limit} bytes long. Name the right file.")
    raise problem


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document. Where it is none, all that can be wrong is a `ValueError`, nesting included.

    Raises:
        ValueError: If this is not JSON. Its message may quote the document.
    """
    try:
        return json.loads(text)
    except RecursionError:
        pass
    raise ValueError("the nesting is too deep")


def file_rows(path: Path, kind: Format, names: Sequence[str], *, max_line: int) -> Generator[Row, None, None]:
    """The rows of a file, or their faults; nothing follows a `Broken`.

    Args:
        path: the file.
        kind: its format.
        names: the fields that are needed, the text first.
        max_line: bytes of the longest line, or row of CSV, that is read whole.
    """
    with open_input(path) as raw:
        if kind is Format.PARQUET:
            yield from _parquet_rows(raw, names)
            return
        # Not within a BufferedReader: it would lose what came out of a truncated file just before the fault.
        unzipped: io.BufferedIOBase = gzip.GzipFile(fileobj=raw) if is_compressed(path) else raw
        lines = _lines(unzipped, max_line)
        match kind:
            case Format.JSONL:
                yield from _jsonl_rows(lines)
            case Format.CSV:
                yield from _csv_rows(lines, names, max_line)
            case Format.TEXT:
                yield from _text_rows(lines, names[0])
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
        if isinstance(line, Broken):
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
        return Broken("the gzip data is truncated or damaged")
    except OSError as error:
        return Broken(f"the file cannot be read on ({error.strerror})")
    return Bad(f"the line is longer than {limit} bytes")


def _text_rows(lines: Iterator[_Line], name: str) -> Iterator[Row]:
    for line in lines:
        yield _text_row(line, name) if isinstance(line, bytes) else line


def _text_row(line: bytes, name: str) -> Row:
    if line.endswith(b"\n"):
        line = line[:-1].removesuffix(b"\r")
    try:
        return {name: line.decode()}
    except UnicodeDecodeError:
        return Bad("the line is not UTF-8")


def _jsonl_rows(lines: Iterator[_Line]) -> Iterator[Row]:
    blanks = 0
    for line in lines:
        if isinstance(line, bytes) and not line.strip():
            blanks += 1
            continue
        yield from itertools.repeat(Bad("the line is empty"), blanks)
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


def _json_row(line: bytes) -> Row:
    try:
        value: object = _JSON.decode(line.decode())
    except UnicodeDecodeError:
        return Bad("the line is not UTF-8")
    except (ValueError, RecursionError):
        # Also a number of too many digits, a key given twice, NaN, nesting that is too deep.
        return Bad("the line is not valid JSON")
    return value if isinstance(value, dict) else Bad("the line is not a JSON object")


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
        self.broken: Broken | None = None

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
            line = Broken(f"a row is longer than {self._limit} bytes, or a quote is not closed")
        if line is None:
            self.ended = True
        else:
            self.broken = Broken(line.reason)
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


def _csv_rows(lines: Iterator[_Line], names: Sequence[str], max_line: int) -> Iterator[Row]:
    source = _CsvLines(lines, max_line)
    with _field_limit(max_line):
        reader = csv.reader(source, strict=True)
        header = _csv_row(reader, source)
        if header is None or isinstance(header, Broken):
            if header is not None:
                yield header
            return
        problem = _header_fault(header, names)
        if problem is not None:
            yield problem
            return
        blanks = 0
        while (row := _csv_row(reader, source)) is not None:
            if row == []:
                blanks += 1
                continue
            yield from itertools.repeat(Bad("the row is empty"), blanks)
            blanks = 0
            if isinstance(row, Broken):
                yield row
                return
            if len(row) == len(header):
                yield dict(zip(header, row, strict=True))
            else:
                yield Bad(f"the row has {len(row)} columns and the header {len(header)}")


def _csv_row(reader: Iterator[list[str]], source: _CsvLines) -> list[str] | Broken | None:
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
    return row if reason is None else Broken(reason)


def _header_fault(header: list[str], names: Sequence[str]) -> Broken | None:
    # The header may be a row of private text. Only names that the caller gave may appear in a message.
    if not header:
        return Broken("the first line is empty and should be the header")
    if any(string_fault(name) is not None for name in header):
        return Broken("the header is not UTF-8 or holds a NUL character")
    for name in names:
        if header.count(name) != 1:
            return Broken(f"the header has no column {name!r} or several (or there is no header)")
    return None


def load_pyarrow() -> tuple[ModuleType, ModuleType]:
    """The modules pyarrow and pyarrow.parquet, loaded when first needed."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow. Install it: pip install 'dptext[parquet]'") from error
    return pa, pq


def _parquet_rows(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Row]:
    arrow, parquet = load_pyarrow()
    if not raw.peek(1):
        return
    # pyarrow quotes values in its messages.
    errors = (arrow.ArrowException, OSError, ValueError)
    file = known = None
    with contextlib.suppress(*errors):
        # Without read-ahead. Its threads call `raw` and outlive a failed read; one that calls into a Python that is
        # ending aborts the process.
        file = parquet.ParquetFile(raw, pre_buffer=False)
        known = file.schema_arrow.names
    if file is None or known is None:
        yield Broken("the file is not Parquet, or it is truncated or damaged")
        return
    with file:
        for name in names:
            if known.count(name) != 1:
                yield Broken(f"the file has no column {name!r} or several")
                return
        batches = None
        with contextlib.suppress(*errors):
            batches = file.iter_batches(batch_size=_PARQUET_BATCH, columns=list(names), use_threads=False)
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
        yield Broken("the Parquet data is truncated or damaged")


def _parquet_row(batch: Any, index: int, errors: tuple[type[Exception], ...]) -> Row:
    # The others come of times that lie outside of what Python has, of a zone that it does not know, or are finer.
    unmatched: tuple[type[Exception], ...] = (*errors, ArithmeticError, LookupError, TypeError, ImportError)
    try:
        row: dict[str, object] = batch.slice(index, 1).to_pylist()[0]
    except unmatched:
        return Bad("a value is not UTF-8, or Python has no match for it")
    return row
