"""No value of a measured column makes a record unreadable, whatever its type; absent values are null."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dptext.errors import ConfigError, HeaderError
from dptext.text.reading import read_batches, read_records
from dptext.text.records import Fields

FIELDS = Fields(measured=("c",))
N = 4
#: Arrow columns, and what is read of their first value.
TYPES: dict[str, tuple[Any, str | None]] = {
    "list": (pa.array([[1, 2]] * N), None),
    "struct": (pa.array([{"a": 1}] * N), None),
    "map": (pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())), None),
    "binary": (pa.array([b"\xff\x00"] * N), None),
    "duration": (pa.array([dt.timedelta(1)] * N), None),
    "null": (pa.nulls(N), None),
    "dictionary": (pa.array(["a", "b"] * 2).dictionary_encode(), "a"),
    "decimal": (pa.array([decimal.Decimal("1.50")] * N), "1.5"),
    "nanoseconds": (pa.array(np.array(["2024-01-01T00:00:00.000000001"] * N, "datetime64[ns]")), "2024-01-01T00:00:00"),
    "zone": (pa.array([dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)] * N), "2024-05-01T12:00:00"),
    "day": (pa.array([dt.date(2024, 5, 1)] * N), "2024-05-01"),
    "boolean": (pa.array([True] * N), "true"),
    "nan": (pa.array([float("nan"), 1.0, float("inf"), None]), None),
    "whole": (pa.array([2**64 - 1] * N, pa.uint64()), str(2**64 - 1)),
    "half": (pa.array(np.array([1.5] * N, np.float16)), "1.5"),
    "long": (pa.array(["x" * 100_000] * N, pa.large_string()), "x" * 100_000),
    "nul": (pa.array(["a\x00"] * N), None),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_row_is_read_whatever_the_type(name: str, tmp_path: Path) -> None:
    column, first = TYPES[name]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [f"text {i}" for i in range(N)], "c": column}), path)
    found = [record for batch in read_batches(path, FIELDS) for record in batch]
    assert [record.text for record in found] == [f"text {i}" for i in range(N)]
    value = found[0].kept["c"]
    assert value == first if first is None else str(value).startswith(first)
    assert all(record.kept["c"] is None or isinstance(record.kept["c"], str) for record in found)


def test_rows_without_the_key_and_values_of_any_kind_are_read(tmp_path: Path) -> None:
    values: list[Any] = ["a", None, 3, 2.0, [1], {"a": 1}, True, "\ud800", "x\x00"]
    rows: list[dict[str, Any]] = [*({"text": "so", "c": value} for value in values), {"text": "so"}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = ["a", None, "3", "2", None, None, "true", None, None, None]
    for source in (path, rows):
        assert [record.kept["c"] for record in read_records(source, FIELDS, first_fields=True)] == expected
    with pytest.raises(HeaderError, match="'c'"):
        list(read_records(rows[::-1], FIELDS, first_fields=True))


def test_a_data_frame_is_read_as_its_file_is() -> None:
    frame = pd.DataFrame({"text": ["so"] * N, "c": pd.Categorical(["a", None, "b", "a"])})
    assert [record.kept["c"] for record in read_records(frame, FIELDS)] == ["a", None, "b", "a"]
    days = pd.DataFrame(
        {"text": ["so"] * N, "c": pd.to_datetime(["2024-05-01", None, "2024-05-02 10:30", None], format="ISO8601")}
    )
    assert [record.kept["c"] for record in read_records(days, FIELDS)] == [
        "2024-05-01", None, "2024-05-02T10:30:00", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"measured": ("text",)},
        {"measured": ("c", "c")},
        {"measured": ("",)},
        {"measured": ("c",), "keep": ("c",)},
        {"measured": ("c",), "label": "c"},
        {"measured": ("c",), "author": "c"},
    ],
)
def test_a_measured_field_is_no_other_field(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        Fields(**given)
