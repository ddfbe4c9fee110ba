"""Metric privacy on words, fitted: each token is replaced by a word of the public vocabulary.

The replacement is by noise on word vectors, then the nearest word; or by TEM, a word chosen by its distance, with
integers only.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dptext.embeddings.nearest import NearestWords
from dptext.errors import ConfigError
from dptext.mechanisms.bases import OnWords, Spec_co, blocks_of
from dptext.mechanisms.words.vocabulary import WordDraws, WordPoints, frequent_words, sizes_of, spread_words
from dptext.sampling.exponential import LEAST_DISTANCE, TruncatedExponential
from dptext.sampling.float_noise import MetricNoise
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.batches import Releases
from dptext.text.records import Record
from dptext.text.tokens import detokenize
from dptext.types import Floats, Integers

TOKENS_AT_ONCE = 8192  #: Tokens of a block, of whole records: bounds memory
MOST_OUTPUTS = 1_000_000
_SOME = 8192
_CLEARLY = 1e-9


class WordByWord(OnWords[Spec_co], ABC):
    """A mechanism with public vectors that replaces each token by a word."""

    __slots__ = ("_words",)

    def __init__(self, spec: Spec_co, words: WordPoints) -> None:
        self._words = words
        super().__init__(spec, words.vectors)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one text a record; labels are dropped, because they are not privatized."""
        return self._words.rewrite(records, lambda indices, sizes: self._replace(indices, sizes, randomness))

    def distance(self, first: Record, second: Record) -> float:
        """Return the guarantee's distance of two records: the sum over their tokens, rounded up a little.

        ConfigError: the records differ in their number of tokens or lines, and so are no neighbours.
        """
        return self._words.distance(first, second)

    def unchanged_share(self) -> float:
        """Share of running words that come back unchanged at this epsilon; see `frequent_words`."""
        return self._share(frequent_words(len(self._words.points)))

    def unchanged_share_of_vocabulary(self) -> float:
        """Share of words, spread evenly over the whole vocabulary, that come back unchanged; see `spread_words`."""
        return self._share(spread_words(len(self._words.points)))

    @abstractmethod
    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """Draw a word for each token; -1 is an unknown token."""

    @abstractmethod
    def _share(self, indices: Integers) -> float:
        """Return the share of these words that come back unchanged."""


