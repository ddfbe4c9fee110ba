"""Noise on vectors: clipping, sensitivities, Laplace and Gaussian on an integer grid, L2-Laplace, PrivUnit.

Vectors are `(rows, dim)` float arrays; each mechanism is a frozen dataclass of public settings with an
`event` and a vectorized `release(vectors, source)`. Neighbours are any two vectors whatever: clipping (or the
sphere) bounds their distance. A vector that is not finite becomes the zero vector, as any other input would.

Two kinds of sampler:

* *On integers* (`GridLaplace`, `GridGaussian`, `Codebook`): exact. Rounding to the grid moves two vectors
  apart by at most one grid step a coordinate, which is counted in the sensitivity.
* *In floats* (`L2Laplace`, `PrivUnit`, `MetricNoise`): the result is rounded to a coarse grid of step h, far
  coarser than the error eta of the float computation. Couple the float sampler with the ideal one by letting
  both read the same uniform reals, of which the floats see the leading bits: coordinates then differ by at
  most eta. The float result can be in a grid cell only if the ideal one is within eta of it, and must be in
  it if the ideal one is inside by more than eta. So for any set of cells S, with P the ideal law,
  P~_x(S) <= P_x(S) + P_x(shell) and P~_x'(S) >= P_x'(S shrunk by eta), which gives
  P~_x(S) <= e^loss * P~_x'(S) + delta with delta = the mass within eta of a cell wall, counted on both
  sides: at most 8 * dim * eta / h. This delta does not grow with epsilon or with distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln, gammaln, hyp2f1

from dptext import _validate, accounting
from dptext.errors import ConfigError
from dptext.guarantee import ApproximateEvent, MetricEvent, PureEvent, TopKEvent, ZcdpEvent
from dptext.randomness import (
    Randomness,
    bernoulli_exp_minus,
    discrete_gaussian,
    discrete_laplace,
    uniform_open,
)
from dptext.selection import TopKRandomizedResponse

Floats = NDArray[np.float64]
Vectors = NDArray[np.float64] | NDArray[np.float32]

#: Float error of one coordinate of a sample, relative to the length of the noise vector (see `_slack`).
_ETA = 2.0**-48
#: The inverse beta function errs more than that: PrivUnit counts with 2^-44 = _POLAR * _ETA.
_POLAR = 2.0**4
_SIGMA_ON_GRID = 1 << 20
#: Rounding x / grid in floats may err by this much more than half a step.
_HALF_STEP = 1 + 2.0**-10


class Norm(StrEnum):
    """How long a vector is: L1 sums absolute coordinates, L2 is Euclidean."""

    L1 = "l1"
    L2 = "l2"


def _finite(vectors: Vectors, dim: int) -> Floats:
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise ConfigError(f"Expected vectors of shape (rows, {dim}), found {vectors.shape}.")
    values = np.asarray(vectors, np.float64)
    usable = np.isfinite(values).all(axis=1, keepdims=True) & (np.abs(values).max(axis=1, keepdims=True) < 1e150)
    return np.where(usable, values, 0.0)


def clip(vectors: Vectors, clip_norm: float, *, norm: Norm = Norm.L2) -> Floats:
    """Each row scaled down to norm `clip_norm` where it is longer; rows that are not finite become zero.

    The result's norm never exceeds `clip_norm`, float rounding included.
    """
    _validate.positive(clip_norm=clip_norm)
    values = _finite(vectors, vectors.shape[-1])
    lengths = np.linalg.norm(values, ord=1 if norm is Norm.L1 else 2, axis=1, keepdims=True)
    room = clip_norm * (1 - values.shape[1] * 2.0**-50)
    return np.asarray(np.where(lengths > room, values * (room / np.maximum(lengths, room)), values))


def sensitivity(clip_norm: float, *, dim: int, clipped: Norm, measured: Norm, grid: float = 0.0) -> float:
    """Largest distance, in the `measured` norm, of two vectors clipped in the `clipped` norm and rounded.

    2C, except 2C * sqrt(dim) for the L1 distance of L2-clipped vectors, which is what ADePT's published
    proof overlooks (Habernal 2021). Rounding to a grid adds one step a coordinate.
    """
    _validate.positive(clip_norm=clip_norm)
    _validate.not_negative(grid=grid)
    _validate.count(dim=dim)
    spread = math.sqrt(dim) if (clipped, measured) == (Norm.L2, Norm.L1) else 1.0
    rounding = grid * _HALF_STEP * (dim if measured is Norm.L1 else math.sqrt(dim))
    return 2 * clip_norm * spread * (1 + 2.0**-40) + rounding


@dataclass(frozen=True, slots=True)
class GridLaplace:
    """Clipping, then independent discrete Laplace noise on each coordinate of a fine grid. Exact.

    Guarantee:
        `event`: pure epsilon for any two vectors; scale = L1 sensitivity / epsilon, rounding included.
    """

    epsilon: float
    dim: int
    clip_norm: float
    clipped: Norm = Norm.L2

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.count(dim=self.dim)

    @property
    def event(self) -> PureEvent:
        """One release."""
        return PureEvent(self.epsilon)

    @property
    def _steps(self) -> int:
        """The noise scale in grid steps: rounding then adds at most a thousandth to the sensitivity."""
        wanted = max(2.0**20, 2.0**11 * self.dim / self.epsilon)
        if wanted > 2.0**39:
            raise ConfigError(f"Expected epsilon={self.epsilon!r} large enough for a grid of 2^39 steps.")
        return 1 << math.ceil(math.log2(wanted))

    @property
    def grid(self) -> float:
        """The grid step g, from g * steps = (sensitivity + rounding * g) / epsilon."""
        bare = sensitivity(self.clip_norm, dim=self.dim, clipped=self.clipped, measured=Norm.L1)
        return bare / (self.epsilon * self._steps - self.dim * _HALF_STEP) * (1 + 2.0**-40)

    @property
    def scale(self) -> float:
        """The Laplace scale b; a coordinate has variance 2 b^2."""
        return self.grid * self._steps

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        steps = np.rint(clip(_finite(vectors, self.dim), self.clip_norm, norm=self.clipped) / self.grid)
        noise = discrete_laplace(self._steps, steps.size, source).reshape(steps.shape)
        return np.asarray((steps.astype(np.int64) + noise) * self.grid)


@dataclass(frozen=True, slots=True)
class GridGaussian:
    """L2 clipping, then discrete Gaussian noise on each coordinate of a fine grid. Exact, accounted as rho-zCDP.

    The continuous curve (accounting of a GaussianEvent) would give a slightly smaller epsilon, but is not
    proven for the discrete sampler: at rho = 2, delta = 1e-5 it is 10.00 against 10.73 here.

    Guarantee:
        `event`: rho-zCDP for any two vectors (Canonne, Kamath and Steinke 2020, theorem 14).
    """

    rho: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(rho=self.rho, clip_norm=self.clip_norm)
        _validate.count(dim=self.dim)
        if _SIGMA_ON_GRID * math.sqrt(2 * self.rho) < 100 * math.sqrt(self.dim):
            raise ConfigError(f"Expected rho={self.rho!r} large enough for a grid of {_SIGMA_ON_GRID} steps.")

    @property
    def event(self) -> ZcdpEvent:
        """One release."""
        return ZcdpEvent(self.rho)

    @property
    def grid(self) -> float:
        """The grid step g, from g * sigma_on_grid = (sensitivity + rounding * g) / sqrt(2 rho)."""
        bare = sensitivity(self.clip_norm, dim=self.dim, clipped=Norm.L2, measured=Norm.L2)
        steps = _SIGMA_ON_GRID * math.sqrt(2 * self.rho) - math.sqrt(self.dim) * _HALF_STEP
        return bare / steps * (1 + 2.0**-40)

    @property
    def sigma(self) -> float:
        """The standard deviation of a coordinate."""
        return self.grid * _SIGMA_ON_GRID

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        steps = np.rint(clip(_finite(vectors, self.dim), self.clip_norm) / self.grid)
        noise = discrete_gaussian(_SIGMA_ON_GRID, steps.size, source).reshape(steps.shape)
        return np.asarray((steps.astype(np.int64) + noise) * self.grid)


# ------------------------------------------------------------------ continuous samplers


def _normals(rows: int, dim: int, source: Randomness) -> Floats:
    """Standard normal rows by Box and Muller."""
    half = (dim + 1) // 2
    radius = np.sqrt(-2 * np.log(uniform_open(rows * half, source))).reshape(rows, half)
    angle = (2 * math.pi * uniform_open(rows * half, source)).reshape(rows, half)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :dim]


def directions(rows: int, dim: int, source: Randomness) -> Floats:
    """Uniform points of the unit sphere, `(rows, dim)`."""
    normals = _normals(rows, dim, source)
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def radial_laplace(rows: int, dim: int, scale: float, source: Randomness) -> Floats:
    """Rows with density proportional to exp(-|z|_2 / scale): a Gamma(dim) radius times a uniform direction."""
    radius = -np.log(uniform_open(rows * dim, source)).reshape(rows, dim).sum(axis=1, keepdims=True)
    return np.asarray(scale * radius * directions(rows, dim, source))


def _slack(dim: int, length: float, grid: float) -> float:
    """The additive slack 8 * dim * eta / h of a float sampler of vectors of this expected length.

    eta = 2^-48 * length: a sum of dim logarithms by pairwise summation errs by at most
    (2 + log2(dim) / 2) * 2^-52 relative, a coordinate of a normalised Box-Muller vector by 2^-50 absolute,
    adding the vector itself by 2^-53 relative; for dim <= 4096 these are below 2^-48 together.
    """
    return min(1.0, 8 * dim * _ETA * length / grid)


def _rounded(values: Floats, grid: float) -> Floats:
    return np.asarray(np.rint(values / grid) * grid)


@dataclass(frozen=True, slots=True)
class L2Laplace:
    """L2 clipping, then noise with density proportional to exp(-epsilon |z|_2 / (2C)) (K-norm mechanism).

    sqrt(2) less root mean square noise than `GridLaplace` after L2 clipping.

    Guarantee:
        `event`: (epsilon, slack); a float sampler (see the module).
    """

    epsilon: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.count(dim=self.dim)
        _validate.within(1, 4096, dim=self.dim)

    @property
    def scale(self) -> float:
        """Mean radius / dim."""
        return sensitivity(self.clip_norm, dim=self.dim, clipped=Norm.L2, measured=Norm.L2) / self.epsilon

    @property
    def grid(self) -> float:
        """Step of the released coordinates: 1/64 of a coordinate's standard deviation."""
        return math.sqrt(self.dim) * self.scale / 64

    @property
    def event(self) -> ApproximateEvent:
        """One release."""
        return ApproximateEvent(self.epsilon, _slack(self.dim, self.dim * self.scale + self.clip_norm, self.grid))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        clipped = clip(_finite(vectors, self.dim), self.clip_norm)
        return _rounded(clipped + radial_laplace(len(clipped), self.dim, self.scale, source), self.grid)


