"""Ledgers that fail in the middle of a run, on both databases; and what no error may show."""

import contextlib
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_faults import SHORT, Faulty, at, connect, shown
from ledger_processes import SUBJECT_KEY

from dptext.errors import ConfigError, LedgerError
from dptext.ledger.books import Ledger


@pytest.mark.slow_cases(
    "postgresql-charge, which was written",
    "postgresql-settle",
    "postgresql-settle, which was written",
    why="SQLite stays in full, PostgreSQL where nothing was written",
)
@pytest.mark.parametrize(
    "fails",
    [
        "charge",
        "charge, which was written",
        "settle",
        "settle, which was written",
    ],
)
def test_a_ledger_that_fails_in_the_middle_of_a_run(either: str, faulty: Callable[..., Faulty], fails: str) -> None:
    class Failing(Ledger):
        def charge(self, *args: Any, **named: Any) -> Any:
            if fails == "charge":
                raise LedgerError("It fails.")
            made = super().charge(*args, **named)
            if fails == "charge, which was written":
                raise LedgerError("It fails.", unsure=True)
            return made

        def settle(self, *args: Any, **named: Any) -> None:
            if fails == "settle":
                raise LedgerError("It fails.")
            super().settle(*args, **named)
            if fails == "settle, which was written":
                raise LedgerError("It fails.")

    found = faulty(Failing.at(either, key=SUBJECT_KEY))
    found.runs_nothing("It fails.")
    ledger = at(either)
    n = 0 if fails == "charge" else 2
    assert ledger.balance("account").charges == 30 + n
    if fails == "charge":  # surely not written: nothing to go on with
        assert not list(found.folder.iterdir())
        ledger.close()
        return
    for i, target in enumerate(found.unfinished, start=1):
        found.run(ledger, target, by_subject="True" in target.name, resume=True)
        assert ledger.balance("account").charges == 30 + max(n, i)
    assert len(found.unfinished) == 2
    assert len(list(found.folder.iterdir())) == 4
    assert len({each.release for each in ledger.log("account", last=2)} - {None}) == 2
    assert ledger.verify("account").problems == ()
    ledger.close()


def test_a_locked_ledger_refuses_a_run_that_is_then_begun_again(either: str, faulty: Callable[..., Faulty]) -> None:
    """The message says to run the command again; where files are left behind it says --resume."""
    found = faulty(either)
    with contextlib.ExitStack() as stack:
        if either.startswith("postgresql"):
            stack.enter_context(contextlib.closing(connect(either))).execute("select * from balances for update")
        else:
            other = stack.enter_context(contextlib.closing(sqlite3.connect(either, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        target = found.folder / "out.jsonl"
        message = found.refuses(
            lambda: found.run(found.ledger, target, by_subject=False), "is locked by another program"
        )
    left = list(found.folder.iterdir())
    assert bool(left) == ("--resume" in message)
    assert not (left and "run the command again" in message), message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user:SECRET@127.0.0.1:1/books",
        "postgresql://user:SECRET@127.0.0.1:1/books",
        "postgresql://user:SEC%2FSECRET@127.0.0.1:1/books",
        "postgresql://user:SEC/SECRET@127.0.0.1:1/books",
        "postgresql://user:SECRET@127.0.0.1:none/books",
        "postgresql://user:SECRET@127.0.0.1:1/books?sslmode=absent",
        "postgresql://user:SECRET@127.0.0.1:1/books?absent=1",
        "postgresql+psycopg2://user:SECRET@127.0.0.1:1/books",
        "mysql://user:SECRET@127.0.0.1:1/books",
        "sqlite://user:SECRET@127.0.0.1/books",
        "postgresql://127.0.0.1:1/books?user=user&password=SECRET",
        "postgresql://user@127.0.0.1:1/books?sslpassword=SECRET",
        "postgresql:///books?host=/absent&user=user&password=SECRET",
        "postgresql://user:half@SECRET@127.0.0.1:1/books",
        "user:SECRET@127.0.0.1:1/books",
        "//user:SECRET@127.0.0.1:1/books",
        "postgresql:/user:SECRET@127.0.0.1:1/books",
    ],
)
def test_no_error_shows_a_password_in_a_url(url: str) -> None:
    def use() -> None:
        ledger = Ledger.at(url, wait=SHORT)
        assert "SECRET" not in f"{ledger.name} {ledger!r} {ledger._database!r}"
        ledger.accounts()

    with pytest.raises(ConfigError) as caught:
        use()
    assert "SECRET" not in shown(caught.value)


@pytest.mark.parametrize("url", ["folder", "postgresql://user:SECRET@127.0.0.1:1/books"])
def test_a_traceback_does_not_show_the_words_of_the_driver(tmp_path: Path, url: str) -> None:
    location = str(tmp_path) if url == "folder" else url
    with pytest.raises(LedgerError) as caught:
        at(location).accounts()
    text = "".join(traceback.format_exception(caught.value))
    assert "sqlalchemy.exc" not in text
    assert "psycopg.Operational" not in text
