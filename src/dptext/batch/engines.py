"""The engines that do the tasks of a run over many files, and the public settings of such a run.

An engine is this process, processes of this computer, or a Ray cluster. It takes tasks and yields answers in any order.
A task may run more than once: if its worker dies, another worker gets the task. That is harmless, as each part is
published once. A DPTextError ends the run. Ray's own retries are off, because Ray would repeat a task without end and
without a message.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Self

from dptext import _validate
from dptext.errors import ConfigError, DPTextError, needing
from dptext.kernels.processors import processors
from dptext.runs.processes import Process, Task, answered, packed

RETRIES: Final = 3  #: How often a task whose worker died is given to another worker
_DIED: Final = object()
#: First bytes of an HTTP/2 client (RFC 9113, 3.4): the preface and a SETTINGS frame. A server answers with SETTINGS.
_HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
REACHED_SECONDS: Final = 10  # time limit of a connection to a cluster


@dataclass(frozen=True, slots=True)
class Here:
    """This process alone."""

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield the number and answer of each task when it is done. DPTextError: of a task, or its workers died."""
        for number, task in enumerate(tasks):
            yield number, _raised(answered(job, task))

    @contextmanager
    def kept(self) -> Iterator[Self]:
        """Return an engine for several jobs of a run."""
        yield self


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes of this computer, of one thread each. They end when this process ends."""

    n: int  #: number of processes

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield answers as `Here.answers`. ConfigError: the job cannot be sent to a process."""
        with self.kept() as kept:
            yield from kept.answers(job, tasks)

    @contextmanager
    def kept(self) -> Iterator[KeptProcesses]:
        """Return an engine whose processes wait for the next job of a run until the context ends."""
        with ExitStack() as stack:
            yield KeptProcesses(self.n, stack)


@dataclass(frozen=True, slots=True)
class KeptProcesses:
    """Processes of this computer that wait for further jobs: each takes a second to start."""

    n: int
    stack: ExitStack = field(repr=False)  #: ends them
    idle: list[Process] = field(default_factory=list, repr=False)  #: those that wait

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield answers as `Processes.answers`."""
        data = packed(job)

        def start() -> Process:
            process = self.idle.pop() if self.idle else self.stack.enter_context(closing(Process()))
            process.take(data)
            return process

        def ask(process: Process, number: int) -> Connection:
            process.send(tasks[number])
            return process.pipe

        def answer(process: Process, pipe: Connection) -> Any:
            try:
                return pipe.recv()
            except (EOFError, ConnectionResetError):
                process.close()
                return _DIED

        yield from _shared_out(self.n, len(tasks), start, ask, wait, answer, self.idle.append)

    @contextmanager
    def kept(self) -> Iterator[Self]:
        """Return this engine."""
        yield self


@dataclass(frozen=True, slots=True)
class Ray:
    """Actors of the Ray cluster that this process is connected to, else of the one at `address`, else of a new one."""

    n: int  #: number of actors, of one processor each
    memory: int = 0  #: bytes that each actor reserves; 0 reserves none
    address: str | None = None  #: address for `ray.init`; None for a cluster on this computer

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield answers as `Here.answers`. ConfigError: there is no cluster. MissingExtraError: Ray is absent."""
        with needing("engine='ray'", "dptext[ray]"):
            import ray  # noqa: PLC0415 (an extra, slow to load)
        if not ray.is_initialized():
            _connect(ray, self.address)
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        if self.memory:
            options["memory"] = self.memory
        env = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        remote: Any = ray.remote(_Actor)
        actor = remote.options(runtime_env={"env_vars": env}, **options)
        with _failing(ray):
            shared = ray.put(job)
        with ExitStack() as stack:

            def start() -> Any:
                with _failing(ray):
                    one = actor.remote(shared)
                stack.callback(end, one)
                return one

            def end(one: Any) -> None:
                with suppress(ray.exceptions.RayError, ValueError, ConnectionError):  # the actor or the cluster is gone
                    ray.kill(one)

            def ask(one: Any, number: int) -> Any:
                name = tasks[number][0]  # the dashboard shows it; the number of tasks can be private
                with _failing(ray):
                    return one.do.options(name=name).remote(tasks[number])

            def answer(_: Any, ref: Any) -> Any:
                with _failing(ray):
                    try:
                        return ray.get(ref)
                    except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError):
                        return _DIED

            def wait_for(refs: list[Any]) -> list[Any]:
                with _failing(ray):
                    return list(ray.wait(refs)[0])

            yield from _shared_out(self.n, len(tasks), start, ask, wait_for, answer, end)

    @contextmanager
    def kept(self) -> Iterator[Self]:
        """Return this engine, whose actors end with each job: others may wait for their processors."""
        yield self


