"""Noise on vectors: clipping, sensitivities, Laplace and Gaussian noise, on an integer grid or in floats.

Vectors are `(rows, dim)` float arrays; each mechanism is a frozen dataclass of public settings with
`events`, a vectorized `release(vectors, source)` and a `log_density(released, vectors)` for white-box audits: one
number a row, of the released row given the vector in the same row. Neighbours are any two vectors whatever: clipping
(or the sphere) bounds their distance. A vector that is not finite becomes the zero vector, as any other input would.

Two kinds of sampler:

* *On integers* (`GridLaplace`, `GridGaussian`): exact. Rounding to the grid moves two vectors
  apart by at most one grid step a coordinate, which is counted in the sensitivity.
* *In floats* (`L2Laplace`, `Gaussian`, `MetricNoise`, and `PrivUnit` beside it): the result is rounded to
  a grid of step h, far coarser than the error eta of the float computation. Couple the float sampler with the ideal
  one by letting both read the same uniform reals, of which the floats see the leading bits: coordinates then differ
  by at most eta. The float result can be in a set S of grid cells only if the ideal one is within eta of S, and it
  must be in S if the ideal one is inside by more than eta. So P~_x(S) <= e^loss * P~_x'(S) + delta, where delta is
  the ideal mass within eta of a cell wall, counted on both sides: at most 8 * dim * eta / h. This delta does not
  grow with epsilon or with distance (docs/decisions/0004). The densities of `L2Laplace`, `Gaussian` and `MetricNoise`
  are those before rounding; the mean over a cell (h is 1/64 of a coordinate's standard deviation) differs from the
  middle by h^2/24 of second derivatives, which changes the difference of two log densities by 2e-5 of itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.curves import gaussian_delta
from dptext.privacy.events import ApproximateEvent, GaussianEvent, MetricEvent, PureEvent, ZcdpEvent
from dptext.sampling.discrete import discrete_gaussian, discrete_laplace, uniform_open
from dptext.sampling.randomness import Randomness
from dptext.types import Floats, Singles

Vectors = Floats | Singles

#: Float error of one coordinate of a sample, relative to the length of the noise vector (see `slack`).
ETA = 2.0**-48
_SIGMA_ON_GRID = 1 << 20
#: Rounding x / grid in floats may err by this much more than half a step.
_HALF_STEP = 1 + 2.0**-10
#: Beyond this, x / grid has more digits than floats keep.
_LARGEST_EPSILON = 1e6


class Norm(StrEnum):
    """How long a vector is: L1 sums absolute coordinates, L2 is Euclidean."""

    L1 = "l1"
    L2 = "l2"


def finite(vectors: Vectors, dim: int) -> Floats:
    """The vectors `(rows, dim)` in float64; rows that are not finite, or absurdly long, become zero."""
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise ConfigError(f"Expected vectors of shape (rows, {dim}), found {vectors.shape}.")
    values = np.asarray(vectors, np.float64)
    usable = np.isfinite(values).all(axis=1, keepdims=True) & (np.abs(values).max(axis=1, keepdims=True) < 1e150)
    return np.where(usable, values, 0.0)


def clip(vectors: Vectors, clip_norm: float, *, norm: Norm = Norm.L2) -> Floats:
    """Each row scaled down to norm `clip_norm` where it is longer; rows that are not finite become zero.

    The result's norm never exceeds `clip_norm`, float rounding included.
    """
    _validate.within(1e-100, 1e100, clip_norm=clip_norm)
    values = finite(vectors, vectors.shape[-1])
    with np.errstate(over="ignore"):  # an infinite length clips to zero
        # In units of clip_norm: squares of lengths that matter then neither over- nor underflow.
        lengths = clip_norm * np.linalg.norm(values / clip_norm, ord=1 if norm is Norm.L1 else 2, axis=1, keepdims=True)
    room = clip_norm * (1 - values.shape[1] * 2.0**-50)
    return np.asarray(np.where(lengths > room, values * (room / np.maximum(lengths, room)), values))


def paired(released: Floats, vectors: Vectors) -> Floats:
    """The released vectors in float64, one for each of the vectors; ConfigError where the shapes differ."""
    if released.shape != vectors.shape:
        raise ConfigError(f"Expected released vectors of shape {vectors.shape}, found {released.shape}.")
    return np.asarray(released, np.float64)


def sensitivity(clip_norm: float, *, dim: int, clipped: Norm, measured: Norm, grid: float = 0.0) -> float:
    """Largest distance, in the `measured` norm, of two vectors clipped in the `clipped` norm and rounded.

    2C, except 2C * sqrt(dim) for the L1 distance of L2-clipped vectors, which is what ADePT's published
    proof overlooks (Habernal 2021). Rounding to a grid adds one step a coordinate.
    """
    _validate.within(1e-100, 1e100, clip_norm=clip_norm)
    _validate.not_negative(grid=grid)
    _validate.count(dim=dim)
    spread = math.sqrt(dim) if (clipped, measured) == (Norm.L2, Norm.L1) else 1.0
    rounding = grid * _HALF_STEP * (dim if measured is Norm.L1 else math.sqrt(dim))
    return 2 * clip_norm * spread * (1 + 2.0**-40) + rounding


@dataclass(frozen=True, slots=True)
class GridLaplace:
    """Clipping, then independent discrete Laplace noise on each coordinate of a fine grid. Exact.

    Guarantee:
        `events`: pure epsilon for any two vectors; scale = L1 sensitivity / epsilon, rounding included.
    """

    epsilon: float
    dim: int
    clip_norm: float
    clipped: Norm = Norm.L2

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.within(0, _LARGEST_EPSILON, epsilon=self.epsilon)
        _validate.count(dim=self.dim)

    @property
    def events(self) -> tuple[PureEvent]:
        """One release."""
        return (PureEvent(self.epsilon),)

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

    def _on_grid(self, vectors: Vectors) -> Floats:
        return np.asarray(np.rint(clip(finite(vectors, self.dim), self.clip_norm, norm=self.clipped) / self.grid))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        steps = self._on_grid(vectors)
        noise = discrete_laplace(self._steps, steps.size, source).reshape(steps.shape)
        return np.asarray((steps.astype(np.int64) + noise) * self.grid)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log probability of each released point of the grid, `(rows,)`; the same formula between its points."""
        steps = self._on_grid(vectors)
        away = np.abs(paired(released, steps) / self.grid - steps).sum(axis=1)
        # the weights e^(-|k| / steps) of all integers k add up to coth(1 / (2 steps))
        return np.asarray(self.dim * math.log(math.tanh(0.5 / self._steps)) - away / self._steps)


