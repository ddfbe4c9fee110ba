"""One value has one spelling, whichever reader brings it, and is the label of the public set that means the same."""

import csv
import datetime as dt
import json
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import datasets
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dptext as dp
import many_files
from dptext.batch.shards import read, shards_of
from dptext.errors import DataError, DPTextError
from dptext.ledger.subjects import Naming, SubjectKey
from dptext.privacy.names import normal_form, seen_form
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.streaming import limited, release
from dptext.sampling.randomness import seeded
from dptext.synthesis.readings import units_of
from dptext.text.batches import Batch
from dptext.text.column_types import array, as_number, label_type
from dptext.text.formats import name_of, spelled
from dptext.text.labels import matched, meaning
from dptext.text.reading import OnError, as_records, read_records
from dptext.text.records import Fields, Record

DAY = dt.date(2024, 5, 17)
#: Values of one meaning, by their label.
ALIKE: dict[str, list[object]] = {
    "1": [1, 1.0, np.int8(1), np.float32(1.0), Decimal(1), Decimal("1.00"), "1"],
    "-2": [-2.0, Decimal("-2.0")],
    "0": [0, -0.0, Decimal("0E+2")],
    "0.5": [0.5, np.float64(0.5), Decimal("0.50")],
    "true": [True, np.True_],
    "false": [False, np.False_],
    "2024-05-17": [
        *(DAY, dt.datetime(2024, 5, 17), pd.Timestamp("2024-05-17"), np.datetime64("2024-05-17", "ns")),
        np.datetime64("2024-05-17"),
    ],
    "2024-05-17T08:30:00": [dt.datetime(2024, 5, 17, 8, 30), np.datetime64("2024-05-17T08:30", "ns")],
    "00000000-0000-0000-0000-000000000001": [UUID(int=1)],
    "9007199254740993": [2**53 + 1],
}


@pytest.mark.parametrize("label", ALIKE)
def test_values_of_one_meaning_have_one_spelling(label: str) -> None:
    for value in ALIKE[label]:
        assert spelled(value) == label, type(value)
        (record,) = as_records([{"text": "a", "label": value}], label="label")
        assert record.label == label, type(value)


@pytest.mark.parametrize(
    "value", [np.datetime64("2024-05-17T00:00:00.000000001", "ns"), np.timedelta64(1, "D"), float("nan"), [1], b"a"]
)
def test_what_has_no_spelling_is_refused(value: object) -> None:
    with pytest.raises(DPTextError, match="'label' is not a string"):
        as_records([{"text": "a", "label": value}], label="label")


def test_names_are_whole_numbers_and_never_booleans_or_fractions() -> None:
    assert [name_of(value) for value in (7, 7.0, np.int64(7), Decimal("7.0"), "7")] == ["7"] * 5
    assert [name_of(value) for value in (True, np.False_, 0.5, Decimal("0.5"), None, "", 1e300)] == [None] * 7
    assert name_of(DAY) == "2024-05-17"


# ------------------------------------------------------------------ readers

ROWS = {
    "whole": [1, 2, 1],
    "part": [0.5, 1.0, 2.0],
    "yes": [True, False, True],
    "day": [DAY, dt.date(2024, 5, 18), DAY],
    "word": ["a", "b", "a"],
}
LABELS = {
    "whole": ["1", "2", "1"],
    "part": ["0.5", "1", "2"],
    "yes": ["true", "false", "true"],
    "day": ["2024-05-17", "2024-05-18", "2024-05-17"],
    "word": ["a", "b", "a"],
}
TEXTS = ["x", "y", "z"]


def _sheet(path: Path, name: str) -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for row in [("text", name), *zip(TEXTS, ROWS[name], strict=True)]:
        sheet.append(row)
    book.save(path)


def _csv(path: Path, name: str) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", name), *zip(TEXTS, map(str, LABELS[name]), strict=True)])


