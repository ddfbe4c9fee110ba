"""The white-box trial: read the privacy loss off the declared density, and check that the sampler keeps to it.

A density shows losses that counting cannot show at large epsilon (derivations, "Two rates"). A million runs can count
up to epsilon 12.5; the classical Gaussian of nominal epsilon 50 has delta .586 at epsilon 50.

Does a sampler draw from its declared density? Let a release be drawn from one of two latents x and x' with equal
chances. It comes from x with odds p(release | x) / p(release | x'). So the declared log ratio L predicts that a share
sigmoid(L) of the releases comes from x, which is tested in bins of L. This holds for any density, discrete or not, that
is known up to a factor that does not depend on the latent. L is the very privacy loss that the audit reads.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dptext import _validate
from dptext.audits.report import Report, exactly
from dptext.audits.subjects import METHODS, OnCount, Subject, Value, as_record, as_vector, sample, untold
from dptext.audits.trials.pairs import Pair, Trial
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni
from dptext.mechanism import HasLatent, VectorNoise
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.float_noise import directions
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record
from dptext.types import Floats

#: Losses are lowered by this share of 1 + their size, the largest float error of two log densities.
_FLOAT_LOSS = 1e-9
_FEWEST_TRIALS = 200
_FIT_RUNS = 20_000
_ENTRIES_AT_ONCE = 1 << 21
_LARGEST_EPSILON = 1e6


def whitebox(
    subject: Subject,
    first: Value | None = None,
    second: Value | None = None,
    *,
    pairs: Sequence[Pair] = (),
    claim: Guarantee | None = None,
    distance: float | None = None,
    delta: float | None = None,
    trials: int = 100_000,
    confidence: float = 0.95,
    randomness: Randomness | None = None,
    on_progress: OnCount | None = None,
) -> Report:
    """Return a lower bound on epsilon by Monte Carlo of delta(epsilon) = E[(1 - e^(epsilon - L))_+].

    L is the loss, under the declared density, of a release drawn on one input of a pair. The mean of numbers in [0, 1]
    is bounded by Hoeffding's inequality in its sharp form (Hoeffding 1963, theorem 1), which is monotone in epsilon, so
    the search for epsilon needs no correction. At delta = 0 the largest observed loss is the bound. A sampler that does
    not draw from the declared density is a defect, which refutes any claim.

    The arguments and errors are those of `distinguish`. The subject is vector noise with `log_density`, or a mechanism
    with latents (`HasLatent`); ConfigError if it declares no density. All `trials` are counted.
    """
    _validate.count(trials=trials)
    if trials < _FEWEST_TRIALS:
        raise ConfigError(f"Expected trials={trials!r} >= {_FEWEST_TRIALS}.")
    if not isinstance(subject, VectorNoise):
        raise ConfigError(
            "Expected a subject with release and log_density: only a declared density can be read. The audit "
            f"distinguish needs neither.{METHODS}"
        )
    trial = Trial.of(subject, first, second, pairs, claim, distance, delta, trials, randomness)
    alpha = bonferroni(confidence, 2 * len(trial.pairs))
    done = 0
    found: list[tuple[float, Pair, Estimate]] = []
    for pair in trial.pairs:
        one, other = _latents(subject, pair)
        for start, end in ((one, other), (other, one)):
            loss = _sampled_losses(subject, start, end, trials, trial.randomness, position=done)
            bound = max(0.0, float(loss.max())) if trial.delta == 0 else _largest_refuted(loss, trial.delta, alpha)
            found.append((pair.per_distance(bound), pair, _delta_at(loss, trial.claimed(pair), alpha)))
            done += trials
            (on_progress or untold)(done, trial.runs)
    bound, pair, at_claim = max(found, key=lambda each: each[0])
    one, other = _latents(subject, pair)
    runs = min(_FIT_RUNS, max(_FEWEST_TRIALS, trials // 2))
    p_value = density_p_value(subject, one, other, runs=runs, randomness=trial.randomness.at(done))
    return trial.report(
        pair,
        bound,
        attack="whitebox",
        measures=trial.measures("density"),
        numbers=(at_claim, exactly(trial.claim.delta, confidence), exactly(p_value, confidence)),
        confidence=confidence,
        settings={"trials": trials, "confidence": confidence},
        defects=sampler_defects("density", p_value),
    )


def _sampled_losses(
    subject: VectorNoise, start: Floats, end: Floats, trials: int, randomness: Randomness, *, position: int
) -> Floats:
    """Return losses of releases from `start`, lowered by the largest float error. The releases are not kept."""
    block = max(_FEWEST_TRIALS, _ENTRIES_AT_ONCE // len(start))
    found = np.empty(trials)
    for offset in range(0, trials, block):
        runs = min(block, trials - offset)
        released = np.asarray(sample(subject, start, runs, randomness, position=position + offset), np.float64)
        found[offset : offset + runs] = losses(subject, released, start, end)
    return found - _FLOAT_LOSS * (1 + np.abs(found))


def _latents(subject: VectorNoise, pair: Pair) -> tuple[Floats, Floats]:
    if not isinstance(pair.first, str | Record) and not isinstance(pair.second, str | Record):
        return as_vector(pair.first), as_vector(pair.second)
    if not isinstance(subject, HasLatent):
        raise ConfigError(f"Expected vectors as inputs, or a subject with latent(records): this one has none.{METHODS}")
    first, second = subject.latent([as_record(pair.first), as_record(pair.second)])
    return first, second


def _excess(found: Floats, epsilon: float) -> float:
    return abs(float(np.expm1(np.minimum(epsilon - found, 0.0)).mean()))


def _delta_at(found: Floats, epsilon: float, alpha: float) -> Estimate:
    mean = _excess(found, epsilon)
    low, high = _lower_mean(mean, len(found), alpha), 1 - _lower_mean(1 - mean, len(found), alpha)
    return Estimate(mean, min(low, mean), max(high, mean), 1 - 2 * alpha)


def _largest_refuted(found: Floats, delta: float, alpha: float) -> float:
    if _lower_mean(_excess(found, 0.0), len(found), alpha) <= delta:
        return 0.0
    most = min(float(found.max()), _LARGEST_EPSILON)
    return _largest(lambda epsilon: _lower_mean(_excess(found, epsilon), len(found), alpha) > delta, most, steps=60)


def _lower_mean(mean: float, runs: int, alpha: float) -> float:
    """Return the smallest m with KL(mean || m) <= ln(1 / alpha) / runs: Hoeffding's bound for variables in [0, 1]."""
    if mean <= 0:
        return 0.0
    budget = math.log(1 / alpha) / runs
    return _largest(lambda m: _divergence(min(mean, 1.0), m) > budget, min(mean, 1.0), steps=100) * (1 - 1e-12)


