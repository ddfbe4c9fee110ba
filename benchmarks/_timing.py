"""Methods timed in turn, so that whatever slows the machine slows all of them, and the rows that tell their ratios."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

#: Operations and bytes copied, of what a call returned and its arguments.
Work = Callable[..., tuple[float, float]]


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


def paired(over: Sequence[float], under: Sequence[float], factor: float = 1.0) -> list[float]:
    """The ratio of each round."""
    return [factor * one / other for one, other in zip(over, under, strict=True)]


class Rows:
    """The rows of a benchmark, printed as they are measured, in the form that `make bench` reads.

    Attributes:
        code: the exit code: 1 where a bound is missed, else 3 where something that can be installed is absent. A bound
            is missed where every round misses it, and unclear where the median does and a round keeps it: on a shared
            computer the same work takes up to twice as long from one round to the next.
    """

    def __init__(self) -> None:
        self.code = 0
        print("| what | ratio | minimum | median | maximum | bound of the median | |\n|---|---|--:|--:|--:|---|---|")

    def add(
        self,
        what: str,
        ratio: str,
        found: Sequence[float],
        *,
        least: float | None = None,
        most: float | None = None,
        processor: str = "",
    ) -> None:
        """Print a row.

        Args:
            what: what was measured.
            ratio: what the numbers are, such as "of the time of FAISS".
            found: the number of each round, of methods in turn.
            least: bound of their median. None: there is none.
            most: the same.
            processor: on which processors this is the bound, where others have another.
        """
        median, bound, said = statistics.median(found), "none", "-"
        if least is not None or most is not None:
            bound = f"at least {least:g}" if most is None else f"at most {most:g}"
            said = self._verdict(median, found, least, most)
            self.code = 1 if said == "MISSED" else self.code
        if processor:
            bound += f" ({processor})"
        shown = " | ".join(f"{number:.5g}" for number in (min(found), median, max(found)))
        print(f"| {what} | {ratio} | {shown} | {bound} | {said} |", flush=True)

    @staticmethod
    def _verdict(median: float, found: Sequence[float], least: float | None, most: float | None) -> str:
        """What is said of a bound. Where there may be none at all, as of vectors that change, no round may have one."""
        if most == 0:
            return "kept" if all(each <= 0 for each in found) else "MISSED"
        kept = [each >= least if least is not None else each <= (most or 0.0) for each in (median, *found)]
        return "kept" if kept[0] else "unclear" if any(kept) else "MISSED"

    def note(self, what: str, unit: str, found: Sequence[float]) -> None:
        """Print numbers that are no ratios and have no bound: the table has no row of them."""
        print(f"{what}: {statistics.median(found):.4g} {unit} ({min(found):.4g} to {max(found):.4g})", flush=True)

    def absent(self, what: str, why: str, *, code: int = 3) -> None:
        """Say what was not measured; with code 0 where nothing that can be installed would change it."""
        self.code = self.code or code
        print(f"not measured: {what}: {why}", flush=True)


class Clock:
    """Processor time of a job by part; a part within a part counts for itself alone.

    Attributes:
        seconds: of each part; "rest" is what no part explains.
        calls: of watched functions: part, what says how much work it was, what it returned, and its arguments.
    """

    def __init__(self) -> None:
        self.open, self.since = ["rest"], time.process_time()
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: list[tuple[str, Work, Any, tuple[Any, ...]]] = []

    def run(self, job: Callable[[], object]) -> None:
        """Begin anew, and run a job."""
        self.seconds, self.calls, self.since = defaultdict(float), [], time.process_time()
        job()
        self.switch()

    def switch(self) -> None:
        now = time.process_time()
        self.seconds[self.open[-1]] += now - self.since
        self.since = now

    def timed(self, part: str, call: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        self.switch()
        self.open.append(part)
        found = call(*args, **settings)
        self.switch()
        self.open.pop()
        return found

    def watch(self, owner: Any, name: str, part: str, work: Work) -> None:
        """Time every call of a function, and keep what says how much work it was."""
        inner = getattr(owner, name)

        def watched(*args: Any, **settings: Any) -> Any:
            found = self.timed(part, inner, *args, **settings)
            self.calls.append((part, work, found, args))
            parts = iter(lambda: self.timed(part, next, found, None), None)
            return (one for one in parts) if isinstance(found, Iterator) else found

        setattr(owner, name, watched)
