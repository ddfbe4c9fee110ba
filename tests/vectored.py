"""A mechanism that releases vectors, for tests: `word_metric`, and how often six letters occur in each text drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from dptext.mechanism import Learns, Traits
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record, Release


def vector_of(text: str) -> tuple[float, ...]:
    return tuple(text.count(letter) / 7 for letter in "bcdeio")


@dataclass(frozen=True, slots=True)
class VectorWords(WordMetric):
    """Released vectors are made from released texts, so that they cost nothing."""

    output: Literal["text", "embedding", "both"] = "both"

    @property
    def traits(self) -> Traits:
        text, vectors = self.output != "embedding", self.output != "text"
        return Traits(learns=Learns.NOTHING, releases_text=text, releases_vectors=vectors)

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> VectorMechanism:
        same = {each.name: getattr(self, each.name) for each in fields(WordMetric) if each.init}
        return VectorMechanism(WordMetric(**same).fit(), self)

    def load(self, folder: Path) -> VectorMechanism:
        return replace(self.fit(), inner=WordMetric.load(self, folder))


@dataclass(frozen=True)
class VectorMechanism:
    inner: object = field(repr=False)
    spec: VectorWords

    @property
    def digests(self) -> Mapping[str, str]:
        return self.inner.digests

    def distance(self, first: Record, second: Record) -> float:
        return self.inner.distance(first, second)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        released = self.inner.privatize(records, randomness)
        match self.spec.output:
            case "text":
                return list(released)
            case "both":
                return [replace(each, vector=vector_of(each.output)) for each in released]
            case "embedding":
                return [replace(each, output="", vector=vector_of(each.output)) for each in released]
