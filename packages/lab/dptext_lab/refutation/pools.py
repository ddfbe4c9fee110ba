"""Pools of candidates for reconstruction: which inputs a pool may hold, how large it must be, and how it is ranked.

Candidates are ranked by the likelihood of a release, or, for an attacker without the density, by a surrogate that is
learned from simulated releases.
"""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import combinations

import numpy as np

from dptext import _validate
from dptext.audits.bounds import reconstruction_bound
from dptext.audits.subjects import METHODS, Outputs, Sampler, Subject, as_record, sample
from dptext.audits.trials.pairs import check_neighbours
from dptext.embeddings.tfidf import load_sklearn
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import bonferroni, clopper_pearson_lower
from dptext.mechanism import HasLatent, VectorNoise
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.float_noise import directions
from dptext.sampling.randomness import Randomness, secure
from dptext.text.records import Record
from dptext.types import Floats, Integers

#: Candidates in the form that callers pass.
CandidateInputs = Floats | Sequence[str | Record]
#: Candidates that were checked: vectors `(N, dim)`, or records.
CandidatePool = Floats | list[Record]

#: The largest pool that `feasible` considers.
LARGEST_POOL = 1_000_000


def random_candidates(count: int, *, dim: int, clip_norm: float = 1.0, randomness: Randomness | None = None) -> Floats:
    """Draw independent uniform directions of length `clip_norm`, `(count, dim)`: a pool for vector noise."""
    _validate.count(count=count, dim=dim)
    _validate.positive(clip_norm=clip_norm)
    return clip_norm * directions(count, dim, randomness or secure())


def checked_pool(candidates: CandidateInputs, claim: Guarantee) -> CandidatePool:
    """Return the candidates as vectors `(N, dim)` or records, checked to be neighbours of each other under the claim.

    ConfigError: fewer than two candidates, or equal candidates. IncomparableError: candidates that are no neighbours,
    or a claim with a metric.
    """
    if claim.metric is not None:
        raise IncomparableError(
            f"Expected a claim for any two candidates, found a multiple of the {claim.metric}: a pool has many "
            "distances. Audit two inputs with distinguish, whitebox or exact."
        )
    if isinstance(candidates, np.ndarray):
        vectors = np.asarray(candidates, np.float64)
        if vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise ConfigError(f"Expected finite candidates of shape (N, dim), found shape {vectors.shape}.")
        _require_different(len(np.unique(vectors, axis=0)), len(vectors))
        return vectors
    records = [as_record(candidate) for candidate in candidates]
    _require_different(len({(record.text, record.label) for record in records}), len(records))
    # Documents are neighbours if they reveal the same facts, so comparing all with the first is enough.
    alike = claim.unit is Unit.DOCUMENT and claim.relation is Relation.REPLACE_ONE
    for first, second in ((records[0], other) for other in records[1:]) if alike else combinations(records, 2):
        check_neighbours(first, second, claim.unit, claim.relation, claim.reveals)
    return records


def _require_different(different: int, given: int) -> None:
    if given < 2 or different < given:
        raise ConfigError(f"Expected at least two candidates, all different; found {given}, {different} different.")


def feasible(
    epsilon: float, dim: int, *, tops: Sequence[int] = (1,), trials: int = 2000, confidence: float = 0.95
) -> int | None:
    """Return the fewest random candidates with which the noise as published for ADePT is refuted, to within 5%.

    The published noise is Laplace of scale b = 2C / epsilon on each coordinate. The adversary ranks uniform directions
    of length C by likelihood. In units of b two directions differ by about a normal t of variance epsilon^2 / (2 dim) a
    coordinate, so their Bhattacharyya coefficient B is the mean of (1 + |t| / 2) e^(-|t| / 2), to the power dim.
    Standard normal scores, of which the true candidate's is raised by d, have B = e^(-d^2 / 4); so d = 2 sqrt(-ln B).
    Success is the chance that fewer than j of N - 1 scores exceed d + g, with g the noise of the true score;
    simulations agree to within .04. At one guess it takes 34, 228, 878, 1,391 candidates at epsilon 1, 5, 8, 10
    in many dimensions (derivations, "Reconstruction").

    `epsilon` is the claimed epsilon. `tops` are numbers of guesses, of which one has to succeed too often in `trials`
    trials; `confidence` is of all of them together. None if `LARGEST_POOL` candidates do not refute the noise either;
    in that case the density does, see `audits.whitebox`. ConfigError for a setting out of its range.
    """
    _validate.not_negative(epsilon=epsilon)
    _validate.count(dim=dim, trials=trials)
    alpha = bonferroni(confidence, len(tops))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    normal = 12 * nodes
    density = 12 * weights * np.exp(-np.square(normal) / 2) / math.sqrt(2 * math.pi)
    half = np.abs(normal) * epsilon / math.sqrt(2 * dim) / 2
    overlap = float((density * (1 + half) * np.exp(-half)).sum())
    shift = 2 * math.sqrt(max(0.0, -dim * math.log(max(overlap, 1e-300))))
    from scipy.special import betainc, ndtr  # noqa: PLC0415 (slow to load)

    beaten = ndtr(-shift - normal)  # the chance that a wrong candidate beats the true candidate
    for candidates in np.unique(np.rint(np.geomspace(2, LARGEST_POOL, 400))).astype(np.int64).tolist():
        for top in tops:
            if top >= candidates:
                continue
            # The binomial tail is the chance that `top` or more wrong candidates beat the true candidate.
            failure = min(1.0, float((density * betainc(top, candidates - top, beaten)).sum()))
            low = clopper_pearson_lower(trials - round(trials * failure), trials, alpha=alpha)
            if low > reconstruction_bound(epsilon, candidates, top=top):
                return int(candidates)
    return None


#: A function from outputs to scores `(outputs, candidates)`.
PoolScore = Callable[[Outputs], Floats]
#: `Simulate` gives simulated outputs of candidate i, equally many for each; `Advance` is called with the number done.
Simulate = Callable[[int], Outputs]
Advance = Callable[[int], None]

_WORD_COUNTS = 1 << 23
_SMOOTHING = 0.1
#: The least variance within candidates, as a share of all variance, so that a coordinate without variance stays finite.
_LEAST_SPREAD = 1e-9
#: This number of coordinates stays in the cache of a processor while a density is computed.
COORDINATES_AT_ONCE = 1 << 16


class Adversary(StrEnum):
    """The ranking of the pool: by the declared density, or by a surrogate learned from simulated releases."""

    LIKELIHOOD = "likelihood"
    SURROGATE = "surrogate"


def with_latents(subject: Subject, pool: CandidatePool) -> tuple[VectorNoise, Floats]:
    """Return the subject as noise with a density, and the latents `(N, dim)`; ConfigError for a subject without."""
    if not isinstance(subject, VectorNoise):
        raise ConfigError(
            "Expected a subject with release and log_density for the likelihood; others are attacked by --attack "
            f"surrogate (attack='surrogate' in Python).{METHODS}"
        )
    if isinstance(pool, np.ndarray):
        return subject, pool
    if not isinstance(subject, HasLatent):
        raise ConfigError(
            f"Expected vectors as candidates, or a subject with latent(records): this one has none.{METHODS}"
        )
    return subject, np.asarray(subject.latent(pool), np.float64)


def release_chosen(
    subject: Subject, pool: CandidatePool, chosen: Integers, randomness: Randomness, position: int
) -> Outputs:
    """Release each chosen candidate once, in order."""
    if isinstance(pool, np.ndarray) and isinstance(subject, VectorNoise) and not isinstance(subject, Sampler):
        return np.asarray(subject.release(pool[chosen], randomness.at(position)), np.float64)
    parts: list[Outputs] = []
    for i, count in zip(*np.unique(chosen, return_counts=True), strict=True):
        parts.append(sample(subject, pool[int(i)], int(count), randomness, position=position))
        position += int(count)
    place = np.argsort(np.argsort(chosen, kind="stable"))
    vectors = [part for part in parts if isinstance(part, np.ndarray)]
    if vectors:
        return np.concatenate(vectors)[place]
    texts = [text for part in parts for text in part]
    return [texts[i] for i in place]


def likelihood_score(noise: VectorNoise, latents: Floats) -> PoolScore:
    """Score by the log density of each release given each candidate, `(releases, candidates)`, in blocks of pairs."""
    n, dim = latents.shape

    def score(outputs: Outputs) -> Floats:
        released = np.asarray(outputs, np.float64)
        result = np.empty((len(released), n))
        rows = max(1, min(len(released), COORDINATES_AT_ONCE // dim))
        columns = max(1, COORDINATES_AT_ONCE // (rows * dim))
        for top in range(0, len(released), rows):
            block = released[top : top + rows]
            for left in range(0, n, columns):
                some = latents[left : left + columns]
                pairs = noise.log_density(np.tile(block, (len(some), 1)), np.repeat(some, len(block), axis=0))
                result[top : top + rows, left : left + columns] = pairs.reshape(len(some), len(block)).T
        return result

    return score


def ranks_of(scores: Floats, chosen: Integers, own: Randomness) -> Integers:
    """Return the rank of the chosen candidate in each row, 0 for the best. Equal scores are in random order.

    Without the random order, an attack that gives all candidates the same score would succeed.
    """
    mine = np.take_along_axis(scores, chosen[:, None], axis=1)
    ranks = (scores > mine).sum(axis=1)
    tied = (scores == mine).sum(axis=1)
    for size in np.unique(tied[tied > 1]):
        rows = np.flatnonzero(tied == size)
        ranks[rows] += uniform_below(int(size), len(rows), own).astype(np.int64)
    return np.asarray(ranks, np.int64)


def surrogate_score(
    subject: Subject, pool: CandidatePool, simulations: int, randomness: Randomness, position: int, advance: Advance
) -> PoolScore:
    """Learn scores from at least two simulated releases of each candidate; ConfigError for vectors of several sizes."""
    if simulations < 2:
        raise ConfigError(f"Expected simulations={simulations!r} >= 2.")

    def simulate(i: int) -> Outputs:
        outputs = sample(subject, pool[i], simulations, randomness, position=position + i * simulations)
        advance((i + 1) * simulations)
        return outputs

    first = simulate(0)
    if isinstance(first, np.ndarray):
        return _nearest_mean(first, simulate, len(pool))
    return _naive_bayes(first, simulate, len(pool))


def _nearest_mean(first: Floats, simulate: Simulate, candidates: int) -> PoolScore:
    """Score by minus half the squared distance to each candidate's mean, in units of the variance within candidates."""
    means, within = np.empty((candidates, first.shape[1])), np.zeros(first.shape[1])
    for i in range(candidates):
        outputs = np.asarray(simulate(i) if i else first, np.float64)
        if outputs.shape != first.shape:
            raise ConfigError(f"Expected releases of shape {first.shape} of every candidate, found {outputs.shape}.")
        means[i] = outputs.mean(axis=0)
        within += np.square(outputs - means[i]).sum(axis=0)
    centre = means.mean(axis=0)
    means -= centre
    variance = within / (candidates * (len(first) - 1))
    variance = np.maximum(variance, _LEAST_SPREAD * (variance + np.square(means).mean(axis=0)))
    weights = np.divide(means, variance, out=np.zeros_like(means), where=variance > 0)
    offsets = (weights * means).sum(axis=1) / 2
    return lambda outputs: np.asarray((np.asarray(outputs, np.float64) - centre) @ weights.T - offsets)


def _naive_bayes(first: Outputs, simulate: Simulate, candidates: int) -> PoolScore:
    """Score by multinomial naive Bayes on hashed words. The whole output is one more word."""
    size = 1 << min(16, max(8, (_WORD_COUNTS // candidates).bit_length() - 1))
    hasher = load_sklearn().feature_extraction.text.HashingVectorizer(
        n_features=size, analyzer=lambda text: [*text.split(), f"= {text}"], alternate_sign=False, norm=None
    )
    counts = np.empty((candidates, size))
    for i in range(candidates):
        counts[i] = hasher.transform(simulate(i) if i else first).sum(axis=0)
    counts += _SMOOTHING
    weights = np.log(counts / counts.sum(axis=1, keepdims=True)).T
    return lambda outputs: np.asarray(hasher.transform(outputs) @ weights)