@contextmanager
def _failing(ray: Any) -> Iterator[None]:
    """Replace an error of Ray by a DPTextError without its message, which may hold the trace of a worker."""
    try:
        yield
    except (ray.exceptions.RayError, OSError, RuntimeError, TypeError) as error:  # Ray raises all of these
        problem: BaseException = DPTextError(f"Ray failed with {type(error).__name__}.")
    except SystemError as error:  # a signal came while Ray waited: the error of the signal's handler is the cause
        problem = error.__cause__ or error
    else:
        return
    raise problem


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start one. ConfigError: that fails. The handler of SIGTERM stays as it was."""
    _reach(address or os.environ.get("RAY_ADDRESS"))
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    stopping, problem = signal.getsignal(signal.SIGTERM), ""
    try:
        # Output of a worker is not sent to this process: a trace might show private text.
        ray.init(address=address, log_to_driver=False, include_dashboard=None, configure_logging=False)
    except Exception as error:  # noqa: BLE001  # Ray raises a plain Exception for a slow node; no text was read yet
        problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    finally:
        if callable(stopping) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, stopping)
    if problem:
        raise ConfigError(f"Expected a Ray cluster{f' at {address}' if address else ''}, found none ({problem}).")


def _reach(address: str | None) -> None:
    """Raise ConfigError if no server of HTTP/2, which gRPC uses, answers at the address: Ray would wait for minutes."""
    if address in (None, "auto", "local"):
        return
    host, colon, port = str(address).rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        raise ConfigError(f"Expected --address auto, HOST:PORT or ray://HOST:PORT, found {address!r}.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_SECONDS) as there:
            there.sendall(_HTTP2)
            if os.environ.get("RAY_USE_TLS") == "1" or there.recv(4)[3:] == _HTTP2[-6:-5]:
                return
        reason = "the server there is no Ray"
    except (OSError, OverflowError, UnicodeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    raise ConfigError(f"Expected a Ray cluster at {address}, found none: {reason}.")


Engine = Here | Processes | KeptProcesses | Ray


def _shared_out(
    n: int,
    n_tasks: int,
    start: Callable[[], Any],
    ask: Callable[[Any, int], Any],
    wait_for: Callable[[list[Any]], Iterable[Any]],
    answer: Callable[[Any, Any], Any],
    end: Callable[[Any], object],
) -> Iterator[tuple[int, Any]]:
    """Yield the number and answer of each task; `n` workers work at once. `ask` returns a handle of the answer.

    A worker without a task is ended: on a full cluster another worker, with a task, waits for its place.
    """
    todo, died, idle = deque(range(n_tasks)), Counter[int](), list[Any]()
    busy: dict[Any, tuple[Any, int]] = {}
    while todo or busy:
        while todo and (idle or len(busy) < n):
            number = todo.popleft()
            worker = idle.pop() if idle else start()
            busy[ask(worker, number)] = worker, number
        for handle in wait_for(list(busy)):
            worker, number = busy.pop(handle)
            found = answer(worker, handle)
            if found is not _DIED:
                if todo:
                    idle.append(worker)
                else:
                    end(worker)
                yield number, _raised(found)
                continue
            died[number] += 1
            if died[number] > RETRIES:
                raise DPTextError(f"{RETRIES + 1} workers died at one task, maybe of low memory: run fewer --workers.")
            todo.append(number)


def _raised(answer: Any) -> Any:
    if isinstance(answer, DPTextError):
        raise answer
    return answer


class _Actor:
    def __init__(self, job: object) -> None:
        self._job = job

    def do(self, task: Task) -> Any:
        return answered(self._job, task)


#: Usual numbers of records of a part, which is what a kill can lose, and of parts.
LARGEST_PART: Final = 10_000
LEAST_PART: Final = 1_000
PARTS: Final = 8
#: Called with "reading" or "privatizing", the number of records done, and the number of all records, if known.
Progress = Callable[[str, int, int | None], None]
Skip = Callable[[str, int, str], None]  #: Called with a file, the number of its skipped records, and the reason


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a run over many files.

    Attributes:
        engine: "local" for processes of this computer, or "ray".
        n: number of workers; 0 takes one worker for each processor.
        memory: bytes that a worker needs. Fewer workers start if less memory is free; 0 sets no limit.
        address: address of the Ray cluster for `ray.init`; for engine "ray" alone.
    """

    engine: str = "local"
    n: int = 0
    memory: int = 0
    address: str | None = None

    def __post_init__(self) -> None:
        _validate.one_of(("local", "ray"), engine=self.engine)
        _validate.not_negative(workers=self.n, memory=self.memory)
        if self.address is not None and self.engine != "ray":
            raise ConfigError(
                "Expected no address with local processes: it is that of a Ray cluster. Say --engine ray on the "
                'command line, engine="ray" in Python, or leave it out.'
            )

    def made(self) -> tuple[Engine, int]:
        """Return the engine and its number of workers. ConfigError: there is no memory for one worker."""
        n = self.n or processors()
        if self.engine == "ray":
            return Ray(n, self.memory, self.address), n
        if self.memory:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
            if free < self.memory:
                raise ConfigError(f"Expected {self.memory:,} bytes of memory for a worker, found {free:,} free.")
            n = min(n, free // self.memory)
        return (Processes(n) if n > 1 else Here()), n


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """Public settings of a run over many files, besides those of `Plan`.

    Attributes:
        part_size: number of records in each part of the output except the last; 0 takes an eighth of all, but at least
            1,000 and at most 10,000.
        keep_shards: write one part for each input file, under its name; the names and the numbers of records leave.
        workers: the workers of the run.
        storage_options: options of fsspec, for URLs; not shown, as they may hold secrets.
        state: folder for the state of an unfinished run. None takes a hidden folder: beside the target; within a fixed
            target, such as a mount point; or in the current folder if the target is a URL.
    """

    part_size: int = 0
    keep_shards: bool = False
    workers: Workers = field(default_factory=Workers)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: Path | None = None

    def __post_init__(self) -> None:
        if self.part_size != 0:
            _validate.count(part_size=self.part_size)
