"""Files of Parquet that unpack to far more than they weigh end in an error, in little memory."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

from dptext.errors import BrokenFileError
from dptext.text import parquet_pages
from dptext.text.formats import Format
from dptext.text.lines import Broken, rows_of
from dptext.text.reading import read_batches
from dptext.text.records import Fields
from dptext.text.rows import file_chunks
from dptext.text.thrift import FALSE, Compact, UnreadableError

# Each is written in a process that ends, and read in one whose memory is measured.
BOMBS = """
import json, os, resource, sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from dptext.errors import BrokenFileError
from dptext.text.formats import Format
from dptext.text.reading import read_batches
from dptext.text.records import Fields

folder = Path(sys.argv[1])

def varint(number):
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

def write():
    places = pa.array([0] * 100_000, pa.int32())
    long = pa.DictionaryArray.from_arrays(places, pa.array(["a" * 300_000]))
    pq.write_table(pa.table({"text": long}), folder / "dictionary", compression="zstd", store_schema=False)
    pq.write_table(pa.table({"text": ["a" * (2**27 + 1)]}), folder / "page", compression="zstd", use_dictionary=False,
                   write_statistics=False)
    nulls = pa.nulls(1_000, pa.binary(2**18))
    pq.write_table(pa.table({"text": ["a"] * 1_000, "label": nulls}), folder / "nulls")
    must = pa.schema([pa.field("text", pa.string(), nullable=False)])
    pq.write_table(pa.table({"text": [""] * 2**20}).cast(must), folder / "delta", compression="none",
                   use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"}, write_statistics=False,
                   data_page_size=2**30, write_batch_size=2**20, max_rows_per_page=2**21)
    data = bytearray((folder / "delta").read_bytes())
    head = varint(2**31 - 128) + varint(1) + varint(2**28) + bytes(3)
    data[30 : 30 + len(head)] = head  # so many lengths of no bit
    (folder / "delta").write_bytes(data)
    # The file declares as many texts throughout: rows are 2**20 in Thrift's zigzag, of which 2**26 has as many bytes.
    fewer = varint(2**31 - 128) + varint(1) + varint(2**26) + bytes(4)
    whole = bytes(data).replace(head, fewer).replace(varint(2**21), varint(2**27))
    (folder / "lengths").write_bytes(whole)
    same = pa.table({"text": pa.array(["a" * 299_999 + "b"]).take(pa.array([0] * 300))})
    with pq.ParquetWriter(folder / "prefixes", same.schema, compression="zstd", use_dictionary=False,
                          column_encoding={"text": "DELTA_BYTE_ARRAY"}, write_statistics=False,
                          store_schema=False) as writer:
        for _ in range(13):
            writer.write_table(same)

if not (writer := os.fork()):
    write()
    os._exit(0)
os.waitpid(writer, 0)
pq.write_table(pa.table({"text": ["a"], "label": ["b"]}), folder / "good")
told = {}
for name in ("good", "dictionary", "page", "nulls", "delta", "lengths", "prefixes"):
    fields = Fields(label="label" if name in ("good", "nulls") else None)
    read, fault = 0, ""
    try:
        for batch in read_batches(folder / name, fields, format=Format.PARQUET):
            read += len(batch)
    except BrokenFileError as error:
        fault = str(error)
    size = (folder / name).stat().st_size
    told[name] = (read, size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, fault)
