"""What a Parquet file unpacks to, by its footer and the headers of its pages, before pyarrow sees either.

A page is unpacked whole, and a row may name a long text of a dictionary in a few bits; the sizes in the footer are
claims that nobody checks. Both are read here byte by byte, as pyarrow ends the process for some damaged footers. The
formats are those of https://parquet.apache.org/docs/file-format and of Thrift's compact protocol. Why no child process
with a limit on its memory does this: docs/decisions/0005.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dptext.errors import needing
from dptext.types import Int32s, Integers, UInt64s

_BATCH: Final = 2**20  # bytes of the rows that are read at once, about,
_REPEATED: Final = 2**22  # and at most where values may repeat
PAGE_BYTES: Final = 2**27  # that a page may unpack to,
DICTIONARY_BYTES: Final = 2**25  # and one with a dictionary
FOOTER_BYTES: Final = 2**25  # of the footer in the file
LENGTHS_A_PAGE: Final = 2**22  # in a delta encoding: pyarrow unpacks all of them before the first text
LENGTHS_AT_ONCE: Final = 2**16  # that are unpacked here
_MOST_ITEMS: Final = 2**22  # of a footer
_MOST_TIMES: Final = 1_000  # as many bytes as lie in the file
_VALUE: Final = 16  # bytes of a number, or beside a text
_DICTIONARY_PAGE: Final = 2
_DATA_PAGE_2: Final = 3
#: Of a data page of version 1 and 2: the field with its own header, and the one therein that says the encoding.
_DATA_PAGES: Final = {0: (5, 2), _DATA_PAGE_2: (8, 4)}
_OF_DICTIONARY: Final = (2, 8)  # encodings
_DELTA_LENGTHS, _DELTA_TEXTS = 6, 7  # encodings: lengths, then all texts; what a text shares with the last, the rest
_RLE: Final = 3  # encoding of levels
_FALSE: Final = 2  # a boolean of Thrift is its type
_CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_INT32, _INT64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
#: The lists of a footer, by the fields that lead there, and what they hold. Readers do not look at what a list says.
_LISTS: Final[dict[tuple[int, ...], int]] = {
    **dict.fromkeys([(2,), (4,), (5,), (7,), (4, 1), (4, 4), (4, 1, 3, 8), (4, 1, 3, 13)], _STRUCT),
    **dict.fromkeys([(4, 1, 3, 2), (4, 1, 3, 17, 2)], _INT32),
    **dict.fromkeys([(4, 1, 3, 16, 2), (4, 1, 3, 16, 3)], _INT64),
    (4, 1, 3, 3): _BINARY,
}
_PAGE: Final = (0,)  # leads to no list
_NOT_PARQUET: Final = "the file is not Parquet, or it is truncated or damaged"
_DAMAGED: Final = "the Parquet data is truncated or damaged"
#: Why a file is refused that may be a bomb.
LARGE: Final = "the Parquet data unpacks to more than is read: write smaller pages or row groups"
_ODD_DELTA: Final = (
    "its texts are in a delta encoding with a codec or levels of old Parquet: write it with zstd, snappy or no codec"
)

_Fields = dict[int, tuple[int, Any]]


class UnreadableError(Exception):
    """Why a file is not read."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The values of a column in a group of rows: where they begin, how many there are, and how they are packed.

    `rows` is how many rows the group has.
    """

    at: int
    values: int
    codec: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Page:
    """The header of a page; its data lie at `at`. `own` are the fields that only its kind has."""

    at: int
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int
    own: _Fields


def most_bytes(raw: io.BufferedReader) -> int:
    """Bytes that all of a file may unpack to."""
    return max(2**30, _MOST_TIMES * raw.seek(0, os.SEEK_END))


def chunks_of(raw: io.BufferedReader) -> list[list[Chunk]]:
    """The chunks of each group of rows, as the footer says. UnreadableError: it is damaged or too long."""
    end = raw.seek(0, os.SEEK_END) - 8
    raw.seek(max(0, end))
    size = int.from_bytes(raw.read(4), "little")
    _require(raw.read() == b"PAR1" and size <= end, _NOT_PARQUET)
    _require(size <= FOOTER_BYTES, LARGE)
    raw.seek(end - size)
    footer = _Compact(io.BytesIO(raw.read(size)), _MOST_ITEMS).struct(())
    raw.seek(0)
    groups = [(_field(group, 1, _LIST), _field(group, 3, _INT64)) for group in _field(footer, 4, _LIST)]
    _require(sum(rows for _, rows in groups) == _field(footer, 3, _INT64))
    return [[_chunk(_field(chunk, 3, _STRUCT), rows) for chunk in group] for group, rows in groups]


def rows_at_once(raw: io.BufferedReader, schema: Any, groups: list[list[Chunk]], names: Sequence[str]) -> int:
    """How many rows can be read at once, at least one; of all columns, where none is named.

    UnreadableError: a page, or what one row may hold, is too large; a header is damaged.
    """
    left = 1_000 + raw.seek(0, os.SEEK_END) // _VALUE  # pages: chunks may lie upon each other
    rows = _BATCH
    _require(all(len(group) == len(schema) for group in groups))
    for place in range(len(schema)):
        column = schema.column(place)
        # A path has dots between names, and names may have dots.
        if names and not any(f"{column.path}.".startswith(f"{name}.") for name in names):
            continue
        texts = column.physical_type == "BYTE_ARRAY"
        for group in groups:
            value = max(_VALUE, column.length or 0)  # of a fixed length, also where it is null
            # pyarrow reads as many rows as the group says that it has, and leaves the others.
            _require(bool(column.max_repetition_level) or group[place].values == group[place].rows)
            longest, dense, repeated, whole, packed = 0, 0, value, 0, 0
            for page in _pages(raw, group[place]):
                left -= 1
                _require(left > 0)
                packed += page.packed
                if page.kind == _DICTIONARY_PAGE:
                    longest = max(longest, _longest(raw, page, group[place].codec) if texts else 0)
                    continue
                width = page.unpacked // max(1, page.values)
                if page.encoding in (_DELTA_LENGTHS, _DELTA_TEXTS):
                    levels = (column.max_repetition_level > 0) + (column.max_definition_level > 0)
                    total, most_of_one = _delta_texts(raw, page, group[place].codec, levels)
                    width = max(width, total // max(1, page.values))
                    if total > DICTIONARY_BYTES:
                        repeated = max(repeated, width := most_of_one)
                dense = max(dense, width)
                if page.encoding in _OF_DICTIONARY:
                    repeated = max(repeated, width := longest)
                whole += page.values * max(width, value)
            most = PAGE_BYTES
            if column.max_repetition_level:  # one row may hold all of them
                repeated, most = max(repeated, whole), max(most, _MOST_TIMES * packed)
            _require(repeated <= most, LARGE)
            rows = min(rows, _BATCH // (dense + 1) + 1, _REPEATED // repeated + 1)
    return rows


def _require(sound: bool, otherwise: str = _DAMAGED) -> None:
    if not sound:
        raise UnreadableError(otherwise)


def _chunk(told: _Fields, rows: int) -> Chunk:
    """A chunk, from where pyarrow begins to read it."""
    at = _field(told, 9, _INT64)
    dictionary = _field(told, 11, _INT64) if 11 in told else 0
    return Chunk(dictionary if 0 < dictionary < at else at, _field(told, 5, _INT64), _field(told, 4, _INT32), rows)


def _pages(raw: io.BufferedReader, chunk: Chunk) -> Iterator[_Page]:
    """The pages of a chunk, which hold as many values as it says."""
    at, seen = chunk.at, 0
    while seen < chunk.values:
        _require(0 < at < 2**62)
        raw.seek(at)
        header = _Compact(raw, 100).struct(_PAGE)
        kind, unpacked, packed = (_field(header, number, _INT32) for number in (1, 2, 3))
        _require(unpacked <= (DICTIONARY_BYTES if kind == _DICTIONARY_PAGE else PAGE_BYTES), LARGE)
        values = encoding = 0
        own: _Fields = {}
        if kind in _DATA_PAGES:
            place, number = _DATA_PAGES[kind]
            own = _field(header, place, _STRUCT)
            values, encoding = _field(own, 1, _INT32), _field(own, number, _INT32)
        page = _Page(raw.tell(), kind, unpacked, packed, values, encoding, own)
        yield page
        at, seen = page.at + packed, seen + values
    _require(seen == chunk.values)


def _longest(raw: io.BufferedReader, page: _Page, codec: int) -> int:
    """Bytes of the longest text of a dictionary, or a bound on it."""
    raw.seek(page.at)
    data: bytes | None = raw.read(page.packed)
    if codec and (data := decompressed(data or b"", page.unpacked, codec)) is None:
        return page.unpacked
    data = data or b""
    at = longest = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        longest, at = max(longest, size), at + 4 + size
    return min(longest, page.unpacked)


def decompressed(data: bytes, size: int, codec: int) -> bytes | None:
    """The data, of `size` bytes; None if they are damaged, or of a codec that pyarrow knows within Parquet alone."""
    with needing("Parquet", "parquet"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    with contextlib.suppress(pa.ArrowException, OSError, ValueError, LookupError):
        found: bytes = pa.decompress(data, size, _CODECS[codec], asbytes=True)
        return found
    return None


def _delta_texts(raw: io.BufferedReader, page: _Page, codec: int, levels: int) -> tuple[int, int]:
    """Bytes of all texts of a page in a delta encoding, and of the longest, or a bound on both.

    levels: how many of the two kinds of levels stand before the texts.
    """
    _require(codec == 0 or codec in _CODECS, _ODD_DELTA)
    raw.seek(page.at)
    data = raw.read(page.packed)
    if page.kind == _DATA_PAGE_2:  # levels are not compressed
        before = _field(page.own, 5, _INT32) + _field(page.own, 6, _INT32)
        data, size, levels = data[before:], page.unpacked - before, 0
        _require(size >= 0)
    else:
        size = page.unpacked
        _require(all(_field(page.own, number, _INT32) == _RLE for number in (3, 4)), _ODD_DELTA)
    # pyarrow decompresses pages of some writers although they say that they are not compressed.
    stored = codec == 0 or (page.kind == _DATA_PAGE_2 and page.own.get(7, (0, None))[0] == _FALSE)
    unpacked = decompressed(data, size, codec) if codec else None
    readings = [each for each in (data if stored else None, unpacked) if each is not None]
    _require(bool(readings))
    return tuple(max(column) for column in zip(*(_sizes(each, page, levels) for each in readings), strict=True))


def _sizes(data: bytes, page: _Page, levels: int) -> tuple[int, int]:
    """Bytes of all texts and of the longest, where so many lengths of levels, and levels, stand before the texts."""
    at = 0
    for _ in range(levels):
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    read = _Compact(io.BytesIO(data), _MOST_ITEMS)
    read.raw.seek(at)
    if page.encoding == _DELTA_LENGTHS:  # all texts lie in the page as they are
        _head(read, page.values)
        return page.unpacked, page.unpacked
    shared, rest = _lengths(read, page.values), _lengths(read, page.values)
    _require(len(shared) == len(rest))
    whole = np.add(shared, rest, dtype=np.int64)
    return int(whole.sum()), int(whole.max(initial=0))


def _head(read: "_Compact", values: int) -> tuple[int, int, int, int]:
    """What stands before lengths that are packed by their differences (DELTA_BINARY_PACKED).

    Lengths in a block, packs of a block, how many lengths there are, which are not more than the values, and the first.
    """
    block, packs, count, first = read.varint(), read.varint(), read.varint(), read.value(_INT32, _PAGE)
    _require(0 < block < 2**32 and packs > 0 and block % 128 == 0 and block % (32 * packs) == 0 and count <= values)
    _require(count <= LENGTHS_A_PAGE, LARGE)
    return block, packs, count, first


def _lengths(read: "_Compact", values: int) -> Int32s:
    """Lengths that are packed by their differences. Sums beyond 32 bits become negative, as they do for pyarrow."""
    block, packs_of_block, count, first = _head(read, values)
    begin, size, left = read.raw.tell(), block // packs_of_block, count - 1
    packs: list[tuple[int, int, int]] = []  # the bit where each begins, bits of a number, and what is added to each
    while left > 0:
        least = read.value(_INT32, _PAGE)
        for width in read.take(packs_of_block):
            if left > 0:
                _require(width <= 32)
                packs.append((8 * (read.raw.tell() - begin), width, least))
                read.raw.seek(size * width // 8, os.SEEK_CUR)
                left -= size
    end = read.raw.tell()
    read.raw.seek(begin)
    data = read.take(end - begin)
    words: UInt64s = np.ndarray((len(data) + 1,), "<u8", data + bytes(8), 0, (1,))  # from any byte
    columns: Integers = np.array(packs, np.int64).reshape(-1, 3).T.copy()
    steps = np.empty(count, np.uint32)
    steps[:1] = np.int64(first)
    for at in range(0, count - 1, LENGTHS_AT_ONCE):
        numbers: Integers = np.arange(at, min(at + LENGTHS_AT_ONCE, count - 1))
        starts, widths, least_of_each = columns[:, numbers // size]
        bits = starts + numbers % size * widths
        found = (words[bits >> 3] >> (bits & 7).astype(np.uint64)).astype(np.int64) & ((1 << widths) - 1)
        steps[at + 1 : at + 1 + len(numbers)] = found + least_of_each
    lengths = np.cumsum(steps, out=steps).view(np.int32)
    _require(not count or int(lengths.min()) >= 0)
    return lengths


def _field(fields: _Fields, number: int, kind: int) -> Any:
    """The value of a field, which must be there and of this type; numbers are not negative."""
    found, value = fields.get(number, (0, None))
    _require(found == kind and (not isinstance(value, int) or value >= 0))
    return value


@dataclass(slots=True)
class _Compact:
    """Reads Thrift's compact protocol, with at most so many fields and items.

    What two readers could take for two things is damaged: a field that comes twice, or a number of too many bits.
    """

    raw: io.BufferedIOBase
    left: int

    def struct(self, path: tuple[int, ...]) -> _Fields:
        """The fields of a struct by number, with their types; `path` leads to it."""
        found: _Fields = {}
        field = 0
        while (head := self.take(1)[0]) & 15:
            field = field + (head >> 4) if head >> 4 else self.number()
            _require(0 < field < 100 and field not in found)
            found[field] = head & 15, self.value(head & 15, (*path, field))
        return found

    def value(self, kind: int, path: tuple[int, ...]) -> Any:
        """A number, a struct, or a list of structs; None for all else."""
        self.left -= 1
        _require(self.left > 0 and len(path) < 12)
        match kind:
            case 1 | 2:  # a boolean is its type
                return None
            case 3 | 7:
                self.take(1 if kind == 3 else 8)
                return None
            case 4 | 5 | 6:
                found = self.number()
                _require(-(2 ** (8 * 2 ** (kind - 3) - 1)) <= found < 2 ** (8 * 2 ** (kind - 3) - 1))
                return found
            case 8:
                size = self.varint()
                _require(size <= FOOTER_BYTES)
                self.raw.seek(size, os.SEEK_CUR)
                return None
            case 9:
                head = self.take(1)[0]
                size, item = self.varint() if head >> 4 == 15 else head >> 4, head & 15
                _require(_LISTS.get(path) == item and size <= self.left)
                items = [self.value(item, path) for _ in range(size)]
                return items if item == _STRUCT else None
            case 12:
                return self.struct(path)
        raise UnreadableError(_DAMAGED)

    def number(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                _require(value < 2**64)
                return value
        raise UnreadableError(_DAMAGED)

    def take(self, size: int) -> bytes:
        found = self.raw.read(size)
        _require(len(found) == size)
        return found
