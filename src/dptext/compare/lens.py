"""The embedder behind cosines and attackers: loaded once a process, with a memory for texts that come again."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from dptext.compare.experiment import EMBEDDERS
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.encoders import WordMean, load_encoder
from dptext.embeddings.vector_files import load_vectors
from dptext.types import Floats, Singles

_REMEMBERED: Final = 50_000


class Lens:
    """The embedder "sentence", "glove" or a file of word vectors, loaded when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._embedder: RememberingEmbedder | None = None

    def embedder(self) -> "RememberingEmbedder":
        """The embedder behind cosines and attackers; ConfigError where the word vectors cannot be used."""
        if self._embedder is None:
            known = self._name in EMBEDDERS
            self._embedder = RememberingEmbedder(
                load_encoder(self._name) if known else WordMean(load_vectors(self._name))
            )
        return self._embedder


class RememberingEmbedder:
    """An embedder that embeds a text once, as long as there is room for its vector."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.name, self.dim = inner.name, inner.dim
        self._known: dict[str, Singles] = {}

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)`."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if len(self._known) + len(fresh) > _REMEMBERED:
            self._known.clear()
            fresh = list(dict.fromkeys(texts))
        found = np.asarray(self._inner.embed(fresh), np.float32) if fresh else np.empty((0, self.dim), np.float32)
        self._known.update(zip(fresh, found, strict=True))
        return np.asarray([self._known[text] for text in texts], np.float64).reshape(len(texts), self.dim)
