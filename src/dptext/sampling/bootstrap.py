"""Percentile bootstrap intervals, for exploration; no refutation rests on one."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptext import _validate
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.types import Floats

T = TypeVar("T", bound=np.generic)

_TOGETHER = 1 << 12  # rows drawn together
_FEW = 30  # rows; of fewer the percentiles hold the mean less often than they say
Bounds = tuple[float, float]
_ANY: Bounds = (-math.inf, math.inf)


def bootstrap(
    values: NDArray[T],
    statistic: Callable[[NDArray[T]], float],
    *,
    source: Randomness,
    bounds: Bounds = _ANY,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> Estimate:
    """A statistic of rows `(n, ...)` with its percentile bootstrap interval (Efron 1979).

    Right only in the limit of many rows, so no refutation may rest on it: use counts and Clopper-Pearson there. The
    ends are order statistics of the resampled values, taken outwards, and widened to contain the statistic of `values`
    itself, which a biased statistic can otherwise leave. Fewer than 30 rows, or an interval without width, make it
    wider still (`allowing_unseen`), by the `bounds` of the statistic. Whole rows are drawn, exactly uniformly from the
    source. ConfigError for no rows, a statistic that is NaN, or too few resamples for the confidence.
    """
    found = _bootstrap(values, lambda many: [float(statistic(rows)) for rows in many], source, resamples, confidence)
    return allowing_unseen(found, len(values), bounds)


def bootstrap_mean(values: Floats, *, seed: int, bounds: Bounds, confidence: float = 0.95) -> Estimate:
    """The mean of values `(n,)` within `bounds`, with its interval as of `bootstrap`, for experiments."""
    found = _bootstrap(values, lambda many: many.mean(axis=1), seeded(seed), 1000, confidence)
    return allowing_unseen(found, len(values), bounds)


def allowing_unseen(found: Estimate, n: int, bounds: Bounds) -> Estimate:
    """A bootstrap estimate of n rows, wider where these are fewer than 30, or where the interval has no width.

    Resamples know nothing but the rows. What n rows did not show once can be a share u = 1 - alpha^(1/n) of all there
    are, the Clopper-Pearson bound of 0 in n for alpha = (1 - confidence) / 2. So much weight goes to the worst value:
    each end moves by u of its way to the bound. One row says next to nothing so, whatever it is.
    """
    if n >= _FEW and found.low < found.high:
        return found
    unseen = -math.expm1(math.log(bonferroni(found.confidence, 2)) / n)
    low, high = found.low - unseen * (found.low - bounds[0]), found.high + unseen * (bounds[1] - found.high)
    return Estimate(found.value, min(low, found.low), max(high, found.high), found.confidence)


def _bootstrap(
    values: NDArray[T], found: Callable[[NDArray[T]], ArrayLike], source: Randomness, resamples: int, confidence: float
) -> Estimate:
    """`bootstrap` for a statistic of many samples at once: of `(samples, n, ...)` comes `(samples,)`."""
    _validate.count(resamples=resamples)
    alpha = bonferroni(confidence, 2)
    rank = math.floor(alpha * (resamples + 1))
    if rank < 1:
        least = math.ceil(1 / alpha) - 1
        raise ConfigError(f"Expected resamples={resamples!r} >= {least} for confidence={confidence!r}.")
    n = values.shape[0] if values.ndim else 0
    if n == 0:
        raise ConfigError(f"Expected values of shape {values.shape} to have at least one row.")
    value = float(np.asarray(found(values[None]))[0])
    drawn = np.empty(resamples)
    together = max(1, _TOGETHER // n)  # all at once, resamples x n row numbers would not fit in memory
    for start in range(0, resamples, together):
        part = drawn[start : start + together]
        part[:] = found(values[uniform_below(n, part.size * n, source).reshape(part.size, n)])
    if math.isnan(value) or np.isnan(drawn).any():
        raise ConfigError("Expected the statistic to be a number for every resample, found NaN.")
    drawn.sort()
    return Estimate(value, min(value, float(drawn[rank - 1])), max(value, float(drawn[-rank])), confidence)
