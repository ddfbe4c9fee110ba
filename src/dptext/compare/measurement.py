"""One number of a cell, with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dptext.estimates import Estimate


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number with its interval; None where there is none."""

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