def _largest(holds: Callable[[float], bool], most: float, *, steps: int) -> float:
    """Return the largest number in [0, most] up to which `holds` is true, by bisection; rounded down."""
    low, high = 0.0, most
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _divergence(p: float, q: float) -> float:
    if q <= 0:
        return math.inf
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0)


#: Below this p-value, which is of all directions together, the declaration counts as false.
SIGNIFICANT = 1e-5
_BINS = 20
_TYPICAL_LOSS = 2.0
_RANDOM_DIRECTIONS = 3
_CLOSEST = 2.0**-40


def sampler_defects(declared: str, p_value: float) -> tuple[str, ...]:
    """Return the defect that a p-value shows, if any."""
    found = f"the sampler does not draw from the {declared} it declares (p = {p_value:.2g})"
    return (found,) if p_value < SIGNIFICANT else ()


def density_p_value(noise: VectorNoise, first: Floats, second: Floats, *, runs: int, randomness: Randomness) -> float:
    """Return the p-value of the hypothesis that releases have the declared density, Bonferroni over several directions.

    The directions are from `first` towards `second`, along a coordinate, and random. Steps are such that releases are
    hard to tell apart, where the test of the declared odds is sharpest. Each direction takes `runs` releases of each of
    its two latents, `(dim,)`.
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
    """Return first + t * way, for a power of two t with a typical loss near 1, where wrong noise shows most clearly.

    Clipping may keep the loss small however large t is. In that case t is the largest step that still changed the loss.
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
    """P-value of the hypothesis that a release with loss L is of the first latent with probability sigmoid(L).

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
    """Return the p-value of the hypothesis that the outputs were drawn from the declared distribution.

    Outputs are grouped, likely outputs first, so that a group has at least a twentieth of the mass; a sampler with less
    noise moves mass from the last groups to the first. Each group has an exact binomial test; Bonferroni over groups.
    The p-value errs on the safe side. An output that is declared impossible gives 0.
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
