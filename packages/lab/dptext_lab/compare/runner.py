"""The run of a grid on the machine's cores: one process a worker, each with one thread, one cell at a time.

A finished cell has a file and is not run again. A cell that fails is recorded with its error, and so is a cell whose
process dies, for example for want of memory. The other cells are run all the same. A killed run continues where it was.
"""

import contextlib
import gc
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from dptext import _validate
from dptext.errors import ConfigError, DPTextError
from dptext.kernels.processors import processors
from dptext.recommend.measured import CellCounts
from dptext.runs.processes import Process, packed
from dptext.text.packed_rows import load_pyarrow
from dptext.types import Json
from dptext_lab.compare.cell_run import Outcome, cell_data, run_cell
from dptext_lab.compare.cells import Cell, Lens, SharedFits, fit_key, signature
from dptext_lab.compare.corpora import SplitCorpus, load_corpus, named
from dptext_lab.compare.experiment import Experiment, parse_experiment
from dptext_lab.compare.folder import ExperimentFolder, cell_path, memory_mib, read_cell, write_json
from dptext_lab.compare.grid import ANY_LABELS, plan_cells
from dptext_lab.compare.stored import CellFile

_NO_ROOM: Final = "MemoryError: the cell needs more memory than a worker may take. Give it more with --memory."

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The settings of a worker, sent before its first cell: the parsed experiment and the folder of finished cells.

    A memory of 0 MiB sets no bound. `corpora` has the number and digest of the records of each corpus; other records
    are refused.
    """

    toml: Mapping[str, Json]
    folder: str
    memory_mib: int
    private_samples: bool
    corpora: Mapping[str, Json]


class CellWorker:
    """The job of a process: one experiment, with one corpus in memory at a time."""

    def __init__(self, opening: WorkerSetup) -> None:
        self._opening = opening
        self._experiment: Experiment = parse_experiment(opening.toml)
        self._lens = Lens(self._experiment.settings.embedder)
        self._corpus: SplitCorpus | None = None
        self._fits = SharedFits()

    def __reduce__(self) -> tuple[type["CellWorker"], tuple[WorkerSetup]]:
        return CellWorker, (self._opening,)

    def run(self, cell: Cell, signature: str) -> None:
        """Run the cell and write it, or the reason of its failure.

        The message of an unexpected error is withheld, because it may hold private text.
        """
        began = time.monotonic()
        outcome: Outcome | str
        try:
            _bound_memory(self._opening.memory_mib)
            corpus = self._loaded(cell.corpus)
            began = time.monotonic()  # reading the corpus does not count for its first cell
            with contextlib.suppress(OSError):  # not Linux: the peak is then of the whole process
                Path("/proc/self/clear_refs").write_text("5", "ascii")
            private = self._opening.private_samples
            outcome = run_cell(cell, self._experiment, corpus, self._lens, fits=self._fits, private_samples=private)
        except DPTextError as error:
            outcome = f"{type(error).__name__}: {error}"
        except MemoryError:
            outcome = _NO_ROOM
        except Exception as error:  # noqa: BLE001
            last = [*traceback.walk_tb(error.__traceback__)][-1:]
            where = "".join(f" at {Path(frame.f_code.co_filename).name}:{line}" for frame, line in last)
            outcome = f"{type(error).__name__}{where}; its message is withheld."
        data = cell_data(cell, outcome, signature=signature, seconds=time.monotonic() - began, peak_mib=peak_mib())
        write_json(cell_path(Path(self._opening.folder), signature), data)
        del outcome
        gc.collect()  # networks hold references in cycles, and the next cell needs their memory

    def _loaded(self, name: str) -> SplitCorpus:
        if self._corpus is None or self._corpus.name != name:
            self._corpus = None  # two at once would need twice the memory
            self._fits.forget()
            plan = self._experiment.corpora[name]
            found = load_corpus(name, plan, seed=self._experiment.seed)
            if found.described() != self._opening.corpora[name]:
                raise ConfigError(
                    f"Expected the corpus {name!r} to be as it was when the run began: a file has changed since. Put "
                    "it back and run again with --retry, or begin anew in another folder."
                )
            self._corpus = named(found, plan.names, self._lens.embedder) if plan.names else found
        return self._corpus


def peak_mib() -> float:
    """The peak memory in MiB of this process since its cell began; since its start on systems other than Linux."""
    try:
        for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass  # not Linux
    import resource  # noqa: PLC0415 (not on every system)

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else _MIB)


def _bound_memory(mib: int) -> None:
    """Refuse allocations beyond `mib` of memory. On Linux, reserved address space does not count."""
    if not mib:
        return
    import resource  # noqa: PLC0415 (not on every system)

    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, hard = resource.getrlimit(kind)
    wanted = mib * _MIB
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


#: Called with the number of finished cells, the number of all cells, and a few words.
TellCells = Callable[[int, int, str], None]

#: The share of the machine's memory that the workers may take together.
_SHARE: Final = 0.9
_TABLE_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of running a grid. No option changes a number.

    With 0 there is a worker a core, and each gets an equal share of the machine's memory. `private_samples` keeps some
    private originals, with their releases, in the files of the cells. `retry` runs failed cells again.
    """

    workers: int = 0
    memory_mib: int = 0
    private_samples: bool = False
    retry: bool = False

    def __post_init__(self) -> None:
        _validate.not_negative(workers=self.workers, memory_mib=self.memory_mib)


@dataclass(frozen=True, slots=True)
class GridSummary:
    """The end of a grid: cells in all, with numbers, with an error, and run now; rows whose guarantee is refuted."""

    total: int
    done: int
    failed: int
    run_now: int
    refuted: tuple[str, ...]


def run_experiment(
    experiment: Experiment,
    folder: ExperimentFolder,
    options: Options,
    *,
    command: str,
    on_progress: TellCells | None = None,
) -> GridSummary:
    """Run the unfinished cells of an experiment, and write the table.

    The command line is written beside the table. `on_progress` is called after each cell. DataError: a record of a
    corpus cannot be read. ConfigError: settings without cells, or the folder of another experiment.
    """
    load_pyarrow()  # raises before the grid, where it is not installed
    plan_cells(experiment, {name: ANY_LABELS if plan.label else () for name, plan in experiment.corpora.items()})
    with folder.held(experiment.files):
        corpora: dict[str, Json] = {}
        labels: dict[str, tuple[str, ...]] = {}
        for name, plan in experiment.corpora.items():
            found = load_corpus(name, plan, seed=experiment.seed)
            corpora[name], labels[name] = {**found.described()}, found.labels
            del found
        folder.check(experiment, corpora)
        cells = {signature(cell, experiment, corpora[cell.corpus]): cell for cell in plan_cells(experiment, labels)}
        grid = _Grid(cells, folder, lambda counts: folder.describe(experiment, corpora, command=command, counts=counts))
        grid.begin(options.retry)
        opening = WorkerSetup(dict(experiment.toml), str(folder.path.resolve()), 0, options.private_samples, corpora)
        try:
            grid.run(opening, options, on_progress or (lambda *_: None))
        finally:
            folder.tabulate(list(cells))
        return grid.summary()


class Waiting:
    """Waiting cells in the order of the grid, by their signatures, grouped by the inputs of their fits.

    A worker continues with the cells of its last fit. Next it begins a group that no worker has. If there is none it
    helps with the largest group and fits anew, so that no worker is idle.
    """

    def __init__(self, names: Iterable[str], cells: Mapping[str, Cell]) -> None:
        self._group = {name: fit_key(cells[name]) or name for name in names}
        self._left: dict[str, list[str]] = {}
        for name, group in self._group.items():
            self._left.setdefault(group, []).append(name)
        self._begun: set[str] = set()

    def __bool__(self) -> bool:
        """Return whether a cell waits."""
        return bool(self._left)

    def next(self, last: str = "") -> str:
        """Take a cell for the worker that ran the cell `last`; "" for a new worker. At least one cell must wait."""
        group = self._group.get(last, "")
        if group not in self._left:
            fresh = (one for one in self._left if one not in self._begun)
            group = next(fresh, "") or max(self._left, key=lambda one: len(self._left[one]))
        self._begun.add(group)
        name = self._left[group].pop(0)
        if not self._left[group]:
            del self._left[group]
        return name


