"""Files of Parquet that unpack to far more than they weigh end in an error, in little memory."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

from dptext.errors import BrokenFileError
from dptext.text import parquet_pages
from dptext.text.formats import Format
from dptext.text.lines import Broken
from dptext.text.reading import read_batches
from dptext.text.records import Fields
from dptext.text.rows import file_chunks

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
    with pq.ParquetWriter(folder / "prefixes", same.schema, compression="zstd", use_dictionary=False, store_schema=False,
                          column_encoding={"text": "DELTA_BYTE_ARRAY"}, write_statistics=False) as writer:
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


@pytest.mark.parametrize("limit", ["_MOST_PAGE", "_MOST_DICTIONARY"])
def test_a_large_page_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a" * 5_000] * 9}), path, use_dictionary=limit != "_MOST_PAGE")
    assert sum(map(len, read_batches(path))) == 9
    monkeypatch.setattr(parquet_pages, limit, 4_000)
    assert parquet_pages.LARGE in fault(path)
    pq.write_table(pa.table({"text": ["a"], "a.b": ["a" * 5_000]}), path, use_dictionary=limit != "_MOST_PAGE")
    assert sum(map(len, read_batches(path))) == 1
    with pytest.raises(BrokenFileError, match=parquet_pages.LARGE):
        list(read_batches(path, Fields(label="a.b")))


def test_one_row_may_hold_all_of_a_nested_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["a"], "many": [[0] * 100_000]}), path)
    assert [len(chunk) for chunk in file_chunks(path, Format.PARQUET, [], max_line=100)]
    monkeypatch.setattr(parquet_pages, "_MOST_PAGE", 1_000_000)
    assert sum(map(len, read_batches(path))) == 1  # the column is not read
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
    monkeypatch.setattr(parquet_pages, "_MOST_FOOTER", 100)
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
