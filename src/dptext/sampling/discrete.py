"""Exact draws of whole numbers: by weight, Bernoulli, discrete Laplace and Gaussian.

All draws use integer arithmetic, so that no float rounding makes an output possible for one input and impossible for
its neighbour (Mironov 2012).

    >>> from dptext.sampling.randomness import seeded
    >>> uniform_below(6, 3, seeded(7)).tolist()
    [4, 4, 3]
"""

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.sampling.randomness import Randomness
from dptext.types import Booleans, Floats, Integers, UInt64s


def uniform_below(bound: int, size: int, source: Randomness) -> UInt64s:
    """`size` independent uniform integers in [0, bound), exact by rejection. ConfigError: bound not in [1, 2^63]."""
    if not 1 <= bound <= 1 << 63:
        raise ConfigError(f"Expected bound={bound!r} in [1, 2^63].")
    draws = source.uint64(size)
    if bound & (bound - 1) == 0:
        return draws & np.uint64(bound - 1)
    limit, divisor = np.uint64((1 << 64) // bound * bound), np.uint64(bound)
    refused = (draws >= limit).nonzero()[0]
    if refused.size:
        draws = draws.copy()  # the array may be a view of the stream's buffer
        while refused.size:
            again = source.uint64(refused.size)
            draws[refused] = again
            refused = refused[again >= limit]
    return draws - draws // divisor * divisor


def uniform_below_each(bounds: UInt64s, source: Randomness) -> UInt64s:
    """One uniform integer below each of the bounds (each in [1, 2^63])."""
    limit = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % bounds + np.uint64(1)) % bounds
    draws = source.uint64(bounds.size).copy()
    refused = np.flatnonzero(draws > limit)
    while refused.size:
        draws[refused] = source.uint64(refused.size)
        refused = refused[draws[refused] > limit[refused]]
    return draws % bounds


def weighted_choice(weights: UInt64s, source: Randomness) -> Integers:
    """One index per row with probability exactly weight / row sum. Weights `(rows, options)`, row sums in [1, 2^63]."""
    cumulated = np.cumsum(weights, axis=1, dtype=np.uint64)
    drawn = uniform_below_each(cumulated[:, -1], source)
    return np.asarray((cumulated <= drawn[:, None]).sum(axis=1), np.int64)


LIMB_BITS = 40
LIMBS = 3
_LIMB_MASK = np.uint64((1 << LIMB_BITS) - 1)


def _below(left: UInt64s, right: UInt64s) -> Booleans:
    """left < right for integers of several limbs. The first axis is the limbs, least limb first."""
    result: Booleans = left[0] < right[0]
    for low, high in zip(left[1:], right[1:], strict=True):
        result = (low < high) | ((low == high) & result)
    return result


def wide_choice(weights: UInt64s, source: Randomness) -> Integers:
    """`weighted_choice` for weights of up to 120 bits, given as limbs of 40 bits `(3, rows, options)`.

    The least limb is first. The largest weight of a row must be at least 2^80, else rejection takes long. At most 2^20
    options are allowed, so that no sum of limbs overflows.
    """
    cumulated = np.cumsum(weights, axis=2, dtype=np.uint64)
    for i in range(LIMBS - 1):  # the top limb keeps its carries: it has 24 spare bits
        cumulated[i + 1] += cumulated[i] >> np.uint64(LIMB_BITS)
        cumulated[i] &= _LIMB_MASK
    total = cumulated[:, :, -1]
    # A draw must cover the bits of each total's top limb, with its carries.
    top_bits = np.frexp(total[-1].astype(np.float64))[1].astype(np.uint64)
    drawn = np.empty_like(total)
    pending = np.arange(total.shape[1])
    while pending.size:
        words = source.uint64(LIMBS * pending.size).reshape(LIMBS, -1).copy()
        words[:-1] &= _LIMB_MASK
        words[-1] &= (np.uint64(1) << top_bits[pending]) - np.uint64(1)
        drawn[:, pending] = words
        pending = pending[~_below(words, total[:, pending])]
    return np.asarray((~_below(drawn[:, :, None], cumulated)).sum(axis=1), np.int64)


def wide_bernoulli(weights: UInt64s, source: Randomness) -> Booleans:
    """True with probability exactly weight / 2^119, for weights in [0, 2^119] whose first axis is the limbs."""
    flat = weights.reshape(LIMBS, -1)
    words = source.uint64(flat.size).reshape(flat.shape) & _LIMB_MASK
    words[-1] &= _LIMB_MASK >> np.uint64(1)
    return np.asarray(_below(words, flat).reshape(weights.shape[1:]))


def bernoulli_exp(numerator: UInt64s, denominator: int, source: Randomness) -> Booleans:
    """True with probability exactly exp(-numerator / denominator), for numerators in [0, denominator].

    Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), algorithm 1: draw Bernoulli(x / k) for k = 1, 2, ... until the
    first failure. Its k is odd with probability exp(-x).
    """
    result = np.zeros(numerator.size, bool)
    pending = np.arange(numerator.size)
    k = 1
    while pending.size:
        goes_on = uniform_below(denominator * k, pending.size, source) < numerator[pending]
        if k % 2:
            result[pending[~goes_on]] = True
        pending = pending[goes_on]
        k += 1
    return result


