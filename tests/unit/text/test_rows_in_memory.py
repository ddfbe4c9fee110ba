"""Rows in memory: read in parts as one at a time, from a stream no row too early."""

import math
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

import dptext as dp
from dptext.errors import DataError
from dptext.text.reading import OnError, read_batches, read_records
from dptext.text.records import Fields

VALUES = st.sampled_from(["a", "b", "", "nul\0", "\ud800", None, 1, 2, True, 1.5, math.nan, math.inf, b"x", ["a"]])
ROWS = st.one_of(
    st.fixed_dictionaries({"text": st.just("so")}, optional={"n": VALUES, "l": VALUES, "w": VALUES, "k": VALUES}),
    st.dictionaries(st.sampled_from(["text", "n", "l", "w", "k"]), VALUES),
    st.sampled_from(["alone", "nul\0", None, 3, dp.Record("a", "ready", kept={"k": 1}), dp.Record("r", "re\0")]),
)
FIELDS = st.builds(
    Fields,
    id=st.sampled_from([None, "n"]),
    label=st.sampled_from([None, "l"]),
    author=st.sampled_from([None, "w"]),
    keep=st.sampled_from([(), ("k",)]),
)


def found(source: Any, fields: Fields, on_error: OnError) -> tuple[list[object], list[tuple[int, str]], str]:
    """The records, with their values' types, the skipped ones, and the error."""
    records: list[object] = []
    skipped: list[tuple[int, str]] = []
    try:
        for each in read_records(source, fields, on_error=on_error, on_skip=lambda *what: skipped.append(what)):
            records.append((each, [type(value) for value in each.kept.values()]))
    except DataError as error:
        return records, skipped, str(error)
    return records, skipped, ""


@given(st.lists(ROWS, max_size=6), FIELDS, st.sampled_from(OnError))
@example([{"text": "so", "n": 1}, {"text": "la", "n": "1"}], Fields(id="n"), OnError.SKIP)
def test_a_list_is_read_as_a_stream_is(rows: list[Any], fields: Fields, on_error: OnError) -> None:
    assert found(rows, fields, on_error) == found(iter(rows), fields, on_error)


@pytest.mark.parametrize("place", [0, 5, 1023, 1024, 3000])
def test_a_fault_stands_after_the_records_before_it(place: int) -> None:
    rows: list[dict[str, object]] = [{"text": "so", "n": i} for i in range(3001)]
    rows[place]["text"] = None
    records, _, error = found(rows, Fields(id="n"), OnError.STOP)
    assert len(records) == place
    assert f"record {place + 1}:" in error
    records, skipped, error = found(rows, Fields(id="n"), OnError.SKIP)
    assert (len(records), [number for number, _ in skipped], error) == (3000, [place + 1], "")


def test_an_id_that_comes_again_in_a_later_part_is_refused() -> None:
    rows = [{"text": "so", "n": f"{i}"} for i in range(2000)] + [{"text": "la", "n": "7"}]
    with pytest.raises(DataError, match="record 2001: its id was used before"):
        list(read_records(rows, Fields(id="n")))


def test_no_row_of_a_stream_is_taken_too_early() -> None:
    taken: list[int] = []

    def rows() -> Iterator[str]:
        for i in count():
            taken.append(i)
            yield "so"

    assert [len(batch) for batch in islice(read_batches(rows()), 3)] == [1, 1, 1]
    assert taken == [0, 1, 2]
    assert [len(batch) for batch in read_batches(["so"] * 1500)] == [1024, 476]
