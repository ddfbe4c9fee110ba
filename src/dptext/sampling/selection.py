"""Private choices among public options: exponential, permute-and-flip, top-k randomized response, two-set.

Each is a frozen dataclass of public settings with an `event`, an exact `distribution(scores)` and a
vectorized `choose(scores, source)` over a batch of rows::

    >>> import numpy as np
    >>> from dptext.sampling import randomness, selection
    >>> choice = selection.TopKRandomizedResponse(epsilon=3.0, k=1, size=4)
    >>> choice.distribution(np.array([[0.1, 0.9, 0.3, 0.2]])).round(3).tolist()
    [[0.043, 0.87, 0.043, 0.043]]
    >>> choice.event
    TopKEvent(epsilon=3.0, k=1, size=4, count=1)

Scores are `(rows, options)`, and refused where they are not finite; the private part is their order and size.
Draws use integers only. Weights e^w are rounded to integers of up to 119 bits: as if each w were off by at most 2^-39,
which is paid for by shrinking w a little, so that the stated epsilon holds exactly. Weights more than e^54 below a
row's largest are lifted to that floor; this changes no sensitivity, because the largest is as Lipschitz as each score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dptext import _validate
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.curves import round_up
from dptext.privacy.events import ExponentialEvent, MetricEvent, PureEvent, TopKEvent, TwoSetEvent
from dptext.sampling.discrete import (
    LIMB_BITS,
    LIMBS,
    uniform_below,
    weighted_choice,
    wide_bernoulli,
    wide_choice,
)
from dptext.sampling.randomness import Randomness
from dptext.types import Booleans, Floats, Int16s, Int32s, Integers, Singles, UInt64s

Scores = Floats | Singles
Rankable = Scores | Int16s | Int32s | Integers

_FLOOR = -54.0
_TOP_BITS = 119
#: What rounding weights to integers can add to the log ratio of two outputs (four roundings of 2^-40 each).
ROUNDING_LOSS = 2.0**-37
#: Distances below this one are counted as this one by `TruncatedExponential`, whose rounding they could not pay for.
LEAST_DISTANCE = 2.0**-10
_LEAST = "different points count as at least 2^-10 apart"
_ROWS_AT_ONCE = 1 << 17  # options a block: bounds the memory of the wide integers, some 900 bytes an option


def _checked(scores: Rankable, size: int | None = None) -> Floats:
    if scores.ndim != 2 or scores.shape[1] < 1:
        raise ConfigError(f"Expected scores of shape (rows, options), found {scores.shape}.")
    if size is not None and scores.shape[1] != size:
        raise ConfigError(f"Expected scores for {size} options, found {scores.shape[1]}.")
    values = np.asarray(scores, np.float64)
    require_finite(values)
    return np.clip(values, -1e150, 1e150)


def require_finite(values: NDArray[np.floating[Any]]) -> None:
    """Refuse scores that are no numbers: they have no place in the order, and no bound speaks of them.

    Raises:
        PrivacyError: NaN or infinity is among them.
    """
    if not np.isfinite(values).all():
        raise PrivacyError("Expected finite scores, found NaN or infinity: nothing is chosen.")


def _relative(log_weights: Floats) -> Floats:
    return np.asarray(np.maximum(log_weights - log_weights.max(axis=1, keepdims=True), _FLOOR))


def _integer_weights(log_weights: Floats) -> UInt64s:
    """e^w as integers of up to 119 bits relative to the row's largest (exactly 2^119), limbs first."""
    exponent = _relative(log_weights) / math.log(2)
    whole = np.floor(exponent)
    mantissa = np.rint(np.exp2(exponent - whole) * 2.0**52).astype(np.uint64)
    shift = (whole + (_TOP_BITS - 52)).astype(np.int64)
    limbs = np.empty((LIMBS, *log_weights.shape), np.uint64)
    mask = np.uint64((1 << LIMB_BITS) - 1)
    for i in range(LIMBS):
        by = shift - LIMB_BITS * i
        left = np.where(by >= LIMB_BITS, np.uint64(0), mantissa << np.clip(by, 0, 63).astype(np.uint64))
        right = mantissa >> np.clip(-by, 0, 63).astype(np.uint64)
        limbs[i] = np.where(by >= 0, left, right) & mask
    return limbs


