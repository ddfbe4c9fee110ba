"""Reading and writing records: round trips, every kind of bad input, and no private text in any error."""

from __future__ import annotations

import csv
import errno
import gc
import gzip
import io
import json
import os
import stat
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import BrokenFileError, ConfigError, DataError, MissingExtraError
from dptext.text import files, writers
from dptext.text.columns import Columns
from dptext.text.files import create_private
from dptext.text.formats import READ_ONLY, Format, detect_format, is_compressed
from dptext.text.inputs import file_error
from dptext.text.reading import MAX_CHARACTERS, OnError, read_records
from dptext.text.records import Fields, Record, Release
from dptext.text.writers import APPENDABLE, encode_batch, open_writer, write_releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

CANARY = "ZEBRA-CANARY-4711"
RAW = CANARY.encode()
WRITABLE = [kind for kind in Format if kind not in READ_ONLY]
ALL = Fields(text="text", id="name", label="stars", author="by", keep=("year",))
FILES = ["a.jsonl", "a.csv", "a.txt", "a.parquet", "a.jsonl.gz", "a.csv.gz", "a.txt.gz"]
FULL_FILES = [name for name in FILES if "txt" not in name]
# What every format can hold: any text but NUL and lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60)


def release_columns(kind: Format, **which) -> tuple[str, ...]:
    return Columns(**which).names(kind)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(source: Any, fields: Fields = Fields(), **settings_: Any) -> list[Record]:  # noqa: B008
    """The records; of plain text its lines."""
    if isinstance(source, Path) and ".txt" in source.name:
        settings_ = {"record": "line", **settings_}
    return list(read_records(source, fields, **settings_))


def texts(source: Any, fields: Fields = Fields(), **settings_: Any) -> list[str]:  # noqa: B008
    return [record.text for record in read(source, fields, **settings_)]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo = [error]
    while todo:
        error = todo.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            yield error
            todo += [error.__cause__, error.__context__]


def shown(error: BaseException) -> str:
    """Everything that an error and the errors chained to it could show to anybody."""
    parts: list[object] = []
    for one in chain(error):
        parts += [str(one), repr(one), one.args, vars(one), getattr(one, "__notes__", "")]
        parts += [getattr(one, name, "") for name in ("doc", "object", "obj", "filename")]
    return repr(parts)


def assert_private(error: BaseException) -> None:
    assert "ZEBRA" not in shown(error)
    assert "4711" not in shown(error)


def test_the_check_for_leaks_finds_chained_documents() -> None:
    def leak() -> None:
        try:
            json.loads("[" + CANARY)
        except ValueError:
            raise DataError("bad") from None

    with pytest.raises(DataError) as caught:
        leak()
    assert "ZEBRA" in shown(caught.value)


# --- types ------------------------------------------------------------------------------------------------------------


def test_a_record_shows_nothing() -> None:
    record = Record(CANARY, CANARY, CANARY, CANARY, {"a": CANARY})
    assert repr(record) == str(record) == f"{[record]}"[1:-1] == "Record(...)"
    assert "ZEBRA" not in repr(Record(CANARY, CANARY))


def test_records_are_values() -> None:
    assert Record("0", "a", kept={"b": 1}) == Record("0", "a", kept={"b": 1}) != Record("0", "a")
    assert hash(Record("0", "a")) == hash(Record("0", "a"))
    with pytest.raises(AttributeError):
        Record("0", "a").text = "b"  # type: ignore[misc]


def test_releases_can_be_made_with_their_type() -> None:
    assert Release[str]("0", "a") == Release("0", "a")
    assert Release("0", (1.0, 2.0)).output == (1.0, 2.0)
    with pytest.raises(AttributeError):
        Release("0", "a").id = "1"  # type: ignore[misc]


@pytest.mark.parametrize(
    "names",
    [
        {"id": "text"},
        {"label": "text"},
        {"author": "text"},
        {"keep": ("text",)},
        {"text": "body", "keep": ("year", "body")},
        {"keep": ("a", "a")},
        {"text": ""},
        {"id": ""},
        {"keep": ("",)},
    ],
)
def test_fields_that_would_leak_the_text_or_mean_nothing_are_refused(names: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        Fields(**names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl", Format.JSONL),
        ("a.ndjson", Format.JSONL),
        ("a.b.JSONL.GZ", Format.JSONL),
        ("dir.csv/a.csv.gz", Format.CSV),
        ("a.csv", Format.CSV),
        ("a.parquet", Format.PARQUET),
        ("a.txt", Format.TEXT),
        ("a.txt.gz", Format.TEXT),
        ("a.tsv", Format.TSV),
        ("a.json.gz", Format.JSON),
        ("a.XLSX", Format.XLSX),
    ],
)
def test_detect_format(name: str, expected: Format) -> None:
    assert detect_format(name) is expected
    assert detect_format(Path(name)) is expected


@pytest.mark.parametrize("name", ["a", "a.gz", "a.xlsx.gz", "a.parquet.gz", "a.jsonl.zip", ".csv", "a.csv.bak"])
def test_unknown_extensions_are_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        detect_format(name)
    assert all(part in str(caught.value) for part in [name, ".jsonl", ".csv", ".parquet", ".txt", "--format"])


def test_compression_goes_by_extension() -> None:
    assert is_compressed("a.jsonl.gz")
    assert is_compressed(Path("a.GZ"))
    assert not is_compressed("a.jsonl")


# --- reading ----------------------------------------------------------------------------------------------------------

ROWS = [
    {"name": "x", "text": "One\ttext, “quoted”", "stars": "pos", "by": "ann", "year": "2001"},
    {"name": "y", "text": "", "stars": "neg", "by": "bob", "year": "1999"},
    {"name": "z", "text": 'three "3"\nlines\r\nof text\r', "stars": "pos", "by": "ann", "year": "2001"},
]
EXPECTED = [Record(r["name"], r["text"], r["stars"], r["by"], {"year": r["year"]}) for r in ROWS]


def jsonl(rows: Iterable[object]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(rows: Sequence[dict[str, str]], end: str = "\r\n") -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()


def as_parquet(rows: dict[str, Any], **settings_: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(rows), buffer, **settings_)
    return buffer.getvalue()


def columns(rows: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", jsonl(ROWS)),
        ("a.ndjson", jsonl(ROWS).replace(b"\n", b"\r\n")),
        ("a.jsonl.gz", jsonl(ROWS).rstrip()),
        ("a.csv", as_csv(ROWS)),
        ("a.csv.gz", as_csv(ROWS, "\n").rstrip()),
        ("a.parquet", as_parquet(columns(ROWS))),
    ],
)
def test_all_fields_are_read(tmp_path: Path, name: str, data: bytes) -> None:
    path = write(tmp_path / name, data)
    assert read(path, ALL) == EXPECTED
    assert read(str(path), ALL) == EXPECTED
    assert read(path) == [Record(str(i), row["text"]) for i, row in enumerate(ROWS)]


def test_rows_from_python_are_read() -> None:
    assert read(ROWS, ALL) == EXPECTED
    assert read(iter(ROWS), ALL) == EXPECTED
    assert read(EXPECTED) == EXPECTED
    assert read([]) == []
    assert read([EXPECTED[1], {"text": "b"}]) == [EXPECTED[1], Record("1", "b")]


