"""The sentence encoder of the commands: the one place that loads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dptext.cli.progress import counted
from dptext.embeddings import sentence_encoder
from dptext.embeddings.sentence_encoder import SentenceEncoder
from dptext.types import Floats


@dataclass(frozen=True, slots=True)
class WatchedEncoder:
    """A sentence encoder that shows how far it is; an `Embedder`."""

    encoder: SentenceEncoder

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.encoder.name

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.encoder.dim

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors `(n_texts, dim)`."""
        total = len(set(texts))
        with counted("embedding", "texts") as tell:
            return self.encoder.embed(texts, on_progress=lambda done: tell(done, total))


def load_encoder(folder: str | None = None) -> WatchedEncoder:
    """The encoder of a folder, or the one that dptext brings.

    Raises:
        ConfigError: the folder holds no encoder.
        MissingExtraError: a package is not installed.
    """
    load = sentence_encoder.load_sentence_encoder
    return WatchedEncoder(load() if folder is None else load(folder))
