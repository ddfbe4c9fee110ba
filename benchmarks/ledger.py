"""Charges a second and balances of large accounts, on SQLite and on a local PostgreSQL, beside the bare database.

The bare database inserts one row of the same size a transaction, with the same durability. Exits 1 where
3,000 different epsilons in the account take more than 45% off the rate with one, where a balance of them, or a charge
near the limit, takes more than 25 times as long as the exact account alone, or where the balance of an account with
million charges takes more than 50 ms. Exits 3 without PostgreSQL: half of it is not measured then.

    python benchmarks/ledger.py [--rows 1000000]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from _timing import Rows, paired, seconds
from dptext.ledger.books import Ledger
from dptext.ledger.entries import spent_epsilon
from dptext.ledger.requests import Request, events_to_text
from dptext.ledger.subjects import SubjectKey
from dptext.privacy.events import Event, GaussianEvent, PureEvent, TopKEvent
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from postgres import find_binaries, running

CHARGES = 1000
ROUNDS = 5
LOOKUPS = 15
MANY = 20_000  # named subjects of one charge
MIN_SHARE = 0.55  # of the rate with one epsilon
MAX_LOOKUP = 50.0  # milliseconds
MOST_NEAR = 25.0  # of the exact account of all epsilons, which reads no book; 4 to 20 on a shared processor
DISTINCT = 3000
FULL = f"pure, {DISTINCT:,} in the balance"
HUGE = Guarantee(1e9, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)
HUGE_APPROXIMATE = Guarantee(1e9, 1e-6, Unit.DOCUMENT, Relation.REPLACE_ONE)


def request(event: Event) -> Request:
    return Request((event,), Unit.DOCUMENT)


def per_second(work: Callable[[], object], n: int = CHARGES) -> float:
    began = time.perf_counter()
    for _ in range(n):
        work()
    return n / (time.perf_counter() - began)


@contextlib.contextmanager
def bare(location: str, folder: Path) -> Iterator[Callable[[], object]]:
    """One insert and commit, without SQLAlchemy and without a ledger."""
    if "://" not in location:
        connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, key TEXT UNIQUE, at TEXT)")

        def insert() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO bare (key, at) VALUES (?, ?)", (secrets.token_hex(16), "2026-01-01"))
            connection.execute("COMMIT")

        yield insert
        connection.close()
        return
    with psycopg.connect(location.replace("+psycopg", "")) as postgres:
        postgres.execute("CREATE TABLE bare (id BIGSERIAL PRIMARY KEY, key TEXT UNIQUE, at TEXT)")
        postgres.commit()

        def insert_there() -> None:
            postgres.execute("INSERT INTO bare (key, at) VALUES (%s, %s)", (secrets.token_hex(16), "2026-01-01"))
            postgres.commit()

        yield insert_there
        postgres.execute("DROP TABLE bare")


def speed(rows: Rows, name: str, location: str, folder: Path) -> None:
    """Charges a second, in turn with the bare database."""
    ledger = Ledger.create(location, key=SubjectKey(bytes(32)))
    for account, limit in (("pure", HUGE), ("gaussian", HUGE_APPROXIMATE), ("named", HUGE)):
        ledger.open_account(account, limit, by_subject=account == "named")
    events = [PureEvent(0.001 * (i + 1)) for i in range(DISTINCT)]
    beside = f"Gaussian, {DISTINCT:,} beside"
    for account, limit in (
        (str(DISTINCT), HUGE),
        (f"{DISTINCT} at a delta", HUGE_APPROXIMATE),
        (beside, HUGE_APPROXIMATE),
    ):
        ledger.open_account(account, limit)
        ledger.charge(account, Request(tuple(events), Unit.DOCUMENT))
    names = iter(range(10**9))
    several = itertools.cycle(map(request, events))
    cases = {
        "pure, one account": lambda: ledger.charge("pure", request(PureEvent(0.001))),
        FULL: lambda: ledger.charge(str(DISTINCT), next(several)),
        f"{FULL} at a delta": lambda: ledger.charge(f"{DISTINCT} at a delta", next(several)),
        beside: lambda: ledger.charge(beside, request(GaussianEvent(1000.0))),
        "Gaussian at delta 1e-6": lambda: ledger.charge("gaussian", request(GaussianEvent(1000.0))),
        "one new named subject": lambda: ledger.charge("named", request(PureEvent(1)), subjects=[str(next(names))]),
    }
    with bare(location, folder) as insert:
        times: dict[str, list[float]] = {"bare insert and commit": [], **{case: [] for case in cases}}
        for _ in range(ROUNDS):
            times["bare insert and commit"].append(per_second(insert))
            for case, work in cases.items():
                times[case].append(per_second(work, CHARGES if "pure, one" in case else CHARGES // 5))
    yardstick = times.pop("bare insert and commit")
    rows.note(f"{name}: bare insert and commit", "a second", yardstick)
    for case, rates in times.items():
        rows.add(f"{name}: {case}", "of the bare database's inserts a second", paired(rates, yardstick))
        rows.note(f"{name}: {case}", "charges a second", rates)
    slowest = min((times[case] for case in (FULL, f"{FULL} at a delta", beside)), key=statistics.median)
    shares = paired(slowest, times["pure, one account"])
    rows.add(f"{name}: slowest beside 3,000 epsilons", "of the rate with one epsilon", shares, least=MIN_SHARE)
    began = time.perf_counter()
    ledger.charge("named", request(TopKEvent(1.0, 5, 1000)), subjects=map(str, range(10**9, 10**9 + MANY)))
    rows.note(f"{name}: {MANY:,} named subjects in one charge", "seconds", [time.perf_counter() - began])
    near_the_limit(rows, name, ledger, events)
    ledger.close()


def near_the_limit(rows: Rows, name: str, ledger: Ledger, events: list[PureEvent]) -> None:
    """A balance of many epsilons, and a charge that the exact account alone allows, beside that account.

    The limit is 1% above what the account has spent: simple sums are beyond it.
    """
    near = replace(HUGE_APPROXIMATE, epsilon=1.01 * spent_epsilon(events, HUGE_APPROXIMATE))
    ledger.open_account("near", near)
    ledger.charge("near", Request(tuple(events), Unit.DOCUMENT))
    times = seconds(
        {
            "alone": lambda: spent_epsilon(events, HUGE_APPROXIMATE),
            "balance of 3,000 different epsilons": lambda: ledger.balance("near"),
            "charge near the limit beside them": lambda: ledger.charge("near", request(events[0])),
        },
        LOOKUPS,
    )
    alone = times.pop("alone")
    for what, taken in times.items():
        rows.add(f"{name}: {what}", "times the exact account alone", paired(taken, alone), most=MOST_NEAR)


def fill(location: str, rows: int) -> Ledger:
    """Accounts with so many charges each, written as the ledger would write them, but all at once."""
    ledger = Ledger.create(location, key=SubjectKey(bytes(32)))
    event = PureEvent(0.001)
    for account, by_subject in (("everyone", False), ("subjects", True)):
        ledger.open_account(account, HUGE, by_subject=by_subject)
        ledger.charge(account, request(event), key="0", subjects=["0"] if by_subject else None)
    database = "sqlite:///" + location if "://" not in location else location
    engine = sa.create_engine(database)
    text = "'k' || n" if "://" not in location else "'k' || n::text"
    blob = "CAST(printf('%032d', n) AS BLOB)" if "://" not in location else "convert_to(lpad(n::text, 32, '0'), 'UTF8')"
    series = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :rows)"
    numbers = {"rows": rows - 1}
    with engine.begin() as connection:
        for account, everyone in (("everyone", "TRUE"), ("subjects", "FALSE")):
            one = "NULL" if everyone == "TRUE" else "1"
            connection.execute(
                sa.text(
                    f"INSERT INTO charges (account_id, key, request_id, everyone, subjects, at) {series} "
                    f"SELECT a.id, {text}, 1, {everyone}, {one}, '2026-01-01T00:00:00Z' FROM s, accounts a "
                    f"WHERE a.name = '{account}'"
                ),
                numbers,
            )
        connection.execute(
            sa.text(
                f"INSERT INTO charged_subjects (charge_id, subject) {series} SELECT c.id, {blob} FROM s "
                f"JOIN charges c ON c.key = {text} AND NOT c.everyone"
            ),
            numbers,
        )
        connection.execute(
            sa.text(
                f"INSERT INTO subject_balances (account_id, subject, tally_id) {series} SELECT a.id, {blob}, 1 "
                "FROM s, accounts a WHERE a.name = 'subjects'"
            ),
            numbers,
        )
        for account, events, subjects in (
            ("everyone", events_to_text([PureEvent(0.001, count=rows)]), 0),
            ("subjects", "[]", rows),
        ):
            connection.execute(
                sa.text(
                    "UPDATE balances SET events = :events, charges = :rows, subjects = :subjects "
                    "WHERE account_id = (SELECT id FROM accounts WHERE name = :account)"
                ),
                {"events": events, "rows": rows, "subjects": subjects, "account": account},
            )
    if "://" in location:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ANALYZE"))
    engine.dispose()
    return ledger


def lookups(rows: Rows, name: str, location: str, n: int) -> None:
    """What a balance takes, and what verifying and the next charge take beside it."""
    ledger = fill(location, n)
    for account in ("everyone", "subjects"):
        balance = ledger.balance(account)
        assert balance.charges == n
        times = seconds({"balance": lambda account=account: ledger.balance(account)}, LOOKUPS)["balance"]
        began = time.perf_counter()
        problems = ledger.verify(account).problems
        verified = time.perf_counter() - began
        assert not problems, problems
        began = time.perf_counter()
        ledger.charge(account, request(PureEvent(0.001)), subjects=["0"] if account == "subjects" else None)
        charged = time.perf_counter() - began
        what = f"{name}: {n:,} charges to {account}"
        rows.add(f"{what}: balance", "milliseconds", [1000 * each for each in times], most=MAX_LOOKUP)
        rows.add(f"{what}: balance", "times as fast as recomputing", [verified / each for each in times])
        rows.note(f"{what}: next charge", "milliseconds", [1000 * charged])
    ledger.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    n, rows = parser.parse_args().rows, Rows()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = {"SQLite": [str(folder / "speed.db"), str(folder / "rows.db")]}
        if find_binaries() is None:
            rows.absent("PostgreSQL", "it is not installed (apt-get install postgresql)")
        else:
            server = stack.enter_context(running())
            places["PostgreSQL"] = [server.create_database(), server.create_database()]
        for name, (first, second) in places.items():
            speed(rows, name, first, folder)
            lookups(rows, name, second, n)
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
