"""Noise on vectors: clipping, sensitivities, Laplace and Gaussian noise, on an integer grid or in floats.

Vectors are `(rows, dim)` float arrays; each mechanism is a frozen dataclass of public settings with `events`, a
vectorized `release(vectors, source)` and a `log_density(released, vectors)` for white-box audits: one number a row, of
the released row given the vector in the same row. Neighbours are any two vectors whatever: clipping (or the sphere)
bounds their distance. A vector that is not finite becomes the zero vector.

*On integers* (`GridLaplace`, `GridGaussian`) samplers are exact. Rounding to the grid moves two vectors apart by at
most one grid step a coordinate, which is counted in the sensitivity.

*In floats* (`L2Laplace`, `Gaussian`, `MetricNoise`, and `PrivUnit` beside it) the result is rounded to a grid of step
h, far coarser than the error eta of the float computation. Couple the float sampler with the ideal one by letting both
read the same uniform reals, of which the floats see the leading bits: coordinates then differ by at most eta. The float
result can be in a set S of grid cells only if the ideal one is within eta of S, and it must be in S if the ideal one is
inside by more than eta. So P~_x(S) <= e^loss * P~_x'(S) + delta, where delta is the ideal mass within eta of a cell
wall, counted on both sides: at most 8 * dim * eta / h, whatever epsilon or distance (docs/decisions/0004). The
densities of `L2Laplace`, `Gaussian` and `MetricNoise` are those before rounding; the mean over a cell (h is 1/64 of a
coordinate's standard deviation) differs from the middle by h^2/24 of second derivatives, which changes the difference
of two log densities by 2e-5 of itself.
"""

from dptext.sampling.clipping import Norm, Vectors, clip, finite, paired, rounded, sensitivity, unit
from dptext.sampling.float_noise import (
    ETA,
    Gaussian,
    L2Laplace,
    MetricNoise,
    analytic_multiplier,
    directions,
    gaussian_log_density,
    normals,
    radial_laplace,
    radial_log_density,
    slack,
)
from dptext.sampling.grid_noise import GridGaussian, GridLaplace, coordinate_laplace

__all__ = [
    "ETA", "Gaussian", "GridGaussian", "GridLaplace", "L2Laplace", "MetricNoise", "Norm", "Vectors",
    "analytic_multiplier", "clip", "coordinate_laplace", "directions", "finite", "gaussian_log_density", "normals",
    "paired", "radial_laplace", "radial_log_density", "rounded", "sensitivity", "slack", "unit",
]  # fmt: skip
