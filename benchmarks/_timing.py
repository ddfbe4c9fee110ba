"""Methods timed in turn, so that whatever slows the machine slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(
    methods: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """What each takes in each round, in turn; one round before them warms up."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for round_ in range(rounds + 1):
        for name, method in methods.items():
            began = clock()
            method()
            if round_:
                times[name].append(clock() - began)
    return times
