"""Word vectors inside a saved model: written to its folder and read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dptext.embeddings.npy import map_array
from dptext.embeddings.vectors import WordVectors, as_vectors
from dptext.errors import ConfigError
from dptext.text.files import create_private
from dptext.text.inputs import parse_json
from dptext.text.saved import SAVE_AGAIN, reading_saved

#: The words with the digest, and the matrix.
_WORDS_FILE, _VECTORS_FILE = "words.json", "vectors.npy"


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
    with reading_saved(f"the words {path}"):
        head = parse_json(path.read_bytes())
        words, name, digest = tuple(head["words"]), str(head["name"]), head["digest"]
    vectors = WordVectors(words, as_vectors(map_array(folder / _VECTORS_FILE), name), name=name)
    if vectors.digest != digest:
        raise ConfigError(f"Expected the vectors in {folder} to have the digest in {path}. {SAVE_AGAIN}")
    if len(vectors) != n_words:
        raise ConfigError(f"Expected n_words={n_words} to be the {len(vectors)} words in {folder}.")
    return vectors
