"""File formats by extension, and the values and columns that all can hold, among them strings as Arrow holds them."""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeGuard, cast, overload

import numpy as np

from dptext.errors import ConfigError
from dptext.types import Int32s, Integers, UInt8s

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


#: Columns parted by a delimiter.
DELIMITED: Final = frozenset({Format.CSV, Format.TSV})
#: Zipped inside, with an encoding of their own.
PACKED: Final = frozenset({Format.PARQUET, Format.XLSX})
#: Read, and not written.
READ_ONLY: Final = frozenset({Format.JSON, Format.XLSX})
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

    A time of pandas finer than a microsecond stays as it is: without pandas, Python has none.
    """
    if isinstance(value, date | time | Decimal):
        text = value.isoformat() if isinstance(value, date | time) else str(value)
        return value if _TOO_FINE.search(text) and isinstance(value, date) else text
    return value.item() if type(value).__module__ == "numpy" else value  # type: ignore[attr-defined]  # a scalar


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


_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


class PlainTexts(Sequence[str]):
    """Strings that every format can hold. They cannot be changed, so they are looked at once, where they are read.

    All are made strings of Python when one is asked for, and kept.
    """

    __slots__ = ("_array", "_ascii", "_made")

    def __init__(self, array: Any, made: list[str] | None = None, *, ascii: bool = False) -> None:
        self._array = array
        self._made = made
        self._ascii = ascii

    @classmethod
    def of(cls, array: Any) -> "PlainTexts | None":
        """The strings of an array of pyarrow; None where one is null or holds a NUL. ArrowInvalid: one is not UTF-8."""
        found = cls(array)
        data, _ = found.utf8()
        if array.null_count or not data.min(initial=1):
            return None
        found._ascii = bool(data.max(initial=0) < 128)
        if not found._ascii:
            array.validate(full=True)
        return found

    def utf8(self) -> tuple[UInt8s, Int32s | Integers]:
        """All strings in UTF-8, one after the other, and their ends in it, after the beginning of the first `(n + 1,)`.

        The ends count from anywhere.
        """
        _, offsets, data = self._array.buffers()
        if not len(self):
            return np.zeros(0, np.uint8), np.zeros(1, np.int64)
        kind: Any = np.int32 if str(self._array.type) == "string" else np.int64
        ends = np.frombuffer(offsets, kind, len(self) + 1, self._array.offset * kind().itemsize)
        return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], ends

    def sizes(self) -> Int32s | Integers:
        """The number of bytes of each string."""
        return np.diff(self.utf8()[1])

    def lengths(self) -> list[int]:
        """The number of characters of each string."""
        return self.sizes().tolist() if self._ascii else list(map(len, self._strings()))

    def _strings(self) -> list[str]:
        if self._made is None:
            self._made = self._array.to_numpy(zero_copy_only=False).tolist()
        return self._made

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if not isinstance(at, slice) or at.step is not None:
            return self._strings()[at]
        start, stop, _ = at.indices(len(self))
        part = self._array.slice(start, max(0, stop - start))
        return PlainTexts(part, self._made and self._made[at], ascii=self._ascii)

    def __iter__(self) -> Iterator[str]:
        return iter(self._strings())

    def __arrow_array__(self, type: Any = None) -> Any:
        """The array, for pyarrow."""
        return self._array if type in {None, self._array.type} else self._array.cast(type)


def kinds(column: Sequence[object]) -> set[type]:
    """The types of the values."""
    return {str} if isinstance(column, PlainTexts) else set(map(type, column))


def plain_texts(column: Sequence[object]) -> TypeGuard[Sequence[str]]:
    """Whether all values are strings that every format can hold."""
    if isinstance(column, PlainTexts):
        return True
    # A fault of one string is one of all together: what a string begins, no other completes.
    return set(map(type, column)) <= {str} and string_fault("".join(cast("Sequence[str]", column))) is None


def plain_scalars(column: Sequence[object]) -> TypeGuard[Sequence[Scalar]]:
    """Whether every format can hold all values. A value of a type that is derived of these is doubtful."""
    found = kinds(column)
    if found == {str}:
        return plain_texts(column)
    return (
        found <= _SCALARS
        and (found <= {str, bool, type(None)} or all(map(is_scalar, column)))
        and plain_texts([value for value in column if isinstance(value, str)])
    )
