"""Choices by score: the exponential mechanism (unclipped or clipped), permute-and-flip, and TEM.

Each choice is a frozen dataclass of public settings with an `event`, an exact `distribution(scores)` and a vectorized
`choose(scores, source)` over a batch of rows. Scores are `(rows, options)`. Scores that are not finite are refused.
Order and size of the scores are private. Draws use integers only.

`TruncatedExponential.choose` weighs every listed option. For many options, use rejection (`keep`): an option v is
proposed with probability proportional to 2^-k(v), where 2^-k(v) is at least its weight W(v), and is kept with
probability 2^k(v) W(v). A kept option has probability proportional to W(v), however many proposals were dropped before,
so each proposal may be drawn by another method. All draws are in integers: W(v) is a multiple of 2^-119.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.curves import round_up
from dptext.privacy.events import ExponentialEvent, MetricEvent, PureEvent
from dptext.sampling.discrete import weighted_choice, wide_bernoulli, wide_choice
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import (
    ROUNDING_LOSS,
    Rankable,
    Scores,
    blocks_of,
    checked,
    draw_by_weight,
    integer_weights,
    powers,
    relative,
    require_finite,
    scaled,
    shifted,
    softmax,
)
from dptext.types import Booleans, Floats, Integers, Singles, UInt8s, UInt64s

#: `TruncatedExponential` counts smaller distances as this distance: they could not pay for its rounding.
LEAST_DISTANCE = 2.0**-10
#: Options whose weights lie within a factor of two form a shell; no weight is below e^-35.
SHELLS = 52
_SHELL_SLACK = 2.0**-10  # more than the float32 rounding of 52 shells
_FIRST_SHELL_BITS = 80  # so that the weights of a row sum to 2^80 or more, as `wide_choice` needs
_LEAST = "different points count as at least 2^-10 apart"


@dataclass(frozen=True, slots=True)
class _ByScore:
    epsilon: float
    sensitivity: float = 1.0
    score_range: float | None = None

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, sensitivity=self.sensitivity)
        if self.score_range is not None:
            _validate.positive(score_range=self.score_range)
            if self.score_range < self.sensitivity:  # the allowance for rounding shrinks with the range
                raise ConfigError(f"Expected score_range={self.score_range!r} >= sensitivity={self.sensitivity!r}.")

    @property
    def event(self) -> PureEvent:
        """The event of one choice, for neighbours within the sensitivity."""
        return PureEvent(self.epsilon)

    def _enforced_range(self) -> float:
        if self.score_range is None:
            raise ConfigError("Expected a score_range: without one nothing bounds how far scores are apart.")
        return self.score_range

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`."""
        return softmax(self._log_weights(scores))

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option per row, `(rows,)`."""
        return draw_by_weight(self._log_weights(scores), source)

    def _log_weights(self, scores: Rankable) -> Floats:
        values = checked(scores)
        if self.score_range is not None:
            values = np.clip(values, 0.0, self.score_range)
        return scaled(values, max(self.epsilon - ROUNDING_LOSS, 0.0) / (2 * self.sensitivity))


@dataclass(frozen=True, slots=True)
class Exponential(_ByScore):
    """The exponential mechanism: probability proportional to e^(epsilon * score / (2 * sensitivity)).

    Epsilon is the cost of one choice, for neighbours whose scores differ by at most `sensitivity` each. Scores are
    clipped to [0, score_range], which never increases the cost; None means no clipping.

    Guarantee:
        `event`: epsilon for neighbours within the sensitivity. With a `score_range`, also `range_event(m)`, for any two
        inputs (derivations, "Scores within a range" and "Lifting").
    """

    def range_event(self, size: int) -> ExponentialEvent:
        """The event of one choice among at most `size` options, for any two inputs. ConfigError: no `score_range`."""
        return ExponentialEvent(self.epsilon * self._enforced_range() / (2 * self.sensitivity), size)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(_ByScore):
    """Permute-and-flip (McKenna and Sheldon 2020): never worse in expected score than `Exponential`.

    Options are visited in random order. Each is taken with probability
    e^(epsilon * (score - largest) / (2 * sensitivity)). So the choice is uniform among the options whose
    coins come up, and all coins can be thrown at once.

    Guarantee:
        `event`: epsilon for neighbours whose scores differ by at most `sensitivity` each. With a `score_range` (see
        `Exponential`), also `range_event`: any two inputs are neighbours within the sensitivity `score_range`.
    """

    def range_event(self) -> PureEvent:
        """The event of one choice, for any two inputs. ConfigError: no `score_range`."""
        exact = Fraction(self.epsilon) * Fraction(self._enforced_range()) / Fraction(self.sensitivity)
        return PureEvent(round_up(exact))

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`, exact by Gauss-Legendre quadrature of a polynomial.

        P(i) = coin_i * E[1 / (1 + other coins up)] = coin_i * integral over t in [0, 1] of
        prod over j != i of (1 - coin_j + coin_j * t), a polynomial of degree options - 1.
        """
        coins = np.exp(relative(self._log_weights(scores)))
        if coins.shape[1] > 2000:
            raise ConfigError(f"Expected at most 2000 options to integrate over, found {coins.shape[1]}.")
        nodes, weights = np.polynomial.legendre.leggauss(coins.shape[1] // 2 + 1)
        t = (nodes + 1) / 2
        factors = 1 - coins[:, :, None] * (1 - t)  # never 0, as t > 0
        product = np.exp(np.log(factors).sum(axis=1, keepdims=True) - np.log(factors))
        return np.asarray(coins * (product * (weights / 2)).sum(axis=2))

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option per row, `(rows,)`."""
        log_weights = self._log_weights(scores)
        rows, options = log_weights.shape
        result = np.empty(rows, np.int64)
        for block in blocks_of(rows, options):
            taken = wide_bernoulli(integer_weights(log_weights[block]), source)
            result[block] = weighted_choice(taken.astype(np.uint64), source)
        return result


@dataclass(frozen=True, slots=True)
class ClippedExponential:
    """Exponential choice over scores clipped to the public range [low, high]: DP-Prompt, DP-MLM, AE-DP.

    The probability of an option is proportional to e^(score / temperature) (derivations, "Scores within a range").

    Guarantee:
        `event`, for any two inputs.
    """

    low: float
    high: float
    temperature: float
    size: int

    def __post_init__(self) -> None:
        _validate.positive(temperature=self.temperature)
        _validate.count(size=self.size)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ConfigError(f"Expected low={self.low!r} < high={self.high!r}, both finite.")

    @property
    def event(self) -> ExponentialEvent:
        """The event of one choice."""
        return ExponentialEvent((self.high - self.low) / self.temperature, self.size)

    def _log_weights(self, scores: Rankable) -> Floats:
        shrink = 1 - ROUNDING_LOSS / self.event.log_range if self.event.log_range > ROUNDING_LOSS else 0.0
        return scaled(np.clip(checked(scores, self.size), self.low, self.high), shrink / self.temperature)

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`."""
        return softmax(self._log_weights(scores))

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option per row, `(rows,)`."""
        return draw_by_weight(self._log_weights(scores), source)


@dataclass(frozen=True, slots=True)
class TruncatedExponential:
    """The choice of TEM, with probability proportional to e^(-epsilon * min(distance, threshold) / 2).

    Carvalho et al. 2021 choose among the options nearer than the threshold and one stand-in for all others, with score
    -threshold + 2 ln(others) / epsilon, and then uniformly among the others. The distribution is the same, so that only
    the near options need to be looked at.

    Guarantee:
        `event(metric)`: log ratio at most epsilon * distance, if distances obey the triangle inequality, and distances
        of different points are at least `LEAST_DISTANCE` or counted as `LEAST_DISTANCE`. Rounding of weights and
        distances can add 2^-36 to a log ratio at any distance, so epsilon is shrunk by 2^-36 / `LEAST_DISTANCE`
        beforehand. The larger of each distance and a constant obeys the triangle inequality, too.
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
        """The threshold beyond which an option is chosen with a probability of about beta or less."""
        _validate.positive(epsilon=epsilon)
        _validate.within(1e-6, 0.5, beta=beta)
        return 2 / epsilon * math.log((1 - beta) * (size - 1) / beta)

    def event(self, metric: str) -> MetricEvent:
        """The event of one choice, for distances called `metric`, of which the least is `LEAST_DISTANCE`."""
        return MetricEvent(self.epsilon, self.counted(metric))

    @staticmethod
    def counted(metric: str) -> str:
        """The name of the distance that epsilon is multiplied with."""
        return f"{metric}; {_LEAST}"

    @property
    def _shrunk(self) -> float:
        return max(self.epsilon - 2 * ROUNDING_LOSS / LEAST_DISTANCE, 0.0) / 2

    def distribution(self, distances: Scores) -> Floats:
        """Probabilities `(rows, options)`."""
        near = np.minimum(checked(distances, self.size), self.threshold)
        return softmax(-near * self._shrunk)

    def choose(self, near: Floats, source: Randomness) -> Integers:
        """The index `(rows,)` of the chosen near option of each row, or -1 if another option is chosen.

        The distances `(rows, most)` are padded with infinity. Options beyond the threshold may be listed.
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
        """The shell k < `SHELLS` of each least distance: 2^-k is at least the weight, if possible at most twice it."""
        unit = min(max(self.threshold, 1e-30), 1e30)
        shells = np.empty(least.shape, np.uint8)
        for block in blocks_of(*least.shape):
            found = np.minimum(least[block] / np.float32(unit), np.float32(1))
            found *= np.float32(self._shrunk * self.threshold / math.log(2))
            found -= np.float32(_SHELL_SLACK)
            shells[block] = np.maximum(found, 0, out=found)
        return shells

    def keep(self, distances: Floats, shells: Integers, source: Randomness) -> Booleans:
        """Draw for each proposed option whether to keep it: with probability 2^shell times its weight.

        A shell of 0 is valid for any distance. PrivacyError: a distance is not finite, or too small for its shell.
        """
        require_finite(distances)
        exponents = -self._shrunk * np.minimum(distances, self.threshold) / math.log(2) + shells
        if (exponents > 0).any():
            raise PrivacyError("Expected distances that are not below those of their shell: nothing is chosen.")
        return wide_bernoulli(powers(exponents), source)

    def chance_of_own(self, distances: Singles) -> Singles:
        """The probability `(rows,)` of the option at distance 0, in float32; for measurements, not for draws."""
        near = np.minimum(distances, np.float32(min(self.threshold, 1e30)))
        near *= np.float32(-self._shrunk)
        return np.asarray(1 / np.exp(near, out=near).sum(axis=1))


def proposal_weights(counts: Integers) -> UInt64s:
    """The weights count * 2^-shell by which shells are proposed, from the number of options in each shell.

    Counts `(rows, SHELLS)` are below 2^40. The weights are whole numbers `(limbs, rows, SHELLS)` for `wide_choice`,
    relative to the row's first shell that has options.
    """
    first = (counts > 0).argmax(axis=1)[:, None]
    by = np.minimum(_FIRST_SHELL_BITS + first - np.arange(SHELLS), _FIRST_SHELL_BITS)
    return shifted(counts.astype(np.uint64), by)