def _blocks(rows: int, options: int) -> list[slice]:
    step = max(1, _ROWS_AT_ONCE // options)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _scaled(scores: Floats, scale: float) -> Floats:
    """Log weights scale * (score - row's largest): taken off first, so that large scores keep their digits."""
    return np.asarray(scale * (scores - scores.max(axis=1, keepdims=True)))


def _scale(epsilon: float, sensitivity: float) -> float:
    return max(epsilon - ROUNDING_LOSS, 0.0) / (2 * sensitivity)


def _softmax(log_weights: Floats) -> Floats:
    weights = np.exp(_relative(log_weights))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _draw_by_weight(log_weights: Floats, source: Randomness) -> Integers:
    rows, options = log_weights.shape
    result = np.empty(rows, np.int64)
    for block in _blocks(rows, options):
        result[block] = wide_choice(_integer_weights(log_weights[block]), source)
    return result


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism: probability proportional to e^(epsilon * score / (2 * sensitivity)).

    Guarantee:
        `event`: epsilon for neighbours whose scores differ by at most `sensitivity` each. With a `score_range`, into
        which scores are clipped, also `range_event(m)`: for any two inputs at all (MATHS 1.4 and 8).

    Attributes:
        epsilon: of one choice, for neighbours of the sensitivity.
        sensitivity: how much a score can differ between neighbours; clipping makes it no larger.
        score_range: scores are clipped to [0, score_range]; None leaves them as they are.
    """

    epsilon: float
    sensitivity: float = 1.0
    score_range: float | None = None

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, sensitivity=self.sensitivity)
        _require_range(self.score_range, self.sensitivity)

    @property
    def event(self) -> PureEvent:
        """One choice, for neighbours of the sensitivity."""
        return PureEvent(self.epsilon)

    def range_event(self, size: int) -> ExponentialEvent:
        """One choice among at most `size` options, for any two inputs.

        Raises:
            ConfigError: there is no `score_range`.
        """
        return ExponentialEvent(self.epsilon * _enforced(self.score_range) / (2 * self.sensitivity), size)

    def _log_weights(self, scores: Scores) -> Floats:
        return _scaled(_clipped(scores, self.score_range), _scale(self.epsilon, self.sensitivity))

    def distribution(self, scores: Scores) -> Floats:
        """Probabilities `(rows, options)`."""
        return _softmax(self._log_weights(scores))

    def choose(self, scores: Scores, source: Randomness) -> Integers:
        """One option a row, `(rows,)`."""
        return _draw_by_weight(self._log_weights(scores), source)


def _require_range(score_range: float | None, sensitivity: float) -> None:
    if score_range is None:
        return
    _validate.positive(score_range=score_range)
    if score_range < sensitivity:  # what rounding adds is paid for by a share of the sensitivity
        raise ConfigError(f"Expected score_range={score_range!r} >= sensitivity={sensitivity!r}.")


def _enforced(score_range: float | None) -> float:
    if score_range is None:
        raise ConfigError("Expected a score_range: without one nothing bounds how far scores are apart.")
    return score_range


def _clipped(scores: Scores, score_range: float | None) -> Floats:
    values = _checked(scores)
    return values if score_range is None else np.clip(values, 0.0, score_range)


@dataclass(frozen=True, slots=True)
class ClippedExponential:
    """Exponential choice over scores clipped to a public range: DP-Prompt, DP-MLM, AE-DP (MATHS 1.4).

    Probability proportional to e^(score / temperature), scores clipped to [low, high] before the
    temperature. Guarantee: `event`, for any two inputs at all.
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

    def _log_weights(self, scores: Scores) -> Floats:
        shrink = 1 - ROUNDING_LOSS / self.event.log_range if self.event.log_range > ROUNDING_LOSS else 0.0
        return _scaled(np.clip(_checked(scores, self.size), self.low, self.high), shrink / self.temperature)

    def distribution(self, scores: Scores) -> Floats:
        """Probabilities `(rows, options)`."""
        return _softmax(self._log_weights(scores))

    def choose(self, scores: Scores, source: Randomness) -> Integers:
        """One option a row, `(rows,)`."""
        return _draw_by_weight(self._log_weights(scores), source)


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
        near = np.minimum(_checked(distances, self.size), self.threshold)
        return _softmax(-near * self._shrunk)

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
        for block in _blocks(*near.shape):
            result[block] = self._choose_block(near[block], source)
        return result

    def _choose_block(self, near: Floats, source: Randomness) -> Integers:
        listed = near < np.inf
        require_finite(near[listed | np.isnan(near)])
        others = self.size - listed.sum(axis=1)
        scale = self._shrunk
        weights = np.where(listed, -scale * np.minimum(near, self.threshold), 0.0)
        rest = np.log(np.maximum(others, 1)) - scale * self.threshold
        limbs = _integer_weights(np.concatenate([weights, rest[:, None]], axis=1))
        limbs[:, np.concatenate([~listed, (others == 0)[:, None]], axis=1)] = 0
        chosen = wide_choice(limbs, source)
        return np.where(chosen == near.shape[1], -1, chosen)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """Permute-and-flip (McKenna and Sheldon 2020): never worse in expected score than `Exponential`.

    Options are visited in random order; each is taken with probability
    e^(epsilon * (score - largest) / (2 * sensitivity)). So the choice is uniform among the options whose
    coins came up, and all coins can be thrown at once.

    Guarantee:
        `event`: epsilon for neighbours whose scores differ by at most `sensitivity` each. With a `score_range`, as in
        `Exponential`, also `range_event`: any two inputs are neighbours of the sensitivity `score_range`.
    """

    epsilon: float
    sensitivity: float = 1.0
    score_range: float | None = None

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, sensitivity=self.sensitivity)
        _require_range(self.score_range, self.sensitivity)

    @property
    def event(self) -> PureEvent:
        """One choice, for neighbours of the sensitivity."""
        return PureEvent(self.epsilon)

    def range_event(self) -> PureEvent:
        """One choice, for any two inputs.

        Raises:
            ConfigError: there is no `score_range`.
        """
        exact = Fraction(self.epsilon) * Fraction(_enforced(self.score_range)) / Fraction(self.sensitivity)
        return PureEvent(round_up(exact))

    def distribution(self, scores: Scores) -> Floats:
        """Probabilities `(rows, options)`, exact by Gauss-Legendre quadrature of a polynomial.

        P(i) = coin_i * E[1 / (1 + other coins up)] = coin_i * integral over t in [0, 1] of
        prod over j != i of (1 - coin_j + coin_j * t), a polynomial of degree options - 1.
        """
        coins = np.exp(_relative(_scaled(_clipped(scores, self.score_range), _scale(self.epsilon, self.sensitivity))))
        if coins.shape[1] > 2000:
            raise ConfigError(f"Expected at most 2000 options to integrate over, found {coins.shape[1]}.")
        nodes, weights = np.polynomial.legendre.leggauss(coins.shape[1] // 2 + 1)
        t = (nodes + 1) / 2
        factors = 1 - coins[:, :, None] * (1 - t)  # never 0, as t > 0
        product = np.exp(np.log(factors).sum(axis=1, keepdims=True) - np.log(factors))
        return np.asarray(coins * (product * (weights / 2)).sum(axis=2))

    def choose(self, scores: Scores, source: Randomness) -> Integers:
        """One option a row, `(rows,)`."""
        log_weights = _scaled(_clipped(scores, self.score_range), _scale(self.epsilon, self.sensitivity))
        rows, options = log_weights.shape
        result = np.empty(rows, np.int64)
        for block in _blocks(rows, options):
            up = wide_bernoulli(_integer_weights(log_weights[block]), source)
            result[block] = weighted_choice(up.astype(np.uint64), source)
        return result


def _ranked(scores: Rankable, size: int) -> NDArray[Any]:
    """Integers as they are, which compare faster than floats; the rest checked."""
    if np.issubdtype(scores.dtype, np.integer) and scores.ndim == 2 and scores.shape[1] == size:
        return scores
    return _checked(scores, size)


def _top_k_mask(values: NDArray[Any], k: int) -> Booleans:
    if k == 1:
        threshold = values.max(axis=1, keepdims=True)
    else:
        threshold = np.partition(values, values.shape[1] - k, axis=1)[:, [values.shape[1] - k]]
    above = values > threshold
    equal = values == threshold
    spare = k - above.sum(axis=1, keepdims=True)
    return np.asarray(above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= spare)))


