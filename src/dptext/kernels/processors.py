"""How many processors this process may use, and work shared among them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Found = TypeVar("Found")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads compute at once: OMP_NUM_THREADS, else one a processor."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else processors()


def each(work: Callable[[Part], Found], parts: Sequence[Part], most: int | None = None) -> list[Found]:
    """What `work` makes of each part, on so many threads at most, by default `threads`."""
    most = threads() if most is None else most
    if len(parts) < 2 or most < 2:
        return [*map(work, parts)]
    with ThreadPoolExecutor(most) as pool:
        return [*pool.map(work, parts)]
