"""A private corpus is answered by public mottos: each as often as private texts share most words with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np

import dptext as dp
from dptext.frozen import Frozen
from dptext.synthesis.pool import apportioned, pool_texts, shuffled
from dptext.synthesis.readings import Corpus, units_of
from dptext.synthesis.report import Topics
from dptext.synthesis.spec import SynthesisSpec, Synthetic
from dptext.synthesis.sums import Draws, PrivateSum
from dptext.text.records import records_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Mottos(SynthesisSpec):
    """Public mottos in the mix of a private corpus.

    Guarantee:
        Every unit adds a vector of length at most 1: its vote for one motto. An author's votes are added up and
        clipped. The sum has discrete Gaussian noise, and all that leaves follows from the noisy sum and public text.
    """

    kind: Literal["mottos"] = field(default="mottos", init=False)

    def __post_init__(self) -> None:
        SynthesisSpec.__post_init__(self)
        if self.labels:
            raise dp.errors.ConfigError("Expected no labels: a motto has none.")

    def fit(self, *, public: Iterable[dp.Record], seed: int | None = None) -> FittedMottos:
        return FittedMottos(self, pool_texts(public))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        return cls(about=100), cls(about=100, unit="author", relation="replace_one")


class FittedMottos(Frozen):
    """`Mottos` with its public texts."""

    __slots__ = ("spec", "texts")

    def __init__(self, spec: Mottos, texts: tuple[str, ...]) -> None:
        self.spec, self.texts = spec, texts

    @property
    def digests(self) -> dict[str, str]:
        return {"public": records_digest(dp.Record("", text) for text in self.texts)}

    def rehearse(self, nothing: Corpus) -> None:
        self.synthesize(nothing, Draws(dp.randomness.seeded(0)))

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        spec, words = self.spec, [set(text.split()) for text in self.texts]
        votes = PrivateSum(len(words), spec.noise(), by_author=spec.unit == "author")
        for _, texts, authors in units_of(corpus, spec.labels):
            shared = np.array([[len(own & set(text.split())) for own in words] for text in texts])
            votes.add(shared.argmax(axis=1)[:, None], np.ones((len(texts), 1)), authors)
        noisy = votes.release(draws)  # the only number that follows private text
        copies = apportioned(np.maximum(noisy, 1e-9), spec.size_of(self.texts))
        order = shuffled(int(copies.sum()), draws.randomness)
        texts = np.repeat(np.array(self.texts, object), copies)[order]
        mottos = tuple(((text,), (text,)) for text in self.texts)
        report = Topics.of((), noisy[None], spec.noise().scale, mottos, spec.unit, None)
        return Synthetic(tuple(texts), (None,) * len(texts), report, report.sentences())
