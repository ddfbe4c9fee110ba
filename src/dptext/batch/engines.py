"""Who does the work: processes of this computer, or a Ray cluster. One seam: tasks in, answers out, in any order.

A task may run more than once: where its worker dies it is given to another. That is harmless, as a part is published
once whoever tries. An error that dptext raises on purpose ends the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Protocol, cast

from dptext.errors import ConfigError, DataError, DPTextError, HeaderError, PrivacyError

#: How often a task is given to another worker where one died at it.
RETRIES: Final = 3
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
#: The name of a method of the job, and what it takes.
Task = tuple[str, tuple[Any, ...]]


class Engine(Protocol):
    """Does the tasks of a job."""

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """The number of each task with its answer, as they are done. DPTextError: of a task, or its workers died."""
        ...


def answered(job: object, task: Task) -> Any:
    """The answer of a task, or its error as a value: a trace could show private text."""
    name, given = task
    try:
        return getattr(job, name)(*given)
    except DPTextError as error:
        kind = next(
            (each for each in (ConfigError, HeaderError, DataError, PrivacyError) if isinstance(error, each)),
            DPTextError,
        )
        return kind(str(error))  # of those with fields of their own not all can be sent
    except Exception as error:  # noqa: BLE001  # of whatever reads a text: its message could hold it
        return DPTextError(f"A worker failed with {type(error).__name__}. Nothing of this part is released.")


class Retries:
    """Which tasks are to be done, and how often a worker died at each."""

    def __init__(self, n: int) -> None:
        self.todo = deque(range(n))
        self._died: Counter[int] = Counter()

    def died(self, number: int) -> None:
        """Do this task again; DPTextError where that was tried often enough."""
        self._died[number] += 1
        if self._died[number] > RETRIES:
            raise DPTextError(f"{RETRIES + 1} workers died at one task, as where memory runs out: run fewer --workers.")
        self.todo.append(number)


@dataclass(frozen=True, slots=True)
class Here:
    """This process alone."""

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """See `Engine`."""
        for number, task in enumerate(tasks):
            yield number, raised(answered(job, task))


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes of this computer, of one thread each. They end when this one does.

    Attributes:
        n: how many.
        env: variables of the environment that they get besides.
    """

    n: int
    env: dict[str, str] = field(default_factory=dict)

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """See `Engine`."""
        retries = Retries(len(tasks))
        with ExitStack() as stack:
            busy: dict[Connection, tuple[_Process, int]] = {}
            idle: list[_Process] = []
            while retries.todo or busy:
                while retries.todo and (idle or len(busy) < self.n):
                    number = retries.todo.popleft()
                    process = idle.pop() if idle else stack.enter_context(_Process(job, self.env))
                    process.ask(tasks[number])
                    busy[process.pipe] = process, number
                for pipe in wait(list(busy)):
                    process, number = busy.pop(cast("Connection", pipe))
                    try:
                        answer = process.pipe.recv()
                    except (EOFError, OSError):
                        process.close()
                        retries.died(number)
                        continue
                    idle.append(process)
                    yield number, raised(answer)


def raised(answer: Any) -> Any:
    """The answer, unless it is an error."""
    if isinstance(answer, DPTextError):
        raise answer
    return answer


class _Process:
    """One worker, as this process sees it."""

    def __init__(self, job: object, env: dict[str, str]) -> None:
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dptext.batch.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a trace might show private text
                env={**os.environ, **dict.fromkeys(_THREADS, "1"), **env},
                start_new_session=True,  # Ctrl-C is for us; we end the workers
            )
        self.ask(job)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, what: object) -> None:
        """Send a job or a task."""
        with suppress(OSError):  # it died: that shows when its answer is read
            self.pipe.send(what)

    def close(self) -> None:
        """End the process, if it has not ended."""
        self.pipe.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
