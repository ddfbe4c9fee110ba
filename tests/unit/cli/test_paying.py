"""Who is charged, as the options of a command say it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import dptext as dp
from dptext.cli.app import app
from dptext.cli.paying import Paying
from dptext.errors import ConfigError
from dptext.ledger.requests import Request
from dptext.ledger.subjects import SubjectKey, create_subject_key
from dptext.privacy.events import PureEvent
from dptext.runs.certificate import stream_mark
from dptext.runs.payment import Payment
from dptext.text.records import Fields

LIMIT = dp.Guarantee(9.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)


@pytest.fixture
def books(tmp_path: Path) -> str:
    """Books with an account by subject, whose key lies beside them."""
    path = tmp_path / "budget.db"
    key: SubjectKey = create_subject_key(tmp_path / "budget.db.key")
    dp.Ledger.create(path, key=key).open_account("notes", LIMIT, by_subject=True)
    return str(path)


def test_everyone_is_charged_only_where_that_is_said(books: str) -> None:
    spec = dp.LabelOnly(epsilon=1.0, labels=("a", "b"))
    how = {"randomness": dp.randomness.secure()}

    def paid(**said: object) -> Payment:
        found = Paying(ledger=books, account="notes", **said).payment()  # type: ignore[arg-type]
        assert found is not None
        return found

    with pytest.raises(ConfigError, match="--everyone"):
        paid().due(spec, **how)
    assert paid(everyone=True).due(spec, **how).account.by_subject
    named = paid(subject_field="name", charge_key="k")
    assert (named.key, named.everyone) == ("k", False)
    assert named.due(spec, fields=Fields(subject="name"), **how).account.by_subject


def test_the_log_shows_enough_of_a_release_to_tell_it_from_others(books: str) -> None:
    ledger = dp.Ledger.at(books)
    ledger.open_account("all", LIMIT, dataset="all")
    for key, release in (("one", "ab" * 32), ("two", stream_mark("cd" * 32)), ("three", "")):
        ledger.charge("all", Request((PureEvent(1.0),), LIMIT.unit), key=key)
        if release:
            ledger.settle("all", key, release)
    done = CliRunner().invoke(app, ["budget", "log", "all", "--ledger", books])
    shown = [line.rstrip().rpartition("   ")[2] for line in done.stdout.splitlines() if "everyone" in line]
    assert shown == ["abababab", "stream cdcdcdcd", "not yet"]
