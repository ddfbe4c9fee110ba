"""Conversion of a curve of Renyi divergences D_alpha at tested orders to an epsilon at a delta, in three ways.

None of the conversions makes a guarantee. The curve is estimated in one embedding, and the true divergence of the texts
is at least as large. Given the curve, the conversions claim different things (`CLAIMS`). `certify` computes a certified
bound, which holds with a stated confidence, whatever was learned.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import beta

from dptext import _validate
from dptext.audits.bounds import epsilon_from_rates, renyi_from_rates
from dptext.audits.report import Result
from dptext.errors import ConfigError
from dptext.estimates import bonferroni
from dptext.types import Booleans, Floats
from dptext_lab.redaction.divergence.density_ratio import LEAST_ROWS, LogRatio, RatioModel, train_log_ratio
from dptext_lab.redaction.divergence.renyi import check_alphas, check_samples

#: Delta of the published experiments on most corpora.
DELTA: Final = 8e-5
#: The published code adds this number to the point after the knee.
LIFT: Final = 0.1

#: The claim of each conversion, shown beside its number.
CLAIMS: Final = {
    "direct": "holds if the curve is right at the tested orders; needs nothing between or beyond them",
    "cheapest line": "holds if the true curve is below the line at every order above 1, not only where it was tested",
    "paper line": "as published; it need not lie above the curve, so it holds for nothing",
}


@dataclass(frozen=True, slots=True)
class Line(Result):
    """A line intercept + slope * alpha, read as (xi, rho)-zero-concentrated differential privacy.

    The epsilon of the line is xi + rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016), at least 0. `is_above` says
    that no tested point of the curve is above the line.
    """

    intercept: float
    slope: float
    epsilon: float
    is_above: bool


@dataclass(frozen=True, slots=True)
class Direct(Result):
    """The best conversion at a tested order: the least epsilon over the orders, and its order `alpha`."""

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
    """Return the epsilon of a line, xi + rho + 2 sqrt(rho ln(1/delta)), at least 0."""
    rho = max(slope, 0.0)
    return max(0.0, intercept + rho + 2 * math.sqrt(rho * math.log(1 / delta)))


def direct(alphas: Sequence[float], divergences: Sequence[float], *, delta: float) -> Direct:
    """Return min over tested orders of D + ln((a-1)/a) - (ln delta + ln a)/(a-1), at least 0.

    The formula is of Canonne, Kamath and Steinke 2020 (derivations, "Epsilon from divergences"). Orders rise from above
    1; divergences may be infinite, and count as 0 if below 0. A true divergence of 0 at one order means two equal
    distributions, but an estimated divergence of 0 does not: epsilon is 0 only if all divergences are.
    """
    orders, curve = _checked(alphas, divergences, delta)
    if (curve <= 0).all():
        return Direct(0.0, float(orders[0]))
    found = np.maximum(curve, 0.0) + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    found = np.maximum(found, 0.0)
    at = int(found.argmin())
    return Direct(float(found[at]), float(orders[at]))


def cheapest_line(alphas: Sequence[float], divergences: Sequence[float], *, delta: float) -> Line:
    """Return the line xi + rho alpha of least epsilon among lines with xi, rho >= 0 that are nowhere below the curve.

    Epsilon is concave in (xi, rho) and grows with both. So over the lines above the curve epsilon is least at a corner:
    a line through two points, through one point with xi = 0, or flat. All corners are tried. The arguments are those of
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
    """Return the lowest intercept of at least 0 for a slope, such that the line is above the curve in floats too."""
    intercept = max(0.0, float((curve - slope * orders).max()))
    while (intercept + slope * orders < curve).any():
        intercept = math.nextafter(intercept, math.inf)
    return intercept, slope


