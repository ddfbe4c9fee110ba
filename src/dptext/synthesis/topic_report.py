"""The topic report: noisy numbers of units by label and topic, and no text that is not public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

from dptext.errors import ConfigError
from dptext.sampling.source import Randomness
from dptext.synthesis.pool import OnPool, fit_pool, pool_texts
from dptext.synthesis.report import Topics
from dptext.synthesis.space import Corpus
from dptext.synthesis.spec import SynthesisSpec, Synthetic
from dptext.text.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport(SynthesisSpec):
    """Settings of a report on labels and topics, without a synthetic corpus.

    Use:
        Take it where numbers are all that is asked for: what people write about, by label, and how much.
        Set first: topics, epsilon, labels where there are some.

    Guarantee:
        Every unit adds a vector of length at most 1: one number in the cell of its label and of the topic that it is
        nearest to, and a tenth where it is unlike the pool. An author's vectors are added up and clipped. The sum has
        discrete Gaussian noise. Words and examples are public.
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
        return FittedTopics(self, fit_pool(pool_texts(public), self, dim=self.dim, seed=seed))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """By document with labels, and by author without."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, topics=4)
        return small, cls(encoder="glove", words=0, dim=8, topics=4, unit="author", relation="replace_one")


class FittedTopics(OnPool[TopicReport]):
    """A `TopicReport` with a pool."""

    __slots__ = ()

    def synthesize(self, corpus: Corpus, randomness: Randomness) -> Synthetic:
        """One pass, noise once; no text leaves."""
        found = self.topic_counts(corpus, 1.0, randomness)
        spec = self.spec
        report = Topics.of(spec.labels, found.counts, found.deviation, self.topics.described, spec.unit, found.fit)
        return Synthetic((), (), report, report.sentences())
