"""Renyi divergence between two samples of vectors, estimated by nearest neighbours.

D_alpha(P || Q) = ln E_P[(p/q)^(alpha - 1)] / (alpha - 1), in nats. Each function takes rows `(n, d)` of P and `(m, d)`
of Q and gives one number for each order alpha. ConfigError where samples or orders cannot be used. The estimates are
wrong in ways that the docstrings name.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import gammaln

from dptext import _validate
from dptext.audits.divergence.renyi import check_alphas, check_samples
from dptext.types import Floats

#: Neighbours in the published code.
NEIGHBOURS: Final = 5
#: Decimals to which the published code rounds.
DECIMALS: Final = 5

#: So many rows are compared at once.
_ROWS: Final = 512
#: Rows whose squared distance is no more than this share of their squared norms are copies: rounding hides the rest.
_SAME: Final = 1e-13


def knn_count_ratio(first: Floats, second: Floats, alphas: Sequence[float], *, neighbours: int = NEIGHBOURS) -> Floats:
    """The published estimate, as its code computes it. It is kept to be compared with, never to be relied on.

    For each row y of the second set, r is the distance to its k-th neighbour there, where y is the first. k_q counts
    the rows of the second set within r, k_p those of the first. Both counts are normalised to sum to 1 and compared as
    if they were two distributions: D = ln(sum q (p/q)^alpha) / (alpha - 1) (MATHS 3.2; Gusain and Leith 2024, code of
    density_estimation_code).

    With the same distribution twice the estimate is far above 0, because the counts scatter. It never exceeds ln m.
    Where no row of the first set is within any r it divides 0 by 0, which the code turns into 0, "perfect privacy".
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
    """The estimate of Poczos and Schneider 2011: densities from distances to the k-th neighbours.

    Let rho be the distance of a row of P to its k-th neighbour among the other rows of P, and nu that to its k-th
    neighbour in Q. Then D = ln mean[((n-1) rho^d / (m nu^d))^(1-alpha) B] / (alpha - 1), with B = G(k)^2 /
    (G(k-alpha+1) G(k+alpha-1)). It is consistent, but in many dimensions far too large even where there is nothing (3.4
    in 384 dimensions, MATHS 3.4).

    It needs k > alpha - 1. Where `neighbours` is too small for an order, k = floor(alpha). Where k copies of a row lie
    at distance 0 the densities are infinite, and their ratio is that of the numbers of copies. At least 1 is counted on
    either side, which gives a lower value where the other set has no copy.
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
        own[np.arange(len(block)), start + np.arange(len(block))] = np.inf  # not a neighbour of itself
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
    """Both sets about their common mean. Squared distances by a product of matrices then lose fewer digits."""
    centre = np.concatenate([first, second]).mean(axis=0)
    return first - centre, second - centre


def _squared(left: Floats, right: Floats) -> Floats:
    """Squared distances `(n_left, n_right)`, 0 between copies."""
    norms = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)[None, :]
    found = norms - 2 * (left @ right.T)
    return np.where(found <= _SAME * norms, 0.0, found)
