"""Privacy curves of single mechanisms: epsilon as a function of delta, or delta of epsilon, rounded up.

`dptext.privacy.accounting` uses these formulas, and has the cost of several runs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dptext import _validate
from dptext.privacy.events import ApproximateEvent, Event, ExponentialEvent, TopKEvent, TwoSetEvent
from dptext.types import Floats

#: Relative margin for the rounding of exp and log in the closed formulas, whose relative error is a few 2^-53.
_ROUNDING = 2.0**-44


def up(value: float) -> float:
    """Add a small margin to a computed value, so that float errors never make an epsilon smaller than the truth."""
    return math.nextafter(value * (1 + _ROUNDING), math.inf) if value > 0 else 0.0


def round_up(total: Fraction) -> float:
    """The smallest float that is at least this fraction."""
    nearest = float(total)
    return nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)


def two_set_epsilon(event: TwoSetEvent) -> float:
    """Tight epsilon of one choice (derivations, "Two-set choice")."""
    # The paper's epsilon + ln(size) is true but loose.
    spread = (event.size - event.k) / event.k if event.set_choice == "top_k" else event.size - 1
    return up(event.epsilon / 2 + math.log(spread))


def dominating(event: Event) -> Event:
    """Return a top-k randomized response that loses at least as much as a two-set mechanism, at every order.

    Other events are returned unchanged. Proof: an input gives a set S probability a in [c, 1 - c], spread evenly, where
    c = 1 / (1 + e^(epsilon/2)); the other options share the rest evenly. If S is drawn, the law is a mixture of such
    laws. Hockey-stick divergences are jointly convex, so they are largest for fixed sets and a, a' in {c, 1 - c}. Among
    these, disjoint sets of the smallest size with a = a' = 1 - c are worst: they put mass 1 - c at the largest loss
    (the tests enumerate all overlaps and sizes). This pair is top-k randomized response at the tight epsilon. A pair
    that is worst at every order is worst in composition.
    """
    if not isinstance(event, TwoSetEvent):
        return event
    k = event.k if event.set_choice == "top_k" else 1
    return TopKEvent(two_set_epsilon(event), k, event.size, count=event.count)


def exponential_epsilon(event: ExponentialEvent) -> float:
    """Tight epsilon of one choice, for any two inputs (derivations, "Scores within a range")."""
    # The worst pair: one option at the top of the range and the others at its bottom, against the reverse.
    # With n others, d + ln((n e^d + 1) / (e^d + n)) is written without cancellation, so that a small d stays precise.
    d, others = event.log_range, event.size - 1
    if others == 0 or d == 0:
        return 0.0
    fallen = math.exp(-d)
    return up(d + math.log1p((others - 1) * -math.expm1(-d) / (1 + others * fallen)))


def sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """The sum of value * count, computed exactly and rounded up to a float; infinite if no float is large enough."""
    try:
        return round_up(Fraction(sum(units(value) * count for value, count in terms), UNIT))
    except OverflowError:
        return math.inf


#: Every float is a whole multiple of 1 / 2^1074. Whole numbers add up exactly, and five times faster than fractions.
UNIT = 2**1074


def units(value: float) -> int:
    """The value in units of 1 / 2^1074. OverflowError: the value is infinite."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (UNIT // denominator)


def approximate_delta(events: Iterable[ApproximateEvent]) -> Fraction:
    """The delta of (epsilon, delta)-DP runs together, adaptive or not, at the sum of their epsilons; rounded up.

    The delta is 1 - prod (1 - delta_i): run i is epsilon_i-DP but for a chance of delta_i, and the bound needs all runs
    to be (Kairouz, Oh and Viswanath 2015). The exact sum of the deltas is returned if rounding makes it smaller.
    """
    listed = list(events)
    if any(event.delta == 1 for event in listed):
        return Fraction(1)
    added = sum((Fraction(event.delta) * event.count for event in listed), Fraction(0))
    log_kept = math.fsum(event.count * math.log1p(-event.delta) for event in listed)
    return min(added, Fraction(min(1.0, up(-math.expm1(log_kept)))))


