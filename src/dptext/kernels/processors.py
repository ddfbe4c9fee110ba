"""The number of processors that this process may use, and work shared among them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Found = TypeVar("Found")


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """The number of threads that compute at once: OMP_NUM_THREADS, else one per processor."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else processors()


def each(work: Callable[[Part], Found], parts: Sequence[Part], most: int | None = None) -> list[Found]:
    """Apply `work` to each part, in order, on at most `most` threads (default: `threads()`)."""
    most = threads() if most is None else most
    if len(parts) < 2 or most < 2:
        return [*map(work, parts)]
    with ThreadPoolExecutor(most) as pool:
        return [*pool.map(work, parts)]