class _Grid:
    def __init__(
        self, cells: Mapping[str, Cell], folder: ExperimentFolder, describe: Callable[[CellCounts], None]
    ) -> None:
        self._cells, self._folder, self._describe = cells, folder, describe
        self._ended: dict[str, bool] = {}  # whether it failed
        self._refuted: set[str] = set()
        self._run = 0
        self.left: list[str] = []

    def begin(self, retry: bool) -> None:
        """Look for finished cells, and record the failure of cells that cannot be run."""
        for name, cell in self._cells.items():
            found = read_cell(self._folder.path, name)
            if found is not None and retry and found.error is not None:
                cell_path(self._folder.path, name).unlink(missing_ok=True)
                found = None
            if found is not None:
                self._count(name, found)
            elif cell.fault:
                self.fail(name, f"ConfigError: {cell.fault}", seconds=0.0, peak=peak_mib())
            else:
                self.left.append(name)
        self._describe(self.counts())

    def fail(self, name: str, reason: str, *, seconds: float, peak: float) -> None:
        """Record a cell without numbers."""
        data = cell_data(self._cells[name], reason, signature=name, seconds=seconds, peak_mib=peak)
        write_json(cell_path(self._folder.path, name), data)
        self.ended(name)

    def ended(self, name: str) -> None:
        """Count a cell whose file exists."""
        self._run += 1
        found = read_cell(self._folder.path, name)
        if found is None:
            raise ConfigError(f"Cannot read the cell {name} that was just written: look at the disk of the folder.")
        self._count(name, found)
        self._describe(self.counts())

    def _count(self, name: str, found: CellFile) -> None:
        self._ended[name] = found.error is not None
        if found.refuted:
            cell = self._cells[name]
            self._refuted.add(f"{cell.corpus}: {cell.row}")

    def counts(self) -> CellCounts:
        """Count cells by how they ended."""
        failed = sum(self._ended.values())
        return CellCounts(done=len(self._ended) - failed, failed=failed, total=len(self._cells))

    def summary(self) -> GridSummary:
        """Summarize the grid at this moment."""
        counts = self.counts()
        return GridSummary(counts.total, counts.done, counts.failed, self._run, tuple(sorted(self._refuted)))

    def run(self, opening: WorkerSetup, options: Options, tell: TellCells) -> None:
        """Hand the remaining cells to processes, until all have ended."""
        count = min(options.workers or processors(), len(self.left))
        if not count:
            return
        memory = options.memory_mib or max(1, int(memory_mib() * _SHARE / count))
        job = packed(CellWorker(replace(opening, memory_mib=memory)))
        waiting, tabulated = Waiting(self.left, self._cells), time.monotonic()
        busy: dict[Any, tuple[Process, str, float]] = {}  # by pipe: the process, its cell, and its start
        with contextlib.ExitStack() as stack:

            def hand(process: Process | None, last: str) -> None:
                if not waiting:
                    if process is not None:
                        process.close()
                    return
                if process is None:
                    process = stack.enter_context(contextlib.closing(Process()))
                    process.take(job)
                name = waiting.next(last)
                process.send(("run", (self._cells[name], name)))
                busy[process.pipe] = process, name, time.monotonic()

            for _ in range(count):
                hand(None, "")
            while busy:
                for pipe in wait(list(busy)):
                    process, name, began = busy.pop(pipe)
                    try:
                        answer = process.pipe.recv()
                    except (EOFError, ConnectionResetError):
                        code, peak = process.reap()
                        self.fail(name, _ending(code), seconds=time.monotonic() - began, peak=peak)
                        hand(None, "")
                    else:
                        if isinstance(answer, DPTextError):  # the disk refuses
                            raise answer
                        self.ended(name)
                        hand(process, name)
                    counts = self.counts()
                    tell(counts.done + counts.failed, counts.total, f"cells, {counts.failed} failed")
                if time.monotonic() - tabulated > _TABLE_EVERY_SECONDS:
                    self._folder.tabulate(list(self._cells))
                    tabulated = time.monotonic()


def _ending(code: int) -> str:
    if code >= 0:
        return f"WorkerDied: its process ended with status {code} and said nothing."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    advice = ", as the system does where memory runs out: run fewer --workers, or bound each with --memory"
    return f"WorkerDied: its process was ended by {name}{advice if -code == signal.SIGKILL else ''}."
