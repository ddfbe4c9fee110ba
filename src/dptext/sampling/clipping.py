"""Vectors of bounded length: clipping, the unit sphere, and how far two of them can be apart.

Vectors are `(rows, dim)` float arrays. A vector that is not finite becomes the zero vector, as any other input would.
"""

import math
from enum import StrEnum

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.types import Floats, Singles

Vectors = Floats | Singles
#: Rounding x / grid in floats may err by this much more than half a step.
HALF_STEP = 1 + 2.0**-10
#: Beyond this, x / grid has more digits than floats keep.
LARGEST_EPSILON = 1e6


class Norm(StrEnum):
    """How long a vector is: L1 sums absolute coordinates, L2 is Euclidean."""

    L1 = "l1"
    L2 = "l2"


def finite(vectors: Vectors, dim: int) -> Floats:
    """The vectors `(rows, dim)` in float64; rows that are not finite, or absurdly long, become zero."""
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise ConfigError(f"Expected vectors of shape (rows, {dim}), found {vectors.shape}.")
    values = np.asarray(vectors, np.float64)
    usable = np.isfinite(values).all(axis=1, keepdims=True) & (np.abs(values).max(axis=1, keepdims=True) < 1e150)
    return np.where(usable, values, 0.0)


def clip(vectors: Vectors, clip_norm: float, *, norm: Norm = Norm.L2) -> Floats:
    """Rows scaled down to norm `clip_norm` at most, rounding included; rows that are not finite become zero."""
    _validate.within(1e-100, 1e100, clip_norm=clip_norm)
    values = finite(vectors, vectors.shape[-1])
    with np.errstate(over="ignore"):  # an infinite length clips to zero
        # In units of clip_norm: squares of lengths that matter then neither over- nor underflow.
        lengths = clip_norm * np.linalg.norm(values / clip_norm, ord=1 if norm is Norm.L1 else 2, axis=1, keepdims=True)
    room = clip_norm * (1 - values.shape[1] * 2.0**-50)
    return np.asarray(np.where(lengths > room, values * (room / np.maximum(lengths, room)), values))


def unit(vectors: Vectors) -> Floats:
    """Rows scaled to length 1; rows that are zero or not finite become the first axis."""
    values = finite(vectors, vectors.shape[-1])
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    axis = np.zeros(values.shape[1])
    axis[0] = 1.0
    return np.where(lengths > 1e-150, values / np.where(lengths > 1e-150, lengths, 1.0), axis)


def rounded(values: Floats, grid: float) -> Floats:
    """The values rounded to multiples of the grid step."""
    return np.asarray(np.rint(values / grid) * grid)


def paired(released: Floats, vectors: Vectors) -> Floats:
    """The released vectors in float64, one for each of the vectors; ConfigError where the shapes differ."""
    if released.shape != vectors.shape:
        raise ConfigError(f"Expected released vectors of shape {vectors.shape}, found {released.shape}.")
    return np.asarray(released, np.float64)


def sensitivity(clip_norm: float, *, dim: int, clipped: Norm, measured: Norm, grid: float = 0.0) -> float:
    """Largest distance, in the `measured` norm, of two vectors clipped in the `clipped` norm and rounded.

    2C, except 2C * sqrt(dim) for the L1 distance of L2-clipped vectors, which is what ADePT's published
    proof overlooks (Habernal 2021). Rounding to a grid adds one step a coordinate.
    """
    _validate.within(1e-100, 1e100, clip_norm=clip_norm)
    _validate.not_negative(grid=grid)
    _validate.count(dim=dim)
    spread = math.sqrt(dim) if (clipped, measured) == (Norm.L2, Norm.L1) else 1.0
    rounding = grid * HALF_STEP * (dim if measured is Norm.L1 else math.sqrt(dim))
    return 2 * clip_norm * spread * (1 + 2.0**-40) + rounding
