"""kill -9 at every step and at random moments: what was acknowledged is in the books, and the books add up."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from ledger_processes import (
    NAMES,
    SUBJECT_KEY,
    Children,
    epsilon_of,
    limit,
    new_charge,
    open_ledger,
    request,
    small_charge,
)

from dptext.ledger.books import Ledger
from dptext.ledger.requests import Request
from next_schema import TODAY, version_with, with_next_step

CHAINS = 4


@pytest.fixture
def location(new_ledger: Callable[[], str]) -> str:
    found = new_ledger()
    make(found)
    return found


def make(location: str) -> None:
    ledger = Ledger.create(location, key=SUBJECT_KEY)
    ledger.open_account("account", limit(1e6), by_subject=True)
    ledger.close()


@pytest.fixture
def ledger(location: str) -> Iterator[Ledger]:
    found = open_ledger(location)
    yield found
    found.close()


Asked = Callable[[str], tuple[Request, list[str] | None]]


def require_books_of(ledger: Ledger, charged: dict[str, int], asked_under: Asked) -> None:
    """The books hold these keys with these numbers, once each, and their balances are the sums."""
    log = list(ledger.log("account"))
    assert len(log) == len(charged)
    assert {each.key: each.number for each in log} == charged
    everyone, own = Fraction(0), dict.fromkeys(["a", "nobody"], Fraction(0))
    for each in log:
        asked, names = asked_under(each.key)
        assert each.request == asked
        assert each.subjects == (names and len(names))
        if names is None:
            everyone += epsilon_of(asked)
        for name in names or ():
            own[name] = own.get(name, Fraction(0)) + epsilon_of(asked)
    for name, epsilon in own.items():
        assert Fraction(ledger.balance("account", subject=name).spent.epsilon) == everyone + epsilon
    balance = ledger.balance("account")
    assert Fraction(balance.spent.epsilon) == everyone + max(own.values())
    assert balance.charges == len(log)
    found = ledger.verify("account")
    assert found.problems == ()
    assert found.charges == len(log)


@pytest.mark.slow_cases("sqlite-charge many", why="a charge to subjects stays, which writes to more tables")
@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize("what", [pytest.param("charge", marks=pytest.mark.slow), "charge subjects", "charge many"])
def test_death_at_each_step_of_a_charge(location: str, ledger: Ledger, children: Children, what: str) -> None:
    told = children.do("die_at_each_step", location=location, account="account", what=what)
    steps = [each["at"] for each in told]
    first, commit = steps.index("connected"), max(n for n, step in enumerate(steps) if step == "COMMIT")
    assert steps[commit + 1 :] == ["after the transaction", "the end", None]
    assert any("INSERT INTO charges" in step or "WITH added" in step for step in steps[first:commit]), steps
    assert any("earlier_events" in step for step in steps[first:commit]) == (what == "charge many")
    assert [each["found"] is not None for each in told] == [False] * (commit + 1) + [True] * 3
    assert all(each["found"] in (None, each["again"]) for each in told)
    charged = {each["key"]: each["again"]["number"] for each in told}
    require_books_of(
        ledger, charged, lambda key: new_charge(key, subjects=what == "charge subjects", many=what == "charge many")
    )


@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
def test_death_at_each_step_of_a_settlement(location: str, ledger: Ledger, children: Children) -> None:
    told = children.do("die_at_each_step", location=location, account="account", what="settle")
    steps = [each["at"] for each in told]
    settled = [f"release of {each['key']}" for each in told]
    assert steps[-4:] == ["COMMIT", "after the transaction", "the end", None]
    assert [each["found"]["release"] for each in told] == [None] * (len(told) - 3) + settled[-3:]
    assert [each["again"]["release"] for each in told] == settled
    assert [each.release for each in ledger.log("account")][: len(told)] == settled


def test_a_charge_cut_off_at_its_commit_may_appear_late_and_is_paid_once(tmp_path: Path, children: Children) -> None:
    location = str(tmp_path / "books.db")
    make(location)
    told = children.do("cut_commit", location=location, account="account", key="cut")
    assert told["kept"] is None
    assert told["ended"] is not None
    assert told["again"] == told["ended"]["number"]
    with contextlib.closing(open_ledger(location)) as ledger:
        require_books_of(ledger, {"cut": told["again"]}, lambda key: new_charge(key, subjects=False))


@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize("what", ["create", "upgrade"])
def test_death_at_each_step_of_making_a_ledger(
    new_ledger: Callable[[], str],
    children: Children,
    tmp_path: Path,
    what: str,
) -> None:
    location, version = new_ledger(), ""
    if what == "upgrade":
        ledger = Ledger.create(location, key=SUBJECT_KEY)
        ledger.open_account("account", limit(10.0), by_subject=True)
        for i in range(8):
            ledger.charge("account", request(0.5), key=f"{i}", subjects=[*NAMES[:i]] if i % 2 else None)
        ledger.close()
        version = str(with_next_step(tmp_path / "steps"))
    told = children.do("die_while_making", location=location, what=what, steps=version)
    steps, found = [each["at"] for each in told], [each["found"] for each in told]
    assert sum(step.startswith("CREATE") for step in steps) >= (1 if what == "upgrade" else 8)
    made = max(n for n, step in enumerate(steps) if step == "COMMIT") + 1
    before = f"older schema {TODAY}: run `dptext budget upgrade`" if what == "upgrade" else "There is no ledger"
    assert all(before in text for text in found[:made]), found
    after = ["account"] if what == "upgrade" else []
    assert found[made:] == [after] * (len(told) - made)
    assert len(told) > made
    with version_with(version), contextlib.closing(open_ledger(location)) as ledger:
        if what == "create":
            ledger.open_account("account", limit(10.0))
            ledger.charge("account", request(1.0))
        else:
            assert ledger.balance("account").charges == 8
        assert ledger.verify("account").problems == ()


@pytest.mark.slow_cases("sqlite-8", why="a death at each step stays")
@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize("kills", [8, *(pytest.param(kills, marks=pytest.mark.slow) for kills in (100, 500))])
def test_death_at_random_moments(
    location: str,
    ledger: Ledger,
    children: Children,
    kills: int,
) -> None:
    told = children.do(
        "kill_at_random", location=location, account="account", chains=CHAINS, kills=kills // CHAINS, seed=kills
    )
    phases = Counter(phase for chain in told for phase in chain["phases"])
    print(dict(phases))  # shown by pytest -s
    assert phases.total() >= kills
    every = {"before", "within", "written, not acknowledged", "acknowledged"}
    assert len(every & {*phases}) >= (4 if kills >= 100 else 2)  # of few kills all may fall into some of them
    charged: dict[str, int] = {}
    for chain in told:
        for key, number in chain["charged"]:
            assert charged.setdefault(key, number) == number
    require_books_of(ledger, charged, lambda key: small_charge(key, subjects=int(key.split()[1]) % 2 == 1))
