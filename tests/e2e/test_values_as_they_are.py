"""Commands give ids, labels and kept columns back as the values that they were, and say what a file is."""

import bz2
import csv
import datetime as dt
import gzip
import io
import json
import lzma
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.feather
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
import zstandard

import dptext as dp
import kept_words
from commands import dptext
from dptext.batch.corpora import PrivateShards
from dptext.batch.shards import shards_of
from dptext.errors import DataError
from dptext.text.samples import sample_records

N = 6
KEPT: dict[str, Any] = {
    "day": [dt.date(2024, 5, 1 + i) for i in range(N)],
    "at": pa.array([dt.datetime(2024, 5, 1, 8, i) for i in range(N)], pa.timestamp("ms")),
    "zoned": pa.array([dt.datetime(2024, 5, 1, 8, i) for i in range(N)], pa.timestamp("us", tz="Europe/Berlin")),
    "hour": [dt.time(8, i) for i in range(N)],
    "price": [Decimal("1.50") * i for i in range(N)],
    "part": pa.array([0.1 * i for i in range(N)], pa.float32()),
    "kind": pa.array(["a", None, "b"] * 2).dictionary_encode(),
    "long": pa.array(["x"] * N, pa.large_string()),
    "some": [i if i % 2 else None for i in range(N)],
    "yes": [True, False] * 3,
}
#: Labels of a column, and the public set as a file of settings spells it.
LABELS: dict[str, tuple[list[Any], list[str], Any]] = {
    "whole": ([1, 2] * 3, ["1", "2"], pa.int64()),
    "float with a gap": ([1.0, None, 2.0] * 2, ["1", "2"], pa.int64()),
    "half": ([0.5, 1.5] * 3, ["0.5", "1.5"], pa.float64()),
    "yes": ([True, False] * 3, ["True", "False"], pa.bool_()),
    "day": ([dt.date(2024, 5, 1), dt.date(2024, 5, 2)] * 3, ["2024-05-01", "2024-05-02"], pa.date32()),
    "word": (["a", "b"] * 3, ["a", "b"], pa.string()),
    "whole beside a word": ([1, 2] * 3, ["1", "other"], pa.string()),
}


def _model(folder: Path, labels: list[str]) -> Path:
    public = [dp.Record(str(i), f"public {label} {i}", label) for i, label in enumerate(labels)]
    made = dp.fit(dp.LabelOnly(labels=tuple(labels), epsilon=4.0), public)
    dp.save_model(made, folder / "model")
    return folder / "model"


