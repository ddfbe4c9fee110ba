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
from dptext.mechanism import OnProgress
from dptext.synthesis.agreement import Known
from dptext.synthesis.blocks import TOPICS
from dptext.synthesis.on_summary import OnSummary
from dptext.synthesis.pool import TopicMap, apportioned, nearest_of, shuffled
from dptext.synthesis.readings import Corpus, readings
from dptext.synthesis.spec import CorpusSpec, SynthesisSpec, Synthetic
from dptext.synthesis.summary import SummarySpec
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
        In the first round every unit adds its count, a vote for its nearest topic, and a number if it is unlike the
        pool; all together have length at most 1. In the second round it votes for the nearest of the texts that were
        drawn from the kept topics. Votes are by label if there are labels. A vote has length at most 1, and so have all
        votes of an author together. Each round has discrete Gaussian noise; the rhos add up.

    Attributes:
        first_share: share of rho for the first round.
        dim: directions of the space.
    """

    tells: ClassVar[bool] = True
    repeats: ClassVar[bool | None] = True

    topics: int = 64
    first_share: float = 0.5
    dim: int = 64
    kind: Literal["votes"] = field(default="votes", init=False)

    def __post_init__(self) -> None:
        _validate.count(topics=self.topics, dim=self.dim)
        _validate.within(0.05, 0.95, first_share=self.first_share)
        SynthesisSpec.__post_init__(self)

    @property
    def advice(self) -> str:
        """With labels, the way that measured better."""
        if not self.labels:
            return ""
        return "votes with labels measured worse than public text on most corpora: prototypes is the way with labels."

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the two rounds."""
        return self.first_share, 1 - self.first_share

    @property
    def population(self) -> int:
        """The number of texts that are voted on in the second round."""
        return most_voted_on(self, 1 - self.first_share)

    def fit(
        self, *, public: Iterable[Record], seed: int | None = None, on_progress: OnProgress | None = None
    ) -> FittedVotes:
        """Read the pool and cluster it; labels of the pool are ignored."""
        return FittedVotes(self, topics_alone(self, self.dim).fit(public=public, seed=seed, on_progress=on_progress))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, and by author without labels."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, topics=4, about=200, epsilon=4.0)
        return small, replace(small, labels=(), words=0, unit="author", relation="replace_one")


class FittedVotes(OnSummary[Votes]):
    """`Votes` with a pool."""

    __slots__ = ()

    @property
    def topics(self) -> TopicMap:
        """The topics."""
        assert self.pool.topics is not None  # noqa: S101 (topics are measured)
        return self.pool.topics

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Two passes, noise once in each, then texts in proportion to their votes."""
        spec = self.spec
        first = self.measures.measure(corpus, draws, spec.first_share)
        cells = first.known[TOPICS]
        counts, scale = cells.numbers, cells.deviation
        rows = self._population(counts, scale, draws)
        votes = self._votes(rows, corpus, draws)
        weights = self._weights(rows, votes, cells).ravel()
        order = shuffled(weights.size, draws.randomness)  # a random order of equal weights
        copies = np.zeros(weights.size, np.int64)
        copies[order] = apportioned(weights[order], spec.size_of(self.pool.texts))
        picked = np.repeat(np.arange(weights.size), copies)
        picked = picked[shuffled(len(picked), draws.randomness)]
        named, found = np.divmod(picked, len(self.pool.texts))
        texts = tuple(self.pool.texts[i] for i in found)
        labels = tuple(spec.labels[i] if spec.labels else None for i in named)
        return Synthetic(texts, labels, first.report, first.report.sentences())

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

    def _weights(self, rows: Integers, votes: Floats, first: Known) -> Floats:
        """Return the weight of each pool text for each label, `(labels or 1, pool)`.

        A topic's noisy number goes first to the texts with votes beyond the noise, by their votes. The rest is spread
        evenly over all texts of the topic.
        """
        spec, of_pool, counts = self.spec, self.topics.of_pool, first.numbers
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
        for read in readings(corpus, self.measures.public.reader, spec.labels):
            cells = (read.labels * len(rows) + nearest_of(read.points, options))[:, None]
            summed.add(cells, np.ones(cells.shape), read.authors)
        return summed.release(draws).reshape(labels, len(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport(CorpusSpec):
    """Settings of a report on labels and topics, without a synthetic corpus.

    Use:
        Take it where only numbers are needed: what people write about, by label, and how much.
        Set first: topics, epsilon, labels if there are any.

    Guarantee:
        Every unit adds a vector of length at most 1: its count by label, one number in the cell of its label and
        nearest topic, and 0.1 if it is unlike the pool. An author's vectors are added up and clipped. The sum has
        discrete Gaussian noise. Words and examples are public.

    Attributes:
        topics: clusters of the pool whose noisy shares are reported, at least 2.
        dim: directions of the space.
    """

    writes: ClassVar[bool] = False
    tells: ClassVar[bool] = True

    topics: int = 64
    dim: int = 64
    kind: Literal["topics"] = field(default="topics", init=False)

    def __post_init__(self) -> None:
        CorpusSpec.__post_init__(self)
        if self.topics < 2:
            raise ConfigError(f"Expected topics={self.topics} to be at least 2.")

    @property
    def advice(self) -> str:
        """The warnings of the summary that is measured."""
        return topics_alone(self, self.dim).advice

    def fit(
        self, *, public: Iterable[Record], seed: int | None = None, on_progress: OnProgress | None = None
    ) -> FittedTopics:
        """Read the pool and cluster it; labels of the pool are ignored."""
        return FittedTopics(self, topics_alone(self, self.dim).fit(public=public, seed=seed, on_progress=on_progress))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, and by author without labels."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, topics=4)
        return small, cls(encoder="glove", words=0, dim=8, topics=4, unit="author", relation="replace_one")


class FittedTopics(OnSummary[TopicReport]):
    """A `TopicReport` with a pool."""

    __slots__ = ()

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """One pass, noise once; no text leaves."""
        report = self.measures.measure(corpus, draws).report
        return Synthetic((), (), report, report.sentences())


def topics_alone(spec: CorpusSpec, dim: int) -> SummarySpec:
    """Return the settings of a summary of counts and topics, in `dim` directions."""
    return SummarySpec(
        labels=spec.labels, epsilon=spec.epsilon, delta=spec.delta, unit=spec.unit, relation=spec.relation,
        about=spec.about, encoder=spec.encoder, words=spec.words, topics=spec.topics, points=False, dim=dim,
    )  # fmt: skip


def most_voted_on(spec: CorpusSpec, share: float) -> int:
    """Return the number of texts to vote on: on average each gets votes of three deviations of the noise."""
    noise = spec.noise(share).scale
    return max(2, int(spec.about / (3 * noise))) if noise else spec.about
