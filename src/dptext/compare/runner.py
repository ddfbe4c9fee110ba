"""The grid over the machine's cores: one process a worker, each with one thread, one cell at a time.

A finished cell has a file and is not run again. A cell that fails is recorded with its error, and so is a cell whose
process dies, for want of memory say. The other cells are run all the same. A run that was killed goes on where it was.
"""

import contextlib
import json
import selectors
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from dptext import _validate
from dptext.compare.cell_run import cell_data
from dptext.compare.cells import Cell, fit_key, signature
from dptext.compare.corpora import load_corpus
from dptext.compare.experiment import Experiment
from dptext.compare.folder import Folder, cell_path, memory_mib, read_cell, write_json
from dptext.compare.grid import ANY_LABELS, plan_cells
from dptext.compare.stored import CellCounts, CellFile
from dptext.compare.worker import Opening, WorkerProcess, peak_mib
from dptext.embeddings.processors import processors
from dptext.errors import ConfigError
from dptext.text.packed_rows import load_pyarrow
from dptext.types import Json

#: Called with the number of finished cells, the number of all cells, and a few words.
TellCells = Callable[[int, int, str], None]

#: The share of the machine's memory that the workers may take together.
_SHARE: Final = 0.9
_TABLE_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a grid is run. No option changes a number.

    With 0 there is a worker a core, and each takes an equal share of the machine's memory. `private_samples` keeps some
    private originals, and what became of them, in the files of the cells. `retry` runs cells again that failed.
    `accept_changes` keeps equal cells in a folder of another experiment or other records, which is refused otherwise.
    """

    workers: int = 0
    memory_mib: int = 0
    private_samples: bool = False
    retry: bool = False
    accept_changes: bool = False

    def __post_init__(self) -> None:
        _validate.not_negative(workers=self.workers, memory_mib=self.memory_mib)


@dataclass(frozen=True, slots=True)
class GridSummary:
    """How a grid ended: cells in all, with numbers, with an error, and run now; rows whose guarantee is false."""

    total: int
    done: int
    failed: int
    run_now: int
    refuted: tuple[str, ...]


def run_experiment(
    experiment: Experiment, folder: Folder, options: Options, *, command: str, on_progress: TellCells | None = None
) -> GridSummary:
    """Run what is not finished yet, and write the table; ConfigError for settings without cells, or another's folder.

    The command line is written beside the table. `on_progress` is called after each cell. A record of a corpus that
    cannot be read raises DataError.
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
        if not options.accept_changes:
            folder.check(experiment, corpora)
        cells = {signature(cell, experiment, corpora[cell.corpus]): cell for cell in plan_cells(experiment, labels)}
        grid = _Grid(cells, folder, lambda counts: folder.describe(experiment, corpora, command=command, counts=counts))
        grid.begin(options.retry)
        opening = Opening(dict(experiment.toml), str(folder.path.resolve()), 0, options.private_samples, corpora)
        try:
            grid.run(opening, options, on_progress or (lambda *_: None))
        finally:
            folder.tabulate(list(cells))
        return grid.summary()


class Waiting:
    """Cells in the order of the grid, by their signatures, grouped by what their fits read.

    A worker goes on with the cells of its last fit. Then it begins with a group that no worker has. Where there is none
    it helps with the largest group and fits anew, so that no worker is idle.
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
        """Take a cell for the worker that ran the cell `last`; for a new worker without it. At least one must wait."""
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
    def __init__(self, cells: Mapping[str, Cell], folder: Folder, describe: Callable[[CellCounts], None]) -> None:
        self._cells, self._folder, self._describe = cells, folder, describe
        self._ended: dict[str, bool] = {}  # whether it failed
        self._refuted: set[str] = set()
        self._run = 0
        self.left: list[str] = []

    def begin(self, retry: bool) -> None:
        """Look for finished cells, and let those fail at once that cannot be run."""
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
        """Record a cell that gave no numbers."""
        data = cell_data(self._cells[name], reason, signature=name, seconds=seconds, peak_mib=peak)
        write_json(cell_path(self._folder.path, name), data)
        self.ended(name)

    def ended(self, name: str) -> None:
        """Count a cell whose file is there."""
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
        """Cells by how they ended."""
        failed = sum(self._ended.values())
        return CellCounts(done=len(self._ended) - failed, failed=failed, total=len(self._cells))

    def summary(self) -> GridSummary:
        """How the grid stands."""
        counts = self.counts()
        return GridSummary(counts.total, counts.done, counts.failed, self._run, tuple(sorted(self._refuted)))

    def run(self, opening: Opening, options: Options, tell: TellCells) -> None:
        """Hand the cells that are left to processes, until all have ended."""
        count = min(options.workers or processors(), len(self.left))
        if not count:
            return
        memory = options.memory_mib or max(1, int(memory_mib() * _SHARE / count))
        first = json.dumps({**asdict(opening), "memory_mib": memory}).encode() + b"\n"
        waiting, tabulated = Waiting(self.left, self._cells), time.monotonic()
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:

            def start() -> None:
                if waiting:
                    process = stack.enter_context(contextlib.closing(WorkerProcess(first)))
                    selector.register(process.answers, selectors.EVENT_READ, process)
                    hand(process)

            def hand(process: WorkerProcess) -> None:
                if waiting:
                    process.ask(name := waiting.next(process.cell), self._cells[name])
                else:
                    selector.unregister(process.answers)
                    process.close()

            for _ in range(count):
                start()
            while selector.get_map():
                for key, _ in selector.select():
                    process: WorkerProcess = key.data
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
                    tell(counts.done + counts.failed, counts.total, f"cells, {counts.failed} failed")
                if time.monotonic() - tabulated > _TABLE_EVERY_SECONDS:
                    self._folder.tabulate(list(self._cells))
                    tabulated = time.monotonic()