def _json(path: Path, name: str) -> None:
    path.write_text(json.dumps([{"text": t, name: v} for t, v in zip(TEXTS, ROWS[name], strict=True)], default=str))


def _json_lines(path: Path, name: str) -> None:
    rows = ({"text": t, name: v} for t, v in zip(TEXTS, ROWS[name], strict=True))
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))


FILES: dict[str, Callable[[Path, str], object]] = {
    "a.xlsx": _sheet,
    "a.csv": _csv,
    "a.json": _json,
    "a.jsonl": _json_lines,
    "a.parquet": lambda path, name: pq.write_table(pa.table({"text": TEXTS, name: ROWS[name]}), path),
    "dictionary.parquet": lambda path, name: pq.write_table(
        pa.table({"text": TEXTS, name: pa.array(ROWS[name]).dictionary_encode()}), path
    ),
    "pandas.parquet": lambda path, name: pd.DataFrame({"text": TEXTS, name: ROWS[name]}).to_parquet(path),
}
FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "categories": lambda columns: pd.DataFrame(columns).astype(dict.fromkeys(columns.keys() - {"text"}, "category")),
    "dates of pandas": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "Dataset": datasets.Dataset.from_dict,
    "rows": lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    "rows of pandas": lambda columns: pd.DataFrame(columns).to_dict("records"),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("file", FILES)
def test_every_file_spells_a_label_alike(tmp_path: Path, file: str, name: str) -> None:
    FILES[file](tmp_path / file, name)
    assert [record.label for record in read_records(tmp_path / file, Fields(label=name))] == LABELS[name]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("frame", FRAMES)
def test_every_frame_spells_a_label_alike(frame: str, name: str) -> None:
    data = FRAMES[frame]({"text": TEXTS, name: ROWS[name]})
    assert [record.label for record in as_records(data, label=name)] == LABELS[name]


def test_one_missing_value_spells_no_other_value_anew() -> None:
    frame = pd.DataFrame({"text": TEXTS, "id": [7.0, 8.0, 9.0], "label": [1, None, 2]})
    assert str(frame.label.dtype) == "float64"
    found = as_records(frame, label="label", id="id")
    assert [(record.id, record.label) for record in found] == [("7", "1"), ("8", None), ("9", "2")]


# ------------------------------------------------------------------ classes of Hugging Face


def _classes() -> datasets.Dataset:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    return datasets.Dataset.from_dict({"text": TEXTS, "label": [1, 0, -1]}, features=features)


@pytest.mark.parametrize("way", ["memory", "pandas format", "stream", "saved", "folder", "parquet", "arrow"])
def test_a_class_is_its_name(tmp_path: Path, way: str) -> None:
    data: Any = _classes()
    match way:
        case "pandas format":
            data = data.with_format("pandas")
        case "stream":
            data = data.to_iterable_dataset()
        case "saved":
            data.save_to_disk(tmp_path / "saved")
            data = datasets.load_from_disk(tmp_path / "saved")
        case "folder":
            data.save_to_disk(tmp_path / "saved")
            (shard,) = shards_of(tmp_path / "saved", options={})
            data = [record for batch in read(shard, Plan(fields=Fields(label="label")), {}, {}) for record in batch]
        case "parquet":
            data.to_parquet(tmp_path / "a.parquet")
            data = tmp_path / "a.parquet"
        case "arrow":
            data = data.with_format("arrow")[:]
    found = read_records(data, Fields(label="label"))
    assert [record.label for record in found] == ["good", "bad", None]


def test_a_number_of_no_class_is_a_bad_row(tmp_path: Path) -> None:
    table = pa.table({"text": TEXTS, "label": [0, 7, 1]})
    kind = {"info": {"features": {"label": {"names": ["bad", "good"], "_type": "ClassLabel"}}}}
    pq.write_table(table.replace_schema_metadata({b"huggingface": json.dumps(kind).encode()}), tmp_path / "a.parquet")
    told: list[tuple[int, str]] = []
    found = read_records(
        tmp_path / "a.parquet",
        Fields(label="label"),
        on_error=OnError.SKIP,
        on_skip=lambda *at: told.append(at),
    )
    assert [record.label for record in found] == ["bad", "good"]
    assert [number for number, _ in told] == [2]


