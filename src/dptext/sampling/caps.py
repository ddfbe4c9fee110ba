"""Caps of the unit sphere: the optimal cap for PrivUnit, and draws inside and outside the cap."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln, gammaln, hyp2f1

from dptext import _validate
from dptext.sampling.discrete import bernoulli_exp_minus, uniform_open
from dptext.sampling.float_noise import ETA, normals
from dptext.sampling.randomness import Randomness
from dptext.types import Booleans, Floats


def _log_cap(log_x: float, dim: int) -> float:
    """ln of the share of the unit sphere in R^dim with first coordinate >= sqrt(1 - x), x = 1 - gamma^2.

    The share is q = I_x((dim - 1) / 2, 1/2) / 2. The hypergeometric series computes shares below the range of floats.
    """
    a = (dim - 1) / 2
    x = math.exp(log_x)
    direct = 0.5 * float(betainc(a, 0.5, x))
    if direct > 1e-290:
        return math.log(direct)
    series = float(hyp2f1(a + 0.5, 1.0, a + 1.0, x))
    return math.log(0.5) + a * log_x + 0.5 * math.log1p(-x) - math.log(a) - float(betaln(a, 0.5)) + math.log(series)


def log1m_exp(value: float) -> float:
    """ln(1 - e^value) for value < 0."""
    return math.log(-math.expm1(value)) if value > -0.6931 else math.log1p(-math.exp(value))


@dataclass(frozen=True, slots=True)
class Cap:
    """The optimal cap of PrivUnit."""

    gamma: float  # threshold of the cosine
    p: float  # probability of the cap
    log_odds: float  # ln(p / (1 - p)), precise for p near 1
    log_q: float  # ln of the cap's share of the sphere
    m: float  # mean cosine; points divided by m are unbiased
    log_x: float  # ln(1 - gamma^2), precise for gamma near 1


@lru_cache(maxsize=256)
def optimal_cap(dim: int, epsilon: float) -> Cap:
    """The cap that maximises m, hence minimises the error 1/m^2 - 1 of the unbiased estimate.

    Source: Bhowmick et al. 2018; Asi, Feldman and Talwar 2022 prove optimality. The computation is in logarithms,
    because q reaches e^-1000. `dim`, the dimension of the sphere's space, is in [2, 4097] (a ball of dimension 4096 is
    lifted by one). `epsilon` is in [0.01, 1000]. Else ConfigError.
    """
    _validate.within(2, 4097, dim=dim)
    _validate.within(0.01, 1000.0, epsilon=epsilon)
    a = (dim - 1) / 2
    log_c = float(gammaln(dim / 2) - gammaln(a)) - 0.5 * math.log(math.pi)
    log_gain = epsilon + log1m_exp(-epsilon)  # ln(e^epsilon - 1)

    def log_m(log_x: float) -> float:
        log_q = _log_cap(log_x, dim)
        denominator = float(np.logaddexp(log1m_exp(log_q), log_q + epsilon))
        return log_c + a * log_x - math.log(dim - 1) + log_gain - denominator

    # log_x ranges from gamma = 0 to a cap far smaller than e^-epsilon.
    lowest = -2 * (epsilon + 20) / (dim - 1) - 2
    starts = -np.geomspace(1e-9, -lowest, 400)
    best = int(np.argmax([log_m(float(start)) for start in starts]))
    left, right = float(starts[min(best + 1, len(starts) - 1)]), float(starts[max(best - 1, 0)])
    exact = {"xatol": 1e-13}
    log_x = float(minimize_scalar(lambda v: -log_m(v), bounds=(left, right), method="bounded", options=exact).x)
    log_q = _log_cap(log_x, dim)
    # p = 1 / (1 + e^-epsilon (1 - q) / q). Epsilon is lowered by 2^-30 to cover the rounding of q and of the odds.
    log_odds = epsilon - 2.0**-30 + log_q - log1m_exp(log_q)
    p = 1 / (1 + math.exp(-log_odds))
    return Cap(math.sqrt(-math.expm1(log_x)), p, log_odds, log_q, min(1.0, math.exp(log_m(log_x))), log_x)


#: The inverse beta function has a larger error than the other steps: PrivUnit's error bound is 2^-44 = POLAR * ETA.
POLAR = 2.0**4


def sphere_grid(cap: Cap, dim: int) -> float:
    """The grid step: 1/64 of a coordinate's typical distance from the cap's centre, or what a slack of 1e-6 needs."""
    spread = math.sqrt(max(math.exp(cap.log_x), 1e-300) / dim)
    return max(spread / 64, min(8 * dim * POLAR * ETA / 1e-6, 1 / (64 * math.sqrt(dim))))


def around(units: Floats, cap: Cap, source: Randomness) -> Floats:
    """Draw a point of the unit sphere for each row: in the cap around the row with probability p, else outside."""
    rows, dim = units.shape
    # 1 - p can be far below 2^-53. A uniform float would then never draw "outside"; an exact draw does.
    inside = ~bernoulli_exp_minus(float(np.logaddexp(0.0, cap.log_odds)), rows, source)
    cosine, sine = angles(uniform_open(rows, source), uniform_open(rows, source), inside, cap, dim)
    free = normals(rows, dim, source)
    free -= (free * units).sum(axis=1, keepdims=True) * units
    free /= np.linalg.norm(free, axis=1, keepdims=True)
    return np.asarray(cosine[:, None] * units + sine[:, None] * free)


def angles(half: Floats, w: Floats, inside: Booleans, cap: Cap, dim: int) -> tuple[Floats, Floats]:
    """Cosine and sine of the angle to the centre, by inverting their distribution inside or outside the cap.

    y = sine^2 is Beta((dim - 1) / 2, 1/2) distributed on either half of the sphere. Outside the cap are the far half,
    where y is unrestricted, and the band between the cap and the equator, where y > x. Each inverse has the tail of its
    distribution at w = 0, where uniform floats are dense.

    The usual method inverts the cosine's distribution at w in [q, 1]. It cannot reach the far pole, because floats
    have a single point in the last 2^-53 below 1. If q < 2^-53, the cap of the opposite vector lies there, so that no
    epsilon would hold.
    """
    a = (dim - 1) / 2
    q = math.exp(cap.log_q)
    far = ~inside & (half < 0.5 / (1 - q))
    share = np.where(inside, 2 * q * w, np.where(far, w, 2 * q + (1 - 2 * q) * w))
    rest = np.where(inside, 1 - 2 * q * w, np.where(far, 1.0, 1 - 2 * q) * (1 - w))
    # y is small near the pole, and 1 - y near the equator. The smaller of the two is inverted, for accuracy.
    near_pole = _beta_quantile(a, 0.5, np.minimum(share, 1.0))
    if cap.log_q <= -600:
        near_pole = np.where(inside, np.exp(_log_polar(np.log(w) + cap.log_q, cap, dim)), near_pole)
    near_equator = _beta_quantile(0.5, a, np.clip(rest, 0.0, 1.0))
    y, cosine_squared = np.where(share < 0.5, (near_pole, 1 - near_pole), (1 - near_equator, near_equator))
    cosine = np.sqrt(cosine_squared)
    return np.where(far, -cosine, cosine), np.sqrt(y)


def _beta_quantile(a: float, b: float, share: Floats) -> Floats:
    """The x with I_x(a, b) = share, as accurate as the forward function.

    scipy's inverse is off by up to 1e-8 of the share for parameters of some thousands, and grossly for a few. So it is
    only the start of Newton steps. Shares that these do not settle are bisected.
    """
    x = np.clip(np.nan_to_num(betaincinv(a, b, share), nan=0.5), 1e-300, 1.0)
    constant = float(betaln(a, b))
    for _ in range(3):
        inner = np.clip(x, 1e-300, 1 - 2.0**-53)
        log_density = (a - 1) * np.log(inner) + (b - 1) * np.log1p(-inner) - constant
        step = (betainc(a, b, x) - share) * np.exp(-np.clip(log_density, -700, 700))
        x = np.where(np.abs(step) < x / 2, np.minimum(x - step, 1.0), x)
    unsettled = np.flatnonzero(np.abs(betainc(a, b, x) - share) > 1e-12 * share)
    if unsettled.size:
        low, high = np.full(unsettled.size, -2000.0), np.zeros(unsettled.size)
        for _ in range(80):
            middle = (low + high) / 2
            below = betainc(a, b, np.exp(middle)) < share[unsettled]
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        x[unsettled] = np.exp(high)
    return np.asarray(x)


def _log_polar(log_share: Floats, cap: Cap, dim: int) -> Floats:
    """The ln y at which the share of the sphere below y is e^log_share, by bisection (for caps below e^-600)."""
    a = (dim - 1) / 2
    constant = math.log(0.5) - math.log(a) - float(betaln(a, 0.5))
    low = np.full_like(log_share, (cap.log_q - 50) / a - 10)
    high = np.full_like(log_share, cap.log_x)
    for _ in range(80):
        middle = (low + high) / 2
        x = np.exp(middle)
        share = constant + a * middle + 0.5 * np.log1p(-x) + np.log(hyp2f1(a + 0.5, 1.0, a + 1.0, x))
        low, high = np.where(share < log_share, middle, low), np.where(share < log_share, high, middle)
    return np.asarray(high)
