"""What mechanisms of metric privacy on words have in common: a word of the public vocabulary for each token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dptext.mechanisms.bases import OnWords, Spec_co
from dptext.mechanisms.words.vocabulary import WordPoints, frequent_words, spread_words
from dptext.sampling.source import Randomness
from dptext.text.batches import Releases
from dptext.text.records import Record
from dptext.types import Integers


class WordByWord(OnWords[Spec_co], ABC):
    """Public vectors, and a word for each token."""

    __slots__ = ("_words",)

    def __init__(self, spec: Spec_co, words: WordPoints) -> None:
        super().__init__(spec, words.vectors)
        self._words = words

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """One release a record; labels are dropped, as they are not privatized."""
        return self._words.rewrite(records, lambda indices, sizes: self._replace(indices, sizes, randomness))

    def distance(self, first: Record, second: Record) -> float:
        """The guarantee's distance of two records: the sum over their tokens, rounded up a little.

        Raises:
            ConfigError: the records differ in their number of tokens or lines, so that they are no neighbours.
        """
        return self._words.distance(first, second)

    def unchanged_share(self) -> float:
        """Share of running words that come back unchanged at this epsilon: see `frequent_words`."""
        return self._share(frequent_words(len(self._words.points)))

    def unchanged_share_of_vocabulary(self) -> float:
        """The same share among words spread evenly over the whole vocabulary: see `spread_words`."""
        return self._share(spread_words(len(self._words.points)))

    @abstractmethod
    def _replace(self, indices: Integers, sizes: Sequence[int], randomness: Randomness) -> Integers:
        """A word for each token (-1 for an unknown one)."""

    @abstractmethod
    def _share(self, indices: Integers) -> float:
        """The share of these words that come back unchanged."""
