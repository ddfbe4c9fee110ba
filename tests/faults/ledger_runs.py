"""Runs from file to file that are killed, that meet, or that may not do what they need to."""

import contextlib
import os
import random
import resource
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledger_processes import Tell, aside, die, fork, open_ledger, request, word_metric

from dptext.errors import ConfigError, DPTextError, LedgerError
from dptext.ledger.books import Ledger
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.payment import Payment
from dptext.runs.plan import Plan
from dptext.text.records import Fields

NOBODY = 65534

# ------------------------------------------------------------------------------------------- runs from file to file


class WatchedLedger(Ledger):
    """A ledger that says what a run does with it."""

    watch: Callable[[str], None]

    def charge(self, *args: Any, **named: Any) -> Any:
        self.watch("charging")
        made = super().charge(*args, **named)
        self.watch("charged")
        return made

    def settle(self, *args: Any, **named: Any) -> None:
        self.watch("settling")
        super().settle(*args, **named)
        self.watch("settled")


class WatchedMechanism:
    """A mechanism that says when it draws."""

    def __init__(self, mechanism: Any, watch: Callable[[str], None]) -> None:
        self.spec, self.digests = mechanism.spec, mechanism.digests
        self._mechanism, self._watch = mechanism, watch

    def privatize(self, records: Any, randomness: Any) -> Any:
        self._watch("drawing")
        return self._mechanism.privatize(records, randomness)


class Runs:
    """Runs of one input into several outputs.

    Args:
        location: of the ledger.
        account: that pays.
        source: the input.
        mechanism: that all of them use.
        by_subject: whether each subject in the input pays, or everyone.
    """

    def __init__(self, location: str, account: str, source: Path, mechanism: Any, *, by_subject: bool) -> None:
        self.location, self.account, self.source, self.mechanism = location, account, source, mechanism
        self.plan = Plan(fields=Fields(id="id", subject="who" if by_subject else None), batch_size=5)

    def begin(self, target: Path, watch: Callable[[str], None], *, key: str | None = None, **plan: bool) -> Certificate:
        ledger = open_ledger(self.location, WatchedLedger)
        ledger.watch = watch
        return privatize_file(
            self.source,
            target,
            WatchedMechanism(self.mechanism, watch),
            plan=replace(self.plan, **plan),
            payment=Payment(ledger, self.account, key, everyone=self.plan.fields.subject is None),
        )

    def go_on(self, target: Path, watch: Callable[[str], None], *, key: str | None = None) -> str:
        """What a user would do after a crash, told by the messages; says what that was."""
        try:
            self.begin(target, watch, key=key, resume=True)
        except ConfigError as error:
            problem = str(error)
        else:
            return "resumed"
        assert "There is no unfinished run to resume" in problem, problem
        if target.exists():
            assert certificate_path(target).exists()
            return "was done"
        try:
            self.begin(target, watch, key=key)
        except ConfigError as error:
            problem = str(error)
        else:
            return "begun"
        assert "nothing of it is done: begin anew with --force" in problem, problem
        self.begin(target, watch, key=key, force=True)
        return "begun anew"


def crash_run(
    location: str, account: str, source: str, targets: dict[str, str], vectors: str, key: str | None = None
) -> dict[str, Any]:
    """Runs that are killed when a watched thing happens for the first time, and then gone on with.

    Returns:
        For each such thing: "found", the charges then; "files" of the run then; and "how" it was gone on with.
    """
    mechanism = word_metric(vectors)
    told = {}
    for what, place in targets.items():
        target = Path(place)
        runs = Runs(location, account, Path(source), mechanism, by_subject=False)
        own = key and f"{key} {what}"

        def watch(happens: str, what: str = what) -> None:
            if happens == what:
                die()

        def log() -> list[Any]:
            with contextlib.closing(open_ledger(location)) as ledger:
                return [(each.key, each.release) for each in ledger.log(account)]

        before = aside(log)
        child = fork(lambda tell, runs=runs, target=target, watch=watch, own=own: runs.begin(target, watch, key=own))
        assert child.told() is None
        assert child.end() == -signal.SIGKILL, what
        found = aside(log)[len(before) :]
        files = sorted(path.name for path in target.parent.iterdir())
        how = aside(lambda runs=runs, target=target, own=own: runs.go_on(target, lambda _: None, key=own))
        told[what] = {"found": found, "files": files, "how": how}
    return told