def test_reading_rows_is_lazy() -> None:
    def endless() -> Iterator[dict[str, object]]:
        while True:
            yield {"text": "a"}

    stream = read_records(endless())
    assert [next(stream).id for _ in range(3)] == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("one\ntwo\n", ["one", "two"]),
        ("one\ntwo", ["one", "two"]),
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("one\n\n\ntwo\n\n", ["one", "", "", "two", ""]),
        ("\n", [""]),
        (" a \x0cb\u2028c\x85d\re \n漢字😀", [" a \x0cb\u2028c\x85d\re ", "漢字😀"]),
        ("\ufeffone\n\ufefftwo", ["one", "\ufefftwo"]),
        ("\ufeff\n", [""]),
    ],
)
def test_plain_text_has_one_document_a_line(tmp_path: Path, name: str, data: str, expected: list[str]) -> None:
    assert texts(write(tmp_path / name, data.encode())) == expected


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}\n'),
        ("a.jsonl.gz", b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}'),
        ("a.jsonl", b'{"text": "a"}\n{"text": "b"}\n\n \r\n\n'),
        ("a.csv", b"\xef\xbb\xbftext\r\na\r\nb\r\n"),
        ("a.csv", b'\xef\xbb\xbf"text"\na\nb\n\n\r\n'),
        ("a.csv.gz", b"x,text,y\n1,a,\n,b,2"),
        ("a.csv", b",,text\n1,2,a\n3,4,b\n"),
    ],
)
def test_byte_order_marks_and_line_ends(tmp_path: Path, name: str, data: bytes) -> None:
    assert texts(write(tmp_path / name, data)) == ["a", "b"]


def test_gzip_members_are_read_as_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree"))
    assert texts(path) == ["one", "two", "three"]


def test_the_format_can_be_named(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "a.log", b'{"text": "a"}'), format=Format.JSONL) == ["a"]
    assert texts(write(tmp_path / "b.csv", b"a,b\n"), format=Format.TEXT, record="line") == ["a,b"]
    assert texts(write(tmp_path / "b.log.gz", b"text\na\n"), format=Format.CSV) == ["a"]
    with pytest.raises(ConfigError, match="--format"):
        read_records(tmp_path / "a.log")
    with pytest.raises(ConfigError, match="gz"):
        read_records(tmp_path / "b.log.gz", format=Format.PARQUET)


@pytest.mark.parametrize(
    "fields", [Fields(id="id"), Fields(label="label"), Fields(author="by"), Fields(keep=("year",))]
)
def test_plain_text_has_no_fields(tmp_path: Path, fields: Fields) -> None:
    path = write(tmp_path / "a.txt", b"a")
    assert texts(path, Fields(text="review")) == ["a"]
    with pytest.raises(ConfigError, match="plain text"):
        read_records(path, fields)


def test_numbers_and_nulls_in_fields() -> None:
    rows = [
        {"name": 7, "text": "a", "stars": 4, "by": 12, "year": 2001},
        {"name": "8", "text": "b", "stars": None, "by": "x", "year": None},
        {"name": -9, "text": "c", "stars": True, "by": "y", "year": 0.5},
        {"name": "10", "text": "d", "stars": 2.5, "by": "z", "year": False},
    ]
    assert read(rows, ALL) == [
        Record("7", "a", "4", "12", {"year": 2001}),
        Record("8", "b", None, "x", {"year": None}),
        Record("-9", "c", "true", "y", {"year": 0.5}),
        Record("10", "d", "2.5", "z", {"year": False}),
    ]


