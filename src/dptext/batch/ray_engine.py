"""The work on a Ray cluster: one actor a worker, each with a job of its own.

Ray's own retries are off: it would repeat a task without end and without a word. Where an actor, its process or its
node dies, `Retries` gives its task to another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dptext.batch.engines import Retries, Task, answered, raised
from dptext.errors import DPTextError, needing


class _Actor:
    """Holds the job."""

    def __init__(self, job: object) -> None:
        self._job = job

    def do(self, task: Task) -> Any:
        """The answer of a task."""
        return answered(self._job, task)


@dataclass(frozen=True, slots=True)
class Ray:
    """Actors of a Ray cluster: the one that this process is connected to, else the one at `address`, else a new one.

    Attributes:
        n: actors, of one processor each.
        memory: bytes that each reserves; 0 reserves none.
        address: as `ray.init` takes it; None for a cluster on this computer.
        env: variables of the environment that the actors get.
    """

    n: int
    memory: int = 0
    address: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    def answers(self, job: object, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """See `Engine`."""
        with needing("engine='ray'", "ray"):
            import ray  # noqa: PLC0415 (an extra, slow to load)
        if not ray.is_initialized():
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            # What a worker prints stays where it is: a trace might show private text.
            ray.init(address=self.address, log_to_driver=False, include_dashboard=None, configure_logging=False)
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        if self.memory:
            options["memory"] = self.memory
        env = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", **self.env}
        remote: Any = ray.remote(_Actor)
        actor = remote.options(runtime_env={"env_vars": env}, **options)
        shared = ray.put(job)
        retries = Retries(len(tasks))
        busy: dict[Any, tuple[Any, int]] = {}
        idle: list[Any] = []
        try:
            while retries.todo or busy:
                while retries.todo and (idle or len(busy) < self.n):
                    number = retries.todo.popleft()
                    one = idle.pop() if idle else actor.remote(shared)
                    name = tasks[number][0]  # as the dashboard shows it; how many there are can be private
                    busy[one.do.options(name=name).remote(tasks[number])] = one, number
                done, _ = ray.wait(list(busy))
                for ref in done:
                    one, number = busy.pop(ref)
                    try:
                        answer = ray.get(ref)
                    except ray.exceptions.RayError as error:
                        if not isinstance(error, ray.exceptions.RayActorError | ray.exceptions.ObjectLostError):
                            raise DPTextError(f"Ray failed with {type(error).__name__}.") from None
                        retries.died(number)
                        continue
                    idle.append(one)
                    yield number, raised(answer)
        finally:
            for one in (*idle, *(held for held, _ in busy.values())):
                ray.kill(one)
