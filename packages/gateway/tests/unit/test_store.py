"""The tables of a gateway in both databases: a row is added once, whoever asks, and told so."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext_gateway.store import ANSWERS, EVENTS, Event, Store

ROW = {"payload_mac": "m", "attempt": "a", "lease": 1.0, "answer": None, "result_sha256": None, "expires": 2.0}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """The tables beside an empty ledger."""
    sqlite = request.param == "sqlite"
    location = str(tmp_path / "books.db") if sqlite else request.getfixturevalue("postgres").create_database()
    Ledger.create(location).close()
    found = Store(Database(location))
    yield found
    found.close()


def test_a_row_that_is_there_is_not_added_and_nothing_is_noted(store: Store) -> None:
    event = Event("someone", "asked")
    assert store.insert(ANSWERS, event, id="one", **ROW) is True
    assert store.insert(ANSWERS, event, id="one", **{**ROW, "payload_mac": "other"}) is False
    assert store.insert(ANSWERS, event, id="two", **ROW) is True
    assert [(row.id, row.payload_mac) for row in store.rows(sa.select(ANSWERS).order_by(ANSWERS.c.id))] == [
        ("one", "m"),
        ("two", "m"),
    ]
    assert len(store.rows(sa.select(EVENTS))) == 2


def test_of_those_who_add_a_row_at_once_one_is_told_so(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        for name in map(str, range(5)):
            asked = [threads.submit(store.insert, ANSWERS, None, id=name, **ROW) for _ in range(8)]
            assert sorted(each.result() for each in asked) == [False] * 7 + [True]
