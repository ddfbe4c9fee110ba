"""TEM: a word chosen by its distance from the private one, with integers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dptext.errors import ConfigError
from dptext.mechanisms.bases import Spec_co
from dptext.mechanisms.words.vocabulary import WordPoints, squared_distances
from dptext.mechanisms.words.word_by_word import WordByWord
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness
from dptext.sampling.truncated import LEAST_DISTANCE, TruncatedExponential
from dptext.text import tokens as text
from dptext.text.records import Record
from dptext.types import Integers

_TEM_ENTRIES_AT_ONCE = 1 << 21
_PAIRS_AT_ONCE = 1 << 16
_MOST_OUTPUTS = 1_000_000


class WordChoiceMechanism(WordByWord[Spec_co]):
    """A `WordMetric` of noise `tem` with its vectors.

    Immutable. It knows the probability of every output (`HasDistribution`) and has a metric (`HasMetric`).
    """

    __slots__ = ("_choice",)

    def __init__(self, spec: Spec_co, words: WordPoints, choice: TruncatedExponential) -> None:
        super().__init__(spec, words)
        self._choice = choice

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""
        start = 0

        def choose(source: Randomness, n: int) -> Integers:
            nonlocal start
            start += n
            return self._choose(indices[start - n : start], source)

        return randomness.rows(sizes, choose)

    def distance(self, first: Record, second: Record) -> float:
        """As every `WordMetric`'s, but different words count as at least `LEAST_DISTANCE` apart."""
        return self._words.distance(first, second, least=LEAST_DISTANCE)

    def _choose(self, indices: Integers, source: Randomness) -> Integers:
        step = max(1, _TEM_ENTRIES_AT_ONCE // len(self._words.points))
        blocks = [self._choose_block(indices[i : i + step], source) for i in range(0, len(indices), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.int64)

    def _choose_block(self, indices: Integers, source: Randomness) -> Integers:
        choice, every = self._choice, self._words.points
        points = self._words.at(indices)
        # float32 finds a superset of the near words; their distances are then computed in float64
        squared = squared_distances(points, every)
        room = 1e-4 * float(np.square(points).sum(axis=1).max(initial=0.0) + np.square(every).sum(axis=1).max())
        rows, columns = np.nonzero(squared <= choice.threshold**2 + room)
        distances = np.empty(len(rows))
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            pairs = slice(start, start + _PAIRS_AT_ONCE)
            distances[pairs] = np.linalg.norm(points[rows[pairs]] - every[columns[pairs]], axis=1)
        counts = np.bincount(rows, minlength=len(points))
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        near = np.full((len(points), max(int(counts.max(initial=0)), 1)), np.inf)
        words = np.full(near.shape, -1, np.int64)
        near[rows, place], words[rows, place] = distances, columns
        picked = choice.choose(near, source)
        result = words[np.arange(len(points)), picked]
        pending = np.flatnonzero(picked < 0)
        while pending.size:  # uniform among the words that are not near
            drawn = uniform_below(choice.size, pending.size, source).astype(np.int64)
            far = ~(words[pending] == drawn[:, None]).any(axis=1)
            result[pending[far]] = drawn[far]
            pending = pending[~far]
        return result

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of every output text: the product over tokens of `TruncatedExponential.distribution`.

        `privatize` draws with integer weights, which are these probabilities rounded: a token's two probabilities of a
        word differ by less than 2^-40 of themselves. Different words never make the same text, because no word has
        whitespace, so each key has one origin.

        Raises:
            ConfigError: there are more than a million outputs.
        """
        [lines] = self._words.lines([record])
        indices = self._words.indices([lines])
        words = self._words.vectors.words
        if len(indices) * math.log(len(words)) > math.log(_MOST_OUTPUTS) + 1e-9:
            raise ConfigError(
                f"Expected a record with at most {_MOST_OUTPUTS:,} possible outputs to enumerate, where a token has "
                f"n_words={len(words)}: give a shorter record, or lower n_words or max_tokens."
            )
        # What stands before, between and after the words: every output has the lines of the input.
        between = text.detokenize([["\0"] * len(line) for line in lines]).split("\0")
        texts, probabilities = between[:1], np.ones(1)
        for point, gap in zip(self._words.at(indices), between[1:], strict=True):
            distances = np.linalg.norm(point - self._words.points, axis=1)
            texts = [f"{begun}{word}{gap}" for begun in texts for word in words]
            probabilities = np.multiply.outer(probabilities, self._choice.distribution(distances[None])[0]).ravel()
        return dict(zip(texts, probabilities.tolist(), strict=True))

    def _share(self, indices: Integers) -> float:
        words, counts = np.unique(indices, return_counts=True)
        chances = np.empty(len(words))
        for start in range(0, len(words), 64):
            block = words[start : start + 64]
            distances = np.sqrt(np.maximum(squared_distances(self._words.at(block), self._words.points), 0.0))
            own = np.arange(len(block)), block
            distances[own] = 0.0
            chances[start : start + 64] = self._choice.distribution(distances)[own]
        return float(np.average(chances, weights=counts))