print(json.dumps(told))
"""


FAULTS = {
    **dict.fromkeys(("dictionary", "page", "lengths", "prefixes"), parquet_pages.LARGE),
    "nulls": "",
    "delta": "damaged",
}


@pytest.mark.slow  # each bound stays below; this one reads large files in a process that says what it took
def test_bombs_end_in_an_error_in_little_memory(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BOMBS, str(tmp_path)], capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    told = json.loads(done.stdout)
    read, _, before, fault = told.pop("good")
    assert (read, fault) == (1, "")
    for name, (_, size, memory, fault) in told.items():
        assert size < 100_000, name
        assert memory - before < 120, (name, memory, before)  # MiB
        assert FAULTS[name] in fault, name


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_all_kinds_are_found(tmp_path: Path, codec: str, version: str) -> None:
    texts = [f"{number % 700} {'x' * (number % 90)}" for number in range(5_000)]
    path = tmp_path / "in.parquet"
    table = pa.table({"text": texts, "n": pa.array([None, *range(1, 5_000)]), "many": [[1, 2]] * 5_000})
    pq.write_table(
        table,
        path,
        compression=codec,
        data_page_version=version,
        data_page_size=2_000,
        dictionary_pagesize_limit=3_000,
        row_group_size=2_000,
        write_page_checksum=True,
    )
    assert [record.text for batch in read_batches(path) for record in batch] == texts
    with path.open("rb") as raw:
        groups = parquet_pages.chunks_of(raw)
        assert [group[0].values for group in groups] == [2_000, 2_000, 1_000]
        pages = list(parquet_pages._pages(raw, groups[0][0]))
        assert sum(page.values for page in pages) == 2_000
        column = pq.ParquetFile(path).metadata.row_group(0).column(0)
        assert pages[-1].at + pages[-1].packed == 4 + column.total_compressed_size
        assert parquet_pages._longest(raw, pages[0], groups[0][0].codec) == max(map(len, texts))


def fault(path: Path) -> str:
    with pytest.raises(BrokenFileError) as caught:
        list(read_batches(path))
    return str(caught.value)


@pytest.mark.parametrize("limit", ["PAGE_BYTES", "DICTIONARY_BYTES"])
def test_a_large_page_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a" * 5_000] * 9}), path, use_dictionary=limit != "PAGE_BYTES")
    assert sum(map(len, read_batches(path))) == 9
    monkeypatch.setattr(parquet_pages, limit, 4_000)
    assert parquet_pages.LARGE in fault(path)
    pq.write_table(pa.table({"text": ["a"], "a.b": ["a" * 5_000]}), path, use_dictionary=limit != "PAGE_BYTES")
    assert sum(map(len, read_batches(path))) == 1
    with pytest.raises(BrokenFileError, match=parquet_pages.LARGE):
        list(read_batches(path, Fields(label="a.b")))


def test_one_row_may_hold_all_of_a_nested_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a"], "many": [[0] * 100_000]}), path)
    assert [len(chunk) for chunk in file_chunks(path, Format.PARQUET, [], max_line=100)]
    monkeypatch.setattr(parquet_pages, "PAGE_BYTES", 1_000_000)
    assert sum(map(len, read_batches(path))) == 1  # the column is not read
    found = list(file_chunks(path, Format.PARQUET, [], max_line=100))
    assert found == [[Broken(parquet_pages.LARGE)]]


def test_one_row_may_hold_all_pages_of_a_nested_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table({"text": ["a", "b"], "many": [[0] * 100_000, [0]]})
    pq.write_table(table, path, data_page_size=1, write_batch_size=1)
    with path.open("rb") as raw:
        _, many = parquet_pages.chunks_of(raw)[0]
        *_, last = parquet_pages._pages(raw, many)
    assert last.values < 100  # the last page alone is small
    monkeypatch.setattr(parquet_pages, "PAGE_BYTES", 1_000_000)
    found = list(file_chunks(path, Format.PARQUET, [], max_line=100))
    assert found == [[Broken(parquet_pages.LARGE)]]


def test_headers_that_readers_could_read_in_two_ways_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a" * 40]}), path, compression="none", use_dictionary=False)
    data = path.read_bytes()
    at = 4
    assert data[at : at + 2] == bytes([0x15, 0])  # field 1, a 32-bit integer: a data page
    assert data[at + 2] == 0x15  # field 2: what it unpacks to
    for place, byte in ((at + 2, 0x16), (at + 2, 0x05), (at, 0x16), (at + 3, 0xFF), (at, 0x19), (at, 0x1C)):
        path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
        assert "damaged" in fault(path) or parquet_pages.LARGE in fault(path)
    path.write_bytes(data)
    assert sum(map(len, read_batches(path))) == 1
    monkeypatch.setattr(parquet_pages, "FOOTER_BYTES", 100)
    assert parquet_pages.LARGE in fault(path)


def test_no_damaged_footer_ends_the_process(tmp_path: Path) -> None:
    """As one would whose histograms are too short, if pyarrow were asked what it says of a column."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a", "b"] * 10, "label": ["a", None] * 10}), path, row_group_size=10)
    data, random = path.read_bytes(), Random(1)
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for _ in range(100):
        mutated = bytearray(data)
        for _ in range(random.choice([1, 1, 3])):
            mutated[random.randrange(begin, len(data))] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
        path.write_bytes(mutated)
        with contextlib.suppress(BrokenFileError):
            assert sum(map(len, read_batches(path))) <= 20


def test_what_a_file_unpacks_to_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a" * 1_000] * 30_000}), path)
    monkeypatch.setattr("dptext.text.packed_rows.most_bytes", lambda _: 10_000_000)
    assert parquet_pages.LARGE in fault(path)


