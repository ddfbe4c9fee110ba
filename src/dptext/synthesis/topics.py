"""Topics: clusters of a public pool, described by public words and public texts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.embeddings.tfidf import load_sklearn, words_tfidf
from dptext.errors import ConfigError
from dptext.types import Floats, Integers

_WORDS: Final = 6  # that describe a topic
_EXAMPLES: Final = 3
_SHOWN: Final = 160  # characters of a public text in a report
_FEWEST: Final = 8.0  # the least share of the pool's that a topic weighs, as a part of one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicMap:
    """Clusters of a public pool: `centres` `(topics, dim)`, each one's public words and texts, each text's topic."""

    centres: Floats
    described: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    of_pool: Integers

    def nearest(self, points: Floats) -> Integers:
        """The topic of each point, `(n,)`; sums of a point's own squares alone, so that no batch changes it."""
        found = [np.square(points - centre).sum(axis=1) for centre in self.centres]
        return np.asarray(np.argmin(np.stack(found), axis=0), np.int64)

    def weights(self, counts: Floats, deviation: float) -> Floats:
        """ln of how much more of a pool text's topic the corpus has than the pool, `(n,)`; noise counts as little."""
        there = np.bincount(self.of_pool, minlength=len(counts)) / len(self.of_pool)
        kept = np.where(counts > 2 * deviation, counts, 0.0)
        if not kept.sum():
            return np.zeros(len(self.of_pool))
        ratio = kept / kept.sum() / np.maximum(there, 1e-12)
        return np.asarray(np.log(np.maximum(ratio, 1 / _FEWEST))[self.of_pool])


def fit_topics(texts: Sequence[str], points: Floats, topics: int, *, seed: int) -> TopicMap:
    """Clusters of the pool by k-means. ConfigError: the pool is too small."""
    if len(texts) < 2 * topics:
        raise ConfigError(f"Expected a pool of at least {2 * topics} different texts for {topics} topics.")
    load_sklearn()
    from sklearn.cluster import KMeans  # noqa: PLC0415 (an extra)

    centres = np.asarray(KMeans(topics, n_init=1, random_state=seed).fit(points).cluster_centers_, np.float64)
    mapped = TopicMap(centres, (), np.zeros(0, np.int64))
    of_pool = mapped.nearest(points)
    counter = words_tfidf(stop_words="english", max_features=20_000)
    weights = counter.fit_transform(texts)
    names = counter.get_feature_names_out()
    described = []
    for topic in range(topics):
        rows = np.flatnonzero(of_pool == topic)
        apart = np.square(points[rows] - centres[topic]).sum(axis=1)
        near = rows[np.argsort(apart, kind="stable")[:_EXAMPLES]]
        mean = np.asarray(weights[rows].mean(axis=0)).ravel() if rows.size else np.zeros(len(names))
        best = np.argsort(-mean, kind="stable")[:_WORDS]
        described.append((tuple(str(names[i]) for i in best), tuple(" ".join(texts[i].split())[:_SHOWN] for i in near)))
    return TopicMap(centres, tuple(described), of_pool)
