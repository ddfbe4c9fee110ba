"""TF-IDF of words without scikit-learn, which is an extra that `label_only` and `candidates` do not need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import sparse

from dptext.embeddings.distilled import bags, rarity
from dptext.text.tokens import tokenize
from dptext.types import Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TfIdf:
    """Words of public texts, each with its weight.

    Attributes:
        position: the column of each lower-cased word.
        weights: ln((1 + n) / (1 + texts with the word)) + 1 for n texts, as scikit-learn's, `(n_words,)`.
    """

    position: Mapping[str, int]
    weights: Floats

    @classmethod
    def of(cls, texts: Sequence[str]) -> TfIdf:
        """The words of these texts, in the order in which they occur first."""
        having = Counter(word for text in texts for word in dict.fromkeys(_words(text)))
        return cls({word: i for i, word in enumerate(having)}, rarity([*having.values()] or [0], len(texts)))

    def rows(self, texts: Sequence[str]) -> sparse.csr_array:
        """Rows of norm 1 `(n_texts, n_words)`: the count of a word times its weight; zero where no word is known."""
        return bags([_words(text) for text in texts], self.position, self.weights)


def _words(text: str) -> list[str]:
    return [word.lower() for line in tokenize(text) for word in line]
