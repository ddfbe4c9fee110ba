"""Votes: every unit votes for its nearest neighbour, first among clusters of a public pool, then among texts.

This is private evolution (Xie et al. 2024) on a fixed pool; in `evolution` a writer varies texts between the rounds. A
topic report is the first round alone: noisy numbers of units, and no text but public text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, Self

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.synthesis.pool import OnPool, TopicCounts, fit_pool, pool_texts, shuffled
from dptext.synthesis.report import Topics
from dptext.synthesis.space import Corpus, readings
from dptext.synthesis.spec import SynthesisSpec, Synthetic
from dptext.synthesis.sums import Draws, PrivateSum
from dptext.text.records import Record
from dptext.types import Floats, Integers

LEAST_VOTES: Final = 2.0  # deviations of the noise; fewer votes count as none


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes(SynthesisSpec):
    """Settings of a synthesis by votes for public texts.

    Use:
        Take it where the mix of subjects matters and there are no labels. With labels it measured worse than public
        text on most splits, and prototypes measured better.
        Set first: epsilon, about, topics.

    Guarantee:
        In the first round every unit votes for its nearest topic and, with weight 0.1, for being unlike the pool if it
        is; both together have length at most 1. In the second round it votes for the nearest of the texts that were
        drawn from the kept topics. Votes are by label if there are labels. A vote has length at most 1, and so have all
        votes of an author together. Each round has discrete Gaussian noise; the rhos add up.

    Attributes:
        first_share: share of rho for the first round.
        dim: directions of the space.
    """

    topics: int = 64
    first_share: float = 0.5
    dim: int = 64
    kind: Literal["votes"] = field(default="votes", init=False)

    def __post_init__(self) -> None:
        _validate.count(topics=self.topics, dim=self.dim)
        _validate.within(0.05, 0.95, first_share=self.first_share)
        SynthesisSpec.__post_init__(self)

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the two rounds."""
        return self.first_share, 1 - self.first_share

    @property
    def population(self) -> int:
        """The number of texts that are voted on in the second round."""
        return most_voted_on(self, 1 - self.first_share)

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> FittedVotes:
        """Read the pool and cluster it; labels of the pool are ignored."""
        return FittedVotes(self, fit_pool(pool_texts(public), self, dim=self.dim, seed=seed)[0])

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, and by author without labels."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, topics=4, about=200, epsilon=4.0)
        return small, replace(small, labels=(), words=0, unit="author", relation="replace_one")


