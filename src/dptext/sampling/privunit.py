"""PrivUnit: the unbiased estimate of a unit vector with the least error among pure mechanisms.

Bhowmick et al. 2018; that it is optimal among unbiased mechanisms: Asi, Feldman and Talwar 2022. A point of
the sphere is drawn uniformly from a cap around the vector with probability p, else from the rest.

`PrivUnit` (a ball, by lifting) and `PrivUnitSphere` draw in floats and state an additive slack, as derived in
`dptext.sampling.noise`. `Codebook` chooses among public points with integers and is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import ApproximateEvent, TopKEvent
from dptext.sampling.cap_density import HEIGHTS, cells_across, check_cells, heights_of, log_density_given, share_inside
from dptext.sampling.caps import POLAR, Cap, around, optimal_cap, sphere_grid
from dptext.sampling.clipping import Vectors, clip, finite, paired, rounded, unit
from dptext.sampling.float_draws import directions, slack
from dptext.sampling.source import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.types import Floats, Integers

__all__ = ["Cap", "Codebook", "PrivUnit", "PrivUnitSphere", "optimal_cap"]

_SCORES_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class PrivUnit:
    """PrivUnit for unit vectors, and for a ball by lifting to a sphere of one more dimension. Unbiased.

    A point V is drawn uniformly from the cap {v: <v, u> >= gamma} with probability p, else from the rest of
    the sphere; V / m is released (unbiased up to half a grid step). Vectors in a ball of radius C become
    u = (x/C, +-sqrt(1 - |x/C|^2)) with a random sign, and the last coordinate of the result is dropped.

    Guarantee:
        `events`: (epsilon, slack) for any two vectors; a float sampler, whose V is rounded to a grid before it
        is scaled. For a pure guarantee use `Codebook`.
    """

    epsilon: float
    dim: int
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, clip_norm=self.clip_norm)
        _validate.count(dim=self.dim)
        _ = self.cap

    @property
    def cap(self) -> Cap:
        """The cap on the lifted sphere."""
        return optimal_cap(self.dim + 1, self.epsilon)

    @property
    def grid(self) -> float:
        """Step of the coordinates of V."""
        return sphere_grid(self.cap, self.dim + 1)

    @property
    def events(self) -> tuple[ApproximateEvent]:
        """One release."""
        return (ApproximateEvent(self.epsilon, slack(self.dim + 1, POLAR, self.grid)),)

    def _lifted(self, vectors: Vectors) -> tuple[Floats, Floats]:
        """x/C, `(rows, dim)`, and the size of the coordinate that lifts it to the sphere, `(rows,)`."""
        inner = clip(finite(vectors, self.dim), self.clip_norm) / self.clip_norm
        return inner, np.sqrt(np.maximum(0.0, 1 - np.square(inner).sum(axis=1)))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy vectors `(rows, dim)` for vectors of L2 norm at most `clip_norm` (longer ones are clipped)."""
        inner, last = self._lifted(vectors)
        sign = np.where(source.uint64(len(inner)) >> np.uint64(63) == 1, 1.0, -1.0)
        lifted = np.concatenate([inner, (sign * last)[:, None]], axis=1)
        return self.clip_norm * (rounded(around(lifted, self.cap, source), self.grid) / self.cap.m)[:, : self.dim]

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density `(rows,)` relative to what uniform points of the lifted sphere would give (see `share_inside`).

        Both the sign of the lift and the dropped coordinate are unknown: the density is the mean over them.

        Raises:
            ConfigError: the cap is so small against the grid that the density is not known (see `check_cells`).
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
            share = share_inside(
                points[rows], inner[rows], self.cap, grid=self.grid, lift=last[rows], heights=heights, width=width
            )
            result[rows] = log_density_given((weights * share).sum(axis=1), self.cap)
        return result


@dataclass(frozen=True, slots=True)
class PrivUnitSphere:
    """PrivUnit for directions: each vector is normalised first (the zero vector to the first axis).

    Guarantee:
        `events`: (epsilon, slack) for any two vectors; a float sampler.
    """

    epsilon: float
    dim: int

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.count(dim=self.dim)
        _ = self.cap

    @property
    def cap(self) -> Cap:
        """The cap on the sphere."""
        return optimal_cap(self.dim, self.epsilon)

    @property
    def grid(self) -> float:
        """Step of the coordinates of V."""
        return sphere_grid(self.cap, self.dim)

    @property
    def events(self) -> tuple[ApproximateEvent]:
        """One release."""
        return (ApproximateEvent(self.epsilon, slack(self.dim, POLAR, self.grid)),)

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy unit vectors `(rows, dim)`."""
        units = unit(finite(vectors, self.dim))
        return np.asarray(rounded(around(units, self.cap, source), self.grid) / self.cap.m)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density `(rows,)` relative to what uniform points of the sphere would give (see `share_inside`).

        Raises:
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
    """PrivUnit on a public codebook: the k points nearest to the direction, by top-k randomized response. Exact.

    `points` `(size, dim)` are public unit vectors; k = round(q * size) for the optimal cap's share q. Only
    the *set* of the k best depends on the input, and it is ranked by similarity with ties by index, so the
    guarantee is pure whatever floats do (MATHS 2.6).

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
    def drawn(epsilon: float, *, dim: int, size: int, source: Randomness) -> Codebook:
        """A codebook of uniform points; they are public, so `source` is usually seeded and published."""
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
        """One choice."""
        return self.choice.event

    def choose(self, vectors: Vectors, source: Randomness) -> Integers:
        """Index of one point a row, `(rows,)`."""
        units, choice = unit(vectors), self.choice
        step = max(1, _SCORES_AT_ONCE // len(self.points))
        blocks = [choice.choose(units[i : i + step] @ self.points.T, source) for i in range(0, len(units), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)
