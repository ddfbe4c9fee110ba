"""The two-set choice: its stated epsilon is attained, and draws follow the stated distribution."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext import audits
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy import accounting
from dptext.sampling.randomness import seeded
from dptext_lab.erae.two_set import TwoSet
from private_choices import agrees, largest_log_ratio

PROBABILITIES = np.array([[0.4, 0.05, 0.25, 0.0, 0.2, 0.1]])


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 10.0])
@pytest.mark.parametrize(("k", "size"), [(1, 4), (2, 6), (3, 6)])
def test_two_set_top_k_is_tight(epsilon, k, size) -> None:
    choice = TwoSet(epsilon, k, size)
    near = 1e-13  # almost all mass on k options: the supremum is approached
    rows = np.array(
        [
            np.where(np.isin(range(size), s), (1 - near) / k, near / (size - k))
            for s in itertools.combinations(range(size), k)
        ]
    )
    rng = np.random.default_rng(1)
    rows = np.concatenate([rows, rng.dirichlet(np.full(size, 0.3), 200), rng.dirichlet(np.full(size, 10.0), 200)])
    found = largest_log_ratio(choice.distribution(rows))
    stated = accounting.epsilon([choice.event])
    assert found <= stated
    assert found == pytest.approx(stated, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 6.0])
def test_two_set_sampled_is_tight(epsilon) -> None:
    choice = TwoSet(epsilon, 2, 5, "sampled")
    rng = np.random.default_rng(2)
    rows = np.concatenate([np.eye(5), rng.dirichlet(np.full(5, 0.2), 100), rng.dirichlet(np.full(5, 5.0), 100)])
    found = largest_log_ratio(choice.distribution(rows))
    stated = accounting.epsilon([choice.event])
    assert found <= stated
    assert found == pytest.approx(stated, abs=1e-9)


@pytest.mark.parametrize("set_choice", ["top_k", "sampled"])
def test_draws_fit_their_distribution_and_none_of_another_scale(set_choice) -> None:
    choice = TwoSet(4.0, 2, 6, set_choice)
    assert agrees(choice, PROBABILITIES) > 1e-4
    for factor in (2 / 3, 3 / 2):
        planted = replace(choice, epsilon=factor * 4.0)
        found = type("Planted", (), {"distribution": planted.distribution, "choose": choice.choose})()
        assert agrees(found, PROBABILITIES) < 1e-4


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_any_finite_scores_give_a_choice(rows) -> None:
    scores = np.array(rows)
    for choice in (TwoSet(1.0, 2, 4), TwoSet(1.0, 2, 4, "sampled")):
        chosen = choice.choose(scores, seeded(0))
        assert ((chosen >= 0) & (chosen < 4)).all()
        assert np.isfinite(choice.distribution(scores)).all()


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_probabilities_that_are_no_numbers_are_refused(odd: float) -> None:
    given, choice = np.array([[0.5, odd, 0.2]]), TwoSet(2.0, 1, 3)
    for act in (lambda: choice.choose(given, seeded(0)), lambda: choice.distribution(given)):
        with pytest.raises(PrivacyError, match="finite scores") as caught:
            act()
        assert "0.2" not in str(caught.value)


def test_the_exact_audit_finds_the_stated_epsilon() -> None:
    choice = TwoSet(2.0, 1, 4)
    one, other = np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    claim = audits.claim_of(choice)
    report = audits.exact(choice, one, other, trials=5000, randomness=seeded(1))
    assert not report.refutes(claim)
    assert report.epsilon_lower_bound == pytest.approx(1 + math.log(3), abs=1e-6)
    assert report.refutes(replace(claim, epsilon=report.epsilon_lower_bound - 1e-6))


def test_sets_of_more_than_half_and_too_many_draws_are_refused() -> None:
    with pytest.raises(ConfigError, match="Expected"):
        TwoSet(1.0, 4, 6)
    with pytest.raises(ConfigError, match="to enumerate every sampled set"):
        TwoSet(1.0, 5, 100, "sampled").distribution(np.full((1, 100), 0.01))
