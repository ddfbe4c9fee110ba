"""Vectors of public texts, kept while several mechanisms are fitted to the same texts.

A memory keeps vectors only while `learning` is open, and then everything that is embedded is public. It neither keeps
nor looks up what a fitted mechanism reads later, which may be private.

Only encoders whose vectors are a function of the text alone are remembered (`BertTexts`). Others may change in the last
bits with the company of a text, and a memory would change the company.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dptext.embeddings.sentence_encoder import BertTexts, SentenceEncoder
from dptext.types import Singles

#: Vectors that are kept at most; of all-MiniLM-L6-v2 they take 77 MB.
MOST_VECTORS: Final = 50_000


class PublicVectors:
    """The encoder that was loaded last, and vectors of public texts by any encoder. Its `repr` shows nothing.

    At most `most` vectors are kept: where there is no room, all are forgotten.
    """

    def __init__(self, most: int = MOST_VECTORS) -> None:
        self._most = most
        self._loaded: tuple[tuple[str, str, str], SentenceEncoder] | None = None
        self._known: dict[tuple[str, str, str], Singles] = {}

    @contextmanager
    def learning(self) -> Iterator[None]:
        """While this is open, whatever is embedded must be public. Threads that are started meanwhile keep nothing."""
        token = _LEARNING.set(self)
        try:
            yield
        finally:
            _LEARNING.reset(token)

    def forget(self) -> None:
        """Forget the vectors. The encoder is kept."""
        self._known.clear()

    def encoder(
        self, load: Callable[[], SentenceEncoder], *, name: str, device: str, precision: str
    ) -> SentenceEncoder:
        """The encoder that `load` gives. It is called where another one was loaded last."""
        key = (name, device, precision)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # two at once would need twice the memory
            found = load()
            if isinstance(found.network, BertTexts):
                found = replace(found, network=_Remembering(found.network, self, found.digest, found.precision))
            self._loaded = key, found
        return self._loaded[1]

    def vectors(self, network: BertTexts, texts: Sequence[str], *, digest: str, precision: str) -> Singles:
        """The vectors of at least one public text `(n_texts, dim)`; those that are not known are computed."""
        keys = [(digest, precision, text) for text in texts]
        fresh = [key for key in dict.fromkeys(keys) if key not in self._known]
        if len(self._known) + len(fresh) > self._most:
            self._known.clear()
            if len(set(keys)) > self._most:
                return network.vectors(texts)
            fresh = [*dict.fromkeys(keys)]
        if fresh:
            self._known.update(zip(fresh, network.vectors([text for _, _, text in fresh]), strict=True))
        return np.stack([self._known[key] for key in keys])


_LEARNING: Final[ContextVar[PublicVectors | None]] = ContextVar("public vectors", default=None)


def learning() -> PublicVectors | None:
    """The memory whose `learning` is open; None where there is none."""
    return _LEARNING.get()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Remembering:
    """A network that asks the memory while that learns, and computes everything at all other times."""

    network: BertTexts
    memory: PublicVectors
    digest: str
    precision: str

    def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> Singles:
        """As `Network.vectors`."""
        if learning() is not self.memory:
            return self.network.vectors(texts, on_done=on_done)
        found = self.memory.vectors(self.network, texts, digest=self.digest, precision=self.precision)
        if on_done is not None:
            on_done(len(texts))
        return found
