"""Exact nearest words of a public vocabulary, in batches.

`NearestWords.search` is given vectors that carry noise (Feyisetan et al. 2020, algorithm 1, line 3), never the word
behind them: neither its result nor its running time tells more than the noisy vectors do.
"""

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptext import _validate
from dptext.embeddings.processors import each, processors
from dptext.embeddings.vectors import Shortlist, WordVectors, relative_error
from dptext.errors import ConfigError
from dptext.frozen import fill
from dptext.types import Floats, Int32s, Positions, Singles

if TYPE_CHECKING:
    from dptext.embeddings.nearest_kernel import Screen

Real = TypeVar("Real", np.float32, np.float64)

# A tile of scores is _TILE queries by _TILE words in float32: 4 MB a thread, read back by argmax from the cache.
_TILE = 1024
# Words in one small product within a tile.
_BLOCK = 128
_BLOCKS = _TILE // _BLOCK  # in a tile
# OpenBLAS computes a product of at most 2^18 multiplications in the calling thread. Tiles are stacks of such products.
# Our threads also do the argmax, and would otherwise wait for those of OpenBLAS, 1.5 to 4 times as long (measured).
_SMALL_PRODUCT = 1 << 18
# A first look may stop after this share of the principal axes; Cauchy-Schwarz bounds the rest.
_CUTS = (0.4, 0.6)
_MIN_DIM_FOR_CUTS = 16
_MIN_QUERIES_FOR_CUTS = 4096
_PROBES = 32
_SAMPLED_WORDS = 4096
# Work of looking again at one tile row, relative to a plain GEMM over it (measured; docs/results/nearest.md).
_SECOND_LOOK = 4.0
# So many multiplications take about as long as starting a thread (measured): fewer are not shared.
_WORTH_A_THREAD = 1 << 25
# Loading numba takes about as long as searching so many pairs of a query and a word without it (measured).
_WORTH_A_SCREEN = 1 << 29
# Work of the argmax, in coordinates of the GEMM (measured).
_OVERHEAD = 4
# Farther from the mean than this many vocabulary radii, float32 scores say nothing, and float64 is used throughout.
_FAR = 1e4


