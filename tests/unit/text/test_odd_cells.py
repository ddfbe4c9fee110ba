"""A cell beside the text, held against its neighbour: the same file with a usual value in its place.

Both give the same texts and the same rows, whether the column is measured or not, and neither gives an error.
"""

from __future__ import annotations

import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from dptext.errors import HeaderError
from dptext.runs.private import Private
from dptext.synthesis.readings import PublicReader
from dptext.text import reading, rows
from dptext.text.declarations import schema_of
from dptext.text.lines import Bad, Chunk, Row, rows_of
from dptext.text.reading import read_records
from dptext.text.records import Fields
from dptext.text.rows import file_chunks
from dptext.text.survey import Survey, survey

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SCHEMA = schema_of(["n?: 0..9 by 1", "m: 1|2|b", "day?: 2024-01..2024-12 by month"])
READER = PublicReader(columns=SCHEMA)
TEXTS = ("a good day", "schön war es", "東京", "the end")
PLACES = (0, 2, 3)  # of the odd cell: in the first row, in a later one, in the last
DEEP = 5_000
#: Cells of JSON. Python's own reader refuses those before "nested".
JSON_CELLS = {
    "nan": b"NaN",
    "infinity": b"Infinity",
    "minus infinity": b"-Infinity",
    "many digits": b"9" * 5_000,
    "minus many digits": b"-" + b"9" * 5_000,
    "deep": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "nan within": b'[1, {"text": NaN}]',
    "a key twice within": b'{"text": 1, "text": 2}',
    "its key twice": b'3, "n": 4',
    "bytes that are not UTF-8": b'"\xff"',
    "control character": b'"a\tb"',
    "unknown escape": b'"\\x41"',
    "nan of another program": b"nan",
    "none of another program": b"None",
    "leading zero": b"007",
    "nested": b'[{"a": [1, null]}, "}"]',
    "huge exponent": b"1e999",
    "tiny exponent": b"1e-999",
    "minus zero": b"-0",
    "lone surrogate": b'"\\ud83d"',
    "NUL": b'"\\u0000"',
    "true": b"true",
    "null": b"null",
    "empty": b'""',
    "long text": b'"' + b"x" * 300_000 + b'"',
}
XLSX_CELLS = {
    "nan": '<c r="{}" t="n"><v>NaN</v></c>',
    "infinity": '<c r="{}"><v>INF</v></c>',
    "no number": '<c r="{}"><v>-1.#IND</v></c>',
    "huge exponent": '<c r="{}"><v>1e999</v></c>',
    "many digits": '<c r="{}"><v>' + "9" * 5_000 + "</v></c>",
    "empty": '<c r="{}"><v/></c>',
    "empty shared": '<c r="{}" t="s"><v/></c>',
    "empty boolean": '<c r="{}" t="b"><v></v></c>',
    "shared beyond": '<c r="{}" t="s"><v>999999</v></c>',
    "shared before": '<c r="{}" t="s"><v>-1</v></c>',
    "shared word": '<c r="{}" t="s"><v>x</v></c>',
    "boolean word": '<c r="{}" t="b"><v>yes</v></c>',
    "date word": '<c r="{}" t="d"><v>soon</v></c>',
    "unknown type": '<c r="{}" t="zz"><v>a</v></c>',
    "unknown style": '<c r="{}" s="x"><v>1</v></c>',
    "division": '<c r="{}" t="e"><f>1/0</f><v>#DIV/0!</v></c>',
    "error": '<c r="{}" t="e"><v>#N/A</v></c>',
    "no cached value": '<c r="{}"><f>A1+1</f></c>',
    "empty cached value": '<c r="{}" t="n"><f>A1+1</f><v></v></c>',
    "nan of a formula": '<c r="{}" t="n"><f>A1+1</f><v>NaN</v></c>',
    "date before all": '<c r="{}" s="1"><v>-99999999</v></c>',
    "date after all": '<c r="{}" s="1"><v>99999999999</v></c>',
    "date of infinity": '<c r="{}" s="1"><v>1e999</v></c>',
    "inline": '<c r="{}" t="inlineStr"></c>',
    "no place": '<c t="n"><v>NaN</v></c>',
}
CSV_CELLS = {
    "nan": b"NaN",
    "many digits": b"9" * 5_000,
    "huge exponent": b"1e999999999999",
    "tiny exponent": b"1e-999999999999",
    "bytes that are not UTF-8": b"\xff",
    "NUL": b"\0",
    "quoted lines": b'"a\nb\r\n""c"""',
    "empty": b"",
    "formula": b"=1/0",
}


