"""The releases of one cell, and a number measured on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dptext.estimates import Estimate
from dptext.mechanism import Mechanism
from dptext.privacy.guarantee import Guarantee
from dptext.text.records import Record, Release

#: Releases of any records, drawn by a seed: attacks on training sets need them.
Transform = Callable[[Sequence[Record], int], Sequence[Release[str]]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number.

    Attributes:
        metric: its name.
        value, low, high: the number and its interval; None where there is none.
        confidence: of the interval.
    """

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None

    @classmethod
    def of(cls, metric: str, found: Estimate | float | None) -> Measurement:
        """The measurement of an estimate, or of a number without an interval. An infinite number becomes None."""
        if isinstance(found, Estimate):
            return cls(metric, _finite(found.value), _finite(found.low), _finite(found.high), found.confidence)
        return cls(metric, None if found is None else _finite(found))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Released:
    """The releases of one cell, with what made them.

    Attributes:
        releases: one for each private record, in order.
        mechanism: that made them; None for references.
        guarantee: as the table states it; None for references.
        again: draws releases of any records in the same way, for attacks that need more of them.
        labelled: whether labels are released.
        written: whether texts are released; else vectors are.
    """

    releases: Sequence[Release[str]] = field(repr=False)
    mechanism: Mechanism[str] | None
    guarantee: Guarantee | None
    again: Transform = field(repr=False)
    labelled: bool
    written: bool
