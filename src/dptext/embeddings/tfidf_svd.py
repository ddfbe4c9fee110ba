"""Latent semantic analysis of public text: an embedder that needs no sentence encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dptext import _validate
from dptext.embeddings.tfidf import words_tfidf
from dptext.errors import ConfigError
from dptext.types import Floats

if TYPE_CHECKING:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

#: Coordinates, unless another number is asked for.
TFIDF_DIM: Final = 128

_LEAST_TEXTS: Final = 10
_MOST_WORDS: Final = 50_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TfidfSvd:
    """TF-IDF of words, cut to its main directions: an `Embedder` that was fitted on public text."""

    counter: TfidfVectorizer
    reducer: TruncatedSVD
    dim: int
    digest: str

    def __repr__(self) -> str:
        return f"TfidfSvd(dim={self.dim}, digest={self.digest[:12]})"

    @property
    def name(self) -> str:
        """What identifies it in reports."""
        return f"tfidf-svd:{self.dim}:{self.digest[:12]}"

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)` of norm 1, or of norm 0 where no word is known."""
        if not texts:
            return np.zeros((0, self.dim))
        found = np.asarray(self.reducer.transform(self.counter.transform(texts)), np.float64)
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(norms > 0, norms, 1.0)


def fit_tfidf_svd(public: Sequence[str], *, dim: int = TFIDF_DIM, seed: int = 0) -> TfidfSvd:
    """TF-IDF of the words of public text, cut by a randomised singular value decomposition to `dim` at most.

    ConfigError where there are fewer than 10 texts, or fewer than 3 words in at least two of them.
    """
    _validate.count(dim=dim)
    if len(public) < _LEAST_TEXTS:
        raise ConfigError(f"Expected at least {_LEAST_TEXTS} public texts, found {len(public)}.")
    counter = words_tfidf(min_df=2, max_features=_MOST_WORDS)
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 (an extra)

    try:
        weights = counter.fit_transform(public)
    except ValueError:  # no word is left; our message says what to do
        weights = None
    if weights is None or weights.shape[1] < 3:
        raise ConfigError("Expected public texts that share at least 3 words. Give more public text.")
    size = min(dim, weights.shape[1] - 1, weights.shape[0] - 1)
    reducer = TruncatedSVD(size, random_state=seed)
    reducer.fit(weights)
    digest = hashlib.sha256("\n".join(counter.get_feature_names_out()).encode("utf-8", "surrogatepass"))
    digest.update(np.round(counter.idf_, 9).tobytes())
    digest.update(np.round(reducer.components_, 6).tobytes())
    return TfidfSvd(counter, reducer, size, digest.hexdigest())
