"""Processes for the fault tests of the ledger: a small program that imports dptext once and forks as often as it likes.

Forking pytest itself would copy its threads, and a SQLite file must not be open in a process that forks. So a test
hands a job to this program, which forks a process for it, which forks one for each process of the test. A process tells
what it does through a pipe, line by line, so that what was told before a SIGKILL is known.
"""

import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from dptext.errors import ConfigError, DPTextError
from dptext.file_runs import Plan, privatize_file
from dptext.guarantee import Guarantee, PureEvent, Relation, Unit
from dptext.ledger.books import Ledger
from dptext.ledger.entries import Request
from dptext.ledger.subjects import SubjectKey
from dptext.mechanisms.word_metric import WordMetric
from dptext.payment import Payment
from dptext.records import Fields

SUBJECT_KEY = SubjectKey(b"a key that every test may know!!")
#: After so many seconds a process ends itself, so that no test waits for ever.
LONGEST = 150
NOBODY = 65534


def limit(epsilon: float) -> Guarantee:
    return Guarantee(epsilon, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)


def request(epsilon: float) -> Request:
    return Request((PureEvent(epsilon),), Unit.DOCUMENT)


def epsilon_of(asked: Request) -> float:
    (event,) = asked.events
    assert isinstance(event, PureEvent)
    assert event.count == 1
    return event.epsilon


def word_metric(vectors: str, epsilon: float = 0.1):
    """A mechanism with a guarantee per document, of 6 * 12 * epsilon (and a little)."""
    return WordMetric(epsilon=epsilon, noise="tem", max_tokens=6, diameter=12.0, vectors=vectors, n_words=300).fit()


# ------------------------------------------------------------------------------------------------- in the tests


class Children:
    """The program, to be asked for jobs."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        )

    def do(self, job: str, **arguments: object) -> Any:
        """Does a job and gives its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([job, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"The processes ended with {self._process.wait()}.")
        answer = json.loads(line)
        if "crash" in answer:
            raise AssertionError(f"{job} failed:\n{answer['crash']}")
        return answer["result"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(LONGEST)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    found = Children()
    try:
        yield found
    finally:
        found.close()


# ----------------------------------------------------------------------------------------- processes and pipes


@dataclass(frozen=True)
class Child:
    pid: int
    lines: Iterator[str]

    def told(self) -> dict[str, Any] | None:
        """The next thing that it said; None where it will say nothing more."""
        line = next(self.lines, "")
        if not line.endswith("\n"):
            return None
        said = json.loads(line)
        if "crash" in said:
            raise AssertionError(said["crash"])
        return said

    def rest(self) -> Iterator[dict[str, Any]]:
        while said := self.told():
            yield said

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Waits for its end; its exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Tell:
    """What a process says."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __call__(self, **said: object) -> None:
        os.write(self._pipe, json.dumps(said).encode() + b"\n")


def fork(work: Callable[[Tell], None]) -> Child:
    """A process of its own, which ends with its work and never runs what its parent would."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, os.fdopen(reading, encoding="utf-8"))
    code = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with its parent
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST)
        os.close(reading)
        work(Tell(writing))
        code = 0
    except BaseException:
        Tell(writing)(crash=traceback.format_exc())
    finally:
        os._exit(code)


def aside(work: Callable[[], Any]) -> Any:
    """The value of `work` in a process of its own, so that this one never has the books open when it forks."""
    child = fork(lambda tell: tell(value=work()))
    said = child.told()
    assert said is not None, "it ended without a word"
    child.end()
    return said["value"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(LONGEST)


def open_ledger(location: str, kind: type[Ledger] = Ledger) -> Ledger:
    return kind.at(location, key=SUBJECT_KEY)


def found_charge(ledger: Ledger, account: str, key: str) -> dict[str, Any] | None:
    """The charge under a key, asked of the tables themselves."""
    with ledger._database.reading() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT c.id, s.release FROM charges c JOIN accounts a ON a.id = c.account_id "
                "LEFT JOIN settlements s ON s.charge_id = c.id WHERE a.name = :account AND c.key = :key"
            ),
            {"account": account, "key": key},
        ).all()
    assert len(rows) < 2
    return {"number": rows[0][0], "release": rows[0][1]} if rows else None


# -------------------------------------------------------------------------------------------------- the crowd


