"""From noisy sums to labelled texts: public texts, read by a classifier that was made of noisy class means.

All of it reads noisy sums and public text, and costs nothing more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dptext.types import Floats, Integers

_SMOOTHED: Final = 9  # neighbouring directions whose signal is estimated together
_STEPS: Final = 3
_MIX: Final = 0.1
_RIDGE: Final = 0.3  # of the mean variance: the pool's last directions are its own, and its texts stood out in them
_PRIOR: Final = 0.5  # how far a class mean is drawn from the middle of all to where its name puts it


def shrunk(noisy: Floats, centre: Floats, variance: Floats) -> Floats:
    """Noisy rows `(n, dim)` drawn towards their centres, in each column by the part that noise has in its variance.

    `variance` of the noise is `(n, 1)` or `(n, dim)`. The part is estimated from the rows themselves (empirical Bayes;
    Efron and Morris 1973), over neighbouring columns together. A row counts the less in this, the more noise it has.
    """
    apart = noisy - centre
    half = _SMOOTHED // 2
    signal = np.zeros(noisy.shape[1])
    for _ in range(_STEPS):
        weights = 1 / np.maximum(signal + variance, 1e-12) ** 2  # of a square whose mean is signal + variance
        signal = np.maximum(((apart**2 - variance) * weights).sum(axis=0) / weights.sum(axis=0), 0.0)
        if len(signal) >= _SMOOTHED:
            signal = np.convolve(np.pad(signal, half, mode="edge"), np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
    kept = signal / np.maximum(signal + variance, 1e-300)
    return np.asarray(centre + np.where(variance > 0, kept, 1.0) * apart)


def class_sizes(noisy: Floats, deviation: float) -> Floats:
    """Noisy numbers of units `(n,)`, drawn towards their mean by what is noise in them; at least 1."""
    return np.maximum(
        shrunk(noisy[:, None], noisy[:, None].mean(axis=0), np.full((len(noisy), 1), deviation**2))[:, 0], 1
    )


def prior_means(pool: Floats, likeness: Floats) -> Floats:
    """Where label names put classes, `(classes, dim)`: half-way to the mean of the pool texts that are most like each.

    `likeness` of each pool text to the name of each label is `(n, classes)`.
    """
    best = likeness.argmax(axis=1)
    middle = pool.mean(axis=0)
    means = [pool[best == c].mean(axis=0) if (best == c).any() else middle for c in range(likeness.shape[1])]
    return np.asarray(middle + _PRIOR * (np.stack(means) - middle))


def class_scores(pool: Floats, means: Floats, sizes: Floats) -> Floats:
    """ln of the chance of each class for each pool text `(n, classes)`, by linear discriminants.

    The covariance is that of the pool, whose class is not known: measured better than one without the spread of means.
    """
    covariance = np.cov(pool.T)
    covariance += _RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    scores = pool @ weights - 0.5 * np.sum(means.T * weights, axis=0) + np.log(sizes / sizes.sum())
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1)[:, None])


def fitting_size(scores: Floats, sizes: Floats, most: int) -> int:
    """As many texts, up to `most`, as the pool has in the mix of the classes: shares within a tenth of it in all."""
    shares = sizes / sizes.sum()
    for size in range(most, most // 5, -max(1, most // 20)):
        found = np.bincount(chosen(scores, sizes, size)[1], minlength=len(sizes))
        if np.abs(found / found.sum() - shares).sum() <= _MIX:
            return size
    return max(1, most // 5)


def chosen(scores: Floats, sizes: Floats, size: int) -> tuple[Integers, Integers]:
    """`size` texts at most and their classes: of each class, by its share, those that fit it best.

    A text has its best class. What a class has too few texts for goes to the others.
    """
    best = scores.argmax(axis=1)
    order = [
        np.flatnonzero(best == c)[np.argsort(-scores[best == c, c], kind="stable")] for c in range(scores.shape[1])
    ]
    there = np.array([len(each) for each in order])
    quota = np.zeros(len(there), np.int64)
    open_ = there > 0
    while (left := size - quota.sum()) > 0 and open_.any():
        more = np.maximum(1, np.floor(left * sizes / sizes[open_].sum())).astype(np.int64) * open_
        if more.sum() > left:  # one each of the largest
            more = np.zeros_like(more)
            more[np.argsort(-np.where(open_, sizes, -1.0), kind="stable")[:left]] = 1
        quota = np.minimum(quota + more * open_, there)
        open_ = quota < there
    rows = np.concatenate([each[:n] for each, n in zip(order, quota, strict=True)])
    return rows, best[rows]
