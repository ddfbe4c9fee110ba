"""Values that Python cannot hold, in frames, Datasets and Arrow files: the record is refused, and shown nowhere."""

import datetime as dt
import decimal
import json
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptext as dp
from dptext.batch.corpora import synthesize_dataset
from dptext.errors import DataError
from dptext.runs.private import Private
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.synthesizing import run
from dptext.text.reading import OnError, read_records
from dptext.text.records import Fields
from many_files import mechanism

pa = pytest.importorskip("pyarrow")
CANARY = "zqsecret"
N = 3  # rows; the second is at fault


def of_bytes(kind: Any, numbers: Any) -> Any:
    """An array of pyarrow by what lies in memory."""
    return pa.Array.from_buffers(kind, N, [None, pa.py_buffer(np.array(numbers).tobytes())])


def no_utf8() -> Any:
    text = b"so" + CANARY.encode() + b"\xffand"
    ends = np.array([0, 2, len(text) - 3, len(text)], np.int32)
    return pa.Array.from_buffers(pa.string(), N, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(text)])


TEXTS = ["so", CANARY, "and"]
LABELS: dict[str, Any] = {
    "date": of_bytes(pa.date32(), np.array([1, 2**30, 3], np.int32)),
    "time": of_bytes(pa.timestamp("us"), np.array([1, 2**62, 3], np.int64)),
    "duration": of_bytes(pa.duration("s"), np.array([1, 2**62, 3], np.int64)),
    "nested": pa.array([None, ["a"], None]),
    "bytes": pa.array([None, b"\xff", None]),
}
TABLES: dict[str, Any] = {
    "text": pa.table({"text": no_utf8()}),
    "dictionary": pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), no_utf8())}),
    **{name: pa.table({"text": TEXTS, "label": label}) for name, label in LABELS.items()},
}


def pandas(table: Any) -> Any:
    return table.to_pandas(types_mapper=pytest.importorskip("pandas").ArrowDtype)


def polars(table: Any) -> Any:
    pl = pytest.importorskip("polars")
    return pl.from_arrow(table)


def hugging(table: Any) -> Any:
    return pytest.importorskip("datasets").Dataset(table)


def hugging_pandas(table: Any) -> Any:
    return hugging(table).with_format("pandas")


FORMS = {
    "arrow": lambda table: table,
    "pandas": pandas,
    "polars": polars,
    "Dataset": hugging,
    "of pandas": hugging_pandas,
}


def made(form: str, name: str) -> tuple[Any, Fields]:
    return FORMS[form](TABLES[name]), Fields(label="label" if name in LABELS else None)


#: polars holds text in UTF-8 alone.
CASES = [(form, name) for form in FORMS for name in TABLES if form != "polars" or name in LABELS]


@pytest.mark.parametrize(("form", "name"), CASES)
def test_a_value_without_a_match_is_a_record_that_cannot_be_read(
    form: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    source, fields = made(form, name)
    numbers: list[int] = []
    found = list(read_records(source, fields, on_error=OnError.SKIP, on_skip=lambda number, _: numbers.append(number)))
    bad = [1, 2, 3] if name == "duration" else [2]  # a label is no duration
    assert numbers == bad
    assert [record.text for record in found] == [TEXTS[i] for i in range(N) if i + 1 not in bad]
    with pytest.raises(DataError, match=f"record {bad[0]}: ") as caught:
        list(read_records(source, fields))
    said = "".join(traceback.format_exception(caught.value))
    assert CANARY not in said
    assert caught.value.__cause__ is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("form", FORMS)
def test_privatize_names_the_record_and_shows_nothing(form: str) -> None:
    source, _ = made(form, "date")
    with pytest.raises(DataError, match="record 2") as caught:
        list(dp.privatize(source, mechanism(), label="label"))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_values_in_rows_that_are_no_scalars_are_refused() -> None:
    odd: list[Any] = [
        np.array([1, 2]),
        np.array([1]),
        decimal.Decimal("NaN"),
        decimal.Decimal("Infinity"),
        np.float32("nan"),
        dt.timedelta(1),
        10**400,
        b"x",
        ["a"],
    ]
    if pandas_module := pytest.importorskip("pandas"):
        odd += [pandas_module.NaT, pandas_module.NA]
    rows = [{"text": CANARY, "label": value} for value in odd]
    assert list(read_records(rows, Fields(label="label"), on_error=OnError.SKIP)) == []
    good = [{"text": "so", "label": value} for value in (np.int64(3), np.float32(0.5), decimal.Decimal("1.5"), None)]
    assert [each.label for each in read_records(good, Fields(label="label"))] == ["3", "0.5", "1.5", None]


TOPICS = {"kind": "topics", "encoder": "glove", "words": 8, "topics": 4, "dim": 8}


@pytest.mark.parametrize("form", [*FORMS, "saved"])
def test_such_a_record_adds_nothing_to_a_synthesis(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Under one seed the noise is the same: what told of such a record would show."""
    labelled = {**TOPICS, "labels": ["x", "y"]}
    fitted = synthesis_from_settings(labelled).fit(public=dp.sample_records(60))  # type: ignore[arg-type]
    days = pa.array([1, 3], pa.int32()).cast(pa.date32())
    clean = pa.table({"text": ["so", "and"], "label": days})
    found = []
    for number, table in enumerate((clean, TABLES["date"])):
        seeded = dp.randomness.seeded(1)
        if form == "saved":
            folder = tmp_path / str(number)
            hugging(table).save_to_disk(str(folder))
            capfd.readouterr()  # of datasets: its bar
            plan = dp.Plan(Fields(label="label"))
            made_of = synthesize_dataset(folder, fitted, plan=plan, workers=dp.Workers(n=1), randomness=seeded)
        else:
            made_of = run(Private(FORMS[form](table), Fields(label="label"), {}), fitted, randomness=seeded)
        found.append((made_of.certificate, json.dumps(made_of.report.to_dict())))
    assert found[0] == found[1]
    assert capfd.readouterr() == ("", "")
