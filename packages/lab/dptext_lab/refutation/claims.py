"""Sensitivity claims checked by formula, and the epsilon of a scale of noise.

ADePT (Krishna et al. 2021) clips a latent vector to L2 norm C and adds Laplace noise for an L1 sensitivity of 2C; the
true one is 2C * sqrt(n) (Habernal 2021, theorem 5.1)::

    >>> from dptext_lab.refutation.claims import Claim, counterexample
    >>> claim = Claim(dim=256)
    >>> round(claim.factor, 6), round(claim.true_epsilon(5.0), 6), claim.refuted
    (16.0, 80.0, True)
    >>> first, second = counterexample()  # two dimensions suffice
    >>> round(float(abs(first - second).sum()) / Claim(dim=2).claimed, 6)
    1.333333

The formula gives the cost of the worst pair of vectors. `simulation` shows how ordinary such pairs are, among random
and among given vectors. Papers print the variance of their noise, or an epsilon from the classical Gaussian formula,
which does not hold at that epsilon.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.curves import gaussian_delta, gaussian_epsilon, up
from dptext.sampling.clipping import Norm, Vectors, clip, finite, sensitivity
from dptext.types import Floats

# `noise.sensitivity` rounds up by 2^-40: this rounding must not refute a claim of exactly the sensitivity.
_ROUNDING = 2.0**-39


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim that two vectors of `dim` coordinates are never farther apart than `multiple` * C; ADePT's by default.

    Vectors are `clipped` to length C in a norm; None means no clipping. Their distance is `measured` in L1 for Laplace
    noise on each coordinate, in L2 for Gaussian and L2-Laplace noise.
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
        """Return whether the true sensitivity exceeds the claimed one, by more than rounding."""
        return self.factor > 1 + _ROUNDING

    def true_epsilon(self, epsilon: float) -> float:
        """Return the epsilon of a run that was meant for `epsilon`, with noise of scale claimed / epsilon; rounded up.

        The formula is for noise whose log density falls by 1 / scale per unit of distance: Laplace on each coordinate
        (measured in L1) or L2-Laplace (measured in L2). The worst pair loses sensitivity / scale. ConfigError unless
        epsilon > 0.
        """
        _validate.positive(epsilon=epsilon)
        return up(epsilon * self.factor)

    def clip(self, vectors: Vectors) -> Floats:
        """Clip vectors `(rows, dim)` as claimed. A row that is not finite becomes zero."""
        if self.clipped is None:
            return finite(vectors, self.dim)
        return clip(vectors, self.clip_norm, norm=self.clipped)

    def violated(self, first: Floats, second: Floats) -> int:
        """Count the rows of two clipped samples `(rows, dim)` that are farther apart than claimed."""
        distances = np.linalg.norm(first - second, ord=1 if self.measured is Norm.L1 else 2, axis=1)
        return int(np.count_nonzero(distances > self.claimed))


def counterexample(clip_norm: float = 1.0) -> Floats:
    """Return (2C/3, 2C/3) and its negative, `(2, 2)`: L2 clipping keeps both, and they violate ADePT's claim.

    Their L1 distance is 8C/3, so the true epsilon is 4/3 of the claimed epsilon (Habernal 2021, section 4).
    """
    _validate.positive(clip_norm=clip_norm)
    return 2 * clip_norm / 3 * np.array([[1.0, 1.0], [-1.0, -1.0]])


#: The variances of the noise in ADePT's experiments (Krishna et al. 2021, figure 1).
ADEPT_VARIANCES = (0.25, 0.5, 0.6, 0.75, 0.85, 1.0)
#: Typical sizes of an encoder's output, according to Habernal 2021, section 5.
TYPICAL_DIMS = (32, 64, 128, 256, 512, 1024)


def classical_sigma(epsilon: float, delta: float, *, sensitivity: float) -> float:
    """sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon, proven for epsilon < 1 (Dwork and Roth 2014, theorem A.1)."""
    _validate.positive(epsilon=epsilon, sensitivity=sensitivity)
    return sensitivity * _classical_constant(delta) / epsilon


def classical_epsilon(sigma: float, delta: float, *, sensitivity: float) -> float:
    """Return the classical formula's epsilon for a standard deviation: no upper bound, see `classical_limit`."""
    _validate.positive(sigma=sigma, sensitivity=sensitivity)
    return sensitivity * _classical_constant(delta) / sigma


def classical_limit(delta: float) -> float:
    """Return the epsilon above which the classical formula is wrong: its noise has a delta above the stated delta.

    The limit is 8.42 at delta = 1e-5 (derivations, "Classical Gaussian"). The search is by bisection, as the excess of
    the true delta changes its sign once.
    """
    constant = _classical_constant(delta)
    low, high = 1.0, 2.0
    while gaussian_delta(constant / high, high) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(constant / middle, middle) > delta else (middle, high)
    return low


def true_gaussian_epsilon(claim: Claim, epsilon: float, *, delta: float) -> float:
    """Return the epsilon at delta of a run that was meant for (epsilon, delta), with classical Gaussian noise.

    The standard deviation is `classical_sigma` of the claimed sensitivity. The answer is the analytic curve (Balle and
    Wang 2018, theorem 8) at the true sensitivity. Above `classical_limit` the formula itself is wrong, even with the
    true sensitivity. ConfigError where distances are not measured in L2.
    """
    if claim.measured is not Norm.L2:
        raise ConfigError(f"Expected measured={claim.measured.value!r} = 'l2': Gaussian noise has L2 sensitivity.")
    return _gaussian_epsilon(classical_sigma(epsilon, delta, sensitivity=claim.claimed), claim.sensitivity, delta)


def _classical_constant(delta: float) -> float:
    if not 0 < delta < 1:
        raise ConfigError(f"Expected delta={delta!r} in (0, 1).")
    return math.sqrt(2 * math.log(1.25 / delta))


def _gaussian_epsilon(sigma: float, sensitivity: float, delta: float) -> float:
    return math.inf if math.isinf(sensitivity) else gaussian_epsilon(sigma / sensitivity, delta)


@dataclass(frozen=True, slots=True)
class VarianceRow:
    """The epsilons of noise of one variance on each coordinate after clipping to C.

    The Laplace `scale` b is sqrt(variance / 2). ADePT claims 2C / b; the true epsilon is L1 sensitivity / b for each
    number of coordinates, rounded up. `classical_gaussian_epsilon` is by the classical Gaussian formula,
    `gaussian_epsilon` by the analytic curve, both at the table's delta; rho is sensitivity^2 / (2 variance).
    """

    clip_norm: float
    variance: float
    scale: float
    claimed_epsilon: float
    true_epsilon: Mapping[int, float]
    classical_gaussian_epsilon: float
    gaussian_epsilon: float
    rho: float


def variance_table(
    clip_norms: Sequence[float] = (1.0, 5.0),
    variances: Sequence[float] = ADEPT_VARIANCES,
    *,
    dims: Sequence[int] = TYPICAL_DIMS,
    clipped: Norm | None = Norm.L2,
    delta: float = 1e-5,
) -> tuple[VarianceRow, ...]:
    """Return the epsilons of ADePT's noise variances: a row for each clipping norm and variance.

    Formulas: derivations, "Variances of ADePT".
    """

    def row(clip_norm: float, variance: float) -> VarianceRow:
        _validate.positive(variance=variance)
        scale, sigma = math.sqrt(variance / 2), math.sqrt(variance)
        euclidean = Claim(dim=1, clip_norm=clip_norm, clipped=clipped, measured=Norm.L2)
        longest = {dim: Claim(dim=dim, clip_norm=clip_norm, clipped=clipped).sensitivity for dim in dims}
        return VarianceRow(
            clip_norm=clip_norm,
            variance=variance,
            scale=scale,
            claimed_epsilon=euclidean.claimed / scale,
            true_epsilon={dim: up(distance / scale) for dim, distance in longest.items()},
            classical_gaussian_epsilon=classical_epsilon(sigma, delta, sensitivity=euclidean.claimed),
            gaussian_epsilon=_gaussian_epsilon(sigma, euclidean.sensitivity, delta),
            rho=up(euclidean.sensitivity**2 / (2 * variance)),
        )

    return tuple(row(clip_norm, variance) for clip_norm in clip_norms for variance in variances)
