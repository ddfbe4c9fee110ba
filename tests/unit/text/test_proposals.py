"""What `check` proposes to the owner of a table: declarations that hold its values, rounded outwards."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.text.declarations import declared
from dptext.text.formats import cell_text
from dptext.text.proposals import Proposal


def proposed(values: list[object], *, unique: bool = False) -> str:
    found = Proposal()
    for value in values:
        found.add(cell_text(value))
    return found.line("c", unique=unique)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["low", "high", "low"], "c: high|low"),
        (["low", None, "high"], "c?: high|low"),
        ([3, 1, 2, 2.0], "c: 1|2|3"),
        ([10, 2, "1", "n/a"], "c: 1|2|10|n/a"),
        (["a|b", "*c"], "c: \\*c|a\\|b"),
        (["other", "x"], ""),
        ([True, False], "c: false|true"),
        ([*range(7, 94)], "c: 0..100 by 20"),
        ([*range(1_000, 20_000, 7)], "c: 0..20000 by 5000"),
        ([0.25 * i for i in range(60)], "c: 0.00..16.00 by 2.00"),
        ([f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(60)], "c: 2024-01-01..2024-12-31 by month"),
        ([f"word {i % 30}" for i in range(99)], ""),
        ([*range(50), "x" * 50], ""),
        ([None, ""], ""),
        ([], ""),
    ],
)
def test_a_declaration_fits_what_was_seen(values: list[object], line: str) -> None:
    assert proposed(values) == line
    if line:
        column = declared(line)
        cells = column.cells([cell_text(value) for value in values])
        assert all(
            cell < column.unlisted or (column.null and value is None) for cell, value in zip(cells, values, strict=True)
        )


def skewed(mean: float, n: int = 2_000) -> list[object]:
    """Quantiles of an exponential amount."""
    return [round(-mean * math.log(1 - (i + 0.5) / n), 2) for i in range(n)]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (skewed(60), "c: 0.00..500.00 by 10,20,50,100,200"),
        ([*skewed(60), 9_999.99], "c: 0.00..500.00 by 10,20,50,100,200"),  # one value changes nothing
        ([0.01, *skewed(60)], "c: 0.00..500.00 by 10,20,50,100,200"),
        (skewed(3_000), "c: 0.00..20000.00 by 500,1000,2000,5000,10000"),
        (skewed(7), "c: 0.00..50.00 by 2,5,10,20"),
        ([*map(round, skewed(100))], "c: 0..500 by 20,50,100,200"),
        ([None, *map(round, skewed(100))], "c?: 0..500 by 20,50,100,200"),
        ([*[0] * 6_000, *map(round, skewed(100))], "c: 0..500 by 1,2,5,10,20,50,100,200"),
        ([*range(1_000, 1_100), 9_000], "c: 0..2000 by 200,500,1000"),
        ([0, *[i / 1_000 for i in range(1, 20)], 1], "c: 0.00..1.00 by 0.01,0.02,0.05,0.1,0.2,0.5"),
        ([-1, *map(round, skewed(100))], "c: -200..1000 by 200"),  # below 0
        ([*range(100)], "c: 0..100 by 20"),
        ([i + 200 * (i > 180) for i in range(200)], "c: 0..400 by 50"),
    ],
)
def test_bins_of_a_skewed_number_grow_with_it(values: list[object], line: str) -> None:
    assert proposed(values) == line
    assert 4 <= len(declared(line).shown) <= 9


def test_values_that_are_all_different_are_ids() -> None:
    assert proposed(["T-1", "T-2"], unique=True) == "c: id"


def test_the_owner_alone_sees_them(tmp_path: Path) -> None:
    rows = [
        {"text": f"a letter of some words {i}", "size": ("s", "l")[i % 2], "n": i % 40, "key": f"k{i}"}
        for i in range(99)
    ]
    path = tmp_path / "private.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert "take out values that you would not know without this file:" in shown
    for line in ("--column 'size: l|s'", "--column 'n: 0..40 by 5'", "--column 'key: id'"):
        assert line in shown
    data = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)
    assert data["declarations"] == ["size: l|s", "n: 0..40 by 5", "key: id"]
    assert "k7" not in repr(Proposal({"k7"}))
