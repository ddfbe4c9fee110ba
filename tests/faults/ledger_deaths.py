"""Processes that die while they charge a ledger, settle, or make it: at every step, and at random moments."""

import contextlib
import itertools
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from ledger_processes import (
    LONGEST,
    Child,
    Tell,
    aside,
    die,
    fork,
    found_charge,
    limit,
    new_charge,
    open_ledger,
    small_charge,
    warm,
)

from dptext.errors import LedgerError
from dptext.ledger.books import Ledger
from next_schema import version_with

# ------------------------------------------------------------------------------------- death at a chosen step


def _at_each_step(step: Callable[[str], None]) -> None:
    """Calls `step` in this process with each connection, before each statement that writes, around each COMMIT."""

    def statement(connection: object, cursor: object, text: str, *_: object) -> None:
        name = " ".join(text.split()[:3])
        if not name.startswith(("SELECT", "PRAGMA", "CREATE TRIGGER")):
            step(name)

    sa.event.listen(sa.pool.Pool, "connect", lambda connection, record: step("connected"))
    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    sa.event.listen(sa.Engine, "commit", lambda connection: step("COMMIT"))
    sa.event.listen(sa.pool.Pool, "checkin", lambda connection, record: step("after the transaction"))


def _die_at(n: int, work: Callable[[], object]) -> str | None:
    """Dies at step `n` of the work, in a process of its own; the name of the step, None where there are fewer."""

    def victim(tell: Tell) -> None:
        steps = itertools.count()

        def step(name: str) -> None:
            if next(steps) == n:
                tell(at=name)
                die()

        _at_each_step(step)
        work()
        step("the end")

    child = fork(victim)
    told = [said["at"] for said in child.rest()]
    assert child.end() == (-signal.SIGKILL if told else 0)
    return told[0] if told else None


def die_at_each_step(location: str, account: str, what: str) -> list[dict[str, Any]]:
    """For each step of a charge or settlement a process that dies there, and then one that tries it again.

    Args:
        location: of the ledger.
        account: that is charged.
        what: "charge", "charge subjects", "charge many" or "settle".

    Returns:
        For each step: "at", its name; "key"; "found" in the books after the death, and "again" after the second try;
        at last the same of a process that survived.
    """

    with contextlib.closing(open_ledger(location)) as ledger:
        ledger.open_account("scratch", limit(20.0), by_subject=True)
    ledger = warm(location, "scratch")

    def prepare() -> None:
        for n in range(20):
            ledger.charge(account, new_charge(f"{what} {n}", subjects=False)[0], key=f"{what} {n}")

    def work(key: str) -> None:
        if what == "settle":
            ledger.settle(account, key, f"release of {key}")
        else:
            asked, names = new_charge(key, subjects=what == "charge subjects", many=what == "charge many")
            ledger.charge(account, asked, key=key, subjects=names)

    def look_and_try(key: str) -> dict[str, Any]:
        found = found_charge(ledger, account, key)
        work(key)
        assert not ledger.verify(account).problems
        return {"found": found, "again": found_charge(ledger, account, key)}

    if what == "settle":
        aside(prepare)
    told = []
    for n in itertools.count():
        key = f"{what} {n}"
        at = _die_at(n, lambda key=key: work(key))
        told.append({"at": at, "key": key, **aside(lambda key=key: look_and_try(key))})
        if at is None:
            return told
    raise AssertionError


def die_while_making(location: str, what: str, steps: str = "") -> list[dict[str, Any]]:
    """For each step of making ("create") or upgrading ("upgrade") a ledger a process that dies there.

    The version of dptext is one with the schema's steps in the folder `steps`, by default that of today.

    Returns:
        For each step: "at", its name, and "found", what the next process reads: the names of the accounts, or why not.
    """

    def work() -> None:
        if what == "create":
            Ledger.create(location)
        else:
            open_ledger(location).upgrade()

    def look() -> Any:
        with contextlib.closing(open_ledger(location)) as ledger:
            try:
                return [each.name for each in ledger.accounts() if not ledger.verify(each.name).problems]
            except LedgerError as error:
                return str(error)

    told = []
    with version_with(steps):
        for n in itertools.count():
            at = _die_at(n, work)
            if at is None:
                break
            told.append({"at": at, "found": aside(look)})
    return told


_SHARED_HEADER = 96  # bytes of SQLite's -shm file that say how far the log is valid: two copies of 48


def cut_commit(location: str, account: str, key: str) -> dict[str, Any]:
    """A process that dies in the COMMIT of SQLite: its charge is in the log, whose new end nobody was told.

    SQLite reads the log anew when the last process has ended. The charge is there from then on.

    Returns:
        "kept": the charge found while another process has the books open; "ended": found when that has ended, too;
        "again": the number of the charge, asked once more under its key.
    """
    shared = Path(f"{location}-shm")
    asked, names = new_charge(key, subjects=False)

    def keep_open(tell: Tell) -> None:
        ledger = open_ledger(location)
        tell(open=ledger.balance(account).charges)
        time.sleep(LONGEST)

    def charge(tell: Tell) -> None:
        ledger = open_ledger(location)
        tell(number=ledger.charge(account, asked, key=key, subjects=names).number)
        time.sleep(LONGEST)

    def end(child: Child) -> None:
        child.kill()
        assert child.end() == -signal.SIGKILL

    def look() -> Any:
        return found_charge(open_ledger(location), account, key)

    keeper = fork(keep_open)
    keeper.told()
    before = shared.read_bytes()[:_SHARED_HEADER]
    charger = fork(charge)
    charger.told()
    with shared.open("r+b") as file:
        file.write(before)
    end(charger)
    kept = aside(look)
    end(keeper)
    return {
        "kept": kept,
        "ended": aside(look),
        "again": aside(lambda: open_ledger(location).charge(account, asked, key=key, subjects=names).number),
    }


