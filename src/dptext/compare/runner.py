"""The grid over the machine's cores: one process a worker, each with one thread, one cell at a time.

A finished cell is a file and is never run again. A cell that fails is recorded with its error, and so is one whose
process dies, killed for its memory say; the rest goes on. A run that was killed goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from dptext import _validate
from dptext.compare.cells import ANY_LABELS, Cell, plan_cells, signature
from dptext.compare.corpora import load_corpus
from dptext.compare.experiment import Experiment
from dptext.compare.folder import Folder, cores, memory_mib
from dptext.compare.rows import cell_data
from dptext.compare.worker import Opening, peak_mib
from dptext.errors import ConfigError
from dptext.text.parquet_rows import load_pyarrow
from dptext.types import Json

#: Called with cells that are finished, cells in all, and a few words.
Progress = Callable[[int, int, str], None]

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
#: Of the machine's memory, what the workers may take together.
_SHARE: Final = 0.9
_TABLE_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a grid is run; changes no number.

    Attributes:
        workers: processes at once; 0 for one a core.
        memory_mib: that a worker may take; 0 for an equal share of the machine's.
        private_samples: keep some private originals, and what became of them, in the files of the cells.
        failed: "keep" leaves cells that failed as they are, "retry" runs them again.
        changes: "refuse" a folder of another experiment or other records, "accept" keeps the cells that are the same.
    """

    workers: int = 0
    memory_mib: int = 0
    private_samples: bool = False
    failed: str = "keep"
    changes: str = "refuse"

    def __post_init__(self) -> None:
        _validate.not_negative(workers=self.workers, memory_mib=self.memory_mib)
        for name, known in (("failed", ("keep", "retry")), ("changes", ("refuse", "accept"))):
            _validate.one_of(known, **{name: getattr(self, name)})


@dataclass(frozen=True, slots=True)
class Summary:
    """How a grid ended.

    Attributes:
        total: cells of the grid.
        done: those that gave numbers.
        failed: those that gave an error.
        run: those that were run now.
        refuted: rows whose guarantee an audit found to be false.
    """

    total: int
    done: int
    failed: int
    run: int
    refuted: tuple[str, ...]


