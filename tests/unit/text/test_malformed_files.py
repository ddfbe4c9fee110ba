"""What somebody may bring: settings, models, arrays and Parquet that no writer makes. Each is refused by name."""

import io
import itertools
import json
import math
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

from compared import experiment
from dptext.embeddings.npy import read_array
from dptext.embeddings.vector_files import load_vectors
from dptext.errors import ConfigError
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.mechanisms.sentences.truncation import Truncation
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.guarantee import Unit
from dptext.recommend.measured import MeasuredTable
from dptext.recommend.recommendation import Asked, Recommendation, recommendations, reduced
from dptext.recommend.tables import read_json, read_measured
from dptext.runs import models
from dptext.runs.files import privatize_file
from dptext.runs.models import MODEL_FILE, load_model, model_spec, save_model
from dptext.runs.plan import Plan
from dptext.runs.specs import parse_setting, parse_toml, read_spec
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record
from dptext.text.samples import sample_records
from dptext_lab.compare.experiment import parse_experiment, read_experiment
from dptext_lab.compare.report import read_results

DOTS = ".a" * 100_000
DEEP = "[" * 100_000
ASKED = Asked(Unit.DOCUMENT, 10.0, 1e-3, "meaning")


# ------------------------------------------------------------------ settings

BAD_TOML = {
    "a key of dots": f"a{DOTS} = 1",
    "a quoted key of dots": "epsilon = 1\n" + '"=".' * 100_000 + "a = 1",
    "a table of dots": f"[a{DOTS}]\nb = 1",
    "dots in an inline table": f"a = {{ a{DOTS} = 1 }}",
    "dots after a string": f'a = ["\\"", """\n# " """, {{ a{DOTS} = 1 }}]',
    "dots after a comment": f'a = 1 # """\na{DOTS} = 1',
    "deep lists": f"a = {DEEP}",
    "deep tables": "a = " + "{ a = " * 100_000,
    "70 lists": f"a = {'[' * 70}{']' * 70}",
    "an integer of 5,000 digits": f"a = {'9' * 5000}",
    "a hexadecimal integer": f"a = 0x{'f' * 5000}",
    "a large integer": f"a = {2**63}",
    "a number that is not finite": "a = 1e999",
    "no number": "a = [nan]",
    "two megabytes": f"a = '{'x' * 2**21}'",
    "not UTF-8": b"a = '\xff'",
    "not TOML": "a =",
    "nothing but quotes": 'a = """' + '\\"' * 400_000,
}


@pytest.mark.parametrize("name", BAD_TOML)
def test_toml_beyond_all_settings_is_refused_at_once(tmp_path: Path, name: str) -> None:
    content = BAD_TOML[name]
    path = tmp_path / "spec.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for read in (read_spec, read_experiment):
        began = time.perf_counter()
        with pytest.raises(ConfigError) as caught:
            read(path)
        assert time.perf_counter() - began < 5
        assert "spec.toml" in str(caught.value)


def test_what_looks_like_a_long_key_and_is_none_is_read() -> None:
    dots = "a." * 500
    text = f'a = 1.5 # {dots}\nb = ["{dots}", \'{dots}\', """\n{dots}\n"""]\n"{dots}" = 2\nc.d.e = [1.5, 2.5, 3.5]\n'
    found = parse_toml(text, "it")
    assert found == {"a": 1.5, "b": [dots, dots, f"{dots}\n"], dots: 2, "c": {"d": {"e": [1.5, 2.5, 3.5]}}}


@pytest.mark.parametrize(
    "value",
    [DEEP, "{a=" * 100_000, "9" * 5000, "0x" + "f" * 5000, "1e999", "-inf", "nan", str(2**63), f"{{ a{DOTS} = 1 }}"],
    ids=lambda value: value[:4],
)
def test_settings_beyond_all_settings_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="'x'"):
        parse_setting(f"x={value}")


def test_settings_that_are_no_toml_are_text() -> None:
    assert parse_setting("x=[[[[") == ("x", "[[[[")
    assert parse_setting("x=1\ny=2") == ("x", "1\ny=2")
    assert parse_setting("x=-9223372036854775808") == ("x", -(2**63))


def test_a_mechanism_within_a_mechanism_within_another_is_refused() -> None:
    nested: dict = {"kind": "word_metric", "epsilon": 1.0}
    for _ in range(5000):
        nested = {"kind": "embedded", "mechanism": nested}
    with pytest.raises(ConfigError, match="settings of another"):
        models.spec_from_settings(nested)