def paper_line(alphas: Sequence[float], divergences: Sequence[float], *, delta: float) -> Line:
    """Return the published line: through Kneedle's knee and the next point, lifted by 0.1, from at least two orders.

    Nothing puts the line above the curve (derivations, "Epsilon from divergences"); `is_above` says whether it is.
    Where Kneedle finds no knee, as on a straight line, the first point is taken: the publication leaves this case open.
    An infinite divergence gives an infinite epsilon.
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
    """Return the first knee of a rising concave curve by Kneedle with sensitivity 1 (Satopaa et al. 2011).

    Both axes are scaled to [0, 1]. A local maximum of y - x is a knee if, before the next maximum, y - x falls below it
    less the mean step of x, or below 0 after a local minimum. As in the package kneed, which the published code uses, a
    plateau counts as maxima and the last point is never a knee.
    """
    width, height = float(xs[-1] - xs[0]), float(ys.max() - ys.min())
    if height <= 0 or len(xs) < 2:
        return None
    x = (xs - xs[0]) / width
    difference = (ys - ys.min()) / height - x
    before = np.concatenate([difference[:1], difference[:-1]])  # each end is compared with itself
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


_THRESHOLDS: Final = 200
#: Number of counted events: one for each direction.
_EVENTS: Final = 2


@dataclass(frozen=True, slots=True)
class CertifiedBound(Result):
    """Lower bounds that hold together with probability `confidence`, if the rows were drawn independently.

    The bounds are on D_alpha(P || Q) and D_alpha(Q || P) for each order (0 says nothing), and on the epsilon at `delta`
    between the two distributions of vectors. `rows` are the numbers of counted rows of either set.
    """

    alphas: tuple[float, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    epsilon: float
    delta: float
    confidence: float
    rows: tuple[int, int]

    @property
    def divergences(self) -> tuple[float, ...]:
        """For each order, the bound of the larger direction."""
        return tuple(max(pair) for pair in zip(self.forward, self.backward, strict=True))


def certify(
    first: Floats,
    second: Floats,
    alphas: Sequence[float],
    *,
    models: Sequence[RatioModel] = tuple(RatioModel),
    delta: float,
    confidence: float,
    seed: int,
) -> CertifiedBound:
    """Return lower bounds on both divergences and on epsilon, by counting two events on rows that chose nothing.

    Each set, `(n, d)` and `(m, d)`, is cut into three. The first third trains scores. The second third chooses an event
    for each direction: the score and the threshold that bound D_2 best there. The last third is counted. An event turns
    the vectors into one bit, whose divergence is no larger than the vectors', and Clopper-Pearson bounds its two rates
    (derivations, "Clopper-Pearson bounds" and "Divergence of one event"). Two events are examined, so the error is
    halved. The bounds of all orders and of both directions follow from the same two rates. Samples or orders that
    cannot be used, or no models, raise ConfigError.
    """
    orders = check_alphas(alphas)
    check_samples(first, second, least=LEAST_ROWS)
    if not models:
        raise ConfigError("Expected models, one at least.")
    rng = np.random.default_rng(seed)
    cut = [np.array_split(rng.permutation(len(rows)), 3) for rows in (first, second)]
    learned, chosen, counted = ((first[a], second[b]) for a, b in zip(*cut, strict=True))
    scorers = [train_log_ratio(*learned, model=model, seed=int(rng.integers(2**31))) for model in models]
    alpha = bonferroni(confidence, 2 * _EVENTS)  # each event has two rates
    values = [(score(chosen[0]), score(chosen[1])) for score in scorers]
    turned = [(-down, -up) for up, down in values]
    events = [_choose(there, scorers, alpha=alpha, sign=sign) for there, sign in ((values, 1.0), (turned, -1.0))]
    renyi = functools.partial(renyi_from_rates, confidence=confidence, tests=_EVENTS)
    at_delta = functools.partial(epsilon_from_rates, delta=delta, confidence=confidence, tests=_EVENTS)
    n, m = len(counted[0]), len(counted[1])
    forward, backward, epsilon = np.zeros(len(orders)), np.zeros(len(orders)), 0.0
    for event in events:
        # The event bounds P against Q, and its complement Q against P, whichever direction it was chosen for.
        hits = int(event(counted[0]).sum()), int(event(counted[1]).sum())
        there = [renyi(hits[0], n, false_positives=hits[1], negatives=m, alpha=a) for a in orders.tolist()]
        back = [renyi(m - hits[1], m, false_positives=n - hits[0], negatives=n, alpha=a) for a in orders.tolist()]
        forward, backward = np.maximum(forward, there), np.maximum(backward, back)
        epsilon = max(epsilon, at_delta(hits[0], n, false_positives=hits[1], negatives=m).epsilon)
    alphas, ahead, behind = (tuple(each.tolist()) for each in (orders, forward, backward))
    return CertifiedBound(alphas, ahead, behind, epsilon, delta, confidence, (n, m))


def _choose(
    values: Sequence[tuple[Floats, Floats]], scorers: Sequence[LogRatio], *, alpha: float, sign: float
) -> Callable[[Floats], Booleans]:
    """Return the event, more frequent in P, with the best bound on D_2(P || Q) (sign 1) or D_2(Q || P) (sign -1)."""
    best, which, threshold = -math.inf, 0, 0.0
    for i, (high, low) in enumerate(values):
        tried = np.unique(np.quantile(np.concatenate([high, low]), np.linspace(0, 1, _THRESHOLDS), method="lower"))
        above = [len(rows) - np.searchsorted(np.sort(rows), tried, side="right") for rows in (high, low)]
        p = beta.ppf(alpha, above[0], len(high) - above[0] + 1)
        q = beta.ppf(1 - alpha, above[1] + 1, len(low) - above[1])
        p, q = np.nan_to_num(p, nan=0.0), np.nan_to_num(q, nan=1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = np.where(p > q, (p - q) ** 2 / (q * (1 - q)), 0.0)  # exp(D_2) - 1 of the two rates
        at = int(bounds.argmax())
        if bounds[at] > best:
            best, which, threshold = float(bounds[at]), i, float(tried[at])
    score = scorers[which]
    return lambda rows: score(rows) > threshold if sign > 0 else ~(-score(rows) > threshold)
