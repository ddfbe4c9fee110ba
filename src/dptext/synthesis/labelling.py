"""Labelling public texts by noisy class means, and choosing those that leave.

All of it reads noisy numbers and public text alone, so it costs no privacy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from dptext.synthesis.report import Shortage
from dptext.synthesis.spec import MIX
from dptext.types import Floats, Integers

_SMOOTHED: Final = 9  # neighbouring directions whose signal is estimated together
_STEPS: Final = 3
_SMALLEST: Final = 100  # scarce labels shrink the output by this factor at most
_BLURRED: Final = 0.5  # largest noise of a usable class mean, in lengths of a point
_ROUNDS: Final = 100
_FEW: Final = 0.02  # labels with a smaller share of the released texts are not reported in `others`
# Ridge, as a part of the mean variance. Without a ridge the last directions decide, in which only the pool varies.
_RIDGE: Final = 0.3
_PRIOR: Final = 0.5  # position of a prior mean, from the pool's mean (0) to the texts most like the class name (1)


def shrunk(noisy: Floats, centre: Floats, variance: Floats) -> Floats:
    """Return noisy rows `(n, dim)` pulled towards their centres: the larger the share of noise, the stronger the pull.

    `variance` of the noise is `(n, 1)` or `(n, dim)`. The share of noise in the variance of each column is estimated
    from the rows themselves (empirical Bayes; Efron and Morris 1973), over neighbouring columns together. Rows with
    more noise weigh less in this estimate.
    """
    apart = noisy - centre
    half = _SMOOTHED // 2
    signal = np.zeros(noisy.shape[1])
    for _ in range(_STEPS):
        # By the variance of `apart**2`, whose mean is signal + variance.
        weights = 1 / np.maximum(signal + variance, 1e-12) ** 2
        signal = np.maximum(((apart**2 - variance) * weights).sum(axis=0) / weights.sum(axis=0), 0.0)
        if len(signal) >= _SMOOTHED:
            signal = np.convolve(np.pad(signal, half, mode="edge"), np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
    kept = signal / np.maximum(signal + variance, 1e-300)
    return np.asarray(centre + np.where(variance > 0, kept, 1.0) * apart)


def class_sizes(noisy: Floats, deviation: float) -> Floats:
    """Return noisy numbers of units `(n,)`, shrunk towards their mean by the share of noise; each at least 1."""
    numbers = noisy[:, None]
    return np.maximum(shrunk(numbers, numbers.mean(axis=0), np.full(numbers.shape, deviation**2))[:, 0], 1)


def prior_means(pool: Floats, likeness: Floats) -> Floats:
    """Return prior class means `(classes, dim)`.

    A prior mean is half-way between the mean of the pool and the mean of the texts that are more like this class than
    like any other, by `likeness` `(n, classes)`.
    """
    best = likeness.argmax(axis=1)
    middle = pool.mean(axis=0)
    means = [pool[best == c].mean(axis=0) if (best == c).any() else middle for c in range(likeness.shape[1])]
    return np.asarray(middle + _PRIOR * (np.stack(means) - middle))


def class_scores(points: Floats, pool: Floats, means: Floats, sizes: Floats) -> Floats:
    """Return the log-probability of each class for each point, `(n, classes)`, by linear discriminants.

    The covariance is that of the whole pool, whose classes are unknown. Leaving the spread between class means out of
    the covariance gave worse results.
    """
    covariance = np.atleast_2d(np.cov(pool.T))
    covariance += _RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    scores = points @ weights - 0.5 * np.sum(means.T * weights, axis=0) + np.log(sizes / sizes.sum())
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1)[:, None])


def pool_counts(scores: Floats) -> Integers:
    """Return the number of pool texts that fit each class best, `(classes,)`, from scores `(n, classes)`."""
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1])


def pool_mix(scores: Floats, sizes: Floats, blurred: Floats) -> Floats:
    """Return the shares of the classes in the pool `(classes,)`, from scores `(n, classes)` with `sizes` as prior.

    Expectation maximization starts from equal shares (Saerens, Latinne and Decaestecker 2002), so that a class
    that is frequent in the private corpus is not overcounted in the pool. `blurred` is the length of the noise in each
    class mean. With noise of half a point's length or more, a class would seem to be everywhere: its share is then the
    share of the texts that fit the class best.
    """
    sharp = blurred < _BLURRED
    best = pool_counts(scores) / len(scores)
    if not sharp.any():
        return best
    likely = (scores - np.log(sizes / sizes.sum()))[:, sharp]
    shares = np.full(likely.shape[1], 1 / likely.shape[1])
    for _ in range(_ROUNDS):
        chances = likely + np.log(np.maximum(shares, 1e-12))
        shares = np.exp(chances - np.logaddexp.reduce(chances, axis=1)[:, None]).mean(axis=0)
    found = best.copy()
    found[sharp] = shares * (1 - best[~sharp].sum())
    return found


def missing(shares: Floats, there: Integers, size: int) -> float:
    """Return the share of `size` texts that the pool lacks for this mix of classes.

    `there` `(classes,)` are the numbers of pool texts of each class.
    """
    return float(np.maximum(shares - there / size, 0.0).sum())


def fitting_size(scores: Floats, sizes: Floats, most: int) -> int:
    """Return the number of texts, up to `most`, that the pool has in the mix of the classes, within `MIX` (L1).

    A class is given up if the pool has less than 1/100 of the texts that the class should have among `most`. If the
    given-up classes exceed `MIX / 2` of the mix, only the other classes keep their proportions.
    """
    shares = sizes / sizes.sum()
    for size in range(most, most // 5, -max(1, most // 20)):
        found = np.bincount(chosen(scores, sizes, size)[1], minlength=len(sizes))
        if np.abs(found / found.sum() - shares).sum() <= MIX:
            return size
    there = pool_counts(scores)
    lacked = there < shares * most / _SMALLEST
    if shares[lacked].sum() > MIX / 2:
        shares = np.where(lacked, 0.0, shares) / shares[~lacked].sum()
    return max(1, bisect_right(range(1, most + 1), MIX / 2, key=lambda size: missing(shares, there, size)))


def shortage(
    labels: Sequence[str], sizes: Floats, there: tuple[Integers, Floats], leaving: Integers, most: int
) -> Shortage | None:
    """Return the labels of which the pool has too few texts for `most` texts; None if the pool has enough.

    `leaving` are the numbers of released texts of each class. `there` is a pair: the numbers of pool texts that fit
    each class best, and the estimated numbers of pool texts of each class.
    """
    shares, leave, (best, about) = sizes / sizes.sum(), int(leaving.sum()), there
    kept = missing(shares, best, leave) <= MIX / 2
    others = [c for c in range(len(shares)) if leaving[c] > max(2 * about[c], leave * _FEW)]
    if kept and leave == most and not others:
        return None
    lacking = shares - about / most
    order = [int(c) for c in np.argsort(-lacking, kind="stable") if lacking[c] > 0]
    pool = int(best.sum())
    named = tuple((labels[c], float(shares[c]), float(about[c] / pool)) for c in order)
    return Shortage(named, leave, most, kept, tuple(labels[c] for c in others))


def chosen(scores: Floats, sizes: Floats, size: int) -> tuple[Integers, Integers]:
    """Choose at most `size` texts; return their rows in the pool and their classes.

    Each class gives its best texts, in proportion to its size. Where a class runs out, other classes fill up.
    """
    best = scores.argmax(axis=1)
    order = [
        np.flatnonzero(best == c)[np.argsort(-scores[best == c, c], kind="stable")] for c in range(scores.shape[1])
    ]
    there = np.array([len(each) for each in order])
    quota = np.zeros(len(there), np.int64)
    open_ = (there > 0) & (sizes > 0)
    while (left := size - quota.sum()) > 0 and open_.any():
        more = np.maximum(1, np.floor(left * sizes / sizes[open_].sum())).astype(np.int64) * open_
        if more.sum() > left:  # one text each for the largest classes
            more = np.zeros_like(more)
            more[np.argsort(-np.where(open_, sizes, -1.0), kind="stable")[:left]] = 1
        quota = np.minimum(quota + more * open_, there)
        open_ &= quota < there
    rows = np.concatenate([each[:n] for each, n in zip(order, quota, strict=True)])
    return rows, best[rows]
