"""The encoder of the commands: the one place that loads it, and shows how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from dptext.cli.progress import counted
from dptext.embeddings import encoders
from dptext.types import Floats


@dataclass(frozen=True, slots=True)
class WatchedEncoder:
    """An encoder that shows how far it is; an `Embedder`."""

    encoder: encoders.Encoder
    name: str
    dim: int

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors `(n_texts, dim)`."""
        total = len(set(texts))
        with counted("embedding", "texts") as tell:
            return self.encoder.embed(texts, on_progress=lambda done: tell(done, total))


def load_encoder(name: str = "sentence") -> WatchedEncoder:
    """The encoder of this name; see `dptext.embeddings.encoders.load_encoder`."""
    found = encoders.load_encoder(name)
    return WatchedEncoder(found, found.name, found.dim)
