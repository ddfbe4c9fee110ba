"""Bound the size that a Parquet file unpacks to, by its footer and page headers, before pyarrow reads the file.

A page is unpacked whole. A row may name a long text of a dictionary in a few bits. The sizes in the footer are claims
that nobody checks. Footer and page headers are parsed here byte by byte, because pyarrow ends the process for some
damaged footers. The format is that of https://parquet.apache.org/docs/file-format.
docs/decisions/0005 says why no child process with a memory limit does this.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dptext.errors import needing
from dptext.text.thrift import (
    BINARY,
    FALSE,
    INT32,
    INT64,
    LIST,
    STRUCT,
    Compact,
    Members,
    ShortError,
    member,
    require,
)
from dptext.types import Int32s, Integers, UInt64s

_BATCH: Final = 2**20  # approximate bytes of the rows that are read at once
_REPEATED: Final = 2**22  # most bytes of the rows that are read at once, if values may repeat
PAGE_BYTES: Final = 2**27  # most bytes that a page may unpack to
DICTIONARY_BYTES: Final = 2**25  # most bytes that a page with a dictionary may unpack to
FOOTER_BYTES: Final = 2**25  # most bytes of the footer in the file
LENGTHS_A_PAGE: Final = 2**22  # most lengths of a delta encoding: pyarrow unpacks all of them before the first text
LENGTHS_AT_ONCE: Final = 2**16  # lengths that are unpacked here at once
_HEADER: Final = 2**9  # bytes in which most page headers end
_MOST_ITEMS: Final = 2**22  # most items of a footer
_MOST_TIMES: Final = 1_000  # most bytes unpacked for each byte of the file
_VALUE: Final = 16  # bytes of a number, and overhead of a text
_TEXTS_AT_ONCE: Final = 2**16  # bytes of a dictionary whose texts are found together
_FEW: Final = 2**9  # texts of so many bytes that take as long to find one by one
_DICTIONARY_PAGE: Final = 2
_DATA_PAGE_2: Final = 3
#: By kind of data page (versions 1 and 2): the field with the header of this kind, and its field of the encoding.
_DATA_PAGES: Final = {0: (5, 2), _DATA_PAGE_2: (8, 4)}
_OF_DICTIONARY: Final = (2, 8)  # encodings
#: Encodings: lengths, then all texts; or the length of the prefix that a text shares with the last one, then the rest.
_DELTA_LENGTHS, _DELTA_TEXTS = 6, 7
_RLE: Final = 3  # encoding of levels
_CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
#: The lists of a footer, by the path of fields to each, with the type of items. Readers ignore the type in the file.
_LISTS: Final[dict[tuple[int, ...], int]] = {
    **dict.fromkeys([(2,), (4,), (5,), (7,), (4, 1), (4, 4), (4, 1, 3, 8), (4, 1, 3, 13)], STRUCT),
    **dict.fromkeys([(4, 1, 3, 2), (4, 1, 3, 17, 2)], INT32),
    **dict.fromkeys([(4, 1, 3, 16, 2), (4, 1, 3, 16, 3)], INT64),
    (4, 1, 3, 3): BINARY,
}
_NOT_PARQUET: Final = "the file is not Parquet, or it is truncated or damaged"
#: The reason for refusing a file that may be a decompression bomb.
LARGE: Final = "the Parquet data unpacks to more than is read: write smaller pages or row groups"
_ODD_DELTA: Final = (
    "its texts are in a delta encoding with a codec or levels of old Parquet: write it with zstd, snappy or no codec"
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The values of a column in a group of rows: their position in the file, their number, and their codec.

    `rows` is the number of rows of the group.
    """

    at: int
    values: int
    codec: int
    rows: int


@dataclass(frozen=True, slots=True)
class _PageHeader:
    """The header of a page. The page's data begin at `at`. `own` holds the fields that only this kind of page has."""

    at: int
    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int
    own: Members


def most_bytes(raw: io.BufferedReader) -> int:
    """Return the number of bytes to which the whole file may unpack."""
    return max(2**30, _MOST_TIMES * raw.seek(0, os.SEEK_END))


def chunks_of(raw: io.BufferedReader) -> list[list[Chunk]]:
    """Return the chunks of each group of rows, by the footer. UnreadableError: the footer is damaged or too long."""
    end = raw.seek(0, os.SEEK_END) - 8
    raw.seek(max(0, end))
    size = int.from_bytes(raw.read(4), "little")
    require(raw.read() == b"PAR1" and size <= end, _NOT_PARQUET)
    require(size <= FOOTER_BYTES, LARGE)
    raw.seek(end - size)
    footer = Compact(raw.read(size), _MOST_ITEMS, lists=_LISTS).struct()
    raw.seek(0)
    groups = [(member(group, 1, LIST), member(group, 3, INT64)) for group in member(footer, 4, LIST)]
    require(sum(rows for _, rows in groups) == member(footer, 3, INT64))
    return [[_chunk(member(chunk, 3, STRUCT), rows) for chunk in group] for group, rows in groups]


