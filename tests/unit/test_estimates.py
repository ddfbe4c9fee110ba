"""Estimates and Clopper-Pearson: oracles, a naive version by bisection, exact coverage, bad arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dptext.errors import ConfigError
from dptext.estimates import (
    MAX_TRIALS,
    Estimate,
    bonferroni,
    check_part,
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from examples import few_examples

ALPHAS = st.floats(1e-12, 0.5)


@st.composite
def counts(draw: st.DrawFn, most: int = 10_000) -> tuple[int, int]:
    """(successes, trials)."""
    trials = draw(st.integers(1, most))
    return draw(st.integers(0, trials)), trials


def bisect(tail: Callable[[float], float], alpha: float) -> float:
    """The p in [0, 1] with tail(p) = alpha, for a growing tail."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) < alpha else (low, middle)
    return low


def naive_lower(successes: int, trials: int, alpha: float) -> float:
    return 0.0 if successes == 0 else bisect(lambda p: float(binom.sf(successes - 1, trials, p)), alpha)


def naive_upper(successes: int, trials: int, alpha: float) -> float:
    # In terms of failures, so that the bisected tail grows too.
    return 1.0 if successes == trials else 1 - naive_lower(trials - successes, trials, alpha)


class TestEstimate:
    def test_prints_as_many_digits_as_the_interval_supports(self) -> None:
        assert str(Estimate(0.61, 0.58, 0.64, 0.95)) == "0.61 [0.58, 0.64] (95%)"
        assert str(Estimate(0.6123456, 0.6123, 0.6125, 0.999)) == "0.6123 [0.6123, 0.6125] (99.9%)"
        assert str(Estimate(3.21e-7, 1e-7, 5e-7, 0.9)) == "3.2e-07 [1e-07, 5e-07] (90%)"
        assert str(Estimate(2.0, 1.5, math.inf, 0.95)) == "2 [1.5, inf] (95%)"
        assert str(Estimate(0.0, 0.0, 0.0, 0.95)) == "0 [0, 0] (95%)"

    @settings(deadline=None)
    @given(st.lists(st.floats(allow_nan=False), min_size=3, max_size=3), st.floats(1e-9, 1 - 1e-9))
    def test_survives_json_exactly_and_always_prints(self, numbers: list[float], confidence: float) -> None:
        low, value, high = sorted(numbers)
        estimate = Estimate(value, low, high, confidence)
        written = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
        assert {name: float(number) for name, number in written.items()} == asdict(estimate)
        assert str(estimate)

    @pytest.mark.parametrize(
        ("value", "low", "high", "confidence"),
        [
            (0.5, 0.6, 0.7, 0.95),
            (0.8, 0.6, 0.7, 0.95),
            (0.5, 0.7, 0.3, 0.95),
            (math.nan, 0.0, 1.0, 0.95),
            (0.5, math.nan, 1.0, 0.95),
            (0.5, 0.0, math.nan, 0.95),
            (True, 0.0, 1.0, 0.95),
            (0.5, 0.0, 1.0, 0.0),
            (0.5, 0.0, 1.0, 1.0),
            (0.5, 0.0, 1.0, 95),
            (0.5, 0.0, 1.0, math.nan),
        ],
    )
    def test_refuses_impossible_intervals(self, value: float, low: float, high: float, confidence: float) -> None:
        with pytest.raises(ConfigError, match="Expected"):
            Estimate(value, low, high, confidence)


