"""The BiLSTM intent classifier: it learns, repeats under a seed, leaves torch's random state alone."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptext.errors import ConfigError  # noqa: E402
from dptext_lab.classifiers.intent import IntentClassifier, train_intent_classifier  # noqa: E402

ARTISTS = ("abba", "bach", "queen", "miles", "nina", "prince", "björk", "cher", "dylan", "elvis")
PLACES = ("oslo", "rome", "paris", "lima", "quito", "bern", "kyiv", "cairo", "delhi", "tokyo")
MUSIC = [f"please play {name} {end}".strip() for name in ARTISTS for end in ("", "now", "very loud")]
WEATHER = [f"will it rain in {name} {end}".strip() for name in PLACES for end in ("", "today", "at noon")]
TEXTS, LABELS = MUSIC + WEATHER, ["music"] * 30 + ["weather"] * 30


pytestmark = pytest.mark.usefixtures("one_thread")


def trained(seed: int = 1, labels: list[str] = LABELS) -> IntentClassifier:
    return train_intent_classifier(TEXTS, labels, seed=seed, epochs=6, hidden=8, batch_size=8)


@pytest.fixture(scope="module")
def model() -> IntentClassifier:
    return trained()


def test_it_learns_and_generalises(model) -> None:
    assert model.labels == ("music", "weather")
    assert (model.probabilities(TEXTS).argmax(axis=1) == np.repeat([0, 1], 30)).all()
    assert model.probabilities(["Play Mozart", "rain in Helsinki tomorrow?"]).argmax(axis=1).tolist() == [0, 1]


def test_labels_decide_and_not_the_order_of_the_rows(model) -> None:
    swapped = trained(labels=["weather"] * 30 + ["music"] * 30)
    assert swapped.labels == ("music", "weather")
    assert swapped.probabilities(TEXTS[:1]).argmax() == 1


def test_probabilities_are_rows_of_their_own_text(model) -> None:
    asked = ["", "play", "words never seen before", "x" * 500, "a " * 500, *TEXTS]
    scores = model.probabilities(asked)
    assert scores.dtype == np.float64
    assert scores.shape == (65, 2)
    assert scores.sum(axis=1) == pytest.approx(np.ones(65), abs=1e-12)
    assert (scores > 0).all()
    for row in (0, 1, 3, 20):
        assert model.probabilities([asked[row]])[0] == pytest.approx(scores[row], abs=1e-6)
    assert model.probabilities([]).shape == (0, 2)


def test_a_seed_gives_one_model_and_leaves_the_random_state(model) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    again = trained()
    assert torch.equal(torch.rand(3), expected)
    assert (again.probabilities(TEXTS) == model.probabilities(TEXTS)).all()
    assert (trained(seed=2).probabilities(TEXTS) != model.probabilities(TEXTS)).any()


def test_one_label_is_always_sure() -> None:
    model = train_intent_classifier(TEXTS, ["music"] * 60, seed=0)
    assert model.labels == ("music",)
    assert (model.probabilities(["anything", ""]) == 1.0).all()


def test_nothing_is_shown_and_nothing_impossible_is_trained(model) -> None:
    assert "rain" not in repr(model)
    with pytest.raises(ConfigError, match="found 60 and 59"):
        train_intent_classifier(TEXTS, LABELS[1:], seed=0)
    with pytest.raises(ConfigError, match="texts"):
        train_intent_classifier([], [], seed=0)
    with pytest.raises(ConfigError, match="epochs=0"):
        train_intent_classifier(TEXTS, LABELS, seed=0, epochs=0)
