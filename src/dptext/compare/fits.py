"""Fits that cells share: a training that does not read epsilon is made once, and public texts are embedded once.

A fit follows from its records, its seed and the settings that it reads. `fit_key` is made of these, so that cells of
one key get the same mechanism whether they share a training or not. Whatever is kept was made from public text: a cell
that trains on private text is fitted for itself, and nothing of it stays.
"""

import json
from collections.abc import Callable
from typing import Final

from dptext.compare.cells import Cell
from dptext.compare.corpora import Corpus
from dptext.embeddings.public_vectors import PublicVectors
from dptext.mechanism import Learns, Mechanism, Refits, Spec, training_settings
from dptext.runs.specs import is_synthesis, spec_from_settings
from dptext.text.records import Record

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
            return _fitted_to_private(spec, corpus, seed)
        with self.vectors.learning():
            if before is not None and isinstance(spec, Refits):
                return spec.refit(before, public=_public(corpus), seed=seed)
            found = spec.fit(public=_public(corpus), seed=seed)
        if key:
            self._key, self._last = key, found
        return found


def _public(corpus: Corpus) -> tuple[Record, ...]:
    return corpus.public[SAMPLES:] if len(corpus.public) >= HELD_OUT_FROM else corpus.public


def _fitted_to_private(spec: Spec, corpus: Corpus, seed: int) -> Mechanism[str]:
    fit: Callable[..., Mechanism[str]] = spec.fit
    # The published system learns from the very texts that it rewrites, and from no others.
    if spec.traits.learns is Learns.EITHER:
        return fit(private=corpus.private, seed=seed)
    return fit(public=_public(corpus), private=corpus.private, seed=seed)
