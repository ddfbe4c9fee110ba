"""Words and pairs of words of texts, counted once for many classifiers, and a logistic regression on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from dptext.embeddings.tfidf import fit_quietly, load_sklearn, words_counter
from dptext.types import Floats, Integers

MOST_FEATURES: Final = 200_000
_PENALTY: Final = 10.0  # its inverse strength, as in scikit-learn
_MOST_STEPS: Final = 300

Matrix = Any  # a sparse matrix of scipy, which has no types


class CountedTerms:
    """Numbers of the words, and pairs of words, of some texts. Each text is counted once."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the texts. ValueError: none of them has a word."""
        self._places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        self._counter = words_counter(ngram_range=(1, 2))
        self._counts: Matrix = self._counter.fit_transform(list(self._places))

    def __repr__(self) -> str:
        return f"CountedTerms({len(self._places)} texts)"

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Return numbers of terms, `(n_texts, terms)`. Other texts are counted now, by the terms of these."""
        if all(text in self._places for text in texts):
            return self._counts[[self._places[text] for text in texts]]
        return self._counter.transform(texts)


class TermsModel:
    """Logistic regression on TF-IDF of the terms of some texts; their `codes` `(n_texts,)` are their classes."""

    def __init__(self, terms: CountedTerms, texts: Sequence[str], codes: Integers, seed: int) -> None:
        counts = terms.rows(texts)
        often = np.asarray(counts.sum(axis=0)).ravel()
        known = np.flatnonzero(often)
        if len(known) > MOST_FEATURES:  # the most frequent, as TfidfVectorizer takes them
            known = np.sort(known[(-often[known]).argsort()[:MOST_FEATURES]])
        sklearn = load_sklearn()
        self._terms, self._known = terms, known
        self._weigh = sklearn.feature_extraction.text.TfidfTransformer(sublinear_tf=True)
        rows = self._weigh.fit_transform(counts[:, known])
        model = sklearn.linear_model.LogisticRegression(C=_PENALTY, max_iter=_MOST_STEPS, random_state=seed)
        fewer, parts = joined(rows)
        self._model: Any = fit_quietly(model, fewer, codes)
        self._model.coef_ = parts(self._model.coef_)
        self._model.n_features_in_ = rows.shape[1]

    def __repr__(self) -> str:
        return f"TermsModel({len(self._known)} terms)"

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Return probabilities `(n_texts, classes)`."""
        rows = self._weigh.transform(self._terms.rows(texts)[:, self._known])
        return np.asarray(self._model.predict_proba(rows), np.float64)


def joined(rows: Matrix) -> tuple[Matrix, Any]:
    """Join the terms of one text alone to one term a text, as a penalised model gives them weights in one direction.

    Most terms are of one text, and a step of the fit takes time in proportion to their number. Returned are the rows
    `(n, terms left + n)` and a function from weights `(k, terms left + n)` to weights of the terms, `(k, terms)`. The
    rotation of the terms of a text to their common direction changes neither products nor the penalty.
    """
    from scipy import sparse  # noqa: PLC0415 (slow to load)

    n, terms = rows.shape
    alone = np.bincount(rows.indices, minlength=terms) == 1
    owner, own = np.repeat(np.arange(n), np.diff(rows.indptr)), alone[rows.indices]
    where, whose, what = rows.indices[own], owner[own], rows.data[own]
    lengths = np.sqrt(np.bincount(whose, what**2, n))

    def parts(weights: Floats) -> Floats:
        found = np.empty((len(weights), terms))
        found[:, ~alone] = weights[:, : terms - len(where)]
        found[:, where] = weights[:, terms - len(where) + whose] * (what / lengths[whose])
        return found

    return sparse.hstack([rows[:, ~alone], sparse.diags(lengths)], format="csr"), parts