@dataclass(frozen=True, slots=True)
class MetricNoise:
    """Noise with density proportional to exp(-epsilon |z|_2), without clipping (Feyisetan et al. 2020).

    Guarantee:
        `event`: log ratio at most epsilon * |x - x'|_2, plus an additive slack for points of at most
        `largest_norm` (public).
    """

    epsilon: float
    dim: int
    largest_norm: float

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, largest_norm=self.largest_norm)
        _validate.count(dim=self.dim)
        _validate.within(1, 4096, dim=self.dim)

    @property
    def grid(self) -> float:
        """Step of the released coordinates: 1/64 of a coordinate's standard deviation."""
        return math.sqrt(self.dim) / self.epsilon / 64

    def event(self, metric: str) -> MetricEvent:
        """One release, of points whose distance is called `metric`."""
        slack = _slack(self.dim, self.dim / self.epsilon + self.largest_norm, self.grid)
        return MetricEvent(self.epsilon, metric, slack)

    def release(self, points: Vectors, source: Randomness) -> Floats:
        """Noisy points `(rows, dim)`."""
        values = _finite(points, self.dim)
        return _rounded(values + radial_laplace(len(values), self.dim, 1 / self.epsilon, source), self.grid)


# ---------------------------------------------------------------------------- PrivUnit


