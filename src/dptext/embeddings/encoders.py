"""Encoders of texts, loaded by name, and a cache of public texts' vectors for fitting mechanisms to the same texts.

The cache keeps vectors only while `learning` is open, when every embedded text is public, or all that is computed is
for the owner of the private texts alone. It neither keeps nor looks up texts that a fitted mechanism reads later, which
may be private. Only encoders whose vectors are a function of the text alone are cached (`BertTexts`), as a cache
changes which texts share a batch.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self, TypeAlias

import numpy as np

from dptext.embeddings import sentence_encoder
from dptext.embeddings.embedder import MINILM, WEIGHTS_SHA256
from dptext.embeddings.kept_vectors import KeptVectors
from dptext.embeddings.sentence_encoder import BertTexts, Precision, SentenceEncoder
from dptext.embeddings.vector_files import load_glove
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.text.tokens import tokenize
from dptext.types import Floats, Singles

_GRID: Final = 2.0**-10
_TEXTS_AT_ONCE: Final = 256  # whose tokens are looked up together


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordMean:
    """The mean of a text's word vectors, scaled to norm 1: a fast `Embedder` that ignores the order of words.

    >>> toy = WordVectors(("cat", "dog"), np.array([[0.0, 1.0], [1.0, 0.0]], np.float32), name="toy")
    >>> WordMean(toy).embed(["Dog!", "a fish", "cat, cat"]).tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """

    vectors: WordVectors

    def __repr__(self) -> str:
        return f"WordMean({self.vectors.name!r})"

    @property
    def name(self) -> str:
        """The embedder's name in reports, such as "mean of glove-6b-50d:50000"."""
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
        """Unit vectors `(n_texts, dim)` in float64 on a grid of 2^-10; zero if no word is known.

        Each row is computed from its own text alone. `dptext.text.tokens.tokenize` gives the tokens.
        """
        found, done = np.zeros((len(texts), self.dim)), 0
        for begin in range(0, len(texts), _TEXTS_AT_ONCE):
            block = texts[begin : begin + _TEXTS_AT_ONCE]
            tokens = [[token for line in tokenize(text) for token in line] for text in block]
            every, end = self.vectors.index_of([token for each in tokens for token in each]), 0
            for each in tokens:
                rows, end = every[end : end + len(each)], end + len(each)
                total = self.vectors.vectors[rows[rows >= 0]].sum(axis=0, dtype=np.float64)
                found[done] = total / (float(np.linalg.norm(total)) or 1.0)
                done += 1
                if on_progress is not None:
                    on_progress(done)
        return np.rint(found / _GRID) * _GRID


Encoder: TypeAlias = SentenceEncoder | WordMean


def load_encoder(name: str = MINILM, *, device: str = "cpu", precision: Precision = "auto") -> Encoder:
    """Load the encoder of this name. While `PublicVectors.learning` is open, the last encoder is loaded only once.

    "glove" is the mean of 50,000 GloVe vectors, and ignores device and precision. "sentence" is all-MiniLM-L6-v2.
    Errors: see `load_sentence_encoder`.
    """
    if name == "glove":
        return WordMean(load_glove())
    known = MINILM if name == "sentence" else name

    def loaded() -> SentenceEncoder:
        # The function is looked up in its module at each call, so that tests can replace it.
        return sentence_encoder.load_sentence_encoder(known, device=device, precision=precision)

    memory = learning()
    return loaded() if memory is None else memory.encoder(loaded, known, device, precision)


