"""`--dry-run` of `summarize`, `synthesize` and `privatize` of many files ends as the run would, and charges nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

import dptext as dp
from dptext.batch.engines import DatasetPlan
from dptext.batch.runs import rehearse_dataset
from dptext.cli.app import app
from dptext.cli.paying import PAID
from dptext.errors import BudgetExceededError, ConfigError, PrivacyError
from dptext.ledger.requests import Request
from dptext.ledger.subjects import create_subject_key
from dptext.privacy.events import ZcdpEvent
from dptext.runs.plan import Plan
from dptext.synthesis.summary import SummarySpec
from dptext.text.records import Fields

DELTA: Final = 1e-5
LIMIT: Final = dp.Guarantee(2.0, DELTA, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE)
LABELLED: Final = ("--label-field", "label", "--labels", "travel,money")
RUNS: Final = (("summarize", "private.jsonl", "out.summary"), ("synthesize", "private.jsonl", "out.csv"))


def request(rho: float) -> Request:
    return Request((ZcdpEvent(rho),), LIMIT.unit, LIMIT.relation)


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dp.Ledger:
    """Books with accounts, beside a private file and a pool. Commands run in their folder."""
    for name in ("private", "pool"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": name, "label": "money"}) + "\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    key = create_subject_key(tmp_path / "books.db.key")
    books = dp.Ledger.create(tmp_path / "books.db", key=key)
    for name, delta in (("notes", DELTA), ("pure", 0.0), ("people", DELTA)):
        limit = dp.Guarantee(2.0, delta, LIMIT.unit, LIMIT.relation)
        books.open_account(name, limit, by_subject=name == "people")
    return books


def rehearsed(run: tuple[str, ...], *more: object, account: str = "notes") -> Result:
    paid = ("--public", "pool.jsonl", *LABELLED, "--ledger", "books.db", "--account", account, "--dry-run")
    return CliRunner().invoke(app, [*run, *paid, *map(str, more)])


@pytest.mark.parametrize("run", RUNS)
def test_a_rehearsal_of_a_run_that_cannot_be_paid_is_refused_as_the_run(run: tuple[str, ...], books: dp.Ledger) -> None:
    done = rehearsed(run)
    assert done.exit_code == 0, done.exception
    # rho adds up: at delta 1e-5 three charges of epsilon 1 cost 1.825 together, and four 2.139.
    cost = "Cost: epsilon 1 alone. Account 'notes': spent 0 of 2, left 2. Afterwards 1 of 2 would be spent, and 2 more "
    assert f"{cost}like it would fit." in done.stdout
    charge = json.loads(rehearsed(run, "--json").stdout)["charge"]
    assert charge == {"account": "notes", "epsilon": 1.0, "spent_afterwards": 1.0, "more_like_it": 2}
    for account in ("notes", "people"):
        books.charge(account, request(0.1), key="earlier")
    for account, more in (("notes", ()), ("people", ("--subject-field", "label")), ("people", ("--everyone",))):
        done = rehearsed(run, *more, account=account)
        assert isinstance(done.exception, BudgetExceededError)
        assert done.stdout == ""
        assert len([*books.log(account)]) == 1
    assert isinstance(rehearsed(run, account="pure").exception, BudgetExceededError)


@pytest.mark.parametrize("run", RUNS)
def test_a_rehearsal_goes_on_where_an_output_is(run: tuple[str, ...], books: dp.Ledger) -> None:
    said = rehearsed(run).stdout
    for name in (run[2], f"{run[2]}.guarantee.json"):
        Path(name).write_text("there")
        done = rehearsed(run)
        assert (done.exit_code, done.stdout) == (0, said)
        assert f"{name} is there already: a run needs another name, or --force" in done.stderr
        assert "is there already" not in rehearsed(run, "--force").stderr
        assert Path(name).read_text() == "there"
        Path(name).unlink()
    Path(run[1]).rename(run[2])
    done = rehearsed((run[0], run[2], run[2]))
    assert "found a file that is read" in str(done.exception)


def test_a_rehearsal_counts_from_what_was_spent_and_not_for_subjects_by_name(books: dp.Ledger) -> None:
    due = dp.Payment(books, "notes").due(SummarySpec(labels=("travel", "money")), randomness=dp.randomness.secure())
    books.charge("notes", due.request, key="earlier")
    for spent, more in (("1.461", "1 more"), ("1.825", "no more")):
        said = rehearsed(RUNS[0]).stdout.splitlines()[-1]
        assert said.endswith(f"Afterwards {spent} of 2 would be spent, and {more} like it would fit."), said
        books.charge("notes", due.request, key=spent)
    by_name = rehearsed(RUNS[0], "--subject-field", "label", account="people").stdout.splitlines()[-1]
    assert by_name == "Cost: epsilon 1 alone, added to what was spent. Account 'people': spent 0 of 2, left 2."
    everyone = rehearsed(RUNS[0], "--everyone", account="people").stdout.splitlines()[-1]
    assert everyone.endswith("and 2 more like it would fit.")


def test_a_rehearsal_knows_the_charge_of_its_key(books: dp.Ledger) -> None:
    books.charge("notes", request(0.1), key="other")
    assert isinstance(rehearsed(RUNS[0], "--charge-key", "other").exception, PrivacyError)
    spec = SummarySpec(labels=("travel", "money"))
    due = dp.Payment(books, "notes", "mine").due(spec, randomness=dp.randomness.secure())
    books.charge("people", due.request, key="mine")
    done = rehearsed(RUNS[0], "--charge-key", "mine", "--everyone", account="people")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, PAID)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("absent", ["private.jsonl", "pool.jsonl", "parts/*.jsonl"])
def test_a_rehearsal_misses_a_file_that_is_not_there(run: tuple[str, ...], absent: str, books: dp.Ledger) -> None:
    source = absent if "*" in absent else run[1]
    Path(absent).unlink(missing_ok=True)
    done = rehearsed((run[0], source, run[2]))
    assert isinstance(done.exception, ConfigError)
    assert absent in str(done.exception)
    assert ("No such file" in str(done.exception)) == ("*" not in absent)


def test_a_rehearsal_of_many_files_that_cannot_be_paid_is_refused_as_the_run(books: dp.Ledger) -> None:
    books.open_account("labels", dp.Guarantee(2.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE))
    Path("parts").mkdir()
    Path("private.jsonl").rename("parts/one.jsonl")
    public = [each for each in dp.sample_records(60) if each.label in ("travel", "money")]
    fitted = {n: dp.LabelOnly(epsilon=n, labels=("travel", "money")).fit(public=public) for n in (1.0, 3.0)}
    for n, each in fitted.items():
        dp.save_model(each, f"model {n:g}")
    paid = ("--label-field", "label", "--ledger", "books.db", "--account", "labels", "--dry-run")

    def tried(epsilon: int, *more: str) -> Result:
        return CliRunner().invoke(app, ["privatize", "parts", "out", "--model", f"model {epsilon}", *paid, *more])

    done = tried(1)
    assert done.exit_code == 0, (done.stderr, done.exception)
    assert done.stdout.splitlines()[-1] == (
        "Cost: epsilon 1 alone. Account 'labels': spent 0 of 2, left 2. Afterwards 1 of 2 would be spent, and 1 more "
        "like it would fit."
    )
    assert isinstance(tried(3).exception, BudgetExceededError)
    how = {"dataset": DatasetPlan(), "seed": None, "payment": dp.Payment(books, "labels", "mine")}
    *_, due, _ = rehearse_dataset("parts", "out", fitted[1], plan=Plan(Fields(label="label")), **how)
    assert due is not None
    due.charge("mine", None)
    assert tried(1, "--charge-key", "mine").stdout.splitlines()[-1] == PAID
    assert len([*books.log("labels")]) == 1