def _log_cap(log_x: float, dim: int) -> float:
    """ln of the share of the unit sphere in R^dim with first coordinate >= sqrt(1 - x), x = 1 - gamma^2.

    q = I_x((dim - 1) / 2, 1/2) / 2; below the range of floats through the hypergeometric series.
    """
    a = (dim - 1) / 2
    x = math.exp(log_x)
    direct = 0.5 * float(betainc(a, 0.5, x))
    if direct > 1e-290:
        return math.log(direct)
    series = float(hyp2f1(a + 0.5, 1.0, a + 1.0, x))
    return math.log(0.5) + a * log_x + 0.5 * math.log1p(-x) - math.log(a) - float(betaln(a, 0.5)) + math.log(series)


def _log1m_exp(value: float) -> float:
    """ln(1 - e^value) for value < 0."""
    return math.log(-math.expm1(value)) if value > -0.6931 else math.log1p(-math.exp(value))


@dataclass(frozen=True, slots=True)
class Cap:
    """The optimal cap of PrivUnit.

    Attributes:
        gamma: threshold of the cosine.
        p: probability of the cap; log_odds = ln(p / (1 - p)), exact where p is near 1.
        log_q: ln of the cap's share of the sphere.
        m: mean cosine, the length that makes the release unbiased.
        log_x: ln(1 - gamma^2), exact where gamma is near 1.
    """

    gamma: float
    p: float
    log_odds: float
    log_q: float
    m: float
    log_x: float


