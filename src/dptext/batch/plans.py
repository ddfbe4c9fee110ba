"""The public settings of a run over many files, and who does its work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dptext import _validate
from dptext.batch.engines import Engine, Here, Processes, Ray
from dptext.errors import ConfigError

#: Records of a part.
PART_SIZE: Final = 10_000
#: Told "reading" or "privatizing", how many records are done, and of how many.
Progress = Callable[[str, int, int | None], None]
#: Told a file, how many of its records were skipped, and why.
Skip = Callable[[str, int, str], None]


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work.

    Attributes:
        engine: "local", processes of this computer, or "ray".
        n: how many workers; 0 takes one for each processor.
        memory: bytes that a worker needs: fewer start where there is not as much; 0 asks nothing.
        address: of the Ray cluster, as `ray.init` takes it.
    """

    engine: str = "local"
    n: int = 0
    memory: int = 0
    address: str | None = None

    def __post_init__(self) -> None:
        _validate.one_of(("local", "ray"), engine=self.engine)
        _validate.not_negative(workers=self.n, memory=self.memory)

    def made(self) -> tuple[Engine, int]:
        """The engine, and how many workers it has; ConfigError where the memory is not there for one."""
        n = self.n or len(os.sched_getaffinity(0))
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
        part_size: records of a part of the output, but the last.
        keep_shards: one part for each file of the input, under its name; the names and the numbers of records leave.
        workers: who does the work.
        storage_options: of fsspec, for URLs; not shown, as they may hold secrets.
        state: folder for what a run needs to go on; default: hidden, beside the target, or here where that is a URL.
    """

    part_size: int = PART_SIZE
    keep_shards: bool = False
    workers: Workers = field(default_factory=Workers)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: Path | None = None

    def __post_init__(self) -> None:
        _validate.count(part_size=self.part_size)
