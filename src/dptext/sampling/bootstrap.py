"""Percentile bootstrap intervals, for exploration. No refutation of a claim relies on them."""

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
from dptext.types import Floats, Integers

T = TypeVar("T", bound=np.generic)

_TOGETHER = 1 << 12  # rows drawn together
_FEW = 30  # rows; for fewer, percentile intervals cover the mean less often than stated
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

    The coverage is right only in the limit of many rows, so no refutation may rely on the interval: use counts and
    Clopper-Pearson there. The ends are order statistics of the resampled values, rounded outwards. They are widened to
    contain the statistic of `values`, which lies outside for some biased statistics. For fewer than 30 rows, or an
    interval without width, `allowing_unseen` widens the interval towards the `bounds` of the statistic. Whole rows are
    drawn, exactly uniformly, from the source. ConfigError: no rows, a statistic that is NaN, or too few resamples for
    the confidence.
    """
    found = _bootstrap(values, lambda many: [float(statistic(rows)) for rows in many], source, resamples, confidence)
    return allowing_unseen(found, len(values), bounds)


def bootstrap_mean(values: Floats, *, seed: int, bounds: Bounds, confidence: float = 0.95) -> Estimate:
    """The mean of values `(n,)` within `bounds`, with an interval of `bootstrap`, for experiments."""
    found = _bootstrap(values, lambda many: many.mean(axis=1), seeded(seed), 1000, confidence)
    return allowing_unseen(found, len(values), bounds)


def bootstrap_f1(
    true: Integers, given: Integers, n_labels: int, *, source: Randomness, confidence: float = 0.95
) -> Estimate:
    """`mean_f1` of the codes of `(n,)` texts, with the interval that `bootstrap` gives it over the texts."""
    pairs = np.stack([true, given], axis=1)
    found = _bootstrap(pairs, lambda many: mean_f1(many[:, :, 0], many[:, :, 1], n_labels), source, 1000, confidence)
    return allowing_unseen(found, len(pairs), (0.0, 1.0))


def mean_f1(true: Integers, given: Integers, n_labels: int) -> Floats:
    """The mean F1 of each sample, `(samples,)`, over the labels that occur in its `true` or `given`.

    Args:
        true: codes of labels, `(samples, n)`.
        given: what they were taken for; the code `n_labels` is no label.
        n_labels: the number of labels.
    """
    shape = len(true), n_labels + 1  # all samples are counted together, each in places of its own
    first = np.arange(shape[0])[:, None] * shape[1]

    def counted(codes: Integers) -> Integers:
        return np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)[:, :n_labels]

    right = counted((first + true)[true == given])
    seen = counted((first + true).ravel()) + counted((first + given).ravel())
    absent = seen == 0
    f1 = np.take_along_axis(2 * right / np.maximum(seen, 1), np.argsort(absent, axis=1, kind="stable"), axis=1)
    occurring, means = n_labels - absent.sum(axis=1), np.empty(len(true))
    for number in np.unique(occurring):  # few of them: what occurs stands in the first places
        rows = occurring == number
        means[rows] = f1[rows][:, :number].mean(axis=1)
    return means


def allowing_unseen(found: Estimate, n: int, bounds: Bounds) -> Estimate:
    """Widen a bootstrap estimate of n rows if n < 30, or if the interval has no width.

    Resamples contain only values of the n rows. Values that no row has may be a share u = 1 - alpha^(1/n) of the
    population, the Clopper-Pearson bound for 0 of n at alpha = (1 - confidence) / 2. They are counted as the worst
    value: each end moves by u of its distance to the bound. So one row alone gives a nearly vacuous interval.
    """
    if n >= _FEW and found.low < found.high:
        return found
    unseen = -math.expm1(math.log(bonferroni(found.confidence, 2)) / n)
    low, high = found.low - unseen * (found.low - bounds[0]), found.high + unseen * (bounds[1] - found.high)
    return Estimate(found.value, min(low, found.low), max(high, found.high), found.confidence)


def _bootstrap(
    values: NDArray[T], found: Callable[[NDArray[T]], ArrayLike], source: Randomness, resamples: int, confidence: float
) -> Estimate:
    """`bootstrap` for a statistic that maps many samples `(samples, n, ...)` to `(samples,)` at once."""
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
    together = max(1, _TOGETHER // n)  # the row numbers of all resamples at once would not fit into memory
    for start in range(0, resamples, together):
        part = drawn[start : start + together]
        part[:] = found(values[uniform_below(n, part.size * n, source).reshape(part.size, n)])
    if math.isnan(value) or np.isnan(drawn).any():
        raise ConfigError("Expected the statistic to be a number for every resample, found NaN.")
    drawn.sort()
    return Estimate(value, min(value, float(drawn[rank - 1])), max(value, float(drawn[-rank])), confidence)