def rows_at_once(raw: io.BufferedReader, schema: Any, groups: list[list[Chunk]], names: Sequence[str]) -> int:
    """Return the number of rows of the columns `names` that can be read at once, at least 1. No names mean all columns.

    UnreadableError: a page, or a possible row, is too large; a header is damaged.
    """
    left = 1_000 + raw.seek(0, os.SEEK_END) // _VALUE  # a bound on pages, because chunks may overlap
    rows = _BATCH
    require(all(len(group) == len(schema) for group in groups))
    for place in range(len(schema)):
        column = schema.column(place)
        # A path has dots between names, and names may have dots.
        if names and not any(f"{column.path}.".startswith(f"{name}.") for name in names):
            continue
        texts = column.physical_type == "BYTE_ARRAY"
        for group in groups:
            value = max(_VALUE, column.length or 0)  # a value of fixed length takes its bytes even if it is null
            # pyarrow reads the number of rows that the group claims, and ignores further rows.
            require(bool(column.max_repetition_level) or group[place].values == group[place].rows)
            longest, dense, repeated, whole, packed = 0, 0, value, 0, 0
            for page in _pages(raw, group[place]):
                left -= 1
                require(left > 0)
                packed += page.packed
                if page.kind == _DICTIONARY_PAGE:
                    if texts:  # whatever the texts are, rows of the whole group may be read at once
                        few = _REPEATED // max(1, page.unpacked) >= group[place].rows
                        longest = max(longest, page.unpacked if few else _longest(raw, page, group[place].codec))
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
            if column.max_repetition_level:  # one row may hold all values
                repeated, most = max(repeated, whole), max(most, _MOST_TIMES * packed)
            require(repeated <= most, LARGE)
            rows = min(rows, _BATCH // (dense + 1) + 1, _REPEATED // repeated + 1)
    return rows


def _chunk(told: Members, rows: int) -> Chunk:
    """Return a chunk that begins where pyarrow begins to read."""
    at = member(told, 9, INT64)
    dictionary = member(told, 11, INT64) if 11 in told else 0
    return Chunk(dictionary if 0 < dictionary < at else at, member(told, 5, INT64), member(told, 4, INT32), rows)


def _pages(raw: io.BufferedReader, chunk: Chunk) -> Iterator[_PageHeader]:
    """Yield the pages of a chunk. UnreadableError: they do not hold the number of values that the chunk claims."""
    at, seen = chunk.at, 0
    while seen < chunk.values:
        require(0 < at < 2**62)
        header, begin = _header(raw, at)
        kind, unpacked, packed = (member(header, number, INT32) for number in (1, 2, 3))
        require(unpacked <= (DICTIONARY_BYTES if kind == _DICTIONARY_PAGE else PAGE_BYTES), LARGE)
        values = encoding = 0
        own: Members = {}
        if kind in _DATA_PAGES:
            place, number = _DATA_PAGES[kind]
            own = member(header, place, STRUCT)
            values, encoding = member(own, 1, INT32), member(own, number, INT32)
        page = _PageHeader(begin, kind, unpacked, packed, values, encoding, own)
        yield page
        at, seen = page.at + packed, seen + values
    require(seen == chunk.values)


def _header(raw: io.BufferedReader, at: int) -> tuple[Members, int]:
    """Return the fields of the page header at a place, and where its page begins. A header may hold long texts."""
    size = _HEADER
    while True:
        raw.seek(at)
        read = Compact(raw.read(size), 100)
        try:
            return read.struct(), at + read.at
        except ShortError:
            if len(read.data) < size or size > FOOTER_BYTES:
                raise
        size *= 64


def _longest(raw: io.BufferedReader, page: _PageHeader, codec: int) -> int:
    """Return the bytes of the longest text of a dictionary, or an upper bound."""
    raw.seek(page.at)
    data: bytes | None = raw.read(page.packed)
    if codec and (data := decompressed(data or b"", page.unpacked, codec)) is None:
        return page.unpacked
    return min(longest_text(data or b""), page.unpacked)


def longest_text(data: bytes) -> int:
    """Return the bytes of the longest text of a dictionary, in which each text follows its length of 4 bytes.

    Three zero bytes may be the end of a length below 256. Such places in a block are texts as long as each begins where
    the one before ends. Where few do, texts are found one by one.
    """
    whole = np.frombuffer(data, np.uint8)
    at = longest = 0
    while at < len(data):
        block = whole[at : at + _TEXTS_AT_ONCE]
        places = np.flatnonzero((block[1:-2] | block[2:-1] | block[3:]) == 0)
        sizes = block[places].astype(np.int64)
        ends = places + 4 + sizes
        follow = np.concatenate([[0], ends[:-1]]) == places
        n = len(places) if follow.all() else int(follow.argmin())
        if n:
            longest, at = max(longest, int(sizes[:n].max())), at + int(ends[n - 1])
        for _ in range(0 if n >= _FEW else 2 * _FEW):
            if at >= len(data):
                break
            size = int.from_bytes(data[at : at + 4], "little")
            longest, at = max(longest, size), at + 4 + size
    return longest


def decompressed(data: bytes, size: int, codec: int) -> bytes | None:
    """Return the `size` bytes of data, unpacked. None: damaged, or a codec that pyarrow knows only inside Parquet."""
    with needing("Parquet", "dptext[files]"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    with contextlib.suppress(pa.ArrowException, OSError, ValueError, LookupError):
        found: bytes = pa.decompress(data, size, _CODECS[codec], asbytes=True)
        return found
    return None


def _delta_texts(raw: io.BufferedReader, page: _PageHeader, codec: int, levels: int) -> tuple[int, int]:
    """Return the bytes of all texts of a page in a delta encoding, and of the longest text, or upper bounds.

    levels: how many of the two kinds of levels precede the texts.
    """
    require(codec == 0 or codec in _CODECS, _ODD_DELTA)
    raw.seek(page.at)
    data = raw.read(page.packed)
    if page.kind == _DATA_PAGE_2:  # levels are not compressed
        before = member(page.own, 5, INT32) + member(page.own, 6, INT32)
        data, size, levels = data[before:], page.unpacked - before, 0
        require(size >= 0)
    else:
        size = page.unpacked
        require(all(member(page.own, number, INT32) == _RLE for number in (3, 4)), _ODD_DELTA)
    # pyarrow decompresses pages of some writers although the pages claim to be uncompressed.
    stored = codec == 0 or (page.kind == _DATA_PAGE_2 and page.own.get(7, (0, None))[0] == FALSE)
    unpacked = decompressed(data, size, codec) if codec else None
    readings = [each for each in (data if stored else None, unpacked) if each is not None]
    require(bool(readings))
    return tuple(max(column) for column in zip(*(_sizes(each, page, levels) for each in readings), strict=True))


def _sizes(data: bytes, page: _PageHeader, levels: int) -> tuple[int, int]:
    """Return the bytes of all texts and of the longest. `levels` blocks of levels, with lengths, precede the texts."""
    at = 0
    for _ in range(levels):
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    read = Compact(data, _MOST_ITEMS, at)
    if page.encoding == _DELTA_LENGTHS:  # the page holds all texts unchanged
        _head(read, page.values)
        return page.unpacked, page.unpacked
    shared, rest = _lengths(read, page.values), _lengths(read, page.values)
    require(len(shared) == len(rest))
    whole = np.add(shared, rest, dtype=np.int64)
    return int(whole.sum()), int(whole.max(initial=0))


def _head(read: Compact, values: int) -> tuple[int, int, int, int]:
    """Read the header of lengths that are packed by their differences (DELTABINARY_PACKED).

    Return the number of lengths in a block, of packs in a block, and of all lengths (at most `values`), and the first
    length.
    """
    block, packs, count, first = read.varint(), read.varint(), read.varint(), read.value(INT32)
    require(0 < block < 2**32 and packs > 0 and block % 128 == 0 and block % (32 * packs) == 0 and count <= values)
    require(count <= LENGTHS_A_PAGE, LARGE)
    return block, packs, count, first


def _lengths(read: Compact, values: int) -> Int32s:
    """Return lengths that are packed by their differences. Sums beyond 32 bits become negative, as in pyarrow."""
    block, packs_of_block, count, first = _head(read, values)
    begin, size, left = read.at, block // packs_of_block, count - 1
    packs: list[tuple[int, int, int]] = []  # a pack's first bit, its bits per number, the number added to each
    while left > 0:
        least = read.value(INT32)
        for width in read.take(packs_of_block):
            if left > 0:
                require(width <= 32)
                packs.append((8 * (read.at - begin), width, least))
                read.skip(size * width // 8)
                left -= size
    end, read.at = read.at, begin
    data = read.take(end - begin)
    words: UInt64s = np.ndarray((len(data) + 1,), "<u8", data + bytes(8), 0, (1,))  # words that begin at any byte
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
    require(not count or int(lengths.min()) >= 0)
    return lengths
