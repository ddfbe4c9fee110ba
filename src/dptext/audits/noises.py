"""Vector noises by name, for `dptext audit whitebox --noise`, each a function that makes it.

`cli.audit.trials` looks them up. A noise is a function of epsilon, delta, the dimension and the norm to which vectors
are clipped. The function ignores a delta that its noise does not have.

    >>> laplace(1.0, 0.0, 2, 1.0).dim
    2
"""

from typing import Protocol

from dptext.errors import ConfigError
from dptext.mechanism import VectorNoise
from dptext.sampling.clipping import Norm
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.privunit import PrivUnit, PrivUnitSphere


class MakeNoise(Protocol):
    """A function that makes a vector noise."""

    def __call__(self, epsilon: float, delta: float, dim: int, clip_norm: float, /) -> VectorNoise:
        """Return the noise for vectors of `dim` coordinates and norm at most `clip_norm`. ConfigError: it has none."""


def laplace(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """Laplace noise on a grid for vectors that are clipped in L2. `delta` is ignored."""
    return GridLaplace(epsilon, dim, clip_norm)


def laplace_l1(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """Laplace noise on a grid for vectors that are clipped in L1. `delta` is ignored."""
    return GridLaplace(epsilon, dim, clip_norm, Norm.L1)


def gaussian(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """Gaussian noise. ConfigError: `delta` is 0."""
    if not delta:
        raise ConfigError("Expected a delta above 0 for Gaussian noise: --delta 1e-5, for example.")
    return Gaussian(epsilon, delta, dim, clip_norm)


def l2_laplace(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """Noise whose density falls with the L2 norm. `delta` is ignored."""
    return L2Laplace(epsilon, dim, clip_norm)


def privunit(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """PrivUnit, for vectors of any norm up to `clip_norm`. `delta` is ignored."""
    return PrivUnit(epsilon, dim, clip_norm)


def privunit_sphere(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """PrivUnit, for unit vectors. `delta` is ignored. ConfigError: `clip_norm` is not 1."""
    if clip_norm != 1:
        raise ConfigError(f"Expected clip_norm=1 with privunit_sphere, for vectors of length 1; found {clip_norm:g}.")
    return PrivUnitSphere(epsilon, dim)
