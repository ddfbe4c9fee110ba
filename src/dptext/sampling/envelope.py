"""The best private choice among public options for a public sample of inputs, by an envelope of least chances.

Any epsilon-LDP choice has a lower envelope: the least chance a_y of each option y over all inputs. No input gives y a
chance above e^epsilon a_y. Given the envelope, the best choice for an input raises the input's best options to this cap
until the chances add up to 1. So finding the best envelope for a sample of inputs is a concave problem (derivations,
"Best envelope"). Its value is the best expected utility of any epsilon-LDP choice among these options for these inputs.

    >>> import numpy as np
    >>> utilities = np.array([[0.9, 0.8, 0.1, 0.0], [0.7, 0.8, 0.2, 0.0], [0.0, 0.8, 0.1, 0.9]])
    >>> best = best_envelope(utilities, epsilon=3.0)
    >>> response = EnvelopeResponse.of(best, epsilon=3.0)
    >>> response.distribution(utilities[2:]).round(2).tolist()
    [[0.05, 0.05, 0.0, 0.91]]
"""

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import PureEvent
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import best_number
from dptext.sampling.weights import Rankable, blocks_of, checked
from dptext.types import Booleans, Floats, Int16s, Integers, Singles

_ROUNDS, _FEWER = 300, 100  # steps of the ascent, for the final choice and in cross-validation
MIXTURES = (0.0, 0.25, 0.5, 0.75, 1.0)  # candidate shares of the envelope of equal weights in the mixture
_PRUNE_EVERY, _LEAST = 20, 0.01
_HALVINGS = 40
_FIRST = 64  # options of an input that are looked at first


@dataclass(frozen=True, slots=True, eq=False)
class EnvelopeResponse:
    """A choice by weight. The weights of an input's best options are raised, best first, by a factor of e^epsilon.

    The `least` weights `(size,)` are public. An option of weight 0 is never chosen. All weights are whole numbers. The
    weights of an input add up to `total`, so the last raised option is raised in part.

    Guarantee:
        Exactly epsilon for any two inputs: an option's weight lies between `least` and `most`, whose ratio is at most
        e^epsilon, and all inputs have the same `total`. Only the *order* of the options depends on the input.
    """

    epsilon: float
    least: Integers = field(repr=False)
    total: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        low, total = self.least, self.total
        if low.ndim != 1 or low.dtype != np.int64 or not low.any() or (low < 0).any():
            raise ConfigError("Expected least weights as whole numbers >= 0 `(size,)`, not all of them 0.")
        fits = type(total) is int and sum(low.tolist()) <= total <= (1 << 62) // len(low)
        if not fits or total > sum(self.most.tolist()):
            raise ConfigError(f"Expected total={total!r} between the sums of the least and the largest weights.")

    @classmethod
    def of(cls, envelope: Floats, *, epsilon: float) -> Self:
        """Make the choice from an envelope `(size,)` of chances >= 0, whose sum lies between 1/e^epsilon and 1."""
        scale = ((1 << 62) // len(envelope)) / 2
        least = np.where(envelope > 0, np.maximum(np.floor(envelope * scale), 1), 0).astype(np.int64)
        within = cls._most(least, epsilon, math.floor(scale))
        total = min(max(math.floor(scale), sum(least.tolist())), sum(within.tolist()))
        return cls(epsilon, least, total)

    @staticmethod
    def _most(least: Integers, epsilon: float, total: int) -> Integers:
        # The factor 1 - 2^-48 covers the float rounding of the weight, of e^epsilon and of their product.
        raised = np.minimum(least * (_ratio(epsilon) * (1 - 2.0**-48)), float(total))
        return np.asarray(np.maximum(np.minimum(np.floor(raised).astype(np.int64), total), least))

    @property
    def most(self) -> Integers:
        """The largest weight of each option `(size,)`: at most e^epsilon times the least weight."""
        return self._most(self.least, self.epsilon, self.total)

    @property
    def event(self) -> PureEvent:
        """The event of one choice."""
        return PureEvent(self.epsilon)

    def _raised(self, order: Integers) -> Integers:
        """Cumulative raises `(rows, size)` along each row's order: weight added to an option and all options before."""
        room = np.cumsum((self.most - self.least)[order], axis=1)
        return np.asarray(np.minimum(room, self.total - int(self.least.sum())))

    def distribution(self, scores: Rankable) -> Floats:
        """Probabilities `(rows, options)`, exactly as drawn."""
        order = _descending(scores, len(self.least))
        given = np.diff(self._raised(order), axis=1, prepend=0)
        weights = np.broadcast_to(self.least, order.shape).copy()
        weights[np.arange(len(order))[:, None], order] += given
        return np.asarray(weights / self.total)

    def choose(self, scores: Rankable, source: Randomness) -> Integers:
        """One option per row, `(rows,)`, by one integer draw per row."""
        drawn = uniform_below(self.total, len(scores), source).astype(np.int64)
        floors = np.cumsum(self.least)
        # A draw below the sum of the least weights ignores the input. Other draws fall on the raises of the input.
        result = np.searchsorted(floors, drawn, side="right")
        above = drawn - floors[-1]
        for block in blocks_of(len(scores), len(self.least)):
            order = _descending(scores[block], len(self.least))
            place = (self._raised(order) <= above[block, None]).sum(axis=1)
            found = np.take_along_axis(order, np.minimum(place, len(self.least) - 1)[:, None], axis=1)[:, 0]
            result[block] = np.where(above[block] >= 0, found, result[block])
        return np.asarray(result)

    def in_play(self) -> int:
        """The smallest number of options that have 99% of the sum of all least weights together."""
        shares = np.sort(self.least)[::-1].cumsum() / self.least.sum(dtype=np.float64)
        return int(np.searchsorted(shares, 0.99) + 1)


def _descending(scores: Rankable, size: int) -> NDArray[Any]:
    """The options of each row from best to worst. Ties go by index."""
    if np.issubdtype(scores.dtype, np.integer) and scores.ndim == 2 and scores.shape[1] == size:
        return np.argsort(np.invert(scores), axis=1, kind="stable")  # no integer overflows, and integers sort faster
    return np.argsort(-checked(scores, size), axis=1, kind="stable")


def tuned_response(scores: Int16s, own: Booleans, *, epsilon: float, seed: int) -> EnvelopeResponse:
    """Make the choice that gains most from scores `(n, m)` of public inputs, by cross-validation.

    From epsilon 8 on, the best envelope overfits its inputs. So it is mixed with the envelope of the best top-k
    randomized response. Twofold cross-validation over the inputs, split by the seed, finds the share of the mixture.
    Scores are the utility of each option to each input, in whole steps. `own` `(n, m)` marks an input's own options:
    their utility is replaced by the mean of the input's other options.
    """
    gains = scores.astype(np.float64)
    gains[own] = np.nan
    gains = np.where(own, np.nanmean(gains, axis=1, keepdims=True), gains)
    rows = np.random.default_rng(seed).permutation(len(gains))
    found = np.zeros(len(MIXTURES))
    for made, tried in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])) if len(gains) > 1 else ():
        mixed = _mixtures(gains[made], own[made], scores[made], epsilon, _FEWER)
        given = gains[tried]
        order = _descending(given, given.shape[1])
        found += [_expected(a, order, given, epsilon).sum() for a in mixed]
    return EnvelopeResponse.of(_mixtures(gains, own, scores, epsilon, _ROUNDS)[int(np.argmax(found))], epsilon=epsilon)