class FittedVotes(OnPool[Votes]):
    """`Votes` with a pool."""

    __slots__ = ()

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Two passes, noise once in each, then texts in proportion to their votes."""
        spec = self.spec
        first = self.topic_counts(corpus, spec.first_share, draws)
        counts, scale = first.counts, first.deviation
        rows = self._population(counts, scale, draws)
        votes = self._votes(rows, corpus, draws)
        weights = self._weights(rows, votes, first).ravel()
        order = shuffled(weights.size, draws.randomness)  # a random order of equal weights
        copies = np.zeros(weights.size, np.int64)
        copies[order] = apportioned(weights[order], spec.size_of(self.pool.texts))
        picked = np.repeat(np.arange(weights.size), copies)
        picked = picked[shuffled(len(picked), draws.randomness)]
        named, found = np.divmod(picked, len(self.pool.texts))
        report = Topics.of(spec.labels, counts, scale, self.topics.described, spec.unit, first.fit)
        texts = tuple(self.pool.texts[i] for i in found)
        labels = tuple(spec.labels[i] if spec.labels else None for i in named)
        return Synthetic(texts, labels, report, report.sentences())

    def _population(self, counts: Floats, scale: float, draws: Draws) -> Integers:
        """Return the pool rows that are voted on, `(n,)`: of each topic in proportion to its noisy share."""
        summed = counts.sum(axis=0)
        seen = np.where(summed > LEAST_VOTES * scale * np.sqrt(len(counts)), summed, 0.0)
        wanted = apportioned(seen if seen.any() else np.ones(len(summed)), self.spec.population)
        picked = []
        for topic, n in enumerate(wanted.tolist()):
            rows = np.flatnonzero(self.topics.of_pool == topic)
            picked.append(rows[shuffled(len(rows), draws.randomness)[:n]])
        return np.sort(np.concatenate(picked))

    def _weights(self, rows: Integers, votes: Floats, first: TopicCounts) -> Floats:
        """Return the weight of each pool text for each label, `(labels or 1, pool)`.

        A topic's noisy number goes first to the texts with votes beyond the noise, by their votes. The rest is spread
        evenly over all texts of the topic.
        """
        spec, of_pool, counts = self.spec, self.topics.of_pool, first.counts
        seen = np.where(counts > LEAST_VOTES * first.deviation, counts, 0.0)
        seen = seen if seen.any() else np.maximum(counts, 1e-9)  # noise alone
        found = np.zeros((len(counts), len(of_pool)))
        found[:, rows] = np.where(votes > LEAST_VOTES * spec.noise(1 - spec.first_share).scale, votes, 0.0)
        for topic, members in enumerate(np.bincount(of_pool, minlength=counts.shape[1]).tolist()):
            own = of_pool == topic
            left = np.maximum(seen[:, topic] - found[:, own].sum(axis=1), 0.0)
            found[:, own] += (left / max(members, 1))[:, None]
        return found

    def _votes(self, rows: Integers, corpus: Corpus, draws: Draws) -> Floats:
        """Return noisy votes by label and text, `(labels or 1, n)`."""
        spec = self.spec
        labels, options = max(1, len(spec.labels)), self.pool.points[rows]
        summed = PrivateSum(labels * len(rows), spec.noise(1 - spec.first_share), by_author=spec.unit == "author")
        for read in readings(corpus, self.pool.space, spec.labels):
            best = np.array([np.square(options - point).sum(axis=1).argmin() for point in read.points], np.int64)
            cells = (read.labels * len(rows) + best)[:, None]
            summed.add(cells, np.ones(cells.shape), read.authors)
        return summed.release(draws).reshape(labels, len(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport(SynthesisSpec):
    """Settings of a report on labels and topics, without a synthetic corpus.

    Use:
        Take it where only numbers are needed: what people write about, by label, and how much.
        Set first: topics, epsilon, labels if there are any.

    Guarantee:
        Every unit adds a vector of length at most 1: one number in the cell of its label and nearest topic, and 0.1 if
        it is unlike the pool. An author's vectors are added up and clipped. The sum has discrete Gaussian noise. Words
        and examples are public.

    Attributes:
        dim: directions of the space.
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
        """Read the pool and cluster it; labels of the pool are ignored."""
        return FittedTopics(self, fit_pool(pool_texts(public), self, dim=self.dim, seed=seed)[0])

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, and by author without labels."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, topics=4)
        return small, cls(encoder="glove", words=0, dim=8, topics=4, unit="author", relation="replace_one")


class FittedTopics(OnPool[TopicReport]):
    """A `TopicReport` with a pool."""

    __slots__ = ()

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """One pass, noise once; no text leaves."""
        found = self.topic_counts(corpus, 1.0, draws)
        spec = self.spec
        report = Topics.of(spec.labels, found.counts, found.deviation, self.topics.described, spec.unit, found.fit)
        return Synthetic((), (), report, report.sentences())


def most_voted_on(spec: SynthesisSpec, share: float) -> int:
    """Return the number of texts to vote on: on average each gets votes of three deviations of the noise."""
    noise = spec.noise(share).scale
    return max(2, int(spec.about / (3 * noise))) if noise else spec.about


def apportioned(weights: Floats, size: int) -> Integers:
    """Return whole numbers in proportion to weights `(n,)`, which add up to `size` (largest remainders)."""
    exact: Floats = weights / weights.sum() * size
    found: Integers = np.floor(exact).astype(np.int64)
    more = np.argsort(-(exact - found), kind="stable")[: size - int(found.sum())]
    found[more] += 1
    return found
