"""TF-IDF of words, and the fitting of scikit-learn's models. Needs scikit-learn, loaded when it is first used."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dptext.errors import needing

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

_WORD: Final = re.compile(r"\b\w+\b")

Model = TypeVar("Model", bound=Any)


def load_sklearn() -> ModuleType:
    """The module sklearn, with its features of text and its linear models; MissingExtraError without scikit-learn."""
    with needing("Learning from texts", "audit"):
        import sklearn.feature_extraction.text  # noqa: PLC0415
        import sklearn.linear_model  # noqa: PLC0415
    module: ModuleType = sklearn
    return module


def has_word(texts: Iterable[str]) -> bool:
    """Whether some text holds a word, so that there is something to count."""
    return any(map(_WORD.search, texts))


def words_tfidf(**settings: Any) -> TfidfVectorizer:
    """TF-IDF of words without regard to case, where a term counts with 1 + ln of how often it occurs.

    A word is any run of letters, digits and underscores, of one character too. Other settings, such as `ngram_range`,
    are those of scikit-learn's `TfidfVectorizer`.
    """
    vectorizer = load_sklearn().feature_extraction.text.TfidfVectorizer
    return vectorizer(token_pattern=_WORD.pattern, sublinear_tf=True, **settings)


def fit_quietly(model: Model, rows: object, classes: object) -> Model:
    """The model, fitted without a warning where the fit has not converged: rough scores are enough."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, classes)
    return model
