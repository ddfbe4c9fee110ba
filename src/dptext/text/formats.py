"""File formats by extension, and the values that all formats can hold."""

import json
import math
import os
import re
from collections.abc import Container
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self, TypeGuard
from uuid import UUID

from dptext.errors import ConfigError

Scalar = str | int | float | bool | None
_MAX_INTEGER_BITS: Final = 1024
_MOST_WHOLE: Final = 2**53  #: Beyond this number, every float is whole because floats are coarse
_MOST_DIGITS: Final = 300  # largest power of ten of a decimal, up or down
_TOO_FINE: Final = re.compile(r":\d\d\.\d{7}")  # a second in nanoseconds, as pandas writes it
#: A spreadsheet computes a cell that begins with one of these.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Format(StrEnum):
    """The format of a file. Every format but Parquet and XLSX may be gzipped (``.gz``), or read from ``.zst``."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    TEXT = "text"
    JSON = "json"
    XLSX = "xlsx"


DELIMITED: Final = frozenset({Format.CSV, Format.TSV})  #: A delimiter separates the columns
PACKED: Final = frozenset({Format.PARQUET, Format.XLSX})  #: Compressed inside, with an encoding of their own
READ_ONLY: Final = frozenset({Format.JSON, Format.XLSX})  #: Formats that are read but not written
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
    """Return whether the file's name ends in ``.gz`` or ``.zst``. Files in ``.zst`` are read, never written."""
    return Path(path).suffix.lower() == ".gz" or is_zstd(path)


