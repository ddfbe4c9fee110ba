"""The density of PrivUnit after its rounding to a grid, relative to that of uniform points of the sphere."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from dptext.errors import ConfigError
from dptext.sampling.caps import Cap, log1m_exp
from dptext.types import Floats

#: Heights of the dropped coordinate among which `PrivUnit.log_density` averages, on each side.
HEIGHTS = 48


def check_cells(cells: float, at_least: int) -> None:
    """Raise ConfigError where too few cells of the grid fit into a cap for `share_inside` to be right.

    A cap is 64 cells wide, or less where floats need a coarse grid (`sphere_grid`). Below some six cells a test notices
    the error. The ball sees a cap around a vector of full length from the side, where it is x / 2 deep. The height of
    a point then drowns in the rounding of the other coordinates where x < h.
    """
    if cells < at_least:
        raise ConfigError(
            f"Expected a cap of at least {at_least} cells of the grid, found {cells:.2g}: PrivUnit's density is not "
            "known for so large an epsilon in so few dimensions."
        )


def cells_across(cap: Cap, grid: float, dim: int) -> float:
    """How many cells of the grid a cap is wide."""
    return math.exp(cap.log_x / 2) / math.sqrt(dim) / grid


def log_density_given(inside: Floats, cap: Cap) -> Floats:
    """Log density relative to uniform, given the share of the points behind a released one that lie in the cap.

    The density lies between (1-p)/(1-q) and p/q whatever the share is. So no two vectors differ by more than epsilon.
    """
    loss = cap.log_odds - cap.log_q + log1m_exp(cap.log_q)
    outside = -float(np.logaddexp(0.0, cap.log_odds)) - log1m_exp(cap.log_q)
    with np.errstate(divide="ignore"):
        return np.asarray(outside + np.logaddexp(0.0, np.log(inside) + loss + log1m_exp(-loss)))


def share_inside(
    points: Floats, centres: Floats, cap: Cap, *, grid: float, lift: Floats, heights: Floats, width: Floats
) -> Floats:
    """Share of the points V of the sphere that are rounded to each given point and lie in the cap, `(rows, heights)`.

    The rounded point cannot stand for V. At 256 dimensions and epsilon 20 the lifted V lies outside its cap with
    probability .031, and a further .028 would seem to after rounding.

    V = w - e, where w is the rounded point (its known coordinates) and e is nearly uniform in a cell of side h. The
    length of V is known: |V|^2 = 1 - z^2, where the height z is the unknown last coordinate (0 on the sphere). That
    fixes <w, e>. Given it, <e, u> is taken as normal with its true mean and variance: h^2/12 times the squared length
    of the part of u that is orthogonal to w. A million runs did not tell this from the sampler (16 dimensions and more,
    epsilon 5 to 20).

    Args:
        points: w `(rows, dim)`, on the scale of the sphere.
        centres: u `(rows, dim)` without the coordinate that lifts it.
        cap: the cap around u.
        grid: h.
        lift: u's last coordinate `(rows,)`.
        heights: z `(rows, heights)`.
        width: what a height stands for, `(rows,)`: an interval of this width around it.
    """
    square = np.maximum(np.square(points).sum(axis=1, keepdims=True), 1e-300)
    along = (points * centres).sum(axis=1, keepdims=True)
    across = np.maximum(np.square(centres).sum(axis=1, keepdims=True) - along**2 / square, 0.0)
    # |V|^2 = |w|^2 - 2 <w, e> + |e|^2, where |e|^2 is nearly its mean
    outwards = (square + points.shape[1] * grid**2 / 12 - 1 + heights**2) / 2
    cosine = along * (1 - outwards / square) + lift[:, None] * heights
    slope = lift[:, None] - along * heights / square  # of the cosine, over the height
    spread = np.sqrt((grid**2 * across + np.square(slope * width[:, None])) / 12)
    return np.asarray(ndtr((cosine - cap.gamma) / np.maximum(spread, 1e-300)))


def heights_of(points: Floats, grid: float) -> tuple[Floats, Floats, Floats]:
    """Possible last coordinates of V on either side, their weights (of sum 1 a row), and the step between them.

    `points` `(rows, dim)` are the other coordinates after rounding. Their square is 1 - z^2, but for the rounding's
    part 2 <w, e>, which is nearly normal with variance 4 |w|^2 h^2/12. Above a point v of the ball the uniform measure
    of the sphere is dv / |z|, and <w, e> = z^2/2 + constant. So z has the normal density of <w, e>.
    """
    square = np.square(points).sum(axis=1)
    level = 1 - square - points.shape[1] * grid**2 / 12
    spread = 2 * np.sqrt(square / 12 + 1e-300) * grid
    low = np.sqrt(np.maximum(level - 7 * spread, 0.0))
    high = np.sqrt(np.maximum(level, 0.0) + 7 * spread)
    width = (high - low) / HEIGHTS
    above = low[:, None] + width[:, None] * (np.arange(HEIGHTS) + 0.5)
    log_weights = -0.5 * np.square((above**2 - level[:, None]) / spread[:, None])
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= 2 * weights.sum(axis=1, keepdims=True)
    return np.concatenate([above, -above], axis=1), np.concatenate([weights, weights], axis=1), width