class WordNoiseMechanism(WordByWord[Spec_co]):
    """A `WordMetric` of noise `multivariate` or `mahalanobis`, with a latent's density (`HasLatent`) and a metric."""

    __slots__ = ("_nearest", "_noise", "_root")

    def __init__(self, spec: Spec_co, words: WordPoints, noise: MetricNoise, root: Floats | None) -> None:
        super().__init__(spec, words)
        self._root = root
        self._nearest = NearestWords(words.vectors)
        self._noise = noise

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        result = np.empty(len(indices), np.int64)
        for here, noisy in self._noisy(lambda tokens: self._words.at(indices[tokens]), sizes, randomness):
            result[here] = self._nearest.search(noisy if self._root is None else noisy @ self._root)
        return result

    def _noisy(
        self, points: Callable[[slice], Floats], sizes: Sequence[int], randomness: Randomness
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of tokens with their noisy points; noise is added only here."""
        for source, here in blocks_of(randomness, sizes, TOKENS_AT_ONCE):
            yield here, self._noise.release(points(here), source)

    def latent(self, records: Sequence[Record]) -> Floats:
        """Return the points of each record's tokens side by side, `(n_records, n_tokens * dim)`, where noise is round.

        ConfigError: the records differ in their number of tokens.
        """
        documents = self._words.lines(records)
        if len(set(sizes_of(documents))) > 1:
            raise ConfigError("Expected records with equally many tokens: others have latents of another size.")
        return self._words.at(self._words.indices(documents)).reshape(len(records), -1 if records else 0)

    def release(self, latents: Floats, randomness: Randomness) -> Floats:
        """Return latents `(rows, n_tokens * dim)`, else ConfigError, with the same noise that `privatize` adds."""
        points = self._tokens(latents)
        released = np.empty_like(points)
        n_tokens = latents.shape[1] // points.shape[1]
        for here, noisy in self._noisy(lambda tokens: points[tokens], [n_tokens] * len(latents), randomness):
            released[here] = noisy
        return released.reshape(latents.shape)

    def log_density(self, released: Floats, latents: Floats) -> Floats:
        """Log density `(rows,)` given latents of the same shape, else ConfigError; up to a term of `released` alone."""
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
        vectors, kept = self._words.vectors.vectors, 0
        some = vectors[:_SOME].astype(np.float64)
        halves = np.einsum("ij,ij->i", some, some) / 2
        for here, noisy in self._noisy(lambda tokens: self._words.at(indices[tokens]), [len(indices)], seeded(0)):
            points, own = noisy if self._root is None else noisy @ self._root, vectors[indices[here]].astype(np.float64)
            # A word has changed if one of some others is clearly nearer. Only the remaining words are compared with all
            # words.
            lead = (points @ some.T - halves).max(axis=1) - np.einsum("ij,ij->i", points - own / 2, own)
            left = np.flatnonzero(lead < _CLEARLY * np.einsum("ij,ij->i", points, points))
            kept += int(np.count_nonzero(self._nearest.search(points[left]) == indices[here][left]))
        return kept / len(indices)


class WordChoiceMechanism(WordByWord[Spec_co]):
    """A `WordMetric` of noise `tem`, with the probability of every output (`HasDistribution`) and a metric."""

    __slots__ = ("_choice", "_draws")

    def __init__(self, spec: Spec_co, words: WordPoints, choice: TruncatedExponential) -> None:
        super().__init__(spec, words)
        self._choice = choice
        self._draws = WordDraws(words, choice)

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        start = 0

        def draw(source: Randomness, n: int) -> Integers:
            nonlocal start
            start += n
            return self._draws.draw(indices[start - n : start], source)

        return randomness.rows(sizes, draw)

    def distance(self, first: Record, second: Record) -> float:
        """Return the distance of `WordByWord`, but different words are at least `LEAST_DISTANCE` apart."""
        return self._words.distance(first, second, least=LEAST_DISTANCE)

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of every output text: the product over tokens of `TruncatedExponential.distribution`.

        `privatize` draws with integer weights (`WordDraws`), which are these probabilities rounded: a token's two
        probabilities of a word differ by less than 2^-40 of themselves. Different words never make the same text,
        because no word has whitespace, so each key has one origin. ConfigError: there are more than a million outputs.
        """
        [lines] = self._words.lines([record])
        indices = self._words.indices([lines])
        words = self._words.vectors.words
        if len(indices) * math.log(len(words)) > math.log(MOST_OUTPUTS) + 1e-9:
            raise ConfigError(
                f"Expected a record with at most {MOST_OUTPUTS:,} possible outputs to enumerate, where a token has "
                f"n_words={len(words)}: give a shorter record, or lower n_words or max_tokens."
            )
        # `between` holds the text before, between and after the words: every output has the lines of the input.
        between = detokenize([["\0"] * len(line) for line in lines]).split("\0")
        texts, probabilities = between[:1], np.ones(1)
        for point, gap in zip(self._words.at(indices), between[1:], strict=True):
            distances = np.linalg.norm(point - self._words.points, axis=1)
            texts = [f"{begun}{word}{gap}" for begun in texts for word in words]
            probabilities = np.multiply.outer(probabilities, self._choice.distribution(distances[None])[0]).ravel()
        return dict(zip(texts, probabilities.tolist(), strict=True))

    def _share(self, indices: Integers) -> float:
        words, counts = np.unique(indices, return_counts=True)
        return float(np.average(self._draws.chances_of_own(words), weights=counts))
