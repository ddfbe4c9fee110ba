"""Prototypes: public texts get labels and weights from noisy class means of a private corpus.

This is a summary of points and counts, and the writer that reads a pool, in one run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from dptext import _validate
from dptext.mechanism import OnProgress
from dptext.sampling.randomness import Randomness
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.on_summary import OnSummary
from dptext.synthesis.readings import Corpus
from dptext.synthesis.spec import Progress, SynthesisSpec, Synthetic, require_names
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.sums import Draws
from dptext.text.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Prototypes(SynthesisSpec):
    """Settings of a synthesis that labels public texts by noisy class means.

    Use:
        Take it to train a classifier when private texts have labels and the pool has none, or other labels.
        Set first: labels, epsilon, about.

    Guarantee:
        Every unit adds its point (length at most 1) in the row of its label, its count, a number for its nearest
        topic, and a number if it is unlike the pool. Each takes a share of one vector of length at most 1. The sum has
        discrete Gaussian noise. Everything else reads the noisy sum and public text alone.

    Attributes:
        dim: directions of the space; 0 chooses 64 to 256 by `about`, labels and noise. A small pool has fewer.
        topic_share: share of rho for the topics.
        names: meanings of the labels, one text for each, in their order; empty takes the labels as they are.
        prior: whether noisy class means are pulled towards guesses made from the label names; noisier means are pulled
            more.
    """

    tells: ClassVar[bool] = True
    repeats: ClassVar[bool | None] = False

    dim: int = 0
    topic_share: float = 0.1
    names: tuple[str, ...] = ()
    prior: bool = True
    kind: Literal["prototypes"] = field(default="prototypes", init=False)

    def __post_init__(self) -> None:
        SynthesisSpec.__post_init__(self)
        _validate.two_labels(self.labels, otherwise=", or take votes, which needs none")
        object.__setattr__(self, "names", require_names(self.names, self.labels))
        _validate.not_negative(dim=self.dim)
        _validate.within(0.01, 0.98, topic_share=self.topic_share)

    @property
    def summary(self) -> SummarySpec:
        """The settings of the summary that is measured."""
        return SummarySpec(
            labels=self.labels, epsilon=self.epsilon, delta=self.delta, unit=self.unit, relation=self.relation,
            about=self.about, encoder=self.encoder, words=self.words, topics=self.topics, names=self.names,
            dim=self.dim, topic_share=self.topic_share if self.topics else 0.0,
        )  # fmt: skip

    @property
    def advice(self) -> str:
        """The warnings of the summary that is measured."""
        return self.summary.advice

    def fit(
        self, *, public: Iterable[Record], seed: int | None = None, on_progress: OnProgress | None = None
    ) -> FittedPrototypes:
        """Read the pool. Labels of the pool are ignored; a text that occurs twice counts once."""
        return FittedPrototypes(self, self.summary.fit(public=public, seed=seed, on_progress=on_progress))

    def written(self, summary: Summary, source: Randomness, on_progress: Progress | None = None) -> Synthetic:
        """Return public texts that are labelled and chosen by a summary. `source` is for their order."""
        return FromPool(size=self.size, prior=self.prior).write(summary, source)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with topics, and by author without topics, on the labels of `dptext.sample_records`."""
        labels = ("health", "travel", "money", "leisure")
        small = cls(labels=labels, encoder="glove", words=8, dim=8, about=200, topics=4)
        return small, replace(small, words=0, topics=0, unit="author", relation="replace_one")


class FittedPrototypes(OnSummary[Prototypes]):
    """`Prototypes` with the public parts of its summary."""

    __slots__ = ()

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """One pass over the corpus, noise once, then labelled pool texts."""
        return self.spec.written(self.measures.measure(corpus, draws), draws.randomness)
