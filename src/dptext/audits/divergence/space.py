"""Where two sets of texts are compared: vectors of public embedders, cut to the main directions of public text.

Nothing here may see the sets. A projection that was fitted on them would turn with what it measures, and the bound that
is certified needs a space that was fixed before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dptext import _validate
from dptext.audits.features import load_sklearn
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Floats

if TYPE_CHECKING:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer


#: Coordinates that are kept, unless another number is asked for.
COMPONENTS: Final = 64
#: Coordinates of the TF-IDF embedder before that.
TFIDF_DIM: Final = 128

_MOST_WORDS: Final = 50_000
_LEAST_TEXTS: Final = 10
_NO_VARIANCE: Final = 1e-10


def apart(public: Iterable[Record], *sets: Sequence[Record]) -> tuple[list[str], int]:
    """Texts of public records that are in none of the sets, and how many were left out because they are.

    Raises:
        ConfigError: fewer than 10 are left, as where the "public" text is that of the sets.
    """
    private = {record.text for records in sets for record in records}
    texts = [record.text for record in public]
    kept = [text for text in texts if text not in private]
    if len(kept) < _LEAST_TEXTS:
        raise ConfigError(
            f"Expected at least {_LEAST_TEXTS} public texts that are in neither set, found {len(kept)} of "
            f"{len(texts)}: the space of the comparison must not be fitted on what is compared. Give other public text."
        )
    return kept, len(texts) - len(kept)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection:
    """Principal components of public vectors.

    Attributes:
        centre: mean of the public vectors, `(dim,)`.
        axes: orthonormal rows `(components, dim)`, by falling variance.
        kept: share of the public variance that the components hold.
    """

    centre: Floats
    axes: Floats
    kept: float

    def __repr__(self) -> str:
        return f"Projection(components={len(self.axes)}, dim={len(self.centre)}, kept={self.kept:.3f})"

    def apply(self, vectors: Floats) -> Floats:
        """Vectors `(n, dim)` in the components, `(n, components)`."""
        return np.asarray((vectors - self.centre) @ self.axes.T, np.float64)


def fit_projection(public: Floats, *, components: int = COMPONENTS) -> Projection:
    """The main directions of public vectors.

    Args:
        public: `(n_texts, dim)`.
        components: how many are kept at most; fewer where the public vectors span fewer.

    Raises:
        ConfigError: vectors that are not finite, too few, or all the same.
    """
    _validate.count(components=components)
    if public.ndim != 2 or len(public) < 2 or not np.isfinite(public).all():
        raise ConfigError(f"Expected at least 2 finite public vectors, found shape {public.shape}.")
    centre = public.mean(axis=0)
    inner = public - centre
    variances, axes = np.linalg.eigh(inner.T @ inner)
    variances, axes = variances[::-1], axes.T[::-1]
    kept = min(components, int((variances > _NO_VARIANCE * max(float(variances[0]), 0.0)).sum()))
    if kept == 0 or variances[0] <= 0:
        raise ConfigError("Expected public texts with different vectors, found them all the same.")
    share = float(variances[:kept].sum() / variances[variances > 0].sum())
    return Projection(centre, np.ascontiguousarray(axes[:kept]), share)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TfidfSvd:
    """TF-IDF of words, cut to its main directions (latent semantic analysis); an `Embedder` fitted on public text.

    Attributes:
        counter: the fitted TF-IDF.
        reducer: the fitted singular value decomposition.
        dim: coordinates.
        digest: sha256 over words, weights and directions.
    """

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
        """Vectors `(n_texts, dim)` of norm 1; 0 where no word is known."""
        if not texts:
            return np.zeros((0, self.dim))
        found = np.asarray(self.reducer.transform(self.counter.transform(texts)), np.float64)
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(norms > 0, norms, 1.0)


def fit_tfidf_svd(public: Sequence[str], *, dim: int = TFIDF_DIM, seed: int = 0) -> TfidfSvd:
    """TF-IDF of the words of public text, reduced by a randomised singular value decomposition.

    Args:
        public: texts, none of them private.
        dim: coordinates; fewer where there are fewer words or texts.
        seed: of the decomposition.

    Raises:
        ConfigError: fewer than 10 texts, or fewer than 3 words in at least two of them.
        MissingExtraError: scikit-learn is absent.
    """
    _validate.count(dim=dim)
    if len(public) < _LEAST_TEXTS:
        raise ConfigError(f"Expected at least {_LEAST_TEXTS} public texts, found {len(public)}.")
    sklearn = load_sklearn()
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 (an extra)

    counter = sklearn.feature_extraction.text.TfidfVectorizer(
        sublinear_tf=True,
        min_df=2,
        max_features=_MOST_WORDS,
        token_pattern=r"(?u)\b\w+\b",  # noqa: S106
    )
    try:
        weights = counter.fit_transform(public)
    except ValueError:  # no word is left; its message may quote settings only, but ours says what to do
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
