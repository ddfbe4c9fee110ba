"""A lower bound on Renyi divergences and on epsilon that holds with a stated confidence, whatever was learned."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import beta

from dptext.audits.bounds import epsilon_from_rates, renyi_from_rates
from dptext.audits.divergence.density_ratio import LEAST_ROWS, LogRatio, RatioModel, train_log_ratio
from dptext.audits.divergence.renyi import check_alphas, check_samples
from dptext.audits.report import Result
from dptext.errors import ConfigError
from dptext.estimates import bonferroni
from dptext.types import Booleans, Floats

_THRESHOLDS: Final = 200
#: Events that are counted: one chosen for each direction.
_EVENTS: Final = 2


@dataclass(frozen=True, slots=True)
class CertifiedBound(Result):
    """Lower bounds that hold together with probability `confidence`, if the rows were drawn independently.

    They are of D_alpha(P || Q) and of D_alpha(Q || P) for each order (0 says nothing), and of the epsilon at `delta`
    between the two distributions of vectors. So many rows of either set were counted.
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
        """Of the larger direction."""
        return tuple(max(pair) for pair in zip(self.forward, self.backward, strict=True))


def certify(
    first: Floats,
    second: Floats,
    alphas: Sequence[float],
    *,
    models: Sequence[RatioModel],
    delta: float,
    confidence: float,
    seed: int,
) -> CertifiedBound:
    """Lower bounds on both divergences and on epsilon, by counting two events on rows that chose nothing.

    Each set, `(n, d)` and `(m, d)`, is cut into three. The first third trains scores. The second chooses an event for
    each direction: the score and the threshold that bound D_2 best there. The last is counted. An event turns the
    vectors into one bit, whose divergence is no larger than theirs, and Clopper-Pearson bounds its two rates (MATHS
    3.4, 7). Two events are looked at, so the error is halved. The bounds of all orders and of both directions follow
    from the same two rates. Samples or orders that cannot be used, or no models, raise ConfigError.
    """
    orders = check_alphas(alphas)
    check_samples(first, second, least=LEAST_ROWS)
    if not models:
        raise ConfigError("Expected models, one at least.")
    rng = np.random.default_rng(seed)
    cut = [np.array_split(rng.permutation(len(rows)), 3) for rows in (first, second)]
    learned, chosen, counted = ((first[a], second[b]) for a, b in zip(*cut, strict=True))
    scorers = [train_log_ratio(*learned, model=model, seed=int(rng.integers(2**31))) for model in models]
    alpha = bonferroni(confidence, 2 * _EVENTS)  # two rates each
    values = [(score(chosen[0]), score(chosen[1])) for score in scorers]
    events = [
        _choose(values, scorers, alpha=alpha, sign=1.0),
        _choose([(-down, -up) for up, down in values], scorers, alpha=alpha, sign=-1.0),
    ]
    renyi = functools.partial(renyi_from_rates, confidence=confidence, tests=_EVENTS)
    n, m = len(counted[0]), len(counted[1])
    forward, backward, epsilon = np.zeros(len(orders)), np.zeros(len(orders)), 0.0
    for event in events:
        # The event speaks of P against Q and its complement of Q against P, whichever it was chosen for.
        hits = int(event(counted[0]).sum()), int(event(counted[1]).sum())
        there = [renyi(hits[0], n, false_positives=hits[1], negatives=m, alpha=a) for a in orders.tolist()]
        back = [renyi(m - hits[1], m, false_positives=n - hits[0], negatives=n, alpha=a) for a in orders.tolist()]
        forward, backward = np.maximum(forward, there), np.maximum(backward, back)
        bound = epsilon_from_rates(
            hits[0], n, false_positives=hits[1], negatives=m, delta=delta, confidence=confidence, tests=_EVENTS
        )
        epsilon = max(epsilon, bound.epsilon)
    alphas, ahead, behind = (tuple(each.tolist()) for each in (orders, forward, backward))
    return CertifiedBound(alphas, ahead, behind, epsilon, delta, confidence, (n, m))


def _choose(
    values: Sequence[tuple[Floats, Floats]], scorers: Sequence[LogRatio], *, alpha: float, sign: float
) -> Callable[[Floats], Booleans]:
    """The event with the best bound on D_2(P || Q) (sign 1) or D_2(Q || P) (sign -1), as one more frequent in P."""
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
    if sign > 0:
        return lambda rows: score(rows) > threshold
    return lambda rows: ~(-score(rows) > threshold)