def test_a_path_that_is_none_is_refused(tmp_path: Path, vectors: Path) -> None:
    for name in ("a\0b", "\0.npy", "a\0b.gz"):
        with pytest.raises(ConfigError, match=r"NUL|null"):
            load_vectors(name)
    with pytest.raises(ConfigError, match="NUL"):
        read_records("a\0b.jsonl")
    data = experiment(tmp_path / "a\0b", vectors)
    with pytest.raises(ConfigError, match="a\\\\x00b"):
        parse_experiment(data)


# ------------------------------------------------------------------ what others wrote as JSON

BAD_JSON = {
    "deep lists": DEEP,
    "deep objects": '{"a":' * 100_000,
    "nesting that can just be read": "[" * 900 + "]" * 900,
    "an integer of 5,000 digits": "9" * 5000,
    "a number": "1e999",
    "an empty file": "",
    "null": "null",
    "a list": "[1]",
    "an object": '{"a": 1}',
    "not UTF-8": "\udcff",
}


def _spec_of(name: str, vectors: Path) -> tuple[object, list[Record]]:
    labels = ("health", "travel", "money", "leisure")
    found = {
        "words": WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300),
        "candidates": Candidates(2.0, labels, ranker="tfidf", candidates=40),
        "labels": LabelOnly(labels, epsilon=2.0),
        "truncation": Truncation.tiny()[0],
    }[name]
    return found, list(sample_records(200))


@pytest.fixture(params=["words", "candidates", "labels", "truncation"])
def saved(request: pytest.FixtureRequest, tmp_path: Path, vectors: Path) -> Path:
    spec, public = _spec_of(request.param, vectors)
    save_model(spec.fit(public=public, seed=1), tmp_path / "model")  # type: ignore[attr-defined]
    return tmp_path / "model"


def seal(folder: Path) -> None:
    """Make the model whole again, as somebody who means it would."""
    model = json.loads((folder / MODEL_FILE).read_bytes())
    del model["sha256"]
    model["files"] = {name: models.sha256_of(folder / name) for name in model["files"]}
    (folder / MODEL_FILE).write_text(json.dumps({**model, "sha256": models._seal(model)}), "utf-8")


def test_a_model_of_malformed_files_is_refused(saved: Path) -> None:
    names = [path.name for path in saved.iterdir() if path.name != MODEL_FILE]
    assert names
    for name, content in itertools.product(names, BAD_JSON.values()):
        path = saved / name
        whole = path.read_bytes()
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        seal(saved)
        with pytest.raises(ConfigError, match=r"model|Fit and save|folder"):
            load_model(saved)
        path.write_bytes(whole)
    seal(saved)
    load_model(saved)


@pytest.mark.slow_cases("truncation", why="models of the other kinds stay")
def test_a_model_of_malformed_values_is_refused(saved: Path) -> None:
    """Every value of its files in the place of every other kind of value."""
    for path in saved.glob("*.json"):
        if path.name == MODEL_FILE:
            continue
        whole = json.loads(path.read_bytes())
        for key, value in itertools.product(whole, (None, -1, 1.5, 2**62, math.inf, "", "x", [], [None], [[[]]], {})):
            if whole[key] == value or (whole[key] == [] and value == []):
                continue
            path.write_text(json.dumps({**whole, key: value}), "utf-8")
            seal(saved)
            try:
                load_model(saved)
            except ConfigError:
                continue
        path.write_text(json.dumps(whole), "utf-8")
    seal(saved)
    load_model(saved)


@pytest.mark.parametrize("name", BAD_JSON)
def test_the_description_of_a_model_is_refused(tmp_path: Path, vectors: Path, name: str) -> None:
    (tmp_path / MODEL_FILE).write_bytes(BAD_JSON[name].encode("utf-8", "surrogateescape"))
    for read in (load_model, model_spec):
        with pytest.raises(ConfigError, match=r"model\.json"):
            read(tmp_path)


@pytest.mark.parametrize("name", BAD_JSON)
def test_a_table_of_results_is_refused(tmp_path: Path, name: str) -> None:
    for file in ("table.json", "experiment.json"):
        (tmp_path / file).write_bytes(BAD_JSON[name].encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError):
        read_results(tmp_path)
    with pytest.raises(ConfigError):
        recommended(read_measured(tmp_path))


