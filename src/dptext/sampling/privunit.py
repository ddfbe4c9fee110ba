"""PrivUnit: the unbiased estimate of a unit vector with the least error among pure mechanisms.

Bhowmick et al. 2018; that it is optimal among unbiased mechanisms: Asi, Feldman and Talwar 2022. A point of
the sphere is drawn uniformly from a cap around the vector with probability p, else from the rest.

`PrivUnit` (a ball, by lifting) and `PrivUnitSphere` draw in floats and state an additive slack, as derived in
`dptext.sampling.noise`; `Codebook` chooses among public points with integers and is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln, gammaln, hyp2f1, ndtr

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.events import ApproximateEvent, TopKEvent
from dptext.sampling.discrete import bernoulli_exp_minus, uniform_open
from dptext.sampling.noise import ETA, Vectors, clip, directions, finite, normals, paired, rounded, slack, unit
from dptext.sampling.randomness import Randomness
from dptext.sampling.selection import TopKRandomizedResponse
from dptext.types import Booleans, Floats, Integers

#: The inverse beta function errs more than the other steps: PrivUnit counts with 2^-44 = _POLAR * ETA.
_POLAR = 2.0**4
_SCORES_AT_ONCE = 1 << 22
#: Heights of the dropped coordinate among which `PrivUnit.log_density` averages, on each side.
_HEIGHTS = 48


def _log_cap(log_x: float, dim: int) -> float:
    """ln of the share of the unit sphere in R^dim with first coordinate >= sqrt(1 - x), x = 1 - gamma^2.

    q = I_x((dim - 1) / 2, 1/2) / 2; below the range of floats through the hypergeometric series.
    """
    a = (dim - 1) / 2
    x = math.exp(log_x)
    direct = 0.5 * float(betainc(a, 0.5, x))
    if direct > 1e-290:
        return math.log(direct)
    series = float(hyp2f1(a + 0.5, 1.0, a + 1.0, x))
    return math.log(0.5) + a * log_x + 0.5 * math.log1p(-x) - math.log(a) - float(betaln(a, 0.5)) + math.log(series)


def _log1m_exp(value: float) -> float:
    """ln(1 - e^value) for value < 0."""
    return math.log(-math.expm1(value)) if value > -0.6931 else math.log1p(-math.exp(value))


@dataclass(frozen=True, slots=True)
class Cap:
    """The optimal cap of PrivUnit.

    Attributes:
        gamma: threshold of the cosine.
        p: probability of the cap; log_odds = ln(p / (1 - p)), exact where p is near 1.
        log_q: ln of the cap's share of the sphere.
        m: mean cosine, the length that makes the release unbiased.
        log_x: ln(1 - gamma^2), exact where gamma is near 1.
    """

    gamma: float
    p: float
    log_odds: float
    log_q: float
    m: float
    log_x: float


@lru_cache(maxsize=256)
def optimal_cap(dim: int, epsilon: float) -> Cap:
    """The cap that maximises m, hence minimises the error 1/m^2 - 1 of the unbiased estimate.

    Bhowmick et al. 2018; optimality: Asi, Feldman and Talwar 2022. For dim in [2, 4097] (a ball of 4096
    dimensions is lifted by one) and epsilon in
    [0.01, 1000]; all in logarithms, because q reaches e^-1000.
    """
    _validate.within(2, 4097, dim=dim)
    _validate.within(0.01, 1000.0, epsilon=epsilon)
    a = (dim - 1) / 2
    log_c = float(gammaln(dim / 2) - gammaln(a)) - 0.5 * math.log(math.pi)
    log_gain = epsilon + _log1m_exp(-epsilon)  # ln(e^epsilon - 1)

    def log_m(log_x: float) -> float:
        log_q = _log_cap(log_x, dim)
        denominator = float(np.logaddexp(_log1m_exp(log_q), log_q + epsilon))
        return log_c + a * log_x - math.log(dim - 1) + log_gain - denominator

    # log_x runs from gamma = 0 to where the cap is far smaller than e^-epsilon.
    lowest = -2 * (epsilon + 20) / (dim - 1) - 2
    starts = -np.geomspace(1e-9, -lowest, 400)
    best = int(np.argmax([log_m(float(start)) for start in starts]))
    left, right = float(starts[min(best + 1, len(starts) - 1)]), float(starts[max(best - 1, 0)])
    log_x = float(
        minimize_scalar(lambda v: -log_m(v), bounds=(left, right), method="bounded", options={"xatol": 1e-13}).x
    )
    log_q = _log_cap(log_x, dim)
    # p = 1 / (1 + e^-epsilon (1 - q) / q); a billionth is kept back for the rounding of q and of the odds
    log_odds = epsilon - 2.0**-30 + log_q - _log1m_exp(log_q)
    p = 1 / (1 + math.exp(-log_odds))
    return Cap(math.sqrt(-math.expm1(log_x)), p, log_odds, log_q, min(1.0, math.exp(log_m(log_x))), log_x)


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
        return _sphere_grid(self.cap, self.dim + 1)

    @property
    def events(self) -> tuple[ApproximateEvent]:
        """One release."""
        return (ApproximateEvent(self.epsilon, slack(self.dim + 1, _POLAR, self.grid)),)

    def _lifted(self, vectors: Vectors) -> tuple[Floats, Floats]:
        """x/C, `(rows, dim)`, and the size of the coordinate that lifts it to the sphere, `(rows,)`."""
        inner = clip(finite(vectors, self.dim), self.clip_norm) / self.clip_norm
        return inner, np.sqrt(np.maximum(0.0, 1 - np.square(inner).sum(axis=1)))

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy vectors `(rows, dim)` for vectors of L2 norm at most `clip_norm` (longer ones are clipped)."""
        inner, last = self._lifted(vectors)
        sign = np.where(source.uint64(len(inner)) >> np.uint64(63) == 1, 1.0, -1.0)
        lifted = np.concatenate([inner, (sign * last)[:, None]], axis=1)
        return self.clip_norm * (rounded(_around(lifted, self.cap, source), self.grid) / self.cap.m)[:, : self.dim]

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density `(rows,)` relative to what uniform points of the lifted sphere would give (see `_share_inside`).

        Both the sign of the lift and the dropped coordinate are unknown: the density is the mean over them.

        Raises:
            ConfigError: the cap is so small against the grid that the density is not known (see `_check_cells`).
        """
        _check_cells(_cells_across(self.cap, self.grid, self.dim + 1), at_least=16)
        _check_cells(math.exp(self.cap.log_x) / self.grid, at_least=1)
        inner, last = self._lifted(vectors)
        points = paired(released, inner) * (self.cap.m / self.clip_norm)
        result = np.empty(len(points))
        step = max(1, _SCORES_AT_ONCE // (8 * _HEIGHTS))
        for start in range(0, len(points), step):
            rows = slice(start, start + step)
            heights, weights, width = _heights(points[rows], self.grid)
            share = _share_inside(
                points[rows], inner[rows], self.cap, grid=self.grid, lift=last[rows], heights=heights, width=width
            )
            result[rows] = _log_density((weights * share).sum(axis=1), self.cap)
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
        return _sphere_grid(self.cap, self.dim)

    @property
    def events(self) -> tuple[ApproximateEvent]:
        """One release."""
        return (ApproximateEvent(self.epsilon, slack(self.dim, _POLAR, self.grid)),)

    def release(self, vectors: Vectors, source: Randomness) -> Floats:
        """Unbiased noisy unit vectors `(rows, dim)`."""
        units = unit(finite(vectors, self.dim))
        return np.asarray(rounded(_around(units, self.cap, source), self.grid) / self.cap.m)

    def log_density(self, released: Floats, vectors: Vectors) -> Floats:
        """Log density `(rows,)` relative to what uniform points of the sphere would give (see `_share_inside`).

        Raises:
            ConfigError: the cap is so small against the grid that the density is not known (see `_check_cells`).
        """
        _check_cells(_cells_across(self.cap, self.grid, self.dim), at_least=16)
        units = unit(finite(vectors, self.dim))
        points = paired(released, units) * self.cap.m
        none = np.zeros(len(points))
        share = _share_inside(points, units, self.cap, grid=self.grid, lift=none, heights=none[:, None], width=none)
        return _log_density(share[:, 0], self.cap)


def _sphere_grid(cap: Cap, dim: int) -> float:
    """1/64 of a coordinate's typical distance from the centre of the cap, but no finer than a slack of 1e-6 allows."""
    spread = math.sqrt(max(math.exp(cap.log_x), 1e-300) / dim)
    return max(spread / 64, min(8 * dim * _POLAR * ETA / 1e-6, 1 / (64 * math.sqrt(dim))))


