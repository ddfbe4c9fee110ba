"""Does a sampler draw from what it declares? White-box and exact audits rest on these tests.

Let a release be drawn from one of two latents x and x' with equal chances. It comes from x with odds
p(release | x) / p(release | x'). So the declared log ratio L predicts that a share sigmoid(L) of the releases comes
from x, which is tested in bins of L. This holds for any density, discrete or not, that is known up to a factor that
does not depend on the latent. L is the very privacy loss that the audit reads.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dptext.audits.running import sample
from dptext.mechanism import VectorNoise
from dptext.sampling.float_noise import directions
from dptext.sampling.source import Randomness
from dptext.types import Floats

#: The declaration is called false below this p-value, which is that of all directions together.
SIGNIFICANT = 1e-5
_BINS = 20
_TYPICAL_LOSS = 2.0
_RANDOM_DIRECTIONS = 3
_CLOSEST = 2.0**-40


def sampler_defects(declared: str, p_value: float) -> tuple[str, ...]:
    """What a p-value says against a sampler."""
    found = f"the sampler does not draw from the {declared} it declares (p = {p_value:.2g})"
    return (found,) if p_value < SIGNIFICANT else ()


def density_p_value(noise: VectorNoise, first: Floats, second: Floats, *, runs: int, randomness: Randomness) -> float:
    """The p-value of the hypothesis that releases have the declared density, Bonferroni over several directions.

    The directions are from `first` towards `second`, along a coordinate, and random. Steps are such that releases are
    hard to tell apart: there the declared odds are put to the sharpest test. There are so many `runs` on each of the
    two latents, `(dim,)`, for each direction.
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
    """first + t * way for a power of two t with a typical loss near 1: there half the noise shows most clearly.

    Clipping may keep the loss small however large t is. Then t is the largest step that still changed the loss.
    """

    def typical(t: float) -> float:
        released = np.asarray(sample(noise, first, 256, randomness, position=position), np.float64)
        return float(np.median(np.abs(losses(noise, released, first, first + t * way))))

    t, found = 1.0, typical(1.0)
    position += 256
    while found > _TYPICAL_LOSS and t > _CLOSEST:
        t /= 2
        found = typical(t)
        position += 256
    while found < _TYPICAL_LOSS / 4 and t < 1 / _CLOSEST:
        more = typical(2 * t)
        position += 256
        if more < 1.2 * found or more > _TYPICAL_LOSS:
            break
        t, found = 2 * t, more
    return first + t * way, position


def _calibration(from_first: Floats, from_second: Floats) -> float:
    """The p-value of the hypothesis that a release with loss L comes from the first latent with probability sigmoid(L).

    Bernstein's inequality is applied in bins of L, and once over all releases, which finds odds that are all too large
    or all too small; Bonferroni over these tests. Unlike a chi-square test it errs on the safe side for any number of
    runs.
    """
    both = np.concatenate([from_first, from_second])
    order = np.argsort(both, kind="stable")
    from scipy.special import expit  # noqa: PLC0415 (slow to load)

    chance = expit(both[order])
    difference = (order < len(from_first)) - chance
    variance = chance * (1 - chance)
    edges = np.unique(np.searchsorted(both[order], np.quantile(both, np.linspace(0, 1, _BINS + 1)[1:-1])))
    starts = np.concatenate([[0], edges[(edges > 0) & (edges < len(both))]])
    surprise = np.append(np.add.reduceat(difference, starts), (difference * np.sign(both[order])).sum())
    spread = np.append(np.add.reduceat(variance, starts), variance.sum())
    logs = -np.square(surprise) / (2 * (spread + np.abs(surprise) / 3) + 1e-300)
    return float(min(1.0, 2 * len(surprise) * np.exp(logs.min())))


def distribution_p_value(declared: Mapping[str, float], outputs: Sequence[str]) -> float:
    """The p-value of the hypothesis that the outputs were drawn from the declared distribution.

    Outputs are grouped, likely ones first, so that a group has at least a twentieth of the mass; a sampler with less
    noise moves mass from the last groups to the first. Each group has an exact binomial test; Bonferroni over groups.
    It errs on the safe side. An output that is declared impossible gives 0.
    """
    counts = Counter(outputs)
    if any(declared.get(output, 0.0) <= 0 for output in counts):
        return 0.0
    runs = len(outputs)
    groups: list[tuple[float, int]] = []
    mass, found = 0.0, 0
    for output in sorted(declared, key=lambda name: -declared[name]):
        mass, found = mass + declared[output], found + counts[output]
        if mass >= 1 / _BINS:
            groups.append((mass, found))
            mass, found = 0.0, 0
    rest = {output: p for output, p in declared.items() if p * runs < 1}
    groups += [(mass, found), (sum(rest.values()), sum(counts[output] for output in rest))]
    from scipy.stats import binom  # noqa: PLC0415 (slow to load)

    smallest = 1.0
    for share, seen in groups:
        p = min(max(share, 0.0), 1.0)
        tails = min(float(binom.cdf(seen, runs, p)), float(binom.sf(seen - 1, runs, p)))
        smallest = min(smallest, 2 * tails)
    return min(1.0, smallest * len(groups))