def recommended(table: MeasuredTable) -> list[Recommendation]:
    reduced(table)
    return recommendations(table.rows, ASKED)


def test_rows_of_malformed_values_are_refused(tmp_path: Path) -> None:
    table = read_measured(None).model_dump()
    whole = table["rows"][:40]

    def given(rows: list[dict]) -> list[Recommendation]:
        (tmp_path / "table.json").write_text(json.dumps({**table, "rows": rows}), "utf-8")
        return recommended(read_measured(tmp_path / "table.json"))

    assert given(whole)
    for column in ("epsilon", "value", "low", "delta", "trial"):
        for value in (10**400, math.nan, math.inf, "x", [], {}, True):
            with pytest.raises(ConfigError, match=r"a row lacks a column|found it damaged"):
                given([{**row, column: value, "error": None} for row in whole])
    for column in whole[0]:
        if column not in ("seconds", "peak_mib", "signature", "confidence", "relation"):
            lacking = [{key: value for key, value in row.items() if key != column} for row in whole]
            with pytest.raises(ConfigError, match="lacks a column"):
                given(lacking)
    for settings in ("{", DEEP, "9" * 5000):
        with pytest.raises(ConfigError, match="a row lacks a column"):
            given([{**row, "settings": settings} for row in whole])


@pytest.mark.slow  # it reads 256 MiB, twice
def test_a_file_without_end_is_not_read_whole(tmp_path: Path) -> None:
    """As `/dev/zero`: the memory would not be enough."""
    path = tmp_path / "table.json"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ConfigError, match="bytes long"):
        read_json(path)
    with pytest.raises(ConfigError, match="bytes long"):
        read_spec(path)
    with pytest.raises(ConfigError, match="no end in sight"):
        load_vectors(path)


# ------------------------------------------------------------------ arrays


def npy(header: str, data: bytes = b"\0" * 64) -> bytes:
    padded = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + data


BAD_ARRAYS = {
    "a huge shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000, 50), }"),
    "a shape beyond all integers": npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30}, 50), }}"),
    "a negative shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -8), }"),
    "more than is there": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 1), }"),
    "less than is there": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (7, 1), }"),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (8, 1), }"),
    "a huge item": npy("{'descr': '|V1000000000000', 'fortran_order': False, 'shape': (1, 1), }"),
    "deep brackets": npy("(" * 9000),
    "signs": npy("-" * 9000 + "1"),
    "no header": npy("nothing"),
    "another version": b"\x93NUMPY\x09\x00" + b"\0" * 100,
    "no array": b"PK\x03\x04" + b"\0" * 100,
    "nothing": b"",
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_promise_more_than_they_hold_are_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dptext_lab.cli.sensitivity import _read

    path = tmp_path / "a.npy"
    path.write_bytes(BAD_ARRAYS[name])
    (tmp_path / "a.words.txt").write_text("a\nb\n", "utf-8")
    monkeypatch.setattr(np, "fromfile", lambda *_, **__: pytest.fail("room was made before the header was checked"))
    with path.open("rb") as file, pytest.raises(ValueError, match="header"):
        read_array(file)
    with pytest.raises(ConfigError, match=r"a\.npy"):
        _read(path)
    if name != "less than is there":  # numpy maps the rows that the header names
        with pytest.raises(ConfigError, match=r"a\.npy"):
            load_vectors(path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.zeros((0, 4), np.int16), np.float32(1.0)])
def test_arrays_as_numpy_writes_them_are_read(tmp_path: Path, array: np.ndarray, version: tuple[int, int]) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asarray(array), version=version)
    with path.open("rb") as file:
        found = read_array(file)
    assert found.dtype == np.asarray(array).dtype
    assert np.array_equal(found, array)


def test_word_vectors_with_a_count_of_5000_digits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text(f"{'9' * 5000} 50\na 1 2\n", "utf-8")
    with pytest.raises(ConfigError, match="line 2"):
        load_vectors(path)


# ------------------------------------------------------------------ Parquet


def _beyond(kind: pa.DataType, value: int) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([1, value, 2], width).cast(kind)


