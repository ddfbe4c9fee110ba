"""The process that runs cells: `python -m dptext.compare.worker`, spoken to in lines of JSON; and its parent's side.

The first line opens an experiment. Each other line names a cell, which is run and written to its file before the line
is answered. A deliberate error makes a failed cell. Any other error ends the process, which says where the error arose
and withholds its message, because that might hold private text. The process ends when its parent does.
"""

import contextlib
import gc
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

from dptext.compare.cell_run import Outcome, cell_data, run_cell
from dptext.compare.cells import Cell, Lens, SharedFits
from dptext.compare.corpora import Corpus, load_corpus, named
from dptext.compare.experiment import Experiment, parse_experiment
from dptext.compare.folder import cell_path, write_json
from dptext.errors import ConfigError, DPTextError
from dptext.types import Json

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class WorkerProcess:
    """One worker. It ends when our end of its pipe is closed, and so it ends with us.

    It runs the `cell` of this signature since it `began`, in seconds of `time.monotonic`.
    """

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

    def ask(self, name: str, cell: Cell) -> None:
        """Let it run a cell."""
        self.cell, self.began = name, time.monotonic()
        self._write(json.dumps({"signature": name, "cell": cell.to_dict()}).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died: that shows when its answer is read
            self._questions.write(line)
            self._questions.flush()

    def answer(self) -> str | None:
        """None where the cell is written; else what the process said before it died, which may be empty."""
        try:
            found = json.loads(self.answers.readline())
        except ValueError:
            return ""
        return None if found.get("done") == self.cell else str(found.get("broken", ""))

    def reap(self, said: str) -> tuple[str, float]:
        """Wait for its end. Returns why it died, and the most memory that it held, in MiB."""
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
    advice = ", as the system does where memory runs out: run fewer --workers, or bound each with --memory"
    return f"WorkerDied: its process was ended by {name}{advice if -code == signal.SIGKILL else ''}."


INTERNAL_ERROR: Final = 70
OUT_OF_MEMORY: Final = 71
#: How a message says that there was no room for a cell.
NO_ROOM: Final = "MemoryError: the cell needs more memory than a worker may take. Give it more with --memory."

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Opening:
    """What a worker must know before its first cell: the parsed experiment, and where finished cells are written.

    A memory of 0 MiB sets no bound. A corpus is refused whose records have other numbers and digests than these.
    """

    toml: Mapping[str, Json]
    folder: str
    memory_mib: int
    private_samples: bool
    corpora: Mapping[str, Json]


class Worker:
    """One experiment in one process, with one corpus in memory at a time."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._experiment: Experiment = parse_experiment(opening.toml)
        self._lens = Lens(self._experiment.settings.embedder)
        self._corpus: Corpus | None = None
        self._fits = SharedFits()

    def run(self, cell: Cell, signature: str) -> dict[str, Json]:
        """Run the cell, write it, and say how it went; MemoryError where there is not enough."""
        began = time.monotonic()
        outcome: Outcome | str
        try:
            if cell.fault:
                raise ConfigError(cell.fault)
            corpus = self._loaded(cell.corpus)
            began = time.monotonic()  # reading the corpus does not count for its first cell
            with contextlib.suppress(OSError):  # not Linux: the peak is then of the whole process
                Path("/proc/self/clear_refs").write_text("5", "ascii")
            private = self._opening.private_samples
            outcome = run_cell(cell, self._experiment, corpus, self._lens, fits=self._fits, private_samples=private)
        except DPTextError as error:
            outcome = f"{type(error).__name__}: {error}"
        data = cell_data(cell, outcome, signature=signature, seconds=time.monotonic() - began, peak_mib=peak_mib())
        write_json(cell_path(Path(self._opening.folder), signature), data)
        del outcome
        gc.collect()  # networks hold references in cycles, and the next cell needs their memory
        return {"done": signature}

    def _loaded(self, name: str) -> Corpus:
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
    """The most memory in MiB that this process held since its cell began; since its start where there is no Linux."""
    try:
        for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass  # not Linux
    import resource  # noqa: PLC0415 (not on every system)

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else _MIB)


def _bound_memory(mib: int) -> None:
    """Refuse allocations beyond so much memory. On Linux, reserved address space does not count."""
    if not mib:
        return
    import resource  # noqa: PLC0415 (not on every system)

    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, hard = resource.getrlimit(kind)
    wanted = mib * _MIB
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def main() -> None:
    """Serve the parent until it closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, lines), daemon=True).start()

    def withhold(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
        last = [*traceback.walk_tb(trace)][-1:]
        where = "".join(f" at {Path(frame.f_code.co_filename).name}:{line}" for frame, line in last)
        memory = issubclass(kind, MemoryError)
        _answer(answers, {"broken": NO_ROOM if memory else f"{kind.__name__}{where}; its message is withheld."})
        os._exit(OUT_OF_MEMORY if memory else INTERNAL_ERROR)

    sys.excepthook = withhold
    opening = Opening(**json.loads(lines.get()))
    _bound_memory(opening.memory_mib)
    worker = Worker(opening)
    while True:
        asked = json.loads(lines.get())
        _answer(answers, worker.run(Cell(**asked["cell"]), str(asked["signature"])))


def _listen(source: BinaryIO, lines: queue.Queue[bytes]) -> None:
    """Put lines into the queue. At the end of the pipe the parent is gone, and the process ends."""
    for line in source:
        lines.put(line)
    os._exit(0)


def _answer(target: BinaryIO, data: Mapping[str, Json]) -> None:
    target.write(json.dumps(dict(data)).encode() + b"\n")
    target.flush()


if __name__ == "__main__":
    main()
