"""`dptext budget show`: names have room in a narrow terminal, and `--releases` says what so many releases may cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dptext as dp
from dptext.cli.app import app
from dptext.errors import ConfigError
from dptext.ledger.requests import Request
from dptext.privacy.events import PureEvent, ZcdpEvent


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dp.Ledger:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return dp.Ledger.create(tmp_path / "books.db")


def opened(books: dp.Ledger, name: str, epsilon: float, delta: float, dataset: str | None = None) -> None:
    limit = dp.Guarantee(epsilon, delta, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE)
    books.open_account(name, limit, dataset=dataset)


def shown(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["budget", "show", *map(str, arguments), "--ledger", "books.db"])


def test_names_are_not_broken(books: dp.Ledger) -> None:
    opened(books, "reviews-of-the-year-2026", 123.456, 1.25e-6, "the reviews of 2026")
    books.charge(
        "reviews-of-the-year-2026",
        Request((ZcdpEvent(0.1),), dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE),
    )
    lines = [line.strip() for line in shown().stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    row = next(line.split() for line in lines if "reviews-of-the-year-2026" in line)
    assert row == ["reviews-of-the-year-2026", "123.456", "2.121", "121.335", "1", "everyone"]
    for line in ("of the reviews of 2026", "per document", "add or remove one", "delta 1.25e-06"):
        assert line in lines


def test_so_many_releases_may_cost_so_much(books: dp.Ledger) -> None:
    for name, delta in (("letters", 1e-5), ("notes", 0.0)):
        opened(books, name, 3.0, delta)
    corpora = "summaries or corpora with --epsilon 1.63 --delta 1e-05, or others of epsilon 1 at delta 0"
    for name, said in (
        ("letters", f"3 more equal releases would fit: {corpora}."),
        ("notes", "3 more equal releases of epsilon 1 at delta 0 would fit."),
    ):
        assert shown(name, "--releases", 3).stdout.splitlines()[-1] == said
    data = json.loads(shown("letters", "--releases", 3, "--json").stdout)
    assert (data["releases"], data["epsilon_of_corpora"], data["epsilon_at_delta_0"]) == (3, 1.63, 1.0)
    books.charge("notes", Request((PureEvent(3.0),), dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE))
    last = shown("notes", "--releases", 1).stdout.splitlines()[-1]
    assert last == "Not even 1 more equal release of epsilon 0.001 would fit."
    for wrong in (("letters", "--releases", 0), ("--releases", 3)):
        error = shown(*wrong).exception
        assert isinstance(error, ConfigError)
        assert "--releases N from 1" in str(error)