def _of_bytes(kind: Any, data: Any) -> Any:
    return pa.Array.from_buffers(kind, 1, [None, *(pa.py_buffer(each) for each in data)])


#: Single values of Parquet and Arrow, and a usual value of the same type.
ARROW_CELLS: dict[str, tuple[Any, object]] = {
    "null": (pa.array([None], pa.int64()), 3),
    "nan": (pa.array([float("nan")]), 3.0),
    "infinity": (pa.array([float("-inf")], pa.float32()), 3.0),
    "half nan": (pa.array([np.float16("nan")], pa.float16()), np.float16(3)),
    "decimal": (pa.array([__import__("decimal").Decimal("9" * 70)], pa.decimal256(76, 5)), 3),
    "day after all": (_of_bytes(pa.date32(), [np.array([2**30], np.int32).tobytes()]), 3),
    "time after all": (_of_bytes(pa.timestamp("us"), [np.array([2**62], np.int64).tobytes()]), 3),
    "nanoseconds": (_of_bytes(pa.timestamp("ns"), [np.array([2**62 + 1], np.int64).tobytes()]), 3),
    "duration": (_of_bytes(pa.duration("us"), [np.array([2**62], np.int64).tobytes()]), 3),
    "bytes": (pa.array([b"\xff\0"]), b"a"),
    "text that is not UTF-8": (_of_bytes(pa.string(), [np.array([0, 2], np.int32).tobytes(), b"a\xff"]), "a"),
    "list": (pa.array([[1, None]]), [1]),
    "struct": (pa.array([{"a": None}], pa.struct([("a", pa.int8())])), {"a": 1}),
    "nulls": (pa.nulls(1), None),
}
KINDS = {
    "jsonl": JSON_CELLS,
    "json": JSON_CELLS,
    "xlsx": XLSX_CELLS,
    "csv": CSV_CELLS,
    "tsv": CSV_CELLS,
    "parquet": ARROW_CELLS,
}
CASES = [(kind, name) for kind, cells in KINDS.items() for name in cells]


def json_file(kind: str, cell: bytes, at: int) -> bytes:
    lines = [
        b'{"n": ' + (cell if i == at else b"3") + f', "m": {i}, "text": {json.dumps(text)}, "id": "k{i}"}}'.encode()
        for i, text in enumerate(TEXTS)
    ]
    return b"\n".join([*lines, b""]) if kind == "jsonl" else b"[" + b",\n".join(lines) + b"]"


def delimited_file(kind: str, cell: bytes, at: int) -> bytes:
    mark = b"," if kind == "csv" else b"\t"
    lines = [
        mark.join([cell if i == at else b"3", b"%d" % i, text.encode(), b"k%d" % i]) for i, text in enumerate(TEXTS)
    ]
    return b"\n".join([mark.join([b"n", b"m", b"text", b"id"]), *lines, b""])


@functools.cache
def usual_parts() -> dict[str, bytes]:
    """The parts of the workbook that all others are made of, with their names."""
    book, file = openpyxl.Workbook(), io.BytesIO()
    sheet: Any = book.active
    for row in [("n", "m", "text", "id", "when"), *((3, i, text, f"k{i}", None) for i, text in enumerate(TEXTS))]:
        sheet.append(row)
    sheet["E2"].number_format = "yyyy-mm-dd"  # the style with the number 1
    book.save(file)
    with zipfile.ZipFile(file) as old:
        return {name: old.read(name) for name in old.namelist()}


def workbook(cell: str, at: int) -> bytes:
    place, found = f"A{at + 2}", io.BytesIO()
    with zipfile.ZipFile(found, "w") as new:
        for name, part in usual_parts().items():
            data = part
            if name == "xl/worksheets/sheet1.xml":
                usual = f'<c r="{place}" t="n"><v>3</v></c>'.encode()
                assert usual in data
                data = data.replace(usual, cell.format(place).encode())
            new.writestr(zipfile.ZipInfo(name), data)  # of no time, so that the usual one is always the same
    return found.getvalue()


