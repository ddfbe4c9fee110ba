"""Public word vectors, and those that may be the nearest to a point, compared in float64."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dptext.errors import ConfigError
from dptext.frozen import fill
from dptext.text.tokens import composed
from dptext.types import Floats, Int32s, Positions, Singles

DIAMETER_WORDS = 60_000  #: Of more outer words no pairs are compared
_ROWS = 1024  # at once
_FLOAT32_EPS = float(np.finfo(np.float32).eps)


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
    vectors: Singles
    name: str = field(kw_only=True)
    digest: str = field(init=False)
    _positions: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        words, array, name = tuple(self.words), as_vectors(self.vectors, self.name), self.name
        if len(words) < 2:
            raise ConfigError(f"Expected words of {name!r} to be at least 2, got {len(words)}.")
        if len(words) != len(array):
            raise ConfigError(
                f"Expected one vector for each word of {name!r}, got {len(words)} words and {len(array)}."
            )
        positions = dict(zip(words, range(len(words)), strict=True)) if set(map(type, words)) == {str} else {}
        # All at once: a word at a time, as errors need it, takes ten times as long.
        if len(positions) != len(words) or " ".join(words).split() != list(words):
            positions.clear()
            for i, word in enumerate(words):
                if problem := word_problem(word, positions):
                    raise ConfigError(f"Expected word {i} of {name!r} to be {problem}, got {word!r}.")
                positions[word] = i
        digest = hashlib.sha256(f"dptext.WordVectors/1 {array.shape[0]} {array.shape[1]}\n".encode())
        digest.update("\n".join(words).encode("utf-8", "surrogatepass"))
        digest.update(array.astype("<f4", copy=False).data)
        fill(self, words=words, vectors=array, digest=digest.hexdigest(), _positions=positions)

    def __repr__(self) -> str:
        return f"WordVectors({self.name!r}, n_words={len(self)}, dim={self.dim})"

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""
        return int(self.vectors.shape[1])

    def index_of(self, tokens: Sequence[str]) -> Int32s:
        """Return the position of each token, else of its lower-cased form, else -1; int32 of shape (n_tokens,).

        A token that is not found as it is spelled is searched in NFC.
        """
        get = self._positions.get
        found = (get(token, -1) for token in tokens)
        lowered = (i if i >= 0 else get(token.lower(), -1) for i, token in zip(found, tokens, strict=True))
        places = np.fromiter(lowered, np.int32, len(tokens))
        again = {
            i: spelled for i in np.flatnonzero(places < 0).tolist() if (spelled := composed(tokens[i])) != tokens[i]
        }
        if again:
            places[list(again)] = self.index_of(list(again.values()))
        return places

    def diameter_bound(self) -> float:
        """The largest distance of two of the vectors, rounded up by about 1e-5 of itself.

        Only words far from the mean are compared; where these are more than 60,000, it is twice the largest distance
        from it.
        """
        centred = self.vectors - self.vectors.mean(axis=0, dtype=np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        radius = float(norms.max())
        if radius == 0:
            return 0.0
        # The distance of the outermost word to the word farthest from it occurs. Two words that are farther apart both
        # lie at least (this distance - radius) from the mean, because |a - b| <= |a| + |b| <= |a| + radius.
        gap = centred - centred[norms.argmax()]
        occurs = float(np.sqrt(np.einsum("ij,ij->i", gap, gap).max()))
        outer = (centred[norms >= (occurs - radius) * (1 - 1e-9)] / radius).astype(np.float32)
        if len(outer) > DIAMETER_WORDS:
            return 2 * radius * (1 + 1e-9)
        halves = (np.einsum("ij,ij->i", outer, outer, dtype=np.float64) / 2).astype(np.float32)
        ones = np.ones_like(halves)
        left = np.column_stack([outer, halves, ones])
        right = np.column_stack([-outer, ones, halves])
        largest = 0.0  # of |a - b|^2 / 2 = |a|^2 / 2 + |b|^2 / 2 - a.b, at most 2 in units of the radius
        for i in range(0, len(outer), _ROWS):
            for j in range(i, len(outer), _ROWS):
                largest = max(largest, float((left[i : i + _ROWS] @ right[j : j + _ROWS].T).max()))
        slack = 2 * relative_error(self.dim)  # the absolute terms sum to 2 at most
        return min(float(np.sqrt(2 * (largest + slack))), 2.0) * radius * (1 + 1e-6)


def as_vectors(vectors: ArrayLike, name: str) -> Singles:
    """A read-only float32 copy `(n_words, dim)`, finite, else ConfigError, which calls it `name`."""
    given = np.asarray(vectors)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[1] < 1:
        found = f"{given.dtype} of shape {given.shape}"
        raise ConfigError(f"Expected vectors of {name!r} to be numbers of shape (n_words, dim), got {found}.")
    with np.errstate(over="ignore"):  # what does not fit float32 is refused below
        array = np.array(given, np.float32, order="C", copy=True)
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise ConfigError(f"Expected vectors of {name!r} to be finite in float32; row {int(finite.argmin())} is not.")
    array.setflags(write=False)
    return array


def word_problem(word: object, known: dict[str, int]) -> str:
    """What a word should be and is not after the `known` ones, such as "unique"; "" where nothing is wrong."""
    if not isinstance(word, str):
        return "a string"
    if word.split() != [word]:
        return "non-empty and without whitespace"
    return "unique" if word in known else ""


def relative_error(dim: int) -> float:
    """A bound on the float32 error of a product of dim + 1 coordinates, relative to the sum of absolute terms.

    Rounding factors and sums costs at most (dim + 4) units of 2^-24 (Higham 2002, section 3.1); twice that is taken.
    """
    return (dim + 4) * _FLOAT32_EPS


PAIRS_AT_ONCE = 1 << 16  #: Of a row and a word, whose distances are compared


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
        for start in range(0, len(all_rows), PAIRS_AT_ONCE):  # a few slices only when many words are as good as equal
            rows, words = all_rows[start : start + PAIRS_AT_ONCE], all_words[start : start + PAIRS_AT_ONCE]
            gaps = self._vectors[words] - self._points[rows]
            squares = np.einsum("ij,ij->i", gaps, gaps)
            order = np.lexsort((words, squares, rows))
            rows, words, squares = rows[order], words[order], squares[order]
            first = np.flatnonzero(np.diff(rows, prepend=-1))
            first = first[squares[first] < self._best[rows[first]]]
            self._best[rows[first]] = squares[first]
            self._chosen[rows[first]] = words[first]
