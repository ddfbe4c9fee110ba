"""What a Parquet file unpacks to, by the headers of its pages: the sizes in its footer are claims that nobody checks.

A page is unpacked whole, and a row may name a long text of a dictionary in a few bits. The formats are those of
https://parquet.apache.org/docs/file-format and of Thrift's compact protocol.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dptext.errors import needing

_BATCH: Final = 2**20  # bytes of the rows that are read at once, about,
_REPEATED: Final = 2**22  # and at most where values may repeat
_MOST_PAGE: Final = 2**27
_MOST_DICTIONARY: Final = 2**25
_MOST_TIMES: Final = 1_000  # as many bytes as lie in the file
_VALUE: Final = 16  # bytes of a number, or beside a text
_DICTIONARY_PAGE: Final = 2
#: Of a data page of version 1 and 2: the field with its own header, and the one therein that says the encoding.
_DATA_PAGES: Final = {0: (5, 2), 3: (8, 4)}
_OF_DICTIONARY: Final = (2, 8)  # encodings
_DELTAS: Final = (6, 7)
_DAMAGED: Final = "the Parquet data is truncated or damaged"
#: Why a file is refused that may be a bomb.
LARGE: Final = "the Parquet data unpacks to more than is read: write smaller pages or row groups"
# pyarrow unpacks all of their lengths before the first text: 2**31 of them take a page ten bytes.
_DELTA: Final = "its texts are in a delta encoding, which is not read: write Parquet with plain or dictionary encoding"


class UnreadableError(ValueError):
    """Why a file is not read."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The header of a page; its data lie at `at`."""

    at: int
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int


def require_footer(raw: io.BufferedReader) -> None:
    """UnreadableError: the footer, which is read whole, is too long."""
    raw.seek(-min(8, raw.seek(0, os.SEEK_END)), os.SEEK_END)
    _require(int.from_bytes(raw.read(4), "little") <= _MOST_DICTIONARY, LARGE)
    raw.seek(0)


def most_bytes(raw: io.BufferedReader) -> int:
    """Bytes that all of a file may unpack to."""
    return max(2**30, _MOST_TIMES * raw.seek(0, os.SEEK_END))


def rows_at_once(raw: io.BufferedReader, file: Any, names: Sequence[str]) -> int:
    """How many rows of an open file can be read at once, at least one; of all columns, where none is named.

    UnreadableError: a page, or what one row may hold, is too large; a header is damaged; texts are in a delta encoding.
    """
    left = 1_000 + raw.seek(0, os.SEEK_END) // _VALUE  # pages: chunks may lie upon each other
    rows = _BATCH
    for place in range(len(file.schema)):
        column = file.schema.column(place)
        if names and column.path.split(".")[0] not in names:
            continue
        for number in range(file.metadata.num_row_groups):
            chunk = file.metadata.row_group(number).column(place)
            value = max(_VALUE, column.length or 0)  # of a fixed length, also where it is null
            longest, dense, repeated, whole, packed = 0, 0, value, 0, 0
            for page in _pages(raw, chunk):
                left -= 1
                _require(left > 0)
                packed += page.packed
                if page.kind == _DICTIONARY_PAGE:
                    longest = max(longest, _longest(raw, page, chunk))
                    continue
                _require(page.encoding not in _DELTAS, _DELTA)
                width = page.unpacked // max(1, page.values)
                dense = max(dense, width)
                if page.encoding in _OF_DICTIONARY:
                    repeated = max(repeated, width := longest)
                whole += page.values * max(width, value)
            most = _MOST_PAGE
            if column.max_repetition_level:  # one row may hold all of them
                repeated, most = max(repeated, whole), max(most, _MOST_TIMES * packed)
            _require(repeated <= most, LARGE)
            rows = min(rows, _BATCH // (dense + 1) + 1, _REPEATED // repeated + 1)
    return rows


def _require(sound: bool, otherwise: str = _DAMAGED) -> None:
    if not sound:
        raise UnreadableError(otherwise)


def _pages(raw: io.BufferedReader, chunk: Any) -> Iterator[_Page]:
    """The pages of a column chunk, from where pyarrow begins to where it ends, or later."""
    at, seen = chunk.data_page_offset, 0
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
        at = chunk.dictionary_page_offset
    while seen < chunk.num_values:
        _require(at > 0)
        raw.seek(at)
        header = _struct(raw)
        kind, unpacked, packed = (_number(header, field) for field in (1, 2, 3))
        _require(unpacked <= (_MOST_DICTIONARY if kind == _DICTIONARY_PAGE else _MOST_PAGE), LARGE)
        values = encoding = 0
        if kind in _DATA_PAGES:
            own, field = _DATA_PAGES[kind]
            values, encoding = _number(header.get(own), 1), _number(header.get(own), field)
        page = _Page(raw.tell(), kind, unpacked, packed, values, encoding)
        yield page
        at, seen = page.at + packed, seen + values


def _longest(raw: io.BufferedReader, page: _Page, chunk: Any) -> int:
    """Bytes of the longest text of a dictionary, or a bound on it; 0 where it holds no texts."""
    if chunk.physical_type != "BYTE_ARRAY":
        return 0
    with needing("Parquet", "parquet"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    raw.seek(page.at)
    data = raw.read(page.packed)
    if chunk.compression != "UNCOMPRESSED":
        unpacked = None
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):
            unpacked = pa.decompress(data, page.unpacked, chunk.compression.lower(), asbytes=True)
        if unpacked is None:  # damaged, or of a codec that pyarrow knows within Parquet alone
            return page.unpacked
        data = unpacked
    at = longest = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        longest, at = max(longest, size), at + 4 + size
    return min(longest, page.unpacked)


def _number(fields: dict[int, Any] | None, field: int) -> int:
    found = (fields or {}).get(field)
    if not isinstance(found, int) or found < 0:
        raise UnreadableError(_DAMAGED)
    return found


def _struct(raw: io.BufferedReader, depth: int = 0) -> dict[int, Any]:
    """The fields of a struct by number: 32-bit integers and structs; None for those of other types.

    No field may come twice: of two, readers could take different ones.
    """
    _require(depth < 4)
    found: dict[int, Any] = {}
    field = 0
    while (head := _bytes(raw, 1)[0]) & 15:
        field = field + (head >> 4) if head >> 4 else _zigzag(raw)
        _require(0 < field < 100 and field not in found)
        found[field] = None
        match head & 15:
            case 1 | 2:  # a boolean is its type
                pass
            case 3:
                _bytes(raw, 1)
            case 4 | 6:
                _varint(raw)
            case 5:
                found[field] = _zigzag(raw)
            case 7:
                _bytes(raw, 8)
            case 8:
                size = _varint(raw)
                _require(size < _MOST_DICTIONARY)
                raw.seek(size, os.SEEK_CUR)
            case 12:
                found[field] = _struct(raw, depth + 1)
            case _:
                raise UnreadableError(_DAMAGED)
    return found


def _zigzag(raw: io.BufferedReader) -> int:
    value = _varint(raw)
    _require(value < 2**32)  # what is longer other readers cut
    return value >> 1 ^ -(value & 1)


def _varint(raw: io.BufferedReader) -> int:
    value = 0
    for shift in range(0, 64, 7):
        byte = _bytes(raw, 1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise UnreadableError(_DAMAGED)


def _bytes(raw: io.BufferedReader, size: int) -> bytes:
    found = raw.read(size)
    _require(len(found) == size)
    return found
