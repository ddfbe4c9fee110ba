"""TF-IDF of words without scikit-learn, which is an extra that `label_only` and `candidates` do not need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

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
        position: dict[str, int] = {}
        for text in texts:
            for word in _words(text):
                position.setdefault(word, len(position))
        having = np.bincount(_counts(texts, position).indices, minlength=max(1, len(position)))
        return cls(position, np.log((1 + len(texts)) / (1 + having)) + 1)

    def rows(self, texts: Sequence[str]) -> sparse.csr_array:
        """Rows of norm 1 `(n_texts, n_words)`: the count of a word times its weight; zero where no word is known."""
        counts = _counts(texts, self.position)
        data, sizes = counts.data * self.weights[counts.indices], np.diff(counts.indptr)
        norms = np.sqrt(np.bincount(np.repeat(np.arange(len(sizes)), sizes), data**2, len(sizes)))
        return sparse.csr_array((data / np.repeat(norms, sizes), counts.indices, counts.indptr), shape=counts.shape)


def _words(text: str) -> list[str]:
    return [word.lower() for line in tokenize(text) for word in line]


def _counts(texts: Sequence[str], position: Mapping[str, int]) -> sparse.csr_array:
    rows = [[position[word] for word in _words(text) if word in position] for text in texts]
    columns = np.array([column for row in rows for column in row], np.int64)
    starts = np.cumsum([0, *map(len, rows)])
    shape = (len(texts), max(1, len(position)))
    found = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    found.sum_duplicates()
    return found
