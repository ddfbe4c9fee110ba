"""Randomized response on labels: its probabilities, those of a missing label, and a sampler of another epsilon."""

import math

import numpy as np
import pytest

from dptext.audits.trials.density import SIGNIFICANT, distribution_p_value
from dptext.errors import ConfigError
from dptext.privacy.events import TopKEvent
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.top_k import LabelResponse, TopKRandomizedResponse

LABELS = ("health", "travel", "money", "leisure")


@pytest.mark.parametrize("epsilon", [0.05, 2.0, 12.0])
def test_no_pair_of_labels_is_told_apart_by_more_than_epsilon(epsilon):
    response = LabelResponse(epsilon, LABELS)
    table = np.log([response.distribution(label) for label in (*LABELS, None, "", "unheard of")])
    assert np.exp(table).sum(axis=1) == pytest.approx(1)
    assert table[0, 0] - table[0, 1] == pytest.approx(epsilon, rel=1e-9)
    assert (table.max(axis=0) - table.min(axis=0)).max() <= epsilon
    assert np.exp(table[4:]) == pytest.approx(0.25)
    assert response.event == TopKEvent(epsilon, 1, 4)


@pytest.mark.parametrize("label", ["money", None])
def test_frequencies(label):
    response = LabelResponse(1.5, LABELS)
    declared = dict(zip(LABELS, response.distribution(label).tolist(), strict=True))
    drawn = [LABELS[i] for i in response.choose([label] * 5000, secure()).tolist()]
    assert distribution_p_value(declared, drawn) > 1e-5
    for factor in (2 / 3, 3 / 2):
        other = LabelResponse(1.5 * factor, LABELS).choose(["money"] * 5000, secure())
        assert distribution_p_value(declared, [LABELS[i] for i in other.tolist()]) < SIGNIFICANT


def test_a_label_is_chosen_as_by_scores():
    """The probabilities are those of `TopKRandomizedResponse`, and so is each draw."""
    rng = np.random.default_rng(0)
    for n_labels, epsilon in ((2, 0.3), (5, 2.0), (40, 9.0)):
        names, true = tuple(map(str, range(n_labels))), rng.integers(0, n_labels, 500)
        source = seeded(n_labels)
        uniform_below(n_labels, len(true), source)  # what would replace unknown labels
        known = TopKRandomizedResponse(epsilon, 1, n_labels).choose(np.eye(n_labels)[true], source)
        found = LabelResponse(epsilon, names).choose([names[i] for i in true], seeded(n_labels))
        assert (found == known).all()
        assert 0 < (found != true).mean() < 1


def test_wrong_settings():
    for labels in ((), ("a",), ("a", "a"), ("a", "b", "a")):
        with pytest.raises(ConfigError, match="at least two"):
            LabelResponse(1.0, labels)
    for epsilon in (0.0, math.inf):
        with pytest.raises(ConfigError, match="epsilon"):
            LabelResponse(epsilon, LABELS)