def _check_cells(cells: float, at_least: int) -> None:
    """Raise ConfigError where too few cells of the grid fit into a cap for `_share_inside` to be right.

    A cap is 64 cells wide, or less where floats need a coarse grid (`_sphere_grid`); a test notices the error below
    some six. Seen from the side, as the ball sees a cap around a vector of full length, it is x / 2 deep: the height
    of a point then drowns in the rounding of the others where x < h.
    """
    if cells < at_least:
        raise ConfigError(
            f"Expected a cap of at least {at_least} cells of the grid, found {cells:.2g}: PrivUnit's density is not "
            "known for so large an epsilon in so few dimensions."
        )


def _cells_across(cap: Cap, grid: float, dim: int) -> float:
    return math.exp(cap.log_x / 2) / math.sqrt(dim) / grid


def _log_density(inside: Floats, cap: Cap) -> Floats:
    """Log density relative to uniform, where this share of the points behind a released one is in the cap.

    Between (1-p)/(1-q) and p/q whatever the share is, so that no two vectors differ by more than epsilon.
    """
    loss = cap.log_odds - cap.log_q + _log1m_exp(cap.log_q)
    outside = -float(np.logaddexp(0.0, cap.log_odds)) - _log1m_exp(cap.log_q)
    with np.errstate(divide="ignore"):
        return np.asarray(outside + np.logaddexp(0.0, np.log(inside) + loss + _log1m_exp(-loss)))


