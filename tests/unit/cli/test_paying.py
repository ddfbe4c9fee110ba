"""Who is charged, as the options of a command say it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import dptext as dp
from dptext.cli.app import app
from dptext.cli.paying import Paying, said_key
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
    assert shown == ["abababab", "stream", "not yet"]
    assert done.stdout.splitlines()[shown.index("stream") + 4].split()[-1] == "cdcdcdcd"


def test_a_charged_run_says_how_many_more_like_it_would_fit(books: str, tmp_path: Path) -> None:
    ledger = dp.Ledger.at(books)
    ledger.open_account("all", LIMIT, dataset="all")
    spec = dp.LabelOnly(epsilon=2.0, labels=("health", "money"))
    dp.save_model(spec.fit(public=dp.sample_records(20)), tmp_path / "model")
    (tmp_path / "in.jsonl").write_text('{"text": "a", "label": "money", "name": "ann"}\n', "utf-8")
    given = ["privatize", str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), "--model", str(tmp_path / "model")]
    given += ["--label-field", "label", "--force", "--ledger", books, "--account"]
    for spent, left, more in ((2, 7, "3"), (4, 5, "2"), (6, 3, "1"), (8, 1, "No")):
        done = CliRunner().invoke(app, [*given, "all"])
        assert done.exit_code == 0, (done.stderr, done.exception)
        said = f"Account 'all': spent {spent} of 9, left {left}. {more} more like it would fit.\n"
        assert said in done.stdout
    done = CliRunner().invoke(app, [*given, "notes", "--subject-field", "name"])
    assert "Account 'notes': spent 2 of 9, left 7.\n" in done.stdout
    (tmp_path / "many").mkdir()
    (tmp_path / "in.jsonl").rename(tmp_path / "many" / "in.jsonl")
    given[1:3] = [str(tmp_path / "many"), str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*given, "notes", "--everyone"])
    assert "Account 'notes': spent 4 of 9, left 5. 2 more like it would fit.\n" in done.stdout


def test_the_option_that_goes_on_comes_first_and_the_charge_key_for_lost_files(
    books: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_key(None) is None
    payment = said_key(Payment(dp.Ledger.at(books), "notes", "may"))
    assert payment is not None
    said = capsys.readouterr().err
    assert "--resume, which charges nothing twice." in said  # before anything is charged
    assert said.index("--resume") < said.index("files are lost") < said.index("--charge-key may")
