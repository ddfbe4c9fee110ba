"""Private texts in, streamed: one record is in memory at a time, whatever the size of the file.

    records = read_records("private.jsonl.gz", Fields(text="review"))

No error of this module holds text, ids, labels or column names found in a file (the first line of a CSV file without
a header is private text), and none is chained to an exception that does. Readers therefore hand faults on as values,
and raise outside of ``except``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from dptext._validate import count
from dptext.errors import BrokenFileError, ConfigError, DataError
from dptext.text.formats import Format, file_format
from dptext.text.inputs import file_error
from dptext.text.lines import Bad, Broken
from dptext.text.parquet_rows import load_pyarrow
from dptext.text.records import Fields, Record
from dptext.text.row_checks import Checks, needed
from dptext.text.rows import file_rows

MAX_CHARACTERS: Final = 5_000_000


class OnError(StrEnum):
    """What to do with a record that cannot be read."""

    STOP = "stop"
    SKIP = "skip"


_ALL_FIELDS: Final = Fields()


def read_records(
    source: str | os.PathLike[str] | Iterable[Record | Mapping[str, object]],
    fields: Fields = _ALL_FIELDS,
    *,
    format: Format | None = None,
    on_error: OnError = OnError.STOP,
    on_skip: Callable[[int, str], None] | None = None,
    max_characters: int = MAX_CHARACTERS,
    advice: str = "Repair it or take it out.",
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
    check, faults = Checks(fields, max_characters), _Faults(on_error, on_skip, advice)
    if not isinstance(source, str | os.PathLike):
        return _checked(iter(source), "the rows", check, faults)
    path = Path(source)
    kind = file_format(path, format)
    if kind is Format.TEXT and fields != Fields(text=fields.text):
        raise ConfigError(
            f"Expected no ids, labels, authors, subjects or kept fields for {str(path)!r}: plain text has no fields."
        )
    if kind is Format.PARQUET:
        load_pyarrow()
    _require_file(path)
    return _file_records(path, kind, check, faults)


@dataclass(frozen=True, slots=True)
class _Faults:
    """What to do with faults; see `read_records`."""

    on_error: OnError
    on_skip: Callable[[int, str], None] | None
    advice: str


def _file_records(path: Path, kind: Format, check: Checks, faults: _Faults) -> Generator[Record, None, None]:
    with contextlib.closing(file_rows(path, kind, needed(check.fields), max_line=check.max_line)) as rows:
        first = next(rows, Broken("the file holds no records"))
        items = itertools.chain([first], rows)
        yield from _checked(items, str(path), check, faults)


def _checked(items: Iterator[object], name: str, check: Checks, faults: _Faults) -> Generator[Record, None, None]:
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
        elif faults.on_error is OnError.STOP:
            raise DataError(f"{name}, record {number}: {result.reason}. {faults.advice}")
        elif faults.on_skip is not None:
            faults.on_skip(number, result.reason)


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