def table(name: str, at: int, *, odd: bool) -> Any:
    cell, usual = ARROW_CELLS[name]
    parts = [cell if i == at and odd else pa.array([usual]).cast(cell.type) if usual != 3 else _three(cell.type)
             for i in range(len(TEXTS))]  # fmt: skip
    ids = [f"k{i}" for i in range(len(TEXTS))]
    return pa.table({"n": pa.concat_arrays(parts), "m": range(len(TEXTS)), "text": TEXTS, "id": ids})


def _three(kind: Any) -> Any:
    whole = pa.array([3], pa.int32() if kind == pa.date32() else pa.int64())
    return whole.cast(kind)


def parquet(name: str, at: int, *, odd: bool) -> bytes:
    file = io.BytesIO()
    pq.write_table(table(name, at, odd=odd), file)
    return file.getvalue()


def both(kind: str, name: str, at: int) -> tuple[bytes, bytes]:
    """The file with an odd cell, and its neighbour."""
    cells = KINDS[kind]
    match kind:
        case "parquet":
            return parquet(name, at, odd=True), parquet(name, at, odd=False)
        case "xlsx":
            return workbook(XLSX_CELLS[name], at), workbook('<c r="{}" t="n"><v>3</v></c>', at)
        case "csv" | "tsv":
            return delimited_file(kind, CSV_CELLS[name], at), delimited_file(kind, b"3", at)
        case _:
            assert cells is JSON_CELLS
            return json_file(kind, JSON_CELLS[name], at), json_file(kind, b"3", at)


@dataclass(frozen=True)
class WhatWasRead:
    """What was read of a file: texts, ids, labels, and the values of measured columns."""

    texts: list[str]
    names: list[tuple[str, str | None]]
    values: list[dict[str, Any]]

    def without(self, at: int) -> list[dict[str, Any]]:
        """The values of all rows but one."""
        return self.values[:at] + self.values[at + 1 :]


def read(source: Any, fields: Fields) -> WhatWasRead:
    records = [each for batch in Private(source, fields, {}).batches() for each in batch]
    return WhatWasRead(
        [each.text for each in records],
        [(each.id, each.label) for each in records],
        [dict(each.kept) for each in records],
    )


@functools.cache
def read_of(kind: str, data: bytes, fields: Fields) -> WhatWasRead:
    """What is read of a usual file, which is the neighbour of many odd ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"usual.{kind}")
        path.write_bytes(data)
        return read(path, fields)


@functools.cache
def survey_of(kind: str, data: bytes) -> Survey:
    """What a survey says of a usual file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"usual.{kind}")
        path.write_bytes(data)
        return survey(path, text="text", id="id")


def assert_alike(odd: Any, usual: Any, at: int) -> None:
    """The rows of two sources that differ in one cell of the column `n` are the same."""
    known = usual.read_bytes() if isinstance(usual, Path) else b""
    for measured in ((), ("n",), ("m",), ("n", "m")):
        for fields in (
            Fields(measured=measured),
            Fields(label="id", measured=measured),
            Fields(id="id", measured=measured),
        ):
            found, other = read(odd, fields), read_of(usual.suffix[1:], known, fields) if known else read(usual, fields)
            assert found.texts == other.texts == list(TEXTS)
            assert found.names == other.names
            assert found.without(at) == other.without(at)
            assert set(found.values[at]) == set(measured)
            assert all(each is None or isinstance(each, str) for each in found.values[at].values())
            if measured:
                n = len(TEXTS)
                cells = READER.read(np.zeros(n, np.int64), ["so"] * n, [None] * n, fields=found.values).columns
                assert cells is not None
                assert cells.min() >= 0
                assert all((cells[:, k] < len(column)).all() for k, column in enumerate(SCHEMA))


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_no_cell_beside_the_text_changes_which_rows_are_read(kind: str, name: str, at: int, tmp_path: Path) -> None:
    odd, usual = (tmp_path / f"{title}.{kind}" for title in ("odd", "usual"))
    for path, data in zip((odd, usual), both(kind, name, at), strict=True):
        path.write_bytes(data)
    assert_alike(odd, usual, at)
    assert [each.text for each in read_records(odd)] == list(TEXTS)  # nor does it stop other readers
    found, other = survey(odd, text="text", id="id"), survey_of(kind, usual.read_bytes())
    assert (found.rows, found.bad, found.columns.keys()) == (other.rows, other.bad, other.columns.keys())


