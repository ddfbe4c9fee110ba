"""Choices by public log-probabilities that private ones move a little: private prediction (SYNTHESIS C).

Each unit moves every log weight by at most `reach`, whatever its text. So what one unit adds to the log weights has a
range of 2 reach, and what one does in the place of another a range of 4 reach. A choice in proportion to weights whose
logarithms move by a range of eta is eta^2 / 8 zero-concentrated differentially private (Cesar and Rogers 2021, lemma
3.4), and eta-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.sampling.source import Randomness
from dptext.sampling.weights import ROUNDING_LOSS, checked, draw_by_weight, softmax
from dptext.types import Floats, Integers

#: Whole steps in the reach of a unit.
STEPS: Final = 1 << 20
_FARTHEST: Final = 128.0  # from 0: where floats still add up exactly enough
_MOST_STEPS: Final = 1 << 53
_FLOATS: Final = 2.0**-37  # what adding up log weights in floats can move them, between two options and two inputs


@dataclass(frozen=True, slots=True)
class Nudged:
    """One of several options, near public log-probabilities.

    Attributes:
        reach: how far a unit moves a log weight at most.
        clip: largest absolute difference of log-probabilities that counts; what is larger counts as it.
        temperature: public log-probabilities are divided by it.
    """

    reach: float
    clip: float
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive(reach=self.reach, clip=self.clip, temperature=self.temperature)
        if self.reach <= ROUNDING_LOSS + _FLOATS:
            raise ConfigError(f"Expected reach={self.reach!r} to be more than rounding: choose a larger epsilon.")

    def steps(self, private: Floats, public: Floats) -> Integers:
        """What units say, `(units, options)`, in whole steps from -STEPS to STEPS: toward 0, so that none adds more.

        Log-probabilities of a unit that are not all finite say nothing.
        """
        apart = np.where(np.isfinite(private).all(axis=1, keepdims=True), private - public, 0.0)
        return np.trunc(np.clip(apart / self.clip, -1.0, 1.0) * STEPS).astype(np.int64)

    def log_weights(self, total: Integers, public: Floats) -> Floats:
        """Of options `(rows, options)`, from sums of steps and public log-probabilities of that shape.

        Both parts are cut at 128, so that no number of units makes floats round by more than is paid for. A cut sum
        still moves by no more than a unit adds.
        """
        shrunk = self.reach - (ROUNDING_LOSS + _FLOATS) / 2
        most = min(int(_FARTHEST / self.reach * STEPS), _MOST_STEPS)
        base = checked(public) / self.temperature
        base = np.maximum(base - base.max(axis=1, keepdims=True), -_FARTHEST)
        return np.asarray(base + np.clip(total, -most, most) * (shrunk / STEPS))

    def distribution(self, total: Integers, public: Floats) -> Floats:
        """Probabilities `(rows, options)`."""
        return softmax(self.log_weights(total, public))

    def choose(self, total: Integers, public: Floats, source: Randomness) -> Integers:
        """One option a row, `(rows,)`: an exact choice by whole weights."""
        return draw_by_weight(self.log_weights(total, public), source)


def reach_of(rho: float, choices: int, *, replaced: bool) -> float:
    """The largest reach at which so many choices are rho-zCDP, where a unit is added or `replaced`."""
    eta = math.sqrt(8 * rho / choices) * (1 - 2.0**-40)
    return eta / (4 if replaced else 2)
