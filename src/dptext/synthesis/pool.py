"""The pool of public texts that every way of synthesis reads, and what is fitted on one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from dptext.frozen import Frozen
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.synthesis.report import PoolFit
from dptext.synthesis.space import UNLIKE, Corpus, PublicSpace, fit_space, readings, says_something
from dptext.synthesis.spec import SynthesisSpec
from dptext.synthesis.sums import PrivateSum, in_steps
from dptext.synthesis.topics import TopicMap, fit_topics
from dptext.text.reading import as_records
from dptext.text.records import Record, records_digest
from dptext.types import Floats, Integers

#: The part of rho that tells whether the pool fits, and the two parts of a vector of length at most 1.
FIT_SHARE: Final = 0.01
UNLIKE_PART: Final = in_steps(math.sqrt(FIT_SHARE))
TOPIC_PART: Final = in_steps(math.sqrt(1 - FIT_SHARE))

Settings = TypeVar("Settings", bound=SynthesisSpec)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pool:
    """Public texts that hold something, each once, their points `(n, dim)`, and clusters where these are asked for."""

    texts: tuple[str, ...]
    space: PublicSpace
    points: Floats
    topics: TopicMap | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopicCounts:
    """Noisy numbers of units by label and topic, `(labels or 1, topics)`, their deviation, and how the pool fits."""

    counts: Floats
    deviation: float
    fit: PoolFit


def pool_texts(public: Iterable[Record]) -> tuple[str, ...]:
    """The different texts of public records that hold something."""
    return tuple(dict.fromkeys(record.text for record in as_records(public) if says_something(record.text)))


def fit_pool(texts: tuple[str, ...], spec: SynthesisSpec, *, dim: int, seed: int | None) -> Pool:
    """The pool of these texts in `dim` directions; errors as `fit_space` and `fit_topics`."""
    space, points = fit_space(texts, encoder=spec.encoder, words=spec.words, dim=dim, seed=seed or 0)
    topics = fit_topics(texts, points, spec.topics, seed=seed or 0) if spec.topics else None
    return Pool(texts, space, points, topics)


class OnPool(Frozen, Generic[Settings]):
    """A base of a synthesis with its pool."""

    __slots__ = ("pool", "spec")

    spec: Settings
    pool: Pool

    def __init__(self, spec: Settings, pool: Pool) -> None:
        self.spec = spec
        self.pool = pool

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the pool's texts, and of the space."""
        texts = (Record("", text) for text in self.pool.texts)
        return {"public": records_digest(texts), "space": self.pool.space.digest}

    @property
    def topics(self) -> TopicMap:
        """The topics, where the settings ask for some."""
        assert self.pool.topics is not None  # noqa: S101 (specs with topics alone come here)
        return self.pool.topics

    def topic_counts(self, corpus: Corpus, share: float, randomness: Randomness) -> TopicCounts:
        """Noisy numbers of units by label and topic, and of those unlike the pool, for this share of rho."""
        spec, topics = self.spec, len(self.topics.centres)
        labels = max(1, len(spec.labels))
        noise, last = spec.noise(share), labels * topics
        summed = PrivateSum(last + 1, noise, by_author=spec.unit == "author")
        for read in readings(corpus, self.pool.space, spec.labels):
            cells = np.full((len(read.labels), 2), last)
            cells[:, 0] = read.labels * topics + self.topics.nearest(read.points)
            summed.add(cells, np.stack([np.full(len(cells), TOPIC_PART), read.unlike * UNLIKE_PART], 1), read.authors)
        noisy = summed.release(randomness)
        counts, deviation = noisy[:last].reshape(labels, topics) / TOPIC_PART, noise.scale / TOPIC_PART
        return TopicCounts(counts, deviation, self.pool_fit(noisy[last], noise.scale, counts, deviation))

    def pool_fit(self, unlike: float, scale: float, counts: Floats, deviation: float) -> PoolFit:
        """How the pool fits, from the noisy last coordinate of a sum with this noise, and noisy numbers of units."""
        return PoolFit.of(
            unlike / UNLIKE_PART,
            scale / UNLIKE_PART,
            float(counts.sum()),
            deviation * math.sqrt(counts.size),
            usual=UNLIKE,
            compared=self.pool.space.compared,
        )


def shuffled(n: int, randomness: Randomness) -> Integers:
    """A random order of n things."""
    return np.argsort(uniform_below(1 << 63, n, randomness), kind="stable")
