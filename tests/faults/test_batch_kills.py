"""kill -9 of workers, drivers and nodes at every step: one visible output a record, none lost, one charge."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import batch_driver
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.ledger.books import Ledger
from dptext.runs.verification import verify
from dptext.text.files import held
from many_files import ids, mechanism, shards

HERE = Path(__file__).parent
SECONDS = 120.0


def wait_until(so: Callable[[], Any]) -> Any:
    """What it gives as soon as that is true, or after a long time."""
    end = time.monotonic() + SECONDS
    while not (found := so()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


class Rig:
    """An input, a model, books, and runs over them that are killed."""

    def __init__(self, folder: Path, location: str, *, n: int, part_size: int, engine: str = "local") -> None:
        self.folder, self.n = folder, n
        shards(folder / "in", n // 2, 0 + n // 3, n - n // 2 - n // 3)
        dp.save_model(mechanism(), folder / "model")
        self.kills = folder / "kills"
        self.kills.mkdir()
        self.ledger = Ledger.create(location)
        limit = dp.Guarantee(1e6, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)
        self.ledger.open_account("account", limit)
        self.given = {
            "source": str(folder / "in"),
            "target": str(folder / "out"),
            "model": str(folder / "model"),
            "ledger": location,
            "engine": engine,
            "workers": 2,
            "part_size": part_size,
        }
        path = os.pathsep.join(filter(None, [str(HERE / "killing"), os.environ.get("PYTHONPATH")]))
        self.env = {**os.environ, "PYTHONPATH": path, "DPTEXT_TEST_KILLS": str(self.kills)}

    def plan_kills(self, before: int, after: int) -> None:
        """So many workers die before a part is visible, and so many just after."""
        for step, n in (("before", before), ("after", after)):
            for i in range(n):
                (self.kills / f"{step}-{i}").touch()

    def begin(self, *, resume: bool) -> subprocess.Popen[str]:
        given = json.dumps({**self.given, "resume": resume})
        return subprocess.Popen(
            [sys.executable, str(HERE / "batch_driver.py"), given],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def begun(self) -> bool:
        """Whether a run has left a state to go on with."""
        return (self.folder / ".out.run" / "state.json").exists()

    def finish(self, process: subprocess.Popen[str]) -> None:
        """Wait for its end, and go on as long as it ends unfinished."""
        _, error = process.communicate(timeout=SECONDS)
        while process.returncode != 0:
            assert "workers died at one task" in error or process.returncode < 0, error
            process = self.begin(resume=self.begun)
            _, error = process.communicate(timeout=SECONDS)

    def check(self) -> None:
        """What is promised."""
        assert ids(self.folder / "out") == [f"r{i}" for i in range(self.n)]
        path = self.folder / "out" / "manifest.json.guarantee.json"
        found = verify(path, ledger=self.ledger)
        log = list(self.ledger.log("account"))
        assert len(log) == 1
        assert log[0].release == found.certificate.sha256
        left = self.folder / ".out.run"
        if left.exists():  # a kill at the very last step leaves a lock
            assert [each.name for each in left.iterdir()] in ([], ["lock"])
        ours = (each.name for each in self.folder.iterdir() if not each.name.startswith(("books", ".out.run")))
        assert sorted(ours) == [
            "in",
            "kills",
            "model",
            "out",
        ]


@pytest.fixture
def rig(request: pytest.FixtureRequest, tmp_path: Path, new_ledger) -> Iterator[Rig]:
    # A driver that is killed forty times has more to do than workers that are killed at fifty parts.
    n = 900 if "many" not in request.node.name else 300_000 if "drivers" in request.node.name else 9_000
    found = Rig(tmp_path, new_ledger(), n=n, part_size=30)
    yield found
    found.ledger.close()


@pytest.mark.slow_cases(
    "sqlite-few", why="a driver that is killed at a part stays; tests/unit/batch/test_datasets.py has workers that die"
)
@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize(
    ("before", "after"), [(1, 1), pytest.param(25, 25, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_workers_are_killed_around_the_publishing_of_parts(rig: Rig, before: int, after: int) -> None:
    rig.plan_kills(before, after)
    rig.finish(rig.begin(resume=False))
    rig.check()
    died = before + after - len(list(rig.kills.iterdir()))
    assert died >= min(3, before + after), "hardly anybody was killed"
    print(f"{died} workers were killed")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
@pytest.mark.parametrize("seen", [False, True], ids=["before a part is visible", "after"])
def test_a_driver_that_works_alone_is_killed_at_a_part(rig: Rig, seen: bool) -> None:
    given = {**rig.given, "workers": 1}
    child = os.fork()
    if not child:
        link, parts = os.link, iter(range(7))

        def dying(source: str, target: str) -> None:
            last = "part-" in os.fspath(target) and next(parts, None) is None
            if seen or not last:
                link(source, target)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)

        os.link = dying  # type: ignore[assignment]
        try:
            batch_driver.main({**given, "resume": False})
        finally:
            os._exit(70)  # whatever happens, the child does not go on with the tests
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert rig.begun
    batch_driver.main({**given, "resume": True})
    rig.check()


@pytest.mark.slow  # a driver that works alone is killed above, workers above and below
@pytest.mark.parametrize(("kills", "least"), [(1, 1), (40, 10)], ids=["few", "many"])
def test_drivers_are_killed_at_random_moments(rig: Rig, kills: int, least: int) -> None:
    rng, done = random.Random(7), 0
    process = rig.begin(resume=False)
    while done < kills:
        if least > 1:
            time.sleep(rng.uniform(0.5, 2.5))
        else:  # a single kill is in the middle
            wait_until(lambda process=process: rig.begun or process.poll() is not None)
            time.sleep(rng.uniform(0.0, 0.5))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        done += 1
        if (rig.folder / "out").exists() and not rig.begun:
            break  # it was killed after its last step
        process = rig.begin(resume=rig.begun)
    if not (rig.folder / "out").exists() or rig.begun:
        rig.finish(process)
    else:
        process.communicate()
    rig.check()
    assert done >= least
    print(f"{done} drivers were killed")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.slow_cases("postgresql", why="SQLite is killed in the same way; tests/unit/ledger has PostgreSQL")
def test_workers_end_with_their_driver(rig: Rig) -> None:
    before, child = _workers(), os.fork()
    if not child:
        try:
            batch_driver.main({**rig.given, "resume": False})
        finally:
            os._exit(70)
    found = wait_until(lambda: _workers() - before)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert found
    assert wait_until(lambda: not found & _workers())


def _workers() -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"dptext.runs.processes" in path.read_bytes():
                found.add(int(path.parent.name))
    return found


@pytest.mark.slow_cases("postgresql", why="SQLite stays; the lock is a file")
def test_a_second_driver_is_refused_and_pays_nothing(rig: Rig) -> None:
    folder = rig.folder / ".out.run"
    folder.mkdir()
    with held(folder / "lock", ""), pytest.raises(ConfigError, match="Another run is writing here"):
        batch_driver.main({**rig.given, "resume": False})
    assert list(rig.ledger.log("account")) == []


@pytest.mark.slow  # a second driver is refused above
def test_two_drivers_at_once(rig: Rig) -> None:
    first = rig.begin(resume=False)
    wait_until(lambda: rig.begun)
    with pytest.raises(ConfigError, match=r"Another run is writing here|no unfinished run"):
        batch_driver.main({**rig.given, "resume": True})
    rig.finish(first)
    rig.check()
