"""Choices near a public hub: private probabilities, clipped around public probabilities.

Source: derivations, "Hub decoding" (relatives: PMixED, Flemings et al. 2024; InvisibleInk, Vinod et al. 2025). With h =
epsilon / 2, option v is chosen with a probability between e^-h pub(v) and e^h pub(v) for any private text. Epsilon has
no factor 2 and does not depend on the size of the vocabulary. `Nudged` moves public log-probabilities a little by
private log-probabilities (private prediction).

    >>> import numpy as np
    >>> from dptext.sampling.randomness import seeded
    >>> hub = Hub(epsilon=2.0, size=3)
    >>> public, private = np.array([[0.5, 0.3, 0.2]]), np.array([[0.0, 0.0, 1.0]])
    >>> hub.distribution(private, public).round(3).tolist()
    [[0.285, 0.171, 0.544]]
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import TopKEvent
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import ROUNDING_LOSS, checked, draw_by_weight, normalized, require_finite, softmax
from dptext.types import Floats, Integers

#: Probabilities are whole multiples of 1 / PARTS, so that their sums are exact in float64.
PARTS = 1 << 46
LARGEST_HUB_EPSILON = 24.0
_LARGEST_SIZE = 1 << 16
#: Share of the uniform distribution in the hub, so that every option is possible.
_UNIFORM = 1e-3
_BISECTIONS = 40
_ROWS_AT_ONCE = 16
_EVENT_SIZE = 1_000_000


@dataclass(frozen=True, slots=True)
class Hub:
    """A choice of one of `size` options, near public probabilities.

    Guarantee:
        Exactly epsilon for any two private inputs, given the public probabilities, which must not depend on either.
        Probabilities are whole multiples (parts) of 2^-46. The parts of each option lie between a least and a most
        number that the public probabilities set, and the parts of all options add up to 2^46. The end of the bisection
        affects utility only.

        In composition with delta: consider distributions with a density in [e^-h, e^h] to one hub. No two are further
        apart than two with density e^h on disjoint sets of hub mass a = 1 / (1 + e^h) and e^-h elsewhere. (The
        hockey-stick divergence is jointly convex, so it is largest between extreme points, whose densities have these
        two values only. Options with equal densities lose nothing, so disjoint sets are the worst, at every order.
        Atoms only remove extreme points.) This pair is top-k randomized response with k/size = a, rounded up: `event`.
    """

    epsilon: float
    size: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.within(1e-4, LARGEST_HUB_EPSILON, epsilon=self.epsilon)
        _validate.within(2, _LARGEST_SIZE, size=self.size)

    @property
    def event(self) -> TopKEvent:
        """The event of one choice."""
        share = 1 / (1 + math.exp(self.epsilon / 2))
        return TopKEvent(self.epsilon, min(math.ceil(share * _EVENT_SIZE) + 1, _EVENT_SIZE // 2), _EVENT_SIZE)

    def parts(self, private: Floats, public: Floats) -> Floats:
        """The parts of each option `(rows, size)`, whole numbers; each row's sum is 2^46.

        `private` and `public` have this shape. `private` is not negative, and its scale has no effect. ConfigError:
        another shape. PrivacyError: an entry is not finite.
        """
        if private.shape != public.shape or private.ndim != 2 or private.shape[1] != self.size:
            raise ConfigError(f"Expected two arrays of shape (rows, {self.size}), found {private.shape, public.shape}.")
        found = np.empty(private.shape)
        for start in range(0, len(private), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            found[rows] = self._block(np.asarray(private[rows], np.float64), np.asarray(public[rows], np.float64))
        return found

    def _block(self, private: Floats, public: Floats) -> Floats:
        least, most = self._limits(public)
        require_finite(private)
        # Options without private probability share the remaining parts in proportion to their public probabilities: at
        # every epsilon, the factor e^60 lifts 1e-9 of the least parts to the most.
        wanted = np.maximum(normalized(private.clip(0.0, 1e30)) * PARTS, 1e-9 * least)
        # The number of rounds is the same for every text, so that the time reveals nothing.
        low, high = np.full((len(wanted), 1), -60.0), np.full((len(wanted), 1), 60.0)
        found = np.empty_like(wanted)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            fits = self._between(wanted, middle, least, most, found).sum(axis=1, keepdims=True) <= PARTS
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        found = np.floor(self._between(wanted, low, least, most, found))
        # If rounding alone makes the starting point too large, the least parts are taken.
        found = np.where(found.sum(axis=1, keepdims=True) <= PARTS, found, least)
        room = most - found
        before = np.cumsum(room, axis=1) - room
        return np.asarray(found + np.clip(PARTS - found.sum(axis=1, keepdims=True) - before, 0.0, room))

    @staticmethod
    def _between(wanted: Floats, log_scale: Floats, least: Floats, most: Floats, out: Floats) -> Floats:
        np.multiply(wanted, np.exp(log_scale), out=out)
        np.maximum(out, least, out=out)
        return np.minimum(out, most, out=out)

    def _limits(self, public: Floats) -> tuple[Floats, Floats]:
        """The least and the most parts of each option: functions of the public probabilities alone."""
        require_finite(public)
        hub = ((1 - _UNIFORM) * normalized(public.clip(0.0, 1.0)) + _UNIFORM / self.size) * PARTS
        half = self.epsilon / 2 * (1 - 1e-12) - 2.0**-50  # covers the rounding of the next two lines
        least = np.ceil(hub * math.exp(-half))
        most = np.minimum(np.floor(hub * math.exp(half)), PARTS)
        return least, np.maximum(most, least)

    def distribution(self, private: Floats, public: Floats) -> Floats:
        """Probabilities `(rows, size)`, exactly as drawn."""
        return self.parts(private, public) / PARTS

    def choose(self, private: Floats, public: Floats, source: Randomness) -> Integers:
        """One option per row, `(rows,)`, by one integer draw per row."""
        drawn = uniform_below(PARTS, len(private), source).astype(np.float64)
        ends = np.cumsum(self.parts(private, public), axis=1)
        return np.asarray((ends <= drawn[:, None]).sum(axis=1), np.int64)


#: Number of steps in the reach of a unit.
UNIT_STEPS: Final = 1 << 20
FARTHEST: Final = 128.0  # largest size of the two parts of a log weight; their float sum is precise enough
MOST_STEPS: Final = 1 << 53  # largest count that floats represent exactly
_FLOATS: Final = 2.0**-37  # bound on the rounding of log weights' sums, between two options and two inputs


@dataclass(frozen=True, slots=True)
class Nudged:
    """A choice of one of several options, near public log-probabilities, which are divided by a temperature.

    A unit moves a log weight by `reach` at most, for any text. So adding a unit moves the log weights by a range of
    2 reach, and replacing a unit by a range of 4 reach. A choice in proportion to weights whose logarithms move by a
    range of eta is (eta^2 / 8)-zCDP (Cesar and Rogers 2021, lemma 3.4), and eta-DP. Differences of log-probabilities
    are clipped to [-clip, clip].
    """

    reach: float
    clip: float
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive(reach=self.reach, clip=self.clip, temperature=self.temperature)
        if self.reach <= ROUNDING_LOSS + _FLOATS:
            raise ConfigError(f"Expected reach={self.reach!r} to be more than rounding: choose a larger epsilon.")

    def steps(self, private: Floats, public: Floats) -> Integers:
        """The moves of units `(units, options)` in whole steps from -UNIT_STEPS to UNIT_STEPS, rounded toward 0.

        A unit whose log-probabilities are not all finite moves nothing.
        """
        apart = np.where(np.isfinite(private).all(axis=1, keepdims=True), private - public, 0.0)
        return np.trunc(np.clip(apart / self.clip, -1.0, 1.0) * UNIT_STEPS).astype(np.int64)

    def log_weights(self, total: Integers, public: Floats) -> Floats:
        """The log weights of options `(rows, options)`, from sums of steps and public log-probabilities of this shape.

        Both parts are clipped at a size of 128, so that their float rounding stays within its allowance for any number
        of units. Clipping a sum never increases the move of a unit.
        """
        shrunk = self.reach - (ROUNDING_LOSS + _FLOATS) / 2
        most = min(int(FARTHEST / self.reach * UNIT_STEPS), MOST_STEPS)
        base = checked(public) / self.temperature
        base = np.maximum(base - base.max(axis=1, keepdims=True), -FARTHEST)
        return np.asarray(base + np.clip(total, -most, most) * (shrunk / UNIT_STEPS))

    def distribution(self, total: Integers, public: Floats) -> Floats:
        """Probabilities `(rows, options)`."""
        return softmax(self.log_weights(total, public))

    def choose(self, total: Integers, public: Floats, source: Randomness) -> Integers:
        """One option per row, `(rows,)`: an exact choice by whole weights."""
        return draw_by_weight(self.log_weights(total, public), source)


def reach_of(rho: float, choices: int, *, replaced: bool) -> float:
    """The largest reach at which `choices` choices are rho-zCDP, if neighbours add a unit, or have one `replaced`."""
    eta = math.sqrt(8 * rho / choices) * (1 - 2.0**-40)
    return eta / (4 if replaced else 2)