@lru_cache(maxsize=256)
def optimal_cap(dim: int, epsilon: float) -> Cap:
    """The cap that maximises m, hence minimises the error 1/m^2 - 1 of the unbiased estimate.

    Bhowmick et al. 2018; optimality: Asi, Feldman and Talwar 2022. For dim in [2, 4096] and epsilon in
    [0.01, 1000]; all in logarithms, because q reaches e^-1000.
    """
    _validate.within(2, 4096, dim=dim)
    _validate.within(0.01, 1000.0, epsilon=epsilon)
    a = (dim - 1) / 2
    log_c = float(gammaln(dim / 2) - gammaln(a)) - 0.5 * math.log(math.pi)
    log_gain = epsilon + _log1m_exp(-epsilon)  # ln(e^epsilon - 1)

    def log_m(log_x: float) -> float:
        log_q = _log_cap(log_x, dim)
        denominator = float(np.logaddexp(_log1m_exp(log_q), log_q + epsilon))
        return log_c + a * log_x - math.log(dim - 1) + log_gain - denominator

    # log_x runs from gamma = 0 to where the cap is far smaller than e^-epsilon.
    lowest = -2 * (epsilon + 20) / (dim - 1) - 2
    starts = -np.geomspace(1e-9, -lowest, 400)
    best = int(np.argmax([log_m(float(start)) for start in starts]))
    left, right = float(starts[min(best + 1, len(starts) - 1)]), float(starts[max(best - 1, 0)])
    log_x = float(minimize_scalar(lambda v: -log_m(v), bounds=(left, right), method="bounded", options={"xatol": 1e-13}).x)
    log_q = _log_cap(log_x, dim)
    # p = 1 / (1 + e^-epsilon (1 - q) / q); a billionth is kept back for the rounding of q and of the odds
    log_odds = epsilon - 2.0**-30 + log_q - _log1m_exp(log_q)
    p = 1 / (1 + math.exp(-log_odds))
    return Cap(math.sqrt(-math.expm1(log_x)), p, log_odds, log_q, min(1.0, math.exp(log_m(log_x))), log_x)


