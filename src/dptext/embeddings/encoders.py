"""Encoders of texts, loaded by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dptext.embeddings import sentence_encoder
from dptext.embeddings.encoder_files import MINILM
from dptext.embeddings.public_vectors import learning
from dptext.embeddings.sentence_encoder import Precision, SentenceEncoder
from dptext.embeddings.vector_files import load_glove
from dptext.embeddings.vectors import WordVectors
from dptext.text.tokens import tokenize
from dptext.types import Floats

_GRID = 2.0**-10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordMean:
    """The mean of a text's word vectors, at length 1: an `Embedder` that is fast and blind to the order of words.

    >>> toy = WordVectors(("cat", "dog"), np.array([[0.0, 1.0], [1.0, 0.0]], np.float32), name="toy")
    >>> WordMean(toy).embed(["Dog!", "a fish", "cat, cat"]).tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """

    vectors: WordVectors

    def __repr__(self) -> str:
        return f"WordMean({self.vectors.name!r})"

    @property
    def name(self) -> str:
        """What identifies the embedder in reports, such as "mean of glove-6b-50d:50000"."""
        return f"mean of {self.vectors.name}"

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.vectors.dim

    @property
    def digest(self) -> str:
        """sha256 of words and vectors."""
        return self.vectors.digest

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, float64 on a grid of 2^-10; zero where no word is known.

        Each row is computed from its own text alone, whose tokens are those of `dptext.text.tokens.tokenize`.
        """
        found = np.zeros((len(texts), self.dim))
        for i, text in enumerate(texts):
            rows = self.vectors.index_of([token for line in tokenize(text) for token in line])
            total = self.vectors.vectors[rows[rows >= 0]].sum(axis=0, dtype=np.float64)
            found[i] = total / (float(np.linalg.norm(total)) or 1.0)
            if on_progress is not None:
                on_progress(i + 1)
        return np.rint(found / _GRID) * _GRID


Encoder: TypeAlias = SentenceEncoder | WordMean


def load_encoder(name: str = MINILM, *, device: str = "cpu", precision: Precision = "auto") -> Encoder:
    """The encoder of this name, loaded anew unless `PublicVectors.learning` is open.

    It is "glove" for the mean of 50,000 GloVe vectors; "sentence" for all-MiniLM-L6-v2; or what `load_sentence_encoder`
    takes, with its errors. Device and precision are of a sentence encoder.
    """
    if name == "glove":
        return WordMean(load_glove())
    known = MINILM if name == "sentence" else name

    def loaded() -> SentenceEncoder:
        # Looked up in its module at each call, so that another encoder can be put there.
        return sentence_encoder.load_sentence_encoder(known, device=device, precision=precision)

    memory = learning()
    return loaded() if memory is None else memory.encoder(loaded, name=known, device=device, precision=precision)
