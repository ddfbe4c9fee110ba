"""Records as positions in a public vocabulary, for mechanisms that replace words: tokens, points, distances.

Nothing private is kept: records are arguments, and what is stored is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.text import tokens as text
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.types import Floats, Integers

#: What every guarantee on public words assumes.
PUBLIC_VECTORS = "the word vectors and their vocabulary were made from public text only"

Lines = list[list[str]]

_LARGE = 50_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordPoints:
    """Public words as points, and the way from records to tokens and back.

    Attributes:
        points: float64 `(n_words, dim)`, in coordinates of the mechanism's choice.
        standin: `(dim,)`, what an unknown token stands for.
        max_tokens: texts are cut to this public length; None keeps them whole.
    """

    vectors: WordVectors
    points: Floats
    standin: Floats
    max_tokens: int | None

    def lines(self, records: Iterable[Record]) -> list[Lines]:
        """The tokens of each line of each record."""
        found = [text.tokenize(record.text) for record in records]
        return found if self.max_tokens is None else [text.cut(lines, self.max_tokens) for lines in found]

    def indices(self, documents: Iterable[Lines]) -> Integers:
        """The position of each token in the vocabulary, or -1, over all documents."""
        tokens = [token for lines in documents for line in lines for token in line]
        return np.asarray(self.vectors.index_of(tokens), np.int64)

    def at(self, indices: Integers) -> Floats:
        """The points `(n_tokens, dim)`, the stand-in where the index is -1."""
        points = self.points[indices]
        points[indices < 0] = self.standin
        return points

    def rewrite(self, records: Sequence[Record], words: Callable[[Integers, Sequence[int]], Integers]) -> Releases:
        """One release a record, with the words that `words(indices, tokens of each record)` chooses."""
        documents = self.lines(records)
        indices = self.indices(documents)
        chosen = iter(self.vectors.words[i] for i in words(indices, sizes_of(documents)).tolist())
        texts = [text.detokenize([[next(chosen) for _ in line] for line in lines]) for lines in documents]
        return Batch.of(records).released(texts)

    def distance(self, first: Record, second: Record, *, least: float = 0.0) -> float:
        """The sum over tokens of the Euclidean distance of their points, rounded up by 2^-40 of itself.

        The distance of different points counts `least` at least. ConfigError: the records differ in their lines or in a
        line's number of tokens.
        """
        one, two = self.lines([first, second])
        if list(map(len, one)) != list(map(len, two)):
            raise ConfigError(
                "Expected two records with equally many tokens in each line: others are no neighbours where these "
                "numbers are revealed."
            )
        gaps = self.at(self.indices([one])) - self.at(self.indices([two]))
        apart = np.linalg.norm(gaps, axis=1)
        return math.fsum(np.where(apart > 0, np.maximum(apart, least), 0.0)) * (1 + 2.0**-40)


def sizes_of(documents: Iterable[Lines]) -> list[int]:
    """The number of tokens of each document."""
    return [sum(map(len, lines)) for lines in documents]


def frequent_words(n_words: int) -> Integers:
    """4,000 running words, as positions in the vocabulary: what an unchanged share is measured on.

    They are the 200 most frequent words of the public vocabulary (its first ones), weighted by 1 / (rank + 2.7) as in
    running text (Zipf and Mandelbrot). The measurement has a fixed seed and no private text takes part. In a vocabulary
    of more than 50,000 words they are 1,000, as each takes longer.
    """
    n_running = 1000 if n_words > _LARGE else 4000
    cumulated = np.cumsum(1 / (np.arange(min(200, n_words)) + 2.7))
    return np.searchsorted(cumulated / cumulated[-1], (np.arange(n_running) + 0.5) / n_running)


def spread_words(n_words: int) -> Integers:
    """At most 2,000 words, as positions spread evenly over the vocabulary; 100 where it has more than 50,000."""
    most = 100 if n_words > _LARGE else 2000
    return np.linspace(0, n_words - 1, min(most, n_words)).round().astype(np.int64)


def covariance_root(points: Floats, mix: float) -> Floats:
    """(lambda * Sigma + (1 - lambda) I)^(1/2), Sigma the covariance scaled to trace dim (Xu et al. 2020).

    ConfigError: lambda is 1 and the points lie in fewer dimensions than they have coordinates.
    """
    centred = points - points.mean(axis=0)
    covariance = centred.T @ centred
    covariance *= points.shape[1] / np.trace(covariance)
    values, axes = np.linalg.eigh(mix * covariance + (1 - mix) * np.eye(points.shape[1]))
    if values.min() < 1e-6:
        raise ConfigError(f"Expected mahalanobis_lambda={mix!r} < 1: these vectors do not fill their space.")
    return np.asarray((axes * np.sqrt(values)) @ axes.T)
