"""File formats by extension, and the values that all of them can hold."""

import json
import math
import os
import re
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeGuard

from dptext.errors import ConfigError

Scalar = str | int | float | bool | None
_MAX_INTEGER_BITS: Final = 1024
_TOO_FINE: Final = re.compile(r":\d\d\.\d{7}")  # a second in nanoseconds, as pandas writes it
#: A spreadsheet computes a cell that begins with one of these.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Format(StrEnum):
    """How records lie in a file. Each but Parquet and XLSX may also be gzipped (``.gz``), or read from ``.zst``."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    TEXT = "text"
    JSON = "json"
    XLSX = "xlsx"


DELIMITED: Final = frozenset({Format.CSV, Format.TSV})  #: Columns parted by a delimiter
PACKED: Final = frozenset({Format.PARQUET, Format.XLSX})  #: Zipped inside, with an encoding of their own
READ_ONLY: Final = frozenset({Format.JSON, Format.XLSX})  #: Read, and not written
_EXTENSIONS: Final = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".parquet": Format.PARQUET,
    ".txt": Format.TEXT,
    ".json": Format.JSON,
    ".xlsx": Format.XLSX,
}


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Whether the name of the file ends in ``.gz``, or in ``.zst``, which is read only."""
    return Path(path).suffix.lower() == ".gz" or is_zstd(path)


def is_zstd(path: str | os.PathLike[str]) -> bool:
    """Whether the name of the file ends in ``.zst``."""
    return Path(path).suffix.lower() == ".zst"


def detect_format(path: str | os.PathLike[str]) -> Format:
    """The format by the file extension, in capitals or not; ConfigError where it is unknown."""
    path = Path(path)
    name = path.with_suffix("") if is_compressed(path) else path
    found = _EXTENSIONS.get(name.suffix.lower())
    if found is None or (found in PACKED and is_compressed(path)):
        raise ConfigError(
            f"Expected {str(path)!r} to end in {', '.join(_EXTENSIONS)} (each but .parquet and .xlsx also with .gz). "
            f"Rename the file or name its format with --format ({', '.join(Format)})."
        )
    return found


def file_format(path: Path, named: Format | None) -> Format:
    """The named format, or the one that the extension tells; ConfigError where Parquet or XLSX is to be gzipped."""
    if named is None:
        return detect_format(path)
    if named in PACKED and is_compressed(path):
        raise ConfigError(f"Expected {str(path)!r} not to be gzipped. {named} is compressed inside; drop .gz.")
    return named


def output_format(path: Path, named: Format | None) -> Format:
    """The format of a file that is to be written: as `file_format`, but none in ``.zst``, which is read only."""
    if is_zstd(path):
        raise ConfigError(f"Expected {str(path)!r} not to end in .zst, which is read only: write .gz or .parquet.")
    return file_format(path, named)


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Whether every format can write the value: a string, a finite number, a boolean or null."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        # Python refuses to write integers of thousands of digits.
        return value.bit_length() <= _MAX_INTEGER_BITS
    return value is None or isinstance(value, str)


def as_scalar(value: object) -> object:
    """A date, time, decimal or number of numpy as the scalar that files hold: ISO 8601, digits; others as they are.

    A time of pandas finer than a microsecond stays as it is: without pandas, Python has none. So do what is no number
    and no time (NaN, NaT), and arrays.
    """
    if (isinstance(value, Decimal) and not value.is_finite()) or (isinstance(value, date) and value != value):  # noqa: PLR0124
        return value
    if isinstance(value, date | time | Decimal):
        text = value.isoformat() if isinstance(value, date | time) else str(value)
        return value if _TOO_FINE.search(text) and isinstance(value, date) else text
    scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    return value.item() if scalar else value  # type: ignore[attr-defined]  # of numpy


def as_string(value: object) -> str:
    """A scalar as one string: strings as they are, the others as JSON writes them."""
    return value if isinstance(value, str) else json.dumps(value)


def safe_cell(value: object) -> str:
    """A cell of CSV that no spreadsheet computes: a text that begins like a formula gets an apostrophe, no number."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else as_string(value)


def string_fault(value: str) -> str | None:
    """What makes a string unfit for a UTF-8 file, or None."""
    if "\x00" in value:
        return "holds a NUL character"
    try:
        # A JSON escape can make half of a surrogate pair, which no UTF-8 file can hold. A CSV field holds one where its
        # bytes were not UTF-8 (see csv_rows).
        value.encode()
    except UnicodeEncodeError:
        return "is not UTF-8 (or holds a lone surrogate)"
    return None
