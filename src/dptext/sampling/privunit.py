"""PrivUnit: the unbiased estimate of a unit vector with the least error among pure mechanisms.

Source: Bhowmick et al. 2018. Asi, Feldman and Talwar 2022 prove that PrivUnit is optimal among unbiased mechanisms.
With probability p, a point is drawn uniformly from a cap around the vector, else from the rest of the sphere.

`PrivUnit` (for a ball, by lifting) and `PrivUnitSphere` draw in floats and state an additive slack, which
`dptext.sampling.float_noise` derives. `Codebook` chooses among public points with integers and is exact.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import ApproximateEvent, TopKEvent
from dptext.sampling.caps import POLAR, Cap, around, log1m_exp, optimal_cap, sphere_grid
from dptext.sampling.clipping import Vectors, clip, finite, paired, rounded, unit
from dptext.sampling.float_noise import directions, slack
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.types import Floats, Integers

__all__ = ["Cap", "Codebook", "PrivUnit", "PrivUnitSphere", "optimal_cap"]

_SCORES_AT_ONCE = 1 << 22
#: Number of heights of the dropped coordinate over which `PrivUnit.log_density` averages, on each side.
HEIGHTS = 48


class _OnSphere:
    """Base of both forms of PrivUnit. Subclasses define the dimension of the sphere's space."""

    __slots__ = ()

    epsilon: float

    @property
    @abstractmethod
    def _sphere(self) -> int: ...

    @property
    def cap(self) -> Cap:
        """The cap on the sphere (on the lifted sphere if vectors are lifted)."""
        return optimal_cap(self._sphere, self.epsilon)

    @property
    def grid(self) -> float:
        """Step of the grid to which the drawn point V is rounded."""
        return sphere_grid(self.cap, self._sphere)

    @property
    def events(self) -> tuple[ApproximateEvent]:
        """The events of one release."""
        return (ApproximateEvent(self.epsilon, slack(self._sphere, POLAR, self.grid)),)


