"""Renyi divergence between two samples of vectors, as if both were normal with one covariance.

D_alpha(P || Q) = ln E_P[(p/q)^(alpha - 1)] / (alpha - 1), in nats. A function takes rows of P and of Q and gives one
number for each order alpha::

    >>> import numpy as np
    >>> from dptext.audits.divergence.renyi import gaussian
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.standard_normal((4000, 2)) + [2.0, 0.0], rng.standard_normal((4000, 2))
    >>> gaussian(first, second, (2.0, 5.0)).round(1).tolist()  # true: 4 and 10
    [3.9, 9.8]

Other estimates are in the modules `knn` and `density_ratio`, and a bound that is certified in `certified`. Every
estimate is wrong in ways that its docstring names.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.types import Floats

#: Orders at which divergences are estimated: those of the published code (1.1, 10, 20, 30, 50) and smaller ones.
ALPHAS: Final = (1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0)
#: A direction has no variance if it has less than this share of the largest one.
_NO_VARIANCE: Final = 1e-11
#: In a direction without variance, means differ if they are further apart than this share of the largest standard
#: deviation.
_APART: Final = 1e-4


def check_alphas(alphas: Sequence[float]) -> Floats:
    """The orders as an array; ConfigError unless there are some, finite, above 1 and rising."""
    for alpha in alphas:
        _validate.positive(alpha=alpha)
        if alpha <= 1:
            raise ConfigError(f"Expected alpha={alpha!r} > 1.")
    if not alphas or any(b <= a for a, b in pairwise(alphas)):
        raise ConfigError(f"Expected alphas={tuple(alphas)!r} to rise, one at least.")
    return np.asarray(alphas, np.float64)


def check_samples(first: Floats, second: Floats, *, least: int) -> None:
    """Raise ConfigError unless both are finite, of shape (n, d) with one d, and of `least` rows or more."""
    for name, rows in (("first", first), ("second", second)):
        if rows.ndim != 2 or rows.shape[1] < 1 or not np.isfinite(rows).all():
            raise ConfigError(f"Expected {name} to be finite vectors of shape (n, d), found shape {rows.shape}.")
        if len(rows) < least:
            raise ConfigError(f"Expected {name} to have at least {least} rows, found {len(rows)}: give more.")
    if first.shape[1] != second.shape[1]:
        raise ConfigError(f"Expected vectors of one size, found {first.shape[1]} and {second.shape[1]} coordinates.")


def falls(divergences: Sequence[float]) -> bool:
    """Whether a curve falls somewhere: no Renyi divergence falls when its order rises.

    Numbers below 0 count as 0. An estimator without bias must give them half of the time where there is nothing.
    """
    found = np.maximum(np.asarray(divergences, np.float64), 0.0)
    slack = 1e-9 * (1 + found[:-1])
    with np.errstate(invalid="ignore"):
        return bool((found[1:] < found[:-1] - slack).any())


def gaussian(first: Floats, second: Floats, alphas: Sequence[float]) -> Floats:
    """As if both were normal with the same covariance: alpha / 2 times the squared Mahalanobis distance of the means.

    The plain distance is too large by d (1/n + 1/m), because means scatter. It is also too large by the factor nu / (nu
    - d - 1), nu = n + m - 2, because the inverse of an estimated covariance scatters. Both are undone, so that for
    normal samples the estimate is right on average, and may be below 0 (Hotelling's T^2; MATHS 3.4 names the first
    correction only, which suffices where nu is large).

    The estimate is blind to everything but means: two mixtures with equal means give 0. It is infinite where the means
    differ in a direction in which neither set varies.

    Rows are `(n, d)` of P and `(m, d)` of Q, orders rise from above 1. The result is `(n_alphas,)`. ConfigError where n
    + m - 2 <= d + 1.
    """
    orders = check_alphas(alphas)
    check_samples(first, second, least=2)
    n, m = len(first), len(second)
    free = n + m - 2
    difference = first.mean(axis=0) - second.mean(axis=0)
    inner = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    variances, axes = np.linalg.eigh(inner.T @ inner / free)
    kept = variances > _NO_VARIANCE * max(float(variances[-1]), 0.0)
    d = int(kept.sum())
    if free <= d + 1:
        raise ConfigError(f"Expected n + m - 2 = {free} > d + 1 = {d + 1}: take fewer coordinates or more rows.")
    along = axes.T @ difference
    scale = math.sqrt(max(float(variances[-1]), 0.0))
    if (np.abs(along[~kept]) > _APART * scale + 1e-12 * float(np.abs(first).max())).any():
        return np.full(len(orders), np.inf)
    distance = float((along[kept] ** 2 / variances[kept]).sum())
    squared = (free - d - 1) / free * distance - d * (1 / n + 1 / m)
    return np.asarray(orders / 2 * squared, np.float64)