@dataclass(frozen=True, slots=True)
class GridGaussian:
    """L2 clipping, then discrete Gaussian noise on each coordinate of a fine grid. Exact, accounted as rho-zCDP.

    The continuous curve (accounting of a GaussianEvent) would give a slightly smaller epsilon, but is not
    proven for the discrete sampler: at rho = 2, delta = 1e-5 it is 10.00 against 10.73 here.

    Guarantee:
        `events`: rho-zCDP for any two vectors (Canonne, Kamath and Steinke 2020, theorem 14).
    """

    rho: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(rho=self.rho, clip_norm=self.clip_norm)
        _validate.within(0, _LARGEST_EPSILON**2, rho=self.rho)
        _validate.count(dim=self.dim)
        if _SIGMA_ON_GRID * math.sqrt(2 * self.rho) < 100 * math.sqrt(self.dim):
            raise ConfigError(f"Expected rho={self.rho!r} large enough for a grid of {_SIGMA_ON_GRID} steps.")

    @property
    def events(self) -> tuple[ZcdpEvent]:
        """One release."""
        return (ZcdpEvent(self.rho),)

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

    def _on_grid(self, vectors: Vectors) -> Floats:
        return np.asarray(np.rint(clip(finite(vectors, self.dim), self.clip_norm) / self.grid))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        steps = self._on_grid(vectors)
        noise = discrete_gaussian(_SIGMA_ON_GRID, steps.size, source).reshape(steps.shape)
        return np.asarray((steps.astype(np.int64) + noise) * self.grid)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log probability of each released point of the grid, `(rows,)`; the same formula between its points."""
        steps = self._on_grid(vectors)
        # with so many steps the sum over the integers is the integral to far below float precision
        return gaussian_log_density(paired(released, steps) / self.grid - steps, _SIGMA_ON_GRID)


def unit(vectors: Vectors) -> Floats:
    """Rows scaled to length 1; rows that are zero or not finite become the first axis."""
    values = finite(vectors, vectors.shape[-1])
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    axis = np.zeros(values.shape[1])
    axis[0] = 1.0
    return np.where(lengths > 1e-150, values / np.where(lengths > 1e-150, lengths, 1.0), axis)


# ------------------------------------------------------------------ continuous samplers


def normals(rows: int, dim: int, source: Randomness) -> Floats:
    """Standard normal rows by Box and Muller."""
    half = (dim + 1) // 2
    radius = np.sqrt(-2 * np.log(uniform_open(rows * half, source))).reshape(rows, half)
    angle = (2 * math.pi * uniform_open(rows * half, source)).reshape(rows, half)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :dim]


def directions(rows: int, dim: int, source: Randomness) -> Floats:
    """Uniform points of the unit sphere, `(rows, dim)`."""
    free = normals(rows, dim, source)
    return np.asarray(free / np.linalg.norm(free, axis=1, keepdims=True))


def radial_laplace(rows: int, dim: int, scale: float, source: Randomness) -> Floats:
    """Rows with density proportional to exp(-|z|_2 / scale): a Gamma(dim) radius times a uniform direction."""
    radius = -np.log(uniform_open(rows * dim, source)).reshape(rows, dim).sum(axis=1, keepdims=True)
    return np.asarray(scale * radius * directions(rows, dim, source))


def radial_log_density(noise: Floats, scale: float) -> Floats:
    """Log density `(rows,)` of rows drawn by `radial_laplace`."""
    n = noise.shape[1]
    # e^(-|z| / b) integrates to b^n Gamma(n) times the area 2 pi^(n/2) / Gamma(n/2) of the sphere
    log_area = math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2)
    return np.asarray(-np.linalg.norm(noise, axis=1) / scale - n * math.log(scale) - math.lgamma(n) - log_area)


def gaussian_log_density(noise: Floats, sigma: float) -> Floats:
    """Log density `(rows,)` of rows of independent normal coordinates."""
    constant = noise.shape[1] * math.log(sigma * math.sqrt(2 * math.pi))
    return np.asarray(-0.5 * np.square(noise / sigma).sum(axis=1) - constant)


def slack(dim: int, length: float, grid: float) -> float:
    """The additive slack 8 * dim * eta / h of a float sampler of vectors of this expected length.

    eta = 2^-48 * length: a sum of dim logarithms by pairwise summation errs by at most
    (2 + log2(dim) / 2) * 2^-52 relative, a coordinate of a normalised Box-Muller vector by 2^-50 absolute,
    adding the vector itself by 2^-53 relative; for dim <= 4096 these are below 2^-48 together.
    """
    return min(1.0, 8 * dim * ETA * length / grid)


def rounded(values: Floats, grid: float) -> Floats:
    """The values rounded to multiples of the grid step."""
    return np.asarray(np.rint(values / grid) * grid)


@dataclass(frozen=True, slots=True)
class L2Laplace:
    """L2 clipping, then noise with density proportional to exp(-epsilon |z|_2 / (2C)) (K-norm mechanism).

    sqrt(2) less root mean square noise than `GridLaplace` after L2 clipping.

    Guarantee:
        `events`: (epsilon, slack); a float sampler (see the module).
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
    def events(self) -> tuple[ApproximateEvent]:
        """One release."""
        return (ApproximateEvent(self.epsilon, slack(self.dim, self.dim * self.scale + self.clip_norm, self.grid)),)

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        clipped = clip(finite(vectors, self.dim), self.clip_norm)
        return rounded(clipped + radial_laplace(len(clipped), self.dim, self.scale, source), self.grid)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density of each released vector, `(rows,)`, before rounding."""
        clipped = clip(finite(vectors, self.dim), self.clip_norm)
        return radial_log_density(paired(released, clipped) - clipped, self.scale)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """L2 clipping, then continuous Gaussian noise with the least sigma for (epsilon, delta) (Balle and Wang 2018).

    Less noise than `GridGaussian` at the same (epsilon, delta).

    Guarantee:
        `events`: Gaussian noise and the additive slack of a float sampler (1e-9 at 64 dimensions), so that many
        releases compose as Gaussians do. Together they are (epsilon, delta): sigma comes from the analytic curve at
        delta - slack (MATHS 2.2). A smaller delta raises ConfigError.
    """

    epsilon: float
    delta: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, delta=self.delta, clip_norm=self.clip_norm)
        _validate.within(0, _LARGEST_EPSILON, epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        _validate.count(dim=self.dim)
        _validate.within(1, 4096, dim=self.dim)
        _ = self.sigma

    @property
    def _distance(self) -> float:
        return sensitivity(self.clip_norm, dim=self.dim, clipped=Norm.L2, measured=Norm.L2)

    @property
    def _slack(self) -> float:
        # The slack shrinks as sigma grows, so the one at too small a sigma is a bound for the final one. A Box-Muller
        # pair errs by some 2^-49 of its own radius, which is at most the length of the whole noise vector.
        least = self._distance * analytic_multiplier(self.epsilon, self.delta)
        return slack(self.dim, math.sqrt(self.dim) * least + self.clip_norm, least / 64)

    @property
    def noise_multiplier(self) -> float:
        """sigma / sensitivity: the least at which `events` cost at most epsilon at delta."""
        sure = self._slack
        if self.delta <= sure:
            raise ConfigError(f"Expected delta={self.delta!r} > {sure:.3g}, a float sampler's slack: see GridGaussian.")
        # Accounting rounds what it reads off the curve up by 2^-44.
        return analytic_multiplier(self.epsilon * (1 - 2.0**-42), self.delta - sure)

    @property
    def sigma(self) -> float:
        """The standard deviation of a coordinate."""
        return self._distance * self.noise_multiplier

    @property
    def grid(self) -> float:
        """Step of the released coordinates: 1/64 of a coordinate's standard deviation."""
        return self.sigma / 64

    @property
    def events(self) -> tuple[GaussianEvent, ApproximateEvent]:
        """One release: the noise, and the slack of its sampler."""
        return GaussianEvent(self.noise_multiplier), ApproximateEvent(0.0, self._slack)

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        clipped = clip(finite(vectors, self.dim), self.clip_norm)
        return rounded(clipped + self.sigma * normals(len(clipped), self.dim, source), self.grid)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density of each released vector, `(rows,)`, before rounding."""
        clipped = clip(finite(vectors, self.dim), self.clip_norm)
        return gaussian_log_density(paired(released, clipped) - clipped, self.sigma)


@lru_cache(maxsize=256)
def analytic_multiplier(epsilon: float, delta: float) -> float:
    """The least sigma / sensitivity of continuous Gaussian noise for (epsilon, delta), rounded up.

    Balle and Wang 2018, theorem 8 and algorithm 1; by bisection of `dptext.privacy.curves.gaussian_delta`.
    """
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) > delta:
        low, high = high, 2 * high
    while high - low > 2.0**-45 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, epsilon) <= delta else (middle, high)
    return high


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
        return MetricEvent(
            self.epsilon, metric, slack(self.dim, self.dim / self.epsilon + self.largest_norm, self.grid)
        )

    def draw(self, rows: int, source: Randomness) -> Floats:
        """Noise vectors `(rows, dim)`, to be added with `add`."""
        return radial_laplace(rows, self.dim, 1 / self.epsilon, source)

    def add(self, points: Vectors, noise: Floats) -> Floats:
        """Points plus noise, rounded to the grid, `(rows, dim)`."""
        return rounded(finite(points, self.dim) + noise, self.grid)

    def release(self, points: Vectors, source: Randomness) -> Floats:
        """Noisy points `(rows, dim)`: `draw`, then `add`."""
        return self.add(points, self.draw(len(points), source))

    def log_density(self, released: Floats, points: Vectors) -> Floats:
        """Log density of each released point, `(rows,)`, before rounding."""
        centres = finite(points, self.dim)
        return radial_log_density(paired(released, centres) - centres, 1 / self.epsilon)


def coordinate_laplace(rows: int, dim: int, variance: float, source: Randomness) -> Floats:
    """Independent Laplace noise of this variance on each coordinate, drawn on a grid of 2^-20 of its scale."""
    _validate.positive(variance=variance)
    step = math.sqrt(variance / 2) * 2.0**-20
    return np.asarray(discrete_laplace(1 << 20, rows * dim, source).reshape(rows, dim) * step, np.float64)
