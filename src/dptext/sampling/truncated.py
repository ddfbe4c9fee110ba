"""Choices by distance, all beyond a threshold alike: the truncated exponential mechanism (TEM)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import MetricEvent
from dptext.sampling.discrete import wide_choice
from dptext.sampling.source import Randomness
from dptext.sampling.weights import ROUNDING_LOSS, Scores, blocks_of, checked, integer_weights, require_finite, softmax
from dptext.types import Floats, Integers

#: Distances below this one are counted as this one by `TruncatedExponential`, whose rounding they could not pay for.
LEAST_DISTANCE = 2.0**-10
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
        """Which of the near options of each row, or -1 for one of the others.

        Args:
            near: distances `(rows, most)` of the near options of each row, padded with infinity. An option
                beyond the threshold may be listed.
            source: where the bits come from.

        Returns:
            Columns `(rows,)`.
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
