"""The base class of syntheses that measure a summary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from dptext.frozen import Frozen
from dptext.sampling.randomness import seeded
from dptext.synthesis.pool import PublicPool
from dptext.synthesis.readings import Corpus
from dptext.synthesis.spec import CorpusSpec, Synthetic
from dptext.synthesis.summary import FittedSummary
from dptext.synthesis.sums import Draws

Settings = TypeVar("Settings", bound=CorpusSpec)


class OnSummary(Frozen, Generic[Settings]):
    """Settings of a synthesis, with the public parts of the summary that it measures."""

    __slots__ = ("measures", "spec")

    spec: Settings
    measures: FittedSummary

    def __init__(self, spec: Settings, measures: FittedSummary) -> None:
        self.spec, self.measures = spec, measures

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    @property
    def pool(self) -> PublicPool:
        """The pool."""
        return self.measures.pool

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of everything public that is fitted."""
        return self.measures.digests

    @abstractmethod
    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Return the synthetic corpus, as `Fitted.synthesize` defines it."""

    def rehearse(self, nothing: Corpus) -> None:
        """Synthesize from an empty corpus with fixed randomness."""
        self.synthesize(nothing, Draws(seeded(0)))
