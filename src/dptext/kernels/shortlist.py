"""The second pass of the search for nearest words: float64 compares words that float32 cannot tell apart."""

import numpy as np

from dptext.types import Floats, Positions, Singles

_FLOAT32_EPS = float(np.finfo(np.float32).eps)


def relative_error(dim: int) -> float:
    """A bound on the float32 error of a product of dim + 1 coordinates, relative to the sum of absolute terms.

    Rounding factors and sums costs at most (dim + 4) units of 2^-24 (Higham 2002, section 3.1). The bound doubles this.
    """
    return (dim + 4) * _FLOAT32_EPS


PAIRS_AT_ONCE = 1 << 16  #: pairs of a row and a word whose distances are compared at once


class Shortlist:
    """Candidate words of a tile of queries. Pairs are collected, so that many are compared at once."""

    __slots__ = ("_best", "_chosen", "_points", "_rows", "_size", "_vectors", "_words")

    def __init__(self, points: Floats, vectors: Singles) -> None:
        self._points, self._vectors = points, vectors
        self._best = np.full(len(points), np.inf)
        self._chosen = np.zeros(len(points), np.intp)
        self._rows: list[Positions] = []
        self._words: list[Positions] = []
        self._size = 0

    def add(self, rows: Positions, words: Positions) -> None:
        """Add pairs of a query's row and a word. For one row, words must come in increasing order over all calls."""
        self._rows.append(rows)
        self._words.append(words)
        self._size += len(rows)
        if self._size >= PAIRS_AT_ONCE:
            self._compare()

    def nearest(self) -> Positions:
        """Return the nearest candidate of each row, the first one among equals."""
        self._compare()
        return self._chosen

    def _compare(self) -> None:
        if not self._size:
            return
        all_rows, all_words = np.concatenate(self._rows), np.concatenate(self._words)
        self._rows, self._words, self._size = [], [], 0
        for start in range(0, len(all_rows), PAIRS_AT_ONCE):  # several slices only if many words are nearly equal
            rows, words = all_rows[start : start + PAIRS_AT_ONCE], all_words[start : start + PAIRS_AT_ONCE]
            gaps = self._vectors[words] - self._points[rows]
            squares = np.einsum("ij,ij->i", gaps, gaps)
            order = np.lexsort((words, squares, rows))
            rows, words, squares = rows[order], words[order], squares[order]
            first = np.flatnonzero(np.diff(rows, prepend=-1))
            first = first[squares[first] < self._best[rows[first]]]
            self._best[rows[first]] = squares[first]
            self._chosen[rows[first]] = words[first]
