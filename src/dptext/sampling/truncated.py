"""Choices by distance, all beyond a threshold alike: the truncated exponential mechanism (TEM).

`TruncatedExponential.choose` weighs every option that is listed. Where options are many, propose and keep instead: an
option v is proposed with probability proportional to 2^-k(v), where 2^-k(v) is at least its weight W(v), and is kept
with probability 2^k(v) W(v). What is kept has probability proportional to W(v), however many proposals were dropped
before, so another way of proposing may be taken for the next. All of it is in integers: W(v) is a multiple of 2^-119.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.events import MetricEvent
from dptext.sampling.discrete import wide_bernoulli, wide_choice
from dptext.sampling.source import Randomness
from dptext.sampling.weights import (
    ROUNDING_LOSS,
    Scores,
    blocks_of,
    checked,
    integer_weights,
    powers,
    require_finite,
    shifted,
    softmax,
)
from dptext.types import Booleans, Floats, Integers, Singles, UInt8s, UInt64s

#: Distances below this one are counted as this one by `TruncatedExponential`, whose rounding they could not pay for.
LEAST_DISTANCE = 2.0**-10
#: Options whose weights lie within a factor of two form a shell; no weight is below e^-35.
SHELLS = 52
_SHELL_SLACK = 2.0**-10  # more than float32 can round 52 shells
_FIRST_SHELL_BITS = 80  # a row sums to 2^80 or more, as `wide_choice` needs
_LEAST = "different points count as at least 2^-10 apart"


@dataclass(frozen=True, slots=True)
class TruncatedExponential:
    """Probability proportional to e^(-epsilon * min(distance, threshold) / 2): the choice of TEM.

    Carvalho et al. 2021 choose among the options nearer than the threshold and one stand-in for all others,
    with score -threshold + 2 ln(others) / epsilon, and then uniformly among the others: the same distribution.
    So only the near options must be looked at.

    Guarantee:
        `event(metric)`: log ratio at most epsilon * distance, when distances obey the triangle inequality, and those of
        different points are at least `LEAST_DISTANCE` or counted as that. Rounding of weights and distances can add
        2^-36 to a log ratio, whatever the distance; so epsilon is shrunk by 2^-36 / `LEAST_DISTANCE` beforehand. The
        larger of each distance and a constant obeys the triangle inequality, too.
    """

    epsilon: float
    threshold: float
    size: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, threshold=self.threshold)
        _validate.count(size=self.size)
        if self.epsilon * self.threshold / 2 > 35:
            raise ConfigError(f"Expected epsilon * threshold = {self.epsilon * self.threshold:g} <= 70.")

    @staticmethod
    def threshold_for(epsilon: float, size: int, beta: float) -> float:
        """The threshold at which options beyond it are chosen with probability about beta or less."""
        _validate.positive(epsilon=epsilon)
        _validate.within(1e-6, 0.5, beta=beta)
        return 2 / epsilon * math.log((1 - beta) * (size - 1) / beta)

    def event(self, metric: str) -> MetricEvent:
        """One choice, for distances called `metric`, of which the least is `LEAST_DISTANCE`."""
        return MetricEvent(self.epsilon, self.counted(metric))

    @staticmethod
    def counted(metric: str) -> str:
        """The distance that epsilon is multiplied with, by name."""
        return f"{metric}; {_LEAST}"

    @property
    def _shrunk(self) -> float:
        return max(self.epsilon - 2 * ROUNDING_LOSS / LEAST_DISTANCE, 0.0) / 2

    def distribution(self, distances: Scores) -> Floats:
        """Probabilities `(rows, options)`."""
        near = np.minimum(checked(distances, self.size), self.threshold)
        return softmax(-near * self._shrunk)

    def choose(self, near: Floats, source: Randomness) -> Integers:
        """Which of the near options of each row, `(rows,)`, or -1 for one of the others.

        The distances `(rows, most)` are padded with infinity. An option beyond the threshold may be listed.
        """
        result = np.empty(len(near), np.int64)
        for block in blocks_of(*near.shape):
            result[block] = self._choose_block(near[block], source)
        return result

    def _choose_block(self, near: Floats, source: Randomness) -> Integers:
        listed = near < np.inf
        require_finite(near[listed | np.isnan(near)])
        others = self.size - listed.sum(axis=1)
        scale = self._shrunk
        weights = np.where(listed, -scale * np.minimum(near, self.threshold), 0.0)
        rest = np.log(np.maximum(others, 1)) - scale * self.threshold
        limbs = integer_weights(np.concatenate([weights, rest[:, None]], axis=1))
        limbs[:, np.concatenate([~listed, (others == 0)[:, None]], axis=1)] = 0
        chosen = wide_choice(limbs, source)
        return np.where(chosen == near.shape[1], -1, chosen)

    def shells(self, least: Singles) -> UInt8s:
        """A k below `SHELLS` for each least distance: 2^-k is at least the weight, and at most twice if it can be."""
        unit = min(max(self.threshold, 1e-30), 1e30)
        found = np.minimum(least / np.float32(unit), np.float32(1))
        found *= np.float32(self._shrunk * self.threshold / math.log(2))
        found -= np.float32(_SHELL_SLACK)
        return np.asarray(np.maximum(found, 0), np.uint8)

    def keep(self, distances: Floats, shells: Integers, source: Randomness) -> Booleans:
        """Whether each proposed option is kept: with probability 2^shell times its weight.

        A shell of 0 always is one. PrivacyError where a distance is not finite, or is smaller than its shell allows.
        """
        require_finite(distances)
        exponents = -self._shrunk * np.minimum(distances, self.threshold) / math.log(2) + shells
        if (exponents > 0).any():
            raise PrivacyError("Expected distances that are not below those of their shell: nothing is chosen.")
        return wide_bernoulli(powers(exponents), source)

    def chance_of_own(self, distances: Singles) -> Singles:
        """The probability `(rows,)` of the option at distance 0, to float32; for measurements, not for draws."""
        near = np.minimum(distances, np.float32(min(self.threshold, 1e30)))
        near *= np.float32(-self._shrunk)
        return np.asarray(1 / np.exp(near, out=near).sum(axis=1))


def proposal_weights(counts: Integers) -> UInt64s:
    """How often a shell is to be proposed, for the number of options in each: count * 2^-shell.

    Counts `(rows, SHELLS)` below 2^40 become whole numbers `(limbs, rows, SHELLS)` for `wide_choice`, relative to the
    row's first shell that has options.
    """
    first = (counts > 0).argmax(axis=1)[:, None]
    by = np.minimum(_FIRST_SHELL_BITS + first - np.arange(SHELLS), _FIRST_SHELL_BITS)
    return shifted(counts.astype(np.uint64), by)
