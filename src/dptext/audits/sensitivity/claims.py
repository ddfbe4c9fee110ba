"""Sensitivity claims put to trial by formula.

ADePT (Krishna et al. 2021) clips a latent vector to L2 norm C and adds Laplace noise for an L1 sensitivity
of 2C; the true one is 2C * sqrt(n) (Habernal 2021, theorem 5.1)::

    >>> from dptext.audits.sensitivity.claims import Claim, counterexample
    >>> claim = Claim(dim=256)
    >>> round(claim.factor, 6), round(claim.true_epsilon(5.0), 6), claim.refuted
    (16.0, 80.0, True)
    >>> round(counterexample().privacy_loss(1.0), 6)  # two dimensions suffice
    1.333333

The formula says what the worst pair of vectors costs. `simulation` says how ordinary such pairs are, `latents` counts
them among given vectors.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.privacy.curves import up
from dptext.sampling.clipping import Norm, Vectors, clip, finite
from dptext.sampling.noise import sensitivity
from dptext.types import Floats

# `noise.sensitivity` rounds up by 2^-40: a claim of exactly the sensitivity is not to be refuted for that.
_ROUNDING = 2.0**-39


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim that two clipped vectors are never further apart than `multiple` * C. The default is ADePT's.

    Attributes:
        dim: coordinates of a vector, n.
        clip_norm: C.
        clipped: the norm in which vectors are clipped to C; None where they are not clipped.
        measured: the norm in which their distance is measured: L1 for Laplace noise on each coordinate, L2 for
            Gaussian and L2-Laplace noise.
        multiple: the claimed sensitivity in units of C.
    """

    dim: int
    clip_norm: float = 1.0
    clipped: Norm | None = Norm.L2
    measured: Norm = Norm.L1
    multiple: float = 2.0

    def __post_init__(self) -> None:
        _validate.count(dim=self.dim)
        _validate.positive(clip_norm=self.clip_norm, multiple=self.multiple)
        _validate.within(1e-100, 1e100, clip_norm=self.clip_norm, multiple=self.multiple)

    def __str__(self) -> str:
        vectors = "vectors that are not clipped" if self.clipped is None else f"{self.clipped.upper()}-clipped vectors"
        return f"no two {vectors} are more than {self.multiple:g}C apart in {self.measured.upper()} norm"

    @property
    def claimed(self) -> float:
        """The claimed sensitivity."""
        return self.multiple * self.clip_norm

    @property
    def sensitivity(self) -> float:
        """The largest distance of two clipped vectors, rounded up; infinite without clipping."""
        if self.clipped is None:
            return math.inf
        return sensitivity(self.clip_norm, dim=self.dim, clipped=self.clipped, measured=self.measured)

    @property
    def factor(self) -> float:
        """True sensitivity / claimed sensitivity, rounded up."""
        return self.sensitivity / self.claimed

    @property
    def refuted(self) -> bool:
        """Whether the true sensitivity exceeds the claimed one, by more than rounding."""
        return self.factor > 1 + _ROUNDING

    def true_epsilon(self, epsilon: float) -> float:
        """The epsilon of a run that was meant for `epsilon`, with noise of scale claimed / epsilon; rounded up.

        It is for noise whose log density falls by 1 / scale per unit of distance: Laplace on each coordinate (measured
        in L1) or L2-Laplace (measured in L2). The worst pair loses sensitivity / scale.

        Raises:
            ConfigError: epsilon is not above 0.
        """
        _validate.positive(epsilon=epsilon)
        return up(epsilon * self.factor)

    def clip(self, vectors: Vectors) -> Floats:
        """Vectors `(rows, dim)` clipped as claimed. A row that is not finite becomes zero."""
        if self.clipped is None:
            return finite(vectors, self.dim)
        return clip(vectors, self.clip_norm, norm=self.clipped)

    def violated(self, first: Floats, second: Floats) -> int:
        """How many rows of two clipped samples `(rows, dim)` are further apart than claimed."""
        distances = np.linalg.norm(first - second, ord=1 if self.measured is Norm.L1 else 2, axis=1)
        return int(np.count_nonzero(distances > self.claimed))


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two vectors that L2 clipping leaves alone and that are further apart than ADePT claims."""

    claim: Claim
    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def distance(self) -> float:
        """Their L1 distance."""
        return math.fsum(abs(a - b) for a, b in zip(self.first, self.second, strict=True))

    def privacy_loss(self, epsilon: float) -> float:
        """Log ratio of the densities at `first`, for Laplace noise of scale claimed / epsilon on each coordinate."""
        _validate.positive(epsilon=epsilon)
        return self.distance * epsilon / self.claim.claimed


def counterexample(clip_norm: float = 1.0) -> Counterexample:
    """(2C/3, 2C/3) and its negative: epsilon is 4/3 of the claimed one (Habernal 2021, section 4)."""
    side = 2 * clip_norm / 3
    return Counterexample(Claim(dim=2, clip_norm=clip_norm), (side, side), (-side, -side))
