"""Cells that a spreadsheet would compute: left as they are unless asked, and then marked wherever they stand."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.file_runs import Plan, privatize_file
from dptext.formats import Format
from dptext.mechanisms.word_metric import WordMetric
from dptext.records import Fields, Release
from dptext.releases import encode_batch, open_writer, release_columns

FORMULA = ("=", "+", "-", "@", "\t", "\r")
ROW = Release("=1", "@SUM(A1)", "+red", {"note": "-2", "@who": "\tx", "n": -5, "none": None, "yes": True, "real": -0.5})
KEEP = ("note", "@who", "n", "none", "yes", "real")


def cells(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def test_cells_are_left_as_they_are_unless_asked() -> None:
    found = cells(encode_batch([ROW], Format.CSV, header=True, label=True, keep=KEEP))
    assert found == [
        ["id", "text", "label", *KEEP],
        ["=1", "@SUM(A1)", "+red", "-2", "\tx", "-5", "", "true", "-0.5"],
    ]


def test_texts_ids_labels_kept_fields_and_names_are_marked_and_numbers_are_not() -> None:
    found = cells(encode_batch([ROW], Format.CSV, header=True, label=True, keep=KEEP, safe_csv=True))
    assert found == [
        ["id", "text", "label", "note", "'@who", "n", "none", "yes", "real"],
        ["'=1", "'@SUM(A1)", "'+red", "'-2", "'\tx", "-5", "", "true", "-0.5"],
    ]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), min_size=1, max_size=4))
def test_no_marked_cell_begins_like_a_formula_and_no_text_is_lost(texts: list[str]) -> None:
    batch = [Release(text, text, text, {"k": text}) for text in texts]
    rows = cells(encode_batch(batch, Format.CSV, label=True, keep=("k",), safe_csv=True))
    assert not [cell for row in rows for cell in row if cell.startswith(FORMULA)]
    assert [row[0] if row[0] == text else row[0][1:] for row, text in zip(rows, texts, strict=True)] == texts
    assert [row[0] for row, text in zip(rows, texts, strict=True) if not text.startswith(FORMULA)] == [
        text for text in texts if not text.startswith(FORMULA)
    ]


@pytest.mark.parametrize("kind", [Format.JSONL, Format.TEXT, Format.PARQUET])
def test_other_formats_have_no_cells(kind: Format) -> None:
    with pytest.raises(ConfigError, match="without safe_csv"):
        release_columns(kind, safe_csv=True)
    with pytest.raises(ConfigError, match="without safe_csv"):
        open_writer(io.BytesIO(), kind, safe_csv=True)


@pytest.fixture
def mechanism(vectors: Path):
    return WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
def test_a_run_writes_safe_cells(tmp_path: Path, mechanism, name: str) -> None:
    rows = [{"name": f"=cmd{i}", "text": "bababa", "who": "@x" if i % 2 else "x"} for i in range(9)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    plan = Plan(fields=Fields(id="name", keep=("who",)), batch_size=4, safe_csv=True)
    privatize_file(tmp_path / "in.jsonl", tmp_path / name, mechanism, plan=plan)
    data = (tmp_path / name).read_bytes()
    found = cells(gzip.decompress(data) if name.endswith(".gz") else data)
    assert found[0] == ["id", "text", "who"]
    assert [row[0] for row in found[1:]] == [f"'=cmd{i}" for i in range(9)]
    assert [row[2] for row in found[1:]] == ["'@x" if i % 2 else "x" for i in range(9)]


@pytest.mark.parametrize("name", ["out.jsonl", "out.txt", "out.parquet"])
def test_a_run_in_another_format_is_refused_before_anything_is_done(tmp_path: Path, mechanism, name: str) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "bababa"}\n', "utf-8")
    with pytest.raises(ConfigError, match="safe_csv"):
        privatize_file(tmp_path / "in.jsonl", tmp_path / name, mechanism, plan=Plan(safe_csv=True))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_run_goes_on_with_the_cells_that_it_began_with(tmp_path: Path, mechanism) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "bababa"}\n' * 30, "utf-8")

    def stop(done: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    source, target = tmp_path / "in.jsonl", tmp_path / "out.csv"
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, plan=Plan(batch_size=10, safe_csv=True), on_progress=stop)
    with pytest.raises(ConfigError, match="these differ"):
        privatize_file(source, target, mechanism, plan=Plan(batch_size=10, resume=True))
    privatize_file(source, target, mechanism, plan=Plan(batch_size=10, resume=True, safe_csv=True))
    assert len(cells(target.read_bytes())) == 31
