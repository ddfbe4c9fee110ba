"""Terms that are counted once, and a fit in which the terms of one text are one."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from dptext.embeddings.tfidf import fit_quietly, words_tfidf
from dptext.text.samples import sample_records
from dptext.utility import terms as module
from dptext.utility.classification import train_tfidf
from dptext.utility.terms import CountedTerms, TermsModel

RECORDS = sample_records(400, seed=5)
TEXTS = [f"{record.text} only{i} once{i % 3}" for i, record in enumerate(RECORDS)]
LABELS = [str(record.label) for record in RECORDS]
OTHERS = [record.text for record in sample_records(50, seed=6)]


def plainly(texts: list[str], labels: list[str], others: list[str], most: int = 200_000) -> np.ndarray:
    """What scikit-learn answers with no term joined and each text counted again."""
    counter = words_tfidf(ngram_range=(1, 2), max_features=most)
    model = fit_quietly(LogisticRegression(C=10.0, max_iter=300), counter.fit_transform(texts), labels)
    return np.asarray(model.predict_proba(counter.transform(others)))


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("most", [150, 200_000])
def test_answers_are_those_of_scikit_learn(labels: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that were trained on, others, and one without a known word."""
    monkeypatch.setattr(module, "MOST_FEATURES", most)
    known = sorted({*LABELS})[:labels]
    texts = [text for text, label in zip(TEXTS, LABELS, strict=True) if label in known]
    given = [label for label in LABELS if label in known]
    asked = [*texts[:20], *OTHERS, "zqx", ""]
    expected = plainly(texts, given, asked, most)
    for terms in (None, CountedTerms([*OTHERS, *TEXTS, "zqx"])):
        found = train_tfidf(texts, given, terms=terms).probabilities(asked)
        assert np.abs(found - expected).max() < 1e-8


def test_weights_on_the_terms_of_one_text_follow_its_numbers() -> None:
    """A rotation by other numbers is seen: answers to the texts themselves differ."""
    right = plainly(TEXTS[:60], LABELS[:60], TEXTS[:60])
    codes = np.array([sorted({*LABELS}).index(label) for label in LABELS[:60]])
    model = TermsModel(CountedTerms(TEXTS), TEXTS[:60], codes, 0)
    assert np.abs(model.probabilities(TEXTS[:60]) - right).max() < 1e-8
    rows = scipy.sparse.csr_matrix(np.array([[1.0, 2.0, 0.0, 2.0], [0.0, 3.0, 4.0, 0.0]]))
    joined, parts = module.joined(rows)
    weights = np.arange(1.0, 7.0).reshape(2, 3)
    assert np.allclose(joined @ weights.T, rows @ parts(weights).T)
    assert joined.toarray().tolist() == [[2.0, np.sqrt(5), 0.0], [3.0, 0.0, 4.0]]


def test_no_text_is_shown() -> None:
    terms = CountedTerms(TEXTS)
    model = TermsModel(terms, TEXTS, np.arange(len(TEXTS)) % 2, 0)
    assert "only1" not in repr(terms) + repr(model)
    with pytest.raises(ValueError, match="vocabulary"):
        CountedTerms(["", "?!"])
