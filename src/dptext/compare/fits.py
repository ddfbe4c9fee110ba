"""Fits that cells share: a training that does not read epsilon is made once, and public texts are embedded once.

A fit follows from its records, its seed and the settings that it reads. `fit_key` is made of these, so that cells of
one key get the same mechanism whether they share a training or not. Whatever is kept was made from public text: a cell
that trains on private text is fitted for itself, and nothing of it stays. `Lens` keeps the embedder of the measures.
"""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from dptext.compare.cells import Cell
from dptext.compare.corpora import Corpus
from dptext.compare.experiment import EMBEDDERS
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.encoders import WordMean, load_encoder
from dptext.embeddings.public_vectors import PublicVectors
from dptext.embeddings.vector_files import load_vectors
from dptext.mechanism import Learns, Mechanism, Refits, Spec, training_settings
from dptext.runs.specs import is_synthesis, spec_from_settings
from dptext.text.records import Record
from dptext.types import Floats, Singles

#: Samples of a cell are made of so many public records.
SAMPLES: Final = 4
#: With so many public records, mechanisms are fitted without those that samples are made of. A mechanism that answers
#: with public texts would otherwise answer with the very text.
HELD_OUT_FROM: Final = 100


def fit_key(cell: Cell) -> str:
    """What the training of a cell reads: corpus, trial and settings. Empty where no other cell can take it over."""
    if not cell.kind or cell.fault or is_synthesis(cell.settings) or cell.trains_on != "public":
        return ""
    spec = spec_from_settings(cell.settings)
    if not spec.traits.refits or not isinstance(spec, Refits):
        return ""
    return json.dumps([cell.corpus, cell.trial, training_settings(spec)], sort_keys=True)


class SharedFits:
    """The last fit that another cell can take over, and the vectors of public texts: what one process keeps."""

    def __init__(self) -> None:
        self.vectors = PublicVectors()
        self._key = ""
        self._last: Mechanism[str] | None = None

    def forget(self) -> None:
        """Forget everything of a corpus."""
        self._key, self._last = "", None
        self.vectors.forget()

    def fitted(self, cell: Cell, spec: Spec, corpus: Corpus, *, seed: int) -> Mechanism[str]:
        """The mechanism of a cell and its spec, just as a fit of its own would make it; ConfigError as its `fit`."""
        key = fit_key(cell)
        before = self._last if key == self._key else None
        if before is None:
            self._key, self._last = "", None  # two networks at once would need twice the memory
        if cell.trains_on != "public":
            fit: Callable[..., Mechanism[str]] = spec.fit
            # The published system learns from the very texts that it rewrites, and from no others.
            others = {} if spec.traits.learns is Learns.EITHER else {"public": _public(corpus)}
            return fit(private=corpus.private, seed=seed, **others)
        with self.vectors.learning():
            if before is not None and isinstance(spec, Refits):
                return spec.refit(before, public=_public(corpus), seed=seed)
            found = spec.fit(public=_public(corpus), seed=seed)
        if key:
            self._key, self._last = key, found
        return found


def _public(corpus: Corpus) -> tuple[Record, ...]:
    return corpus.public[SAMPLES:] if len(corpus.public) >= HELD_OUT_FROM else corpus.public


_REMEMBERED: Final = 50_000


class Lens:
    """The embedder "sentence", "glove" or a file of word vectors, loaded when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def embedder(self) -> "RememberingEmbedder":
        """The embedder behind cosines and attackers; ConfigError where the word vectors cannot be used."""
        known = self._name in EMBEDDERS
        return RememberingEmbedder(load_encoder(self._name) if known else WordMean(load_vectors(self._name)))


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
