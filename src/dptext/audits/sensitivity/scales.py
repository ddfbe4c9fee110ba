"""What a scale of noise means for privacy: the classical Gaussian formula, and the variances that ADePT names.

Papers print the variance of their noise, or an epsilon from a formula that does not hold for it::

    >>> from dptext.audits.sensitivity.scales import classical_limit, true_gaussian_epsilon, variance_table
    >>> from dptext.audits.sensitivity.claims import Claim
    >>> from dptext.sampling.clipping import Norm
    >>> row = variance_table([1.0], [0.25])[0]
    >>> [round(epsilon, 2) for epsilon in (row.claimed_epsilon, row.true_epsilons[0], row.gaussian_epsilon)]
    [5.66, 32.0, 24.38]
    >>> round(classical_limit(1e-5), 2)
    8.42
    >>> round(true_gaussian_epsilon(Claim(dim=256, measured=Norm.L2), 100.0, delta=1e-5), 1)
    300.1
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dptext import _validate
from dptext.audits.sensitivity.claims import Claim
from dptext.errors import ConfigError
from dptext.privacy.curves import gaussian_delta, gaussian_epsilon, up
from dptext.sampling.clipping import Norm

#: The variances of the noise in ADePT's experiments (Krishna et al. 2021, figure 1).
ADEPT_VARIANCES = (0.25, 0.5, 0.6, 0.75, 0.85, 1.0)
#: The sizes of an encoder's output that Habernal 2021, section 5, calls typical.
TYPICAL_DIMS = (32, 64, 128, 256, 512, 1024)


def classical_sigma(epsilon: float, delta: float, *, sensitivity: float) -> float:
    """sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon, proven for epsilon < 1 (Dwork and Roth 2014, theorem A.1)."""
    _validate.positive(epsilon=epsilon, sensitivity=sensitivity)
    return sensitivity * _classical_constant(delta) / epsilon


def classical_epsilon(sigma: float, delta: float, *, sensitivity: float) -> float:
    """The epsilon that the classical formula gives to a standard deviation: no upper bound, see `classical_limit`."""
    _validate.positive(sigma=sigma, sensitivity=sensitivity)
    return sensitivity * _classical_constant(delta) / sigma


def classical_limit(delta: float) -> float:
    """The epsilon above which the classical formula is wrong: its noise has a delta above the stated one.

    It is 8.42 at delta = 1e-5 (MATHS 2.3). By bisection, as the excess of the true delta changes its sign once.
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
    """The epsilon at delta of a run that was meant for (epsilon, delta), with Gaussian noise by the classical formula.

    The standard deviation is `classical_sigma` of the claimed sensitivity. The answer is the analytic curve (Balle and
    Wang 2018, theorem 8) at the true sensitivity. Above `classical_limit` the formula itself is wrong, even with the
    true sensitivity. ConfigError where distances are not measured in L2.
    """
    if claim.measured is not Norm.L2:
        raise ConfigError(f"Expected measured={claim.measured.value!r} = 'l2': Gaussian noise has L2 sensitivity.")
    sigma = classical_sigma(epsilon, delta, sensitivity=claim.claimed)
    return _gaussian_epsilon(sigma, claim.sensitivity, delta)


def _classical_constant(delta: float) -> float:
    if not 0 < delta < 1:
        raise ConfigError(f"Expected delta={delta!r} in (0, 1).")
    return math.sqrt(2 * math.log(1.25 / delta))


def _gaussian_epsilon(sigma: float, sensitivity: float, delta: float) -> float:
    return math.inf if math.isinf(sensitivity) else gaussian_epsilon(sigma / sensitivity, delta)


@dataclass(frozen=True, slots=True)
class VarianceRow:
    """What noise of one variance on each coordinate means after clipping to C.

    Attributes:
        scale: b of the Laplace law with this variance, sqrt(variance / 2).
        claimed_epsilon: 2C / b, as ADePT has it.
        true_epsilons: L1 sensitivity / b for each number of coordinates in `dims`; rounded up.
        classical_epsilon: what the classical formula says of Gaussian noise of this variance.
        gaussian_epsilon: the epsilon that it has (analytic curve). Both are stated at `delta`.
        rho: its zero-concentrated DP, sensitivity^2 / (2 variance).
    """

    clip_norm: float
    variance: float
    scale: float
    claimed_epsilon: float
    dims: tuple[int, ...]
    true_epsilons: tuple[float, ...]
    classical_epsilon: float
    gaussian_epsilon: float
    rho: float
    delta: float


def variance_table(
    clip_norms: Sequence[float] = (1.0, 5.0),
    variances: Sequence[float] = ADEPT_VARIANCES,
    *,
    dims: Sequence[int] = TYPICAL_DIMS,
    clipped: Norm | None = Norm.L2,
    delta: float = 1e-5,
) -> tuple[VarianceRow, ...]:
    """What ADePT's noise variances mean (MATHS 2.3): a row for each clipping norm and variance."""

    def row(clip_norm: float, variance: float) -> VarianceRow:
        _validate.positive(variance=variance)
        scale, sigma = math.sqrt(variance / 2), math.sqrt(variance)
        euclidean = Claim(dim=1, clip_norm=clip_norm, clipped=clipped, measured=Norm.L2)
        return VarianceRow(
            clip_norm=clip_norm,
            variance=variance,
            scale=scale,
            claimed_epsilon=euclidean.claimed / scale,
            dims=tuple(dims),
            true_epsilons=tuple(
                up(Claim(dim=dim, clip_norm=clip_norm, clipped=clipped).sensitivity / scale) for dim in dims
            ),
            classical_epsilon=classical_epsilon(sigma, delta, sensitivity=euclidean.claimed),
            gaussian_epsilon=_gaussian_epsilon(sigma, euclidean.sensitivity, delta),
            rho=up(euclidean.sensitivity**2 / (2 * variance)),
            delta=delta,
        )

    return tuple(row(clip_norm, variance) for clip_norm in clip_norms for variance in variances)