@pytest.mark.parametrize("name", JSON_CELLS)
def test_nor_where_pyarrow_may_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PYARROW_BYTES", 1)
    odd, usual = tmp_path / "odd.jsonl", tmp_path / "usual.jsonl"
    for path, data in zip((odd, usual), both("jsonl", name, 2), strict=True):
        path.write_bytes(data)
    assert_alike(odd, usual, 2)


FRAMES: dict[str, Any] = {
    "arrow": lambda found: found,
    "pandas": lambda found: found.to_pandas(types_mapper=pytest.importorskip("pandas").ArrowDtype),
    "polars": lambda found: pytest.importorskip("polars").from_arrow(found),
    "Dataset": lambda found: pytest.importorskip("datasets").Dataset(found),
}


@pytest.mark.parametrize("name", ["null", "nan", "day after all", "time after all", "duration", "bytes", "list"])
@pytest.mark.parametrize("form", FRAMES)
def test_nor_in_memory(form: str, name: str) -> None:
    odd, usual = (FRAMES[form](table(name, 2, odd=odd)) for odd in (True, False))
    assert_alike(odd, usual, 2)


def dropping(*given: Any, **how: Any) -> Iterator[Chunk]:
    """Rows with a cell that cannot be read are lost, as they were once."""
    for chunk in file_chunks(*given, **how):
        yield [_dropped(row) for row in rows_of(chunk)]


def _dropped(row: Row) -> Row:
    faults = [each for each in row.values() if isinstance(each, Bad)] if isinstance(row, Mapping) else []
    return faults[0] if faults else row


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("jsonl", "nan"),
        ("jsonl", "many digits"),
        ("json", "deep"),
        ("xlsx", "nan"),
        ("xlsx", "division"),
        ("parquet", "day after all"),
    ],
)
def test_a_row_that_is_lost_is_seen(
    kind: str, name: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: where its column is read, an odd cell takes its row away."""
    monkeypatch.setattr(reading, "file_chunks", dropping)
    odd, usual = (tmp_path / f"{title}.{kind}" for title in ("odd", "usual"))
    for path, data in zip((odd, usual), both(kind, name, at), strict=True):
        path.write_bytes(data)
    with pytest.raises((AssertionError, HeaderError)):
        assert_alike(odd, usual, at)


@pytest.mark.parametrize("cell", ["nan", "many digits", "deep", "its key twice"])
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_the_keys_of_the_first_object_are_the_header_whatever_its_values(kind: str, cell: str, tmp_path: Path) -> None:
    path = tmp_path / f"private.{kind}"
    path.write_bytes(json_file(kind, JSON_CELLS[cell], 0).replace(b'"m": 0, ', b""))
    with pytest.raises(HeaderError, match="the first record of a file lacks it"):
        read(path, Fields(measured=("m",)))
    path.write_bytes(json_file(kind, JSON_CELLS[cell], 0).replace(b'"m": 1, ', b""))
    assert read(path, Fields(measured=("m",))).texts == list(TEXTS)


def test_a_text_that_cannot_be_read_is_a_row_without_text(tmp_path: Path) -> None:
    path = tmp_path / "private.jsonl"
    for cell in (b"NaN", b"9" * 5_000, b'"\xff"', b'"a", "text": "b"'):
        path.write_bytes(json_file("jsonl", b"3", 0) + b'{"n": 3, "m": 1, "id": "x", "text": ' + cell + b"}\n")
        assert read(path, Fields(measured=("n",))).texts == list(TEXTS)
    path = tmp_path / "private.xlsx"
    data = workbook('<c r="{}" t="e"><v>#N/A</v></c>', 1)
    path.write_bytes(data)
    assert read(path, Fields("n", measured=("m",))).texts == ["3"] * 3


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "parquet", "xlsx"])
def test_a_file_of_no_bytes_has_no_header_and_so_no_column(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"private.{kind}"
    path.write_bytes(b"")
    for fields in (Fields(measured=("n",)), Fields(label="n")):
        with pytest.raises(HeaderError, match="The header of the private corpus lacks a column"):
            Private(path, fields, {}).check()
    Private(path, Fields(), {}).check()


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_json_lines_of_no_rows_are_an_empty_table(data: bytes, tmp_path: Path) -> None:
    """They are the neighbour of a file of one row, whose keys are its header."""
    path = tmp_path / "private.jsonl"
    path.write_bytes(data)
    assert read(path, Fields(measured=("n",))).texts == []