@pytest.mark.parametrize("metadata", [b"[", b"[]", b'{"info": {"features": {"label": 7}}}', b"[" * 100_000])
def test_a_schema_that_says_nothing_of_classes_is_let_be(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"text": TEXTS, "label": [0, 7, 1]}).replace_schema_metadata({b"huggingface": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    assert [r.label for r in read_records(tmp_path / "a.parquet", Fields(label="label"))] == ["0", "7", "1"]


# ------------------------------------------------------------------ the public set


@pytest.mark.parametrize(
    ("label", "alike"),
    [
        ("2024-05-17T10:30:00.500000", ["2024-05-17 10:30:00.5", "2024-05-17T10:30:00.500"]),
        ("2024-05-17T10:30:00", ["2024-05-17 10:30", "2024-05-17T10:30:00.000"]),
        (
            "2024-05-17T10:30:00+00:00",
            ["2024-05-17 10:30:00Z", "2024-05-17T12:30:00.000+02:00", "2024-05-17 10:30 UTC"],
        ),
        ("2024-05-17", ["2024-05-17T00:00:00.000", "2024-05-17 00:00"]),
        ("100000000000000000", ["1e+17", "1.0E17", "100000000000000000.0"]),
    ],
)
def test_spellings_of_a_time_or_a_number_mean_one_label(label: str, alike: list[str]) -> None:
    assert matched(alike, (label,)) == [label] * len(alike)
    others = ["2024-05-17T10:30:01", "2024-05-17T10:30:00+01:00", "2024-05-18", "2024-05-17T00:00:00Z", "12e4", "1e18"]
    assert matched(others, (label,)) == others
    assert matched(["2024-13-40 10:30:00"], (label,)) == ["2024-13-40 10:30:00"]  # no time


@pytest.mark.parametrize("name", ["parquet", "pandas", "polars", "Dataset", "category", "numpy"])
def test_a_float_of_32_bits_is_its_shortest_decimal(tmp_path: Path, name: str) -> None:
    numbers = np.array([0.1, 7.038531e-26, 2.0], np.float32)
    columns = {"text": TEXTS, "label": pa.array(numbers)}
    match name:
        case "parquet":
            pq.write_table(pa.table(columns), tmp_path / "a.parquet")
            data: Any = tmp_path / "a.parquet"
        case "category":
            data = tmp_path / "a.parquet"
            pq.write_table(pa.table({**columns, "label": columns["label"].dictionary_encode()}), data)
        case "numpy":
            data = [{"text": text, "label": number} for text, number in zip(TEXTS, numbers, strict=True)]
        case "Dataset":
            data = datasets.Dataset(pa.table(columns))
        case _:
            data = pa.table(columns).to_pandas() if name == "pandas" else pl.from_arrow(pa.table(columns))
    found = [str(record.label) for record in read_records(data, Fields(label="label"))]
    assert (found[0], found[2]) == ("0.1", "2")
    assert np.float32(found[1]) == numbers[1]
    assert [spelled(1e17), spelled(10**17)] == ["100000000000000000"] * 2


def test_a_label_is_that_of_the_public_set_which_means_the_same() -> None:
    assert matched(["true", "TRUE", "False", None, "maybe"], ("True", "False")) == [
        *("True", "True", "False", None, "maybe"),
    ]
    assert matched(["1.0", "2", "2.50", "-0.0"], ("1", "2.0", "2.5", "0")) == ["1", "2.0", "2.5", "0"]
    assert matched(["2024-05-17 00:00:00", "2024-05-17"], ("2024-05-17",)) == ["2024-05-17"] * 2
    assert matched(["e\u0301 "], ("é",)) == ["é"]
    assert matched(["01", "True", "one"], ("1", "one")) == ["01", "True", "one"]  # codes stay apart
    assert matched(["1.00", "1"], ("1", "1.0")) == ["1.00", "1"]  # two mean it


@given(st.text(max_size=8) | st.from_regex(r"[+-]?[0-9]{1,5}\.[0-9]{1,5}", fullmatch=True))
def test_a_meaning_is_that_of_itself(label: str) -> None:
    assert meaning(meaning(label)) == meaning(label)


def test_runs_and_fits_read_labels_as_the_public_set_spells_them() -> None:
    spec = dp.LabelOnly(labels=("True", "False"), epsilon=30.0)
    public = [{"text": "so", "label": True}, {"text": "la", "label": False}]
    mechanism = dp.fit(spec, public, label="label")
    private = Batch.of([Record(str(i), "x", "true") for i in range(20)])
    assert {each.label for each in release(private, mechanism, seeded(0))} == {"True"}
    ((places, _, _),) = units_of(lambda: (each for each in [private]), ("False", "True"))
    assert set(places.tolist()) == {1}


# ------------------------------------------------------------------ names

UNSEEN = ["\u200b", "\u200d", "\u200e", "\u2060", "\ufeff", "\u00ad", "\ufe0f", "\u3164", "\x07"]


@pytest.mark.parametrize("letter", UNSEEN)
def test_a_name_is_what_it_shows(letter: str) -> None:
    assert {seen_form(name) for name in ("Ann", f"Ann{letter}", f"{letter} ANN", f"A{letter}nn {letter}")} == {"ann"}
    assert seen_form(f" {letter} ") == ""
    private = Batch.of([Record("0", "a", author="Ann"), Record("1", "b", author=f"An{letter}n")])
    with pytest.raises(DPTextError, match="more than max_per_author=1"):
        list(limited([private], 1))


@given(st.text())
def test_the_seen_form_is_stable_and_no_finer_than_the_normal_form(name: str) -> None:
    assert seen_form(seen_form(name)) == seen_form(name)
    assert seen_form(normal_form(name)) == seen_form(name)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_seen_form_of_ascii_is_the_normal_form_of_what_is_seen(name: str) -> None:
    seen = "".join(each for each in name if each.isprintable() or each.isspace())
    assert seen_form(name) == normal_form(seen)


def test_an_account_knows_its_subjects_by_what_their_names_show() -> None:
    key = SubjectKey(bytes(range(32)))
    naming = key.naming("a", key.check("a"))
    assert naming == Naming(key, "a")
    assert naming.hash("Ann\u200b") == naming.hash("ANN ") == naming.hash("ann") != naming.hash("anna")


# ------------------------------------------------------------------ on the way out


@pytest.mark.parametrize("kind", ["int64", "int8", "float64", "Int64", "str", "object", "category", "datetime64[s]"])
def test_released_ids_merge_with_the_frame(kind: str) -> None:
    frame = pd.DataFrame({"text": TEXTS, "key": pd.Series([7, 8, 9]).astype(kind)})
    mechanism = dp.LabelOnly(labels=("a", "b"), epsilon=1.0).fit(public=[Record("", "x", "a"), Record("", "y", "b")])
    frame["label"] = ["a", "b", "a"]
    found = dp.privatize(frame, mechanism, label="label", id="key").to_pandas()
    assert len(frame.merge(found, on="key")) == 3
    assert found["key"].dtype == frame["key"].dtype


@pytest.mark.parametrize("of", ["pandas", "polars", "rows"])
def test_a_polars_frame_has_what_a_pandas_frame_has(of: str) -> None:
    """Of any input: numbers stay numbers, as labels and as ids."""
    pl = pytest.importorskip("polars")
    rows = [{"text": text, "key": 7 + i, "label": i % 2} for i, text in enumerate(TEXTS)]
    private = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "rows": list}[of](rows)
    mechanism = dp.LabelOnly(labels=("0", "1"), epsilon=1.0).fit(public=[Record("", "x", "0"), Record("", "y", "1")])
    found = dp.privatize(private, mechanism, label="label", id="key")
    frame = found.to_polars()
    assert frame.to_dict(as_series=False) == found.to_pandas().to_dict("list")
    assert frame["key"].dtype.is_integer()
    assert frame["label"].dtype.is_integer() == (of != "rows")


COLUMNS = {"day": [DAY] * 3, "at": [dt.datetime(2024, 5, 17, 8)] * 3, "price": [Decimal("1.50")] * 3, "n": [1, 2, 3]}


@pytest.mark.parametrize("names", [["bad", "good"], ["bad", "good", "other"]])
def test_a_dataset_gets_its_types_back(names: list[str]) -> None:
    data = _classes()
    for name, values in COLUMNS.items():
        data = data.add_column(name, values)
    mechanism = dp.LabelOnly(labels=tuple(names), epsilon=9.0).fit(public=[Record("", "x", name) for name in names])
    found = dp.privatize(data, mechanism, label="label", id="n", keep=["day", "at", "price"])
    given = found.to_dataset()
    assert {name: given.features[name] for name in COLUMNS} == {name: data.features[name] for name in COLUMNS}
    # A label that is no class of the column could not leave as one.
    assert given.features["label"] == (data.features["label"] if len(names) == 2 else datasets.Value("string"))
    assert [given[i]["day"] for i in range(3)] == [DAY] * 3
    line = json.loads(found.json_lines().splitlines()[0])
    assert (line["n"], line["day"], type(line["label"])) == (1, str(DAY), str)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, datasets.Dataset.from_dict])
