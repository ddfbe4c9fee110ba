"""Words replaced at random, whatever they are: the baseline Random-R of the ER-AE paper. No guarantee.

Bo et al. 2021 compare ER-AE with texts whose words are replaced at random. How many, they do not say; their figures for
it (similarity .12, authorship .02 among 100 authors, Yelp) are those of texts of which hardly a word is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import numpy as np

from dptext import _validate
from dptext.embeddings.saved_vectors import load_saved_word_vectors, save_word_vectors
from dptext.embeddings.vector_files import load_word_vectors
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.frozen import Frozen
from dptext.privacy import accounting
from dptext.privacy.events import NoEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.text import tokens as text
from dptext.text.records import Record, Release
from dptext.types import UInt64s

_RATE_BITS = 53
REASON = "words that are not replaced leave verbatim, and every text leaves with its own length and lines"


@dataclass(frozen=True, slots=True)
class RandomReplacement:
    """Settings of random word replacement.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`. With rate 1 only the number of tokens and the
        lines leave, which `syntf` hides.

    Attributes:
        rate: probability with which a token is replaced, each for itself. The default suits the paper's figures. A
            token that the vocabulary lacks is always replaced, so that no name leaves because it is rare.
        vectors: "glove" (extra `[glove]`) or a path; its words are the public vocabulary, the vectors play no part.
        n_words: size of the vocabulary, from which words are drawn uniformly.
    """

    rate: float = 1.0
    vectors: str = "glove"
    n_words: int = 8_000
    kind: Literal["random_replacement"] = field(default="random_replacement", init=False)

    def __post_init__(self) -> None:
        _validate.positive(rate=self.rate)
        _validate.probability(rate=self.rate)
        _validate.count(n_words=self.n_words)

    @property
    def units(self) -> tuple[Unit, ...]:
        """TOKEN: the unit for which nothing is guaranteed."""
        return (Unit.TOKEN,)

    @property
    def event(self) -> NoEvent:
        """Nothing that accounting could count."""
        return NoEvent(REASON)

    def events(self, unit: Unit) -> tuple[NoEvent]:
        """Nothing that accounting could count, for any unit."""
        return (self.event,)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """No guarantee, for any unit."""
        kept = () if self.rate == 1 else ("every word that is not replaced",)
        return accounting.guarantee(
            [self.event],
            delta,
            unit=unit or Unit.TOKEN,
            basis=Basis.NONE,
            relation=Relation.REPLACE_ONE,
            reveals=(*kept, text.TOKEN_COUNT, text.LINE_STRUCTURE),
        )

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> RandomReplacement:
        """Refused.

        Raises:
            ConfigError: always; no setting reaches any epsilon.
        """
        raise ConfigError(f"Expected a mechanism with a guarantee to calibrate to epsilon={epsilon!r}: {REASON}.")

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> RandomReplacementMechanism:
        """Load the public words; public records and a seed are not needed.

        Raises:
            ConfigError: the vectors cannot be used, or are fewer than `n_words`.
            MissingExtraError: the package of the vectors is absent.
        """
        return RandomReplacementMechanism(self, load_word_vectors(self.vectors, self.n_words))

    def load(self, folder: Path) -> RandomReplacementMechanism:
        """The mechanism that was saved into the folder under this spec; the words are read from there alone.

        Raises:
            ConfigError: a file is absent, truncated or edited, or does not belong to this spec.
        """
        return RandomReplacementMechanism(self, load_saved_word_vectors(folder, self.n_words))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """The first words of GloVe, half of the tokens replaced."""
        return (cls(rate=0.5, n_words=300),)


class RandomReplacementMechanism(Frozen):
    """A `RandomReplacement` with its words. Immutable."""

    __slots__ = ("_vectors", "spec")

    def __init__(self, spec: RandomReplacement, vectors: WordVectors) -> None:
        self.spec = spec
        self._vectors = vectors

    def __repr__(self) -> str:
        return f"RandomReplacementMechanism({self.spec!r})"

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the public words and their vectors."""
        return {"vectors": self._vectors.digest}

    def save(self, folder: Path) -> None:
        """Write the public words into an existing folder, for `RandomReplacement.load`.

        Raises:
            ConfigError: a file of a model is there already, or cannot be written.
        """
        save_word_vectors(self._vectors, folder)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        """One text a record, of as many tokens a line as it has."""
        documents = [text.tokenize(record.text) for record in records]
        tokens = [token for document in documents for line in document for token in line]
        drawn = randomness.rows([sum(map(len, document)) for document in documents], self._draw)
        is_replaced = (drawn[:, 0] == 1) | (self._vectors.index_of(tokens) < 0)
        words = self._vectors.words
        out = iter(
            words[word] if replaced else token
            for token, replaced, word in zip(tokens, is_replaced.tolist(), drawn[:, 1].tolist(), strict=True)
        )
        return [
            Release(record.id, text.detokenize([[next(out) for _ in line] for line in document]), kept=record.kept)
            for record, document in zip(records, documents, strict=True)
        ]

    def _draw(self, source: Randomness, n: int) -> UInt64s:
        """Whether each token is replaced, and by which word `(n, 2)`; a word is drawn for those that stay, too."""
        threshold = np.uint64(round(self.spec.rate * (1 << _RATE_BITS)))
        is_replaced = uniform_below(1 << _RATE_BITS, n, source) < threshold
        return np.stack([is_replaced.astype(np.uint64), uniform_below(len(self._vectors), n, source)], axis=1)