def test_rows_that_a_footer_leaves_out_are_not_lost(tmp_path: Path) -> None:
    """In 0.1.0 three of six records were read where the footer says that the group of rows has three."""
    path = tmp_path / "in.parquet"
    table = pa.table({"text": [f"text {number}" for number in range(6)]})
    pq.write_table(table, path, use_dictionary=False, write_statistics=False, store_schema=False)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8]
    whole = set()
    for place in [i for i, byte in enumerate(footer) if byte == 12]:  # 6 as Thrift writes it
        path.write_bytes(data[: -8 - size] + footer[:place] + b"\6" + footer[place + 1 :] + data[-8:])
        try:
            whole.add(sum(map(len, read_batches(path))))
        except BrokenFileError:
            whole.add(0)
    assert whole == {0, 6}


DELTA_LENGTHS, DELTA_TEXTS = "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"


def delta_sizes(path: Path) -> list[tuple[int, int]]:
    """Of each page of the first column: bytes of its texts and of the longest, as they are found before a reading."""
    found = []
    with path.open("rb") as raw:
        levels = int(pq.ParquetFile(path).schema.column(0).max_definition_level > 0)
        for chunk, *_ in parquet_pages.chunks_of(raw):
            pages = list(parquet_pages._pages(raw, chunk))
            found += [parquet_pages._delta_texts(raw, page, chunk.codec, levels) for page in pages]
    return found


@pytest.mark.slow_cases(
    *("snappy", "gzip", "brotli", "lz4"), why="none and zstd stay; test_pages_of_all_kinds_are_found unpacks each codec"
)
@pytest.mark.parametrize("encoding", [DELTA_LENGTHS, DELTA_TEXTS])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_in_delta_encodings_are_read(tmp_path: Path, version: str, codec: str, encoding: str) -> None:
    random = Random(1)
    starts = ["", "so ", "l\u00e4nger " * 40]
    texts = [random.choice(starts) + "x" * random.choice([0, 1, 5, 700]) + str(number) for number in range(3_000)]
    labels = [None if number % 3 else str(number % 7) for number in range(3_000)]
    table = pa.table({"text": texts, "label": labels, "many": [["a", "ab"]] * 3_000})
    path = tmp_path / "in.parquet"
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        column_encoding=dict.fromkeys(("text", "label", "many.list.element"), encoding),
        compression=codec,
        data_page_version=version,
        data_page_size=10_000,
        write_batch_size=100,
        row_group_size=2_000,
    )
    assert encoding in pq.ParquetFile(path).metadata.row_group(0).column(0).encodings
    read = [record for batch in read_batches(path, Fields(label="label")) for record in batch]
    assert [record.text for record in read] == texts
    assert [record.label for record in read] == labels
    assert [row for chunk in file_chunks(path, Format.PARQUET, [], max_line=100) for row in rows_of(chunk)] == (
        table.to_pylist()
    )
    sizes = [len(text.encode()) for text in texts]
    found = delta_sizes(path)
    assert len(found) > 10
    if encoding == DELTA_TEXTS:
        assert sum(total for total, _ in found) == sum(sizes)
        assert max(longest for _, longest in found) == max(sizes)


@pytest.mark.parametrize(
    "lengths", [[], [0], [7], [1, 0], [5] * 33, [*range(128)], [2**20, 0, 3] * 43, [9, *[0] * 500, 7]]
)
def test_packed_lengths_are_what_they_were(tmp_path: Path, lengths: list[int]) -> None:
    path = tmp_path / "in.parquet"
    numbers = pa.table({"n": pa.array(lengths, pa.int32())}).cast(
        pa.schema([pa.field("n", pa.int32(), nullable=False)])
    )
    pq.write_table(
        numbers, path, use_dictionary=False, column_encoding={"n": "DELTA_BINARY_PACKED"}, compression="none"
    )
    if not lengths:
        packed = bytes([128, 1, 4, 0, 0])
    else:
        with path.open("rb") as raw:
            (page,) = parquet_pages._pages(raw, parquet_pages.chunks_of(raw)[0][0])
            raw.seek(page.at)
            packed = raw.read(page.packed)
    read = Compact(packed + b"more", 1_000)
    assert parquet_pages._lengths(read, len(lengths)).tolist() == lengths
    assert read.data[read.at :] == b"more"