def test_labels_of_numbers_leave_as_numbers_of_every_frame(
    frame: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    data = frame({"text": TEXTS, "key": [7, 8, 9], "label": [1, 2, 1]})
    mechanism = dp.LabelOnly(labels=("1", "2"), epsilon=9.0).fit(public=[Record("", "x", "1"), Record("", "y", "2")])
    found = dp.privatize(data, mechanism, label="label", id="key")
    assert str(found.to_pandas()["label"].dtype) == "int64"
    assert found.to_dataset().features["label"] == datasets.Value("int64")
    assert {type(json.loads(line)["label"]) for line in found.json_lines().splitlines()} == {int}
    found.write(tmp_path / "a.parquet")
    assert {str(pq.read_schema(tmp_path / "a.parquet").field(name).type) for name in ("key", "label")} == {"int64"}
    beside = dp.LabelOnly(labels=("1", "other"), epsilon=9.0).fit(
        public=[Record("", "x", "1"), Record("", "y", "other")]
    )
    assert set(dp.privatize(data, beside, label="label", id="key").to_pandas()["label"]) <= {"1", "other"}


UNTOLD = " ".join(("a", "private", "label"))


def test_a_label_that_is_no_value_of_its_column_is_refused_and_not_shown() -> None:
    for kind in (pa.int64(), pa.bool_(), pa.date32(), pa.decimal128(9, 2)):
        with pytest.raises(DataError, match="not of its column's type") as caught:
            array([UNTOLD], kind)
        assert UNTOLD not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", ["int64", "double", "bool"])
def test_a_label_that_is_no_number_is_not_shown(kind: str) -> None:
    with pytest.raises(DataError, match="not of its column's type") as caught:
        as_number(UNTOLD, kind)
    assert UNTOLD not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_a_frame_that_cannot_be_read_says_what_is_wrong() -> None:
    mechanism = dp.LabelOnly(labels=("1", "2"), epsilon=9.0).fit(public=[Record("", "x", "1"), Record("", "y", "2")])
    twice = pd.DataFrame([["a", 1, 1]], columns=["text", "label", "label"])
    for frame, said in ((twice, "different names"), (pd.DataFrame({"text": ["a"], "label": [1]}), "the column 'key'")):
        with pytest.raises(DPTextError, match=said):
            dp.privatize(frame, mechanism, label="label", id="key").to_pandas()


def test_released_ids_of_a_dataset_are_numbers_where_its_column_is() -> None:
    data = _classes().add_column("key", [7, 8, 9])
    mechanism = dp.LabelOnly(labels=("bad", "good"), epsilon=1.0).fit(
        public=[Record("", "x", "bad"), Record("", "y", "good")]
    )
    assert dp.privatize(data, mechanism, label="label", id="key").to_dataset()["key"][:] == [7, 8, 9]
    rows = [{"text": "x", "key": "7", "label": "bad"}]
    assert list(dp.privatize(rows, mechanism, label="label", id="key").to_pandas()["key"]) == ["7"]


def test_numbers_of_parquet_are_numbers_in_parquet(tmp_path: Path) -> None:
    source = pa.table(
        {"text": TEXTS, "label": ["a", "b", "a"], "key": pa.array([7, 8, 9], pa.int16()), **_kept()},
    )
    pq.write_table(source, tmp_path / "in.parquet")
    mechanism = dp.LabelOnly(labels=("a", "b"), epsilon=1.0).fit(public=[Record("", "x", "a"), Record("", "y", "b")])
    plan = Plan(fields=Fields(label="label", id="key", keep=tuple(_kept())))
    privatize_file(tmp_path / "in.parquet", tmp_path / "out.parquet", mechanism, plan=plan)
    found = pq.read_table(tmp_path / "out.parquet")
    for name in ("key", "yes", "part", "whole", "word"):
        assert found.schema.field(name).type == source.schema.field(name).type, name
        assert found[name].to_pylist() == source[name].to_pylist()
    assert dp.verify(tmp_path / "out.parquet.guarantee.json").certificate.records == 3


@pytest.mark.parametrize(("other", "kind"), [(pa.int16(), pa.int16()), (pa.string(), pa.string())])
def test_numbers_of_a_folder_of_parquet_are_numbers_where_all_files_agree(
    tmp_path: Path, other: pa.DataType, kind: pa.DataType
) -> None:
    (tmp_path / "in").mkdir()
    for name, ids, type_of_ids in (("a", [7, 8], pa.int16()), ("b", [9], other)):
        columns = {"text": TEXTS[: len(ids)], "label": ["a"] * len(ids), "key": pa.array(ids).cast(type_of_ids)}
        pq.write_table(pa.table(columns), tmp_path / "in" / f"{name}.parquet")
    mechanism = dp.LabelOnly(labels=("a", "b"), epsilon=1.0).fit(public=[Record("", "x", "a"), Record("", "y", "b")])
    plan = Plan(fields=Fields(label="label", id="key"))
    dp.privatize_dataset(tmp_path / "in", tmp_path / "out", mechanism, plan=plan, dataset=many_files.here())
    (part,) = (tmp_path / "out").glob("*.parquet")
    found = pq.read_table(part)["key"]
    assert found.type == kind
    assert list(map(int, found.to_pylist())) == [7, 8, 9]


def _kept() -> dict[str, Any]:
    return {
        "yes": [True, None, False],
        "part": pa.array([0.5, 1.0, None], pa.float32()),
        "whole": pa.array([1, None, 2**63], pa.uint64()),
        "word": ["a", None, "b"],
        "day": [DAY] * 3,
    }


@pytest.mark.parametrize("typed", [str, pa.type_for_alias])
@pytest.mark.parametrize(
    ("kind", "two", "one"),
    [
        ("int64", ("1", "2"), ("1", "1.0")),
        ("double", ("0.5", "2"), ("0.5", "0.50")),
        ("bool", ("true", "False"), ("true", "True")),
    ],
)
def test_public_labels_of_one_value_leave_as_texts(
    typed: Callable[[str], Any], kind: str, two: tuple[str, ...], one: tuple[str, ...]
) -> None:
    assert label_type(typed(kind), two) == typed(kind)
    assert label_type(typed(kind), one) is None  # as a value of the column nobody could tell them apart
