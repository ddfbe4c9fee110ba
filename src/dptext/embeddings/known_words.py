"""How often texts have the words of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from dptext.types import Int32s, Integers, UInt8s


class KnownWords:
    """The words of a list. Those of ASCII texts are found by compiled loops, and others by Python.

    Args:
        words: the list; of equal words the last counts.
        split: gives the words of a text in lower case.
        search: the name of the loops of `dptext.kernels.words` that find the same words in ASCII texts.
        most: the number of words of a text that are read.
    """

    def __init__(self, words: Sequence[str], split: Callable[[str], Iterable[str]], *, search: str, most: int) -> None:
        self._places, self._width = {word: i for i, word in enumerate(words)}, len(words)
        self._split, self._search, self._most = split, search, most

    def counted(self, texts: Sequence[str]) -> tuple[Integers, Integers, Integers]:
        """Return each known word of each text once: the row of the text, the place of the word, how often it is there.

        All are `(n,)`. Rows are in order, and places within a row.
        """
        plain = np.array([text.isascii() for text in texts], bool)
        rows, places = self._looked_up([text for text in texts if text.isascii()])
        rows = np.flatnonzero(plain)[rows]
        if not plain.all():
            other = [
                (row, self._places[word])
                for row in np.flatnonzero(~plain).tolist()
                for word in self._split(texts[row])
                if word in self._places
            ]
            more = np.array(other, np.int64).reshape(-1, 2)
            rows, places = np.concatenate([rows, more[:, 0]]), np.concatenate([places, more[:, 1]])
        cells, times = np.unique(rows * self._width + places, return_counts=True)
        return *np.divmod(cells, max(1, self._width)), times

    def _looked_up(self, texts: Sequence[str]) -> tuple[Integers, Integers]:
        """Return rows and places of all known words of ASCII texts."""
        from dptext.kernels import words  # noqa: PLC0415 (slow to load)

        data, ends = _joined(texts)
        found, counts = np.empty(len(data), np.int32), np.zeros(len(texts), np.int64)
        search = words.tokens if self._search == "tokens" else words.runs
        n = search(data, ends, self._table[1], self._most, found, counts)
        return np.repeat(np.arange(len(texts)), counts), self._table[0][found[:n]]

    @cached_property
    def _table(self) -> tuple[Integers, tuple[UInt8s, Integers, Int32s]]:
        """The places of the ASCII words, and these as the loops have them."""
        from dptext.kernels.words import fill  # noqa: PLC0415 (slow to load)

        plain = [word for word in self._places if word.isascii()]
        known = *_joined(plain), np.full(1 << (2 * len(plain)).bit_length(), -1, np.int32)
        fill(known)
        return np.array([self._places[word] for word in plain], np.int64), known


def _joined(texts: Sequence[str]) -> tuple[UInt8s, Integers]:
    """Return ASCII texts end to end, and a 0 and the end of each."""
    return np.frombuffer("".join(texts).encode(), np.uint8), np.cumsum([0, *map(len, texts)], dtype=np.int64)
