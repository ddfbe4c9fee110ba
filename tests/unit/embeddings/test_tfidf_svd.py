"""TF-IDF vectors: those of scikit-learn, and of norm 1 or 0."""

import copy
import platform
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from sklearn.decomposition import TruncatedSVD

import dptext as dp
from dptext.embeddings.tfidf import TfidfSvd, fit_tfidf_svd, words_tfidf
from dptext.types import Floats

SAMPLE = [each.text for each in dp.sample_records(200, seed=1)]
FITTED = fit_tfidf_svd([*SAMPLE, "Über das Café", "das café in Über"], dim=8)
WORDS = st.sampled_from([*FITTED.words[:40], "über", "café", "cafe\u0301", "THE", "unseen", "ⅷ", "x", "\u0301", "-"])
TEXTS = st.lists(st.lists(WORDS, max_size=30).map(" ".join), min_size=1, max_size=6)


def by_sklearn(fitted: TfidfSvd, texts: Sequence[str]) -> Floats:
    """The same vectors by the models of scikit-learn."""
    counter = words_tfidf(vocabulary={word: i for i, word in enumerate(fitted.words)})
    counter.idf_ = fitted.rarity
    reducer = TruncatedSVD(fitted.dim)
    reducer.components_ = fitted.components
    found = np.asarray(reducer.transform(counter.transform(texts)), np.float64)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(norms > 0, norms, 1.0))


def require_same(found: Floats, wanted: Floats) -> None:
    """Compare bits where scikit-learn's loops multiply and add in two steps; ARM processors do so in one."""
    if platform.machine() in ("x86_64", "AMD64"):
        assert found.tobytes() == wanted.tobytes()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


@given(TEXTS)
def test_vectors_are_those_of_scikit_learn(texts: list[str]) -> None:
    for fitted in (FITTED, FITTED.rounded()):
        require_same(fitted.embed(texts), by_sklearn(fitted, texts))


def test_long_and_many_texts_have_the_same_vectors() -> None:
    texts = [*SAMPLE, " ".join(SAMPLE), "", *(each.text for each in dp.sample_records(5_000, seed=2))]
    found = FITTED.embed(texts)
    require_same(found, by_sklearn(FITTED, texts))
    assert FITTED.embed([]).shape == (0, 8)
    other = copy.copy(FITTED)  # as it is sent to a worker: without what follows from words and directions
    assert not {"_places", "_directions"} & vars(other).keys()
    assert other.embed(texts[:9]).tobytes() == found[:9].tobytes()
    lengths = np.linalg.norm(found, axis=1)
    assert lengths[201] == 0
    np.testing.assert_allclose(np.delete(lengths, 201), 1)


def test_a_word_without_weight_gives_no_vector() -> None:
    fitted = TfidfSvd(("a", "b", "c"), np.array([0.0, 0.0, 1.0]), np.eye(2, 3))
    assert fitted.embed(["a b", "a", ""]).tolist() == [[0.0, 0.0]] * 3