def _mixtures(gains: Floats, own: Booleans, scores: Int16s, epsilon: float, rounds: int) -> list[Floats]:
    k, size = best_number(scores.copy(), gains.copy(), own, epsilon), gains.shape[1]
    best, equal = best_envelope(gains, epsilon=epsilon, rounds=rounds), top_k_envelope(k, size, epsilon=epsilon)
    return [(1 - share) * best + share * equal for share in MIXTURES]


def top_k_envelope(k: int, size: int, *, epsilon: float) -> Floats:
    """The envelope of top-k randomized response: equal least chances `(size,)`. An input raises k of them."""
    return np.full(size, 1 / (k * _ratio(epsilon) + size - k))


def best_envelope(utilities: NDArray[np.floating[Any]], *, epsilon: float, rounds: int = _ROUNDS) -> Floats:
    """The envelope `(m,)` with the highest mean utility for n public inputs with utilities `(n, m)` of m options.

    The method is exponentiated gradient ascent (Kivinen and Warmuth 1997), whose longest step shrinks as t^-0.7. The
    best envelope on the way is returned. Options below a hundredth of the mean weight are dropped on the way.
    PrivacyError: a utility is not finite. ConfigError: another shape.
    """
    return _solved(utilities, epsilon, rounds)[0]


@dataclass(frozen=True, slots=True)
class Limit:
    """The mean utility of the best epsilon-LDP choice of any kind: `value` was attained, `bound` cannot be exceeded."""

    epsilon: float
    value: float
    bound: float


def limit(utilities: NDArray[np.floating[Any]], *, epsilon: float, rounds: int = 2 * _ROUNDS) -> Limit:
    """Measure the mean utility of the best epsilon-LDP choice of any kind for the inputs with utilities `(n, m)`.

    Let w(t) = e^epsilon t for t > 0, else t. If thresholds l `(n,)` satisfy E[w(u - l)] <= 0 for each option, no choice
    has a mean utility above the mean of l (derivations, "Best envelope"). The averaged thresholds of the ascent nearly
    satisfy this. The least constant is added that makes them satisfy it, and their mean is the bound.
    """
    envelope, thresholds = _solved(utilities, epsilon, rounds)
    u, ratio = np.asarray(utilities, np.float64), _ratio(epsilon)
    value = float(expected_utility(envelope, u, u, epsilon=epsilon).mean())
    low, high = float(u.min() - thresholds.max()), float(u.max() - thresholds.min())  # `high` satisfies the condition
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = u - (thresholds + middle)[:, None]
        above[above > 0] *= ratio
        low, high = (low, middle) if (above.sum(axis=0) <= 0).all() else (middle, high)
    return Limit(epsilon, value, max(value, float(thresholds.mean()) + high))


