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
from dptext.privacy import accounting
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


def test_what_one_more_corpus_may_cost_is_said_where_it_is_not_what_is_left(books: dp.Ledger) -> None:
    said = "1 more summary or corpus fits with up to --epsilon "
    for name, delta in (("letters", 1e-5), ("notes", 0.0)):
        opened(books, name, 3.0, delta)
        assert said not in shown(name).stdout
        event = PureEvent(1.0) if not delta else accounting.calibrate(ZcdpEvent(1.0), 1.0, delta=delta)
        books.charge(name, Request((event,), dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE))
    assert f"{said}2.763 --delta 1e-05.\n" in shown("letters").stdout
    data = json.loads(shown("letters", "--json").stdout)
    assert (data["left"], data["epsilon_of_one_more_corpus"]) == (pytest.approx(2.0, abs=1e-6), 2.763)
    one = books.outlook("letters").largest(lambda each: accounting.calibrate(ZcdpEvent(1.0), each, delta=1e-5), 1)
    assert one == 2.763
    assert said not in shown("notes").stdout
    assert said not in shown("letters", "--releases", 2).stdout
    assert "epsilon_of_one_more_corpus" not in shown("notes", "--json").stdout
    assert said not in shown().stdout  # of several accounts each is asked by its name


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
