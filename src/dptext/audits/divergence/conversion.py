"""From a curve of Renyi divergences D_alpha at tested orders to an epsilon at a delta, in three ways.

None of them makes a guarantee. The curve is estimated in one embedding, and the true divergence of the texts is at
least as large. Given the curve, they claim different things::

    >>> from dptext.audits.divergence.conversion import cheapest_line, direct, paper_line
    >>> alphas, curve = (2.0, 5.0, 10.0, 20.0), (1.0, 2.5, 5.0, 10.0)  # normal with shift 1: alpha / 2
    >>> round(direct(alphas, curve, delta=1e-5).epsilon, 2)
    4.75
    >>> line = cheapest_line(alphas, curve, delta=1e-5)
    >>> round(line.intercept, 2), round(line.slope, 2), round(line.epsilon, 2)
    (0.0, 0.5, 5.3)
    >>> round(paper_line(alphas, curve, delta=1e-5).epsilon, 2)
    5.42
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.bounds import accuracy_implies
from dptext.audits.divergence.renyi import check_alphas
from dptext.audits.report import Result
from dptext.errors import ConfigError
from dptext.types import Floats

#: Delta of the published experiments on most corpora.
DELTA: Final = 8e-5
#: What the published code adds to the point after the knee.
LIFT: Final = 0.1

#: What each conversion may and may not claim; shown beside its number.
CLAIMS: Final = {
    "direct": "holds if the curve is right at the tested orders; needs nothing between or beyond them",
    "cheapest line": "holds if the true curve is below the line at every order above 1, not only where it was tested",
    "paper line": "as published; it need not lie above the curve, so it holds for nothing",
}


@dataclass(frozen=True, slots=True)
class Line(Result):
    """A line intercept + slope * alpha, read as (xi, rho)-zero-concentrated differential privacy.

    Its epsilon is xi + rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016), at least 0. It `is_above` if no tested
    point of the curve is above it.
    """

    intercept: float
    slope: float
    epsilon: float
    is_above: bool


@dataclass(frozen=True, slots=True)
class Direct(Result):
    """The best conversion at a tested order: the least epsilon over the orders, and the order `alpha` that gave it."""

    epsilon: float
    alpha: float


def _checked(alphas: Sequence[float], divergences: Sequence[float], delta: float) -> tuple[Floats, Floats]:
    orders, curve = check_alphas(alphas), np.asarray(divergences, np.float64)
    if curve.shape != orders.shape or np.isnan(curve).any():
        raise ConfigError(f"Expected a divergence for each of {len(orders)} orders, found shape {curve.shape}.")
    _validate.positive(delta=delta)
    if delta >= 1:
        raise ConfigError(f"Expected delta={delta!r} < 1.")
    return orders, curve


def line_epsilon(intercept: float, slope: float, *, delta: float) -> float:
    """xi + rho + 2 sqrt(rho ln(1/delta)), at least 0."""
    rho = max(slope, 0.0)
    return max(0.0, intercept + rho + 2 * math.sqrt(rho * math.log(1 / delta)))


def direct(alphas: Sequence[float], divergences: Sequence[float], *, delta: float) -> Direct:
    """min over tested orders of D + ln((a-1)/a) - (ln delta + ln a)/(a-1), at least 0.

    From Canonne, Kamath and Steinke 2020 (MATHS 3.3). Orders rise from above 1; divergences may be infinite, and below
    0 count as 0. A true divergence of 0 at one order means two equal distributions, but an estimated one does not:
    epsilon is 0 only where all divergences are.
    """
    orders, curve = _checked(alphas, divergences, delta)
    if (curve <= 0).all():
        return Direct(0.0, float(orders[0]))
    found = np.maximum(curve, 0.0) + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    found = np.maximum(found, 0.0)
    at = int(found.argmin())
    return Direct(float(found[at]), float(orders[at]))


def cheapest_line(alphas: Sequence[float], divergences: Sequence[float], *, delta: float) -> Line:
    """The line xi + rho alpha with the least epsilon, of those with xi, rho >= 0 that are nowhere below the curve.

    Epsilon is concave in (xi, rho) and grows with both. So over the lines above the curve it is least at a corner: a
    line through two points, through one point with xi = 0, or flat. All corners are tried. The arguments are those of
    `direct`. An infinite divergence gives an infinite epsilon.
    """
    orders, curve = _checked(alphas, divergences, delta)
    curve = np.maximum(curve, 0.0)
    if np.isinf(curve).any():
        return Line(math.inf, 0.0, math.inf, is_above=True)
    i, j = np.triu_indices(len(orders), 1)
    slopes = [0.0, *((curve[j] - curve[i]) / (orders[j] - orders[i])), *(curve / orders)]
    lines = [_above(orders, curve, max(float(slope), 0.0)) for slope in slopes]
    intercept, slope = min(lines, key=lambda line: line_epsilon(*line, delta=delta))
    return Line(intercept, slope, line_epsilon(intercept, slope, delta=delta), is_above=True)


def _above(orders: Floats, curve: Floats, slope: float) -> tuple[float, float]:
    """The lowest intercept of at least 0 for a slope, such that the line is above the curve in floats too."""
    intercept = max(0.0, float((curve - slope * orders).max()))
    while (intercept + slope * orders < curve).any():
        intercept = math.nextafter(intercept, math.inf)
    return intercept, slope


def paper_line(alphas: Sequence[float], divergences: Sequence[float], *, delta: float) -> Line:
    """The published line: through Kneedle's knee and the next point, lifted by 0.1. It needs at least two orders.

    Nothing puts it above the curve (MATHS 3.3); `is_above` says whether it is. Where Kneedle finds no knee, as on a
    straight line, the first point is taken: the publication does not say. An infinite divergence gives an infinite
    epsilon.
    """
    orders, curve = _checked(alphas, divergences, delta)
    if len(orders) < 2:
        raise ConfigError(f"Expected alphas={tuple(alphas)!r} to be at least two: a line needs two points.")
    if np.isinf(curve).any():
        return Line(math.inf, 0.0, math.inf, is_above=True)
    knee = find_knee(orders, curve)
    at = 0 if knee is None else knee
    slope = float((curve[at + 1] + LIFT - curve[at]) / (orders[at + 1] - orders[at]))
    intercept = float(curve[at] - slope * orders[at])
    above = bool((intercept + slope * orders >= curve - 1e-12 * (1 + np.abs(curve))).all())
    return Line(intercept, slope, line_epsilon(intercept, slope, delta=delta), is_above=above)


def find_knee(xs: Floats, ys: Floats) -> int | None:
    """The first knee of a rising concave curve by Kneedle with sensitivity 1 (Satopaa et al. 2011).

    Both axes are scaled to [0, 1]. A local maximum of y - x is a knee if, before the next maximum, y - x falls below it
    less the mean step of x, or below 0 after a local minimum. As in the package kneed, which the published code uses, a
    plateau counts as maxima and the last point is never a knee.
    """
    width, height = float(xs[-1] - xs[0]), float(ys.max() - ys.min())
    if height <= 0 or len(xs) < 2:
        return None
    x = (xs - xs[0]) / width
    difference = (ys - ys.min()) / height - x
    before = np.concatenate([difference[:1], difference[:-1]])  # the ends are compared with themselves
    after = np.concatenate([difference[1:], difference[-1:]])
    maxima = (difference >= before) & (difference >= after)
    minima = (difference <= before) & (difference <= after)
    step = abs(float(np.diff(x).mean()))
    threshold, knee = -math.inf, None
    for i in range(len(x) - 1):
        if maxima[i]:
            threshold, knee = float(difference[i]) - step, i
        if minima[i]:
            threshold = 0.0
        if knee is not None and difference[i + 1] < threshold:
            return knee
    return None


def is_inconsistent(epsilon: float, accuracy: float, *, delta: float) -> bool:
    """Whether so accurate an attack needs a larger epsilon: ln((accuracy - delta) / (1 - accuracy)) (MATHS 3.3)."""
    return epsilon < accuracy_implies(accuracy, delta=delta)