@lru_cache(maxsize=4096)  # the cost of one release asks twice for the same bound
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at delta of a rho-zCDP release (Canonne, Kamath and Steinke 2020, proposition 12)."""
    _validate.positive(delta=delta)
    if rho == 0:
        return 0.0
    if rho > 1e15:
        return math.inf

    def at(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return alpha * rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)

    from scipy.optimize import minimize_scalar  # noqa: PLC0415 (slow to load)

    # Every alpha gives a valid bound, so an imperfect minimum only costs tightness.
    best = minimize_scalar(at, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-10})
    guess = math.log(max(math.sqrt(-math.log(min(delta, 0.5)) / rho), 1e-5))
    return up(max(min(float(best.fun), at(min(max(guess, -12.0), 12.0))), 0.0))


def gaussian_delta(noise_multiplier: float, epsilon: float) -> float:
    """delta of continuous Gaussian noise at epsilon (Balle and Wang 2018, theorem 8), rounded up.

    noise_multiplier = standard deviation / L2 sensitivity.
    """
    _validate.positive(noise_multiplier=noise_multiplier)
    from scipy.special import log_ndtr  # noqa: PLC0415 (slow to load)

    mu = 1 / noise_multiplier
    log_left = float(log_ndtr(mu / 2 - epsilon / mu))
    log_right = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if log_right >= log_left:
        return 0.0 if log_left < -700 else math.exp(log_left) * 1e-12
    # exp(left) - exp(right); log_ndtr errs by some 1e-14 relative, which the difference may magnify
    return min(1.0, -math.exp(log_left) * math.expm1(log_right - log_left) + math.exp(log_left) * 1e-12)


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Epsilon of continuous Gaussian noise at delta: the inverse of `gaussian_delta`."""
    if gaussian_delta(noise_multiplier, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(noise_multiplier, high) > delta:
        high *= 2
        if high > 1e12:
            return math.inf
    low = high / 2 if high > 1 else 0.0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if gaussian_delta(noise_multiplier, middle) <= delta else (middle, high)
    return up(high)


def top_k_probabilities(event: TopKEvent) -> tuple[float, float, float]:
    """Probabilities of loss +epsilon, 0 and -epsilon in the worst case of one run (disjoint top-k sets).

    Each errs by a few 2^-53 of itself, however small it is.
    """
    k, size = event.k, event.size
    others = size - k
    overlap_free = min(k, others)  # when 2k > size the two sets must overlap; overlap has loss 0
    # p = e^E / Z and q = 1 / Z with Z = k e^E + size - k, without overflow
    q_over_p = math.exp(-event.epsilon)
    p = 1 / (k + others * q_over_p)
    unmoved = (others - k) * p * q_over_p if others >= k else (k - others) * p
    return overlap_free * p, unmoved, overlap_free * p * q_over_p


@dataclass(frozen=True, slots=True)
class NetLosses:
    """Distribution of (number of runs with loss +epsilon) - (number of runs with loss -epsilon).

    Attributes:
        lowest: the difference that `mass[0]` belongs to.
        mass: probabilities of `lowest`, `lowest` + 1, ...
        missing: upper bound on the probability that `mass` leaves out.
    """

    lowest: int
    mass: Floats
    missing: float = 0.0

    def after(self, other: "NetLosses", negligible: float) -> "NetLosses":
        """Convolve both distributions. The ends of a long result are cut while each mass is below `negligible`.

        The standard deviation of n runs is at most sqrt(n), so far fewer than 2n + 1 masses are kept.
        """
        lowest, mass = self.lowest + other.lowest, np.convolve(self.mass, other.mass)
        missing = self.missing + other.missing
        if len(mass) > _SHORT:
            kept = np.flatnonzero(mass >= negligible)
            first, end = int(kept[0]), int(kept[-1]) + 1
            missing += float(mass[:first].sum() + mass[end:].sum())
            lowest, mass = lowest + first, mass[first:end]
        return NetLosses(lowest, mass, missing)


#: The distribution of more runs is computed by a transform.
MAX_SQUARED = 32_768
_MOST_LOSSES = 1 << 22  # a transform of more takes seconds
_FAR = 70.0  # -ln of the probability of losses beyond a transform
_TRANSFORMED = 1e-13  # above the rounding of a transform's sums
_ULPS = 2.0**-50  # relative error of one number before it


def many_net_losses(event: TopKEvent) -> NetLosses | None:
    """The net losses of `event.count` runs, by their characteristic function; None if that takes too long.

    What lies beyond the transform (Bernstein's inequality), and what its rounding can move, is counted as missing.
    """
    gain, unmoved, loss = top_k_probabilities(event)
    moved, drift = gain + loss, gain * -math.expm1(-event.epsilon)
    n, variance = event.count, unmoved * moved + 4 * gain * loss
    linear = 2 * _FAR / 3
    half = math.ceil(linear + math.sqrt(linear**2 + 2 * _FAR * n * variance)) + 1
    every = 1 if unmoved else 2  # net losses of two outcomes are all odd, or all even
    size = 1 << (2 * half // every).bit_length()
    if size * every > _MOST_LOSSES:
        return None
    centre = round(n * drift) if unmoved else 2 * round((n * drift - n % 2) / 2) + n % 2
    angles = np.arange(size // 2 + 1) * (2 * math.pi / size / every)
    tilt = np.square(np.sin(angles / 2))
    # ln of one run's characteristic function 1 + gain (e^(i t) - 1) + loss (e^(-i t) - 1), without cancellation.
    less = np.maximum(-4 * tilt * (variance - 4 * gain * loss * tilt), -1 + 2.0**-53)
    fading = 0.5 * n * np.log1p(less)
    turned, shift = n * np.arctan2(drift * np.sin(angles), 1 - 2 * moved * tilt), angles * centre
    sizes = np.exp(fading)
    masses = np.zeros(size * every)
    masses[::every] = np.fft.fftshift(np.fft.irfft(sizes * np.exp(1j * (shift - turned)), size))
    wrong = np.where(sizes > 0, sizes * (np.abs(np.maximum(fading, -800.0)) + np.abs(turned) + shift + 1), 0.0)
    missing = _TRANSFORMED + 2 * float(wrong.sum()) * _ULPS + 2 * math.exp(-_FAR)
    return NetLosses(centre - size // 2 * every, np.maximum(masses, 0.0), missing)


def top_k_net_losses(event: TopKEvent, negligible: float = 0.0) -> NetLosses:
    """The net losses of `event.count` runs, by repeated squaring. They are exact if `negligible` is 0."""
    gain, zero, loss = top_k_probabilities(event)
    result = NetLosses(0, np.ones(1))
    power = NetLosses(-1, np.array([loss, zero, gain]))
    remaining = event.count
    while remaining:
        if remaining % 2:
            result = result.after(power, negligible)
        remaining //= 2
        if remaining:
            power = power.after(power, negligible)
    return result


#: Margins for sums of positive terms: a factor far above their relative rounding, and a term far above all underflow.
_SUMMED = 1 + 1e-9
_UNDERFLOW = 1e-300
#: Probabilities below this share of delta are cut. Some thousand cut probabilities stay far below the margin `_SUMMED`.
NEGLIGIBLE = 1e-16
_SHORT = 2049  # losses of 1,024 runs, which take less than a millisecond


def top_k_delta(event: TopKEvent, epsilon: float, losses: NetLosses | None = None) -> float:
    """delta at epsilon of `event.count` runs of top-k randomized response, from the distribution of their losses.

    `losses` are the exact ones by default. The result is never below the truth: each loss is rounded up before epsilon
    is subtracted.
    """
    losses = top_k_net_losses(event) if losses is None else losses
    # Only a positive net loss can exceed an epsilon >= 0. All of the missing probability counts as above epsilon.
    first = max(losses.lowest, 1)
    mass = losses.mass[first - losses.lowest :]
    net = np.nextafter(np.arange(first, first + len(mass)) * event.epsilon, np.inf)
    above = net > epsilon
    known = float(np.sum(mass[above] * -np.expm1(epsilon - net[above])))
    return min(1.0, (known + losses.missing) * _SUMMED + _UNDERFLOW)


def top_k_epsilon(event: TopKEvent, delta: float) -> float:
    """Epsilon at delta of `event.count` runs of top-k randomized response: the inverse of `top_k_delta`.

    Of more than `MAX_SQUARED` runs it is larger by about 1e-13 / delta of itself. For a delta near 1e-12, or losses
    that spread too far for a transform (of 3 * 10^10 choices between two), it is the sum of all epsilons, and
    `accounting.epsilon` takes a formula. The closed form between two losses subtracts nearly equal numbers, so its
    result is only a guess. The guess is made larger until `top_k_delta` is at most delta.
    """
    _validate.not_negative(epsilon=event.epsilon)
    most = sum_up([(event.epsilon, event.count)])
    if event.epsilon > 500:  # e^-epsilon nears underflow
        return most
    least = delta
    if event.count <= MAX_SQUARED:
        losses = top_k_net_losses(event, delta * NEGLIGIBLE)
    else:
        many = many_net_losses(event)
        if many is None or many.missing > delta / 100:
            return most
        losses, least = many, delta / _SUMMED - many.missing
    guess = up(_guessed_epsilon(event, losses, least))
    step = max(guess, event.epsilon) * _ROUNDING
    while guess < most and top_k_delta(event, guess, losses) > delta:
        guess, step = guess + step, 2 * step
    return min(guess, most)


def _guessed_epsilon(event: TopKEvent, found: NetLosses, delta: float) -> float:
    """The epsilon at which the sum of mass * (1 - e^(epsilon - l)) over losses l > epsilon is delta, up to rounding."""
    losses = found.mass
    net = np.arange(found.lowest, found.lowest + len(losses)) * event.epsilon
    # On [net_j-1, net_j]: delta(epsilon) = mass_j - e^epsilon * weight_j, both over the losses from net_j on.
    mass = np.cumsum(losses[::-1])[::-1]
    log_weight = np.logaddexp.accumulate((np.log(np.maximum(losses, _UNDERFLOW)) - net)[::-1])[::-1]
    reached = mass[1:] - np.exp(np.minimum(net[:-1] + log_weight[1:], 700.0)) <= delta  # at net_j, from above it
    j = int(np.argmax(reached)) if reached.any() else len(net) - 1
    excess = float(mass[j]) - delta
    if j == 0 or excess <= 0:
        return max(float(net[max(j - 1, 0)]), 0.0)
    return min(max(math.log(excess) - float(log_weight[j]), float(net[j - 1]), 0.0), max(float(net[j]), 0.0))


def renyi_divergence(event: TopKEvent, orders: Floats) -> Floats:
    """Renyi divergences `(n_orders,)` of one run at orders above 1 (derivations, "Top-k randomized response")."""
    if event.epsilon == 0:
        return np.zeros(len(orders))
    gain = top_k_probabilities(event)[0]
    x = (orders - 1) * event.epsilon
    # E e^((a-1) loss) - 1 = gain (e^x - 1) - loss (1 - e^-x). The product form avoids cancellation at small x.
    log_excess = math.log(gain) + x + np.log(-np.expm1(-x)) + np.log(-np.expm1(-(x + event.epsilon)))
    return np.asarray(np.minimum(np.logaddexp(0.0, log_excess) / (orders - 1) * _SUMMED, event.epsilon))


def renyi_epsilon(orders: Floats, divergences: Floats, delta: float) -> float:
    """Epsilon at delta from Renyi divergences at some orders (Canonne, Kamath and Steinke 2020, proposition 12)."""
    _validate.positive(delta=delta)
    found = divergences + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return up(max(float(found.min()), 0.0))
