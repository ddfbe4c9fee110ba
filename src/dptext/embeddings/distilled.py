"""A sentence encoder distilled into one vector per word, which reads a text as a bag of words. It needs no torch.

The student is linear in the tf-idf of a text's words (distillation: Hinton, Vinyals and Dean 2015) and ignores their
order. `distil` solves one ridge regression, from tf-idf to the teacher's vectors of public texts. `distil_with_words`
also uses the teacher's vector of each word alone (static vectors, as in Model2Vec: Tulkens and van Dongen 2024), so
that the student knows words that are in no public text.

A text's vector is computed from its own words alone, by sums in the order of the vocabulary. So the other texts of a
batch do not change it, not even in the last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dptext.embeddings.embedder import Embedder, packaged_model
from dptext.embeddings.npy import read_array, save_pool
from dptext.errors import ConfigError
from dptext.text.inputs import parse_json, reading_saved
from dptext.text.tokens import words_of
from dptext.types import Floats, Singles

if TYPE_CHECKING:
    from scipy import sparse  # slow to load

#: Largest number of words with weights of their own in the regression, which solves a system of as many equations.
MAX_WORDS = 5_000
_MAX_TOKENS = 4_096
_RIDGE = 1.0
_GRID = 2.0**-10
_FILES = "distilled"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DistilledEncoder:
    """An `Embedder` that maps texts to unit vectors. A text without known words has the direction of `offset`.

    `rarity` `(len(words),)` are inverse document frequencies. `weights` `(len(words), dim)` are the coefficients of a
    regression, and `offset` `(dim,)` is its intercept. All are float32. The first `max_tokens` words of a text are
    read.
    """

    words: tuple[str, ...]
    rarity: Singles
    weights: Singles
    offset: Singles
    max_tokens: int
    teacher: str
    _index: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {word: i for i, word in enumerate(self.words)})

    def __repr__(self) -> str:
        return f"DistilledEncoder({self.name})"

    @property
    def name(self) -> str:
        """The embedder's name in reports."""
        return f"{self.teacher}, distilled into {len(self.words)} words"

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.offset)

    @property
    def digest(self) -> str:
        """sha256 of words and weights."""
        found = hashlib.sha256(json.dumps([self.words, self.max_tokens, self.teacher]).encode())
        for values in (self.rarity, self.weights, self.offset):
            found.update(values.tobytes())
        return found.hexdigest()

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)` in float64 on a grid of 2^-10; zero if no word is known and the offset is 0."""
        read = _bags(texts, self._index, self.rarity, self.max_tokens) @ self.weights + self.offset
        found = np.asarray(read, np.float64)
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        if on_progress is not None:
            on_progress(len(texts))
        return np.rint(found / _GRID) * _GRID

    def save(self, folder: Path) -> None:
        """Write words and weights as new files, readable by their owner alone, into an existing folder."""
        half = self.weights.astype(np.float16)
        described = {"words": self.words, "rarity": self.rarity.tolist(), "offset": self.offset.tolist()}
        described |= {"max_tokens": self.max_tokens, "teacher": self.teacher, "digest": self.digest}
        save_pool(folder, _FILES, described, half if (half == self.weights).all() else self.weights)


def load_distilled(folder: Path) -> DistilledEncoder:
    """Load the encoder that `DistilledEncoder.save` wrote, without teacher and public text."""
    with reading_saved(f"the distilled encoder in {folder}"):
        described = parse_json((folder / f"{_FILES}.json").read_bytes())
        with (folder / f"{_FILES}.npy").open("rb") as file:
            weights = read_array(file).astype(np.float32)
        rarity, offset = (np.asarray(described[name], np.float32) for name in ("rarity", "offset"))
        words, max_tokens = tuple(described["words"]), described["max_tokens"]
        if rarity.shape != (len(words),) or weights.shape != (len(words), *offset.shape):
            raise ValueError
        if not all(np.isfinite(values).all() for values in (rarity, weights, offset)):
            raise ValueError
        found = DistilledEncoder(words, rarity, weights, offset, max_tokens, described["teacher"])
        if found.digest != described["digest"]:
            raise ValueError
    return found


def distil(teacher: Embedder, texts: Sequence[str], *, max_tokens: int, min_count: int) -> DistilledEncoder:
    """Distil the teacher on public texts (at least one). The student knows words of at least `min_count` texts."""
    counts = _texts_with(texts, max_tokens)
    words = tuple(word for word in _ranked(counts)[:MAX_WORDS] if counts[word] >= min_count)
    rare = _single(rarity([counts[word] for word in words], len(texts)))
    index = {word: i for i, word in enumerate(words)}
    weights, offset = _ridge(_bags(texts, index, rare, max_tokens), np.asarray(teacher.embed(texts)))
    return DistilledEncoder(words, rare, _single(weights), _single(offset), max_tokens, teacher.name)


def distil_with_words(
    teacher: Embedder, texts: Sequence[str], wanted: Floats | None = None, *, common: Iterable[str] = ()
) -> DistilledEncoder:
    """Distil the teacher on public texts, on each of their words alone, and on `common` words.

    A regression maps the teacher's vectors of words, weighted by rarity, to `wanted`, unit vectors `(n_texts, dim)`, by
    default the teacher's vectors of the texts. A second regression, on the residuals, corrects the weights of the
    `MAX_WORDS` most frequent words. Weights are rounded to float16, in which they are saved. ConfigError: no texts.
    """
    counts = _texts_with(texts, _MAX_TOKENS)
    words = tuple(dict.fromkeys([*_ranked(counts), *common]))
    rare = _single(rarity([counts[word] for word in words], len(texts)))
    bags = _bags(texts, {word: i for i, word in enumerate(words)}, rare, _MAX_TOKENS)
    wanted = np.asarray(teacher.embed(texts), np.float64) if wanted is None else wanted
    alone = np.asarray(teacher.embed(words), np.float64)
    means = bags @ alone
    mapped, middle = _ridge(means, wanted)
    weights = alone @ mapped
    # Words that are in no text would get a correction of 0, and take most of the time for a small pool.
    frequent, shift = _ridge(bags[:, : min(MAX_WORDS, len(counts))], wanted - means @ mapped - middle)
    weights[: len(frequent)] += frequent
    offset = _single(middle + shift)
    return DistilledEncoder(words, rare, _single(weights.astype(np.float16)), offset, _MAX_TOKENS, teacher.name)


def common_words() -> list[str]:
    """The whole words in the vocabulary of all-MiniLM-L6-v2, in its order: about 20,000, mostly English, without ß."""
    file = packaged_model() / "tokenizer.json"
    pieces: Mapping[str, int] = json.loads(file.read_bytes())["model"]["vocab"]
    ranked = sorted(pieces, key=pieces.__getitem__)
    return [piece for piece in ranked if words_of(piece, 2) == [piece] == [piece.casefold()]]


def _texts_with(texts: Sequence[str], max_tokens: int) -> Counter[str]:
    if not texts:
        raise ConfigError("Expected public texts to distil the sentence encoder on: there are none.")
    return Counter(word for text in texts for word in set(words_of(text, max_tokens)))


def _ranked(counts: Mapping[str, int]) -> list[str]:
    return sorted(counts, key=lambda word: (-counts[word], word))


def rarity(having: Sequence[int], n_texts: int) -> Floats:
    """The inverse document frequencies of words by scikit-learn's formula. `having` counts the texts with each word."""
    return np.asarray(np.log((1 + n_texts) / (1 + np.asarray(having, np.float64))) + 1)


def _single(values: NDArray[Any]) -> Singles:
    return values.astype(np.float32)


def _ridge(rows: Floats | sparse.csr_array, wanted: Floats) -> tuple[Floats, Floats]:
    """Coefficients and intercept of a ridge regression, centred without a dense matrix of all rows."""
    from scipy import sparse  # noqa: PLC0415 (slow to load)

    rows = rows.astype(np.float64)
    middle, mean = np.asarray(rows.mean(axis=0)).ravel(), wanted.mean(axis=0)
    products: Any = rows.T @ rows
    square = products.toarray() if sparse.issparse(products) else products
    square -= np.outer(rows.shape[0] * middle, middle)
    square[np.diag_indices_from(square)] += _RIDGE
    weights = np.linalg.solve(square, rows.T @ wanted - rows.shape[0] * np.outer(middle, mean))
    return weights, mean - middle @ weights


def bags(read: Sequence[Sequence[str]], index: Mapping[str, int], weights: Floats | Singles) -> sparse.csr_array:
    """Weighted bags of words `(n_texts, n_words)` of norm 1, or 0 if no word is known.

    `index` gives the column of each known word, `weights` `(n_words,)` the weight of each column.
    """
    from scipy import sparse  # noqa: PLC0415 (slow to load)

    columns = np.fromiter(map(index.get, chain.from_iterable(read), repeat(-1)), np.int64)
    rows = np.repeat(np.arange(len(read)), [len(words) for words in read])
    known = columns >= 0
    shape = (len(read), len(weights))
    counts = sparse.coo_array((np.ones(known.sum()), (rows[known], columns[known])), shape=shape).tocsr()
    counts.sum_duplicates()  # also sorts the columns of a row
    weighed = counts.data * weights[counts.indices]
    rows = np.repeat(np.arange(len(read)), np.diff(counts.indptr))
    norms = np.sqrt(np.bincount(rows, weighed**2, len(read)))  # sums in the order of the columns
    return sparse.csr_array((weighed / np.maximum(norms, 1e-12)[rows], counts.indices, counts.indptr), shape=shape)


def _bags(texts: Sequence[str], index: Mapping[str, int], rare: Singles, max_tokens: int) -> sparse.csr_array:
    return bags([words_of(text, max_tokens) for text in texts], index, rare).astype(np.float32)
