"""One metric of one row, its trials put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dptext.compare.stored import KeptRow


@dataclass(frozen=True, slots=True)
class Pooled:
    """One metric of one row on one corpus, over its trials.

    Attributes:
        value: mean of the trials' values.
        low, high: from the lowest end of any trial's interval to the highest. A trial without an interval counts with
            its value.
        interval: whether every trial has an interval.
        trials: how many were put together.
    """

    value: float
    low: float
    high: float
    interval: bool
    trials: int

    def __str__(self) -> str:
        return f"{short(self.value)} [{short(self.low)}, {short(self.high)}]" if self.interval else short(self.value)


def pooled(rows: Sequence[KeptRow]) -> Pooled:
    """The numbers of rows of one metric, each from another trial; at least one has a value."""
    values = [(row.value, row.low, row.high) for row in rows if row.value is not None]
    return Pooled(
        value=sum(value for value, _, _ in values) / len(values),
        low=min(value if low is None else low for value, low, _ in values),
        high=max(value if high is None else high for value, _, high in values),
        interval=all(low is not None and high is not None for _, low, high in values),
        trials=len(values),
    )


def short(value: float) -> str:
    """A number for a table: three decimals, or four digits where it is large."""
    if abs(value) < 100:
        return f"{value:.3f}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