@dataclass(frozen=True, slots=True)
class PrivUnit:
    """PrivUnit for unit vectors, and for a ball by lifting to a sphere of one more dimension. Unbiased.

    A point V is drawn uniformly from the cap {v: <v, u> >= gamma} with probability p, else from the rest of
    the sphere; V / m is released (unbiased up to half a grid step). Vectors in a ball of radius C become u = (x/C, +-sqrt(1 - |x/C|^2)) with a
    random sign, and the last coordinate of the result is dropped.

    Guarantee:
        `event`: (epsilon, slack) for any two vectors; a float sampler, whose V is rounded to a grid before it
        is scaled. For a pure guarantee use `Codebook`.
    """

    epsilon: float
    dim: int
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.count(dim=self.dim)
        _ = self.cap

    @property
    def cap(self) -> Cap:
        """The cap on the lifted sphere."""
        return optimal_cap(self.dim + 1, self.epsilon)

    @property
    def grid(self) -> float:
        """Step of the coordinates of V."""
        return _sphere_grid(self.cap, self.dim + 1)

    @property
    def event(self) -> ApproximateEvent:
        """One release."""
        return ApproximateEvent(self.epsilon, _slack(self.dim + 1, _POLAR, self.grid))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy vectors `(rows, dim)` for vectors of L2 norm at most `clip_norm` (longer ones are clipped)."""
        inner = clip(_finite(vectors, self.dim), self.clip_norm) / self.clip_norm
        last = np.sqrt(np.maximum(0.0, 1 - np.square(inner).sum(axis=1)))
        sign = np.where(source.uint64(len(inner)) >> np.uint64(63) == 1, 1.0, -1.0)
        lifted = np.concatenate([inner, (sign * last)[:, None]], axis=1)
        return self.clip_norm * (_rounded(_around(lifted, self.cap, source), self.grid) / self.cap.m)[:, : self.dim]


@dataclass(frozen=True, slots=True)
class PrivUnitSphere:
    """PrivUnit for directions: each vector is normalised first (the zero vector to the first axis).

    Guarantee:
        `event`: (epsilon, slack) for any two vectors; a float sampler.
    """

    epsilon: float
    dim: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _ = self.cap

    @property
    def cap(self) -> Cap:
        """The cap on the sphere."""
        return optimal_cap(self.dim, self.epsilon)

    @property
    def grid(self) -> float:
        """Step of the coordinates of V."""
        return _sphere_grid(self.cap, self.dim)

    @property
    def event(self) -> ApproximateEvent:
        """One release."""
        return ApproximateEvent(self.epsilon, _slack(self.dim, _POLAR, self.grid))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy unit vectors `(rows, dim)`."""
        return np.asarray(_rounded(_around(unit(vectors), self.cap, source), self.grid) / self.cap.m)


def _sphere_grid(cap: Cap, dim: int) -> float:
    """1/64 of a coordinate's typical distance from the centre of the cap, but no finer than a slack of 1e-6 allows."""
    spread = math.sqrt(max(math.exp(cap.log_x), 1e-300) / dim)
    return max(spread / 64, min(8 * dim * _POLAR * _ETA / 1e-6, 1 / (64 * math.sqrt(dim))))


def unit(vectors: Vectors) -> Floats:
    """Rows scaled to length 1; rows that are zero or not finite become the first axis."""
    values = _finite(vectors, vectors.shape[-1])
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    axis = np.zeros(values.shape[1])
    axis[0] = 1.0
    return np.where(lengths > 1e-150, values / np.where(lengths > 1e-150, lengths, 1.0), axis)


