"""Renyi divergence between two samples of vectors, by a normal approximation or by nearest neighbours.

D_alpha(P || Q) = ln E_P[(p/q)^(alpha - 1)] / (alpha - 1), in nats. A function takes rows `(n, d)` of P and `(m, d)` of
Q and returns one number for each order alpha; ConfigError where samples or orders cannot be used. Every estimate has
errors, which its docstring names. `density_ratio` has other estimators, `conversion` a certified bound.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from scipy.special import gammaln

from dptext import _validate
from dptext.errors import ConfigError
from dptext.types import Floats

#: Default orders of the estimates: the orders of the published code (1.1, 10, 20, 30, 50) and smaller orders.
ALPHAS: Final = (1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0)
#: A direction counts as without variance below this share of the largest variance.
_NO_VARIANCE: Final = 1e-11
#: In a direction without variance, means differ if they are further apart than this share of the largest standard
#: deviation.
_APART: Final = 1e-4


def check_alphas(alphas: Sequence[float]) -> Floats:
    """Return the orders as an array; ConfigError unless there are some, all finite, above 1 and rising."""
    for alpha in alphas:
        _validate.positive(alpha=alpha)
        if alpha <= 1:
            raise ConfigError(f"Expected alpha={alpha!r} > 1.")
    if not alphas or any(b <= a for a, b in pairwise(alphas)):
        raise ConfigError(f"Expected alphas={tuple(alphas)!r} to rise, one at least.")
    return np.asarray(alphas, np.float64)


def check_samples(first: Floats, second: Floats, *, least: int) -> None:
    """Raise ConfigError unless both samples are finite, of shape (n, d) with one d, and have at least `least` rows."""
    for name, rows in (("first", first), ("second", second)):
        if rows.ndim != 2 or rows.shape[1] < 1 or not np.isfinite(rows).all():
            raise ConfigError(f"Expected {name} to be finite vectors of shape (n, d), found shape {rows.shape}.")
        if len(rows) < least:
            raise ConfigError(f"Expected {name} to have at least {least} rows, found {len(rows)}: give more.")
    if first.shape[1] != second.shape[1]:
        raise ConfigError(f"Expected vectors of one size, found {first.shape[1]} and {second.shape[1]} coordinates.")


def falls(divergences: Sequence[float]) -> bool:
    """Return whether a curve falls somewhere; no Renyi divergence falls when its order rises.

    Numbers below 0 count as 0: if the true divergence is 0, an unbiased estimator is below 0 half of the time.
    """
    found = np.maximum(np.asarray(divergences, np.float64), 0.0)
    slack = 1e-9 * (1 + found[:-1])
    with np.errstate(invalid="ignore"):
        return bool((found[1:] < found[:-1] - slack).any())


def gaussian(first: Floats, second: Floats, alphas: Sequence[float]) -> Floats:
    """Estimate for normal sets of equal covariance: alpha / 2 times the squared Mahalanobis distance of the means.

    The plain distance is too large by d (1/n + 1/m), because means scatter, and by the factor nu / (nu - d - 1), nu = n
    + m - 2, because the inverse of an estimated covariance is too large. Both are corrected, so that for normal samples
    the estimate is unbiased, and may be below 0 (Hotelling's T^2; derivations, "Estimators of divergence").

    The estimate sees nothing but means, and is infinite where they differ in a direction in which neither set varies.
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


#: The number of neighbours in the published code.
NEIGHBOURS: Final = 5
#: Decimals to which the published code rounds.
DECIMALS: Final = 5
#: The number of rows that are compared at once.
_ROWS: Final = 512
#: Rows whose squared distance is no more than this share of their squared norms are copies: rounding hides the rest.
_SAME: Final = 1e-13


def knn_count_ratio(first: Floats, second: Floats, alphas: Sequence[float], *, neighbours: int = NEIGHBOURS) -> Floats:
    """Return the published estimate, as its code computes it, for comparison only: do not rely on the estimate.

    For each row y of the second set, r is the distance to its k-th neighbour in that set, counting y itself as the
    first. k_q counts the rows of the second set within r, k_p the rows of the first set. Both counts are normalised to
    sum to 1 and compared as distributions: D = ln(sum q (p/q)^alpha) / (alpha - 1) (derivations, "Estimators of
    divergence"; Gusain and Leith 2024, code of density_estimation_code). For two samples of one distribution the
    estimate is far above 0, because the counts scatter; it never exceeds ln m. If no row of the first set is within any
    r, the estimate divides 0 by 0, which the code turns into 0, "perfect privacy".
    """
    orders = check_alphas(alphas)
    _validate.count(neighbours=neighbours)
    check_samples(first, second, least=neighbours)
    first, second = _centred(first, second)
    own, other = np.empty(len(second)), np.empty(len(second))
    for start in range(0, len(second), _ROWS):
        block = second[start : start + _ROWS]
        rows = slice(start, start + len(block))
        within = np.round(np.sqrt(_squared(block, second)), DECIMALS)
        radius = np.partition(within, neighbours - 1, axis=1)[:, neighbours - 1 : neighbours]
        own[rows] = (within <= radius).sum(axis=1)
        other[rows] = (np.round(np.sqrt(_squared(block, first)), DECIMALS) <= radius).sum(axis=1)
    if not other.any():
        return np.zeros(len(orders))  # the published max(0, nan)
    with np.errstate(divide="ignore"):
        log_q, log_p = np.log(own / own.sum()), np.log(other / other.sum())
    found = [float(np.logaddexp.reduce(log_q + alpha * (log_p - log_q))) / (alpha - 1) for alpha in orders]
    return np.maximum(0.0, found)


def knn_poczos_schneider(
    first: Floats, second: Floats, alphas: Sequence[float], *, neighbours: int = NEIGHBOURS
) -> Floats:
    """Return the estimate of Poczos and Schneider 2011: densities from distances to the k-th neighbours.

    Let rho be the distance of a row of P to its k-th neighbour among the other rows of P, and nu the distance to its
    k-th neighbour in Q. Then D = ln mean[((n-1) rho^d / (m nu^d))^(1-alpha) B] / (alpha - 1), with B = G(k)^2 /
    (G(k-alpha+1) G(k+alpha-1)). The estimate is consistent, but far too large in many dimensions (2.7 to 4.3 for a true
    0 in 384 dimensions; derivations, "Estimators of divergence"). The formula needs k > alpha - 1; where `neighbours`
    is too small for an order, k = floor(alpha). Where k copies of a row lie at distance 0, the ratio is that of the
    numbers of copies, at least 1 on either side, which gives a lower value if the other set has no copy.
    """
    orders = check_alphas(alphas)
    _validate.count(neighbours=neighbours)
    most = max(neighbours, math.floor(orders[-1]))
    check_samples(first, second, least=most + 1)
    (n, d), m = first.shape, len(second)
    first, second = _centred(first, second)
    near_own, near_other = np.empty((n, most)), np.empty((n, most))
    copies_own, copies_other = np.empty(n), np.empty(n)
    for start in range(0, n, _ROWS):
        block = first[start : start + _ROWS]
        rows = slice(start, start + len(block))
        own = _squared(block, first)
        own[np.arange(len(block)), start + np.arange(len(block))] = np.inf  # a row is not its own neighbour
        other = _squared(block, second)
        near_own[rows] = np.sort(np.partition(own, most - 1, axis=1)[:, :most], axis=1)
        near_other[rows] = np.sort(np.partition(other, most - 1, axis=1)[:, :most], axis=1)
        copies_own[rows], copies_other[rows] = (own == 0).sum(axis=1), (other == 0).sum(axis=1)
    by_copies = np.log(np.maximum(copies_own, 1) / (n - 1)) - np.log(np.maximum(copies_other, 1) / m)
    found = np.empty(len(orders))
    for i, alpha in enumerate(orders):
        k = neighbours if neighbours > alpha - 1 else math.floor(alpha)
        rho, nu = near_own[:, k - 1], near_other[:, k - 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = math.log(m) - math.log(n - 1) + d / 2 * (np.log(nu) - np.log(rho))
        atom = (rho == 0) | (nu == 0)
        log_b = 2 * gammaln(k) - gammaln(k - alpha + 1) - gammaln(k + alpha - 1)
        terms = np.where(atom, (alpha - 1) * by_copies, (alpha - 1) * log_ratio + log_b)
        found[i] = (np.logaddexp.reduce(terms) - math.log(n)) / (alpha - 1)
    return found


def _centred(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Shift both sets to their common mean: squared distances by a product of matrices then lose fewer digits."""
    centre = np.concatenate([first, second]).mean(axis=0)
    return first - centre, second - centre


def _squared(left: Floats, right: Floats) -> Floats:
    """Squared distances `(n_left, n_right)`, 0 between copies."""
    norms = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)[None, :]
    found = norms - 2 * (left @ right.T)
    return np.where(found <= _SAME * norms, 0.0, found)