class TestClopperPearson:
    def test_oracles(self) -> None:
        zero = clopper_pearson(0, 10)
        assert (zero.value, zero.low) == (0.0, 0.0)
        assert zero.high == pytest.approx(1 - 0.025**0.1, abs=1e-12)
        three = clopper_pearson(3, 10)
        assert (three.low, three.high) == pytest.approx((0.0667395, 0.6524529), abs=1e-6)
        # What the two ends mean, term by term: three or more at the low end, three or fewer at the high one.
        above = sum(math.comb(10, k) * three.low**k * (1 - three.low) ** (10 - k) for k in range(3, 11))
        below = sum(math.comb(10, k) * three.high**k * (1 - three.high) ** (10 - k) for k in range(4))
        assert (above, below) == pytest.approx((0.025, 0.025), rel=1e-7)

    @pytest.mark.parametrize("trials", [1, 7, 1000, 10**7, MAX_TRIALS])
    def test_exact_at_none_and_at_all(self, trials: int) -> None:
        assert clopper_pearson_lower(0, trials, alpha=0.025) == 0.0
        assert clopper_pearson_upper(trials, trials, alpha=0.025) == 1.0
        lower = clopper_pearson_lower(trials, trials, alpha=0.025)
        upper = clopper_pearson_upper(0, trials, alpha=0.025)
        assert lower == pytest.approx(0.025 ** (1 / trials), rel=1e-14)
        assert upper == pytest.approx(-math.expm1(math.log(0.025) / trials), rel=1e-14)

    @few_examples
    @given(counts(), ALPHAS)
    def test_agrees_with_bisection_and_errs_outwards(self, count: tuple[int, int], alpha: float) -> None:
        successes, trials = count
        lower = clopper_pearson_lower(successes, trials, alpha=alpha)
        upper = clopper_pearson_upper(successes, trials, alpha=alpha)
        assert lower == pytest.approx(naive_lower(successes, trials, alpha), rel=1e-8, abs=1e-300)
        assert upper == pytest.approx(naive_upper(successes, trials, alpha), rel=1e-8)
        # The definition itself, with room for nothing but the tail's own rounding: the bound is outside.
        assert successes == 0 or binom.sf(successes - 1, trials, lower) <= alpha * (1 + 1e-12)
        assert successes == trials or binom.cdf(successes, trials, upper) <= alpha * (1 + 1e-12)

    @pytest.mark.parametrize("trials", [10**7, 10**9])
    # 1000 and 999: Boost's inverse incomplete beta function fails at exactly 1000, by a factor of two.
    @pytest.mark.parametrize("successes", [1, 999, 1000, 200_000, 5_000_000, 9_700_000, 9_999_000, 9_999_999])
    @pytest.mark.parametrize("alpha", [0.025, 1e-9, 1e-90])
    def test_large_counts(self, trials: int, successes: int, alpha: float) -> None:
        lower = clopper_pearson_lower(successes, trials, alpha=alpha)
        upper = clopper_pearson_upper(successes, trials, alpha=alpha)
        assert binom.sf(successes - 1, trials, lower) <= alpha <= binom.sf(successes - 1, trials, lower * (1 + 3e-9))
        # binom.cdf loses digits of a tiny p: it is 1e-8 off at one success in 1e9, so the room is wider here.
        assert binom.cdf(successes, trials, min(1.0, upper * (1 + 1e-7))) <= alpha
        assert binom.cdf(successes, trials, upper * (1 - 1e-7)) >= alpha

    @settings(deadline=None)
    @given(counts(), st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6))
    def test_contains_the_value_and_grows_with_confidence(
        self, count: tuple[int, int], one: float, other: float
    ) -> None:
        narrow = clopper_pearson(*count, confidence=min(one, other))
        wide = clopper_pearson(*count, confidence=max(one, other))
        assert narrow.low <= narrow.value <= narrow.high
        assert wide.low <= narrow.low * (1 + 1e-10)
        assert wide.high >= narrow.high * (1 - 1e-10)

    @settings(deadline=None)
    @given(counts(), ALPHAS)
    def test_grows_with_successes(self, count: tuple[int, int], alpha: float) -> None:
        successes, trials = count
        if successes < trials:
            for bound in (clopper_pearson_lower, clopper_pearson_upper):
                assert bound(successes, trials, alpha=alpha) <= bound(successes + 1, trials, alpha=alpha)

    def test_covers_every_probability_and_the_usual_interval_does_not(self) -> None:
        trials, confidence = 40, 0.95
        successes = np.arange(trials + 1)
        exact = [clopper_pearson(int(k), trials, confidence=confidence) for k in successes]
        value = successes / trials
        wald = 1.959964 * np.sqrt(value * (1 - value) / trials)
        worst_wald = 1.0
        for p in np.linspace(0.001, 0.999, 333):
            weights = binom.pmf(successes, trials, p)
            too_low = weights[[e.high < p for e in exact]].sum()
            too_high = weights[[e.low > p for e in exact]].sum()
            assert max(too_low, too_high) <= (1 - confidence) / 2
            worst_wald = min(worst_wald, weights[np.abs(value - p) <= wald].sum())
        assert worst_wald < 0.5  # the planted fault: the check above would catch a normal approximation

    @pytest.mark.parametrize(
        ("successes", "trials"),
        [(4, 3), (-1, 3), (0, 0), (0, -1), (True, 3), (1, True), (1.0, 3), (1, 3.0), (1, MAX_TRIALS + 1)],
    )
    def test_refuses_impossible_counts(self, successes: int, trials: int) -> None:
        for call in (
            lambda: clopper_pearson(successes, trials),
            lambda: clopper_pearson_lower(successes, trials, alpha=0.05),
            lambda: clopper_pearson_upper(successes, trials, alpha=0.05),
        ):
            with pytest.raises(ConfigError, match=r"Expected (successes|trials)="):
                call()

    @pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 0.6, 1e-200, math.nan])
    def test_refuses_impossible_error_probabilities(self, alpha: float) -> None:
        for bound in (clopper_pearson_lower, clopper_pearson_upper):
            with pytest.raises(ConfigError, match="alpha"):
                bound(1, 3, alpha=alpha)

    @pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5, -1, math.nan, True])
    def test_refuses_impossible_confidences(self, confidence: float) -> None:
        with pytest.raises(ConfigError, match="confidence"):
            clopper_pearson(1, 3, confidence=confidence)


def test_bonferroni_divides_the_error() -> None:
    assert bonferroni(0.95, 1) == pytest.approx(0.05)
    assert bonferroni(0.95, 2) == pytest.approx(0.025)
    for parts in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match="parts"):
            bonferroni(0.95, parts)  # type: ignore[arg-type]


def test_check_part_names_the_argument() -> None:
    check_part("hits", 3, "shots", 3)
    with pytest.raises(ConfigError, match=r"Expected hits=4 to be an integer in \[0, shots=3\]\."):
        check_part("hits", 4, "shots", 3)
