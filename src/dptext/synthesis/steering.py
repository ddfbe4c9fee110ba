"""Steering: noisy numbers of words move the output of a language model, which writes new texts.

This is a summary of words, and the writer with a language model, in one run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from dptext import _validate
from dptext.errors import ConfigError
from dptext.language.reading import load_language_model
from dptext.mechanism import OnProgress
from dptext.sampling.randomness import Randomness
from dptext.synthesis.from_model import FromModel
from dptext.synthesis.on_summary import OnSummary
from dptext.synthesis.readings import Corpus
from dptext.synthesis.spec import Progress, Synthetic
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.synthesis.sums import Draws
from dptext.synthesis.writer import WritingSpec
from dptext.text.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering(WritingSpec):
    """Settings of a synthesis that writes new texts, steered by noisy numbers of words.

    Use:
        Take it for short texts with labels, of a kind that public text lacks, and for any number of texts.
        Set first: labels, names, epsilon, about, tokens.

    Guarantee:
        A unit adds a vector of length at most 1: its count, and for at most `marks` different words of its text one
        number each, in the row of its label; all vectors of an author together have length at most 1. Discrete Gaussian
        noise is added once. Which words can count depends on public text and the model alone.

    Attributes:
        marks: largest number of different words of a text that count: those most frequent in public texts.
        vocabulary: number of words that can count.
        drafts: number of public texts for each label, which show how often the model writes each word.
        matches: number of times that drafts are written anew to match the noisy numbers.
        words: 0, as no vectors of texts are read.
    """

    tells: ClassVar[bool] = True

    marks: int = 5
    vocabulary: int = 20_000
    drafts: int = 32
    matches: int = 3
    kind: Literal["steering"] = field(default="steering", init=False)

    def __post_init__(self) -> None:
        WritingSpec.__post_init__(self)
        _validate.count(marks=self.marks, vocabulary=self.vocabulary, drafts=self.drafts)
        _validate.not_negative(matches=self.matches)
        if self.words:
            raise ConfigError(f"Expected words={self.words} to be 0: this way reads no vectors of texts.")

    @property
    def summary(self) -> SummarySpec:
        """The settings of the summary that is measured."""
        return SummarySpec(
            labels=self.labels, epsilon=self.epsilon, delta=self.delta, unit=self.unit, relation=self.relation,
            about=self.about, encoder=self.encoder, words=self.words, names=self.names,
            marks=self.marks, vocabulary=self.vocabulary, model=self.model, drafts=self.drafts, tokens=self.tokens,
            examples=self.examples, count_share=self.count_share, points=False,
        )  # fmt: skip

    @property
    def advice(self) -> str:
        """The warnings of the summary that is measured."""
        return self.summary.advice

    @property
    def writer(self) -> FromModel:
        """The settings of the writer."""
        return FromModel(
            size=self.size, model=self.model, tokens=self.tokens, temperature=self.temperature,
            options=self.options, drafts=self.drafts, matches=self.matches,
        )  # fmt: skip

    def fit(
        self, *, public: Iterable[Record], seed: int | None = None, on_progress: OnProgress | None = None
    ) -> FittedSteering:
        """Choose public examples, write public drafts, and read the pool. MissingExtraError: no model is installed."""
        load_language_model(self.model)
        return FittedSteering(self, self.summary.fit(public=public, seed=seed, on_progress=on_progress))

    def written(self, summary: Summary, source: Randomness, on_progress: Progress | None = None) -> Synthetic:
        """Return texts that the model writes by the noisy numbers of a summary. `source` is for its choices.

        A fresh process writes, as this one may have read private text.
        """
        return self.writer.write(summary, source, on_progress=on_progress, apart=True)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, and by author without labels."""
        small = cls(
            labels=("travel", "money"), about=60, tokens=4, size=6, options=16, examples=2, marks=3, vocabulary=30,
            drafts=4, matches=1, encoder="glove",
        )  # fmt: skip
        return small, replace(small, labels=(), names=(), unit="author", relation="replace_one")


class FittedSteering(OnSummary[Steering]):
    """`Steering` with the public parts of its summary."""

    __slots__ = ()

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Read the corpus once, add noise once, and let the model write texts by the noisy numbers, in this process.

        Runs keep the summary, and let `Steering.written` write from it.
        """
        return self.spec.writer.write(self.measures.measure(corpus, draws), draws.randomness)

    def rehearse(self, nothing: Corpus) -> None:
        """Measure an empty corpus. The model, which was loaded before, writes nothing."""
        self.measures.rehearse(nothing)