def _successes_of_exp_minus_one(size: int, source: Randomness) -> UInt64s:
    """The numbers of successes of Bernoulli(1/e) before the first failure."""
    result = np.zeros(size, np.uint64)
    pending = np.arange(size)
    while pending.size:
        pending = pending[_bernoulli_exp_minus_one(pending.size, source)]
        result[pending] += np.uint64(1)
    return result


def _bernoulli_exp_minus_one(size: int, source: Randomness) -> Booleans:
    """`bernoulli_exp` for numerators of 1 and the denominator 1, with the same draws."""
    result = np.zeros(size, bool)
    source.uint64(size)  # the first of the draws, of one number below 1, always goes on
    pending, k = np.arange(size), 2
    while pending.size:
        goes_on = uniform_below(k, pending.size, source) == 0
        if k % 2:
            result[pending[~goes_on]] = True
        pending = pending[goes_on]
        k += 1
    return result


def discrete_laplace(scale: int, size: int, source: Randomness) -> Integers:
    """`size` integers x with probability proportional to exp(-|x| / scale), scale an integer below 2^40.

    Source: Canonne, Kamath and Steinke 2020, algorithm 2, in integer arithmetic throughout.
    """
    _validate.count(scale=scale)
    _validate.within(1, 1 << 40, scale=scale)
    result = np.empty(size, np.int64)
    pending = np.arange(size)
    while pending.size:
        below = uniform_below(scale, pending.size, source)
        kept = bernoulli_exp(below, scale, source).nonzero()[0]
        magnitude = below[kept] + np.uint64(scale) * _successes_of_exp_minus_one(kept.size, source)
        negative = source.uint64(kept.size) >> np.uint64(63) == 1
        valid = ~(negative & (magnitude == 0))  # else zero would be drawn with either sign, so twice as often
        signed = magnitude.astype(np.int64)
        result[pending[kept[valid]]] = np.where(negative, -signed, signed)[valid]
        pending = _without(pending, kept[valid])
    return result


def discrete_gaussian(sigma: int, size: int, source: Randomness) -> Integers:
    """`size` integers x with probability proportional to exp(-x^2 / (2 sigma^2)), sigma an integer up to 2^24.

    Source: Canonne, Kamath and Steinke 2020, algorithm 3. The proposal's scale equals sigma, so that the acceptance
    exponent is the exact fraction (|y| - sigma)^2 / (2 sigma^2). A proposal y with ||y| - sigma| >= 2^31 is refused:
    its acceptance probability is below e^-8000.
    """
    _validate.count(sigma=sigma)
    _validate.within(1, 1 << 24, sigma=sigma)
    denominator = 2 * sigma * sigma
    result = np.empty(size, np.int64)
    pending = np.arange(size)
    while pending.size:
        proposed = discrete_laplace(sigma, pending.size, source)
        distance = np.abs(np.abs(proposed) - sigma)
        possible = (distance < 1 << 31).nonzero()[0]
        numerator = (distance[possible] ** 2).astype(np.uint64)
        whole = numerator // np.uint64(denominator)
        accepted = bernoulli_exp(numerator - whole * np.uint64(denominator), denominator, source)
        # exp(-(whole + rest)): all `whole` factors of 1/e must succeed too
        hard = (accepted & (whole > 0)).nonzero()[0]
        accepted[hard] = _successes_of_exp_minus_one(hard.size, source) >= whole[hard]
        kept = possible[accepted]
        result[pending[kept]] = proposed[kept]
        pending = _without(pending, kept)
    return result


def _without(pending: Integers, kept: Integers) -> Integers:
    """Return the members but for those at the positions `kept`; `np.delete` takes a tenth of one draw."""
    left = np.ones(pending.size, bool)
    left[kept] = False
    return pending[left]


def bernoulli_exp_minus(exponent: float, size: int, source: Randomness) -> Booleans:
    """True with probability exp(-exponent), the exponent (>= 0, finite) rounded to a multiple of 2^-40.

    The probability is exact for the rounded exponent, however large: no probability is too small to be drawn.
    """
    _validate.not_negative(exponent=exponent)
    whole, rest = divmod(round(exponent * 2**40), 1 << 40)
    result = bernoulli_exp(np.full(size, rest, np.uint64), 1 << 40, source)
    hard = np.flatnonzero(result)
    result[hard] = _successes_of_exp_minus_one(hard.size, source) >= np.uint64(whole)
    return result


def uniform_open(size: int, source: Randomness) -> Floats:
    """`size` uniform floats in (0, 1) for the continuous samplers, precise to 2^-52 of their own size.

    A value is (r + 1/2) / 2^64 for r uniform below 2^64. If r is small, more bits are drawn, so that every tail of a
    distribution can be reached. A tail that one input can reach and another cannot would void any epsilon.
    """
    whole = source.uint64(size).astype(np.float64)
    values = whole + 0.5
    short, scale = np.flatnonzero(whole < 1 << 12), 1.0
    while short.size and scale > 2.0**-900:
        scale *= 2.0**-64
        more = source.uint64(short.size).astype(np.float64)
        values[short] = whole[short] + (more + 0.5) * scale
        whole[short] += more * scale
        short = short[whole[short] < scale * 2.0**12]
    return np.minimum(values * 2.0**-64, 1 - 2.0**-53)
