"""Published noise with false claims, for audits and for published systems. The event is NoEvent.

The sound counterparts are `grid_noise.GridLaplace` and `float_noise.Gaussian`. `claimed` is the authors' claim, and
`true_epsilon` is the least epsilon that their noise has for any two vectors::

    >>> from dptext_lab.adept.published_noise import PublishedLaplace
    >>> adept = PublishedLaplace(epsilon=5.0, dim=64, clip_norm=1.0)
    >>> adept.claimed.epsilon, round(adept.true_epsilon, 3)
    (5.0, 40.0)

Releases lie on a grid, like those of `dptext.sampling.float_noise`, so that the scale is the only fault of the noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.privacy.curves import gaussian_epsilon
from dptext.privacy.events import ApproximateEvent, NoEvent, PureEvent
from dptext.sampling.clipping import LARGEST_EPSILON, Norm, Vectors, clip, finite, paired, rounded, sensitivity
from dptext.sampling.float_noise import FloatGaussian
from dptext.sampling.grid_noise import coordinate_laplace
from dptext.sampling.randomness import Randomness
from dptext.types import Floats


@dataclass(frozen=True, slots=True)
class PublishedLaplace:
    """ADePT's noise as published: L2 clipping, then independent Laplace noise of scale 2C / epsilon.

    Source: Krishna, Gupta and Dupuy 2021 (EACL). The scale suits an L1 distance of 2C, but L2-clipped vectors are up to
    2C sqrt(dim) apart in L1 (Habernal 2021, EMNLP). So the claim holds in one dimension only.

    Guarantee:
        None. `claimed` is pure epsilon; the noise has `true_epsilon`.
    """

    epsilon: float
    dim: int
    clip_norm: float

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.within(0, LARGEST_EPSILON, epsilon=self.epsilon)
        _validate.count(dim=self.dim)

    @property
    def scale(self) -> float:
        """The Laplace scale b; a coordinate has variance 2 b^2."""
        return 2 * self.clip_norm / self.epsilon

    @property
    def grid(self) -> float:
        """Step of the released coordinates."""
        return self.scale * 2.0**-20

    @property
    def claimed(self) -> PureEvent:
        """The authors' claim about one release."""
        return PureEvent(self.epsilon)

    @property
    def true_epsilon(self) -> float:
        """epsilon * sqrt(dim), attained by (C, ..., C) / sqrt(dim) and its negative; rounding adds about 2^-20 dim."""
        distance = sensitivity(self.clip_norm, dim=self.dim, clipped=Norm.L2, measured=Norm.L1, grid=self.grid)
        return distance / self.scale

    @property
    def events(self) -> tuple[NoEvent]:
        """The events of one release."""
        return (NoEvent("Laplace noise for an L1 distance of 2C, on vectors up to 2C sqrt(dim) apart (Habernal 2021)"),)

    def _on_grid(self, vectors: Vectors) -> Floats:
        return rounded(clip(finite(vectors, self.dim), self.clip_norm), self.grid)

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Noisy vectors `(rows, dim)`."""
        clipped = self._on_grid(vectors)
        return np.asarray(clipped + coordinate_laplace(len(clipped), self.dim, 2 * self.scale**2, source))

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density, `(rows,)`, of each released vector: probability on the grid divided by the volume of a cell."""
        clipped = self._on_grid(vectors)
        away = np.abs(paired(released, clipped) - clipped).sum(axis=1)
        return np.asarray(-away / self.scale - self.dim * math.log(2 * self.scale))


@dataclass(frozen=True, slots=True)
class ClassicalGaussian(FloatGaussian):
    """L2 clipping, then Gaussian noise of sigma = 2C sqrt(2 ln(1.25 / delta)) / epsilon, at any epsilon.

    The formula is proven for epsilon <= 1 (Dwork and Roth 2014, theorem A.1). At delta = 1e-5 it is false for epsilon
    above about 8.4 (derivations, "Classical Gaussian"). Some systems use the formula at epsilon 10 to 500.

    Guarantee:
        None. `claimed` is (epsilon, delta); the noise has `true_epsilon` at delta.
    """

    @property
    def sigma(self) -> float:
        """The standard deviation of a coordinate."""
        return 2 * self.clip_norm * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    @property
    def claimed(self) -> ApproximateEvent:
        """The claim about one release."""
        return ApproximateEvent(self.epsilon, self.delta)

    @property
    def true_epsilon(self) -> float:
        """The least epsilon at delta, by the analytic curve (Balle and Wang 2018), attained by antipodal vectors."""
        return gaussian_epsilon(self.sigma / (2 * self.clip_norm), self.delta)

    @property
    def events(self) -> tuple[NoEvent]:
        """The events of one release."""
        return (NoEvent("Gaussian noise by a formula that is proven for epsilon <= 1 only (Dwork and Roth 2014)"),)


def published_laplace(epsilon: float, delta: float, dim: int, clip_norm: float) -> PublishedLaplace:  # noqa: ARG001
    """ADePT's noise by the name of `dptext audit --noise`. `delta` is ignored."""
    return PublishedLaplace(epsilon, dim, clip_norm)


def classical_gaussian(epsilon: float, delta: float, dim: int, clip_norm: float) -> ClassicalGaussian:
    """The classical Gaussian noise by the name of `dptext audit --noise`."""
    return ClassicalGaussian(epsilon, delta, dim, clip_norm)
