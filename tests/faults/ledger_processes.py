"""Processes for the fault tests of the ledger: a small program that imports dptext once and forks as often as it likes.

Forking pytest itself would copy its threads, and a SQLite file must not be open in a process that forks. So a test
hands a job to the program `ledger_jobs`, which forks a process for it, which forks one for each process of the test.
A process tells what it does through a pipe, line by line: what it told before a SIGKILL is known.
"""

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from dptext.ledger.books import Ledger
from dptext.ledger.requests import Request
from dptext.ledger.subjects import SubjectKey
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from vectors import sentences

SUBJECT_KEY = SubjectKey(b"a key that every test may know!!")
NAMES = "abcdefgh"
RECORDS = 40
#: After so many seconds a process ends itself, so that no test waits for ever.
LONGEST = 200


def limit(epsilon: float) -> Guarantee:
    return Guarantee(epsilon, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)


def request(epsilon: float) -> Request:
    return Request((PureEvent(epsilon),), Unit.DOCUMENT)


def epsilon_of(asked: Request) -> Fraction:
    assert all(isinstance(event, PureEvent) for event in asked.events)
    return sum((Fraction(event.epsilon) * event.count for event in asked.events), Fraction(0))


def small_charge(key: str, *, subjects: bool) -> tuple[Request, list[str] | None]:
    """What is charged under a key, a function of the key: 1 to 8 sixteenths, to everyone or to some of eight subjects.

    Sixteenths add up exactly as binary fractions.
    """
    rng = random.Random(key)
    names = sorted(rng.sample(NAMES, rng.randint(1, 4))) if subjects else None
    return request(rng.randint(1, 8) / 16), names


def new_charge(key: str, *, subjects: bool, many: bool = False) -> tuple[Request, list[str] | None]:
    """The same, so that each charge takes the same steps: the request is a new one, and so is one of the subjects.

    Many events are so many that they are folded at once.
    """
    names = ["a", "b", f"only in {key}"] if subjects else None
    events = tuple(PureEvent((n + 1) / 4096) for n in range(40)) if many else (PureEvent(0.5),)
    return replace(request(0.5), events=events, settings={"key": key}), names


def word_metric(vectors: str):
    """A mechanism with a guarantee per document."""
    return WordMetric(epsilon=0.1, noise="tem", max_tokens=6, diameter=12.0, vectors=vectors, n_words=300).fit()


def write_input(folder: Path) -> Path:
    """Records, each of another subject."""
    path = folder / "in.jsonl"
    rows = [{"id": f"r{i}", "text": text, "who": f"person {i}"} for i, text in enumerate(sentences(RECORDS))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def open_ledger(location: str, kind: type[Ledger] = Ledger) -> Ledger:
    return kind.at(location, key=SUBJECT_KEY)


def warm(location: str, scratch: str) -> Ledger:
    """A ledger whose statements are compiled, by charges to a scratch account: what forks spends no time on them."""
    ledger = open_ledger(location)
    for key, subjects in (("everyone", None), ("subjects", ["a", "b"]), ("again", ["a", "c"])):
        ledger.charge(scratch, request(0.5), key=key, subjects=subjects)
        ledger.settle(scratch, key, "a release")
        ledger.charge(scratch, request(0.5), key=key, subjects=subjects)
    ledger.close()  # connections are not for two processes, all else is
    return ledger


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


# ------------------------------------------------------------------------------------------------- in the tests


class Children:
    """The program, to be asked for jobs."""

    def __init__(self) -> None:
        here = Path(__file__).parent
        path = os.pathsep.join(filter(None, [str(here.parent), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, str(here / "ledger_jobs.py")],
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
        assert line, "the program has ended"
        answer = json.loads(line)
        if "crash" in answer:
            raise AssertionError(f"{job} failed:\n{answer['crash']}")
        return answer["value"]

    def close(self) -> None:
        self._process.communicate(timeout=LONGEST)


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    found = Children()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def new_ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes the location of a ledger that nobody has made yet."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres").create_database
    folder = tmp_path_factory.mktemp("ledgers")
    return lambda: str(folder / f"{len(list(folder.glob('*.db'))) + 1}.db")


# ----------------------------------------------------------------------------------------- processes and pipes


class Tell:
    """What a process says, a line at a time: in one piece or, where it is killed, not at all."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __call__(self, **said: object) -> None:
        os.write(self._pipe, json.dumps(said).encode() + b"\n")


@dataclass(frozen=True)
class Child:
    """A process, and what it says."""

    pid: int
    lines: Iterator[str]

    def told(self) -> dict[str, Any] | None:
        """The next thing that it said; None where it has ended."""
        line = next(self.lines, "")
        said = json.loads(line) if line else None
        if said and "crash" in said:
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


def fork(work: Callable[[Tell], object]) -> Child:
    """A process that ends with its work, and never does what its parent is about to do."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, os.fdopen(reading, encoding="utf-8"))
    code = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with its parent
        signal.alarm(LONGEST)
        os.close(reading)
        work(Tell(writing))
        code = 0
    finally:  # whatever happened, it must not go on with what its parent does
        if code:
            Tell(writing)(crash=traceback.format_exc())
        os._exit(code)


def aside(work: Callable[[], Any]) -> Any:
    """The value of `work` in a process of its own, so that this one never has the books open when it forks."""
    child = fork(lambda tell: tell(value=work()))
    said = child.told()
    assert said is not None, f"it ended with {child.end()}"
    child.end()
    return said["value"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(LONGEST)
