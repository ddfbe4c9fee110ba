"""The protocol of embedders, what a guarantee assumes where one reads private text, and vectors of distinct texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dptext.embeddings.encoder_files import MINILM_NAMES
from dptext.errors import ConfigError
from dptext.types import Floats, Integers, Singles

#: Part of the assumptions below. It says what one text can cost another where the assumption fails.
HIDDEN = (
    "rounding hides what other texts do to its last bits (one that flips shows in another release, at up to epsilon "
    "again)"
)
#: What a guarantee assumes where a sentence encoder reads private text by torch: padding a batch changes last bits.
ALONE = f"the sentence encoder reads a sentence as if it were alone in its batch: {HIDDEN}"
#: The same, in the words of auto-encoders.
IN_BATCHES = f"the encoder reads a text as if it were alone in its batch: {HIDDEN}"
#: Of an auto-encoder that ranks; and the same with what is assumed where it reads private text in batches.
PUBLIC_AUTOENCODER = "the auto-encoder that ranks was trained on public text only"
RANKED_IN_BATCHES = f"{PUBLIC_AUTOENCODER}, and reads a text as if it were alone in its batch: {HIDDEN}"
#: Of the network of ER-AE.
IN_BLOCKS = f"the network computes a text as if it were alone in its block: {HIDDEN}"


def read_alone(encoder: str, device: str) -> tuple[str, ...]:
    """What is assumed of an encoder that reads private text: nothing where each text is computed by itself.

    A model of words (glove, distilled) reads each text from its own words, on any device.
    """
    alone = encoder in {"glove", "distilled"} or (device == "cpu" and encoder in {"sentence", *MINILM_NAMES})
    return () if alone else (ALONE,)


class Embedder(Protocol):
    """Turns texts into vectors: a sentence encoder, or a mean of word vectors."""

    @property
    def name(self) -> str:
        """What identifies the embedder in reports, such as "all-MiniLM-L6-v2"."""
        ...

    @property
    def dim(self) -> int:
        """Number of coordinates of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Singles | Floats:
        """Vectors `(n_texts, dim)`."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EmbeddedTexts:
    """Distinct vectors of texts `(n_distinct, dim)`, of norm 1 or 0, and the row of each text; no `repr` of them."""

    rows: dict[str, int]
    vectors: Floats | Singles

    def positions(self, texts: Iterable[str]) -> Integers:
        """The rows of the texts, `(n_texts,)`."""
        return np.array([self.rows[text] for text in texts], np.int64)

    def at(self, texts: Iterable[str]) -> Floats:
        """The vectors of the texts, `(n_texts, dim)`."""
        return np.asarray(self.vectors[self.positions(texts)], np.float64)


def embed_distinct(texts: Iterable[str], embedder: Embedder, *, single: bool = False) -> EmbeddedTexts:
    """Each distinct text as a vector of norm 1, or of norm 0 where the embedder gave zero; it is asked once for all.

    With `single`, the vectors are float32. ConfigError: the embedder gave no finite vectors, or not one for each text.
    """
    rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    vectors = np.asarray(embedder.embed(list(rows)), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(rows) or not np.isfinite(vectors).all():
        raise ConfigError(f"Expected embedder={embedder.name!r} to give one finite vector for each text.")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(norms > 0, norms, 1.0)
    return EmbeddedTexts(rows, vectors.astype(np.float32) if single else vectors)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextVectors:
    """As `embed_distinct`, but a text is embedded when first asked for. It holds texts: not longer than an audit."""

    embedder: Embedder
    _rows: dict[str, Floats] = field(default_factory=dict)

    def at(self, texts: Sequence[str]) -> Floats:
        """The vectors of the texts, `(n_texts, dim)`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            found = embed_distinct(missing, self.embedder).at(missing)
            self._rows.update(zip(missing, found, strict=True))
        return np.stack([self._rows[text] for text in texts]) if texts else np.zeros((0, self.embedder.dim))