BEYOND = {
    "a date": (pa.date32(), 2**30),
    "a time stamp": (pa.timestamp("us"), 2**62),
    "a time stamp of a zone": (pa.timestamp("us", "Europe/Berlin"), 2**62),
    "a duration": (pa.duration("ms"), 2**62),
    "a time": (pa.time64("us"), 2**62),
    "a zone that nobody knows": (pa.timestamp("us", "Nowhere/City"), 1),
    "a time stamp too fine": (pa.timestamp("ns"), 2**62 + 1),
}


@pytest.fixture(scope="module", params=[True, False])
def read_beyond(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process reads of all such files; pyarrow makes other times where pandas is installed."""
    paths = {name: tmp_path_factory.mktemp("beyond") / "a.parquet" for name in BEYOND}
    for name, path in paths.items():
        pq.write_table(pa.table({"text": ["a", "b", "c"], "when": _beyond(*BEYOND[name])}), path)
    line = [sys.executable, "-c", TIMES, str(int(request.param)), *map(str, paths.values())]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return dict(zip(paths, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", BEYOND)
def test_times_that_python_does_not_have_are_bad_records(read_beyond: dict[str, Any], name: str) -> None:
    kept, skipped, texts = read_beyond[name]
    whole = name not in (
        "a duration",
        "a zone that nobody knows",
        "a time stamp too fine",
    )  # of which no value can be kept
    assert [number for number, _ in skipped] == ([2] if whole else [1, 2, 3])
    assert [text for text, _ in kept] == (["a", "c"] if whole else [])
    assert all(datetime.fromisoformat(f"2000-01-01T{when}" if name == "a time" else when) for _, when in kept)
    assert texts == ["a", "b", "c"]


TIMES = """
import json, sys
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
if sys.argv[1] == "0":
    sys.meta_path.insert(0, Absent)
from dptext.text.reading import OnError, read_records
from dptext.text.records import Fields
told = []
for path in sys.argv[2:]:
    skipped, fields = [], Fields(keep=("when",))
    found = list(read_records(path, fields, on_error=OnError.SKIP, on_skip=lambda *what: skipped.append(what)))
    told.append([[(each.text, each.kept["when"]) for each in found], skipped,
                 [each.text for each in read_records(path)]])
print(json.dumps(told))
"""


def test_parquet_is_read_by_the_thread_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of pyarrow that still calls our file when Python ends aborts the process (status 134)."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["word " * 50] * 500, "other": ["x"] * 500}), path, row_group_size=100)
    threads: set[int] = set()

    class Watched(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            threads.add(threading.get_ident())
            return super().read(size)

    monkeypatch.setattr(Path, "open", lambda self, _: Watched(io.FileIO(os.fspath(self))))
    assert len(list(read_records(path))) == 500
    assert threads == {threading.get_ident()}


def is_open(path: Path) -> bool:
    return any(os.path.realpath(handle) == str(path.resolve()) for handle in Path("/proc/self/fd").iterdir())


@pytest.fixture(params=["in.parquet", "in.jsonl", "in.csv", "in.txt"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    rows = [f"word {i}" for i in range(600)]
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.table({"text": rows, "who": ["w"] * 600}), path, row_group_size=100)
        case ".jsonl":
            path.write_text("".join(json.dumps({"text": row, "who": "w"}) + "\n" for row in rows), "utf-8")
        case ".csv":
            path.write_text("text,who\n" + "".join(f"{row},w\n" for row in rows), "utf-8")
        case _:
            path.write_text("\n".join(rows), "utf-8")
    return path


def portion(source: Path) -> str | None:
    return "line" if source.suffix == ".txt" else None


def test_a_reader_that_stops_early_closes_the_file(source: Path) -> None:
    records = read_records(source, record=portion(source))
    next(records)
    assert is_open(source)
    records.close()
    assert not is_open(source)


def test_a_run_that_fails_closes_its_input(
    source: Path, tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()
    failures: list[Callable[[], Plan]] = [lambda: Plan(batch_size=10, record=portion(source))]
    if source.suffix != ".txt":
        failures.append(lambda: Plan(fields=Fields(author="who"), max_per_author=5))
    for number, plan in enumerate(failures):
        if number == 0:
            monkeypatch.setattr(type(mechanism), "privatize", lambda *_: [])  # not one release a record
        else:
            monkeypatch.undo()
        with pytest.raises(Exception, match=r"did not answer|max_per_author") as caught:
            privatize_file(source, tmp_path / "out.jsonl", mechanism, plan=plan())
        assert not is_open(source)  # while the error and its frames live
        assert caught.value is not None
