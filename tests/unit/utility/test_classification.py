"""Classifiers: against scikit-learn's own scores, constant ones, and labels that were swapped."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from dptext.errors import ConfigError
from dptext.estimates import clopper_pearson
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext.utility.classification import CLASSIFIERS, evaluate, macro_f1, train_named, train_tfidf

TRAIN, TEST = sample_records(150), sample_records(120, seed=9)
TEXTS, LABELS = [r.text for r in TRAIN], [r.label for r in TRAIN]


class Fixed:
    """Gives each text the label at its place."""

    def __init__(self, labels, given):
        self.labels = labels
        self.given = given

    def probabilities(self, texts):
        return np.array([[label == name for name in self.labels] for label in self.given], np.float64)


def test_it_learns():
    classifier = train_tfidf(TEXTS, LABELS)
    assert classifier.labels == ("health", "leisure", "money", "travel")
    found = classifier.probabilities([r.text for r in TEST])
    assert found.shape == (120, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    result = evaluate(classifier, TEST)
    assert result.accuracy.low > 0.9
    assert result.texts == 120
    assert classifier.probabilities([]).shape == (0, 4)


def test_labels_that_are_numbers_are_those_of_records():
    """A frame has stars as integers, and a record has each label as a text."""
    names = sorted(set(LABELS))
    stars = [1 + names.index(label) for label in LABELS]
    test = [{"text": r.text, "label": 1 + names.index(r.label)} for r in TEST]
    classifier = train_tfidf(TEXTS, stars)
    assert classifier.labels == ("1", "2", "3", "4")
    assert train_tfidf(TEXTS, np.array(stars, np.float64)).labels == classifier.labels
    assert evaluate(classifier, as_records(test, label="label")).accuracy.low > 0.9


def test_swapped_labels_are_seen():
    names = dict(zip(["health", "leisure", "money", "travel"], ["leisure", "money", "travel", "health"], strict=True))
    assert evaluate(train_tfidf(TEXTS, [names[label] for label in LABELS]), TEST).accuracy.high < 0.1


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    truth, given = rng.choice(names[:3], 80).tolist(), rng.choice(names[1:], 80).tolist()
    test = [Record(str(i), "x", label=label) for i, label in enumerate(truth)]
    found = evaluate(Fixed(tuple(names), given), test)
    assert found.accuracy == clopper_pearson(sum(a == b for a, b in zip(truth, given, strict=True)), 80)
    assert found.accuracy.value == pytest.approx(accuracy_score(truth, given))
    assert found.macro_f1.value == pytest.approx(f1_score(truth, given, average="macro"))
    assert found.macro_f1.low < found.macro_f1.value < found.macro_f1.high


def test_macro_f1_by_hand():
    # label 0: TP 1, FP 1, FN 1; label 1: TP 0, FN 1, FP 1; label 2 does not occur
    assert macro_f1(np.array([0, 0, 1]), np.array([0, 1, 0]), 3) == pytest.approx((0.5 + 0) / 2)
    assert macro_f1(np.array([0, 1]), np.array([2, 2]), 2) == 0  # 2 stands for no label


@pytest.mark.parametrize(
    ("texts", "labels", "right"),
    [([], [], 0), (["a b", "c"], ["money", "money"], sum(r.label == "money" for r in TEST))],
)
def test_a_single_label_or_none_gives_a_constant_classifier(texts, labels, right):
    classifier = train_tfidf(texts, labels)
    assert classifier.labels == tuple(labels[:1])
    assert classifier.probabilities(["x", "y"]).shape == (2, len(labels[:1]))
    assert (classifier.probabilities(["x"]) == 1).all()
    assert evaluate(classifier, TEST).accuracy.value == right / 120


def test_texts_without_words_leave_the_shares():
    classifier = train_tfidf(["", "!", "?"], ["b", "a", "b"])
    np.testing.assert_allclose(classifier.probabilities(["x", "y"]), [[1 / 3, 2 / 3]] * 2)


def test_one_text_a_label_and_unknown_words():
    classifier = train_tfidf(["red", "green"], ["r", "g"])
    assert classifier.probabilities(["red"])[0].argmax() == 1
    np.testing.assert_allclose(classifier.probabilities(["blue"]), [[0.5, 0.5]], atol=1e-6)


def test_labels_that_training_never_saw():
    test = [Record("0", "x", "seen"), Record("1", "x", "never")]
    found = evaluate(Fixed(("seen", "other"), ["seen", "other"]), test)
    assert found.accuracy.value == 0.5
    assert found.macro_f1.value == pytest.approx(1 / 3)
    assert found.to_dict()["texts"] == 2
    with pytest.raises(ConfigError, match="with labels"):
        evaluate(Fixed(("seen",), []), [Record("0", "x")])


def test_records_without_a_label_are_left_out():
    test = [*TEST, Record("z", "x")]
    assert evaluate(train_tfidf(TEXTS, LABELS), test) == evaluate(train_tfidf(TEXTS, LABELS), TEST)


def test_trainers_by_name(monkeypatch):
    assert train_named("tfidf") is train_tfidf
    fake = SimpleNamespace(train_intent_classifier=lambda texts, labels, *, seed: seed)
    monkeypatch.setitem(sys.modules, "dptext_lab.classifiers.intent", fake)
    monkeypatch.setattr(CLASSIFIERS, "loaded", {})
    assert train_named("bilstm")(["a"], ["b"], seed=3) == 3
    with pytest.raises(ConfigError, match="the classifier 'svm' to be one of tfidf, bilstm"):
        train_named("svm")


def test_faults_at_the_door():
    with pytest.raises(ConfigError, match="one label"):
        train_tfidf(["a", "b"], ["x"])
