"""Rare words replaced, common ones kept: the baseline that the ADePT paper compares with. No guarantee.

A word that a public frequency list does not call common is taken for private. Laplace noise of a set variance is added
to each coordinate of its vector, and the nearest word takes its place (Krishna, Gupta and Dupuy 2021, section 4; after
Feyisetan et al. 2019, whose own mechanism is hyperbolic). Common words leave verbatim. Which words are replaced depends
on the text, so no epsilon holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.nearest import NearestWords
from dptext.embeddings.vectors import WordVectors
from dptext.mechanisms.bases import FromWords, NoGuarantee, OnWords, blocks_of
from dptext.sampling.grid_noise import coordinate_laplace
from dptext.sampling.source import Randomness
from dptext.text import tokens as text
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record

_TOKENS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class PrivatePhrases(FromWords["PrivatePhrasesMechanism"], NoGuarantee):
    """Settings of the rare-word baseline.

    Use:
        Take it to compare with, never to protect.
        Set first: variance, common_words.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`.

    Attributes:
        variance: variance of the Laplace noise on each coordinate; the paper sweeps 1, 6, 9, 15, 28, 100.
        vectors: "glove" or a path; the order of its words is the public frequency list.
        n_words: size of the vocabulary.
        common_words: the first so many words of the list leave as they are.
    """

    reason: ClassVar[str] = "common words leave verbatim, and which words are replaced depends on the private text"
    reveals: ClassVar[tuple[str, ...]] = ("every common word", text.TOKEN_COUNT, text.LINE_STRUCTURE)

    variance: float
    vectors: str = "glove"
    n_words: int = 50_000
    common_words: int = 2_000
    kind: Literal["private_phrases"] = field(default="private_phrases", init=False)

    def __post_init__(self) -> None:
        _validate.positive(variance=self.variance)
        _validate.count(n_words=self.n_words, common_words=self.common_words)

    def _fitted(self, vectors: WordVectors) -> PrivatePhrasesMechanism:
        return PrivatePhrasesMechanism(self, vectors)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings on the first words of GloVe, some of them common."""
        return (cls(variance=6.0, n_words=300, common_words=50),)


class PrivatePhrasesMechanism(OnWords[PrivatePhrases]):
    """A `PrivatePhrases` with its vectors."""

    __slots__ = ("_nearest", "_standin")

    def __init__(self, spec: PrivatePhrases, vectors: WordVectors) -> None:
        super().__init__(spec, vectors)
        self._nearest = NearestWords(vectors)
        self._standin = vectors.vectors.mean(axis=0, dtype=np.float64)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One text a record: rare and unknown words replaced, common ones as they are."""
        batch = Batch.of(records)
        documents = [text.tokenize(each) for each in batch.texts]
        tokens = [token for document in documents for line in document for token in line]
        indices = np.asarray(self._vectors.index_of(tokens), np.int64)
        is_rare = (indices < 0) | (indices >= self.spec.common_words)
        ends = np.cumsum([sum(map(len, document)) for document in documents], dtype=np.int64)
        sizes = np.diff(np.concatenate([[0], is_rare.cumsum()])[np.concatenate([[0], ends])]).tolist()
        rare = np.flatnonzero(is_rare)
        replaced: dict[int, int] = {}
        for source, rows in blocks_of(randomness, sizes, _TOKENS_AT_ONCE):
            here = rare[rows]
            points = self._vectors.vectors[indices[here]].astype(np.float64)
            points[indices[here] < 0] = self._standin
            points += coordinate_laplace(len(points), points.shape[1], self.spec.variance, source)
            replaced |= zip(here.tolist(), self._nearest.search(points).tolist(), strict=True)
        out = iter(self._vectors.words[replaced[i]] if i in replaced else token for i, token in enumerate(tokens))
        return batch.released([text.detokenize([[next(out) for _ in line] for line in lines]) for lines in documents])
