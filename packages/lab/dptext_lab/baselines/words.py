"""Words replaced by the baselines of two papers. No guarantee.

`PrivatePhrases`: rare words replaced, common words kept (Krishna, Gupta and Dupuy 2021, section 4; after Feyisetan et
al. 2019, whose own mechanism is hyperbolic). A word that is not among the common words of a public frequency list is
taken for private. Laplace noise of a set variance is added to each coordinate of its vector, and the nearest word
replaces it. Common words are released verbatim. Which words are replaced depends on the text, so no epsilon holds.

`RandomReplacement`: Random-R of the ER-AE paper. Bo et al. 2021 compare ER-AE with texts whose words are replaced at
random. They do not say what share of the words is replaced. Their figures (similarity .12, authorship .02 among 100
authors, Yelp) fit a share of nearly 1.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.nearest import NearestWords
from dptext.embeddings.vectors import WordVectors
from dptext.mechanisms.bases import FromWords, NoGuarantee, OnWords, blocks_of
from dptext.sampling.discrete import uniform_below
from dptext.sampling.grid_noise import coordinate_laplace
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.text.tokens import LINE_STRUCTURE, TOKEN_COUNT, detokenize, tokenize
from dptext.types import UInt64s

_TOKENS_AT_ONCE = 8192


def _rewritten(records: Sequence[Record], words: Callable[[list[str], list[int]], Iterator[str]]) -> Releases:
    """Rewrite the texts: `words(tokens, numbers of tokens of the records)` yields a word for each token, in order."""
    batch = Batch.of(records)
    documents = [tokenize(each) for each in batch.texts]
    tokens = [token for document in documents for line in document for token in line]
    out = words(tokens, [sum(map(len, document)) for document in documents])
    return batch.released([detokenize([[next(out) for _ in line] for line in lines]) for lines in documents])


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
        common_words: the number of words, from the start of the list, that are released unchanged.
    """

    reason: ClassVar[str] = "common words leave verbatim, and which words are replaced depends on the private text"
    reveals: ClassVar[tuple[str, ...]] = ("every common word", TOKEN_COUNT, LINE_STRUCTURE)

    variance: float
    vectors: str = "glove"
    n_words: int = 50_000
    common_words: int = 2_000
    kind: Literal["private_phrases"] = field(default="private_phrases", init=False)

    def __post_init__(self) -> None:
        _validate.positive(variance=self.variance)
        _validate.count(n_words=self.n_words, common_words=self.common_words)

    def _fitted(self, vectors: WordVectors) -> "PrivatePhrasesMechanism":
        return PrivatePhrasesMechanism(self, vectors)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings on the first words of GloVe, some of which are common."""
        return (cls(variance=6.0, n_words=300, common_words=50),)


class PrivatePhrasesMechanism(OnWords[PrivatePhrases]):
    """A `PrivatePhrases` with its vectors."""

    __slots__ = ("_nearest", "_standin")

    def __init__(self, spec: PrivatePhrases, vectors: WordVectors) -> None:
        super().__init__(spec, vectors)
        self._nearest = NearestWords(vectors)
        self._standin = vectors.vectors.mean(axis=0, dtype=np.float64)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one text a record: rare and unknown words replaced, common words unchanged."""

        def words(tokens: list[str], sizes: list[int]) -> Iterator[str]:
            indices = np.asarray(self._vectors.index_of(tokens), np.int64)
            is_rare = (indices < 0) | (indices >= self.spec.common_words)
            ends = np.cumsum([0, *sizes], dtype=np.int64)
            rare, sizes = np.flatnonzero(is_rare), np.diff(np.concatenate([[0], is_rare.cumsum()])[ends]).tolist()
            replaced: dict[int, int] = {}
            for source, rows in blocks_of(randomness, sizes, _TOKENS_AT_ONCE):
                here = rare[rows]
                points = self._vectors.vectors[indices[here]].astype(np.float64)
                points[indices[here] < 0] = self._standin
                points += coordinate_laplace(len(points), points.shape[1], self.spec.variance, source)
                replaced |= zip(here.tolist(), self._nearest.search(points).tolist(), strict=True)
            return (self._vectors.words[replaced[i]] if i in replaced else token for i, token in enumerate(tokens))

        return _rewritten(records, words)


_RATE_BITS = 53


@dataclass(frozen=True, slots=True)
class RandomReplacement(FromWords["RandomReplacementMechanism"], NoGuarantee):
    """Settings of random word replacement.

    Use:
        Take it to compare with, never to protect.
        Set first: rate.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`. With rate 1 only the number of tokens and the
        lines are released, which `syntf` hides.

    Attributes:
        rate: probability with which each token is replaced, independently. The default suits the paper's figures. A
            token that the vocabulary lacks is always replaced, so that no rare name is released.
        vectors: "glove" (extra `[glove]`) or a path; its words are the public vocabulary; the vectors are not used.
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
        return (*kept, TOKEN_COUNT, LINE_STRUCTURE)

    def _fitted(self, vectors: WordVectors) -> "RandomReplacementMechanism":
        return RandomReplacementMechanism(self, vectors)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """The first words of GloVe, half of the tokens replaced."""
        return (cls(rate=0.5, n_words=300),)


class RandomReplacementMechanism(OnWords[RandomReplacement]):
    """A `RandomReplacement` with its words. Immutable."""

    __slots__ = ()

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one text a record, with as many tokens a line as the record has."""

        def words(tokens: list[str], sizes: list[int]) -> Iterator[str]:
            drawn, words = randomness.rows(sizes, self._draw), self._vectors.words
            is_replaced = (drawn[:, 0] == 1) | (self._vectors.index_of(tokens) < 0)
            choices = zip(tokens, is_replaced.tolist(), drawn[:, 1].tolist(), strict=True)
            return (words[word] if replaced else token for token, replaced, word in choices)

        return _rewritten(records, words)

    def _draw(self, source: Randomness, n: int) -> UInt64s:
        """Draw `(n, 2)`: whether each token is replaced, and its new word; a word is drawn for kept tokens, too."""
        threshold = np.uint64(round(self.spec.rate * (1 << _RATE_BITS)))
        is_replaced = uniform_below(1 << _RATE_BITS, n, source) < threshold
        return np.stack([is_replaced.astype(np.uint64), uniform_below(len(self._vectors), n, source)], axis=1)