def run_experiment(
    experiment: Experiment, folder: Folder, options: Options, *, command: str, on_progress: Progress | None = None
) -> Summary:
    """Run what is not finished yet, and write the table.

    Args:
        experiment: to run.
        folder: of its cells.
        options: how.
        command: that is written beside the table.
        on_progress: called after each cell.

    Raises:
        ConfigError: settings that make no cell, or a folder of another experiment.
        DataError: a record of a corpus cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    load_pyarrow()  # better missed now than after the grid
    plan_cells(experiment, {plan.name: ANY_LABELS if plan.label else () for plan in experiment.corpora})
    with folder.held(experiment.files):
        corpora: dict[str, Json] = {}
        labels: dict[str, tuple[str, ...]] = {}
        for plan in experiment.corpora:
            found = load_corpus(plan, seed=experiment.seed)
            corpora[plan.name], labels[plan.name] = {**found.described()}, found.labels
            del found
        if options.changes == "refuse":
            folder.check(experiment, corpora)
        cells = {signature(cell, experiment, corpora[cell.corpus]): cell for cell in plan_cells(experiment, labels)}
        grid = _Grid(cells, folder, lambda counts: folder.describe(experiment, corpora, command=command, cells=counts))
        grid.begin(options.failed)
        opening = Opening(dict(experiment.toml), str(folder.path.resolve()), 0, options.private_samples, corpora)
        try:
            grid.run(opening, options, on_progress or _silent)
        finally:
            folder.tabulate(list(cells))
        return grid.summary()


def _silent(done: int, total: int, what: str) -> None:
    """Tell nobody."""


class _Grid:
    """Which cells are finished, how they ended, and which are left."""

    def __init__(self, cells: Mapping[str, Cell], folder: Folder, describe: Callable[[dict[str, int]], None]) -> None:
        self._cells, self._folder, self._describe = cells, folder, describe
        self._ended: dict[str, bool] = {}  # whether it failed
        self._refuted: set[str] = set()
        self._run = 0
        self.left: list[str] = []

    def begin(self, failed: str) -> None:
        """Look for finished cells; those that cannot be run at all fail at once."""
        for name, cell in self._cells.items():
            found = self._folder.finished(name)
            if found is not None and failed == "retry" and found.get("error"):
                self._folder.forget(name)
                found = None
            if found is not None:
                self._count(name, found)
            elif cell.fault:
                self.fail(name, f"ConfigError: {cell.fault}", seconds=0.0, peak=peak_mib())
            else:
                self.left.append(name)
        self._describe(self.counts())

    def fail(self, name: str, reason: str, *, seconds: float, peak: float) -> None:
        """Record a cell that gave no numbers."""
        data = cell_data(self._cells[name], reason, signature=name, seconds=seconds, peak_mib=peak)
        self._folder.write(name, data)
        self.ended(name)

    def ended(self, name: str) -> None:
        """Count a cell whose file is there."""
        self._run += 1
        found = self._folder.finished(name)
        if found is None:
            raise ConfigError(f"Cannot read the cell {name} that was just written: look at the disk of the folder.")
        self._count(name, found)
        self._describe(self.counts())

    def _count(self, name: str, found: Mapping[str, Json]) -> None:
        self._ended[name] = bool(found.get("error"))
        if found.get("refuted"):
            cell = self._cells[name]
            self._refuted.add(f"{cell.corpus}: {cell.row}")

    def counts(self) -> dict[str, int]:
        """Cells by how they ended."""
        failed = sum(self._ended.values())
        return {"done": len(self._ended) - failed, "failed": failed, "total": len(self._cells)}

    def summary(self) -> Summary:
        """How the grid stands."""
        counts = self.counts()
        return Summary(counts["total"], counts["done"], counts["failed"], self._run, tuple(sorted(self._refuted)))

    def run(self, opening: Opening, options: Options, tell: Progress) -> None:
        """Hand the cells that are left to processes, until all have ended."""
        count = min(options.workers or cores(), len(self.left))
        if not count:
            return
        memory = options.memory_mib or max(1, int(memory_mib() * _SHARE / count))
        first = json.dumps({**asdict(opening), "memory_mib": memory}).encode() + b"\n"
        waiting, tabulated = list(reversed(self.left)), time.monotonic()
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:

            def start() -> None:
                if waiting:
                    process = stack.enter_context(_Process(first))
                    selector.register(process.answers, selectors.EVENT_READ, process)
                    hand(process)

            def hand(process: _Process) -> None:
                if waiting:
                    process.ask(name := waiting.pop(), self._cells[name])
                else:
                    selector.unregister(process.answers)
                    process.close()

            for _ in range(count):
                start()
            while selector.get_map():
                for key, _ in selector.select():
                    process: _Process = key.data
                    broken = process.answer()
                    if broken is None:
                        self.ended(process.cell)
                        hand(process)
                    else:
                        selector.unregister(process.answers)
                        reason, peak = process.reap(broken)
                        self.fail(process.cell, reason, seconds=time.monotonic() - process.began, peak=peak)
                        start()
                    counts = self.counts()
                    tell(counts["done"] + counts["failed"], counts["total"], f"cells, {counts['failed']} failed")
                if time.monotonic() - tabulated > _TABLE_EVERY_SECONDS:
                    self._folder.tabulate(list(self._cells))
                    tabulated = time.monotonic()


class _Process:
    """One worker. It ends with us: when our end of its pipe is closed, however that happens."""

    def __init__(self, first: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dptext.compare.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a trace might show private text
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            start_new_session=True,  # Ctrl-C is for us; we end the workers
        )
        assert self._process.stdin is not None  # noqa: S101  # both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._questions, self.answers = self._process.stdin, self._process.stdout
        self.cell = ""
        self.began = time.monotonic()
        self._write(first)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, name: str, cell: Cell) -> None:
        """Let it run a cell."""
        self.cell, self.began = name, time.monotonic()
        self._write(json.dumps({"signature": name, "cell": cell.to_dict()}).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died: that shows when its answer is read
            self._questions.write(line)
            self._questions.flush()

    def answer(self) -> str | None:
        """None where the cell is written, else what the process said before it died, which may be nothing."""
        try:
            found = json.loads(self.answers.readline())
        except ValueError:
            return ""
        return None if found.get("done") == self.cell else str(found.get("broken", ""))

    def reap(self, said: str) -> tuple[str, float]:
        """Wait for the end; why it died, and the most memory that it held in MiB."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.close()
        peak = usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)
        return said or _ending(self._process.returncode), peak

    def close(self) -> None:
        """End the process, if it has not ended."""
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.answers.close()


def _ending(code: int) -> str:
    if code >= 0:
        return f"WorkerDied: its process ended with status {code} and said nothing."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    advice = (
        ", as the system does where memory runs out: run fewer --workers, or bound each with --memory"
        if (-code == signal.SIGKILL)
        else ""
    )
    return f"WorkerDied: its process was ended by {name}{advice}."