def expected_utility(envelope: Floats, scores: Rankable, gains: Floats, *, epsilon: float) -> Floats:
    """Expected utility `(n,)` of each input under an envelope's choice, which raises options in order of their scores.

    `scores` and `gains` (utilities) are `(n, m)`.
    """
    return _expected(envelope, _descending(scores, len(envelope)), gains, epsilon)


def _expected(envelope: Floats, order: NDArray[Any], gains: Floats, epsilon: float) -> Floats:
    room, rest = (_ratio(epsilon) - 1) * envelope, 1 - envelope.sum()
    best, sums = _up_to(order, room, rest, _FIRST)
    raised = np.clip(rest - (sums - room[best]), 0.0, room[best])
    return np.asarray((raised * np.take_along_axis(gains, best, axis=1)).sum(axis=1) + gains @ envelope)


def _up_to(order: NDArray[Any], room: Floats, rest: float, width: int) -> tuple[NDArray[Any], Floats]:
    """The first options of each row `(rows, w)`, until their room is at least `rest` in each row, and its sums.

    An input raises few of its options, so that `width` of them are looked at first, then twice as many.
    """
    while True:
        best = order[:, :width]
        sums = np.cumsum(room[best], axis=1)
        if width >= len(room) or (sums[:, -1] >= rest).all():
            return best, sums
        width *= 2


def _solved(utilities: NDArray[np.floating[Any]], epsilon: float, rounds: int) -> tuple[Floats, Floats]:
    """The best envelope `(m,)`, and the mean `(n,)` of the thresholds on the way, weighted by the lengths of the steps.

    The steps are those of exponentiated gradient ascent. With these weights, the mean solves the dual problem.
    """
    u = checked(np.asarray(utilities), None).astype(np.float32)
    n, m = u.shape
    ratio = _ratio(epsilon)
    order = np.argsort(-u, axis=1, kind="stable").astype(np.int32)
    ranked, mean = np.take_along_axis(u, order, axis=1), u.mean(axis=0, dtype=np.float64)
    kept = np.arange(m)
    a, first = np.full(m, min(1.0, 20 / ratio + 0.02) / m), min(max(2.0, 0.4 * epsilon), 10.0)
    thresholds, sums, width = np.zeros(n), 0.0, _FIRST
    best, found = float(mean.max()), (mean == mean.max()) / (mean == mean.max()).sum()  # one option for all inputs
    for i in range(rounds):
        if i and i % _PRUNE_EVERY == 0:
            stays = a > _LEAST * a.mean()
            if not stays.all():
                order, ranked = (part[stays[order]].reshape(n, -1) for part in (order, ranked))
                order = (np.cumsum(stays) - 1).astype(np.int32)[order]
                kept, a, mean = kept[stays], a[stays], mean[stays]
        level, gain, width = _levels(order, ranked, a, ratio, width)
        slope = ratio * gain - (gain - mean + level.mean())
        step = first / (1 + i) ** 0.7 / max(np.abs(slope).max(), 1e-12)
        if i >= rounds // 10:
            thresholds, sums = thresholds + step * level, sums + step
        value = float(level.mean() + a @ slope)
        if value > best:
            best, found = value, np.zeros(m)
            found[kept] = a
        a = a * np.exp(step * slope)
        a *= np.clip(a.sum(), 1.0001 / ratio, 1.0) / a.sum()
    return found, thresholds / sums


def _levels(
    order: NDArray[np.int32], ranked: Singles, a: Floats, ratio: float, width: int
) -> tuple[Floats, Floats, int]:
    """The utility l `(n,)` of the last option that each input raises, and E[max(0, u - l)] of each option `(m,)`.

    Then how many options the next step should look at first, as `width` is for this one.
    """
    room, rest = (ratio - 1) * a, 1 - a.sum()
    level, gain, most = np.empty(len(order)), np.zeros(len(a)), 0
    for block in blocks_of(len(order), width):
        best, sums = _up_to(order[block], room, rest, width)
        last = np.minimum((sums < rest).sum(axis=1), len(a) - 1)
        rows = ranked[block, : best.shape[1]]
        level[block] = rows[np.arange(len(rows)), last]
        above = np.maximum(rows - level[block, None], 0)
        gain += np.bincount(best.ravel(), weights=above.ravel(), minlength=len(a))
        most = max(most, int(last.max()))
    return level, gain / len(order), most + most // 8 + 8


def _ratio(epsilon: float) -> float:
    """e^epsilon, but at most e^100: integers of 62 bits cannot tell e^100 from infinity."""
    return math.exp(min(epsilon, 100.0))
