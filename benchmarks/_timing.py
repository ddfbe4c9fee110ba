"""Methods timed in turn, so that whatever slows the machine slows all of them, and the rows that tell their ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np


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
        code: the exit code: 1 where a bound is missed or unclear, else 3 where what can be installed is absent.
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
            least: bound of their median; a miss is unclear where their better quartile keeps it. None: there is none.
            most: the same.
            processor: on which processors this is the bound, where others have another.
        """
        median, bound, said = statistics.median(found), "none", "-"
        if least is not None or most is not None:
            bound = f"at least {least:g}" if most is None else f"at most {most:g}"
            said = self._verdict(found, least, most)
            self.code = self.code if said == "kept" else 1
        if processor:
            bound += f" ({processor})"
        shown = " | ".join(f"{number:.5g}" for number in (min(found), median, max(found)))
        print(f"| {what} | {ratio} | {shown} | {bound} | {said} |", flush=True)

    @staticmethod
    def _verdict(found: Sequence[float], least: float | None, most: float | None) -> str:
        """What is said of a bound: see decision 31. The better quartile hardly depends on how many rounds there are.

        Where there may be none at all, as of vectors that change with their company, no round may have one.
        """
        if most == 0:
            return "kept" if all(each <= 0 for each in found) else "MISSED"
        median, better = np.quantile(found, (0.5, 0.25 if least is None else 0.75))
        kept, unclear = (each >= least if least is not None else each <= most for each in (median, better))
        return "kept" if kept else "unclear" if unclear else "MISSED"

    def note(self, what: str, unit: str, found: Sequence[float]) -> None:
        """Print numbers that are no ratios and have no bound: the table has no row of them."""
        print(f"{what}: {statistics.median(found):.4g} {unit} ({min(found):.4g} to {max(found):.4g})", flush=True)

    def absent(self, what: str, why: str, *, code: int = 3) -> None:
        """Say what was not measured; with code 0 where nothing that can be installed would change it."""
        self.code = self.code or code
        print(f"not measured: {what}: {why}", flush=True)
