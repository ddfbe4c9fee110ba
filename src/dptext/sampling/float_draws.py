"""Continuous draws in floats, their densities, and the slack of their rounding (see `dptext.sampling.noise`)."""

from __future__ import annotations

import math

import numpy as np

from dptext.sampling.discrete import uniform_open
from dptext.sampling.source import Randomness
from dptext.types import Floats

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

    eta = 2^-48 * length: a sum of dim logarithms by pairwise summation errs by at most
    (2 + log2(dim) / 2) * 2^-52 relative, a coordinate of a normalised Box-Muller vector by 2^-50 absolute,
    adding the vector itself by 2^-53 relative; for dim <= 4096 these are below 2^-48 together.
    """
    return min(1.0, 8 * dim * ETA * length / grid)
