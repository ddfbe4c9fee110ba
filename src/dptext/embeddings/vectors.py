"""Public word vectors."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dptext.errors import ConfigError
from dptext.frozen import fill
from dptext.kernels.shortlist import relative_error
from dptext.text.tokens import composed
from dptext.types import Int32s, Singles

DIAMETER_WORDS = 60_000  #: largest number of outer words whose pairs are compared
_ROWS = 1024  # words of a block of pairs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordVectors:
    """A public vocabulary and one vector for each of its words.

    Attributes:
        words: The words, each non-empty, unique and without whitespace; at least two.
        vectors: Read-only float32 of shape (n_words, dim), a copy of the argument.
        name: The name of the vectors in reports, such as 'glove-6b-50d:50000'.
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
        # All words are checked at once. The check word by word, for the error message, takes ten times as long.
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

        A token that is not found in its own spelling is searched in NFC.
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
        """The largest distance between two vectors, rounded up by a relative error of about 1e-5.

        Only words far from the mean are compared. If these are more than 60,000, the bound is twice the largest
        distance from the mean.
        """
        centred = self.vectors - self.vectors.mean(axis=0, dtype=np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        radius = float(norms.max())
        if radius == 0:
            return 0.0
        # Let d be the distance of the outermost word to the word farthest from it. Two words that are farther apart
        # than d both lie at least d - radius from the mean, because |a - b| <= |a| + |b| <= |a| + radius.
        gap = centred - centred[norms.argmax()]
        occurs = float(np.sqrt(np.einsum("ij,ij->i", gap, gap).max()))
        outer = (centred[norms >= (occurs - radius) * (1 - 1e-9)] / radius).astype(np.float32)
        if len(outer) > DIAMETER_WORDS:
            return 2 * radius * (1 + 1e-9)
        halves = (np.einsum("ij,ij->i", outer, outer, dtype=np.float64) / 2).astype(np.float32)
        ones = np.ones_like(halves)
        left = np.column_stack([outer, halves, ones])
        right = np.column_stack([-outer, ones, halves])
        largest = 0.0  # largest |a - b|^2 / 2 = |a|^2 / 2 + |b|^2 / 2 - a.b, at most 2 in units of the radius
        for i in range(0, len(outer), _ROWS):
            for j in range(i, len(outer), _ROWS):
                largest = max(largest, float((left[i : i + _ROWS] @ right[j : j + _ROWS].T).max()))
        slack = 2 * relative_error(self.dim)  # the absolute terms sum to at most 2
        return min(float(np.sqrt(2 * (largest + slack))), 2.0) * radius * (1 + 1e-6)


def as_vectors(vectors: ArrayLike, name: str) -> Singles:
    """Return a read-only float32 copy `(n_words, dim)`. ConfigError: another shape, or not finite. It names `name`."""
    given = np.asarray(vectors)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[1] < 1:
        found = f"{given.dtype} of shape {given.shape}"
        raise ConfigError(f"Expected vectors of {name!r} to be numbers of shape (n_words, dim), got {found}.")
    with np.errstate(over="ignore"):  # numbers too large for float32 are refused below
        array = np.array(given, np.float32, order="C", copy=True)
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise ConfigError(f"Expected vectors of {name!r} to be finite in float32; row {int(finite.argmin())} is not.")
    array.setflags(write=False)
    return array


def word_problem(word: object, known: dict[str, int]) -> str:
    """The rule that a word breaks, given the `known` words before it, such as "unique"; "" if it breaks none."""
    if not isinstance(word, str):
        return "a string"
    if word.split() != [word]:
        return "non-empty and without whitespace"
    return "unique" if word in known else ""
