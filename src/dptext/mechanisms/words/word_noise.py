"""Noise on the vectors of words, then the nearest word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dptext.embeddings.nearest import NearestWords
from dptext.errors import ConfigError
from dptext.mechanisms.bases import Spec_co
from dptext.mechanisms.words.vocabulary import WordPoints, sizes_of
from dptext.mechanisms.words.word_by_word import WordByWord
from dptext.sampling.float_noise import MetricNoise
from dptext.sampling.source import Randomness, seeded
from dptext.text.records import Record
from dptext.types import Floats, Integers

_TOKENS_AT_ONCE = 8192


class WordNoiseMechanism(WordByWord[Spec_co]):
    """A `WordMetric` of noise `multivariate` or `mahalanobis` with its vectors.

    Immutable. It has a latent with a known density (`HasLatent`) and a metric (`HasMetric`).
    """

    __slots__ = ("_nearest", "_noise", "_root")

    def __init__(self, spec: Spec_co, words: WordPoints, noise: MetricNoise, root: Floats | None) -> None:
        super().__init__(spec, words)
        self._root = root
        self._nearest = NearestWords(words.vectors)
        self._noise = noise

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""
        result = np.empty(len(indices), np.int64)
        for here, noisy in self._noisy(lambda tokens: self._words.at(indices[tokens]), sizes, randomness):
            result[here] = self._nearest.search(noisy if self._root is None else noisy @ self._root)
        return result

    def _noisy(
        self, points: Callable[[slice], Floats], sizes: Sequence[int], randomness: Randomness
    ) -> Iterator[tuple[slice, Floats]]:
        """Blocks of tokens and their noisy points: the one place where noise is added."""
        start = 0
        for source, n in randomness.blocks(sizes, _TOKENS_AT_ONCE):
            here = slice(start, start + n)
            start += n
            yield here, self._noise.release(points(here), source)

    def latent(self, records: Sequence[Record]) -> Floats:
        """The points of each record's tokens side by side, in the coordinates in which the noise is round.

        Returns:
            Points `(n_records, n_tokens * dim)`.

        Raises:
            ConfigError: the records differ in their number of tokens.
        """
        documents = self._words.lines(records)
        if len(set(sizes_of(documents))) > 1:
            raise ConfigError("Expected records with equally many tokens: others have latents of another size.")
        return self._words.at(self._words.indices(documents)).reshape(len(records), -1 if records else 0)

    def release(self, latents: Floats, randomness: Randomness) -> Floats:
        """Latents `(rows, n_tokens * dim)` with the noise that `privatize` would add to them.

        Raises:
            ConfigError: the latents do not have dim coordinates a token.
        """
        points = self._tokens(latents)
        released = np.empty_like(points)
        n_tokens = latents.shape[1] // points.shape[1]
        for here, noisy in self._noisy(lambda tokens: points[tokens], [n_tokens] * len(latents), randomness):
            released[here] = noisy
        return released.reshape(latents.shape)

    def log_density(self, released: Floats, latents: Floats) -> Floats:
        """Log density `(rows,)` of released latents given the latents, up to a term that `released` determines.

        Raises:
            ConfigError: the shapes differ, or are not those of latents.
        """
        if released.shape != latents.shape:
            raise ConfigError(f"Expected released latents of shape {latents.shape}, found {released.shape}.")
        tokens = self._noise.log_density(self._tokens(released), self._tokens(latents))
        return np.asarray(tokens.reshape(len(latents), -1 if len(latents) else 0).sum(axis=1))

    def _tokens(self, latents: Floats) -> Floats:
        dim = self._words.points.shape[1]
        if latents.ndim != 2 or latents.shape[1] % dim:
            raise ConfigError(f"Expected latents of shape (rows, n_tokens * {dim}), found {latents.shape}.")
        return np.asarray(latents, np.float64).reshape(-1, dim)

    def _share(self, indices: Integers) -> float:
        return float(np.mean(self._replace(indices, [len(indices)], seeded(0)) == indices))
