"""Choices by score: the exponential mechanism, over scores as they are or clipped, and permute-and-flip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.curves import round_up
from dptext.privacy.events import ExponentialEvent, PureEvent
from dptext.sampling.discrete import weighted_choice, wide_bernoulli
from dptext.sampling.source import Randomness
from dptext.sampling.weights import (
    ROUNDING_LOSS,
    Rankable,
    blocks_of,
    checked,
    draw_by_weight,
    integer_weights,
    relative,
    scaled,
    softmax,
)
from dptext.types import Floats, Integers


@dataclass(frozen=True, slots=True)
class _ByScore:
    epsilon: float
    sensitivity: float = 1.0
    score_range: float | None = None

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, sensitivity=self.sensitivity)
        if self.score_range is not None:
            _validate.positive(score_range=self.score_range)
            if self.score_range < self.sensitivity:  # what rounding adds is paid for by a share of the sensitivity
                raise ConfigError(f"Expected score_range={self.score_range!r} >= sensitivity={self.sensitivity!r}.")

    @property
    def event(self) -> PureEvent:
        """One choice, for neighbours of the sensitivity."""
        return PureEvent(self.epsilon)

    def _enforced_range(self) -> float:
        if self.score_range is None:
            raise ConfigError("Expected a score_range: without one nothing bounds how far scores are apart.")
        return self.score_range

    def _log_weights(self, scores: Rankable) -> Floats:
        values = checked(scores)
        if self.score_range is not None:
            values = np.clip(values, 0.0, self.score_range)
        return scaled(values, max(self.epsilon - ROUNDING_LOSS, 0.0) / (2 * self.sensitivity))


@dataclass(frozen=True, slots=True)
class Exponential(_ByScore):
    """The exponential mechanism: probability proportional to e^(epsilon * score / (2 * sensitivity)).

    Guarantee:
        `event`: epsilon for neighbours whose scores differ by at most `sensitivity` each. With a `score_range`, into
        which scores are clipped, also `range_event(m)`: for any two inputs at all (MATHS 1.4 and 8).

    Attributes:
        epsilon: of one choice, for neighbours of the sensitivity.
        sensitivity: how much a score can differ between neighbours; clipping makes it no larger.
        score_range: scores are clipped to [0, score_range]; None leaves them as they are.
    """

    def range_event(self, size: int) -> ExponentialEvent:
        """One choice among at most `size` options, for any two inputs; ConfigError where there is no `score_range`."""
        return ExponentialEvent(self.epsilon * self._enforced_range() / (2 * self.sensitivity), size)

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`."""
        return softmax(self._log_weights(scores))

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option a row, `(rows,)`."""
        return draw_by_weight(self._log_weights(scores), source)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(_ByScore):
    """Permute-and-flip (McKenna and Sheldon 2020): never worse in expected score than `Exponential`.

    Options are visited in random order; each is taken with probability
    e^(epsilon * (score - largest) / (2 * sensitivity)). So the choice is uniform among the options whose
    coins came up, and all coins can be thrown at once.

    Guarantee:
        `event`: epsilon for neighbours whose scores differ by at most `sensitivity` each. With a `score_range`, as in
        `Exponential`, also `range_event`: any two inputs are neighbours of the sensitivity `score_range`.
    """

    def range_event(self) -> PureEvent:
        """One choice, for any two inputs; ConfigError where there is no `score_range`."""
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
        """One option a row, `(rows,)`."""
        log_weights = self._log_weights(scores)
        rows, options = log_weights.shape
        result = np.empty(rows, np.int64)
        for block in blocks_of(rows, options):
            taken = wide_bernoulli(integer_weights(log_weights[block]), source)
            result[block] = weighted_choice(taken.astype(np.uint64), source)
        return result


@dataclass(frozen=True, slots=True)
class ClippedExponential:
    """Exponential choice over scores clipped to a public range: DP-Prompt, DP-MLM, AE-DP (MATHS 1.4).

    Probability proportional to e^(score / temperature), where scores are first clipped to [low, high].

    Guarantee:
        `event`, for any two inputs at all.

    Attributes:
        low, high: the ends of the range of scores.
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
        """One choice."""
        return ExponentialEvent((self.high - self.low) / self.temperature, self.size)

    def _log_weights(self, scores: Rankable) -> Floats:
        shrink = 1 - ROUNDING_LOSS / self.event.log_range if self.event.log_range > ROUNDING_LOSS else 0.0
        return scaled(np.clip(checked(scores, self.size), self.low, self.high), shrink / self.temperature)

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`."""
        return softmax(self._log_weights(scores))

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option a row, `(rows,)`."""
        return draw_by_weight(self._log_weights(scores), source)