def _done(*arguments: object) -> str:
    done = dptext(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _privatized(folder: Path, source: str, target: str, *more: str) -> Path:
    named = ("--id-field", "id", "--label-field", "label")
    _done("privatize", folder / source, folder / target, "--model", folder / "model", *named, *more)
    return folder / target


def _keeping() -> list[str]:
    return [part for name in KEPT for part in ("--keep", name)]


@pytest.mark.slow_cases("ids1", "ids3", why="whole numbers and dates stay; other formats have ids that are strings")
@pytest.mark.parametrize(
    "ids", [[7, 8, 9, 10, 11, 12], [f"k{i}" for i in range(N)], KEPT["day"], [7.0 + i for i in range(N)]]
)
def test_columns_of_parquet_leave_with_their_types(tmp_path: Path, ids: list[Any]) -> None:
    source = pa.table({"id": ids, "text": [f"private {i}" for i in range(N)], "label": [1, 2] * 3, **KEPT})
    pq.write_table(source, tmp_path / "in.parquet")
    _model(tmp_path, ["1", "2"])
    found = pq.read_table(_privatized(tmp_path, "in.parquet", "out.parquet", *_keeping()))
    for name in ("id", *KEPT):
        assert found.schema.field(name).type == source.schema.field(name).type, name
        assert found[name].to_pylist() == source[name].to_pylist(), name
    assert source.join(found.select(["id", "label"]), "id", right_suffix="_out").num_rows == N
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.parquet").write_bytes((tmp_path / "in.parquet").read_bytes())
    for name, empty in {"b": pa.table({}), "c": pa.table({"n": pa.array([], pa.int64())}), "d": source[:0]}.items():
        pq.write_table(empty, tmp_path / "parts" / f"{name}.parquet")
    # one slow case has worker processes, which start slowly: tests/unit/batch has them in quick tests
    alone = () if isinstance(ids[0], float) else ("--workers", "1")
    out = _privatized(tmp_path, "parts", "out", *_keeping(), *alone)
    (part,) = out.glob("*.parquet")
    assert pq.read_schema(part).remove_metadata() == found.schema.remove_metadata()


@pytest.mark.slow_cases("float with a gap", "day", why="whole numbers, fractions, words and booleans stay")
@pytest.mark.parametrize("name", LABELS)
def test_labels_of_parquet_have_the_type_of_their_column_where_each_public_one_is_a_value_of_it(
    tmp_path: Path, name: str
) -> None:
    values, public, kind = LABELS[name]
    table = {"id": list(range(N)), "text": [f"private {i}" for i in range(N)], "label": values}
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    _model(tmp_path, public)
    found = pq.read_table(_privatized(tmp_path, "in.parquet", "out.parquet"))["label"]
    assert found.type == kind
    lines = _privatized(tmp_path, "in.parquet", "out.jsonl").read_text().splitlines()
    given = {type(json.loads(line)["label"]) for line in lines}
    assert given <= {int, float} if kind in (pa.int64(), pa.float64()) else given == {bool if name == "yes" else str}
    for part in ("out.parquet", "out.jsonl"):  # and each is read as what the public set says
        again = {record.label for record in dp.read_records(tmp_path / part, dp.Fields(id="id", label="label"))}
        assert again <= {label.lower() if name == "yes" else label for label in public}


@pytest.mark.slow_cases("xlsx", why="tests/unit/text reads the cells of Excel")
@pytest.mark.parametrize("extension", ["jsonl", "json", "xlsx"])
def test_an_id_keeps_its_own_type_where_each_value_has_one(tmp_path: Path, extension: str) -> None:
    ids = [7, "8", "k9", 2**60, 11, "0012"]
    rows = [{"id": each, "text": f"private {i}", "label": 1 + i % 2} for i, each in enumerate(ids)]
    if extension == "xlsx":
        ids[3] = rows[3]["id"] = 2**40
        book = openpyxl.Workbook()
        for row in (("id", "text", "label"), *(tuple(row.values()) for row in rows)):
            book.active.append(row)  # type: ignore[union-attr]
        book.save(tmp_path / "in.xlsx")
    elif extension == "json":
        (tmp_path / "in.json").write_text(json.dumps(rows))
    else:
        (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _model(tmp_path, ["1", "2"])
    out = _privatized(tmp_path, f"in.{extension}", "out.jsonl")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ids
    bad = {"id": [1], "text": "x", "label": 1}  # rows that are read one by one give the same
    if extension == "jsonl":
        with (tmp_path / "in.jsonl").open("a") as file:
            file.write(json.dumps(bad) + "\n")
        out = _privatized(tmp_path, "in.jsonl", "again.jsonl", "--on-error", "skip")
        assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ids
        (tmp_path / "parts").mkdir()
        (tmp_path / "in.jsonl").rename(tmp_path / "parts" / "in.jsonl")
        folder = _privatized(tmp_path, "parts", "out", "--on-error", "skip", "--workers", "1")
        (part,) = folder.glob("*.jsonl")
        assert [json.loads(line)["id"] for line in part.read_text().splitlines()] == ids
    with (_privatized(tmp_path, f"in.{extension}", "out.csv") if extension != "jsonl" else out).open() as file:
        read = [row["id"] for row in csv.DictReader(file)] if extension != "jsonl" else list(map(str, ids))
    assert read == list(map(str, ids))


def test_utility_knows_an_id_that_another_reader_spells_otherwise(tmp_path: Path) -> None:
    texts = [f"a private text of some words {i}" for i in range(N)]
    pq.write_table(
        pa.table({"id": [float(i) for i in range(N)], "text": texts, "label": [1, 2] * 3}), tmp_path / "in.parquet"
    )
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("id", "text", "label"), *((f"{i}.0", text, 1 + i % 2) for i, text in enumerate(texts))]
        )
    _model(tmp_path, ["1", "2"])
    _privatized(tmp_path, "in.parquet", "out.jsonl")
    told = _done(
        *("utility", "fidelity", tmp_path / "in.csv", tmp_path / "out.jsonl", "--id-field", "id", "--json"),
        *("--public", tmp_path / "in.csv", "--seed", "0", "--label-field", "label"),
    )
    assert json.loads(told)


