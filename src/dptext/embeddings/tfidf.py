"""TF-IDF of words, and the fitting of scikit-learn's models. scikit-learn is loaded at first use."""

import functools
import hashlib
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from dptext import _validate
from dptext.embeddings.known_words import KnownWords
from dptext.errors import ConfigError
from dptext.text.tokens import composed, mark_class
from dptext.types import Floats

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

#: Default number of coordinates.
TFIDF_DIM: Final = 128
_LEAST_TEXTS: Final = 10
_MOST_WORDS: Final = 50_000
_TEXTS_AT_ONCE: Final = 4096  # bounds memory, which grows with the running words
Model = TypeVar("Model", bound=Any)


def load_sklearn() -> ModuleType:
    """Load sklearn with its text features and linear models."""
    import sklearn.feature_extraction.text  # noqa: PLC0415 (slow to load)
    import sklearn.linear_model  # noqa: PLC0415

    module: ModuleType = sklearn
    return module


_ASCII_WORD: Final = re.compile("[a-zA-Z0-9_]+")


@functools.cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"\w+(?:[{mark_class()}]+\w*)*")


def _words(text: str) -> list[str]:
    """Return the words of a text: runs of letters, digits and underscores with their marks."""
    return (_ASCII_WORD if text.isascii() else _word()).findall(text)


def has_word(texts: Iterable[str], *, but: Collection[str] = ()) -> bool:
    """Tell whether some text has a word to count: any word that is not in `but`, which is in lower case."""
    return any(word not in but for text in texts for word in _words(composed(text.lower())))


def words_tfidf(**settings: Any) -> "TfidfVectorizer":
    """TF-IDF of words, without regard to case. A term that occurs n times in a text counts 1 + ln(n).

    A word is any run of letters, digits and underscores with their marks, in NFC. `TfidfVectorizer` defines the
    settings, such as `ngram_range`.
    """
    vectorizer = load_sklearn().feature_extraction.text.TfidfVectorizer
    return vectorizer(tokenizer=_words, token_pattern=None, strip_accents=composed, sublinear_tf=True, **settings)


def words_counter(**settings: Any) -> "CountVectorizer":
    """Numbers of words, by which `words_tfidf` weighs them."""
    vectorizer = load_sklearn().feature_extraction.text.CountVectorizer
    return vectorizer(tokenizer=_words, token_pattern=None, strip_accents=composed, dtype=np.float64, **settings)


def fit_quietly(model: Model, rows: object, classes: object) -> Model:
    """Fit the model and return it. No warning is given if the fit does not converge, as rough scores are enough."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, classes)
    return model


@dataclass(frozen=True, eq=False, repr=False)
class TfidfSvd:
    """An `Embedder` that was fitted on public text: TF-IDF of words, reduced to its main directions.

    Attributes:
        words: the words that are known, in the order of the columns.
        rarity: inverse document frequencies of the words, `(n_words,)`.
        components: main directions, `(dim, n_words)`.
    """

    words: tuple[str, ...]
    rarity: Floats
    components: Floats

    def __repr__(self) -> str:
        return f"TfidfSvd(dim={self.dim}, digest={self.digest[:12]})"

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.components)

    @functools.cached_property
    def digest(self) -> str:
        """sha256 of words, frequencies and directions."""
        found = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        found.update(np.round(self.rarity, 9).tobytes())
        found.update(np.round(self.components, 6).tobytes())
        return found.hexdigest()

    @property
    def name(self) -> str:
        """The embedder's name in reports."""
        return f"tfidf-svd:{self.dim}:{self.digest[:12]}"

    def rounded(self) -> "TfidfSvd":
        """Return the embedder with main directions that float16 holds, in which they are stored."""
        return TfidfSvd(self.words, self.rarity, self.components.astype(np.float16).astype(np.float64))

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)` of norm 1, or of norm 0 if no word is known."""
        found = np.empty((len(texts), self.dim))
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            part = slice(start, start + _TEXTS_AT_ONCE)
            found[part] = self._embedded(texts[part])
        return found

    def _embedded(self, texts: Sequence[str]) -> Floats:
        """The vectors as scikit-learn's `TfidfTransformer` and `TruncatedSVD` compute them, in fewer steps."""
        from scipy.sparse import csr_array  # noqa: PLC0415 (slow to load)

        rows, columns, times = self._known.counted(texts)
        weights = (np.log(times.astype(np.float64)) + 1.0) * self.rarity[columns]
        squared = np.asarray(np.bincount(rows, np.square(weights), len(texts)), np.float64)
        weights = weights / _lengths(squared)[rows]
        starts = np.searchsorted(rows, np.arange(len(texts) + 1))
        found = csr_array((weights, columns, starts), (len(texts), len(self.words))) @ self._directions
        found /= _lengths(np.square(found).sum(axis=1))[:, None]
        return np.asarray(found, np.float64)

    @functools.cached_property
    def _known(self) -> KnownWords:
        return KnownWords(self.words, lambda text: _words(composed(text.lower())), search="runs", most=sys.maxsize)

    @functools.cached_property
    def _directions(self) -> Floats:
        return np.ascontiguousarray(self.components.T)  # once: scipy would make it at each product

    def __reduce__(self) -> Any:
        return type(self), (self.words, self.rarity, self.components)  # what follows from them is made anew


def _lengths(squared: Floats) -> Floats:
    """Return the roots; 1 for 0."""
    return np.where(squared > 0, np.sqrt(squared), 1.0)


def fit_tfidf_svd(public: Sequence[str], *, dim: int = TFIDF_DIM, seed: int = 0) -> TfidfSvd:
    """Fit TF-IDF on public texts, reduced by a randomised singular value decomposition to at most `dim` coordinates.

    ConfigError: fewer than 10 texts, fewer than 3 words that two texts share, or the same words in each text.
    """
    _validate.count(dim=dim)
    if len(public) < _LEAST_TEXTS:
        raise ConfigError(f"Expected at least {_LEAST_TEXTS} public texts, found {len(public)}.")
    counter = words_tfidf(min_df=2, max_features=_MOST_WORDS)
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 (slow to load)

    try:
        weights = counter.fit_transform(public)
    except ValueError:  # no word is left; the message below says what to do
        weights = None
    if weights is None or weights.shape[1] < 3:
        raise ConfigError("Expected public texts that share at least 3 words. Give more public text.")
    if not (weights.max(axis=0) - weights.min(axis=0)).max() > 0:
        raise ConfigError("Expected public texts that differ in their words, found the same ones in each. Give others.")
    size = min(dim, weights.shape[1] - 1, weights.shape[0] - 1)
    reducer = TruncatedSVD(size, random_state=seed)
    reducer.fit(weights)
    words = tuple(map(str, counter.get_feature_names_out()))
    return TfidfSvd(words, np.asarray(counter.idf_, np.float64), np.asarray(reducer.components_, np.float64))
