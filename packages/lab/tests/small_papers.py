"""The studies of `dptext_lab.papers` in small, and an embedder without weights."""

import hashlib
from collections.abc import Sequence

import numpy as np

from dptext.types import Floats
from dptext_lab.papers import adept, erae, redaction, refutation, sentdp


class HashedWords:
    """Stands in for the sentence encoder, which takes seconds to load."""

    name, dim = "hashed words", 64

    def embed(self, texts: Sequence[str], *, on_progress=None) -> Floats:
        found = np.zeros((len(texts), self.dim))
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                row[hashlib.sha256(word.encode()).digest()[0] % self.dim] += 1
        return found


#: Modules and sizes by the name of the paper.
SMALL = {
    "refutation": (refutation, refutation.RefutationSizes(pairs=300, dims=(2, 16), private=30)),
    "redaction": (
        redaction,
        redaction.RedactionSizes(
            levels=(0.5, 0.9), training=20, attacked=20, public=200, alphas=(1.5, 2.0), components=2, permutations=1,
            resamples=3, confidence=0.5,
        ),
    ),
    "adept": (
        adept,
        adept.AdeptSizes(
            private=60, held=30, public=60, pool=20, trials=50, codebook=30, hidden=8, epochs=1, sound_hidden=8,
            sound_epochs=1, encoder="lstm",
        ),
    ),
    "erae": (
        erae,
        erae.ErAeSizes(
            training=4, attacked=4, authors=3, public=80, tokens=6, words=100, hidden=8, latent=8, embedding=8,
            epochs=1, vectors="glove",
        ),
    ),
    "sentdp": (
        sentdp,
        sentdp.SentDpSizes(private=30, public=40, candidates=40, clusters=3, epochs=1, projections=3, encoder="glove"),
    ),
}  # fmt: skip