def test_what_is_told_of_damaged_delta_pages_is_what_pyarrow_reads(tmp_path: Path) -> None:
    """Of lengths that are accepted pyarrow makes the texts that were expected, or none."""
    path = tmp_path / "in.parquet"
    must = pa.schema([pa.field("text", pa.string(), nullable=False)])
    texts = pa.table({"text": [f"{number % 9} and {'x' * (number % 7)}" for number in range(200)]}).cast(must)
    how = {"use_dictionary": False, "compression": "none", "write_statistics": False, "store_schema": False}
    pq.write_table(texts, path, column_encoding={"text": DELTA_TEXTS}, **how)
    data, random, read = path.read_bytes(), Random(1), 0
    with path.open("rb") as raw:
        (page,) = parquet_pages._pages(raw, parquet_pages.chunks_of(raw)[0][0])
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(random.choice([1, 1, 2])):
            place = page.at + random.randrange(random.choice([12, page.packed]))
            mutated[place] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
        path.write_bytes(mutated)
        try:
            ((total, longest),) = delta_sizes(path)
        except UnreadableError:
            continue
        try:
            sizes = [len(text) for text in pq.read_table(path, use_threads=False)["text"].cast("binary").to_pylist()]
        except (pa.ArrowException, OSError):
            continue
        read += 1
        assert (total, longest) == (sum(sizes), max(sizes))
    assert read > 50