@dataclass(frozen=True, slots=True)
class PrivUnit(_OnSphere):
    """PrivUnit for unit vectors, and for a ball by lifting to a sphere of one more dimension. Unbiased.

    With probability p, a point V is drawn uniformly from the cap {v: <v, u> >= gamma}, else from the rest of the
    sphere. V / m is released (unbiased up to half a grid step). A vector x in a ball of radius C is lifted to
    u = (x/C, +-sqrt(1 - |x/C|^2)) with a random sign, and the last coordinate of the result is dropped.

    Guarantee:
        `events`: (epsilon, slack) for any two vectors. The sampler draws in floats; V is rounded to a grid before
        scaling. For a pure guarantee use `Codebook`.
    """

    epsilon: float
    dim: int
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.count(dim=self.dim)
        _ = self.cap

    @property
    def _sphere(self) -> int:
        return self.dim + 1

    def _lifted(self, vectors: Vectors) -> tuple[Floats, Floats]:
        """x/C, `(rows, dim)`, and the absolute coordinate `(rows,)` that lifts x/C to the sphere."""
        inner = clip(finite(vectors, self.dim), self.clip_norm) / self.clip_norm
        return inner, np.sqrt(np.maximum(0.0, 1 - np.square(inner).sum(axis=1)))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy vectors `(rows, dim)`. Vectors of L2 norm above `clip_norm` are clipped first."""
        inner, last = self._lifted(vectors)
        sign = np.where(source.uint64(len(inner)) >> np.uint64(63) == 1, 1.0, -1.0)
        lifted = np.concatenate([inner, (sign * last)[:, None]], axis=1)
        return self.clip_norm * (rounded(around(lifted, self.cap, source), self.grid) / self.cap.m)[:, : self.dim]

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density `(rows,)` relative to the release of uniform points of the lifted sphere (see `share_inside`).

        The sign of the lift and the dropped coordinate are unknown, so the density is the mean over both. ConfigError:
        the cap is so small against the grid that the density is not known (see `check_cells`).
        """
        check_cells(cells_across(self.cap, self.grid, self.dim + 1), at_least=16)
        check_cells(math.exp(self.cap.log_x) / self.grid, at_least=1)
        inner, last = self._lifted(vectors)
        points = paired(released, inner) * (self.cap.m / self.clip_norm)
        result = np.empty(len(points))
        step = max(1, _SCORES_AT_ONCE // (8 * HEIGHTS))
        for start in range(0, len(points), step):
            rows = slice(start, start + step)
            heights, weights, width = heights_of(points[rows], self.grid)
            seen = (points[rows], inner[rows], self.cap)
            share = share_inside(*seen, grid=self.grid, lift=last[rows], heights=heights, width=width)
            result[rows] = log_density_given((weights * share).sum(axis=1), self.cap)
        return result


@dataclass(frozen=True, slots=True)
class PrivUnitSphere(_OnSphere):
    """PrivUnit for directions: each vector is first normalised (the zero vector to the first axis).

    Guarantee:
        `events`: (epsilon, slack) for any two vectors, because the sampler draws in floats.
    """

    epsilon: float
    dim: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(dim=self.dim)
        _ = self.cap

    @property
    def _sphere(self) -> int:
        return self.dim

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy unit vectors `(rows, dim)`."""
        units = unit(finite(vectors, self.dim))
        return np.asarray(rounded(around(units, self.cap, source), self.grid) / self.cap.m)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density `(rows,)` relative to the release of uniform points of the sphere (see `share_inside`).

        ConfigError: the cap is so small against the grid that the density is not known (see `check_cells`).
        """
        check_cells(cells_across(self.cap, self.grid, self.dim), at_least=16)
        units = unit(finite(vectors, self.dim))
        points = paired(released, units) * self.cap.m
        none = np.zeros(len(points))
        share = share_inside(points, units, self.cap, grid=self.grid, lift=none, heights=none[:, None], width=none)
        return log_density_given(share[:, 0], self.cap)


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """PrivUnit on a public codebook: top-k randomized response over the k points nearest to the direction. Exact.

    `points` `(size, dim)` are public unit vectors; k = round(q * size) for the optimal cap's share q. Only the *set* of
    the k best points depends on the input. Points are ranked by similarity, with ties by index, so no float error
    affects the guarantee (derivations, "Public codebook").

    Guarantee:
        `event`: exactly epsilon, for any two vectors.
    """

    epsilon: float
    points: Vectors

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        if self.points.ndim != 2 or len(self.points) < 2 or not np.isfinite(self.points).all():
            raise ConfigError(f"Expected finite points of shape (size >= 2, dim), found {self.points.shape}.")

    @staticmethod
    def drawn(epsilon: float, *, dim: int, size: int, source: Randomness) -> "Codebook":
        """Draw a codebook of uniform points. The points are public, so `source` is usually seeded and published."""
        _validate.count(size=size)
        return Codebook(epsilon, directions(size, dim, source))

    @property
    def choice(self) -> TopKRandomizedResponse:
        """The choice among the points."""
        size, dim = self.points.shape
        share = math.exp(optimal_cap(dim, self.epsilon).log_q)
        return TopKRandomizedResponse(self.epsilon, min(max(1, round(share * size)), size - 1), size)

    @property
    def event(self) -> TopKEvent:
        """The event of one choice."""
        return self.choice.event

    def choose(self, vectors: Vectors, source: Randomness) -> Integers:
        """The index of one point per row, `(rows,)`."""
        units, choice = unit(vectors), self.choice
        step = max(1, _SCORES_AT_ONCE // len(self.points))
        blocks = [choice.choose(units[i : i + step] @ self.points.T, source) for i in range(0, len(units), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)


def check_cells(cells: float, at_least: int) -> None:
    """Raise ConfigError if too few cells of the grid fit into a cap for `share_inside` to be right.

    A cap is 64 cells wide, or fewer if floats need a coarse grid (`sphere_grid`). Below about six cells, a test notices
    the error. The ball sees a cap around a vector of full length from the side, where the cap is x / 2 deep. If x < h,
    the rounding of the other coordinates hides the height of a point.
    """
    if cells < at_least:
        raise ConfigError(
            f"Expected a cap of at least {at_least} cells of the grid, found {cells:.2g}: PrivUnit's density is not "
            "known for so large an epsilon in so few dimensions."
        )


def cells_across(cap: Cap, grid: float, dim: int) -> float:
    """The width of a cap in cells of the grid."""
    return math.exp(cap.log_x / 2) / math.sqrt(dim) / grid


def log_density_given(inside: Floats, cap: Cap) -> Floats:
    """Log density relative to uniform, given the share of a released point's possible originals that lie in the cap.

    The density is between (1-p)/(1-q) and p/q for any share, so the log densities of two vectors differ by at most
    epsilon.
    """
    loss = cap.log_odds - cap.log_q + log1m_exp(cap.log_q)
    outside = -float(np.logaddexp(0.0, cap.log_odds)) - log1m_exp(cap.log_q)
    with np.errstate(divide="ignore"):
        return np.asarray(outside + np.logaddexp(0.0, np.log(inside) + loss + log1m_exp(-loss)))


def share_inside(
    points: Floats, centres: Floats, cap: Cap, *, grid: float, lift: Floats, heights: Floats, width: Floats
) -> Floats:
    """Share of the points V of the sphere that are rounded to each given point and lie in the cap, `(rows, heights)`.

    The rounded point cannot stand for V: at 256 dimensions and epsilon 20, V lies outside its cap with probability
    .031, and only its rounded point does with probability .028. V = w - e, where w is the rounded point (its known
    coordinates) and e is nearly uniform in a cell of side h. |V|^2 = 1 - z^2, where the height z is the unknown last
    coordinate, determines <w, e>. Given <w, e>, <e, u> is taken as normal with its true mean and variance: h^2/12 times
    the squared length of the part of u orthogonal to w. A million runs could not tell this law from the sampler (16
    dimensions and more, epsilon 5 to 20).

    `points` w and `centres` u are `(rows, dim)` on the scale of the sphere, without the lifting coordinate of u, which
    is `lift` `(rows,)`. `grid` is h. `heights` are z `(rows, heights)`, each for an interval of `width` `(rows,)`.
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
    """Possible last coordinates z of V on either side, their weights (with sum 1 per row), and the step between them.

    `points` `(rows, dim)` are the other coordinates after rounding. Their squared length is 1 - z^2, except for the
    rounding's part 2 <w, e>, which is nearly normal with variance 4 |w|^2 h^2/12. Above a point v of the ball, the
    uniform measure of the sphere is dv / |z|, and <w, e> = z^2/2 + constant. So z has the normal density of <w, e>.
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