def kill_runs(
    location: str, accounts: list[str], source: str, targets: list[str], vectors: str, kills: int, seed: int
) -> list[str]:
    """Runs that are killed at random moments until they were killed so often in all; then each is brought to its end.

    Args:
        location: of the ledger.
        accounts: those that pay, in turns: for everyone, and for each subject.
        source: the input.
        targets: an output for each run.
        vectors: of the mechanism.
        kills: in all.
        seed: of the moments.

    Returns:
        What each run that was killed had told last.
    """
    rng = random.Random(seed)
    mechanism = word_metric(vectors)
    last = []
    while targets:
        i = rng.randrange(len(targets))
        target = Path(targets[i])
        turn = int(target.stem.rpartition("-")[2]) % len(accounts)
        runs = Runs(location, accounts[turn], Path(source), mechanism, by_subject=turn == 1)

        def work(tell: Tell, runs: Runs = runs, target: Path = target) -> None:
            tell(at="started")
            tell(at="the end", how=runs.go_on(target, lambda what: tell(at=what)))

        child = fork(work)
        at = "nothing"
        if len(last) < kills:
            aim = rng.choice(["started", "charging", "charged", "drawing", "settling", "settled"])
            times = rng.randint(1, 6) if aim == "drawing" else 1
            while times and (said := child.told()):
                at = said["at"]
                times -= at == aim
            time.sleep(rng.uniform(0, rng.choice([0.0005, 0.01])))
            child.kill()
        for said in child.rest():
            at = said["at"]
        code = child.end()
        if code == 0:
            assert at == "the end"
            targets.pop(i)
        else:
            assert code == -signal.SIGKILL
            last.append(at)
    return last


def run_twice_at_once(
    location: str, account: str, source: str, targets: list[str], vectors: str, key: str
) -> list[str | None]:
    """Runs with one charge key that have all paid, and draw at one moment; what each was refused with."""
    mechanism = word_metric(vectors)
    gate, opener = os.pipe()

    def work(target: str, tell: Tell) -> None:
        os.close(opener)

        def watch(happens: str) -> None:
            if happens == "drawing" and not met:
                met.append(True)
                tell(drawing=True)
                os.read(gate, 1)

        met: list[bool] = []
        runs = Runs(location, account, Path(source), mechanism, by_subject=False)
        try:
            runs.begin(Path(target), watch, key=key)
        except DPTextError as error:
            tell(error=f"{type(error).__name__}: {error}")
        else:
            tell(error=None)

    everyone = [fork(lambda tell, target=target: work(target, tell)) for target in targets]
    assert all(child.told() == {"drawing": True} for child in everyone)
    os.close(opener)
    results = [(child.told() or {"error": "killed"})["error"] for child in everyone]
    assert all(child.end() == 0 for child in everyone)
    return results


# ------------------------------------------------------------------------------------ less than the tests may do


def _attempts(location: str, account: str, source: str, target: str, mechanism: Any) -> dict[str, str]:
    """What reading, charging and a run are refused with; "" where they are not."""
    told = {}
    runs = Runs(location, account, Path(source), mechanism, by_subject=False)
    for what, attempt in {
        "balance": lambda: open_ledger(location).balance(account),
        "charge": lambda: open_ledger(location).charge(account, request(0.5), key="refused"),
        "run": lambda: runs.begin(Path(target), lambda _: None),
    }.items():
        try:
            attempt()
        except LedgerError as error:
            told[what] = str(error)
        else:
            told[what] = ""
    return told


def as_nobody(location: str, account: str, source: str, target: str, vectors: str) -> dict[str, str]:
    """The same by a user with no rights but those that everybody has, where the tests run as root."""
    mechanism = word_metric(vectors)

    def work() -> dict[str, str]:
        # What Python loads late may lie where that user may not read: load it now.
        scratch = Path(target).with_name("scratch")
        shutil.copytree(Path(location).parent, scratch)
        for path in (scratch, *scratch.iterdir()):
            path.chmod(0o700)
        told = _attempts(str(scratch / Path(location).name), account, source, str(scratch / "out.jsonl"), mechanism)
        assert not any(told.values()), told
        shutil.rmtree(scratch)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return _attempts(location, account, source, target, mechanism)

    return aside(work)


def on_a_full_disk(location: str, account: str, source: str, target: str, vectors: str) -> dict[str, str]:
    """The same where no file may grow beyond what SQLite's log has already."""
    mechanism = word_metric(vectors)

    def work() -> dict[str, str]:
        with contextlib.closing(sqlite3.connect(location, isolation_level=None)) as other:
            other.execute("CREATE TABLE other (filler BLOB)")
            other.execute("INSERT INTO other VALUES (zeroblob(100000))")
            other.execute("DROP TABLE other")
            size = Path(f"{location}-wal").stat().st_size
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            return _attempts(location, account, source, target, mechanism)

    return aside(work)