def test_a_page_that_two_readers_read_in_two_ways_is_as_long_as_the_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of version 2, which says that it is not compressed: pyarrow decompresses it if an old writer is named."""
    path = tmp_path / "in.parquet"
    must = pa.schema([pa.field("text", pa.string(), nullable=False)])
    texts = pa.table({"text": ["a" * 1_000] * 9}).cast(must)
    how = {"use_dictionary": False, "write_statistics": False, "data_page_version": "2.0", "compression": "zstd"}
    pq.write_table(texts, path, column_encoding={"text": DELTA_TEXTS}, **how)
    assert delta_sizes(path) == [(9_000, 1_000)]
    with path.open("rb") as raw:
        (chunk,) = parquet_pages.chunks_of(raw)[0]
        (page,) = parquet_pages._pages(raw, chunk)
        own = {**page.own, 7: (FALSE, None)}
        with pytest.raises(UnreadableError, match="damaged"):  # as it is no page that is not compressed
            parquet_pages._delta_texts(raw, replace(page, own=own), chunk.codec, 0)
    short = bytes([128, 1, 4, 1, 0]) + bytes([128, 1, 4, 1, 10])  # one text, of five bytes
    plain = replace(page, at=0, packed=len(short), unpacked=len(short), own=own)
    assert parquet_pages._delta_texts(io.BufferedReader(io.BytesIO(short)), plain, chunk.codec, 0) == (5, 5)
    longer = bytes([128, 1, 4, 1, 0]) + bytes([128, 1, 4, 1, 18])
    monkeypatch.setattr(parquet_pages, "decompressed", lambda *_: longer)
    assert parquet_pages._delta_texts(io.BufferedReader(io.BytesIO(short)), plain, chunk.codec, 0) == (9, 9)


@pytest.mark.parametrize(("codec", "own"), [(5, {}), (3, {}), (1, {3: (5, 4)}), (0, {4: (5, 4)})])
def test_delta_pages_of_old_codecs_and_levels_are_refused(codec: int, own: dict[int, tuple[int, int]]) -> None:
    fields = {1: (5, 1), 2: (5, 7), 3: (5, 3), 4: (5, 3), **own}
    page = parquet_pages._PageHeader(0, 0, 10, 10, 1, 7, fields)
    with pytest.raises(UnreadableError, match="old Parquet"):
        parquet_pages._delta_texts(io.BufferedReader(io.BytesIO(bytes(10))), page, codec, 1)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ((128, 4, 2**22 + 1, 0), parquet_pages.LARGE),
        ((128, 4, 11, 0), ""),
        ((128, 4, 2**23 + 1, 0), "damaged"),  # more than the page has values
        ((0, 4, 1, 0), "damaged"),
        ((128, 0, 1, 0), "damaged"),
        ((100, 1, 1, 0), "damaged"),
        ((128, 8, 1, 0), "damaged"),
        ((2**32, 1, 1, 0), "damaged"),
        ((128, 4, 1, 2**32), "damaged"),
        ((128, 4, 1, 1), "damaged"),  # -1
    ],
)
def test_lengths_that_cannot_be_are_refused(head: tuple[int, ...], said: str) -> None:
    def varint(number: int) -> bytes:
        return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

    packed = b"".join(map(varint, head)) + bytes(5)
    read = Compact(packed, 1_000)
    if not said:
        assert parquet_pages._lengths(read, 2**23).tolist() == [0] * head[2]
        return
    with pytest.raises(UnreadableError, match=said):
        parquet_pages._lengths(read, 2**23)


def test_lengths_of_more_than_32_bits_are_refused() -> None:
    for width, said in ((32, ""), (33, "damaged")):
        read = Compact(bytes([128, 1, 4, 33, 0, 0, width, 0, 0, 0]) + bytes(300), 1_000)
        if said:
            with pytest.raises(UnreadableError, match=said):
                parquet_pages._lengths(read, 40)
        else:
            assert parquet_pages._lengths(read, 40).tolist() == [0] * 33


@pytest.mark.parametrize(("short", "long"), [(0, 300), (40_000, 400)])
def test_texts_that_share_a_long_beginning_are_read_few_at_once(tmp_path: Path, short: int, long: int) -> None:
    """Also where they are few among many short ones, so that the average is short."""
    path = tmp_path / "in.parquet"
    texts = pa.table({"text": pa.array(["a" * 100_000, "b"]).take(pa.array([1] * short + [0] * long))})
    how = {"use_dictionary": False, "write_batch_size": 50_000, "data_page_size": 2**27, "max_rows_per_page": 50_000}
    pq.write_table(texts, path, column_encoding={"text": DELTA_TEXTS}, **how)
    assert path.stat().st_size < 500_000
    assert len(delta_sizes(path)) == 1
    found = [sum(batch.lengths()) for batch in read_batches(path)]
    assert sum(found) == short + 100_000 * long
    assert max(found) < 5_000_000


@pytest.mark.parametrize("length", [10, parquet_pages._HEADER, 50_000])
def test_a_page_header_may_be_long(length: int) -> None:
    """A text of statistics passes the bytes that are read at first; a header that ends nowhere is damaged."""
    text = bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + bytes(length)
    header = bytes([0x15, 0, 0x15, 8, 0x15, 8, 0x58, *text, 0]) + b"page"  # kind 0, 4 bytes unpacked and packed
    for cut in (0, 6):
        raw = io.BufferedReader(io.BytesIO(b"before" + header[: len(header) - cut]))  # type: ignore[arg-type]
        if cut:
            with pytest.raises(UnreadableError, match="damaged"):
                parquet_pages._header(raw, 6)
            continue
        found, begin = parquet_pages._header(raw, 6)
        assert [found[number][1] for number in (1, 2, 3)] == [0, 4, 4]
        raw.seek(begin)
        assert raw.read() == b"page"


def longest_one_by_one(data: bytes) -> int:
    at = longest = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        longest, at = max(longest, size), at + 4 + size
    return longest


@pytest.mark.parametrize("size", [0, 6, 255, 256, 70_000, 2**24])
@pytest.mark.parametrize("place", [0, 1, 9_999, 20_000])
def test_the_longest_of_many_short_texts_is_found(size: int, place: int) -> None:
    texts = [str(number).encode() for number in range(20_000)]
    texts.insert(place, bytes(size))
    page = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    assert parquet_pages.longest_text(page) == max(map(len, texts))


def test_the_longest_text_of_any_bytes_is_that_of_texts_found_one_by_one() -> None:
    random = Random(1)
    for _ in range(300):
        choices = random.choice([[0], [0, 3], [2, 3, 9], [6], [90, 300], [6, 256, 20]])
        sizes = random.choices(choices, k=random.choice([0, 1, 3, 900, 2_000]))
        page = bytearray().join(
            size.to_bytes(4, "little") + random.choice([bytes(size), b"x" * size]) for size in sizes
        )
        for _ in range(random.choice([0, 1, 3]) if page else 0):
            page[random.randrange(len(page))] = random.choice([0, 1, 255])
        cut = bytes(page[: len(page) - random.choice([0, 0, 1, 2, 3, 5])])
        assert parquet_pages.longest_text(cut) == longest_one_by_one(cut)


def test_rows_that_may_repeat_a_long_text_among_short_ones_are_few_at_once(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    ids = [str(number) for number in range(50_000)]
    for long, fewest in (("", 8_192), ("a" * 400_000, 11)):
        pq.write_table(pa.table({"text": [*ids, long, *ids]}), path, compression="zstd")
        with path.open("rb") as raw:
            groups = parquet_pages.chunks_of(raw)
            rows = parquet_pages.rows_at_once(raw, pq.ParquetFile(path).schema, groups, ["text"])
        assert rows >= fewest if not long else rows == fewest
        assert sum(map(len, read_batches(path))) == 100_001
