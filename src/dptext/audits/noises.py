"""Vector noises by name, for `dptext audit whitebox --noise`: those of the library, and those of installed packages.

A package brings a noise by an entry point of `dptext.noises`: a function of epsilon, delta, the dimension and the norm
to which vectors are clipped. A function ignores what its noise does not have.

    >>> NOISES["laplace"](1.0, 0.0, 2, 1.0).dim
    2
"""

from typing import Final, Protocol

from dptext.doors import Door
from dptext.mechanism import VectorNoise
from dptext.sampling.clipping import Norm
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.privunit import PrivUnit, PrivUnitSphere


class Noise(Protocol):
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
    """Gaussian noise."""
    return Gaussian(epsilon, delta, dim, clip_norm)


def l2_laplace(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """Noise whose density falls with the L2 norm. `delta` is ignored."""
    return L2Laplace(epsilon, dim, clip_norm)


def privunit(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """PrivUnit, for vectors of any norm up to `clip_norm`. `delta` is ignored."""
    return PrivUnit(epsilon, dim, clip_norm)


def privunit_sphere(epsilon: float, delta: float, dim: int, clip_norm: float) -> VectorNoise:
    """PrivUnit, for unit vectors. `delta` and `clip_norm` are ignored."""
    return PrivUnitSphere(epsilon, dim)


NOISES: Final[Door[Noise]] = Door(
    "dptext.noises",
    {
        each.__name__: f"{__name__}:{each.__name__}"
        for each in (laplace, laplace_l1, gaussian, l2_laplace, privunit, privunit_sphere)
    },
    what="noise",
)
