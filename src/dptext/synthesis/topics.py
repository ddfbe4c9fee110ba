"""The topic report: noisy numbers of units by label and topic, described by public words and public texts alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Self

import numpy as np

from dptext.embeddings.tfidf import load_sklearn, words_tfidf
from dptext.errors import ConfigError
from dptext.frozen import Frozen
from dptext.sampling.source import Randomness
from dptext.synthesis.report import Topics
from dptext.synthesis.space import Corpus, PublicSpace, fit_space, readings
from dptext.synthesis.spec import SynthesisSpec, Synthetic
from dptext.synthesis.sums import PrivateSum
from dptext.text.reading import as_records
from dptext.text.records import Record, records_digest
from dptext.types import Floats, Integers

_WORDS: Final = 6  # that describe a topic
_EXAMPLES: Final = 3
_SHOWN: Final = 160  # characters of a public text in a report
_FEWEST: Final = 8.0  # the least share of the pool's that a topic weighs, as a part of one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicMap:
    """Clusters of a public pool in its space.

    Attributes:
        centres: `(topics, dim)`.
        described: each topic's public words and public texts.
        of_pool: the topic of each pool text, `(n,)`.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport(SynthesisSpec):
    """Settings of a report on labels and topics, without a synthetic corpus.

    Use:
        Take it where numbers are all that is asked for: what people write about, by label, and how much.
        Set first: topics, epsilon, labels where there are some.

    Guarantee:
        Every unit adds 1 to the cell of its label and of the topic that it is nearest to; an author's numbers together
        have length at most 1. The histogram has discrete Gaussian noise. Words and examples are public.
    """

    writes: ClassVar[bool] = False

    topics: int = 64
    dim: int = 64
    kind: Literal["topics"] = field(default="topics", init=False)

    def __post_init__(self) -> None:
        SynthesisSpec.__post_init__(self)
        if self.topics < 2:
            raise ConfigError(f"Expected topics={self.topics} to be at least 2.")

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> FittedTopics:
        """Read the pool and cluster it; labels of the pool are not looked at."""
        texts = tuple(dict.fromkeys(record.text for record in as_records(public) if record.text.strip()))
        space, points = fit_space(texts, encoder=self.encoder, words=self.words, dim=self.dim, seed=seed or 0)
        return FittedTopics(self, texts, space, fit_topics(texts, points, self.topics, seed=seed or 0))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """By document with labels, and by author without."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, topics=4)
        return small, cls(encoder="glove", words=0, dim=8, topics=4, unit="author", relation="replace_one")


class FittedTopics(Frozen):
    """A `TopicReport` with a pool."""

    __slots__ = ("_map", "_space", "_texts", "spec")

    def __init__(self, spec: TopicReport, texts: tuple[str, ...], space: PublicSpace, mapped: TopicMap) -> None:
        self.spec, self._texts, self._space, self._map = spec, texts, space, mapped

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the pool's texts, and of the space."""
        return {"public": records_digest(Record("", text) for text in self._texts), "space": self._space.digest}

    def synthesize(self, corpus: Corpus, randomness: Randomness) -> Synthetic:
        """One pass, noise once; no text leaves."""
        spec = self.spec
        counts = topic_counts(spec, self._space, self._map, corpus, 1.0, randomness)
        report = Topics.of(spec.labels, counts, spec.noise().scale, self._map.described, spec.unit)
        return Synthetic((), (), report, report.sentences())


def topic_counts(
    spec: SynthesisSpec,
    space: PublicSpace,
    mapped: TopicMap,
    corpus: Corpus,
    share: float,
    randomness: Randomness,
) -> Floats:
    """Noisy numbers of units by label and topic, `(labels or 1, topics)`, for this share of rho."""
    topics, labels = len(mapped.centres), max(1, len(spec.labels))
    summed = PrivateSum(labels * topics, spec.noise(share), by_author=spec.unit == "author")
    for label, points, authors in readings(corpus, space, spec.labels):
        cells = (label * topics + mapped.nearest(points))[:, None]
        summed.add(cells, np.ones(cells.shape), authors)
    return summed.release(randomness).reshape(labels, topics)