@lru_cache(maxsize=1)
def _opened(name: str) -> Encoder:
    return load_encoder(name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OwnEncoder:
    """An `Embedder` of the user's own, loaded when it reads its first text.

    Attributes:
        where: its folder, or the name of a model that was downloaded before.
        name: its name in reports.
        dim: number of coordinates.
        digest: sha256 of its weights.
    """

    where: str
    name: str
    dim: int
    digest: str

    @classmethod
    def of(cls, where: str) -> Self:
        """Load an encoder. Errors: see `load_sentence_encoder`."""
        _opened.cache_clear()  # the folder may hold another one by now
        found = _opened(where)
        return cls(where, found.name, found.dim, found.digest)

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, as of `SentenceEncoder`. ConfigError: other weights are there, or none."""
        found = _opened(self.where)
        if (found.digest, found.dim) != (self.digest, self.dim):
            raise ConfigError(
                f"Expected the encoder in {self.where} to have weights of sha256 {self.digest[:12]}..., found "
                f"{found.digest[:12]}...: put the encoder there that the public texts were read by."
            )
        return found.embed(texts, on_progress=on_progress)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackagedEncoder:
    """all-MiniLM-L6-v2, an `Embedder` that is loaded when it reads its first text."""

    name: str = MINILM
    dim: int = 384
    digest: str = WEIGHTS_SHA256

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> Floats:
        """Unit vectors `(n_texts, dim)`, as of `SentenceEncoder`. MissingExtraError: its weights are absent."""
        return _opened(MINILM).embed(texts, on_progress=on_progress)


#: Largest number of cached vectors; those of all-MiniLM-L6-v2 take 77 MB.
MOST_VECTORS: Final = 50_000


class PublicVectors:
    """A cache: the encoder that was loaded last, and vectors of public texts by any encoder. Its `repr` shows no text.

    At most `most` vectors are kept. If more would be needed, all are forgotten. `kept` is a file of vectors: they are
    read there, and written there when `learning` ends without an error.
    """

    def __init__(self, most: int = MOST_VECTORS, kept: KeptVectors | None = None) -> None:
        self._most = most
        self._kept = kept
        self._loaded: tuple[tuple[str, str, str], SentenceEncoder] | None = None
        self._known: dict[tuple[str, str, str], Singles] = {}

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Open the cache: within the context every embedded text must be public. New threads do not use the cache.

        A cache that lives only while private texts are judged for their owner may read them, too.
        """
        token = _LEARNING.set(self)
        try:
            yield
        finally:
            _LEARNING.reset(token)
        if self._kept is not None:
            self._kept.write()

    def forget(self) -> None:
        """Forget the vectors. Keep the encoder."""
        self._known.clear()

    def encoder(self, load: Callable[[], SentenceEncoder], name: str, device: str, precision: str) -> SentenceEncoder:
        """The encoder of this name, device and precision. `load` is called if another encoder was loaded last."""
        key = (name, device, precision)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # two encoders at once would need twice the memory
            found = load()
            if isinstance(found.network, BertTexts):
                found = replace(found, network=_Remembering(found.network, self, found.digest, found.precision))
            self._loaded = key, found
        return self._loaded[1]

    def vectors(
        self,
        network: BertTexts,
        texts: Sequence[str],
        *,
        digest: str,
        precision: str,
        on_done: Callable[[int], None] | None = None,
    ) -> Singles:
        """The vectors of at least one public text `(n_texts, dim)`. Vectors that are not cached are computed."""
        keys = [(digest, precision, text) for text in texts]
        fresh = [key for key in dict.fromkeys(keys) if key not in self._known]
        if len(self._known) + len(fresh) > self._most:
            self._known.clear()
            if len(set(keys)) > self._most:
                return network.vectors(texts, on_done=on_done)
            fresh = [*dict.fromkeys(keys)]
        how = {"digest": digest, "precision": precision}
        if fresh and self._kept is not None:
            stored = self._kept.of([text for _, _, text in fresh], network.bert.dim, **how)
            self._known.update({(digest, precision, text): own for text, own in stored.items()})
            fresh = [key for key in fresh if key not in self._known]
        if fresh:
            told = None if on_done is None else lambda done: on_done(len(texts) - len(fresh) + done)
            asked, began = [text for _, _, text in fresh], time.perf_counter()
            found = network.vectors(asked, on_done=told)
            self._known.update(zip(fresh, found, strict=True))
            if self._kept is not None:
                self._kept.computed(asked, found, time.perf_counter() - began, **how)
        elif on_done is not None:
            on_done(len(texts))
        return np.stack([self._known[key] for key in keys])


_LEARNING: Final[ContextVar[PublicVectors | None]] = ContextVar("public vectors", default=None)


def learning() -> PublicVectors | None:
    """The cache whose `learning` is open, or None."""
    return _LEARNING.get()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Remembering:
    """A network that uses the cache while `learning` is open, and computes every vector otherwise."""

    network: BertTexts
    memory: PublicVectors
    digest: str
    precision: str

    def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> Singles:
        """Unit vectors `(n_texts, dim)`; see `Network.vectors`."""
        if learning() is not self.memory:
            return self.network.vectors(texts, on_done=on_done)
        how = {"digest": self.digest, "precision": self.precision}
        return self.memory.vectors(self.network, texts, **how, on_done=on_done)
