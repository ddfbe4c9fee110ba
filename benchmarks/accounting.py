"""What accounting of 20,000 equal runs takes beside one run, and of three kinds beside one run of each.

Equal runs are composed by their count, so the time hardly grows with it. Exits 1 where they take more than 40 times as
long as one, or where a bound takes more than a second.

    python benchmarks/accounting.py
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from _timing import Rows, paired
from dptext.privacy import accounting
from dptext.privacy.events import Event, ExponentialEvent, GaussianEvent, PureEvent, TopKEvent, ZcdpEvent

RUNS = 20_000
ROUNDS = 7
MAX_RATIO = 40.0  # twice what was measured on a shared processor
MAX_SECONDS = 1.0
#: The one run is timed so often that the clock can see it.
OFTEN = 20

KINDS: dict[str, tuple[Event, ...]] = {
    "top-k": (TopKEvent(0.1, 5, 1000),),
    "pure": (PureEvent(0.01),),
    "exponential": (ExponentialEvent(0.01, 1000),),
    "Gaussian": (GaussianEvent(100.0),),
    "zCDP": (ZcdpEvent(1e-4),),
    "top-k, pure, exponential": (TopKEvent(0.1, 5, 1000), PureEvent(0.02), ExponentialEvent(0.01, 1000)),
}


_deltas = (1e-5 * (1 + 1e-9 * i) for i in itertools.count())  # each another, because results are kept


def seconds(work: Callable[[], object], often: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(often):
        work()
    return (time.perf_counter() - began) / often


def measure(
    bound: Callable[..., float], one: Sequence[Event], many: Sequence[Event]
) -> tuple[list[float], list[float]]:
    """The seconds of many runs, and of one, in turn."""
    times = [
        (seconds(lambda: bound(many, next(_deltas))), seconds(lambda: bound(one, next(_deltas)), OFTEN))
        for _ in range(ROUNDS)
    ]
    together, alone = (list(each) for each in zip(*times, strict=True))
    return together, alone


def main() -> int:
    rows, slowest = Rows(), [0.0]
    for name, one in KINDS.items():
        many = [replace(event, count=RUNS // len(one)) for event in one]
        accounting.epsilon(many, next(_deltas))  # what is loaded once
        bounds = {"quick": accounting.quick_epsilon, "tight": accounting.epsilon}
        if len(one) > 1:  # of several kinds it computes a numerical distribution, however few the runs are
            del bounds["tight"]
        for kind, bound in bounds.items():
            together, alone = measure(bound, one, many)
            slowest = max(slowest, together, key=statistics.median)
            rows.add(
                f"{RUNS:,} runs, {kind} bound, {name}",
                "of the time of one run",
                paired(together, alone),
                most=MAX_RATIO,
            )
    rows.add(f"{RUNS:,} runs, the slowest of these bounds", "seconds", slowest, most=MAX_SECONDS)
    several = [replace(event, count=RUNS) for event in KINDS["top-k, pure, exponential"]]
    for name, work in {
        f"a list of {RUNS:,} runs is composed": lambda: accounting.compose(list(KINDS["top-k"]) * RUNS),
        f"{RUNS:,} runs are calibrated": lambda: accounting.calibrate(PureEvent(1.0, RUNS), 10, delta=1e-5),
        f"the tight bound of {3 * RUNS:,} runs of three kinds": lambda: accounting.epsilon(several, next(_deltas)),
    }.items():
        rows.add(name, "seconds", [seconds(work) for _ in range(ROUNDS)], most=MAX_SECONDS)
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
