"""One ledger object in processes that were forked from the one that opened it: each charge is in the books once."""

import contextlib
import copy
import pickle

import pytest
from ledger_faults import at
from ledger_forks import N
from ledger_processes import Children

from dptext.ledger.entries import Charge


def charges(location: str) -> list[Charge]:
    """Those since the 30 of the template."""
    with contextlib.closing(at(location)) as ledger:
        assert ledger.verify("account").problems == ()
        return list(ledger.log("account"))[30:]


def test_children_charge_over_connections_of_their_own(children: Children, either: str) -> None:
    """They settle, and go on reading a log that was begun before the fork."""
    assert children.do("fork_with_books_open", location=either) == [1, *([True] * N)]
    found = charges(either)
    own = {f"child {i}": f"release {i}" for i in range(N)}
    others = ["parent", *(f"parent {i}" for i in range(N)), "parent at last"]
    assert {each.key: each.release for each in found} == {**own, **dict.fromkeys(others)}


def test_processes_of_multiprocessing_charge(children: Children, either: str) -> None:
    assert children.do("fork_by_multiprocessing", location=either) == N
    assert {each.key for each in charges(either)} == {"parent", *(f"child {i}" for i in range(N))}


def test_a_fork_while_a_thread_uses_the_books(children: Children, either: str) -> None:
    """PostgreSQL gives the child another connection; SQLite would take the locks of that thread for the child's."""
    told = children.do("fork_within_a_transaction", location=either)
    keys = [each.key for each in charges(either)]
    if "://" in either:
        assert told == {"number": 31}
        assert keys == ["child", "parent"]
    else:
        assert told["error"] == "LedgerError"
        assert "start the process by spawn" in told["message"]
        assert keys == ["parent"]


def test_a_ledger_is_not_copied(either: str) -> None:
    with contextlib.closing(at(either)) as ledger:
        for forge in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="open it there, by its location"):
                forge(ledger)
