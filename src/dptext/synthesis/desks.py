"""The processes that write: this one, or fresh ones, which read no private text and have no private file open."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from dptext.synthesis.by_length import More
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.spec import Progress
from dptext.synthesis.word_targets import Shift, Steers, Texts, WordTargets
from dptext.types import Floats, Json

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

LOOK_SECONDS: Final = 0.5  # after which the number of texts that the processes have written is looked at again
Result = TypeVar("Result")


@runtime_checkable
class KeepsAnswers(Protocol):
    """A writer that keeps each answer of a server."""

    def keep(self, kept: KeptWriting) -> None:
        """Keep the answers there, and ask for none that is there."""


@runtime_checkable
class TellsWay(Protocol):
    """A writer that found out something of a server."""

    @property
    def way(self) -> Mapping[str, Json]:
        """What was found out, as the certificate has it; empty before anything is written."""


@dataclass(slots=True)
class WritingProgress:
    """Tells how many texts are written, drafts among them."""

    whole: int
    tell: Progress | None
    done: int = 0

    def begin(self) -> None:
        """Tell that nothing is written yet."""
        self.to(0)

    def add(self, n: int) -> None:
        """Tell that `n` more texts are written, drafts among them."""
        self.to(self.done + n)

    def to(self, done: int) -> None:
        """Tell that `done` texts are written. Those that are written in the place of repeats do not count.

        As long as no text is written this is told, too: a model is loaded meanwhile.
        """
        if (done := min(done, self.whole)) > self.done or not self.done:
            self.done = done
            if self.tell is not None:
                self.tell(self.done, self.whole)


class Desk:
    """Writes in this process."""

    def __init__(self, steered: Steers, progress: WritingProgress) -> None:
        self._steered, self._progress = steered, progress

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model; empty where nobody here can read them."""
        return self._steered.weights

    @property
    def way(self) -> Mapping[str, Json]:
        """What was found out of a server; empty if none was asked."""
        return _way_of(self._steered)

    def keep(self, kept: KeptWriting) -> None:
        """Let a writer that asks a server keep each answer."""
        if isinstance(self._steered, KeepsAnswers):
            self._steered.keep(kept)

    def shifts(self, tasks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Shift]]:
        """Yield label and shift for each label with its seed."""
        for label, seed in tasks:
            yield label, self._steered.shift(label, seed, self._progress.add)

    def texts(self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]) -> Iterator[tuple[int, Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""
        for label, n, seed in tasks:
            yield label, self._steered.texts(label, n, seed, shifts[label], self._progress.add)


class Desks:
    """Writes in fresh processes."""

    def __init__(self, pool: ProcessPoolExecutor, count: Synchronized[int], progress: WritingProgress) -> None:
        self._pool, self._count, self._progress = pool, count, progress

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model, as one of the processes loaded it; empty where nobody can read them."""
        return self._pool.submit(_weights).result()

    @property
    def way(self) -> Mapping[str, Json]:
        """What one of the processes found out of a server; empty if none was asked."""
        return self._pool.submit(_way).result()

    def keep(self, kept: KeptWriting) -> None:
        """Do nothing: a task is kept when its process has done it."""

    def shifts(self, tasks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Shift]]:
        """Yield label and shift for each label with its seed, in the order of the tasks."""
        running = [(label, self._pool.submit(_shift, label, seed)) for label, seed in tasks]
        for label, each in running:
            yield label, self._result(each)

    def texts(self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]) -> Iterator[tuple[int, Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""
        running = [(label, self._pool.submit(_texts, label, n, seed, shifts[label])) for label, n, seed in tasks]
        for label, each in running:
            yield label, self._result(each)

    def _result(self, running: Future[Result]) -> Result:
        """Wait for a result, and tell meanwhile how many texts all processes have written."""
        while True:
            there = wait([running], LOOK_SECONDS).done
            self._progress.to(self._count.value)
            if there:
                return running.result()


@contextmanager
def desk(steering: WordTargets, processes: int, progress: WritingProgress) -> Iterator[Desk | Desks]:
    """Yield who writes: this process if `processes` is 0, else so many fresh ones.

    They end with the context, at once if it ends by an error, and with this process if that is killed. A daemon may
    start no process, and writes itself.
    """
    if not processes or multiprocessing.current_process().daemon:
        here = Desk(steering.opened(), progress)
        progress.begin()  # the model is loaded, which takes seconds
        yield here
        return
    fresh = _Fresh()
    count = fresh.Value("q", 0)
    with ProcessPoolExecutor(processes, mp_context=fresh, initializer=_begin, initargs=(steering, count)) as pool:
        try:
            yield Desks(pool, count, progress)
        except BaseException:  # of any kind: it is raised again; nobody waits for what is being written
            for each in fresh.started:
                each.kill()
            raise


class _FreshProcess(SpawnProcess):
    """A process that does not run the script of this one, which might measure a second time."""

    def start(self) -> None:
        """Start the process while no file is named as the one that runs: a new process would run it first."""
        running = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = running


class _Fresh(SpawnContext):
    """Makes fresh processes, and keeps a list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_FreshProcess] = []

    def Process(self, *given: Any, **more: Any) -> _FreshProcess:  # type: ignore[override]  # noqa: N802  # its name there
        """Make a process, as its base does."""
        self.started.append(_FreshProcess(*given, **more))
        return self.started[-1]


_STEERED: list[tuple[Steers, More]] = []  # of this process


def _begin(steering: WordTargets, count: Synchronized[int]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def more(n: int) -> None:
        with count.get_lock():
            count.value += n

    _STEERED[:] = [(steering.opened(), more)]


def _end_with_parent() -> None:
    """End this process after its parent was killed: nobody would read what it writes."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _weights() -> str:
    ((steered, _),) = _STEERED
    return steered.weights


def _way() -> Mapping[str, Json]:
    ((steered, _),) = _STEERED
    return _way_of(steered)


def _way_of(steered: Steers) -> Mapping[str, Json]:
    return steered.way if isinstance(steered, TellsWay) else {}


def _shift(label: int, seed: int) -> Shift:
    ((steered, more),) = _STEERED
    return steered.shift(label, seed, more)


def _texts(label: int, n: int, seed: int, shift: Floats) -> Texts:
    ((steered, more),) = _STEERED
    return steered.texts(label, n, seed, shift, more)