def _pick(mask: Booleans, rank: Integers) -> Integers:
    """The index of the rank-th True of each row."""
    counts = mask.sum(axis=1)
    starts = np.cumsum(counts) - counts
    return np.asarray(np.flatnonzero(mask)[starts + rank] - np.arange(len(mask)) * mask.shape[1])


@dataclass(frozen=True, slots=True)
class TopKRandomizedResponse:
    """One of the k best options with probability k e^E / (k e^E + size - k), else one of the others (MATHS 1.4).

    Guarantee:
        Exactly epsilon for any two inputs at all: every option has one of two probabilities, whose ratio is
        e^epsilon, and only the *set* of the k best depends on the input.
    """

    epsilon: float
    k: int
    size: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _ = self.event

    @property
    def event(self) -> TopKEvent:
        """One choice."""
        return TopKEvent(self.epsilon, self.k, self.size)

    @property
    def hit_probability(self) -> float:
        """Probability that one of the k best is chosen."""
        best, other = self._weights()
        return self.k * best / (self.k * best + (self.size - self.k) * other)

    def _weights(self) -> tuple[int, int]:
        """Integers best : other with ratio at most e^epsilon, as close as 62 bits allow."""
        budget = 1 << 62
        # other = 2^b as large as k * other * e^epsilon + size * other allows
        room = math.log2(budget) - 1 - max(math.log2(self.size), math.log2(self.k) + self.epsilon / math.log(2))
        other = 1 << max(0, math.floor(room))
        cap = (budget - self.size * other) // self.k
        log_best = math.log(other) + self.epsilon
        best = cap if log_best > math.log(cap) + 1e-9 else math.floor(other * math.exp(self.epsilon) * (1 - 2.0**-48))
        return max(min(best, cap), other), other

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`, exactly as drawn."""
        best, other = self._weights()
        total = self.k * best + (self.size - self.k) * other
        mask = _top_k_mask(_ranked(scores, self.size), self.k)
        return np.asarray(np.where(mask, best / total, other / total))

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option a row, `(rows,)`: one integer draw a row."""
        best, other = self._weights()
        rows = len(scores)
        drawn = uniform_below(self.k * best + (self.size - self.k) * other, rows, source).astype(np.int64)
        hit = drawn < self.k * best
        rank = np.where(hit, drawn // best, (drawn - self.k * best) // other)
        result = np.empty(rows, np.int64)
        for block in _blocks(rows, self.size):
            mask = _top_k_mask(_ranked(scores[block], self.size), self.k)
            result[block] = _pick(mask == hit[block, None], rank[block])
        return result


@dataclass(frozen=True, slots=True)
class TwoSet:
    """The two-set exponential mechanism of ER-AE (Bo et al. 2021; MATHS 1.2 and 1.3).

    Takes probabilities (rows that sum to 1). First a set S is made: the k most probable options (`top_k`),
    or the distinct ones of k draws with replacement (`sampled`, the authors' code). S or its complement O is
    chosen by an exponential mechanism with weight e^(epsilon * mass / 2); then an option of it uniformly.
    In the sampled form the mass of S counts repeated draws as often as they were drawn, as the code does; the code
    then makes a second exponential choice (epsilon 0.1) inside the set where this draws uniformly, as the paper does.

    Guarantee:
        For any two inputs at all, epsilon/2 + ln((size - k) / k) with `top_k`, epsilon/2 + ln(size - 1) with
        `sampled`: accounting derives it from `event`. The paper's epsilon + ln(size) is true but loose.
    """

    epsilon: float
    k: int
    size: int
    set_choice: Literal["top_k", "sampled"] = "top_k"

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _ = self.event

    @property
    def event(self) -> TwoSetEvent:
        """One choice."""
        return TwoSetEvent(self.epsilon, self.k, self.size, self.set_choice)

    def _probabilities(self, probabilities: Scores) -> Floats:
        values = np.clip(_checked(probabilities, self.size), 0.0, 1.0)
        total = values.sum(axis=1, keepdims=True)
        return np.where(total > 0, values / np.where(total > 0, total, 1.0), 1 / self.size)

    def _log_weights(self, in_set: Floats) -> Floats:
        mass = np.clip(in_set, 0.0, 1.0)
        scale = max(self.epsilon - ROUNDING_LOSS, 0.0) / 2
        return np.stack([scale * mass, scale * (1 - mass)], axis=1)

    def distribution(self, probabilities: Scores) -> Floats:
        """Probabilities `(rows, options)`; for `sampled`, by enumerating every draw (small sizes only)."""
        values = self._probabilities(probabilities)
        if self.set_choice == "top_k":
            return self._given_set(_top_k_mask(values, self.k), np.where(_top_k_mask(values, self.k), values, 0).sum(1))
        if self.size**self.k > 100_000:
            raise ConfigError(f"Expected size**k={self.size**self.k} <= 100000 to enumerate every sampled set.")
        result = np.zeros_like(values)
        for draws in np.ndindex(*(self.size,) * self.k):
            mask = np.zeros_like(values, bool)
            mask[:, list(draws)] = True
            chance = values[:, list(draws)].prod(axis=1, keepdims=True)
            result += chance * self._given_set(mask, self._sampled_mass(values, np.tile(draws, (len(values), 1))))
        return result

    def _given_set(self, mask: Booleans, mass: Floats) -> Floats:
        chosen = _softmax(self._log_weights(mass))
        inside = mask.sum(axis=1, keepdims=True)
        return np.asarray(np.where(mask, chosen[:, :1] / inside, chosen[:, 1:] / (self.size - inside)))

    def _sampled_mass(self, values: Floats, draws: Integers) -> Floats:
        rows = np.arange(len(values))[:, None]
        drawn = values[rows, draws].sum(axis=1)
        outside = values.copy()
        outside[rows, draws] = 0
        total = drawn + outside.sum(axis=1)
        return np.asarray(np.where(total > 0, drawn / np.where(total > 0, total, 1.0), 0.5))

    def choose(self, probabilities: Scores, source: Randomness) -> Integers:
        """One option a row, `(rows,)`."""
        result = np.empty(len(probabilities), np.int64)
        for block in _blocks(len(probabilities), self.size):
            values = self._probabilities(probabilities[block])
            if self.set_choice == "top_k":
                mask = _top_k_mask(values, self.k)
                mass = np.where(mask, values, 0).sum(axis=1)
            else:
                mask, mass = self._sampled_set(values, source)
            first = wide_choice(_integer_weights(self._log_weights(mass)), source) == 0
            members = mask == first[:, None]
            result[block] = weighted_choice(members.astype(np.uint64), source)
        return result

    def _sampled_set(self, values: Floats, source: Randomness) -> tuple[Booleans, Floats]:
        # The set is drawn from integer weights; the bound holds for any set, so rounding them costs nothing.
        weights = np.rint(values * 2.0**40).astype(np.uint64)
        weights[:, 0] += (weights.sum(axis=1) == 0).astype(np.uint64)
        draws = np.stack([weighted_choice(weights, source) for _ in range(self.k)], axis=1)
        mask = np.zeros_like(values, bool)
        mask[np.arange(len(values))[:, None], draws] = True
        return mask, self._sampled_mass(values, draws)
