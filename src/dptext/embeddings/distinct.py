"""Texts as vectors of norm 1, where each distinct text is embedded once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.types import Floats, Integers, Singles


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
    """Vectors of texts as `embed_distinct` gives them, where a text is embedded when it is first asked for.

    It holds the texts, so it must not outlive an audit.
    """

    embedder: Embedder
    _rows: dict[str, Floats] = field(default_factory=dict)

    def at(self, texts: Sequence[str]) -> Floats:
        """The vectors of the texts, `(n_texts, dim)`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            found = embed_distinct(missing, self.embedder).at(missing)
            self._rows.update(zip(missing, found, strict=True))
        return np.stack([self._rows[text] for text in texts]) if texts else np.zeros((0, self.embedder.dim))
