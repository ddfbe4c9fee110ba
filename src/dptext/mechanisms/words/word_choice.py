"""TEM: a word chosen by its distance from the private one, with integers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dptext.errors import ConfigError
from dptext.mechanisms.bases import Spec_co
from dptext.mechanisms.words.vocabulary import WordPoints
from dptext.mechanisms.words.word_by_word import WordByWord
from dptext.mechanisms.words.word_draws import WordDraws
from dptext.sampling.source import Randomness
from dptext.sampling.truncated import LEAST_DISTANCE, TruncatedExponential
from dptext.text import tokens as text
from dptext.text.records import Record
from dptext.types import Integers

_MOST_OUTPUTS = 1_000_000


class WordChoiceMechanism(WordByWord[Spec_co]):
    """A `WordMetric` of noise `tem` with its vectors.

    Immutable. It knows the probability of every output (`HasDistribution`) and has a metric (`HasMetric`).
    """

    __slots__ = ("_choice", "_draws")

    def __init__(self, spec: Spec_co, words: WordPoints, choice: TruncatedExponential) -> None:
        super().__init__(spec, words)
        self._choice = choice
        self._draws = WordDraws(words, choice)

    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""
        start = 0

        def draw(source: Randomness, n: int) -> Integers:
            nonlocal start
            start += n
            return self._draws.draw(indices[start - n : start], source)

        return randomness.rows(sizes, draw)

    def distance(self, first: Record, second: Record) -> float:
        """As every `WordMetric`'s, but different words count as at least `LEAST_DISTANCE` apart."""
        return self._words.distance(first, second, least=LEAST_DISTANCE)

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of every output text: the product over tokens of `TruncatedExponential.distribution`.

        `privatize` draws with integer weights (`WordDraws`), which are these probabilities rounded: a token's two
        probabilities of a word differ by less than 2^-40 of themselves. Different words never make the same text,
        because no word has whitespace, so each key has one origin.

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
        return float(np.average(self._draws.chances_of_own(words), weights=counts))
