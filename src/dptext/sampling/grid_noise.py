"""Exact Laplace and Gaussian noise on an integer grid. Mechanisms have the interface of `float_noise`.

Rounding to the grid moves two vectors apart by at most one grid step per coordinate. The sensitivity includes that.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import PureEvent, ZcdpEvent
from dptext.sampling.clipping import HALF_STEP, LARGEST_EPSILON, Norm, Vectors, clip, finite, paired, sensitivity
from dptext.sampling.discrete import discrete_gaussian, discrete_laplace
from dptext.sampling.float_noise import gaussian_log_density
from dptext.sampling.randomness import Randomness
from dptext.types import Floats

_SIGMA_ON_GRID = 1 << 20


@dataclass(frozen=True, slots=True)
class GridLaplace:
    """Clipping, then independent discrete Laplace noise on each coordinate of a fine grid. Exact.

    Guarantee:
        `events`: pure epsilon for any two vectors. The scale is L1 sensitivity / epsilon, rounding included.
    """

    epsilon: float
    dim: int
    clip_norm: float
    clipped: Norm = Norm.L2

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.within(0, LARGEST_EPSILON, epsilon=self.epsilon)
        _validate.count(dim=self.dim)

    @property
    def events(self) -> tuple[PureEvent]:
        """The events of one release."""
        return (PureEvent(self.epsilon),)

    @property
    def _steps(self) -> int:
        """The noise scale in grid steps, so large that rounding adds at most a thousandth to the sensitivity."""
        wanted = max(2.0**20, 2.0**11 * self.dim / self.epsilon)
        if wanted > 2.0**39:
            raise ConfigError(f"Expected epsilon={self.epsilon!r} large enough for a grid of 2^39 steps.")
        return 1 << math.ceil(math.log2(wanted))

    @property
    def grid(self) -> float:
        """The grid step g, from g * steps = (sensitivity + rounding * g) / epsilon."""
        bare = sensitivity(self.clip_norm, dim=self.dim, clipped=self.clipped, measured=Norm.L1)
        return bare / (self.epsilon * self._steps - self.dim * HALF_STEP) * (1 + 2.0**-40)

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
        """Log probability, `(rows,)`, of each released point of the grid. Points between have the same formula."""
        steps = self._on_grid(vectors)
        away = np.abs(paired(released, steps) / self.grid - steps).sum(axis=1)
        # the weights e^(-|k| / steps) of all integers k add up to coth(1 / (2 steps))
        return np.asarray(self.dim * math.log(math.tanh(0.5 / self._steps)) - away / self._steps)


@dataclass(frozen=True, slots=True)
class GridGaussian:
    """L2 clipping, then discrete Gaussian noise on each coordinate of a fine grid. Exact, accounted as rho-zCDP.

    The continuous curve (accounting of a GaussianEvent) would give a slightly smaller epsilon (10.00 against 10.73 at
    rho = 2 and delta = 1e-5), but is not proven for the discrete sampler.

    Guarantee:
        `events`: rho-zCDP for any two vectors (Canonne, Kamath and Steinke 2020, theorem 14).
    """

    rho: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(rho=self.rho, clip_norm=self.clip_norm)
        _validate.within(0, LARGEST_EPSILON**2, rho=self.rho)
        _validate.count(dim=self.dim)
        if _SIGMA_ON_GRID * math.sqrt(2 * self.rho) < 100 * math.sqrt(self.dim):
            raise ConfigError(f"Expected rho={self.rho!r} large enough for a grid of {_SIGMA_ON_GRID} steps.")

    @property
    def events(self) -> tuple[ZcdpEvent]:
        """The events of one release."""
        return (ZcdpEvent(self.rho),)

    @property
    def grid(self) -> float:
        """The grid step g, from g * sigma_on_grid = (sensitivity + rounding * g) / sqrt(2 rho)."""
        bare = sensitivity(self.clip_norm, dim=self.dim, clipped=Norm.L2, measured=Norm.L2)
        steps = _SIGMA_ON_GRID * math.sqrt(2 * self.rho) - math.sqrt(self.dim) * HALF_STEP
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
        """Log probability, `(rows,)`, of each released point of the grid. Points between have the same formula."""
        steps = self._on_grid(vectors)
        # At this number of steps, the sum over the integers equals the integral to far below float precision.
        return gaussian_log_density(paired(released, steps) / self.grid - steps, _SIGMA_ON_GRID)


def coordinate_laplace(rows: int, dim: int, variance: float, source: Randomness) -> Floats:
    """Independent Laplace noise of this variance on each coordinate, drawn on a grid of step 2^-20 * scale."""
    _validate.positive(variance=variance)
    step = math.sqrt(variance / 2) * 2.0**-20
    return np.asarray(discrete_laplace(1 << 20, rows * dim, source).reshape(rows, dim) * step, np.float64)