# ------------------------------------------------------------------ check


GOOD = "".join(json.dumps({"id": i, "text": f"a text {i}", "label": 1 + i % 2}) + "\n" for i in range(4))


def _checked(path: Path, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_done("check", path, "--json", *more))
    return found


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("label", "[1]", "the field 'label' is not a string, a finite number, a date, a boolean or null"),
        ("label", "1e400", "the field 'label' is not a string, a finite number, a date, a boolean or null"),
        ("label", '"a\\u0000"', "the field 'label' holds a NUL character"),
        ("id", "1.5", "the field 'id' is not a string or integer that can name a record"),
        ("id", "true", "the field 'id' is not a string or integer that can name a record"),
        ("id", "1.0", "its id was used before"),
    ],
)
def test_check_counts_what_privatize_reads(tmp_path: Path, field: str, value: str, reason: str) -> None:
    row = {"id": "9", "label": "1", field: value}
    line = f'{{"id": {row["id"]}, "text": "x", "label": {row["label"]}}}\n'
    (tmp_path / "in.jsonl").write_text(GOOD + line)
    found = _checked(tmp_path / "in.jsonl", "--id-field", "id", "--label-field", "label")
    assert (found["rows"], found["bad"], found["fault"]) == (4, 1, f"record 5: {reason}")
    _model(tmp_path, ["1", "2"])
    named = ("--id-field", "id", "--label-field", "label")
    refused = dptext("privatize", tmp_path / "in.jsonl", tmp_path / "o.jsonl", "--model", tmp_path / "model", *named)
    assert f"record 5: {reason}." in refused.stderr


