"""Rows in memory are read in parts, and a stream one row at a time: both give the same records and faults."""

import datetime as dt
import decimal
import math
from collections.abc import Iterator
from itertools import count, islice
from types import MappingProxyType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

import dptext as dp
from dptext.errors import DataError
from dptext.text.reading import read_records, read_rows
from dptext.text.records import Fields

PLAIN = ("a", "b", "", "nul\0", "\ud800", None, 1, 2, -(10**400), True, 1.5, math.nan, math.inf, b"x", ["a"])
OTHER = (np.int64(3), np.float32(0.1), np.str_("s"), dt.date(2024, 1, 2), decimal.Decimal("1.5"))
VALUES = st.sampled_from([*PLAIN, *OTHER])
READY = (dp.Record("a", "ready", kept={"k": 1}), dp.Record("", "no id"), dp.Record("r", "re\0"))
NAMES = ("n", "l", "w", "k", "m")
ROWS = st.one_of(
    st.fixed_dictionaries({"text": st.just("so")}, optional=dict.fromkeys(NAMES, VALUES)),
    st.fixed_dictionaries({"text": st.just("so"), **dict.fromkeys(NAMES, st.sampled_from(["a", "b", "c", 1]))}),
    st.dictionaries(st.sampled_from(["text", *NAMES]), VALUES),
    st.sampled_from(["alone", "nul\0", None, 3, *READY, MappingProxyType({"text": "so", "n": "p"})]),
)
FIELDS = st.builds(
    Fields,
    id=st.sampled_from([None, "n"]),
    label=st.sampled_from([None, "l"]),
    author=st.sampled_from([None, "w"]),
    keep=st.sampled_from([(), ("k",)]),
    measured=st.sampled_from([(), ("m",)]),
)


def found(rows: Iterator[Any]) -> tuple[list[object], str]:
    """The records, with the types of their values, and the error."""
    records: list[object] = []
    try:
        for each in rows:
            values = (each.id, each.label, each.author, *each.kept.values())
            records.append((each, dict(each.kept), [type(value) for value in values]))
    except DataError as error:
        return records, str(error)
    return records, ""


@given(rows=st.lists(ROWS, max_size=6), fields=FIELDS, empty_nulls=st.booleans())
@example(rows=[{"text": "so", "n": 1}, {"text": "la", "n": "1"}], fields=Fields(id="n"), empty_nulls=False)
@example(rows=[{"text": "so", "n": "x"}, dp.Record("", "no id")], fields=Fields(id="n"), empty_nulls=False)
@example(
    rows=[{"text": "so", "n": i, "l": i, "w": "a", "k": 1.5, "m": "b"} for i in (3, 4)],
    fields=Fields(id="n", label="l", author="w", keep=("k",), measured=("m",)),
    empty_nulls=False,
)
def test_a_list_is_read_as_a_stream_is(*, rows: list[Any], fields: Fields, empty_nulls: bool) -> None:
    batches = read_rows(rows, fields, empty_nulls=empty_nulls)
    wanted = read_records(iter(rows), fields, empty_nulls=empty_nulls)
    assert found(record for batch in batches for record in batch) == found(wanted)


@pytest.mark.parametrize("place", [0, 5, 1023, 1024, 3000])
def test_a_fault_stands_after_the_records_before_it(place: int) -> None:
    rows: list[dict[str, object]] = [{"text": "so", "n": i} for i in range(3001)]
    rows[place]["text"] = None
    records, error = found(record for batch in read_rows(rows, Fields(id="n")) for record in batch)
    assert len(records) == place
    assert f"record {place + 1}:" in error


def test_an_id_that_comes_again_in_a_later_part_is_refused() -> None:
    rows = [{"text": "so", "n": f"{i}"} for i in range(2000)]
    mixed = [dp.Record("7", "row by row"), *rows[8:1031], {"text": "la", "n": "7"}]
    with pytest.raises(DataError, match="record 1025: its id was used before"):
        list(read_rows(mixed, Fields(id="n")))
    for again in ({"text": "la", "n": "7"}, {"text": "la", "n": 1999}, dp.Record("1500", "la")):
        with pytest.raises(DataError, match="record 2001: its id was used before"):
            list(read_rows([*rows, again], Fields(id="n")))


def test_parts_have_a_bound_in_rows_and_in_characters() -> None:
    assert [len(batch) for batch in read_rows([{"text": "so"}] * 1500)] == [1024, 476]
    long = [{"text": "x" * 300_000}] * 9
    assert [len(batch) for batch in read_rows(long)] == [4, 4, 1]
    kept = [{"text": "so", "page": "x" * 300_000}] * 9
    assert [len(batch) for batch in read_rows(kept, Fields(keep=("page",)))] == [4, 4, 1]


@pytest.mark.parametrize("place", [None, 3, 1024])
def test_rows_are_numbered_over_all_parts(place: int | None) -> None:
    rows: list[object] = [{"text": "so"}] * 1500
    if place is not None:
        rows[place] = "read row by row"
    assert [each.id for batch in read_rows(rows) for each in batch] == list(map(str, range(1500)))


def test_no_row_of_a_stream_is_taken_too_early() -> None:
    taken: list[int] = []

    def rows() -> Iterator[str]:
        for i in count():
            taken.append(i)
            yield "so"

    assert len(list(islice(read_records(rows()), 3))) == 3
    assert taken == [0, 1, 2]
