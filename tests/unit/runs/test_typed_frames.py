"""Columns with nulls keep their values in data frames: whole numbers above 2^53 are no fractions there."""

from __future__ import annotations

import pytest

from dptext.runs.typed_frames import pandas_columns

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

LARGE = [2**53 + 1, None, 2**53 + 3, -7]


@pytest.mark.parametrize(
    ("kind", "dtype"), [("int64", "Int64"), ("int32", "Int32"), ("uint8", "UInt8"), ("bool", "boolean")]
)
def test_values_beside_nulls_stay_what_they_are(kind: str, dtype: str) -> None:
    values = [True, None, False] if kind == "bool" else LARGE if kind == "int64" else [3, None, 200]
    frame = pd.DataFrame(pandas_columns({"own": values}, {"own": kind}))
    assert str(frame["own"].dtype) == dtype
    assert [None if value is pd.NA else value for value in frame["own"]] == values


def test_values_without_nulls_have_the_types_of_numpy() -> None:
    frame = pd.DataFrame(pandas_columns({"own": [2**53 + 1, 2]}, {"own": "int64"}))
    assert (str(frame["own"].dtype), frame["own"].tolist()) == ("int64", [2**53 + 1, 2])
