"""A sentence encoder distilled into word weights, which read a text as a bag of words.

The pupil is a ridge regression from the tf-idf of a text's words to the teacher's sentence embedding (distillation:
Hinton, Vinyals and Dean 2015). It is linear and needs no training loop. It does not see the order of words.
docs/results/adept.md says how much of the teacher it keeps, and how fast it is. Teacher and pupil learn from public
text only.

A row is computed from its own words alone, by sums in the order of the vocabulary. So the other texts of a batch do not
change it, not even in the last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from dptext.embeddings.encoders import Encoder
from dptext.errors import ConfigError
from dptext.neural.tokens import words_of
from dptext.types import Floats, Singles

#: The most words that the pupil knows: its regression solves a system of so many equations.
MAX_WORDS = 5_000
_RIDGE = 1.0
_GRID = 2.0**-10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DistilledEncoder:
    """Texts to unit vectors `(n_texts, dim)`; an `Embedder`.

    Attributes:
        words: that it knows. A text without any of them has the direction of `offset`.
        rarity: inverse document frequency of each word, `(len(words),)`.
        weights: coefficients of the regression, a row for each word, `(len(words), dim)`, float32.
        offset: the intercept of the regression, `(dim,)`, float32.
        max_tokens: words of a text that are read at most.
        teacher: name of the sentence encoder.
    """

    words: tuple[str, ...]
    rarity: Singles
    weights: Singles
    offset: Singles
    max_tokens: int
    teacher: str
    _index: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {word: i for i, word in enumerate(self.words)})

    def __repr__(self) -> str:
        return f"DistilledEncoder({self.name})"

    @property
    def name(self) -> str:
        """What identifies the embedder in reports."""
        return f"{self.teacher}, distilled into {len(self.words)} words"

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.offset)

    @property
    def digest(self) -> str:
        """sha256 of words and weights."""
        found = hashlib.sha256(json.dumps([self.words, self.max_tokens, self.teacher]).encode())
        for values in (self.rarity, self.weights, self.offset):
            found.update(values.tobytes())
        return found.hexdigest()

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, float64 on a grid of 2^-10; zero if no word is known and the offset is zero.

        Args:
            texts: any texts; of each the first `max_tokens` words are read.
            on_progress: called once, with the number of texts.
        """
        read = _bags(texts, self._index, self.rarity, self.max_tokens) @ self.weights + self.offset
        found = np.asarray(read, np.float64)
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        if on_progress is not None:
            on_progress(len(texts))
        return np.rint(found / _GRID) * _GRID


def distil(teacher: Encoder, texts: Sequence[str], *, max_tokens: int, min_count: int) -> DistilledEncoder:
    """The pupil of the teacher on these public texts.

    Args:
        teacher: embeds each of them.
        texts: public.
        max_tokens: words of a text that are read.
        min_count: a word is known if it stands in at least so many texts.

    Raises:
        ConfigError: there are no texts.
    """
    if not texts:
        raise ConfigError("Expected public texts to distil the sentence encoder on: there are none.")
    counts = Counter(word for text in texts for word in set(words_of(text, max_tokens)))
    ranked = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
    words = tuple(ranked[:MAX_WORDS])
    index = {word: i for i, word in enumerate(words)}
    rarity = np.log((1 + len(texts)) / (1 + np.asarray([counts[word] for word in words], np.float64))) + 1
    bags = _bags(texts, index, rarity.astype(np.float32), max_tokens).astype(np.float64)
    wanted = teacher.embed(texts)
    # Centred ridge regression without a dense matrix of all texts.
    middle, mean = np.asarray(bags.mean(axis=0)).ravel(), wanted.mean(axis=0)
    square = (bags.T @ bags).toarray()
    square -= np.outer(len(texts) * middle, middle)
    square[np.diag_indices_from(square)] += _RIDGE
    weights = np.linalg.solve(square, bags.T @ wanted - len(texts) * np.outer(middle, mean))
    return DistilledEncoder(
        words,
        rarity.astype(np.float32),
        weights.astype(np.float32),
        (mean - middle @ weights).astype(np.float32),
        max_tokens,
        teacher.name,
    )


def _bags(texts: Sequence[str], index: dict[str, int], rarity: Singles, max_tokens: int) -> sparse.csr_array:
    """Tf-idf rows of length 1, `(n_texts, n_words)`; zero where no word is known."""
    starts, columns, values = [0], list[int](), list[float]()
    for text in texts:
        counts = Counter(index[word] for word in words_of(text, max_tokens) if word in index)
        rows = sorted(counts)
        weighed = np.asarray([counts[row] for row in rows]) * rarity[rows]
        columns += rows
        values += (weighed / max(float(np.linalg.norm(weighed)), 1e-12)).tolist()
        starts.append(len(columns))
    shape = (len(texts), len(index))
    return sparse.csr_array((np.asarray(values, np.float32), np.asarray(columns, np.int64), starts), shape=shape)