def test_order_and_ids_over_many_batches(tmp_path: Path) -> None:
    expected = [f"text {i}" for i in range(3000)]
    path = write(tmp_path / "a.parquet", as_parquet({"text": expected}, row_group_size=700))
    got = read(path)
    assert [record.text for record in got] == expected
    assert [record.id for record in got] == [str(i) for i in range(3000)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_string_types(tmp_path: Path, kind: pa.DataType) -> None:
    path = write(tmp_path / "a.parquet", as_parquet({"text": pa.array(["a", "b", "a"]).cast(kind)}))
    assert texts(path) == ["a", "b", "a"]


def test_default_ids_count_the_records_that_were_read() -> None:
    rows = [{"text": "a"}, {"text": None}, {"text": "b"}, {}, {"text": "c"}]
    skipped: list[int] = []
    got = read(rows, on_error=OnError.SKIP, on_skip=lambda number, _: skipped.append(number))
    assert [(record.id, record.text) for record in got] == [("0", "a"), ("1", "b"), ("2", "c")]
    assert skipped == [2, 4]


@pytest.mark.parametrize("in_memory", [True, False])
def test_on_error_is_also_a_plain_string(tmp_path: Path, *, in_memory: bool) -> None:
    """A string that says stop skips nothing, and a string that says neither is refused."""
    rows = [{"text": "a"}, {"text": 1}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source: Any = rows if in_memory else path
    with pytest.raises(DataError, match="record 2"):
        list(read_records(source, on_error="stop"))  # type: ignore[arg-type]
    assert [record.text for record in read_records(source, on_error="skip")] == ["a"]  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="on_error"):
        read_records(source, on_error="halt")  # type: ignore[arg-type]


def test_skipping_needs_no_callback() -> None:
    assert texts([{"text": "a"}, {"text": 1}], on_error=OnError.SKIP) == ["a"]


# --- bad records ------------------------------------------------------------------------------------------------------

GOOD_JSON = b'{"name": "n%d", "text": "good", "stars": "s", "by": "b", "year": 1}'
HEADER = b"name,text,stars,by,year\n"


def json_line(**values: object) -> bytes:
    return json.dumps({"name": CANARY, "text": CANARY, "stars": CANARY, "by": CANARY, "year": CANARY} | values).encode()


def json_without(name: str) -> bytes:
    row = json.loads(json_line())
    del row[name]
    return json.dumps(row).encode()


BAD_JSON = {
    "not UTF-8": (json_line()[:-2] + b'\xff"}', "the field 'year' is not UTF-8"),
    "not UTF-8 and not closed": (b'{"text": "' + RAW + b"\xff", "the line is not UTF-8"),
    "cut UTF-8": (b'{"text": "' + RAW + b"\xe2\x82", "not UTF-8"),
    "UTF-16": (json_line().decode().encode("utf-16"), "not UTF-8"),
    "missing text": (json_without("text"), "the field 'text' is missing"),
    "missing id": (json_without("name"), "the field 'name' is missing"),
    "missing label": (json_without("stars"), "the field 'stars' is missing"),
    "missing author": (json_without("by"), "the field 'by' is missing"),
    "missing kept field": (json_without("year"), "the field 'year' is missing"),
    "null text": (json_line(text=None), "the field 'text' is null"),
    "number as text": (json_line(text=4711), "the field 'text' is not a string"),
    "list as text": (json_line(text=[CANARY]), "the field 'text' is not a string"),
    "object as text": (json_line(text={"a": CANARY}), "the field 'text' is not a string"),
    "null id": (json_line(name=None), "'name' is not a string or integer"),
    "empty id": (json_line(name=""), "'name' is not a string or integer"),
    "boolean id": (json_line(name=True), "'name' is not a string or integer"),
    "float id": (json_line(name=47.11), "'name' is not a string or integer"),
    "huge id": (json_line(name=10**1000), "'name' is not a string or integer"),
    "null author": (json_line(by=None), "'by' is not a string or integer"),
    "list as author": (json_line(by=[CANARY]), "'by' is not a string or integer"),
    "list as label": (json_line(stars=[CANARY]), "'stars' is not a string, a finite number"),
    "infinite label": (
        json_line(stars=1).replace(b'"stars": 1', b'"stars": 1e999'),
        "'stars' is not a string, a finite",
    ),
    "object as kept field": (json_line(year={"a": CANARY}), "'year' is not a string, a finite number"),
    "infinite kept field": (
        json_line(year=1).replace(b'"year": 1', b'"year": 1e999'),
        "'year' is not a string, a finite",
    ),
    "malformed": (b'{"text": "' + RAW + b'"', "not valid JSON"),
    "bare word": (RAW, "not valid JSON"),
    "two values": (json_line() + json_line(), "not valid JSON"),
    "two texts": (json_line()[:-1] + b', "text": "' + RAW + b'"}', "a key of an object is there twice"),
    "NaN": (json_line(year=float("nan")), "a number is NaN or infinite"),
    "infinity": (json_line(year=float("inf")), "a number is NaN or infinite"),
    "control character": (json_line()[:-2] + b'\t"}', "not valid JSON"),
    "deep nesting": (json_line(year=5)[:-2] + b"[" * 100_000 + b"]" * 100_000 + b"}", "lie too deep"),
    "long integer": (json_line(year=5)[:-2] + b"9" * 5000 + b"}", "more digits than are read"),
    "array": (b'["' + RAW + b'"]', "not a JSON object"),
    "string": (b'"' + RAW + b'"', "not a JSON object"),
    "empty line": (b"", "the line is empty"),
    "blank line": (b" \t\r", "the line is empty"),
    "NUL in the text": (json_line(text=CANARY + "\x00"), "'text' holds a NUL"),
    "NUL in the id": (json_line(name=CANARY + "\x00"), "'name' holds a NUL"),
    "NUL in a kept field": (json_line(year=CANARY + "\x00"), "'year' holds a NUL"),
    "raw NUL": (json_line()[:-2] + b'\x00"}', "not valid JSON"),
    "lone surrogate in the text": (json_line(text=CANARY + "\ud800"), "'text' is not UTF-8 .or holds a lone surrogate"),
    "lone surrogate in the id": (json_line(name=CANARY + "\udfff"), "'name' is not UTF-8"),
    "lone surrogate in the label": (json_line(stars=CANARY + "\udfff"), "'stars' is not UTF-8"),
    "lone surrogate in the author": (json_line(by=CANARY + "\udfff"), "'by' is not UTF-8"),
    "lone surrogate in a kept field": (json_line(year=CANARY + "\udfff"), "'year' is not UTF-8"),
    "long text": (json_line(text=CANARY * 100), "longer than max_characters=1000"),
    "long line": (json_line(extra=CANARY * 100_000), "the line is longer than"),
    "duplicate id": (GOOD_JSON % 1, "its id was used before"),
}
BAD_CSV = {
    "not UTF-8": (b"n," + RAW + b"\xff,s,b,1", "the field 'text' is not UTF-8"),
    "not UTF-8 in the id": (RAW + b"\xe2\x82,text,s,b,1", "the field 'name' is not UTF-8"),
    "not UTF-8 in quotes": (b'n,"' + RAW + b'\n\xff",s,b,1', "the field 'text' is not UTF-8"),
    "encoded surrogate": (b"n," + RAW + b"\xed\xa0\x80,s,b,1", "the field 'text' is not UTF-8"),
    "missing column": (b"n," + RAW, "the row has 2 columns and the header 5"),
    "extra column": (b"n," + RAW + b",s,b,1," + RAW, "the row has 6 columns and the header 5"),
    "empty id": (b"," + RAW + b",s,b,1", "'name' is not a string or integer"),
    "empty author": (b"n," + RAW + b",s,,1", "'by' is not a string or integer"),
    "empty row": (b"", "the row is empty"),
    "NUL": (b"n," + RAW + b"\x00,s,b,1", "'text' holds a NUL"),
    "long text": (b'n,"' + RAW * 100 + b'",s,b,1', "longer than max_characters=1000"),
    "long text over lines": (b'n,"' + (RAW + b"\n") * 100 + b'",s,b,1', "longer than max_characters=1000"),
    "duplicate id": (b"n1," + RAW + b",s,b,1", "its id was used before"),
}
BAD_TEXT = {
    "not UTF-8": (RAW + b"\xff", "the line is not UTF-8"),
    "latin-1": (RAW + "é".encode("latin-1"), "the line is not UTF-8"),
    "NUL": (RAW + b"\x00", "'text' holds a NUL"),
    "long text": (RAW * 100, "longer than max_characters=1000"),
    "long line": (RAW * 100_000, "the line is longer than"),
}
BAD = {
    **{f"jsonl: {case}": ((GOOD_JSON % 1, bad, GOOD_JSON % 3), why) for case, (bad, why) in BAD_JSON.items()},
    **{f"csv: {case}": ((b"n1,good,s,b,1", bad, b"n3,good,s,b,1"), why) for case, (bad, why) in BAD_CSV.items()},
    **{f"txt: {case}": ((b"good", bad, b"good"), why) for case, (bad, why) in BAD_TEXT.items()},
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("case", BAD)
def test_a_bad_record_stops_or_is_skipped(tmp_path: Path, case: str, suffix: str) -> None:
    extension = case.split(":", maxsplit=1)[0]
    lines, why = BAD[case]
    head = HEADER if extension == "csv" else b""
    path = write(tmp_path / f"in.{extension}{suffix}", head + b"\n".join(lines) + b"\n")
    fields = Fields() if extension == "txt" else ALL

    got: list[Record] = []
    with pytest.raises(DataError, match=why) as caught:
        got.extend(read_records(path, fields, max_characters=1000, record="line" if extension == "txt" else None))
    assert f"{path}, record 2: " in str(caught.value)
    assert str(caught.value).endswith(". Repair it or take it out.")  # no option that this caller may not have
    assert not isinstance(caught.value, BrokenFileError)
    assert_private(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None

    skipped: list[tuple[int, str]] = []
    kept = read(path, fields, max_characters=1000, on_error=OnError.SKIP, on_skip=lambda *what: skipped.append(what))
    assert [record.text for record in kept] == ["good", "good"]
    assert [number for number, _ in skipped] == [2]
    assert "ZEBRA" not in str(skipped)


BAD_ROWS = {
    "no mapping": ([CANARY], "of type list, expected a text, a mapping or a Record"),
    "null": (None, "is null"),
    "missing": ({CANARY: CANARY}, "'text' is missing"),
    "bytes": ({"text": RAW}, "'text' is not a string"),
    "NUL in a record": (Record("0", CANARY + "\x00"), "'text' holds a NUL"),
    "surrogate in a record": (Record(CANARY + "\ud800", "a"), "'id' is not UTF-8"),
    "surrogate in a kept field": (Record("0", "a", kept={"year": CANARY + "\ud800"}), "'year' is not UTF-8"),
    "record without text": (Record("0", None), "'text' is not a string"),  # type: ignore[arg-type]
    "record with a number as id": (Record(4711, "a"), "'id' is not a string"),  # type: ignore[arg-type]
    "record with bytes as label": (Record("0", "a", RAW), "'label' is not a string"),  # type: ignore[arg-type]
    "record with bytes as author": (Record("0", "a", None, RAW), "'author' is not a"),  # type: ignore[arg-type]
    "record with a list": (Record("0", "a", kept={"year": [CANARY]}), "'year' is not a"),  # type: ignore[dict-item]
    "record with NaN": (Record("0", "a", kept={"year": float("nan")}), "'year' is not a"),
    "record with a huge integer": (Record("0", "a", kept={"year": 10**5000}), "'year' is not a"),
    "long record": (Record("0", CANARY * 100), "longer than max_characters=1000"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_stops_or_is_skipped(case: str) -> None:
    row, why = BAD_ROWS[case]
    rows: list[Any] = [{"text": "good"}, row, {"text": "good"}]
    with pytest.raises(DataError, match=f"the rows, record 2: .*{why}") as caught:
        read(rows, max_characters=1000)
    assert_private(caught.value)
    skipped: list[tuple[int, str]] = []
    kept = read(rows, max_characters=1000, on_error=OnError.SKIP, on_skip=lambda *what: skipped.append(what))
    assert [record.text for record in kept] == ["good", "good"]
    assert [number for number, _ in skipped] == [2]
    assert "ZEBRA" not in str(skipped)


def test_integer_and_string_ids_are_compared_as_written() -> None:
    rows = [{"name": 4711, "text": "a"}, {"name": "4711", "text": "b"}]
    with pytest.raises(DataError, match="record 2: its id was used before") as caught:
        read(rows, Fields(id="name"))
    assert_private(caught.value)
    # A record that could not be read does not use up its id.
    rows = [{"name": 1, "text": None}, {"name": 1, "text": "b"}]
    assert texts(rows, Fields(id="name"), on_error=OnError.SKIP) == ["b"]


def test_more_than_five_million_characters_are_refused_by_default(tmp_path: Path) -> None:
    assert MAX_CHARACTERS == 5_000_000
    text = CANARY + "x" * MAX_CHARACTERS
    for name, data in [
        ("a.jsonl", json.dumps({"text": text}).encode() + b'\n{"text": "good"}\n'),
        ("a.csv", b"text\n" + text.encode() + b"\ngood\n"),
        ("a.txt", text.encode() + b"\ngood\n"),
        ("a.parquet", as_parquet({"text": [text, "good"]})),
    ]:
        path = write(tmp_path / name, data)
        with pytest.raises(DataError, match=r"record 1: the text is longer than max_characters=5000000") as caught:
            read(path)
        assert_private(caught.value)
        assert texts(path, on_error=OnError.SKIP) == ["good"]
        assert [len(one) for one in texts(path, max_characters=6_000_000)] == [len(text), 4]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_texts_up_to_the_bound_are_read(tmp_path: Path, name: str) -> None:
    # Twelve bytes of JSON a character, the most there can be.
    text = "😀" * 200_000
    data = {"a.jsonl": jsonl([{"text": text}]), "a.csv": f"text\n{text}\n".encode(), "a.txt": text.encode()}[name]
    path = write(tmp_path / name, data)
    assert texts(path, max_characters=200_000) == [text]
    with pytest.raises(DataError, match="max_characters=199999"):
        read(path, max_characters=199_999)


@pytest.mark.parametrize("max_characters", [0, -1, 1.5, True])
def test_a_senseless_bound_is_refused(max_characters: Any) -> None:
    with pytest.raises(ConfigError, match="max_characters"):
        read_records([], max_characters=max_characters)


# --- broken files -----------------------------------------------------------------------------------------------------

GZIPPED = gzip.compress(b"".join(b"%d " % (i * 7919 % 9973) + RAW + b"\n" for i in range(20_000)))
LONG_CSV = b'text\ngood\n"' + RAW + b"\n" * 1_100_000
PARQUET = as_parquet({"text": [f"{CANARY} {i}" for i in range(20_000)]}, compression="none", use_dictionary=False)
BROKEN = {
    "empty JSON Lines": ("a.jsonl", b"", "record 1: the file holds no records"),
    "blank JSON Lines": ("a.jsonl", b"\n \n", "record 1: the file holds no records"),
    "mark only": ("a.jsonl", b"\xef\xbb\xbf", "record 1: the file holds no records"),
    "empty text": ("a.txt", b"", "record 1: the file holds no records"),
    "empty CSV": ("a.csv", b"", "record 1: the file holds no records"),
    "CSV of a header": ("a.csv", b"text\n", "record 1: the file holds no records"),
    "empty Parquet": ("a.parquet", b"", "record 1: the file holds no records"),
    "Parquet without rows": ("a.parquet", as_parquet({"text": pa.array([], pa.string())}), "holds no records"),
    "truncated gzip": ("a.txt.gz", GZIPPED[: len(GZIPPED) // 2], r"record \d{3,}: the gzip data is truncated"),
    "gzip without its checksum": ("a.txt.gz", GZIPPED[:-6], "record 20001: the gzip data is truncated"),
    "gzip cut in the header": ("a.txt.gz", GZIPPED[:5], "record 1: the gzip data is truncated"),
    "wrong checksum": ("a.txt.gz", GZIPPED[:-8] + bytes(8), "record 20001: the gzip data is truncated or damaged"),
    "damaged gzip": ("a.txt.gz", GZIPPED[:2000] + b"\xff" * 500 + GZIPPED[2500:], "the gzip data is truncated or dam"),
    "not gzip": ("a.txt.gz", RAW, "record 1: the file is not packed with gzip, as its name says: let it end in .txt"),
    "garbage after gzip": ("a.txt.gz", gzip.compress(b"good\n") + RAW, "record 2: the gzip data is truncated or dam"),
    "truncated gzip of JSON": ("a.jsonl.gz", gzip.compress(jsonl([{"text": CANARY}]) * 9)[:-9], "the gzip data"),
    "truncated gzip of CSV": ("a.csv.gz", gzip.compress(as_csv([{"text": CANARY}] * 9))[:-9], "the gzip data"),
    "gzip cut in a quote": ("a.csv.gz", gzip.compress(b'text\na\n"' + RAW)[:-5], "the gzip data"),
    "empty gzip": ("a.jsonl.gz", b"", "record 1: the file holds no records"),
    "gzip of nothing": ("a.jsonl.gz", gzip.compress(b""), "record 1: the file holds no records"),
    "unclosed quote": ("a.csv", b'text\ngood\n"' + RAW + b"\nmore\n", "record 2: a quote is opened and not closed"),
    "unclosed quote, then nothing": ("a.csv", b'text\ngood\n"', "record 2: a quote is opened and not closed"),
    "unclosed quote in the header": ("a.csv", b'"' + RAW + b"\n1\n", "record 1: a quote is opened and not closed"),
    "unclosed quote in a long file": ("a.csv", LONG_CSV, "record 2: a row is longer than .* or a quote is not closed"),
    "text after a quote": ("a.csv", b'text\ngood\n"a" ' + RAW + b"\n", "record 2: the quotes are malformed"),
    "old Mac line ends": ("a.csv", b"text\r" + RAW + b"\r", "record 1: its lines end in carriage returns alone"),
    "long line of CSV": ("a.csv", b"text\ngood\n" + RAW * 100_000 + b"\ngood\n", "record 2: the line is longer than"),
    "no header": ("a.csv", RAW + b"\n" + RAW + b"\n", "record 1: the header has no column 'text'"),
    "column twice": (
        "a.csv",
        b"text,text\n" + RAW + b",a\n",
        "record 1: the header has 2 columns 'text': rename all but one",
    ),
    "empty header": ("a.csv", b"\n" + RAW + b"\n", "record 1: the first line is empty"),
    "header not UTF-8": ("a.csv", b"text," + RAW + b"\xff\na,b\n", "record 1: the header is not UTF-8"),
    "header with NUL": ("a.csv", b"text," + RAW + b"\x00\na,b\n", "record 1: the header is not UTF-8 or holds a NUL"),
    "not Parquet": ("a.parquet", RAW * 100, "record 1: the file is not Parquet"),
    "short Parquet": ("a.parquet", b"PAR1", "record 1: the file is not Parquet"),
    "truncated Parquet": ("a.parquet", PARQUET[: len(PARQUET) // 2], "record 1: the file is not Parquet"),
    "Parquet without its head": ("a.parquet", PARQUET[len(PARQUET) // 2 :], "Parquet"),
    "damaged Parquet": ("a.parquet", PARQUET[:4] + b"\xff" * 400 + PARQUET[404:], "Parquet data is truncated or dam"),
    "Parquet without the column": (
        "a.parquet",
        as_parquet({CANARY: [CANARY]}),
        "record 1: the file has no column 'text'",
    ),
}


@pytest.mark.slow_cases("unclosed quote in a long file-skip", why="the same file with on_error=stop stays")
@pytest.mark.parametrize("on_error", OnError)
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_stops_in_any_case(tmp_path: Path, case: str, on_error: OnError) -> None:
    name, data, why = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(BrokenFileError, match=why) as caught:
        read(path, on_error=on_error, max_characters=1000)
    assert str(caught.value).startswith(f"{path}, record ")
    assert_private(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_records_before_the_break_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b'text\none\ntwo\n"' + RAW)
    stream = read_records(path)
    assert [next(stream).text, next(stream).text] == ["one", "two"]
    with pytest.raises(BrokenFileError, match="record 3"):
        next(stream)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed >= 10 else ()) for seed in range(40)]
)
def test_damaged_parquet_never_shows_its_content(tmp_path: Path, seed: int) -> None:
    data = bytearray(PARQUET)
    # The footer (schema, offsets) fails in other ways than the pages do, so half of the faults are there.
    low, high = (0, len(data)) if seed % 2 else (len(data) - 700, len(data))
    for step in range(1 + seed % 5):
        data[low + (seed * 7919 + step * 104_729) % (high - low)] ^= 1 << (seed % 8)
    path = write(tmp_path / "a.parquet", bytes(data))
    try:
        count = len(read(path, on_error=OnError.SKIP))
    except DataError as error:
        assert_private(error)
    else:
        # A flipped bit in a character goes unnoticed: Parquet pages carry no checksum unless asked for.
        assert count <= 20_000


def test_bad_values_of_parquet(tmp_path: Path) -> None:
    not_utf8 = pa.Array.from_buffers(
        pa.string(), 3, [*pa.array(["good", "ab", "good"]).buffers()[:2], pa.py_buffer(b"good\xff\xfegood")]
    )
    for name, values, why in [
        ("null", ["good", None, "good"], "'text' is null"),
        ("NUL", ["good", CANARY + "\x00", "good"], "'text' holds a NUL"),
        ("not UTF-8", not_utf8, "not UTF-8"),
    ]:
        path = write(tmp_path / f"{name}.parquet", as_parquet({"text": values}))
        with pytest.raises(DataError, match=f"record 2: .*{why}") as caught:
            read(path)
        assert_private(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert texts(path, on_error=OnError.SKIP) == ["good", "good"]
    for name, column in [("binary", pa.array([RAW])), ("number", pa.array([4711])), ("list", pa.array([[CANARY]]))]:
        path = write(tmp_path / f"{name}.parquet", as_parquet({"text": column}))
        with pytest.raises(DataError, match="record 1: the field 'text' is not a string") as caught:
            read(path)
        assert_private(caught.value)


def test_kept_values_of_parquet_keep_their_type(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet", as_parquet({"text": ["a", "b"], "year": [2001, None], "x": [0.5, float("nan")]})
    )
    assert [record.kept for record in read(path, Fields(keep=("year",)))] == [{"year": 2001}, {"year": None}]
    with pytest.raises(DataError, match="record 2: the field 'x' is not a string, a finite number"):
        read(path, Fields(keep=("x",)))


# --- files that cannot be opened --------------------------------------------------------------------------------------


def test_missing_files_and_folders_are_refused_at_the_call(tmp_path: Path) -> None:
    many = "dp.privatize_dataset"
    for path, why, advice in [
        (tmp_path / "a.jsonl", "No such file", "existing file"),
        (tmp_path, "found a folder", many),
        (tmp_path / "*.txt", "found no such file", many),
    ]:
        for kind in (Format.JSONL, None):
            with pytest.raises(ConfigError, match=why) as caught:
                read_records(path, format=kind)
            assert str(path) in str(caught.value)
            assert advice in str(caught.value)


def test_files_that_may_not_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By a stand-in: tests often run as root, who may read everything.
    path = write(tmp_path / "a.jsonl", b"{}")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match=r"Cannot read .*a.jsonl.*Permission denied"):
        read(path)


def test_a_disk_that_fails_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def peek(self, _: int) -> bytes:
            return self.getvalue()

        def read1(self, size: int | None = -1, /) -> bytes:
            piece = super().read1(size)
            if not piece:
                raise OSError(errno.EIO, "Input/output error")
            return piece

    path = write(tmp_path / "a.txt", b"x")
    monkeypatch.setattr(Path, "open", lambda *_: Failing(b"good\n"))
    with pytest.raises(BrokenFileError, match=r"record 2: the file cannot be read on \(Input/output error\)"):
        read(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", PARQUET)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for act in (lambda: read_records(path), lambda: write_releases(tmp_path / "b.parquet", [Release("0", "a")])):
        with pytest.raises(MissingExtraError, match=r"pip install --find-links dist 'dptext\[files\]'"):
            act()
    assert sorted(os.listdir(tmp_path)) == ["a.parquet"]


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, dptext.text.records, dptext.text; print([m for m in ('pyarrow', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- memory and shared state ------------------------------------------------------------------------------------------


def peak(work: Callable[[], object]) -> int:
    gc.collect(1)
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


#: What all formats share is read in the compressed one.
@pytest.mark.slow  # 12,000 records under tracemalloc; test_memory_does_not_grow_with_a_line stays
@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl", "a.csv", "a.txt"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, name: str) -> None:
    rows = [{"text": f"review {i} " * 80} for i in range(12_000)]
    lines = "".join(row["text"] + "\n" for row in rows).encode()
    data = {"jsonl": jsonl(rows), "csv": b"text\n" + lines, "txt": lines}[name.split(".")[1]]
    assert len(data) > 10_000_000
    path = write(tmp_path / name, data)
    del rows, lines, data
    count = 0

    def run() -> None:
        nonlocal count
        for _ in read_records(path, record="line" if name == "a.txt" else None):
            count += 1

    assert peak(run) < 5_000_000
    assert count == 12_000


@pytest.mark.parametrize(("name", "line"), [("a.jsonl", b'{"text": "'), ("a.txt", b""), ("a.csv", b'text\n"')])
def test_memory_does_not_grow_with_a_line(tmp_path: Path, name: str, line: bytes) -> None:
    path = write(tmp_path / name, line + b"x" * 60_000_000)

    def run() -> None:
        with pytest.raises(DataError, match="longer than"):
            read(path, max_characters=1000)

    assert peak(run) < 10_000_000


def test_memory_of_ids_is_bounded_by_their_hashes() -> None:
    rows = ({"name": f"{i:0500d}", "text": ""} for i in range(4_000))

    def run() -> None:
        for _ in read_records(rows, Fields(id="name")):
            pass

    assert peak(run) < 4_000 * 200


def test_long_csv_fields_leave_the_limit_of_the_csv_module_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"text\n" + b"x" * 300_000 + b"\nb\n")
    before = csv.field_size_limit()
    assert before < 300_000
    assert [len(text) for text in texts(path)] == [300_000, 1]
    assert csv.field_size_limit() == before

    first, second = read_records(path), read_records(path, max_characters=400_000)
    next(first)
    next(second)
    del first
    gc.collect(1)
    assert len(next(second).text) == 1
    assert list(second) == []
    assert csv.field_size_limit() == before

    stopped = read_records(write(tmp_path / "b.csv", b'text\na\n"'))
    with pytest.raises(BrokenFileError):
        list(stopped)
    assert csv.field_size_limit() == before


def test_the_bound_on_rows_is_not_one_on_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"text\n" + b'"%b"\n' % (b"a\nb" * 20) * 34_000)
    assert path.stat().st_size > 2**21
    assert sum(1 for _ in read_records(path, max_characters=1000)) == 34_000


def test_csv_files_are_read_in_threads(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"text\n" + (b"x" * 200_000 + b"\n") * 20)
    before = csv.field_size_limit()
    got: list[int] = []
    threads = [threading.Thread(target=lambda: got.append(len(texts(path)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [20] * 8
    assert csv.field_size_limit() == before


# --- writing ----------------------------------------------------------------------------------------------------------

RELEASES = [
    Release("a", "One\ttext, “quoted”", "pos", {"year": "2001", "by": "ann"}),
    Release("b", "", None, {"year": "", "by": "漢字"}),
    Release("c", 'a "b"\nc\r\nd\re', "neg", {"year": " ", "by": "a,b\n"}),
]
WRITTEN = Fields(id="id", label="label", keep=("year", "by"))


@pytest.mark.parametrize("name", FULL_FILES)
def test_round_trip(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    mask = os.umask(0o027)
    try:
        write_releases(path, iter(RELEASES))
    finally:
        os.umask(mask)
    expected = [Record(r.id, r.output, r.label, None, r.kept) for r in RELEASES]
    if "csv" in name:
        # CSV has no null: a missing label is an empty field.
        expected[1] = Record("b", "", "", None, RELEASES[1].kept)
    assert read(path, WRITTEN) == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_plain_text_is_written_one_document_a_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_releases(path, [Release("0", "a\nb\r\nc\rd\u2028e"), Release("1", ""), Release("2", "\n")])
    assert texts(path) == ["a b c d\u2028e", "", " "]


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), st.sampled_from(FULL_FILES))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], name: str) -> None:
    path = tmp_path_factory.mktemp("any") / name
    write_releases(path, [Release(str(i), text, None, {"k": kept}) for i, (text, kept) in enumerate(pairs)])
    expected = [Record(str(i), text, None, None, {"k": kept}) for i, (text, kept) in enumerate(pairs)]
    assert read(path, Fields(id="id", keep=("k",))) == expected


@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from(["a.txt", "a.txt.gz"]))
def test_any_line_survives(tmp_path_factory: pytest.TempPathFactory, lines: list[str], name: str) -> None:
    path = tmp_path_factory.mktemp("any") / name
    lines = [line.replace("\n", "").replace("\r", "") for line in lines]
    # A byte order mark at the start of a file is one, whoever wrote it.
    lines[0] = lines[0].removeprefix("\ufeff")
    write_releases(path, [Release(str(i), line) for i, line in enumerate(lines)])
    if lines != [""]:
        assert texts(path) == lines
    assert path.stat().st_size > 0


def test_what_the_formats_look_like() -> None:
    batch = [Release("0", "é\n", "x", {"n": 1, "b": True}), Release("1", 'a"', None, {"b": 0.5, "n": None})]
    assert encode_batch(batch, Format.JSONL, Columns(label=True, keep=("n", "b"))).decode() == (
        '{"id": "0", "text": "é\\n", "label": "x", "n": 1, "b": true}\n'
        '{"id": "1", "text": "a\\"", "label": null, "n": null, "b": 0.5}\n'
    )
    assert encode_batch(batch, Format.CSV, Columns(label=True, keep=("n", "b")), header=True).decode() == (
        'id,text,label,n,b\r\n0,"é\n",x,1,true\r\n1,"a""",,,0.5\r\n'
    )
    assert encode_batch([Release("0", "a"), Release("1", "b\nc")], Format.TEXT) == b"a\nb c\n"
    assert encode_batch([], Format.CSV) == b""
    assert encode_batch([], Format.CSV, header=True) == b"id,text\r\n"


def test_parquet_columns_are_strings(tmp_path: Path) -> None:
    write_releases(tmp_path / "a.parquet", [Release("0", "a", None, {"n": 1}), Release("1", "b", None, {"n": None})])
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.to_pylist() == [{"id": "0", "text": "a", "n": "1"}, {"id": "1", "text": "b", "n": None}]
    assert set(table.schema.types) == {pa.string()}


def test_order_over_many_batches(tmp_path: Path) -> None:
    expected = [f"text {i}" for i in range(3000)]
    for name in FILES:
        write_releases(tmp_path / name, (Release(str(i), text) for i, text in enumerate(expected)))
        assert texts(tmp_path / name) == expected


@pytest.mark.parametrize("name", FILES)
def test_no_releases_make_a_valid_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_releases(path, [])
    data = path.read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    if name == "a.parquet":
        assert pq.read_table(path).num_rows == 0
    else:
        assert data == (b"id,text\r\n" if "csv" in name else b"")
    with pytest.raises(BrokenFileError, match="no records"):
        read(path)


def test_columns() -> None:
    assert release_columns(Format.CSV) == ("id", "text")
    assert release_columns(Format.JSONL, label=True, keep=("year",)) == ("id", "text", "label", "year")
    assert release_columns(Format.PARQUET, keep=("label",)) == ("id", "text", "label")
    assert release_columns(Format.TEXT) == ("text",)
    for label, keep in [(False, ("id",)), (False, ("text",)), (False, ("a", "a")), (True, ("label",))]:
        with pytest.raises(ConfigError, match="keep="):
            release_columns(Format.CSV, label=label, keep=keep)
    for label, keep in [(True, ()), (False, ("year",))]:
        with pytest.raises(ConfigError, match="plain text"):
            release_columns(Format.TEXT, label=label, keep=keep)
        with pytest.raises(ConfigError, match="plain text"):
            open_writer(io.BytesIO(), Format.TEXT, columns=Columns(label=label, keep=keep))


def test_a_kept_label_is_written_as_it_is() -> None:
    data = encode_batch([Release("0", "a", None, {"label": "raw"})], Format.JSONL, Columns(keep=("label",)))
    assert json.loads(data) == {"id": "0", "text": "a", "label": "raw"}


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        (Release("0", CANARY, CANARY), ConfigError),
        (Release("0", CANARY, None, {"a": CANARY}), ConfigError),
        (Release("0", CANARY + "\ud800"), DataError),
        (Release("0", CANARY + "\x00"), DataError),
        (Release(CANARY + "\ud800", "a"), DataError),
        (Release("0", RAW), DataError),
        (Release("0", None), DataError),
        (Release(4711, "a"), DataError),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("kind_of_file", WRITABLE)
def test_releases_that_do_not_fit_stop_the_writing(
    tmp_path: Path, release: Any, kind: type[Exception], kind_of_file: Format
) -> None:
    writer = open_writer(io.BytesIO(), kind_of_file)
    with pytest.raises(kind, match="Release 2 of the batch") as caught:
        writer.write([Release("0", "good"), release])
    assert_private(caught.value)
    path = tmp_path / "a.out"
    good = Release("0", "good")
    if release.output is not None:
        with pytest.raises(kind):
            write_releases(path, iter([good, release]), format=kind_of_file)
        assert os.listdir(tmp_path) == []


def test_a_kept_value_that_does_not_fit() -> None:
    for value in (float("nan"), [CANARY], 10**5000, CANARY + "\udc80"):
        with pytest.raises(DataError, match="value 3") as caught:
            encode_batch([Release("0", "a", None, {"k": value})], Format.JSONL, Columns(keep=("k",)))  # type: ignore[dict-item]
        assert_private(caught.value)


@pytest.mark.parametrize("kind", sorted(APPENDABLE))
@pytest.mark.parametrize("compressed", [False, True])
def test_files_can_be_cut_after_any_batch_and_continued(tmp_path: Path, kind: Format, compressed: bool) -> None:
    batches = [[Release(f"{b}{i}", f'"{b}",\n{i} é') for i in range(b + 1)] for b in range(4)]
    whole = tmp_path / "whole"
    sizes = [0]
    with create_private(whole) as file:
        writer = open_writer(file, kind, compressed=compressed)
        for batch in batches:
            writer.write(batch)
            # Seen from outside: the batch has left the buffers of the process.
            sizes.append(whole.stat().st_size)
        writer.close()
    expected = whole.read_bytes()
    assert sizes[-1] == len(expected)
    for done, size in enumerate(sizes):
        part = tmp_path / f"part{done}"
        part.write_bytes(expected[: min(size + 7, len(expected))])
        os.truncate(part, size)
        with part.open("ab") as again:
            writer = open_writer(again, kind, compressed=compressed, header=size == 0)
            for batch in batches[done:]:
                writer.write(batch)
            writer.close()
        assert part.read_bytes() == expected
        if compressed:
            gzip.decompress(expected[:size])


def test_compressed_batches_are_deterministic_and_stand_alone() -> None:
    one = [Release("0", "a")]
    data = encode_batch(one, Format.JSONL, compressed=True)
    assert data == encode_batch(one, Format.JSONL, compressed=True)
    assert data[4:8] == bytes(4), "a time stamp"
    assert gzip.decompress(data + data) == encode_batch(one, Format.JSONL) * 2


def test_parquet_cannot_be_continued() -> None:
    assert Format.PARQUET not in APPENDABLE
    with pytest.raises(ConfigError, match="continued"):
        open_writer(io.BytesIO(), Format.PARQUET, header=False)
    with pytest.raises(ConfigError, match="gzipped"):
        open_writer(io.BytesIO(), Format.PARQUET, compressed=True)
    with pytest.raises(ConfigError, match="open_writer"):
        encode_batch([], Format.PARQUET)


@pytest.mark.parametrize("kind", WRITABLE)
def test_closing_a_writer_leaves_the_file_open(kind: Format) -> None:
    file = io.BytesIO()
    writer = open_writer(file, kind)
    writer.write([Release("0", "a")])
    writer.close()
    assert not file.closed
    assert file.getvalue()


def test_an_existing_output_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old")

    def never() -> Iterator[Release[str]]:
        raise AssertionError("a release was drawn although it could not be written")
        yield

    with pytest.raises(ConfigError, match="--force"):
        write_releases(path, never())
    assert path.read_bytes() == b"old"
    write_releases(path, [Release("0", "new")], force=True)
    assert texts(path) == ["new"]
    assert os.listdir(tmp_path) == ["a.jsonl"]


def test_an_output_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def releases() -> Iterator[Release[str]]:
        path.write_bytes(b"theirs")
        yield Release("0", "a")

    with pytest.raises(ConfigError, match="--force"):
        write_releases(path, releases())
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [DataError, OSError, KeyboardInterrupt])
@pytest.mark.filterwarnings("error")
def test_a_failing_source_leaves_no_file(tmp_path: Path, name: str, kind: type[BaseException]) -> None:
    def releases() -> Iterator[Release[str]]:
        yield from (Release(str(i), "a") for i in range(2000))
        raise kind("the source failed")

    with pytest.raises(kind, match="the source failed"):
        write_releases(tmp_path / name, releases())
    assert os.listdir(tmp_path) == []
    gc.collect(1)


def test_the_file_is_private_while_it_is_written(tmp_path: Path) -> None:
    modes: list[int] = []

    def releases() -> Iterator[Release[str]]:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        yield Release("0", "a")

    mask = os.umask(0)
    try:
        write_releases(tmp_path / "a.jsonl", releases())
    finally:
        os.umask(mask)
    assert modes == [0o600]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("error")
def test_a_full_disk(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_full_disk(path: Path) -> BinaryIO:
        path.touch()
        return open("/dev/full", "wb")

    monkeypatch.setattr(files, "create_private", on_full_disk)
    many = (Release(str(i), f"{CANARY} {i * 7919 % 9973}") for i in range(20_000))
    for releases in ([Release("0", CANARY)], many, []):
        if releases == [] and name in ("a.jsonl", "a.txt"):
            continue  # Nothing is written, so the disk is not too full for it.
        with pytest.raises(ConfigError, match=r"No space left on device.*disk has room") as caught:
            write_releases(tmp_path / name, releases)
        assert str(tmp_path / name) in str(caught.value)
        assert_private(caught.value)
        assert os.listdir(tmp_path) == []
    gc.collect(1)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Iterator[Release[str]]:
        raise AssertionError("a release was drawn although it could not be written")
        yield

    with pytest.raises(ConfigError, match=r"No such file or directory.*folder"):
        write_releases(tmp_path / "missing" / "a.jsonl", never())

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    # By a stand-in: tests often run as root, who may write everywhere.
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConfigError, match=r"Cannot write .*a.jsonl.*Read-only file system"):
        write_releases(tmp_path / "a.jsonl", never())


def test_a_folder_in_the_place_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        write_releases(tmp_path / "a.jsonl", [Release("0", "a")], force=True)
    assert os.listdir(tmp_path) == ["a.jsonl"]


def test_files_are_on_the_disk_before_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(handle: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        real_sync(handle)

    def replace(old: Path, new: Path) -> None:
        calls.append("replace")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    write_releases(tmp_path / "a.csv", [Release("0", "a")])
    assert calls == ["sync file", "replace", "sync folder"]


def test_file_errors_use_the_words_of_the_system_only() -> None:
    error = file_error("a.csv", "write", OSError(errno.ENOSPC, "No space left on device", CANARY))
    assert str(error).startswith("Cannot write 'a.csv': No space left on device.")
    assert "OSError" in str(file_error("a.csv", "read", OSError(CANARY)))
    assert_private(error)


# --- vectors ----------------------------------------------------------------------------------------------------------

WITH_VECTORS = ["a.jsonl", "a.jsonl.gz", "a.parquet"]
# Written with 7 digits and read as float64 first, the first becomes its neighbour.
ODD = [0x15AE43FD, 0x00000001, 0x007FFFFF, 0x7F7FFFFF, 0x80000000, 0x3EAAAAAB, 0x4B7FFFFF, 0x33D6BF95]
ODD_NUMBERS = tuple(np.array(ODD, np.uint32).view(np.float32).astype(np.float64).tolist())


def written_vectors(path: Path) -> list[list[float]]:
    """What a reader of the file gets, in float32."""
    if path.suffix == ".parquet":
        return [row["embedding"] for row in pq.read_table(path).to_pylist()]
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
    return [np.array(json.loads(line)["embedding"]).astype(np.float32).tolist() for line in lines]


def in_float32(releases: Iterable[Release[str]]) -> list[list[float]]:
    return [np.array(release.vector).astype(np.float32).tolist() for release in releases]


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_vectors_survive_in_float32(tmp_path: Path, name: str) -> None:
    drawn = np.random.default_rng(0).normal(size=(3000, len(ODD))) * 10.0 ** np.arange(-20, 20, 5)
    releases = [Release("odd", "a", "x", {"k": 1}, vector=ODD_NUMBERS)]
    releases += [Release(str(i), "a", "x", {"k": 1}, vector=tuple(row.tolist())) for i, row in enumerate(drawn)]
    write_releases(tmp_path / name, releases)
    found = written_vectors(tmp_path / name)
    assert found == in_float32(releases)
    assert [np.signbit(number) for number in found[0]] == [number == 0 for number in found[0]], "minus zero"
    records = read(tmp_path / name, Fields(id="id", label="label", keep=("k",)))
    assert [record.text for record in records] == ["a"] * 3001


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_decimals_are_the_shortest_that_tell_a_float32(numbers: list[float]) -> None:
    line = encode_batch([Release("0", "", vector=tuple(numbers))], Format.JSONL, Columns(text=False, vector=True))
    told = json.loads(line, parse_float=str)["embedding"]
    for number, decimals in zip(numbers, told, strict=True):
        assert np.float32(float(decimals)) == np.float32(number)
        digits = len(decimals.lower().split("e")[0].replace("-", "").replace(".", "").strip("0"))
        assert float(f"%.{max(0, digits - 2)}e" % number) != number or digits < 2, "one digit less would do"


def test_how_vectors_look(tmp_path: Path) -> None:
    batch = [Release("0", "a", "x", {"n": 1}, vector=(0.1, 1 / 3, -2.0, 1e-5, 3e20))]
    assert encode_batch(batch, Format.JSONL, Columns(vector=True, label=True, keep=("n",))).decode() == (
        '{"id": "0", "text": "a", "embedding": [0.1, 0.33333334, -2.0, 1e-05, 3e+20], "label": "x", "n": 1}\n'
    )
    alone = [Release("0", "", vector=(0.5,)), Release("1", "", vector=(0.25,))]
    assert encode_batch(alone, Format.JSONL, Columns(text=False, vector=True)).decode() == (
        '{"id": "0", "embedding": [0.5]}\n{"id": "1", "embedding": [0.25]}\n'
    )
    write_releases(tmp_path / "a.parquet", batch)
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert schema.names == ["id", "text", "embedding", "label", "n"]
    assert schema.field("embedding").type == pa.list_(pa.float32())
    assert [schema.field(name).nullable for name in schema.names] == [False, False, False, True, True]


def test_columns_with_vectors() -> None:
    for kind in (Format.JSONL, Format.PARQUET):
        assert release_columns(kind, vector=True) == ("id", "text", "embedding")
        assert release_columns(kind, vector=True, text=False, label=True) == ("id", "embedding", "label")
        assert release_columns(kind, keep=("embedding",)) == ("id", "text", "embedding")
        with pytest.raises(ConfigError, match="keep="):
            release_columns(kind, vector=True, keep=("embedding",))
        with pytest.raises(ConfigError, match="text=True or vector=True"):
            release_columns(kind, text=False, label=True)
    for kind in (Format.CSV, Format.TEXT):
        for act in (release_columns, lambda kind, **which: open_writer(io.BytesIO(), kind, columns=Columns(**which))):
            with pytest.raises(ConfigError, match="Write Parquet or JSON Lines"):
                act(kind, vector=True)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.txt"])
def test_vectors_do_not_go_where_they_cannot(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="Write Parquet or JSON Lines"):
        write_releases(tmp_path / name, [Release("0", "a", vector=(1.0,))])
    assert os.listdir(tmp_path) == []


def test_a_kept_field_called_embedding_is_text_in_parquet(tmp_path: Path) -> None:
    write_releases(tmp_path / "a.parquet", [Release("0", "a", None, {"embedding": 0.5})])
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"id": "0", "text": "a", "embedding": "0.5"}]


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        (Release("0", CANARY), ConfigError),
        (Release("0", CANARY, vector=(1.0, float("nan"))), DataError),
        (Release("0", CANARY, vector=(float("inf"), 1.0)), DataError),
        (Release("0", CANARY, vector=(1.0, -1e39)), DataError),  # finite, not in float32
        (Release("0", CANARY, vector=(1.0,)), DataError),
        (Release("0", CANARY, vector=(1.0, 2.0, 3.0)), DataError),
        (Release("0", CANARY, vector=()), DataError),
        (Release("0", CANARY, vector=[1.0, 2.0]), DataError),
        (Release("0", CANARY, vector=np.array([1.0, 2.0])), DataError),
        (Release("0", CANARY, vector=(1.0, CANARY)), DataError),
        (Release("0", CANARY, vector=(1.0, None)), DataError),
        (Release("0", CANARY, vector=CANARY), DataError),
        (Release("0", np.array([CANARY]), vector=(1.0, 2.0)), DataError),
        (Release("0", CANARY, None, {"embedding": np.array([0.5])}, vector=(1.0, 2.0)), ConfigError),
    ],
)
@pytest.mark.parametrize("kind_of_file", [Format.JSONL, Format.PARQUET])
def test_vectors_that_do_not_fit_stop_the_writing(
    tmp_path: Path, release: Any, kind: type[Exception], kind_of_file: Format
) -> None:
    good = Release("0", "good", vector=(0.5, 0.25))
    writer = open_writer(io.BytesIO(), kind_of_file, columns=Columns(vector=True))
    with pytest.raises(kind, match="Release 2 of the batch") as caught:
        writer.write([good, release])
    assert_private(caught.value)
    if isinstance(release.output, str):
        with pytest.raises(kind) as caught:
            write_releases(tmp_path / "a.out", iter([good, release]), format=kind_of_file)
        assert_private(caught.value)
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", [Format.JSONL, Format.PARQUET])
def test_nothing_is_left_out_silently(kind: Format) -> None:
    """A caller that forgets the column of vectors, or of texts, and a writer that drops what belongs there."""
    release = Release("0", CANARY, vector=(0.5, 0.25))
    with pytest.raises(ConfigError, match="has a vector, and vector=False") as caught:
        open_writer(io.BytesIO(), kind).write([release])
    assert_private(caught.value)
    with pytest.raises(ConfigError, match="has a text, and text=False") as caught:
        open_writer(io.BytesIO(), kind, columns=Columns(text=False, vector=True)).write([release])
    assert_private(caught.value)
    with pytest.raises(ConfigError, match="has no vector, and vector=True") as caught:
        open_writer(io.BytesIO(), kind, columns=Columns(vector=True)).write([Release("0", CANARY)])
    assert_private(caught.value)


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_a_planted_writer_that_drops_or_bends_vectors_is_noticed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison of `test_vectors_survive_in_float32` can fail, and a row without its vector is no row."""
    releases = [Release(str(i), "a", vector=(0.1 * i, 0.5)) for i in range(3)]
    monkeypatch.setattr(
        "dptext.text.columns.vector_of", lambda vector, *_: np.array(vector, np.float16).astype(np.float32)
    )
    write_releases(tmp_path / name, releases)
    assert written_vectors(tmp_path / name) != in_float32(releases)
    monkeypatch.undo()
    whole = Columns.values
    monkeypatch.setattr(
        Columns, "values", lambda *given: [each for each in whole(*given) if not isinstance(each[0], np.ndarray)]
    )
    with pytest.raises((ValueError, IndexError)):
        write_releases(tmp_path / f"b{name}", releases)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("kind", [Format.JSONL, Format.PARQUET])
def test_all_batches_have_vectors_of_one_length(kind: Format) -> None:
    writer = open_writer(io.BytesIO(), kind, columns=Columns(vector=True))
    writer.write([])
    writer.write([Release("0", "a", vector=(0.5, 0.25))])
    with pytest.raises(DataError, match=r"Release 1 of the batch .* another length than the first"):
        writer.write([Release("1", "a", vector=(0.5,))])
    if kind in APPENDABLE:
        again = open_writer(io.BytesIO(), kind, header=False, columns=Columns(vector=True, dim=2))
        with pytest.raises(DataError, match="another length"):
            again.write([Release("1", "a", vector=(0.5,))])
        again.write([Release("1", "a", vector=(0.5, 0.5))])


@pytest.mark.parametrize("compressed", [False, True])
def test_files_with_vectors_can_be_cut_and_continued(compressed: bool) -> None:
    batches = [[Release(f"{b}{i}", "é", vector=(b / 3, i / 7)) for i in range(b + 1)] for b in range(3)]
    file = io.BytesIO()
    writer = open_writer(file, Format.JSONL, compressed=compressed, columns=Columns(vector=True))
    sizes = [0]
    for batch in batches:
        writer.write(batch)
        sizes.append(file.tell())
    for done, size in enumerate(sizes):
        part = io.BytesIO(file.getvalue()[:size])
        part.seek(0, io.SEEK_END)
        writer = open_writer(
            part,
            Format.JSONL,
            compressed=compressed,
            header=size == 0,
            columns=Columns(vector=True, dim=2 if done else 0),
        )
        for batch in batches[done:]:
            writer.write(batch)
        assert part.getvalue() == file.getvalue()


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_the_column_of_texts_goes_where_only_vectors_leave(tmp_path: Path, name: str) -> None:
    def columns(folder: str, texts_written: Sequence[str]) -> set[str]:
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / name
        write_releases(path, [Release(str(i), text, vector=(0.5,)) for i, text in enumerate(texts_written)])
        if name.endswith("parquet"):
            return set(pq.read_schema(path).names)
        data = path.read_bytes()
        return set(json.loads((gzip.decompress(data) if name.endswith("gz") else data).split(b"\n")[0]))

    assert columns("none", ["", "", ""]) == {"id", "embedding"}
    assert columns("by chance", ["", "", "a"]) == {"id", "text", "embedding"}
    with pytest.raises(ConfigError, match="has a text, and text=False"):
        columns("late", [*[""] * 1024, "a"])


def test_vectors_count_towards_the_size_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def groups(dim: int) -> int:
        path = tmp_path / f"{dim}.parquet"
        write_releases(path, (Release(str(i), "a", vector=(0.5,) * dim) for i in range(30)))
        return int(pq.ParquetFile(path).num_row_groups)

    assert groups(100) == 1
    monkeypatch.setattr(writers, "BLOCK_CHARACTERS", 32_000)
    assert groups(101) == 3
    assert groups(1000) == 30


def test_a_release_with_a_vector_is_a_value() -> None:
    one, other = Release("0", "a", vector=(0.5,)), Release("0", "a", vector=(0.25,))
    assert one == Release("0", "a", vector=(0.5,))
    assert one != other
    assert len({one, other, Release("0", "a")}) == 3
    assert Release("0", "a").vector is None
    with pytest.raises(TypeError):
        Release("0", "a", None, {}, (0.5,))  # type: ignore[misc]