@dataclass(frozen=True, slots=True, eq=False)
class NearestWords:
    """Exact nearest neighbour in Euclidean distance, for batches of queries.

    With the mean subtracted on both sides, the word e nearest to q has the largest score q.e - |e|^2 / 2. This is a
    matrix product, with the norm as an additional coordinate. Scores in float32 make a shortlist only: every word whose
    score could be the best within the worst rounding is compared again in float64. In a large batch the product may
    stop after the first p principal axes of the vocabulary. Then |q_rest| |e_rest| is another coordinate, and scores
    are upper bounds (Cauchy-Schwarz). A few queries of the batch decide p; no result depends on it. With numba and
    AVX-512, `nearest_kernel` makes the shortlist once so much was searched that loading it pays. By default there are
    as many `threads` as processors; ConfigError where the number is no whole one of at least 1.
    """

    vectors: WordVectors
    threads: int | None = field(default=None, kw_only=True)
    _mean: Floats = field(init=False, repr=False)
    _axes: Floats = field(init=False, repr=False)
    _radius: float = field(init=False, repr=False)
    _cuts: tuple[int, ...] = field(init=False, repr=False)
    _table: Singles = field(init=False, repr=False)
    _screened: "Screen | None" = field(init=False, repr=False, default=None)
    _pairs: int = field(init=False, repr=False, default=0)  # searched so far

    def __post_init__(self) -> None:
        if self.threads is not None:
            _validate.count(threads=self.threads)
        words, dim = self.vectors.vectors, self.vectors.dim
        mean = words.mean(axis=0, dtype=np.float64)
        # A tile after the other: what stands between is in the cache, and the system hands out no memory for it.
        tiles = [words[start : start + _TILE] for start in range(0, len(words), _TILE)]
        products, largest = np.zeros((dim, dim)), 0.0
        for tile in tiles:
            centred = tile - mean
            products += centred.T @ centred
            largest = max(largest, float(np.einsum("ij,ij->i", centred, centred).max()))
        _, axes = np.linalg.eigh(products)
        axes = np.ascontiguousarray(axes[:, ::-1])  # largest variance first
        radius = math.sqrt(largest) or 1.0
        cuts = tuple(round(dim * share) for share in _CUTS) if dim >= _MIN_DIM_FOR_CUTS else ()
        # Columns: |e_rest| for each cut, -|e|^2 / 2, e. A cut is then a slice of columns, and one table serves all.
        # Blocks of words with a word to a column: the small products read them a fifth faster than the other way.
        columns = np.zeros((_TILE, len(cuts) + 1 + dim), np.float32)
        table = np.empty((len(tiles) * _BLOCKS, columns.shape[1], _BLOCK), np.float32)
        for i, tile in enumerate(tiles):
            rotated = (tile - mean) @ axes
            rotated /= radius  # so that nothing over- or underflows in float32
            for column, cut in enumerate(cuts):
                columns[: len(tile), column] = _norms(rotated[:, cut:])
            columns[: len(tile), len(cuts)] = np.einsum("ij,ij->i", rotated, rotated) / -2
            columns[: len(tile), len(cuts) + 1 :] = rotated
            columns[len(tile) :, len(cuts)] = -1e30  # fills up the last tile and is never the best
            columns[len(tile) :, : len(cuts)] = columns[len(tile) :, len(cuts) + 1 :] = 0
            table[i * _BLOCKS : (i + 1) * _BLOCKS] = columns.reshape(_BLOCKS, _BLOCK, -1).swapaxes(1, 2)
        fill(self, _mean=mean, _axes=axes, _radius=radius, _cuts=cuts, _table=table)

    def search(self, queries: ArrayLike) -> Int32s:
        """The position of the word nearest to each query, int32 of shape (n_queries,); the first of several.

        Memory beyond that does not grow. ConfigError: queries are not finite numbers (n_queries, dim), float32 or
        float64.
        """
        points = np.asarray(queries)
        if points.dtype.kind not in "fiu" or points.ndim != 2 or points.shape[1] != self.vectors.dim:
            wanted, found = f"(n_queries, {self.vectors.dim})", f"{points.dtype} of shape {points.shape}"
            raise ConfigError(f"Expected queries to be numbers of shape {wanted}, got {found}.")
        nearest = np.empty(len(points), np.int32)
        look = self._screen(len(points)) or self._choose_cut(points)
        worth = max(1, len(points) * self._table.size // _WORTH_A_THREAD)
        threads = min(self.threads or processors(), worth)
        step = min(_TILE, max(1, -(-len(points) // threads)))

        def fill(start: int) -> None:
            nearest[start : start + step] = self._search_tile(points[start : start + step], look)

        each(fill, range(0, len(points), step), threads)
        return nearest

    def _rotate(self, points: Floats) -> tuple[Floats, Floats]:
        """Return queries in the table's coordinates, shape (n, dim), and their norms, shape (n,)."""
        if not np.isfinite(points).all():
            raise ConfigError("Expected queries to be finite.")
        with np.errstate(over="ignore", invalid="ignore"):  # a query beyond all bounds is not <= _FAR, and goes there
            rotated = _product((points - self._mean) / self._radius, self._axes)
            return rotated, _norms(rotated)

    def _bounds(self, rotated: Floats, cut: int) -> tuple[Singles, Singles]:
        """Return factors (n_queries, k), (n_blocks, k, _BLOCK) of bounds above all scores, or of the scores."""
        cuts = self._cuts
        if cut == len(cuts):
            ones = np.ones((len(rotated), 1), np.float32)
            return np.hstack([ones, rotated.astype(np.float32)]), self._table[:, len(cuts) :]
        axes = cuts[cut]
        left = np.zeros((len(rotated), len(cuts) + 1 + axes), np.float32)
        left[:, cut] = _norms(rotated[:, axes:])
        left[:, len(cuts)] = 1
        left[:, len(cuts) + 1 :] = rotated[:, :axes]
        return left, self._table[:, : left.shape[1]]

    def _choose_cut(self, points: NDArray[np.floating]) -> int:
        """Return the cut with the least expected work for this batch, judged by a few queries and words."""
        exact = len(self._cuts)
        if len(points) < _MIN_QUERIES_FOR_CUTS or not exact:
            return exact
        probes: Floats = np.asarray(points[:: -(-len(points) // _PROBES)], np.float64)
        rotated, norms = self._rotate(probes)
        near = norms <= _FAR
        if not near.any():
            return exact
        probes, rotated, norms = probes[near], rotated[near], norms[near]
        n_words, dim = self.vectors.vectors.shape
        sample = slice(None, None, -(-n_words // _SAMPLED_WORDS))  # of the blocks
        best = self._score(probes, norms, self._search_near(probes, rotated, norms, exact))[:, None]
        tiles = -(-n_words // _TILE)
        work = []
        for cut, axes in enumerate(self._cuts):
            left, right = self._bounds(rotated, cut)
            blocks = right[sample]
            share = sum((_product(left, block) >= best).mean(axis=1) for block in blocks) / len(blocks)
            again = np.minimum(1 + share * n_words, tiles).mean()
            work.append(n_words * (axes + exact + 1 + _OVERHEAD) + _SECOND_LOOK * _TILE * dim * again)
        work.append(n_words * (dim + 1 + _OVERHEAD) + _SECOND_LOOK * _TILE * dim)
        return int(np.argmin(work))

    def _score(self, points: Floats, norms: Floats, words: Positions | Int32s) -> Floats:
        gaps = (self.vectors.vectors[words] - points) / self._radius
        scores: Floats = (norms**2 - np.einsum("ij,ij->i", gaps, gaps)) / 2
        return scores

    def _screen(self, n_queries: int) -> "Screen | None":
        """Return the first look in this processor's vectors, once that is worth loading numba and can be had."""
        before, pairs = self._pairs, self._pairs + n_queries * len(self.vectors)
        fill(self, _pairs=pairs)
        if before < _WORTH_A_SCREEN <= pairs:
            with contextlib.suppress(ImportError):
                from dptext.embeddings import nearest_kernel  # noqa: PLC0415 (numba is an extra, slow to load)

                if nearest_kernel.FAST:
                    columns = self._table[:, len(self._cuts) :].swapaxes(1, 2).reshape(-1, self.vectors.dim + 1)
                    screen = nearest_kernel.Screen(self.vectors.vectors, self._radius, columns[:, 1:], -columns[:, 0])
                    fill(self, _screened=screen)
        return self._screened

    def _search_tile(self, queries: NDArray[np.floating], look: "int | Screen") -> Positions:
        points: Floats = np.asarray(queries, np.float64)
        rotated, norms = self._rotate(points)
        near = norms <= _FAR
        if not near.all():
            nearest = np.empty(len(points), np.intp)
            nearest[near] = self._search_near(points[near], rotated[near], norms[near], look) if near.any() else 0
            nearest[~near] = [self._search_far(point) for point in points[~near]]
            return nearest
        return self._search_near(points, rotated, norms, look)

    def _search_near(self, points: Floats, rotated: Floats, norms: Floats, look: "int | Screen") -> Positions:
        if not isinstance(look, int):
            return look.nearest(points, rotated, norms)
        cut = look
        left, right = self._bounds(rotated, cut)
        n_tiles = len(right) // _BLOCKS
        tops = np.empty((n_tiles, len(points)), np.float32)
        places = np.empty((n_tiles, len(points)), np.intp)
        stacked = _stack(left, _BLOCK)
        scores = np.empty((stacked.shape[0] * stacked.shape[1], _TILE), np.float32)
        every = np.arange(len(points))
        for tile in range(n_tiles):
            _fill_scores(scores, stacked, right[tile * _BLOCKS : (tile + 1) * _BLOCKS])
            place = scores[: len(points)].argmax(axis=1)
            tops[tile] = scores[every, place]
            places[tile] = place + tile * _TILE
        slack = relative_error(self.vectors.dim) * (norms + 0.5)
        if cut == len(self._cuts):
            reached = tops.max(axis=0) - slack
        else:
            reached = self._score(points, norms, places[tops.argmax(axis=0), every])
        # A word can be the nearest only if its (upper bound of a) score comes within rounding of one that is reached.
        needed = (reached - slack).astype(np.float32)
        again = tops >= needed
        shortlist = Shortlist(points, self.vectors.vectors)
        exact, right = self._bounds(rotated, len(self._cuts))
        for tile in np.flatnonzero(again.any(axis=1)).tolist():
            rows = np.flatnonzero(again[tile])
            stacked = _stack(exact[rows], _BLOCK)
            scores = np.empty((stacked.shape[0] * stacked.shape[1], _TILE), np.float32)
            _fill_scores(scores, stacked, right[tile * _BLOCKS : (tile + 1) * _BLOCKS])
            pick, place = np.divmod(np.flatnonzero(scores[: len(rows)] >= needed[rows, None]), _TILE)
            shortlist.add(rows[pick], place + tile * _TILE)
        return shortlist.nearest()

    def _search_far(self, point: Floats) -> int:
        """Return the nearest word of a query so far off that float32 scores are all equal: float64, word by word."""
        unit = np.abs(point).max()
        squares = np.empty(len(self.vectors))
        for start in range(0, len(squares), _TILE):
            gaps = (self.vectors.vectors[start : start + _TILE] - point) / unit
            squares[start : start + _TILE] = np.einsum("ij,ij->i", gaps, gaps)
        return int(squares.argmin())


def _stack(left: NDArray[Real], width: int) -> NDArray[Real]:
    """Return rows of shape (n, k) as (n_products, n_rows, k), for small products with (k, width); zeros fill up."""
    n, k = left.shape
    n_rows = min(n, max(1, _SMALL_PRODUCT // (width * k)))
    stacked = np.zeros((-(-n // n_rows), n_rows, k), left.dtype)
    stacked.reshape(-1, k)[:n] = left
    return stacked


def _product(left: NDArray[Real], right: NDArray[Real]) -> NDArray[Real]:
    product: NDArray[Real] = np.matmul(_stack(left, right.shape[1]), right)
    return product.reshape(-1, right.shape[1])[: len(left)]


def _fill_scores(scores: Singles, stacked: Singles, blocks: Singles) -> None:
    """Fill ``scores`` (n_queries, _TILE) from queries (n_products, n_rows, k) and a tile (_BLOCKS, k, _BLOCK)."""
    out = scores.reshape(*stacked.shape[:2], _BLOCKS, _BLOCK).transpose(2, 0, 1, 3)
    np.matmul(stacked, blocks[:, None], out=out)


def _norms(rows: Floats) -> Floats:
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms
