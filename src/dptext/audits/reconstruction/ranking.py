"""How the candidates of a pool are ranked: by the likelihood of a release, or by a surrogate of it.

A surrogate is for an attacker without the density: it is learned from simulated releases.
"""

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from dptext.audits.reconstruction.pools import CandidatePool
from dptext.audits.running import sample
from dptext.audits.subjects import Outputs, Sampler, Subject
from dptext.embeddings.tfidf import load_sklearn
from dptext.errors import ConfigError
from dptext.mechanism import HasLatent, VectorNoise
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.types import Floats, Integers

#: From outputs to scores `(outputs, candidates)`.
PoolScore = Callable[[Outputs], Floats]
#: Gives simulated outputs of candidate i, as many for each.
Simulate = Callable[[int], Outputs]

_WORD_COUNTS = 1 << 23
_SMOOTHING = 0.1
#: The least variance within candidates, as a share of all variance, so that a coordinate without any stays finite.
_LEAST_SPREAD = 1e-9
#: So few coordinates stay in the cache of a processor while a density is computed.
_COORDINATES_AT_ONCE = 1 << 16


class Adversary(StrEnum):
    """How the pool is ranked: by the declared density, or by what simulated releases taught."""

    LIKELIHOOD = "likelihood"
    SURROGATE = "surrogate"


def with_latents(subject: Subject, pool: CandidatePool) -> tuple[VectorNoise, Floats]:
    """The subject as noise with a density, and the latents `(N, dim)`; ConfigError where it has none."""
    if not isinstance(subject, VectorNoise):
        raise ConfigError("Expected a subject with release and log_density; others are attacked by a surrogate.")
    if isinstance(pool, np.ndarray):
        return subject, pool
    if not isinstance(subject, HasLatent):
        raise ConfigError("Expected vectors as candidates: the subject has no latents of texts.")
    return subject, np.asarray(subject.latent(pool), np.float64)


def release_chosen(
    subject: Subject, pool: CandidatePool, chosen: Integers, randomness: Randomness, position: int
) -> Outputs:
    """One release of each chosen candidate, in order."""
    if isinstance(pool, np.ndarray) and isinstance(subject, VectorNoise) and not isinstance(subject, Sampler):
        return np.asarray(subject.release(pool[chosen], randomness.at(position)), np.float64)
    parts: list[Outputs] = []
    for i, count in zip(*np.unique(chosen, return_counts=True), strict=True):
        parts.append(sample(subject, pool[int(i)], int(count), randomness, position=position))
        position += int(count)
    place = np.empty(len(chosen), np.int64)
    place[np.argsort(chosen, kind="stable")] = np.arange(len(chosen))
    vectors = [part for part in parts if isinstance(part, np.ndarray)]
    if vectors:
        return np.concatenate(vectors)[place]
    texts = [text for part in parts for text in part]
    return [texts[i] for i in place]


def likelihood_score(noise: VectorNoise, latents: Floats) -> PoolScore:
    """The log density of each release given each candidate, `(releases, candidates)`, in blocks of pairs."""
    n, dim = latents.shape

    def score(outputs: Outputs) -> Floats:
        released = np.asarray(outputs, np.float64)
        result = np.empty((len(released), n))
        rows = max(1, min(len(released), _COORDINATES_AT_ONCE // dim))
        columns = max(1, _COORDINATES_AT_ONCE // (rows * dim))
        for top in range(0, len(released), rows):
            block = released[top : top + rows]
            for left in range(0, n, columns):
                some = latents[left : left + columns]
                pairs = noise.log_density(np.tile(block, (len(some), 1)), np.repeat(some, len(block), axis=0))
                result[top : top + rows, left : left + columns] = pairs.reshape(len(some), len(block)).T
        return result

    return score


def ranks_of(scores: Floats, chosen: Integers, own: Randomness) -> Integers:
    """The place of the chosen candidate in each row, 0 for the best. Equal scores are in random order.

    Counting better scores alone would let an attack succeed that scores all candidates the same.
    """
    mine = np.take_along_axis(scores, chosen[:, None], axis=1)
    ranks = (scores > mine).sum(axis=1)
    tied = (scores == mine).sum(axis=1)
    for size in np.unique(tied[tied > 1]):
        rows = np.flatnonzero(tied == size)
        ranks[rows] += uniform_below(int(size), len(rows), own).astype(np.int64)
    return np.asarray(ranks, np.int64)


def surrogate_score(
    subject: Subject,
    pool: CandidatePool,
    simulations: int,
    randomness: Randomness,
    position: int,
    advance: Callable[[int], None],
) -> PoolScore:
    """Scores from at least two simulated releases of each candidate; ConfigError for vectors of several sizes."""
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
    """Minus half the squared distance to each candidate's mean, in units of the variance within candidates."""
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
    """Multinomial naive Bayes on hashed words. The whole output is one more word."""
    size = 1 << min(16, max(8, (_WORD_COUNTS // candidates).bit_length() - 1))
    hasher = load_sklearn().feature_extraction.text.HashingVectorizer(
        n_features=size, analyzer=_words, alternate_sign=False, norm=None
    )
    counts = np.empty((candidates, size))
    for i in range(candidates):
        counts[i] = hasher.transform(simulate(i) if i else first).sum(axis=0)
    counts += _SMOOTHING
    weights = np.log(counts / counts.sum(axis=1, keepdims=True)).T
    return lambda outputs: np.asarray(hasher.transform(outputs) @ weights)


def _words(text: str) -> list[str]:
    return [*text.split(), f"= {text}"]