# ------------------------------------------------------------------------------------- death at a random moment

_AIMS = ("start", "before", "within", "commit", "commit", "after", "after")
_PHASES = {"before", "within", "written, not acknowledged", "acknowledged"}


def kill_at_random(location: str, account: str, chains: int, kills: int, seed: int) -> list[dict[str, Any]]:
    """Processes that charge without end, and die at random moments; each is followed by one that goes on.

    Args:
        location: of the ledger.
        account: that is charged, in each second chain with subjects.
        chains: how many charge at a time.
        kills: in each chain; more where some phase was not hit yet.
        seed: of the moments.

    Returns:
        For each chain "phases", that each kill fell in, and "charged", the numbers acknowledged for each key.
    """
    supervisors = [
        fork(lambda tell, i=i: _Chain(location, account, i, random.Random(f"{seed} {i}")).run(kills, tell))
        for i in range(chains)
    ]
    results = [list(child.rest()) for child in supervisors]
    assert all(child.end() == 0 for child in supervisors)
    return [
        {
            "phases": told[-1]["phases"],
            "charged": [(said["key"], said["number"]) for said in told],
        }
        for told in results
    ]


class _Chain:
    """Processes one after the other; what one was about to charge when it was killed is charged by the next."""

    def __init__(self, location: str, account: str, chain: int, rng: random.Random) -> None:
        self.location, self.account, self.chain, self.rng = location, account, chain, rng
        self.n = 0  # the first charge that was not acknowledged
        self.last = ""  # what was told last of it
        self.committing = False  # whether its COMMIT was begun, by this process or one before: see `cut_commit`
        self.killed = False  # whether the one who told that was killed
        self.written = False  # whether that charge was seen in the books
        self.phases: list[str] = []

    def key(self, n: int) -> str:
        return f"chain {self.chain} charge {n}"

    def run(self, kills: int, tell: Tell) -> None:
        done = 0
        while done < kills or not ({*self.phases} >= _PHASES or done >= 2 * kills):
            child = fork(self.charges)
            self.aim(child, tell)
            child.kill()
            for said in child.rest():
                self.hear(said, tell)
            assert child.end() == -signal.SIGKILL
            done += 1
            if self.killed:  # it did not even look
                self.phases.append("before")
            self.killed = True
        ledger = open_ledger(self.location)
        self.look(found=found_charge(ledger, self.account, self.key(self.n)) is not None)
        asked, names = self.asked(self.n)
        made = ledger.charge(self.account, asked, key=self.key(self.n), subjects=names)
        tell(key=self.key(self.n), number=made.number, phases=self.phases)

    def asked(self, n: int) -> Any:
        return small_charge(self.key(n), subjects=self.chain % 2 == 1)

    def charges(self, tell: Tell) -> None:
        """Looks what is in the books, and charges without end, beginning with what is not known to be charged."""
        ledger = open_ledger(self.location)
        if self.n % 5 == 0:
            assert not ledger.verify(self.account).problems
        tell(mark="looked", found=found_charge(ledger, self.account, self.key(self.n)) is not None)
        sa.event.listen(sa.Engine, "after_cursor_execute", lambda *_: tell(mark="within"))
        sa.event.listen(sa.Engine, "commit", lambda connection: tell(mark="commit"))
        sa.event.listen(sa.pool.Pool, "checkin", lambda *_: time.sleep(0.001))  # the answer takes its time
        for n in itertools.count(self.n):
            asked, names = self.asked(n)
            tell(mark="before")
            made = ledger.charge(self.account, asked, key=self.key(n), subjects=names)
            tell(mark="after", n=n, number=made.number)

    def aim(self, child: Child, tell: Tell) -> None:
        """Waits for the moment of death: some time after the process began, or after it told something."""
        what = self.rng.choice(_AIMS)
        times = self.rng.randint(1, 20 if what == "within" else 4)
        spread = 0.08 if what == "start" else self.rng.choice([0.0, 0.001, 0.004])
        while what != "start" and times and (said := child.told()):
            self.hear(said, tell)
            times -= said["mark"] == what
        time.sleep(self.rng.uniform(0.0, spread))

    def hear(self, said: dict[str, Any], tell: Tell) -> None:
        if said["mark"] == "looked":
            self.look(found=said["found"])
            return
        self.last = said["mark"]
        self.committing |= self.last == "commit"
        if self.last == "after":
            tell(key=self.key(said["n"]), number=said["number"])
            self.n, self.written, self.committing = said["n"] + 1, False, False

    def look(self, *, found: bool) -> None:
        """Tells the phase of the kill before, from what was told last and what is in the books."""
        assert found >= self.written, "a charge was lost"
        if self.killed:
            self.phases.append(self.phase(found=found))
        self.last, self.killed, self.written = "", False, found

    def phase(self, *, found: bool) -> str:
        if self.written:
            return "while it was tried again"
        if found:
            assert self.committing, "written before COMMIT"
            return "written, not acknowledged"
        if self.last == "commit":
            return "at COMMIT, not written"
        return {"after": "acknowledged", "within": "within"}.get(self.last, "before")
