"""Vectors of bounded length: clipping, scaling to the unit sphere, and sensitivity (the largest distance of two).

Vectors are `(rows, dim)` float arrays. A vector that is not finite is treated as the zero vector.
"""

import math
from enum import StrEnum

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.types import Floats, Singles

Vectors = Floats | Singles
#: Rounding x / grid in floats errs by at most this many half steps.
HALF_STEP = 1 + 2.0**-10
#: For a larger epsilon, x / grid has more digits than floats keep.
LARGEST_EPSILON = 1e6


class Norm(StrEnum):
    """The norm of a vector: L1 sums absolute coordinates, L2 is Euclidean."""

    L1 = "l1"
    L2 = "l2"


def finite(vectors: Vectors, dim: int) -> Floats:
    """The vectors `(rows, dim)` in float64. Rows with NaN, infinity or a coordinate of 1e150 or more become zero.

    ConfigError: another shape.
    """
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise ConfigError(f"Expected vectors of shape (rows, {dim}), found {vectors.shape}.")
    values = np.asarray(vectors, np.float64)
    usable = np.isfinite(values).all(axis=1, keepdims=True) & (np.abs(values).max(axis=1, keepdims=True) < 1e150)
    return np.where(usable, values, 0.0)


def clip(vectors: Vectors, clip_norm: float, *, norm: Norm = Norm.L2) -> Floats:
    """Scale rows down to a norm of at most `clip_norm`, rounding included. Rows that are not finite become zero."""
    _validate.within(1e-100, 1e100, clip_norm=clip_norm)
    values = finite(vectors, vectors.shape[-1])
    with np.errstate(over="ignore"):  # an infinite length clips to zero
        # Lengths are computed in units of clip_norm, so that squares of relevant lengths neither over- nor underflow.
        lengths = clip_norm * np.linalg.norm(values / clip_norm, ord=1 if norm is Norm.L1 else 2, axis=1, keepdims=True)
    room = clip_norm * (1 - values.shape[1] * 2.0**-50)
    return np.asarray(np.where(lengths > room, values * (room / np.maximum(lengths, room)), values))


def unit(vectors: Vectors) -> Floats:
    """Scale rows to length 1. Rows that are zero or not finite become the first axis."""
    values = finite(vectors, vectors.shape[-1])
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    axis = np.zeros(values.shape[1])
    axis[0] = 1.0
    return np.where(lengths > 1e-150, values / np.where(lengths > 1e-150, lengths, 1.0), axis)


def rounded(values: Floats, grid: float) -> Floats:
    """The values rounded to multiples of the grid step."""
    return np.asarray(np.rint(values / grid) * grid)


def paired(released: Floats, vectors: Vectors) -> Floats:
    """The released vectors in float64. ConfigError: their shape differs from that of the vectors."""
    if released.shape != vectors.shape:
        raise ConfigError(f"Expected released vectors of shape {vectors.shape}, found {released.shape}.")
    return np.asarray(released, np.float64)


def sensitivity(clip_norm: float, *, dim: int, clipped: Norm, measured: Norm, grid: float = 0.0) -> float:
    """Largest distance, in the `measured` norm, of two vectors clipped in the `clipped` norm and rounded.

    The distance is 2C, except for the L1 distance of L2-clipped vectors: 2C * sqrt(dim). ADePT's published proof
    overlooks this exception (Habernal 2021). Rounding to a grid adds one step per coordinate.
    """
    _validate.within(1e-100, 1e100, clip_norm=clip_norm)
    _validate.not_negative(grid=grid)
    _validate.count(dim=dim)
    spread = math.sqrt(dim) if (clipped, measured) == (Norm.L2, Norm.L1) else 1.0
    rounding = grid * HALF_STEP * (dim if measured is Norm.L1 else math.sqrt(dim))
    return 2 * clip_norm * spread * (1 + 2.0**-40) + rounding
