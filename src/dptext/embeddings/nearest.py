"""Exact nearest words of a public vocabulary, in batches.

`NearestWords.search` takes noisy vectors (Feyisetan et al. 2020, algorithm 1, line 3), never the words behind them. So
neither its result nor its running time reveals more than the noisy vectors.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptext import _validate
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.frozen import fill
from dptext.kernels.processors import each, threads
from dptext.kernels.shortlist import Shortlist, relative_error
from dptext.types import Floats, Int32s, Positions, Singles

if TYPE_CHECKING:
    from dptext.kernels.screening import Screen

# A tile of scores is _TILE queries by _TILE words in float32: 4 MB per thread, so that the cache holds it.
_TILE = 1024
# Words in one small product within a tile.
_BLOCK = 128
_BLOCKS = _TILE // _BLOCK  # number of blocks in a tile
# OpenBLAS computes a product of at most 2^18 multiplications in the calling thread. Tiles are stacks of such products.
# For larger products, our threads would wait for the threads of OpenBLAS, 1.5 to 4 times as long (measured).
_SMALL_PRODUCT = 1 << 18
# This number of multiplications takes about as long as starting a thread (measured). Smaller work is not shared.
_WORTH_A_THREAD = 1 << 25
# Loading numba takes about as long as searching this number of pairs (query, word) without numba (measured).
SCREENED_PAIRS = 1 << 29
# Queries farther from the mean than this many vocabulary radii are searched in float64: float32 is too imprecise.
_FAR = 1e4


@dataclass(frozen=True, slots=True, eq=False)
class NearestWords:
    """Exact nearest neighbour in Euclidean distance, for batches of queries.

    With the mean subtracted on both sides, the word e nearest to q has the largest score q.e - |e|^2 / 2. This is a
    matrix product, with the norm as an additional coordinate. Scores in float32 make a shortlist only: every word whose
    score could be the best within the worst rounding is compared again in float64. With numba and AVX-512,
    `kernels.screening` makes the shortlist once enough pairs were searched to repay its loading. The default number of
    `threads` is OMP_NUM_THREADS, else the number of processors. ConfigError: `threads` is not an integer of at least 1.
    """

    vectors: WordVectors
    threads: int | None = field(default=None, kw_only=True)
    _mean: Floats = field(init=False, repr=False)
    _radius: float = field(init=False, repr=False)
    _table: Singles = field(init=False, repr=False)
    _screened: "Screen | None" = field(init=False, repr=False, default=None)
    _pairs: int = field(init=False, repr=False, default=0)  # number of pairs searched so far

    def __post_init__(self) -> None:
        if self.threads is not None:
            _validate.count(threads=self.threads)
        words = self.vectors.vectors
        mean = words.mean(axis=0, dtype=np.float64)
        # The radius is computed tile by tile, so that intermediate arrays stay in the cache and need no new memory.
        tiles = [words[start : start + _TILE] for start in range(0, len(words), _TILE)]
        radius = max(float(_norms(tile - mean).max()) for tile in tiles) or 1.0
        # The coordinates of a word are -|e|^2 / 2 and e. Blocks have one word per column: small products read this
        # layout a fifth faster than its transpose.
        columns = np.zeros((_TILE, 1 + self.vectors.dim), np.float32)
        table = np.empty((len(tiles) * _BLOCKS, columns.shape[1], _BLOCK), np.float32)
        for i, tile in enumerate(tiles):
            centred = (tile - mean) / radius  # so that nothing over- or underflows in float32
            columns[: len(tile), 0] = np.einsum("ij,ij->i", centred, centred) / -2
            columns[: len(tile), 1:] = centred
            columns[len(tile) :] = 0
            columns[len(tile) :, 0] = -1e30  # the padding of the last tile is never the best
            table[i * _BLOCKS : (i + 1) * _BLOCKS] = columns.reshape(_BLOCKS, _BLOCK, -1).swapaxes(1, 2)
        fill(self, _mean=mean, _radius=radius, _table=table)

    def search(self, queries: ArrayLike) -> Int32s:
        """Return the position of the word nearest to each query, int32 of shape (n_queries,). Ties go by position.

        Working memory does not grow with the number of queries. ConfigError: queries are not finite numbers of shape
        (n_queries, dim).
        """
        points = np.asarray(queries)
        if points.dtype.kind not in "fiu" or points.ndim != 2 or points.shape[1] != self.vectors.dim:
            wanted, found = f"(n_queries, {self.vectors.dim})", f"{points.dtype} of shape {points.shape}"
            raise ConfigError(f"Expected queries to be numbers of shape {wanted}, got {found}.")
        nearest = np.empty(len(points), np.int32)
        screen = self._screen(len(points))
        worth = max(1, len(points) * self._table.size // _WORTH_A_THREAD)
        n_threads = min(self.threads or threads(), worth)
        step = min(_TILE, max(1, -(-len(points) // n_threads)))

        def fill(start: int) -> None:
            nearest[start : start + step] = self._search_tile(points[start : start + step], screen)

        each(fill, range(0, len(points), step), n_threads)
        return nearest

    def _screen(self, n_queries: int) -> "Screen | None":
        """Return the first pass by vector instructions, once it repays the loading of numba; else None."""
        before, pairs = self._pairs, self._pairs + n_queries * len(self.vectors)
        fill(self, _pairs=pairs)
        if before < SCREENED_PAIRS <= pairs:
            from dptext.kernels import screening  # noqa: PLC0415 (numba is slow to load)

            if screening.FAST:
                columns = self._table.swapaxes(1, 2).reshape(-1, self.vectors.dim + 1)
                screen = screening.Screen(self.vectors.vectors, self._radius, columns[:, 1:], -columns[:, 0])
                fill(self, _screened=screen)
        return self._screened

    def _search_tile(self, queries: NDArray[np.floating], screen: "Screen | None") -> Positions:
        points: Floats = np.asarray(queries, np.float64)
        if not np.isfinite(points).all():
            raise ConfigError("Expected queries to be finite.")
        with np.errstate(over="ignore", invalid="ignore"):  # norms that overflow to infinity or NaN are not <= _FAR
            centred = (points - self._mean) / self._radius
            norms = _norms(centred)
        search = self._search_near if screen is None else screen.nearest
        near = norms <= _FAR
        nearest = np.empty(len(points), np.intp)
        if near.any():
            nearest[near] = search(points[near], centred[near], norms[near])
        nearest[~near] = [self._search_far(point) for point in points[~near]]
        return nearest

    def _search_near(self, points: Floats, centred: Floats, norms: Floats) -> Positions:
        rows = np.hstack([np.ones((len(points), 1)), centred]).astype(np.float32)
        n_tiles = len(self._table) // _BLOCKS
        stacked, scores = _stacked(rows)
        tops = np.empty((n_tiles, len(points)), np.float32)
        for tile in range(n_tiles):
            self._fill(scores, stacked, tile)
            scores[: len(points)].max(axis=1, out=tops[tile])
        # A word can be the nearest only if its score equals the best score up to rounding.
        needed = (tops.max(axis=0) - 2 * relative_error(self.vectors.dim) * (norms + 0.5)).astype(np.float32)
        again = tops >= needed
        shortlist = Shortlist(points, self.vectors.vectors)
        for tile in np.flatnonzero(again.any(axis=1)).tolist():
            some = np.flatnonzero(again[tile])
            stacked, scores = _stacked(rows[some])
            self._fill(scores, stacked, tile)
            pick, place = np.divmod(np.flatnonzero(scores[: len(some)] >= needed[some, None]), _TILE)
            shortlist.add(some[pick], place + tile * _TILE)
        return shortlist.nearest()

    def _fill(self, scores: Singles, stacked: Singles, tile: int) -> None:
        out = scores.reshape(*stacked.shape[:2], _BLOCKS, _BLOCK).transpose(2, 0, 1, 3)
        np.matmul(stacked, self._table[tile * _BLOCKS : (tile + 1) * _BLOCKS, None], out=out)

    def _search_far(self, point: Floats) -> int:
        """Return, by float64 distances, the nearest word of a query so far off that all float32 scores are equal."""
        unit = np.abs(point).max()
        squares = np.empty(len(self.vectors))
        for start in range(0, len(squares), _TILE):
            gaps = (self.vectors.vectors[start : start + _TILE] - point) / unit
            squares[start : start + _TILE] = np.einsum("ij,ij->i", gaps, gaps)
        return int(squares.argmin())


def _stacked(rows: Singles) -> tuple[Singles, Singles]:
    """Rows `(n, k)`, zero-padded for small products `(n_products, n_rows, k)`, and memory for their scores."""
    n, k = rows.shape
    n_rows = min(n, max(1, _SMALL_PRODUCT // (_BLOCK * k)))
    stacked = np.zeros((-(-n // n_rows), n_rows, k), np.float32)
    stacked.reshape(-1, k)[:n] = rows
    return stacked, np.empty((stacked.shape[0] * n_rows, _TILE), np.float32)


def _norms(rows: Floats) -> Floats:
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms
