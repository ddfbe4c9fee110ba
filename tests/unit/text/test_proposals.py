"""What `check` proposes to the owner of a table: declarations that hold its values, rounded outwards."""

from __future__ import annotations

import json
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
