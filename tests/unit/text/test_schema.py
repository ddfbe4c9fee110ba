"""Columns of a table: each value has one cell, by the declaration alone, and is written in the declared form."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.text.declarations import declared, schema_of, with_files
from dptext.text.formats import as_string, cell_text
from dptext.text.schema import DateColumn, DeclaredColumn, IdColumn, ListedColumn, NumberColumn

COLUMNS = [
    "priority: low|normal|high", "priority?: low|normal|high|*rest", "stars: 1..5 by 1", "amount: 0.00..99.99 by 10",
    "amount?: -50..50 by 7", "day: 2024-02-10..2024-03-20 by week", "month?: 2023-11..2025-02 by quarter",
    "year: 2001-01-01..2010-12-31 by year", "odd: a\\|b|\\*c|d\\\\e",
    "fee: 0.00..500.00 by 10,25,50,100,250", "change?: -50..50 by -10,0,1,2",
]  # fmt: skip
SPELLED = [declared(each).declaration for each in COLUMNS]


def cell(declaration: str, value: object) -> str:
    """The name of the cell of a value."""
    column = declared(declaration)
    (found,) = column.cells([cell_text(value)]).tolist()
    return column.names[found]


@pytest.mark.parametrize("text", COLUMNS)
def test_a_declaration_is_read_as_it_is_written(text: str) -> None:
    column = declared(text)
    assert declared(column.declaration) == column
    assert len(column) == len(column.names) == len(set(column.names))


@pytest.mark.parametrize("text", SPELLED)
def test_what_is_written_of_a_cell_stands_in_that_cell(text: str) -> None:
    column = declared(text)
    cells = np.tile(np.arange(len(column)), 20)
    written = column.values(cells, seeded(1))
    again = column.cells([cell_text(value) for value in written])
    listed = cells < column.unlisted
    assert np.array_equal(again[listed], cells[listed])
    kinds = {
        float if isinstance(value, float) else type(value)
        for value, there in zip(written, listed.tolist(), strict=True)
        if there
    }
    assert kinds == {{"int64": int, "double": float}.get(column.arrow, str)}
    if not isinstance(column, ListedColumn):
        assert {value for value, there in zip(written, listed.tolist(), strict=True) if not there} == {None}


@pytest.mark.parametrize(
    ("declaration", "value", "name"),
    [
        ("p: low|high", "low", "low"),
        ("p: low|high", " low ", "low"),
        ("p: low|high", "LOW", "other"),
        ("p: low|high", None, "other"),
        ("p: low|high", "", "other"),
        ("p?: low|high", "", "null"),
        ("p?: low|high", float("nan"), "null"),
        ("p?: low|high", [1], "null"),
        ("p: low|high", "lo\x00w", "other"),
        ("p: low|high|*rest", "other", "rest"),
        ("p: 1|2", 1.0, "1"),
        ("p: 1|2", Decimal("2.00"), "2"),
        ("p: true|false", True, "true"),
        ("p: 2024-05-01|x", dt.datetime(2024, 5, 1), "2024-05-01"),
        ("n: 0..9 by 5", 4.99, "0 to 4"),
        ("n: 0..9 by 5", "5", "5 to 9"),
        ("n: 0..9 by 5", -7, "0 to 4"),
        ("n: 0..9 by 5", 1e300, "5 to 9"),
        ("n: 0..9 by 5", "-1e999999999", "0 to 4"),
        ("n: 0..9 by 5", "1e-999999999", "0 to 4"),
        ("n: 0..9 by 5", "1e99999999999999999999", "other"),
        ("n: 0..9 by 5", "NaN", "other"),
        ("n: 0..9 by 5", "inf", "other"),
        ("n: 0..9 by 5", "3,5", "other"),
        ("n: 0..9 by 5", "9" * 500, "other"),
        ("n?: 0..9 by 5", "many", "null"),
        ("n: 0..9 by 1,4", 0, "0"),
        ("n: 0..9 by 1,4", 3.99, "1 to 3"),
        ("n: 0..9 by 1,4", "4", "4 to 9"),
        ("n: 0..9 by 1,4", "9", "4 to 9"),
        ("n: 0..9 by 1,4", 1e300, "4 to 9"),
        ("n: 0..9 by 1,4", -1, "0"),
        ("n: 0.00..9.00 by 1,4", "0.999", "0.00 to 0.99"),
        ("n?: 0..9 by 5", math.inf, "null"),
        ("n?: 0..9 by 5", True, "null"),
        ("d: 2024-01..2024-12 by month", "2024-03-31T23:59:59Z", "2024-03"),
        ("d: 2024-01..2024-12 by month", dt.date(2024, 3, 1), "2024-03"),
        ("d: 2024-01..2024-12 by month", "2024-03", "2024-03"),
        ("d: 2024-01..2024-12 by month", pd.Timestamp("2024-03-05 10:00:00.000000001"), "2024-03"),
        ("d?: 2024-01..2024-12 by month", pd.NaT, "null"),
        ("d: 2024-01..2024-12 by month", "2019-01-01", "2024-01"),
        ("d: 2024-01..2024-12 by month", "2031-01-01", "2024-12"),
        ("d: 2024-01..2024-12 by month", "2024-02-30", "other"),
        ("d: 2024-01..2024-12 by month", "0000-01-01", "other"),
        ("d: 2024-01..2024-12 by month", "March", "other"),
        ("d: 2024-01..2024-12 by month", "2024-03-05 garbage", "other"),
        ("d: 2024-01..2024-12 by month", "2024-03-05T", "other"),
        ("d: 2024-01..2024-12 by month", "2024-03-05 10:00 or so", "other"),
        ("d?: 2024-01..2024-12 by month", "2024-03-05 99:00", "null"),
        ("d: 2024-01..2024-12 by month", "2024-03-05 9:30 pm", "2024-03"),
        ("d: 2024-01..2024-12 by month", "2024-03-05T10:00:00.123456+02:00", "2024-03"),
        ("d: 2024-01..2024-12 by month", "2024-03-05 10:00:00 UTC", "2024-03"),
        ("p: 1|2", "9" * 5_000, "other"),
        ("d?: 2024-01..2024-12 by month", UUID(int=5), "null"),
    ],
)
def test_a_value_has_the_cell_that_its_declaration_gives(declaration: str, value: object, name: str) -> None:
    assert cell(declaration, value) == name


anything = st.one_of(
    st.text(max_size=40), st.integers(), st.floats(), st.decimals(), st.dates(), st.datetimes(), st.none(),
    st.booleans(), st.binary(max_size=4), st.lists(st.integers(), max_size=2),
    st.from_regex(r"[+-]?[0-9._]{1,12}([eE][+-]?[0-9]{1,9})?", fullmatch=True),
)  # fmt: skip


@given(value=anything)
def test_no_value_raises_or_changes_another(value: object) -> None:
    text = cell_text(value)
    for declaration in COLUMNS:
        column = declared(declaration)
        alone = int(column.cells([text])[0])
        assert 0 <= alone < len(column)
        assert column.cells(["low", text, None, text]).tolist()[1::2] == [alone, alone]


def test_numbers_are_uniform_within_a_bin_and_end_at_the_ends() -> None:
    column = declared("n: 0..9 by 4")
    assert column.names == ("0 to 3", "4 to 7", "8 to 9", "other")
    drawn = column.values(np.repeat([0, 2], 4_000), seeded(3))
    first, last = (np.bincount(part, minlength=10) for part in (drawn[:4_000], drawn[4_000:]))
    assert np.abs(first[:4] - 1_000).max() < 5 * math.sqrt(750)
    assert first[4:].sum() == 0
    assert np.abs(last[8:] - 2_000).max() < 5 * math.sqrt(1_000)
    days = declared("d: 2024-02-27..2024-03-02 by month")
    assert sorted(set(days.values(np.zeros(200, np.int64), seeded(1)))) == ["2024-02-27", "2024-02-28", "2024-02-29"]


def test_numbers_are_uniform_within_bins_of_different_widths() -> None:
    column = declared("n: 0..9 by 1,3")
    drawn = column.values(np.repeat([0, 1, 2], 4_200), seeded(3))
    first, second, last = (np.bincount(part, minlength=10) for part in np.split(np.array(drawn), 3))
    assert first.tolist() == [4_200, *[0] * 9]
    assert np.abs(second[1:3] - 2_100).max() < 5 * math.sqrt(1_050)
    assert np.abs(last[3:] - 600).max() < 5 * math.sqrt(600)
    assert second.sum() + last.sum() == second[1:3].sum() + last[3:].sum()


bounds = st.lists(st.integers(-(10**6), 10**6), min_size=4, max_size=12, unique=True).map(sorted)


@given(steps=bounds, decimals=st.integers(0, 3), value=st.integers(-(10**6), 10**6))
def test_a_number_stands_in_the_bin_that_begins_at_or_below_it(steps: list[int], decimals: int, value: int) -> None:
    low, *begins, high = (f"{Decimal(step).scaleb(-decimals):f}" for step in steps)
    column = declared(f"n: {low}..{high} by {','.join(begins)}")
    assert declared(column.declaration) == column
    assert isinstance(column, NumberColumn)
    assert (column.low, column.by, column.high) == (steps[0], tuple(steps[1:-1]), steps[-1])
    (cell,) = column.cells([f"{Decimal(value).scaleb(-decimals):f}"]).tolist()
    assert cell == max(0, sum(step <= value for step in steps[:-1]) - 1)
    cells = np.tile(np.arange(column.unlisted), 3)
    written = column.values(cells, seeded(1))
    assert np.array_equal(column.cells([cell_text(each) for each in written]), cells)


@pytest.mark.parametrize(
    ("declaration", "middles"),
    [
        ("n: 0..9 by 4", [1.5, 5.5, 8.5]),
        ("n: 0.0..1.0 by 0.5", [0.2, 0.7, 1.0]),
        ("n: 0..9 by 1,4", [0, 2, 6.5]),
        ("n: 0.0..100.0 by 10,50", [4.95, 29.95, 75.0]),
    ],
)
def test_the_middle_of_a_bin_is_that_of_its_numbers(declaration: str, middles: list[float]) -> None:
    column = declared(declaration)
    assert isinstance(column, NumberColumn)
    assert column.middles.tolist() == pytest.approx(middles)


def test_a_number_without_width_has_about_twenty_bins() -> None:
    assert len(declared("n: 0..999").shown) == 20
    assert len(declared("n: 1..5").shown) == 5
    assert declared("n: 0.00..500.00 by 100").shown[-1] == "500.00 and more"  # as numbers above the end count there
    assert declared("n: 1..5").shown[-1] == "5"
    assert declared("n: 0.0..1.0").declaration == "n: 0.0..1.0 by 0.1"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("n: 0..100 BY 20", "n: 0..100 by 20"),
        ("n: .5..1", "n: 0.5..1.0 by 0.1"),
        ("n: -.5...5 by .5", "n: -0.5..0.5 by 0.5"),
        ("n: 0.00..9.00 by 1.00 , 2.5", "n: 0.00..9.00 by 1,2.5"),
        ("n: 0..9 BY 1,2", "n: 0..9 by 1,2"),
        ("n: 0..900 by 100,200", "n: 0..900 by 100,200"),
        ("d: 2024-01..2024-12 BY Quarter", "d: 2024-01..2024-12 by quarter"),
        ("c: id BY 5", "c: id by 5"),
        ("n: 1..5|x|*other", "n: 1..5|x|*other"),
    ],
)
def test_other_spellings_of_a_declaration(text: str, meant: str) -> None:
    assert declared(text).declaration == meant
    assert declared(meant) == declared(text)


def test_values_of_a_file_are_values_whatever_they_look_like() -> None:
    column = declared(with_files("n: @values.txt", lambda _: ["1..5", "6..10", "more"]))
    assert column.shown == ("1..5", "6..10", "more")
    assert declared(column.declaration) == column


def test_an_id_has_as_many_rows_as_declared_at_random_places() -> None:
    column = declared("customer: id by 4")
    assert column == declared(column.declaration)
    found = column.values(np.zeros(42, np.int64), seeded(1))
    assert sorted(found.count(each) for each in set(found)) == [2, *[4] * 10]
    assert sum(a == b for a, b in itertools.pairwise(found)) < 15  # 31 if they stood together


def test_fresh_ids_follow_no_value_and_have_no_order() -> None:
    column = declared("customer: id")
    assert isinstance(column, IdColumn)
    found = column.values(np.zeros(500, np.int64), seeded(1))
    assert len(set(found)) == 500
    assert found != sorted(found)
    assert all(isinstance(each, str) and len(each) == 16 for each in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("priority", "look like 'NAME: WHAT'"),
        (": a|b", "look like 'NAME: WHAT'"),
        ("p:", "look like 'NAME: WHAT'"),
        ("p?: id", "not to be null"),
        ("p: id by 0", "in at least one row"),
        ("p: low,high", "to be declared as"),
        ("p: 0..500, by 25", "to be declared as"),
        ("p: 0..500 step 25", "to be declared as"),
        ("p: 0-500", "to be declared as"),
        ("p: 2026-1..2026-12 by month", "to be declared as"),
        ("p: 2024..2026 by year", "to be declared as|by"),
        ("p: ID", "to be declared as"),
        ("p: 1..5|x", r"found the range '1\.\.5' in a list\. Declare the range alone"),
        ("p: x|2024-01..2024-12 by month", "found the range"),
        ("p: 0.." + "9" * 500, "at most 15 digits before the point and 9 after it"),
        ("p: 0..5 by " + "9" * 500, "at most 15 digits"),
        ("p: 0..0." + "0" * 500 + "1", "at most 15 digits"),
        ("p: @values.txt", "to be declared as"),
        ("p: 0.000000000..99999999999.000000000 by 10000000000", "to have fewer digits"),
        ("p: a|a", "to differ, found 'a'"),
        ("p: 1|1.0", "found '1' twice or in two spellings"),
        ("p: true|True", "in two spellings"),
        ("p: other|b", r"Name that text.*a\|b\|\*rest"),
        ("p: a|*b|*c", "at most one text for all others"),
        ("p: *b", "to list values"),
        ("p: a||b", "none of them empty"),
        ("p: a|b\tc", "without control characters"),
        ("n: 5..5 by 1", "to grow"),
        ("n: 9..5 by 1", "to grow"),
        ("n: 0..5 by 0", "wider than 0"),
        ("n: 0..5 by -1", "wider than 0"),
        ("n: 0..50 by 10,", "to be declared as"),
        (
            "n: 0..50 by 25,10",
            r"above 0 and below 50, found '25,10'\. Name the first number of each bin after",
        ),
        ("n: 0..50 by 10,10", "to begin at numbers that grow"),
        ("n: 0..50 by 0,10", "to begin at numbers that grow"),
        ("n: 0..50 by 10,50", "to begin at numbers that grow"),
        ("n: 0..50 by -1,10", "to begin at numbers that grow"),
        ("n: 0..50.0 by 1,2.25", r"found 2\.25 in 0\.\.50\.0\. Write the ends as 0\.00\.\.50\.00, or"),
        ("n: 0..50 by 1," + "9" * 500, "at most 15 digits"),
        ("n: 0..50000 by " + ",".join(map(str, range(1, 30_000))), "at most 20,000 values or bins"),
        ("n: 0..1000000 by 1", "at most 20,000 values or bins"),
        ("d: 2024-01..2024-02-01 by day", "both ends of 'd' to be days, or both months"),
        ("d: 2024-01..2024-05 by day", "by one of month, quarter, year"),
        ("d: 2024-01-01..2024-05-01 by hour", "by one of day, week"),
        ("d: 2024-13..2025-01 by month", "to be dates"),
        ("d: 2025-01..2024-01 by month", "to grow"),
        ("d: 1000-01-01..9000-01-01 by day", "at most 20,000"),
        ("d: 2024-01-01..9999-12-31 by year", "to grow"),
    ],
)
def test_what_is_no_declaration_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        declared(text)


@pytest.mark.parametrize(
    "lines", [["a\\", "b"], ["\\*x", "y"], ["*z", "q"], ["a|b"], ["id"], ["0..5"], ["2024-01..2024-05"]]
)
def test_values_of_a_file_are_what_they_are_and_are_read_again(lines: list[str]) -> None:
    column = declared(with_files("x: @values.txt", lambda _: lines))
    assert isinstance(column, ListedColumn)
    assert column.listed == tuple(lines)
    assert declared(column.declaration) == column


def test_a_listed_null_has_another_name_than_the_cell_of_null() -> None:
    assert declared("x?: null|a").names == ("null", "a", "other", "no value")


def test_a_schema_has_each_name_once_and_values_from_files() -> None:
    with pytest.raises(ConfigError, match="each column once, found 'a' twice"):
        schema_of(["a: x|y", "a: 1..5"])
    found = with_files("country: @names.txt", lambda path: [f"{path.stem} one", "a|b", "", "*c"])
    column: DeclaredColumn = declared(found)
    assert column.names == ("names one", "a|b", "*c", "other")
    assert with_files("n: 1..5", lambda path: [str(path)]) == "n: 1..5"
    assert isinstance(declared("d: 2024-01..2024-02"), DateColumn)


def test_text_formats_have_the_decimals_of_the_declaration() -> None:
    column = schema_of(["p: 0.00..2.00 by 1"])[0]
    values = column.values(np.array([0, 1, 2]), seeded(3))
    assert all(isinstance(value, float) for value in values)
    assert [as_string(value) for value in values] == [f"{value:.2f}" for value in values]
    assert as_string(values[-1]) == "2.00"
    assert json.dumps(values) == json.dumps([float(value) for value in values])
