"""What a key pays for: one charge, one release; and the log of it."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from ledger_tools import Raw, fresh, opened, request

from dptext.errors import BudgetExceededError, ConfigError, PrivacyError
from dptext.ledger import statements
from dptext.ledger.books import Ledger
from dptext.ledger.requests import Request, Terms
from dptext.privacy.events import GaussianEvent, TopKEvent
from dptext.privacy.guarantee import Basis, Trust

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


# ----------------------------------------------------------------------------------------- idempotency


def test_a_key_charges_once(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 1.0)
    first = ledger.charge(name, request(0.5, 0.25, kind="x"), key="run")
    before = raw.dump()
    for again in (request(0.5, 0.25, kind="x"), request(0.25, 0.5, kind="x")):
        found = ledger.charge(name, again, key="run")
        assert (found.number, found.key, found.at, found.release) == (first.number, "run", first.at, None)
    assert raw.dump() == before
    assert ledger.balance(name).spent.epsilon == 0.75


def test_a_key_still_stands_where_nothing_is_left(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 1.0, by_subject=True)
    first = ledger.charge(name, request(0.75), key="all")
    second = ledger.charge(name, request(0.25), key="one", subjects=["anna"])
    before = raw.dump()
    assert ledger.charge(name, request(0.75), key="all") == first
    assert ledger.charge(name, request(0.25), key="one", subjects=["anna"]) == second
    assert raw.dump() == before


def test_without_a_key_each_charge_is_a_new_one(ledger: Ledger) -> None:
    name = opened(ledger, 2.0)
    made = [ledger.charge(name, request(0.5)) for _ in range(4)]
    assert len({charge.number for charge in made}) == len({charge.key for charge in made}) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", charge.key) for charge in made)


DIFFERENT = [
    request(0.5),
    request(0.25, 0.25),
    request(0.25, kind="x", more=None),
    request(0.25, kind="y"),
    request(0.25, kind="x", units=2),
    request(0.25, kind="x", terms=Terms(Trust.CENTRAL)),
    request(0.25, kind="x", terms=Terms(basis=Basis.CONDITIONAL)),
    request(0.25, kind="x", terms=Terms(assumptions=("a",))),
    request(0.25, kind="x", terms=Terms(reveals=("a",))),
    request(TopKEvent(0.25, 1, 10), kind="x"),
    request(99.0),
]


@pytest.mark.parametrize("other", DIFFERENT, ids=range(len(DIFFERENT)))
def test_a_key_of_another_request_is_refused(ledger: Ledger, raw: Raw, other: Request) -> None:
    name = opened(ledger, 2.0)
    ledger.charge(name, request(0.25, kind="x"), key="run")
    before = raw.dump()
    with pytest.raises(PrivacyError, match=r"charge key 'run' of account .* paid for another run") as caught:
        ledger.charge(name, other, key="run")
    assert not isinstance(caught.value, BudgetExceededError)
    assert "Nothing is charged and nothing is released." in str(caught.value)
    assert raw.dump() == before


OTHER_SUBJECTS = [
    None,
    [],
    ["anna"],
    ["bert", "anna"],
    ["anna", "bert", "carl"],
    ["anna", "carl"],
    ["anna", "bert", "bert"],
    ["anna", "anna", "bert"],
]


@pytest.mark.slow_cases("postgresql", why="keys are compared alike on SQLite, which stays")
@pytest.mark.parametrize("other", OTHER_SUBJECTS, ids=str)
def test_a_key_of_other_subjects_is_refused(ledger: Ledger, raw: Raw, other: list[str] | None) -> None:
    name = opened(ledger, 2.0, by_subject=True)
    asked = request(0.25, units=2)
    for key, subjects in (("named", ["anna", "bert"]), ("all", None), ("nobody", [])):
        ledger.charge(name, asked, key=key, subjects=subjects)
    before = raw.dump()
    with pytest.raises(PrivacyError, match="paid for another run"):
        ledger.charge(name, asked, key="named", subjects=other)
    for key, same in (("all", None), ("nobody", [])):
        if other == same:
            assert ledger.charge(name, asked, key=key, subjects=other).subjects == (None if other is None else 0)
        else:
            with pytest.raises(PrivacyError, match="paid for another run"):
                ledger.charge(name, asked, key=key, subjects=other)
    assert raw.dump() == before


def test_a_key_belongs_to_its_account(ledger: Ledger) -> None:
    one, two = opened(ledger), opened(ledger)
    first = ledger.charge(one, request(0.5), key="run")
    second = ledger.charge(two, request(0.75), key="run")
    assert first.number != second.number
    assert [ledger.balance(name).spent.epsilon for name in (one, two)] == [0.5, 0.75]
    ledger.settle(one, "run", "release one")
    ledger.settle(two, "run", "release two")
    assert [charge.release for name in (one, two) for charge in ledger.log(name)] == ["release one", "release two"]


@pytest.mark.parametrize("subjects", [None, ["anna", "bert"]])
@pytest.mark.parametrize("whole", [1.0, 10.0])
def test_a_key_that_another_used_while_this_one_waited(
    ledger: Ledger, raw: Raw, monkeypatch: pytest.MonkeyPatch, subjects: list[str] | None, whole: float
) -> None:
    """Whoever waits for the account sees the new balance, and not the charge that came with it."""
    name = opened(ledger, whole, by_subject=True)
    first = ledger.charge(name, request(1.0, kind="x"), key="run", subjects=subjects)
    before = raw.dump()
    locked = statements.locked_account
    monkeypatch.setattr(
        statements,
        "locked_account",
        lambda *args, **more: SimpleNamespace(**{**locked(*args, **more)._mapping, "previous_id": None}),
    )
    assert ledger.charge(name, request(1.0, kind="x"), key="run", subjects=subjects) == first
    for asked, others in [(request(1.0, kind="y"), subjects), (request(1.0, kind="x"), ["anna"])]:
        with pytest.raises(PrivacyError, match="paid for another run"):
            ledger.charge(name, asked, key="run", subjects=others)
    if whole == 1.0:
        with pytest.raises(BudgetExceededError):
            ledger.charge(name, request(1.0, kind="x"), key="another run", subjects=subjects)
    assert raw.dump() == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (request(GaussianEvent(3)), request(GaussianEvent(3.0))),
        (request(0.3125, n=1), request(0.3125, n=1.0)),
        (request(0.3125, n=1), request(0.3125, n=True)),
    ],
)
def test_a_digest_is_that_of_its_text(ledger: Ledger, one: Request, other: Request) -> None:
    """What one process remembers of a request may be of an equal one, whose text is another."""
    mark = fresh()
    first, second = (replace(each, settings={**each.settings, "mark": mark}) for each in (one, other))
    assert first == second
    with pytest.raises(BudgetExceededError):  # nothing is written, and yet something is remembered
        ledger.charge(opened(ledger, 0.01, 1e-5), first)
    name = opened(ledger, 5.0, 1e-5)
    ledger.charge(name, second)
    assert ledger.verify(name).problems == ()


# ------------------------------------------------------------------------------------------ settlement


def test_a_charge_pays_for_one_release(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger)
    charge = ledger.charge(name, request(0.5), key="run")
    assert ledger.find(charge.number) == charge
    ledger.settle(name, "run", "a" * 64)
    before = raw.dump()
    ledger.settle(name, "run", "a" * 64)
    with pytest.raises(PrivacyError, match=f"charge {charge.number} of account .* to be unused: .* another release"):
        ledger.settle(name, "run", "b" * 64)
    with pytest.raises(PrivacyError, match=r"Account .* has no charge for this run: nothing is released"):
        ledger.settle(name, "other", "a" * 64)
    assert raw.dump() == before
    settled = replace(charge, release="a" * 64)
    assert list(ledger.log(name)) == [settled]
    assert ledger.find(charge.number) == settled
    assert ledger.charge(name, request(0.5), key="run") == settled
    # the release belongs to the charge: another account's charge of the same key is free
    with pytest.raises(PrivacyError, match="no charge for this run"):
        ledger.settle(opened(ledger), "run", "a" * 64)


def test_a_charge_that_is_not_there(ledger: Ledger) -> None:
    with pytest.raises(ConfigError, match="There is no charge 999999 in this ledger"):
        ledger.find(999_999)


# ------------------------------------------------------------------------------------------------- log


def test_the_log_is_in_order_and_whole(ledger: Ledger) -> None:
    name, other = opened(ledger, 50.0, by_subject=True), opened(ledger, 50.0)
    made = []
    for n in range(12):
        subjects = [None, ["anna", "bert"], []][n % 3]
        made.append(ledger.charge(name, request(0.5, n=n), key=f"run {n}", subjects=subjects))
        ledger.charge(other, request(0.5, n=n))
    assert list(ledger.log(name)) == made
    assert [charge.subjects for charge in made[:3]] == [None, 2, 0]
    assert [charge.account for charge in made] == [name] * 12
    assert sorted(charge.number for charge in made) == [charge.number for charge in made]
    assert all(TIME.fullmatch(charge.at) for charge in made)
    for last in (1, 5, 11, 12, 13, 10_000):
        assert list(ledger.log(name, last=last)) == made[-last:]
    assert list(ledger.log(opened(ledger))) == list(ledger.log(opened(ledger), last=3)) == []
    for last in (0, -1, 1.5, True):
        with pytest.raises(ConfigError, match="last="):
            list(ledger.log(name, last=last))


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
def test_the_log_goes_on_after_a_page(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger)
    ledger.charge(name, request(0.5), key="run 0")
    raw.rows(
        "INSERT INTO charges (account_id, key, request_id, everyone, at) WITH RECURSIVE n (n) AS "
        "(SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2100) SELECT c.account_id, 'run ' || n.n, "
        "c.request_id, c.everyone, c.at FROM charges c JOIN accounts a ON a.id = c.account_id, n "
        "WHERE a.name = :name ORDER BY n.n",
        name=name,
    )
    expected = [f"run {n}" for n in range(2101)]
    assert [charge.key for charge in ledger.log(name)] == expected
    for last in (1, 999, 1000, 1001, 2101):
        assert [charge.key for charge in ledger.log(name, last=last)] == expected[-last:]


def test_the_log_is_of_one_moment_and_hinders_nobody(ledger: Ledger) -> None:
    name = opened(ledger)
    for n in range(3):
        ledger.charge(name, request(0.5), key=f"run {n}")
    lines = ledger.log(name)
    assert next(lines).key == "run 0"
    ledger.charge(name, request(0.5), key="run 3")  # the reader does not lock the writer out
    assert [line.key for line in lines] == ["run 1", "run 2"]
    half_read = ledger.log(name)
    assert next(half_read).key == "run 0"
    half_read.close()
    assert len(list(ledger.log(name))) == 4