def _share_inside(
    points: Floats, centres: Floats, cap: Cap, *, grid: float, lift: Floats, heights: Floats, width: Floats
) -> Floats:
    """Share of the points V of the sphere that are rounded to each given point and lie in the cap, `(rows, heights)`.

    To take the rounded point for V would be wrong: at 256 dimensions and epsilon 20 the lifted V lies outside its cap
    with probability .031, but another .028 of them, inside it, would seem to. V = w - e for the rounded w (its known
    coordinates) and e nearly uniform in a cell of side h. The length of V is known, |V|^2 = 1 - z^2 with z the height
    (the unknown last coordinate, 0 on the sphere), so <w, e> is; given that, <e, u> is taken as normal, with its true
    mean and variance, h^2/12 times what of u is orthogonal to w. A million runs did not tell this from the sampler (16
    dimensions and more; epsilon 5 to 20).

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


def _heights(points: Floats, grid: float) -> tuple[Floats, Floats, Floats]:
    """Possible last coordinates of V on either side, their weights (of sum 1 a row), and the step between them.

    `points` `(rows, dim)` are the other coordinates after rounding; their square is 1 - z^2 up to the rounding,
    whose part is 2 <w, e>, nearly normal with variance 4 |w|^2 h^2/12. Uniform measure of the sphere is dv / |z|
    above a v of the ball, and <w, e> = z^2/2 + constant, so the density of z is the normal density of <w, e>.
    """
    square = np.square(points).sum(axis=1)
    level = 1 - square - points.shape[1] * grid**2 / 12
    spread = 2 * np.sqrt(square / 12 + 1e-300) * grid
    low = np.sqrt(np.maximum(level - 7 * spread, 0.0))
    high = np.sqrt(np.maximum(level, 0.0) + 7 * spread)
    width = (high - low) / _HEIGHTS
    above = low[:, None] + width[:, None] * (np.arange(_HEIGHTS) + 0.5)
    log_weights = -0.5 * np.square((above**2 - level[:, None]) / spread[:, None])
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= 2 * weights.sum(axis=1, keepdims=True)
    return np.concatenate([above, -above], axis=1), np.concatenate([weights, weights], axis=1), width


def _around(units: Floats, cap: Cap, source: Randomness) -> Floats:
    """Points of the unit sphere: in the cap around each row with probability p, else outside it."""
    rows, dim = units.shape
    # 1 - p = e^-G can be far below 2^-53: it is drawn exactly, or "outside" would never happen.
    inside = ~bernoulli_exp_minus(float(np.logaddexp(0.0, cap.log_odds)), rows, source)
    cosine, sine = _polar(uniform_open(rows, source), uniform_open(rows, source), inside, cap, dim)
    free = normals(rows, dim, source)
    free -= (free * units).sum(axis=1, keepdims=True) * units
    free /= np.linalg.norm(free, axis=1, keepdims=True)
    return np.asarray(cosine[:, None] * units + sine[:, None] * free)


def _polar(half: Floats, w: Floats, inside: Booleans, cap: Cap, dim: int) -> tuple[Floats, Floats]:
    """Cosine and sine of the angle to the centre, by inverting its distribution inside or outside the cap.

    y = sine^2 is Beta((dim - 1) / 2, 1/2) distributed on either half of the sphere. Outside the cap there are
    the far half, where y is unrestricted, and the band between the cap and the equator, where y > x. Each
    inverts a distribution whose tail is at w = 0, where uniform floats are dense. (Inverting the cosine's
    distribution at w in [q, 1], as usually written, cannot reach the far pole: its last 2^-53 is one point.
    When q < 2^-53 the cap of the opposite vector lies there, and no epsilon holds.)
    """
    a = (dim - 1) / 2
    q = math.exp(cap.log_q)
    far = ~inside & (half < 0.5 / (1 - q))
    share = np.where(inside, 2 * q * w, np.where(far, w, 2 * q + (1 - 2 * q) * w))
    rest = np.where(inside, 1 - 2 * q * w, np.where(far, 1.0, 1 - 2 * q) * (1 - w))
    # Near the pole y is small, near the equator 1 - y is: each is inverted where it is accurate.
    polar = _beta_quantile(a, 0.5, np.minimum(share, 1.0))
    if cap.log_q <= -600:
        polar = np.where(inside, np.exp(_log_polar(np.log(w) + cap.log_q, cap, dim)), polar)
    level = _beta_quantile(0.5, a, np.clip(rest, 0.0, 1.0))
    y, cosine_squared = np.where(share < 0.5, (polar, 1 - polar), (1 - level, level))
    cosine = np.sqrt(cosine_squared)
    return np.where(far, -cosine, cosine), np.sqrt(y)


def _beta_quantile(a: float, b: float, share: Floats) -> Floats:
    """The x with I_x(a, b) = share, as accurate as the forward function.

    scipy's inverse is off by up to 1e-8 of the share for some shapes of thousands, and grossly for a few: so it
    is only the start of Newton steps, and what these do not settle is bisected.
    """
    x = np.clip(np.nan_to_num(betaincinv(a, b, share), nan=0.5), 1e-300, 1.0)
    constant = float(betaln(a, b))
    for _ in range(3):
        inner = np.clip(x, 1e-300, 1 - 2.0**-53)
        log_density = (a - 1) * np.log(inner) + (b - 1) * np.log1p(-inner) - constant
        step = (betainc(a, b, x) - share) * np.exp(-np.clip(log_density, -700, 700))
        x = np.where(np.abs(step) < x / 2, np.minimum(x - step, 1.0), x)
    unsettled = np.flatnonzero(np.abs(betainc(a, b, x) - share) > 1e-12 * share)
    if unsettled.size:
        low, high = np.full(unsettled.size, -2000.0), np.zeros(unsettled.size)
        for _ in range(80):
            middle = (low + high) / 2
            below = betainc(a, b, np.exp(middle)) < share[unsettled]
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        x[unsettled] = np.exp(high)
    return np.asarray(x)


def _log_polar(log_share: Floats, cap: Cap, dim: int) -> Floats:
    """ln y with share of the sphere below y equal to e^log_share, by bisection (caps below e^-600)."""
    a = (dim - 1) / 2
    constant = math.log(0.5) - math.log(a) - float(betaln(a, 0.5))
    low = np.full_like(log_share, (cap.log_q - 50) / a - 10)
    high = np.full_like(log_share, cap.log_x)
    for _ in range(80):
        middle = (low + high) / 2
        x = np.exp(middle)
        share = constant + a * middle + 0.5 * np.log1p(-x) + np.log(hyp2f1(a + 0.5, 1.0, a + 1.0, x))
        low, high = np.where(share < log_share, middle, low), np.where(share < log_share, high, middle)
    return np.asarray(high)


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
