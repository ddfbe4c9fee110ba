"""The protocol of embedders, and what a guarantee assumes where an embedder reads private text."""

from collections.abc import Sequence
from typing import Protocol

from dptext.embeddings.encoder_files import MINILM_NAMES
from dptext.types import Floats, Singles

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
