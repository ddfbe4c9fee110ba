"""Laplace and Gaussian noise drawn in floats, and the additive slack that this costs.

Each mechanism here and in `grid_noise` is a frozen dataclass of public settings with `events`, a vectorized
`release(vectors, source)` and a `log_density(released, vectors)` for white-box audits: one number per row, of the
released row given the vector in the same row. Any two vectors are neighbours: clipping (or the sphere) bounds their
distance.

Results are rounded to a grid of step h, far coarser than the error eta of the float computation (in `privunit`, too).
Couple the float sampler with the ideal sampler: both read the same uniform reals, of which floats see the leading bits.
Then coordinates differ by at most eta. The float result can be in a set S of grid cells only if the ideal result is
within eta of S, and it must be in S if the ideal result is inside by more than eta. So P~_x(S) <= e^loss * P~_x'(S) +
delta, where delta is the ideal mass within eta of a cell wall, counted on both sides: at most 8 * dim * eta / h, for
any epsilon and distance (docs/decisions/0004). Log densities are those before rounding. The mean over a cell (h is 1/64
of a coordinate's standard deviation) differs from the middle by h^2/24 of second derivatives, which changes the
difference of two log densities by 2e-5 of itself.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.curves import gaussian_delta
from dptext.privacy.events import ApproximateEvent, GaussianEvent, MetricEvent
from dptext.sampling.clipping import LARGEST_EPSILON, Norm, Vectors, clip, finite, paired, rounded, sensitivity
from dptext.sampling.discrete import uniform_open
from dptext.sampling.randomness import Randomness
from dptext.types import Floats


@dataclass(frozen=True, slots=True)
class L2Laplace:
    """L2 clipping, then noise with density proportional to exp(-epsilon |z|_2 / (2C)) (K-norm mechanism).

    The root mean square noise is smaller than that of `GridLaplace` after L2 clipping, by a factor of sqrt(2).

    Guarantee:
        `events`: (epsilon, slack), because the sampler draws in floats (see the module).
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
        """The events of one release."""
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
class FloatGaussian:
    """L2 clipping, then Gaussian noise drawn in floats and rounded to a grid. Subclasses define sigma."""

    epsilon: float
    delta: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, delta=self.delta, clip_norm=self.clip_norm)
        _validate.within(0, LARGEST_EPSILON, epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        _validate.count(dim=self.dim)

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The standard deviation of a coordinate."""

    @property
    def grid(self) -> float:
        """Step of the released coordinates: 1/64 of a coordinate's standard deviation."""
        return self.sigma / 64

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        clipped = clip(finite(vectors, self.dim), self.clip_norm)
        return rounded(clipped + self.sigma * normals(len(clipped), self.dim, source), self.grid)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density of each released vector, `(rows,)`, before rounding."""
        clipped = clip(finite(vectors, self.dim), self.clip_norm)
        return gaussian_log_density(paired(released, clipped) - clipped, self.sigma)


@dataclass(frozen=True, slots=True)
class Gaussian(FloatGaussian):
    """L2 clipping, then continuous Gaussian noise with the least sigma for (epsilon, delta) (Balle and Wang 2018).

    The noise is smaller than that of `GridGaussian` at the same (epsilon, delta).

    Guarantee:
        `events`: Gaussian noise and the additive slack of a float sampler (1e-9 at 64 dimensions), so that many
        releases compose as Gaussians do. Both events together are (epsilon, delta): sigma comes from the analytic curve
        at delta - slack (derivations, "Analytic Gaussian"). ConfigError: delta is at most the slack.
    """

    def __post_init__(self) -> None:
        FloatGaussian.__post_init__(self)
        _validate.within(1, 4096, dim=self.dim)
        _ = self.sigma

    @property
    def _distance(self) -> float:
        return sensitivity(self.clip_norm, dim=self.dim, clipped=Norm.L2, measured=Norm.L2)

    @property
    def _slack(self) -> float:
        # The slack shrinks as sigma grows, so the slack at too small a sigma bounds the final slack. A Box-Muller pair
        # errs by some 2^-49 of its own radius, which is at most the length of the whole noise vector.
        least = self._distance * analytic_multiplier(self.epsilon, self.delta)
        return slack(self.dim, math.sqrt(self.dim) * least + self.clip_norm, least / 64)

    @property
    def noise_multiplier(self) -> float:
        """sigma / sensitivity: the least multiplier at which `events` cost at most epsilon at delta."""
        sure = self._slack
        if self.delta <= sure:
            raise ConfigError(f"Expected delta={self.delta!r} > {sure:.3g}, a float sampler's slack: see GridGaussian.")
        # Accounting rounds the epsilon of the curve up by 2^-44.
        return analytic_multiplier(self.epsilon * (1 - 2.0**-42), self.delta - sure)

    @property
    def sigma(self) -> float:
        """The standard deviation of a coordinate."""
        return self._distance * self.noise_multiplier

    @property
    def events(self) -> tuple[GaussianEvent, ApproximateEvent]:
        """The events of one release: the noise, and the slack of its sampler."""
        return GaussianEvent(self.noise_multiplier), ApproximateEvent(0.0, self._slack)


@lru_cache(maxsize=256)
def analytic_multiplier(epsilon: float, delta: float) -> float:
    """The least sigma / sensitivity of continuous Gaussian noise for (epsilon, delta), rounded up.

    Source: Balle and Wang 2018, theorem 8 and algorithm 1, by bisection of `dptext.privacy.curves.gaussian_delta`.
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
        `event`: log ratio at most epsilon * |x - x'|_2, plus an additive slack, for points of norm at most
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
        """The event of one release of points whose distance is called `metric`."""
        length = self.dim / self.epsilon + self.largest_norm
        return MetricEvent(self.epsilon, metric, slack(self.dim, length, self.grid))

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


#: Float error of one coordinate of a sample, relative to the length of the noise vector (see `slack`).
ETA = 2.0**-48


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

    eta = 2^-48 * length covers three errors. A sum of dim logarithms by pairwise summation errs by at most
    (2 + log2(dim) / 2) * 2^-52 relative, a coordinate of a normalised Box-Muller vector by 2^-50 absolute, and the
    addition of the vector by 2^-53 relative. For dim <= 4096 their sum is below 2^-48.
    """
    return min(1.0, 8 * dim * ETA * length / grid)
