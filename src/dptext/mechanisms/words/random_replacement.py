"""Words replaced at random: the baseline Random-R of the ER-AE paper. No guarantee.

Bo et al. 2021 compare ER-AE with texts whose words are replaced at random. They do not say what share of the words is
replaced. Their figures (similarity .12, authorship .02 among 100 authors, Yelp) fit a share of nearly 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.vectors import WordVectors
from dptext.mechanisms.bases import FromWords, NoGuarantee, OnWords
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.text import tokens as text
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.types import UInt64s

_RATE_BITS = 53


@dataclass(frozen=True, slots=True)
class RandomReplacement(FromWords["RandomReplacementMechanism"], NoGuarantee):
    """Settings of random word replacement.

    Use:
        Take it to compare with, never to protect.
        Set first: rate.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`. With rate 1 only the number of tokens and the
        lines leave, which `syntf` hides.

    Attributes:
        rate: probability with which each token is replaced, independently. The default suits the paper's figures. A
            token that the vocabulary lacks is always replaced, so that no name leaves because it is rare.
        vectors: "glove" (extra `[glove]`) or a path; its words are the public vocabulary, the vectors play no part.
        n_words: size of the vocabulary, from which words are drawn uniformly.
    """

    reason: ClassVar[str] = (
        "words that are not replaced leave verbatim, and every text leaves with its own length and lines"
    )

    rate: float = 1.0
    vectors: str = "glove"
    n_words: int = 8_000
    kind: Literal["random_replacement"] = field(default="random_replacement", init=False)

    def __post_init__(self) -> None:
        _validate.positive(rate=self.rate)
        _validate.probability(rate=self.rate)
        _validate.count(n_words=self.n_words)

    @property
    def reveals(self) -> tuple[str, ...]:
        """Every word that is not replaced, and the shape of the text."""
        kept = () if self.rate == 1 else ("every word that is not replaced",)
        return (*kept, text.TOKEN_COUNT, text.LINE_STRUCTURE)

    def _fitted(self, vectors: WordVectors) -> RandomReplacementMechanism:
        return RandomReplacementMechanism(self, vectors)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """The first words of GloVe, half of the tokens replaced."""
        return (cls(rate=0.5, n_words=300),)


class RandomReplacementMechanism(OnWords[RandomReplacement]):
    """A `RandomReplacement` with its words. Immutable."""

    __slots__ = ()

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One text a record, of as many tokens a line as it has."""
        batch = Batch.of(records)
        documents = [text.tokenize(each) for each in batch.texts]
        tokens = [token for document in documents for line in document for token in line]
        drawn = randomness.rows([sum(map(len, document)) for document in documents], self._draw)
        is_replaced = (drawn[:, 0] == 1) | (self._vectors.index_of(tokens) < 0)
        words = self._vectors.words
        out = iter(
            words[word] if replaced else token
            for token, replaced, word in zip(tokens, is_replaced.tolist(), drawn[:, 1].tolist(), strict=True)
        )
        return batch.released([text.detokenize([[next(out) for _ in line] for line in lines]) for lines in documents])

    def _draw(self, source: Randomness, n: int) -> UInt64s:
        """Whether each token is replaced, and by which word `(n, 2)`; a word is drawn for those that stay, too."""
        threshold = np.uint64(round(self.spec.rate * (1 << _RATE_BITS)))
        is_replaced = uniform_below(1 << _RATE_BITS, n, source) < threshold
        return np.stack([is_replaced.astype(np.uint64), uniform_below(len(self._vectors), n, source)], axis=1)