def test_check_takes_no_column_for_ids_that_privatize_refuses(tmp_path: Path) -> None:
    table = {"part": [0.5 + i for i in range(4)], "yes": [[i] for i in range(4)], "whole": [1.0 + i for i in range(4)]}
    pq.write_table(pa.table({"text": [f"a longer text {i}" for i in range(4)], **table}), tmp_path / "in.parquet")
    could = {column["name"]: column["could be"] for column in _checked(tmp_path / "in.parquet")["columns"]}
    assert could == {"text": "text", "part": "", "yes": "", "whole": "id"}


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet", "xlsx"])
def test_check_refuses_a_label_field_that_is_not_there(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"in.{extension}"
    if extension == "parquet":
        pq.write_table(pa.table({"text": ["a", "b"]}), path)
    elif extension == "xlsx":
        book = openpyxl.Workbook()
        for row in (("text",), ("a",)):
            book.active.append(row)  # type: ignore[union-attr]
        book.save(path)
    else:
        path.write_text("text\na\n" if extension == "csv" else '{"text": "a"}\n')
    done = dptext("check", path, "--label-field", "nope")
    assert done.returncode != 0
    assert "'nope'" in done.stderr


def test_columns_of_one_name_are_said_to_be_several(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,n,n\na b,1,2\nb c,1,3\n")
    found = _checked(tmp_path / "in.csv")
    assert [column["could be"] for column in found["columns"]] == ["text", "several columns"]
    done = dptext("check", tmp_path / "in.csv", "--label-field", "n")
    assert "the header has 2 columns 'n': rename all but one" in done.stderr


# ------------------------------------------------------------------ what a file is


def _packed() -> dict[str, tuple[bytes, str]]:
    lines = b'{"text": "a good day"}\n'
    parquet, feather, book = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({"text": ["a"]}), parquet)
    pyarrow.feather.write_feather(pa.table({"text": ["a"]}), feather)
    openpyxl.Workbook().save(book)
    return {
        "gzip": (gzip.compress(lines), "is packed with gzip: let its name end in .gz, or unpack it"),
        "bzip2": (bz2.compress(lines), "is packed with bzip2: unpack it (bunzip2)"),
        "xz": (lzma.compress(lines), "is packed with xz: unpack it (unxz)"),
        "zstd": (zstandard.compress(lines), "is packed with zstd: let its name end in .zst, or unpack it"),
        "Parquet": (parquet.getvalue(), "is Parquet: let its name end in .parquet, or say --format parquet"),
        "XLSX": (book.getvalue(), "is a ZIP archive or an XLSX workbook: let its name end in .xlsx"),
        "Arrow": (feather.getvalue(), "is Arrow (Feather): write it as Parquet or CSV"),
    }


@pytest.mark.slow_cases(
    *("tsv", "json", "txt", *(f"jsonl-{kind}" for kind in ("bzip2", "xz", "zstd", "Parquet", "Arrow"))),
    why="CSV has every kind, and JSON lines have gzip and Excel",
)
@pytest.mark.parametrize("name", _packed())
@pytest.mark.parametrize("extension", ["jsonl", "csv", "tsv", "txt", "json"])
def test_a_packed_file_is_said_to_be_one(tmp_path: Path, name: str, extension: str) -> None:
    data, said = _packed()[name]
    path = tmp_path / f"in.{extension}"
    path.write_bytes(data)
    record = ["--record", "line"] if extension == "txt" else []
    private = (path, tmp_path / "out.jsonl", *kept_words.OPTIONS)
    for done in (dptext("check", path, *record), dptext("privatize", *private, *record)):
        assert f"record 1: the file {said}" in done.stderr
        assert "--encoding" not in done.stderr
    with pytest.raises(DataError, match="the file is"):
        list(dp.read_records(path, record="line" if record else None))


@pytest.mark.parametrize("name", ["PAR1,text\n1,a\n", "BZh9,text\n1,a\n", "PK,text\n1,a\n", "ARROW1,text\n1,a\n"])
def test_letters_that_begin_such_files_begin_a_table_too(tmp_path: Path, name: str) -> None:
    (tmp_path / "in.csv").write_text(name)
    assert [record.text for record in dp.read_records(tmp_path / "in.csv")] == ["a"]


def test_a_name_that_promises_gzip_is_told(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl.gz").write_text(GOOD)
    (tmp_path / "twice.jsonl.gz").write_bytes(gzip.compress(gzip.compress(GOOD.encode())))
    assert "is not packed with gzip, as its name says" in dptext("check", tmp_path / "in.jsonl.gz").stderr
    assert "what is packed in the file is packed with gzip" in dptext("check", tmp_path / "twice.jsonl.gz").stderr


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.jsonl", "in.txt"])
def test_lines_that_end_as_on_old_macs_are_told(tmp_path: Path, name: str) -> None:
    lines = {"in.csv": "text,n\na,1\nb,2\n", "in.tsv": "text\tn\na\t1\n", "in.jsonl": GOOD, "in.txt": "a\nb\n"}[name]
    (tmp_path / name).write_bytes(lines.replace("\n", "\r").encode())
    done = dptext("check", tmp_path / name, *(["--record", "line"] if name == "in.txt" else []))
    assert "its lines end in carriage returns alone" in done.stderr
    (tmp_path / name).write_bytes(lines.replace("\n", "\r\n").encode())
    assert dptext("check", tmp_path / name, *(["--record", "line"] if name == "in.txt" else [])).returncode == 0


# ------------------------------------------------------------------ parts without anything


def _blank_parts(extension: str) -> list[bytes]:
    if extension == "xlsx":
        files = []
        for rows in ([], [("text",)], [("n",)]):
            file, book = io.BytesIO(), openpyxl.Workbook()
            for row in rows:
                book.active.append(row)  # type: ignore[union-attr]
            book.save(file)
            files.append(file.getvalue())
        return [b"", *files]
    if extension == "parquet":
        files = []
        for table in (
            pa.table({}),
            pa.table({"n": pa.array([], pa.int64())}),
            pa.table({"text": pa.array([], pa.string())}),
        ):
            stream = io.BytesIO()
            pq.write_table(table, stream)
            files.append(stream.getvalue())
        return [b"", *files]
    blank = {"csv": [b"\n", b'""\n', b"n,m\n", b" \n\r\n", b"text,n\n"], "tsv": [b"\n", b"n\tm\n", b"text\tn"]}
    return [b"", b"\xef\xbb\xbf", *blank.get(extension, [b"[]"] if extension == "json" else [b"\n", b" \n\r\n"])]


def _one_row(extension: str) -> bytes:
    if extension == "xlsx":
        file, book = io.BytesIO(), openpyxl.Workbook()
        for row in (("text",), ("a good day",)):
            book.active.append(row)  # type: ignore[union-attr]
        book.save(file)
        return file.getvalue()
    if extension == "parquet":
        stream = io.BytesIO()
        pq.write_table(pa.table({"text": ["a good day"]}), stream)
        return stream.getvalue()
    rows = {"csv": "text,n\na good day,1\n", "tsv": "text\tn\na good day\t1\n", "json": '[{"text": "a good day"}]'}
    return rows.get(extension, '{"text": "a good day"}\n').encode()


@pytest.mark.slow_cases("tsv", why="CSV stays, which is read by the same parser")
@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl", "json", "xlsx", "parquet"])
def test_parts_without_anything_add_nothing_to_a_folder(tmp_path: Path, extension: str) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    for i, data in enumerate([*_blank_parts(extension), _one_row(extension)]):
        (parts / f"p{i}.{extension}").write_bytes(data)
    kept = [*kept_words.OPTIONS, "--output-format", "jsonl"]
    kept += [] if extension == "tsv" else ["--workers", "1"]  # a slow case has worker processes: they start slowly
    told = _done("privatize", parts, tmp_path / "dry", *kept, "--dry-run", "--json")
    assert json.loads(told)["records"] == 1
    _done("privatize", parts, tmp_path / "out", *kept)
    (part,) = (tmp_path / "out").glob("*.jsonl")
    assert [json.loads(line)["text"] for line in part.read_text().splitlines()] == ["a good day"]
    private = PrivateShards(
        source=parts, fields=dp.Fields(), reading={}, shards=shards_of(parts, options={}), plan=dp.Plan()
    )
    assert [text for batch in private.batches() for text in batch.texts] == ["a good day"]


@pytest.mark.slow  # test_parts_without_anything_add_nothing_to_a_folder reads the parts as this command does
@pytest.mark.parametrize("extension", ["csv", "xlsx", "parquet"])
def test_a_synthesis_takes_parts_without_anything(tmp_path: Path, extension: str) -> None:
    (tmp_path / "parts").mkdir()
    for i, data in enumerate([*_blank_parts(extension), _one_row(extension)]):
        (tmp_path / "parts" / f"p{i}.{extension}").write_bytes(data)
    (tmp_path / "pool.jsonl").write_text(
        "".join(json.dumps({"text": record.text}) + "\n" for record in sample_records(80))
    )
    pool = ("--public", tmp_path / "pool.jsonl", "--mechanism", "topics", "--set", "topics=8", "--set", "about=30")
    _done("synthesize", tmp_path / "parts", tmp_path / "out.json", *pool, "--set", "epsilon=4")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_check_names_the_option_of_the_field_that_is_lacking(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    rows = {
        "a.csv": "text,label\na long text,x\nanother one,y\n",
        "a.tsv": "text\tlabel\na long text\tx\nanother one\ty\n",
        "a.jsonl": '{"text": "a long text", "label": "x"}\n{"text": "another one", "label": "y"}\n',
    }
    path.write_text(rows[name], "utf-8")
    refused = dptext("check", path, "--label-field", "lable", cwd=tmp_path)
    assert refused.returncode == 4
    assert "--label-field" in refused.stderr
    assert "--text-field on the command line" not in refused.stderr
    assert "--text-field" in dptext("check", path, "--text-field", "txt", cwd=tmp_path).stderr


def test_a_label_that_is_longer_than_the_text_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nshort,2024-01-01T10:00:01.000000000\nsmall,2024-01-01T10:00:01.000000000\n", "utf-8")
    done = dptext("check", path, "--label-field", "label", cwd=tmp_path)
    assert "the texts seem to be in 'text'" in done.stdout
