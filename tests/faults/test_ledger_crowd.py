"""Many processes at one ledger at one moment: no account is overdrawn, no charge is lost, none is made twice."""

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from ledger_processes import (
    NAMES,
    SUBJECT_KEY,
    Children,
    epsilon_of,
    limit,
    open_ledger,
    request,
)

from dptext.ledger.books import Ledger
from dptext.ledger.entries import TOLERANCE
from next_schema import TODAY, version_with, with_next_step

#: So many processes charge at once, and in `make test-all` as many as can be.
FEW, MANY = 12, 50
FEWER = 12
RNG = random.Random(0)
ASKED = [RNG.uniform(0.05, 1.0) for _ in range(MANY)]  # half a unit each, about
WHO = [sorted(RNG.sample(NAMES, 3)) for _ in range(MANY)]
LOOK = {"do": "look", "account": "everyone"}


def charge(account: str, key: str, epsilon: float, subjects: list[str] | None = None) -> dict[str, Any]:
    return {"do": "charge", "account": account, "key": key, "epsilon": epsilon, "subjects": subjects}


def some(acts: Iterable[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """What the first of n processes do while the others wait."""
    doing = list(acts)
    return doing + [LOOK] * (n - len(doing))


@dataclass
class Storm:
    """What became of n processes that charged several accounts, one account at a time and all at once."""

    n: int
    limit: float
    ledger: Ledger
    results: dict[str, list[dict[str, Any]]]

    def acknowledged(self, step: str) -> dict[int, int]:
        """For each process that was told so the number of its charge."""
        return {i: each["value"][0] for i, each in enumerate(self.results[step]) if isinstance(each.get("value"), list)}

    def errors(self, step: str) -> dict[int, str]:
        return {i: each["error"] for i, each in enumerate(self.results[step]) if "error" in each}


@pytest.fixture(scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def storm(request: pytest.FixtureRequest, new_ledger: Callable[[], str], children: Children) -> Iterator[Storm]:
    n: int = request.param
    most = n / 5  # of half a unit each, for which they ask on average
    location = new_ledger()
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    limits = {"everyone": most, "subjects": 3.0, "same": 20.0, "named": 20.0, "just": 0.5, "differ": 20.0}
    for name, epsilon in (limits | {"scratch": 20.0}).items():
        ledger.open_account(name, limit(epsilon), by_subject=True)
    ledger.close()
    steps = {
        "look": [LOOK] * n,
        "everyone": [charge("everyone", f"key {i}", ASKED[i]) for i in range(n)],
        "subjects": [charge("subjects", f"key {i}", ASKED[i], WHO[i] if i % 5 else None) for i in range(n)],
        "same": [charge("same", "one", 0.5)] * n,
        "named": some([charge("named", "one", 0.5, ["a", "b"])] * FEWER, n),
        "just": some([charge("just", "one", 0.5)] * FEWER, n),
        "differ": some(
            (charge("differ", "one", (0.5, 0.25)[i % 2], [None, ["a"]][i // 2 % 2]) for i in range(FEWER)), n
        ),
        "settle": some(
            ({"do": "settle", "account": "same", "key": "one", "release": f"release {i % 4}"} for i in range(FEWER)), n
        ),
    }
    results = children.do("crowd", location=location, steps=list(steps.values()), scratch="scratch")
    yield Storm(n, most, ledger, dict(zip(steps, results, strict=True)))
    ledger.close()


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_no_account_is_overdrawn_and_no_charge_is_lost(storm: Storm) -> None:
    acknowledged, errors = storm.acknowledged("everyone"), storm.errors("everyone")
    assert set(errors.values()) == {"BudgetExceededError"}
    assert len(acknowledged) + len(errors) == storm.n
    log = list(storm.ledger.log("everyone"))
    assert {each.key: each.number for each in log} == {f"key {i}": number for i, number in acknowledged.items()}
    assert len(log) == len(acknowledged)
    spent = sum(Fraction(ASKED[i]) for i in acknowledged)
    assert sum(epsilon_of(each.request) for each in log) == spent
    assert spent <= Fraction(storm.limit) + Fraction(TOLERANCE)
    assert all(spent + Fraction(ASKED[i]) > storm.limit for i in errors)  # nobody was refused who could have paid
    balance = storm.ledger.balance("everyone")
    assert balance.charges == len(log)
    assert 0 <= Fraction(balance.spent.epsilon) - spent < Fraction(1, 10**12)
    assert storm.ledger.verify("everyone").problems == ()


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_no_subject_is_overdrawn(storm: Storm) -> None:
    acknowledged, errors = storm.acknowledged("subjects"), storm.errors("subjects")
    assert set(errors.values()) == {"BudgetExceededError"}
    assert {each.key: each.number for each in storm.ledger.log("subjects")} == {
        f"key {i}": number for i, number in acknowledged.items()
    }
    falls_on = [WHO[i] if i % 5 else [*NAMES, "nobody else"] for i in range(storm.n)]
    spent = {name: sum(Fraction(ASKED[i]) for i in acknowledged if name in falls_on[i]) for name in falls_on[0]}
    assert max(spent.values()) <= Fraction(3) + Fraction(TOLERANCE)
    for i in errors:
        assert any(spent[name] + Fraction(ASKED[i]) > 3 for name in falls_on[i])
    for name, epsilon in spent.items():
        shown = Fraction(storm.ledger.balance("subjects", subject=name).spent.epsilon)
        assert 0 <= shown - epsilon < Fraction(1, 10**12)
    assert storm.ledger.verify("subjects").problems == ()


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
@pytest.mark.parametrize("account", ["same", "named", "just"])
def test_one_key_is_charged_once(storm: Storm, account: str) -> None:
    """Also where the account can pay once only, so that those who waited find it empty."""
    (only,) = storm.ledger.log(account)
    assert storm.errors(account) == {}
    assert set(storm.acknowledged(account).values()) == {only.number}
    assert len(storm.acknowledged(account)) == (storm.n if account == "same" else FEWER)
    assert storm.ledger.balance(account).spent.epsilon == 0.5
    assert storm.ledger.verify(account).problems == ()


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_one_key_pays_for_one_request(storm: Storm) -> None:
    (only,) = storm.ledger.log("differ")
    acknowledged, errors = storm.acknowledged("differ"), storm.errors("differ")
    assert set(acknowledged.values()) == {only.number}
    assert len({(i % 2, i // 2 % 2) for i in acknowledged}) == 1
    assert len(acknowledged) == FEWER / 4
    assert set(errors.values()) == {"PrivacyError"}
    assert epsilon_of(only.request) == (0.5, 0.25)[min(acknowledged) % 2]
    assert storm.ledger.verify("differ").problems == ()


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_one_charge_pays_for_one_release(storm: Storm) -> None:
    (only,) = storm.ledger.log("same")
    settled = [i for i, each in enumerate(storm.results["settle"]) if each == {"value": None}]
    assert {f"release {i % 4}" for i in settled} == {only.release}
    assert len(settled) == FEWER / 4
    assert set(storm.errors("settle").values()) == {"PrivacyError"}


@pytest.mark.slow  # one ledger that a crowd makes stays below
def test_ledgers_are_made_by_many_at_once(tmp_path: Path, children: Children) -> None:
    """SQLite calls no busy handler for some locks: what must wait then fails at once, now and then."""
    steps = [[{"do": "create", "location": str(tmp_path / f"{k}.db")}] * 12 for k in range(12)]
    results = children.do("crowd", location="", steps=steps)
    assert [result for step in results for result in step if result != {"value": None}] == []
    for path in tmp_path.glob("*.db"):  # readers and a writer do not wait for each other
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_a_ledger_is_made_and_accounts_are_opened_once(
    new_ledger: Callable[[], str],
    children: Children,
) -> None:
    location, n = new_ledger(), 8
    made, opened, of_one_dataset, charged, upgraded = children.do(
        "crowd",
        location=location,
        steps=[
            [{"do": "create", "location": location}] * n,
            [{"do": "open", "account": "a", "epsilon": i + 1} for i in range(n)],
            [{"do": "open", "account": f"b{i}", "dataset": "b", "epsilon": 1} for i in range(n)],
            [charge("a", f"{i}", 1 / 16) for i in range(n)],
            [{"do": "upgrade"}] * n,
        ],
    )
    assert made == [{"value": None}] * n
    for results, name in ((opened, "a"), (of_one_dataset, "b")):
        first, *others = sorted(results, key=lambda each: "error" in each)
        assert first["value"][0] == name
        assert {each["error"] for each in others} == {"ConfigError"}
    assert all("value" in each for each in charged)
    assert upgraded == [{"value": False}] * n
    ledger = open_ledger(location)
    assert [each.dataset for each in ledger.accounts()] == ["a", "b"]
    (winner,) = (i for i, each in enumerate(opened) if "value" in each)
    assert ledger.account("a").limit == limit(winner + 1)
    assert ledger.balance("a").charges == n
    assert ledger.verify("a").problems == ()
    ledger.close()


@pytest.mark.slow_cases("postgresql", why="a crowd that upgrades SQLite stays; tests/unit/ledger upgrades PostgreSQL")
def test_a_ledger_is_upgraded_once(new_ledger: Callable[[], str], children: Children, tmp_path: Path) -> None:
    location = new_ledger()
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    ledger.open_account("everyone", limit(10.0), by_subject=True)
    for i in range(20):
        ledger.charge("everyone", request(i / 16), key=f"{i}", subjects=WHO[i] if i % 2 else None)
    log, balance = list(ledger.log("everyone")), ledger.balance("everyone")
    ledger.close()
    steps = str(with_next_step(tmp_path / "steps"))
    refused, upgraded, charged = children.do(
        "crowd",
        location=location,
        schema_steps=steps,
        steps=[[LOOK] * 8, [{"do": "upgrade"}] * 8, [charge("everyone", "19", 19 / 16, WHO[19])] * 8],
    )
    assert all(f"older schema {TODAY}: run `dptext budget upgrade`" in each["message"] for each in refused)
    assert sorted(each["value"] for each in upgraded) == [False] * 7 + [True]
    assert charged == [{"value": [20]}] * 8
    with version_with(steps):
        assert list(ledger.log("everyone")) == log
        assert ledger.balance("everyone") == balance
        assert ledger.verify("everyone").problems == ()
        ledger.close()


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_books_add_up_at_every_moment(new_ledger: Callable[[], str], children: Children) -> None:
    location, n, each = new_ledger(), 6, 7
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    ledger.open_account("everyone", limit(1000.0), by_subject=True)
    ledger.close()
    charging = [
        charge("everyone", [f"{i} {k}" for k in range(each)], ASKED[i], WHO[i] if i % 2 else None) for i in range(n)
    ]
    checking = [{"do": "verify", "account": "everyone", "charges": n * each}] * 2
    _, results = children.do("crowd", location=location, steps=[[LOOK] * (n + 2), [*charging, *checking]])
    numbers = [number for result in results[:n] for number in result["value"]]
    assert len({*numbers}) == n * each
    for result in results[n:]:
        assert result["value"] == sorted(result["value"])
        assert result["value"][-1] == n * each


@pytest.mark.slow_cases("sqlite", why="SQLite has one writer at a time; a crowd is harder for PostgreSQL, which stays")
def test_accounts_that_share_standings_do_not_disturb_each_other(
    new_ledger: Callable[[], str],
    children: Children,
) -> None:
    """Both charges write the same new standings, which PostgreSQL lets one of them do at a time."""
    location, names, own = new_ledger(), "abc", [1.0, 2.0, 4.0]
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    for account, first, order in (("everyone", 0.5, range(3)), ("other", 0.25, reversed(range(3)))):
        ledger.open_account(account, limit(1000.0), by_subject=True)
        for i in order:
            ledger.charge(account, request(own[i]), subjects=[names[i]])
            ledger.charge(account, request(first), subjects=[names[i]])
    _, results = children.do(
        "crowd",
        location=location,
        steps=[[LOOK] * 2, [charge("everyone", "x", 0.25, [*names]), charge("other", "x", 0.5, [*names])]],
        slow_standings=0.05,
    )
    assert ledger.verify("everyone").problems == ledger.verify("other").problems == ()
    ledger.close()
    assert ["error" in each for each in results] == [False, False], results


@pytest.mark.parametrize("level", [pytest.param("repeatable read", marks=pytest.mark.slow), "serializable"])  # stricter
def test_a_stricter_isolation_by_default_changes_nothing(
    request: pytest.FixtureRequest,
    children: Children,
    level: str,
) -> None:
    server = request.getfixturevalue("postgres")
    location = server.create_database()
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    ledger.open_account("everyone", limit(1.0))
    ledger.close()
    name = location.rpartition("/")[2]
    server.sql(f"alter database {name} set default_transaction_isolation = '{level}'")
    _, results = children.do(
        "crowd", location=location, steps=[[LOOK] * 6, [charge("everyone", f"{i}", 0.25) for i in range(6)]]
    )
    acknowledged = {f"{i}": each["value"][0] for i, each in enumerate(results) if "value" in each}
    assert {each.key: each.number for each in ledger.log("everyone")} == acknowledged
    assert ledger.verify("everyone").problems == ()
    ledger.close()
    assert len(acknowledged) == 4, results
