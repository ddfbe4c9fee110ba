"""Fitting of depths: the recoder, and the number of directions."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.cluster.vq import kmeans2

from dptext.embeddings.likeness import GRID
from dptext.errors import ConfigError
from dptext.mechanisms.sentences.candidate_fit import Documents, expected_gain
from dptext.types import Floats, Integers, Singles
from dptext_lab.sentdp.recoder import Recoder, RecoderSchedule, fit_recoder
from dptext_lab.sentdp.scores import DEPTHS, Depth, DepthScores

PROJECTIONS = (5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class DepthSettings:
    """A spec's settings of the fit. `dptext_lab.SentDp` explains each."""

    epsilon: float
    utility: Depth
    recoder: Literal["none", "clusters", "labels"]
    projections: int
    clusters: int
    epochs: int


def fit_scores(
    pool: Documents, rest: Documents, tuning: Documents, *, settings: DepthSettings, seed: int
) -> DepthScores:
    """Fit the recoder, if there is one, to the documents of `rest`, then the depths of the pool."""
    recoder = None
    if settings.recoder != "none":
        schedule = RecoderSchedule(epochs=settings.epochs)
        recoder = fit_recoder_for(
            rest, targets=settings.recoder, clusters=settings.clusters, schedule=schedule, seed=seed
        )
    return fit_depth(settings, recoder, pool, tuning, seed=seed)


def random_directions(dim: int, count: int, seed: int) -> Singles:
    """Draw public unit vectors `(dim, count)` on the grid."""
    drawn = np.random.default_rng(seed).normal(size=(dim, count))
    return np.asarray(np.rint(drawn / np.linalg.norm(drawn, axis=0) * GRID), np.float32)


def fit_depth(
    settings: DepthSettings, recoder: Recoder | None, pool: Documents, tuning: Documents, *, seed: int
) -> DepthScores:
    """Fit depths on `projections` directions. 0 selects the number with the largest gain on public documents."""
    moved = pool if recoder is None else Documents(recoder(pool.embeddings), pool.sizes, pool.classes)
    dim, statistic = moved.embeddings.shape[1], DEPTHS[settings.utility]
    counts = (settings.projections,) if settings.projections else PROJECTIONS
    drawn = (random_directions(dim, count, seed) for count in counts)
    tried = [DepthScores(recoder, directions, moved.means, statistic) for directions in drawn]
    if settings.projections:
        return tried[0]
    return max(tried, key=lambda scores: expected_gain(scores, tuning, pool, epsilon=settings.epsilon))


def fit_clusters(means: Floats, count: int, *, seed: int) -> Integers:
    """The k-means cluster of each document's mean `(n_documents,)`."""
    found = kmeans2(means, min(count, len(means)), minit="++", rng=np.random.default_rng(seed))[1]
    return np.asarray(np.unique(found, return_inverse=True)[1], np.int64)


def fit_recoder_for(
    documents: Documents, *, targets: Literal["clusters", "labels"], clusters: int, schedule: RecoderSchedule, seed: int
) -> Recoder:
    """Fit a recoder that separates clusters of the means, or public classes."""
    wanted = documents.classes if targets == "labels" else fit_clusters(documents.means, clusters, seed=seed)
    if wanted is None:
        raise ConfigError("Expected public documents with labels for recoder='labels', found none.")
    return fit_recoder(documents.embeddings, documents.sizes, wanted, schedule=schedule, seed=seed)
