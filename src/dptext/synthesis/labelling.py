"""Labelling public texts by noisy class means, and choosing those that leave.

All of it reads noisy numbers and public text alone, so it costs no privacy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from dptext.synthesis.pool import apportioned
from dptext.synthesis.pool_findings import Shortage
from dptext.synthesis.spec import MIX
from dptext.types import Floats, Integers

_SMOOTHED: Final = 9  # neighbouring directions whose signal is estimated together
_STEPS: Final = 3
_BLURRED: Final = 0.5  # largest noise of a usable class mean, in lengths of a point
_ROUNDS: Final = 200
_CLOSE: Final = 0.01  # the mix of the matched pool is within this part of each share
_UNLIKELY: Final = -300.0  # least difference of log-probabilities, so that odds stay within the range of floats
#: More texts of a label leave than the pool is estimated to have, in times: the numbers of the pool are noisy. Less is
#: said, too, where the user made up the mix, or a seventh of all texts seems to be of other kinds.
_NOISY: Final = 2.0
_LESS: Final = 1.05
_OTHERS: Final = 0.15
_ENOUGH: Final = 0.99  # of the texts: a pool that lacks fewer is short by chance
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
    signal = signal_of(apart, variance)
    kept = signal / np.maximum(signal + variance, 1e-300)
    return np.asarray(centre + np.where(variance > 0, kept, 1.0) * apart)


def signal_of(apart: Floats, variance: Floats) -> Floats:
    """Return the variance of the rows `apart` from their centres without their noise, by column `(dim,)`.

    See `shrunk`.
    """
    half = _SMOOTHED // 2
    signal = np.zeros(apart.shape[1])
    for _ in range(_STEPS):
        # By the variance of `apart**2`, whose mean is signal + variance.
        weights = 1 / np.maximum(signal + variance, 1e-12) ** 2
        signal = np.maximum(((apart**2 - variance) * weights).sum(axis=0) / weights.sum(axis=0), 0.0)
        if len(signal) >= _SMOOTHED:
            signal = np.convolve(np.pad(signal, half, mode="edge"), np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
    return signal


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


def pool_mix(scores: Floats, sizes: Floats, blurred: Floats) -> Floats:
    """Return the shares of the classes in the pool `(classes,)`, from scores `(n, classes)` with `sizes` as prior.

    Expectation maximization starts from equal shares (Saerens, Latinne and Decaestecker 2002), so that a class
    that is frequent in the private corpus is not overcounted in the pool. `blurred` is the length of the noise in each
    class mean. With noise of half a point's length or more, a class would seem to be everywhere: its share is then the
    share of the texts that fit the class best.
    """
    sharp = blurred < _BLURRED
    best = np.bincount(scores.argmax(axis=1), minlength=scores.shape[1]) / len(scores)
    if not sharp.any():
        return best
    likely = (scores - np.log(sizes / sizes.sum()))[:, sharp]
    chances = np.exp(likely - likely.max(axis=1, keepdims=True))
    shares = np.full(likely.shape[1], 1 / likely.shape[1])
    for _ in range(_ROUNDS):
        each = chances * np.maximum(shares, 1e-12)
        shares = (each / each.sum(axis=1, keepdims=True)).mean(axis=0)
    found = best.copy()
    found[sharp] = shares * (1 - best[~sharp].sum())
    return found


def fitting_size(scores: Floats, sizes: Floats, most: int) -> int:
    """Return the number of texts, up to `most`, that the pool has in the mix of the classes, within `MIX` (L1)."""
    shares, there = sizes / sizes.sum(), np.bincount(scores.argmax(axis=1), minlength=len(sizes))

    def missing(size: int) -> float:
        return float(np.maximum(shares - there / size, 0.0).sum())

    return bisect_right(range(1, most + 1), MIX / 2, key=missing)


def matched(scores: Floats, sizes: Floats) -> Floats:
    """Return log-probabilities `(n, classes)` by which the pool is expected to have the classes in this mix.

    `scores` are log-probabilities, and `sizes` `(classes,)` numbers in proportion to the mix. The odds of each class
    are multiplied by one number for all texts (Sinkhorn 1967). So a class that the pool lacks gets the texts that are
    nearest to it, and other classes get none of those.
    """
    chances = np.exp(np.maximum(scores - scores.max(axis=1, keepdims=True), _UNLIKELY))
    wanted = np.maximum(sizes / sizes.sum(), 1e-9) * len(scores)
    odds = np.ones(len(wanted))
    for _ in range(_ROUNDS):
        each = chances / (chances @ odds)[:, None]
        now = odds * each.sum(axis=0)
        if np.abs(now / wanted - 1).max() < _CLOSE:
            break
        odds *= wanted / now
    found = np.log(chances) + np.log(odds)
    return np.asarray(found - np.logaddexp.reduce(found, axis=1)[:, None])


def shortage(
    labels: Sequence[str], sizes: Floats, about: Floats, leaving: Integers, most: int, *, asked: bool = False
) -> Shortage | None:
    """Return the labels of which the pool has too few texts for `most` texts; None if it has enough.

    `about` are the estimated numbers of pool texts of each class, and `leaving` the numbers of those that leave. A mix
    that was `asked` for leaves as it is: a smaller excess of a label is named.
    """
    shares, leave = sizes / sizes.sum(), int(leaving.sum())
    less = asked or np.maximum(leaving - about, 0).sum() > _OTHERS * leave
    others = [c for c in range(len(shares)) if leaving[c] > max((_LESS if less else _NOISY) * about[c], leave * _FEW)]
    if not others and leave >= _ENOUGH * most:
        return None
    lacking = shares - about / most
    order = [int(c) for i, c in enumerate(np.argsort(-lacking, kind="stable")) if lacking[c] > 0 or not i]
    named = tuple((labels[c], float(shares[c]), float(about[c] / about.sum())) for c in order)
    there = int(min(about[c] / shares[c] for c in range(len(shares)) if shares[c] > 0))
    return Shortage(named, leave, most, tuple(labels[c] for c in others), min(there, leave))


def chosen(scores: Floats, sizes: Floats, size: int) -> tuple[Integers, Integers]:
    """Choose `size` texts; return their rows in the pool and their classes, which are in proportion to `sizes`.

    Each class takes its best texts, of those that fit it better than other classes. What is left goes to the best class
    that has room.
    """
    left = apportioned(sizes, min(size, len(scores)))
    label = np.full(len(scores), -1)
    while left.any():
        free, there = np.flatnonzero(label < 0), np.flatnonzero(left)
        best = there[scores[np.ix_(free, there)].argmax(axis=1)]
        for c in there:
            rows = free[best == c]
            rows = rows[np.argsort(-scores[rows, c], kind="stable")[: left[c]]]
            label[rows] = c
            left[c] -= len(rows)
    rows = np.flatnonzero(label >= 0)
    return rows, label[rows]
