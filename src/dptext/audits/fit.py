"""Does a sampler draw from what it declares? Tests that white-box and exact audits rest on.

Between two latents x and x', a release drawn from one of them with equal chances comes from x with odds
p(release | x) / p(release | x'). So the declared log ratio L predicts the share sigmoid(L) of releases that come from
x; in bins of L that is a chi-square test. It holds for any density, discrete or not, known up to a factor that does
not depend on the latent; and L is the very privacy loss that the audit reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2

from dptext.audits.subjects import sample
from dptext.mechanism import VectorNoise
from dptext.noise import directions
from dptext.randomness import Randomness

Floats = NDArray[np.float64]

#: Below this p-value, over all directions together, the declaration is called false.
SIGNIFICANT = 1e-5
_BINS = 20
_FEWEST = 10.0  # expected counts below this are pooled: the chi-square distribution is a limit
_RANDOM_DIRECTIONS = 3
_CLOSEST = 2.0**-40


def density_p_value(noise: VectorNoise, first: Floats, second: Floats, *, runs: int, randomness: Randomness) -> float:
    """The p-value that releases have the declared density, Bonferroni over several directions.

    Tried from `first` towards `second`, along a coordinate and along random directions, in steps that leave the
    releases hard to tell apart: there the declared odds are put to the sharpest test.

    Args:
        noise: the vector mechanism.
        first: a latent `(dim,)`.
        second: another one.
        runs: on each of the two latents, for each direction.
        randomness: handed to the noise; it also draws the directions.

    Returns:
        A p-value in [0, 1].
    """
    dim = len(first)
    length = float(np.linalg.norm(second - first)) or 1.0
    ways = [second - first]
    if dim > 1:
        axis = np.zeros(dim)
        axis[dim // 2] = length
        ways += [axis, *(length * directions(_RANDOM_DIRECTIONS, dim, randomness))]
    smallest, position = 1.0, 0
    for way in ways:
        other, position = _near(noise, first, way, randomness, position)
        values = []
        for latent in (first, other):
            released = np.asarray(sample(noise, latent, runs, randomness, position=position), np.float64)
            position += runs
            values.append(losses(noise, released, first, other))
        smallest = min(smallest, _calibration(values[0], values[1]))
    return min(1.0, smallest * len(ways))


def losses(noise: VectorNoise, released: Floats, first: Floats, second: Floats) -> Floats:
    """Log ratio, `(rows,)`, of the declared densities of each release given the first and the second latent."""
    at_first, at_second = np.broadcast_to(first, released.shape), np.broadcast_to(second, released.shape)
    return np.asarray(noise.log_density(released, at_first) - noise.log_density(released, at_second))


def _near(noise: VectorNoise, first: Floats, way: Floats, randomness: Randomness, position: int) -> tuple[Floats, int]:
    """first + t * way for the largest t = 1, 1/2, 1/4, ... at which the typical loss is at most 2."""
    t = 1.0
    while t > _CLOSEST:
        other = first + t * way
        released = np.asarray(sample(noise, first, 256, randomness, position=position), np.float64)
        position += 256
        if np.median(np.abs(losses(noise, released, first, other))) <= 2:
            break
        t /= 2
    return first + t * way, position


def _calibration(from_first: Floats, from_second: Floats) -> float:
    """Chi-square p-value that a release with loss L comes from the first latent with probability sigmoid(L)."""
    both = np.concatenate([from_first, from_second])
    order = np.argsort(both, kind="stable")
    chance = expit(both[order])
    is_first = (order < len(from_first)).astype(np.float64)
    edges = np.unique(np.searchsorted(both[order], np.quantile(both, np.linspace(0, 1, _BINS + 1)[1:-1])))
    starts = np.concatenate([[0], edges[(edges > 0) & (edges < len(both))]])
    surprise = np.add.reduceat(is_first - chance, starts)
    variance = np.add.reduceat(chance * (1 - chance), starts)
    return _chi_square(*_pooled(surprise, variance))


def _pooled(surprise: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Bins joined with the next until each has enough variance."""
    joined: list[tuple[float, float]] = []
    total, spread = 0.0, 0.0
    for difference, own in zip(surprise.tolist(), variance.tolist(), strict=True):
        total, spread = total + difference, spread + own
        if spread >= _FEWEST:
            joined.append((total, spread))
            total, spread = 0.0, 0.0
    if joined:
        joined[-1] = (joined[-1][0] + total, joined[-1][1] + spread)
    else:
        joined = [(total, spread)]
    array = np.array(joined)
    return array[:, 0], array[:, 1]


def _chi_square(surprise: Floats, variance: Floats) -> float:
    if variance.sum() < 1:
        # Nothing is left to chance: a single wrong release is impossible, up to the variance itself.
        return 1.0 if abs(surprise.sum()) < 0.5 else float(min(1.0, variance.sum()))
    return float(chi2.sf(float((np.square(surprise) / variance).sum()), len(surprise)))


def distribution_p_value(declared: Mapping[str, float], outputs: Sequence[str]) -> float:
    """Chi-square p-value that the outputs were drawn from the declared distribution.

    Rare outputs are pooled. An output that is declared impossible gives 0.
    """
    counts = Counter(outputs)
    if any(declared.get(output, 0.0) <= 0 for output in counts):
        return 0.0
    expected = np.array([probability * len(outputs) for probability in declared.values()])
    found = np.array([counts[output] for output in declared], np.float64)
    rare = expected < _FEWEST
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        found = np.append(found[~rare], found[rare].sum())
    if len(expected) < 2:
        return 1.0
    if expected[-1] < 1:  # a pool too small for the limit: bounded by the chance to see so many at all
        if found[-1] > 0 and expected[-1] / found[-1] < SIGNIFICANT:
            return float(expected[-1] / found[-1])
        expected, found = expected[:-1], found[:-1]
    statistic = float((np.square(found - expected) / expected).sum())
    return float(chi2.sf(statistic, max(1, len(expected) - 1)))