def is_zstd(path: str | os.PathLike[str]) -> bool:
    """Return whether the name of the file ends in ``.zst``."""
    return Path(path).suffix.lower() == ".zst"


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Return the format by the file extension, in upper or lower case. ConfigError: the extension is unknown."""
    path = Path(path)
    name = path.with_suffix("") if is_compressed(path) else path
    found = _EXTENSIONS.get(name.suffix.lower())
    if found is None or (found in PACKED and is_compressed(path)):
        raise ConfigError(
            f"Expected {str(path)!r} to end in {', '.join(_EXTENSIONS)} (each but .parquet and .xlsx also with .gz). "
            f"Rename the file or name its format with --format ({', '.join(Format)})."
        )
    return found


def endings(kinds: Container[Format]) -> str:
    """Return the extensions of these formats, in words."""
    return ", ".join(extension for extension, kind in _EXTENSIONS.items() if kind in kinds)


def file_format(path: Path, named: Format | None) -> Format:
    """Return the named format, or else the format of the extension. ConfigError: Parquet or XLSX would be gzipped."""
    if named is None:
        return detect_format(path)
    if named in PACKED and is_compressed(path):
        raise ConfigError(f"Expected {str(path)!r} not to be gzipped. {named} is compressed inside; drop .gz.")
    return named


def output_format(path: Path, named: Format | None) -> Format:
    """Return the format of a file to write. ConfigError: as `file_format`, or the name ends in ``.zst`` (read only)."""
    if is_zstd(path):
        raise ConfigError(f"Expected {str(path)!r} not to end in .zst, which is read only: write .gz or .parquet.")
    return file_format(path, named)


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Return whether every format can write the value: a string, a finite number, a boolean or null."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        # Python refuses to write integers of thousands of digits.
        return value.bit_length() <= _MAX_INTEGER_BITS
    return value is None or isinstance(value, str)


def as_scalar(value: object) -> object:
    """Return a date, time, decimal, UUID or numpy value as the scalar that files hold: ISO 8601 or digits.

    Any other value is returned unchanged. So are pandas times finer than a microsecond, which Python's types cannot
    hold, NaN, NaT and arrays.
    """
    value = _of_python(value)
    if (isinstance(value, Decimal) and not value.is_finite()) or (isinstance(value, date) and value != value):  # noqa: PLR0124
        return value
    if isinstance(value, date | time | Decimal | UUID):
        text = value.isoformat() if isinstance(value, date | time) else str(value)
        return value if _TOO_FINE.search(text) and isinstance(value, date) else text
    return value


def _of_python(value: object) -> object:
    """Return a single numpy value as a Python value. Any other value is returned unchanged."""
    kind = type(value)
    if kind.__module__ != "numpy" or getattr(value, "shape", None) != ():
        return value
    if kind.__name__ in ("float32", "float16"):
        return shortest(value)
    if kind.__name__ not in ("datetime64", "timedelta64"):
        return value.item()  # type: ignore[attr-defined]  # of numpy
    whole = value.astype(f"{kind.__name__}[us]")  # type: ignore[attr-defined]  # finer ones would become integers
    return whole.item() if whole == value else value


def shortest(value: Any) -> float:
    """Return a numpy float of 32 or 16 bits as the float64 of the shortest decimal that identifies it, such as 0.1."""
    found = float(str(value))
    # From the decimal, readers round to 64 bits first, which would turn a few numbers (7.038531e-26) into a neighbour.
    return found if type(value)(found) == value or value != value else float(value)  # noqa: PLR0124


def spelled(value: object) -> object:
    """Return the spelling of a label or a name, which is the same for every type that a reader may give the value.

    Whole numbers are digits alone, in floats and decimals too. Booleans are true and false. A time of midnight without
    a zone is its date, because spreadsheets and pandas write dates as such times. The spelling depends on the value
    alone, not on its column. Null and values without a spelling are returned unchanged, and so are texts
    (`dptext.text.labels` matches them).
    """
    value = _of_python(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _MOST_DIGITS:
        return str(int(value)) if value == value.to_integral_value() else f"{value.normalize():f}"
    if isinstance(value, datetime) and value.tzinfo is None and value == value and value.time() == time():  # noqa: PLR0124
        return value if getattr(value, "nanosecond", 0) else value.date().isoformat()
    found = as_scalar(value)
    return as_string(found) if is_scalar(found) and found is not None else found


def cell_text(value: object) -> str | None:
    """Return the spelling of a value of a measured column. None for null, and for what is no text, number or date."""
    found = value if isinstance(value, str) else spelled(value)
    if isinstance(found, datetime) and found == found:  # noqa: PLR0124  # no NaT; finer than a microsecond
        found = found.isoformat()
    return found if isinstance(found, str) and string_fault(found) is None else None


def name_of(value: object) -> str | None:
    """Return the name of a record, author or subject. None if the value names nobody, as CSV's empty string does.

    A text, a whole number, a date, a time or a UUID can be a name. A boolean or a fraction cannot.
    """
    value, name = _of_python(value), spelled(value)
    named = not isinstance(value, bool) and isinstance(name, str)
    if isinstance(value, float) and abs(value) > _MOST_WHOLE:  # such a float stands for several whole numbers
        return None
    if isinstance(value, int | float | Decimal):
        named = named and str(name).removeprefix("-").isdecimal()
    return str(name) or None if named else None


class Fixed(float):
    """A number that text formats write with `decimals` decimals, as a column declares: 38.80."""

    decimals = 0

    @classmethod
    def of(cls, steps: int, decimals: int) -> Self:
        """Return so many steps of 10^-decimals."""
        found = cls(steps / 10**decimals)
        found.decimals = decimals
        return found


def as_string(value: object) -> str:
    """Return a scalar as a string: a string unchanged, a number of fixed decimals with these, others as in JSON."""
    if isinstance(value, Fixed):
        return f"{value:.{value.decimals}f}"
    return value if isinstance(value, str) else json.dumps(value)


def written(value: object) -> str:
    """Return any value as a text, for cells of spreadsheets in a column of texts."""
    found = as_scalar(value)
    return as_string(found) if is_scalar(found) else str(found)


def safe_cell(value: object) -> str:
    """Return a CSV cell that no spreadsheet computes. A text that begins like a formula gets an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else as_string(value)


def string_fault(value: str) -> str | None:
    """Return the reason why a string cannot be written to a UTF-8 file, or None."""
    if "\x00" in value:
        return "holds a NUL character"
    try:
        # A JSON escape can make half of a surrogate pair, which no UTF-8 file can hold. A CSV field holds one where its
        # bytes were not UTF-8 (see csv_rows).
        value.encode()
    except UnicodeEncodeError:
        return "is not UTF-8 (or holds a lone surrogate)"
    return None
