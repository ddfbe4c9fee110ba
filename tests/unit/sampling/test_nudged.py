"""Choices that private texts nudge: exact weights, and what one unit can change, searched for pairs that break it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare

from dptext.errors import ConfigError
from dptext.sampling import hub
from dptext.sampling.discrete import LIMB_BITS
from dptext.sampling.hub import UNIT_STEPS, Nudged, reach_of
from dptext.sampling.randomness import seeded
from dptext.sampling.weights import integer_weights, relative

OPTIONS = 50


def log_p(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Log-probabilities, some of them far apart."""
    logits = rng.normal(0, rng.choice([0.1, 3.0, 30.0]), (rows, OPTIONS))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def exact(choice: Nudged, total: np.ndarray, public: np.ndarray) -> list[Fraction]:
    """The probabilities of the whole weights that are drawn by."""
    limbs = integer_weights(relative(choice.log_weights(total, public)))[:, 0]
    weights = [sum(int(part) << (LIMB_BITS * i) for i, part in enumerate(limbs[:, j])) for j in range(limbs.shape[1])]
    return [Fraction(weight, sum(weights)) for weight in weights]


def log_range(choice: Nudged, first: np.ndarray, second: np.ndarray, public: np.ndarray) -> float:
    """By how much the log ratios of two choices differ between options."""
    ratios = [a / b for a, b in zip(exact(choice, first, public), exact(choice, second, public), strict=True)]
    top, low = max(ratios), min(ratios)
    return math.log(top / low)


def extreme(choice: Nudged, rng: np.random.Generator, public: np.ndarray) -> np.ndarray:
    """What one unit says whose text moves every option as far as it can."""
    return choice.steps(public + rng.choice([-1.0, 1.0], OPTIONS) * 1e6, public)


@given(seed=st.integers(0, 10_000), reach=st.sampled_from([1e-6, 0.03, 0.5, 3.0]))
def test_no_unit_moves_a_choice_by_more_than_its_reach(seed: int, reach: float) -> None:
    rng = np.random.default_rng(seed)
    choice = Nudged(reach, clip=1.5, temperature=0.7)
    public = log_p(rng, 1)
    others = rng.integers(-5 * UNIT_STEPS, 5 * UNIT_STEPS, (1, OPTIONS))
    added, other = extreme(choice, rng, public), extreme(choice, rng, public)
    assert log_range(choice, others + added, others, public) <= 2 * reach
    assert log_range(choice, others + added, others + other, public) <= 4 * reach


@pytest.mark.parametrize("cut", [True, False])
def test_no_crowd_makes_floats_round_by_more_than_is_paid_for(cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many units of one mind, whose sum is large; without the cut most of these pairs break the bound."""
    if not cut:
        monkeypatch.setattr(hub, "FARTHEST", 1e30)
        monkeypatch.setattr(hub, "MOST_STEPS", (1 << 63) - 1)
    rng, broken = np.random.default_rng(5), 0
    public = np.log(rng.dirichlet(np.ones(OPTIONS), 1))
    for units, reach in itertools.product((10**6, 10**9, 10**12), (0.03, 3.0)):
        choice = Nudged(reach, clip=1.5)
        for _ in range(5):
            others = units * UNIT_STEPS // 3 + rng.integers(-5 * UNIT_STEPS, 5 * UNIT_STEPS, (1, OPTIONS))
            broken += log_range(choice, others + extreme(choice, rng, public), others, public) > 2 * reach
    assert broken == 0 if cut else broken > 15


def test_a_unit_that_says_more_is_found_out() -> None:
    rng = np.random.default_rng(1)
    choice, public = Nudged(0.5, clip=1.5), log_p(rng, 1)
    others = np.zeros((1, OPTIONS), np.int64)
    for wrong in (extreme(choice, rng, public) * 2, extreme(choice, rng, public) * 11 // 10):
        assert log_range(choice, others + wrong, others, public) > 2 * choice.reach


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_says_nothing(bad: float) -> None:
    rng = np.random.default_rng(2)
    public = log_p(rng, 2)
    private = log_p(rng, 2)
    private[0, 3] = bad
    steps = Nudged(0.1, clip=1.0).steps(private, public)
    assert not steps[0].any()
    assert steps[1].any()


def test_steps_are_rounded_toward_nothing_and_clipped() -> None:
    choice = Nudged(0.1, clip=2.0)
    apart = np.array([[5.0, -5.0, 1.0, -1.0, 1.9999999999, 2e-7, -2e-7]])
    assert choice.steps(apart, np.zeros((1, 7))).tolist() == [
        [UNIT_STEPS, -UNIT_STEPS, UNIT_STEPS // 2, -UNIT_STEPS // 2, UNIT_STEPS - 1, 0, 0]
    ]


def test_draws_have_the_distribution_that_is_stated() -> None:
    rng = np.random.default_rng(3)
    choice, public = Nudged(0.4, clip=1.0, temperature=0.8), log_p(np.random.default_rng(30), 1).clip(-6)
    total = rng.integers(-4 * UNIT_STEPS, 4 * UNIT_STEPS, (1, OPTIONS))
    n = 20_000
    drawn = choice.choose(np.repeat(total, n, axis=0), np.repeat(public, n, axis=0), seeded(4))
    counts = np.bincount(drawn, minlength=OPTIONS)
    expected = choice.distribution(total, public)[0]
    assert np.allclose(expected, [float(p) for p in exact(choice, total, public)], rtol=1e-9)
    assert chisquare(counts, expected * n).pvalue > 1e-4
    other = replace(choice, reach=0.4 * 1.5).distribution(total, public)[0]
    assert chisquare(counts, other * n).pvalue < 1e-4


@pytest.mark.parametrize("replaced", [False, True])
def test_the_reach_is_the_largest_that_costs_rho(replaced: bool) -> None:
    reach = reach_of(0.3, 24, replaced=replaced)
    eta = reach * (4 if replaced else 2)
    assert 24 * eta**2 / 8 == pytest.approx(0.3, rel=1e-9)
    assert 24 * eta**2 / 8 <= 0.3


def test_renyi_divergences_stay_below_rho() -> None:
    """Of the worst pairs that a search finds, at several orders; twice the reach breaks it."""
    rng = np.random.default_rng(5)
    choice = Nudged(0.4, clip=1.0)
    rho = (2 * choice.reach) ** 2 / 8
    worst = 0.0
    for trial in range(400):
        public = log_p(rng, 1) if trial % 2 else np.log(np.array([[1 - 49e-4, *([1e-4] * 49)]]))
        others = rng.integers(-2 * UNIT_STEPS, 2 * UNIT_STEPS, (1, OPTIONS))
        signs = rng.choice([-1, 1], OPTIONS, p=[share := rng.uniform(), 1 - share])
        p, q = (choice.distribution(total, public)[0] for total in (others + signs * UNIT_STEPS, others))
        for alpha in (1.01, 2.0, 8.0, 64.0):
            for one, two in ((p, q), (q, p)):
                found = float(logsumexp(alpha * np.log(one) + (1 - alpha) * np.log(two))) / (alpha - 1)
                worst = max(worst, found / alpha)
    assert 0.5 * rho < worst <= rho


def test_settings_that_cannot_be_kept_are_refused() -> None:
    for settings in ({"reach": 0.0}, {"reach": 1e-12}, {"clip": 0.0}, {"temperature": -1.0}):
        with pytest.raises(ConfigError):
            Nudged(**{"reach": 0.1, "clip": 1.0, **settings})