def act(ledger: Ledger | None, location: str, todo: dict[str, Any]) -> Any:
    """One thing that one process of a crowd does."""
    what = todo["do"]
    if what == "create":
        Ledger.create(location).close()
        return None
    assert ledger is not None
    if what == "open":
        ledger.open_account(todo["account"], limit(todo["epsilon"]), by_subject=todo.get("by_subject", False))
        return None
    if what == "upgrade":
        return ledger.upgrade()
    if what == "look":
        return ledger.account(todo["account"]).name
    if what == "settle":
        ledger.settle(todo["account"], todo["key"], todo["release"])
        return None
    if what == "verify":  # again and again, while others charge
        seen = []
        for _ in range(todo["times"]):
            found = ledger.verify(todo["account"])
            assert not found.problems, found.problems
            seen.append(found.charges)
        return seen
    assert what == "charge", what
    numbers = []
    for n in range(todo.get("times", 1)):
        key = f"{todo['key']} {n}" if "times" in todo else todo["key"]
        numbers.append(
            ledger.charge(todo["account"], request(todo["epsilon"]), key=key, subjects=todo.get("subjects")).number
        )
    return numbers[0] if "times" not in todo else numbers


def crowd(location: str, steps: list[list[dict[str, Any]]], slow_standings: float = 0.0) -> list[list[dict[str, Any]]]:
    """Processes that do things at one moment.

    Args:
        location: of the ledger.
        steps: what each process does in each step; all begin a step together, when all have ended the one before.
        slow_standings: seconds that a process waits after writing a standing of subjects.
    """
    gates = [os.pipe() for _ in steps]

    def work(i: int) -> Callable[[Tell], None]:
        def run(tell: Tell) -> None:
            for _, opener in gates:
                os.close(opener)
            if slow_standings:
                _slow_down(slow_standings)
            ledger = None
            for (gate, _), step in zip(gates, steps, strict=True):
                ledger = ledger or (None if step[i]["do"] == "create" else open_ledger(location))
                tell(ready=True)
                os.read(gate, 1)
                try:
                    tell(value=act(ledger, location, step[i]))
                except DPTextError as error:
                    tell(error=type(error).__name__, message=str(error))

        return run

    everyone = [fork(work(i)) for i in range(len(steps[0]))]
    results = []
    for _, opener in gates:
        assert all(child.told() == {"ready": True} for child in everyone)
        os.close(opener)
        results.append([child.told() or {"error": "killed"} for child in everyone])
    assert all(child.end() == 0 for child in everyone)
    return results


def _slow_down(seconds: float) -> None:
    from dptext.ledger import rows

    once = rows._once

    def slow(connection: sa.Connection, table: sa.Table, *args: Any, **values: Any) -> int:
        number = once(connection, table, *args, **values)
        if table.name == "tallies":
            time.sleep(seconds)
        return number

    rows._once = slow  # type: ignore[assignment]


# ----------------------------------------------------------------------------------- kills within one charge


def charge_arguments(account: str, key: str, subjects: bool) -> dict[str, Any]:
    """What is charged under a key: 1 to 8 sixteenths, to everyone or to some of eight subjects; a function of the key.

    Sixteenths add up exactly as binary fractions.
    """
    rng = random.Random(key)
    names = sorted(rng.sample("abcdefgh", rng.randint(1, 4))) if subjects else None
    return {"account": account, "request": request(rng.randint(1, 8) / 16), "key": key, "subjects": names}


def die_in_charge(location: str, account: str, subjects: bool) -> list[dict[str, Any]]:
    """For each step of a charge a process that dies there, and one that tries its charge again.

    The steps are: before each statement (BEGIN among them), before COMMIT, after it, and after the return.
    """
    return _die_in(
        location,
        account,
        lambda ledger, key: ledger.charge(**charge_arguments(account, key, subjects)).number,
        f"dies {subjects}",
    )


def die_in_settlement(location: str, account: str) -> list[dict[str, Any]]:
    """The same while a charge, paid before, is settled."""

    def charge(key: str) -> int:
        with contextlib.closing(open_ledger(location)) as ledger:
            return ledger.charge(**charge_arguments(account, key, False)).number

    def settle(ledger: Ledger, key: str) -> int:
        ledger.settle(account, key, f"sha256 of {key}")
        return found_charge(ledger, account, key)["number"]

    for n in range(200):
        aside(lambda n=n: charge(f"settles {n}"))
        told = _die_in(location, account, settle, "settles", steps=range(n, n + 1))
        if told[-1]["at"] == "end":
            break
        yield_told.append(told[-1])
    raise NotImplementedError


def serve() -> None:
    pass