def _around(units: Floats, cap: Cap, source: Randomness) -> Floats:
    """Points of the unit sphere: in the cap around each row with probability p, else outside it."""
    rows, dim = units.shape
    # 1 - p = e^-G can be far below 2^-53: it is drawn exactly, or "outside" would never happen.
    inside = ~bernoulli_exp_minus(float(np.logaddexp(0.0, cap.log_odds)), rows, source)
    cosine, sine = _polar(uniform_open(rows, source), uniform_open(rows, source), inside, cap, dim)
    free = _normals(rows, dim, source)
    free -= (free * units).sum(axis=1, keepdims=True) * units
    free /= np.linalg.norm(free, axis=1, keepdims=True)
    return np.asarray(cosine[:, None] * units + sine[:, None] * free)


def _polar(half: Floats, w: Floats, inside: NDArray[np.bool_], cap: Cap, dim: int) -> tuple[Floats, Floats]:
    """Cosine and sine of the angle to the centre, by inverting its distribution inside or outside the cap.

    y = sine^2 is Beta((dim - 1) / 2, 1/2) distributed on either half of the sphere. Outside the cap there are
    the far half, where y is unrestricted, and the band between the cap and the equator, where y > x. Each
    inverts a distribution whose tail is at w = 0, where uniform floats are dense. (Inverting the cosine's
    distribution at w in [q, 1], as usually written, cannot reach the far pole: its last 2^-53 is one point.
    When q < 2^-53 the cap of the opposite vector lies there, and no epsilon holds.)
    """
    a = (dim - 1) / 2
    q = math.exp(cap.log_q)
    share = np.minimum(2 * q * w, 1.0)
    in_y = betaincinv(a, 0.5, share) if cap.log_q > -600 else np.exp(_log_polar(np.log(w) + cap.log_q, cap, dim))
    far = half < 0.5 / (1 - q)
    out_y = betaincinv(a, 0.5, np.where(far, w, np.minimum(2 * q + (1 - 2 * q) * w, 1.0)))
    y = np.where(inside, in_y, out_y)
    cosine = np.sqrt(1 - y)
    return np.where(~inside & far, -cosine, cosine), np.sqrt(y)


def _log_polar(log_share: Floats, cap: Cap, dim: int) -> Floats:
    """ln y with share of the sphere below y equal to e^log_share, by bisection (caps below e^-600)."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """PrivUnit on a public codebook: the k points nearest to the direction, by top-k randomized response. Exact.

    `points` `(size, dim)` are public unit vectors; k = round(q * size) for the optimal cap's share q. Only
    the *set* of the k best depends on the input, and it is ranked by similarity with ties by index, so the
    guarantee is pure whatever floats do (MATHS 2.6).

    Guarantee:
        `event`: exactly epsilon, for any two vectors.
    """

    epsilon: float
    points: Vectors

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        if self.points.ndim != 2 or len(self.points) < 2 or not np.isfinite(self.points).all():
            raise ConfigError(f"Expected finite points of shape (size >= 2, dim), found {self.points.shape}.")

    @staticmethod
    def drawn(epsilon: float, *, dim: int, size: int, source: Randomness) -> Codebook:
        """A codebook of uniform points; they are public, so `source` is usually seeded and published."""
        _validate.count(size=size)
        return Codebook(epsilon, directions(size, dim, source))

    @property
    def choice(self) -> TopKRandomizedResponse:
        """The choice among the points."""
        size, dim = self.points.shape
        share = math.exp(optimal_cap(dim, self.epsilon).log_q)
        return TopKRandomizedResponse(self.epsilon, min(max(1, round(share * size)), size - 1), size)

    @property
    def event(self) -> TopKEvent:
        """One choice."""
        return self.choice.event

    def choose(self, vectors: Vectors, source: Randomness) -> NDArray[np.int64]:
        """Index of one point a row, `(rows,)`."""
        return self.choice.choose(np.asarray(unit(vectors) @ self.points.T), source)


def gaussian_for(epsilon: float, delta: float, *, dim: int, clip_norm: float) -> GridGaussian:
    """The `GridGaussian` that costs at most epsilon at delta, for any two vectors."""
    return GridGaussian(accounting.calibrate(ZcdpEvent(1.0), epsilon, delta=delta).rho, dim, clip_norm)
