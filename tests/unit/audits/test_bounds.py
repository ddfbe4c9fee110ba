"""Bounds: derivations, "Clopper-Pearson bounds" and "Two rates" and "Accuracy of an attack", naive versions, coverage
on mechanisms of known epsilon, planted faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom
from sklearn.metrics import f1_score

from dptext.audits.bounds import (
    EpsilonLowerBound,
    accuracy_implies,
    epsilon_ceiling,
    epsilon_from_rates,
    reconstruction_bound,
    renyi_from_rates,
)
from dptext.errors import ConfigError
from dptext.estimates import clopper_pearson
from dptext.sampling.bootstrap import bootstrap, bootstrap_f1, bootstrap_mean
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import seeded
from dptext.types import Floats, Integers
from examples import few_examples

TOLERANCE = 1e-9  # quantiles of neighbouring arguments may differ by their own rounding


@st.composite
def rates(draw: st.DrawFn, most: int = 5_000) -> dict[str, int]:
    """The four counts."""
    positives, negatives = draw(st.integers(1, most)), draw(st.integers(1, most))
    return {
        "true_positives": draw(st.integers(0, positives)),
        "positives": positives,
        "false_positives": draw(st.integers(0, negatives)),
        "negatives": negatives,
    }


def bisect(grows: Callable[[float], float], target: float, high: float = 1.0) -> float:
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if grows(middle) < target else (low, middle)
    return low


def naive_rates(count: dict[str, int], alpha: float) -> tuple[float, float]:
    """(TPR_low, FPR_high), by bisection on the binomial tails."""
    tp, p, fp, n = count["true_positives"], count["positives"], count["false_positives"], count["negatives"]
    tpr_low = bisect(lambda rate: float(binom.sf(tp - 1, p, rate)), alpha) if tp else 0.0
    fpr_high = bisect(lambda rate: 1 - float(binom.cdf(fp, n, rate)), 1 - alpha) if fp < n else 1.0
    return tpr_low, fpr_high


def naive_log(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > denominator else 0.0


def randomized_response(epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """(TPR, FPR) of the answer "first": reveals the input with probability delta, else randomized response."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return delta + (1 - delta) * truth, (1 - delta) * (1 - truth)


class TestEpsilonFromRates:
    @few_examples
    @given(rates(), st.sampled_from([0.0, 1e-5, 0.1, 1.0]), st.floats(0.01, 0.999), st.integers(1, 50))
    def test_agrees_with_bisection(self, count: dict[str, int], delta: float, confidence: float, tests: int) -> None:
        bound = epsilon_from_rates(**count, delta=delta, confidence=confidence, tests=tests)
        tpr_low, fpr_high = naive_rates(count, (1 - confidence) / 2 / tests)
        naive = max(
            naive_log(tpr_low - delta, fpr_high),
            naive_log(1 - fpr_high - delta, 1 - tpr_low),
        )
        assert bound == EpsilonLowerBound(bound.epsilon, delta, confidence, tests)
        assert bound.epsilon == pytest.approx(naive, abs=1e-7)
        assert 0 <= bound.epsilon <= naive + 1e-8

    @settings(deadline=None)
    @given(rates(), st.floats(0.5, 0.999), st.floats(0.5, 0.999), st.integers(1, 20))
    def test_monotone(self, count: dict[str, int], one: float, other: float, tests: int) -> None:
        def bound(changes: dict[str, int], delta: float, confidence: float, tests: int) -> float:
            return epsilon_from_rates(**{**count, **changes}, delta=delta, confidence=confidence, tests=tests).epsilon

        low, high = sorted((one, other))
        here = bound({}, 0.01, low, tests) + TOLERANCE
        assert bound({}, 0.01, high, tests) <= here
        assert bound({}, 0.01, low, tests + 1) <= here
        assert bound({}, 0.02, low, tests) <= here
        if count["true_positives"]:
            assert bound({"true_positives": count["true_positives"] - 1}, 0.01, low, tests) <= here
        if count["false_positives"] < count["negatives"]:
            assert bound({"false_positives": count["false_positives"] + 1}, 0.01, low, tests) <= here

    @settings(deadline=None)
    @given(rates())
    def test_complement_of_the_event_with_swapped_inputs_says_the_same(self, count: dict[str, int]) -> None:
        # What lets the maximum over the two formulas use one pair of Clopper-Pearson bounds.
        swapped = epsilon_from_rates(
            count["negatives"] - count["false_positives"],
            count["negatives"],
            false_positives=count["positives"] - count["true_positives"],
            negatives=count["positives"],
        )
        assert swapped.epsilon == pytest.approx(epsilon_from_rates(**count).epsilon, abs=1e-12)

    @pytest.mark.parametrize("delta", [0.0, 0.1])
    @pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
    def test_true_claims_are_not_refuted_and_the_point_estimate_refutes_them(
        self, epsilon: float, delta: float
    ) -> None:
        audits, runs = 2_000, 300
        tpr, fpr = randomized_response(epsilon, delta)
        rng = np.random.default_rng(20240607)
        refuted = naive_refuted = 0
        for tp, fp in zip(rng.binomial(runs, tpr, audits), rng.binomial(runs, fpr, audits), strict=True):
            bound = epsilon_from_rates(int(tp), runs, false_positives=int(fp), negatives=runs, delta=delta)
            refuted += bound.epsilon > epsilon
            naive_refuted += max(naive_log(tp / runs - delta, fp / runs), 0.0) > epsilon
        assert refuted / audits <= 0.05
        # The planted fault: without Clopper-Pearson true claims are refuted about every second time.
        assert naive_refuted / audits > 0.3

    def test_each_bound_has_half_of_the_error(self) -> None:
        # A second planted fault: 5% on each side instead of 2.5% gives a larger bound.
        bound = epsilon_from_rates(900, 1000, false_positives=120, negatives=1000).epsilon
        assert epsilon_from_rates(900, 1000, false_positives=120, negatives=1000, confidence=0.9).epsilon > bound + 0.01

    def test_an_understated_claim_is_refuted(self) -> None:
        runs = 100_000
        tpr, fpr = randomized_response(1.0)
        rng = np.random.default_rng(3)
        for _ in range(20):
            tp, fp = int(rng.binomial(runs, tpr)), int(rng.binomial(runs, fpr))
            bound = epsilon_from_rates(tp, runs, false_positives=fp, negatives=runs, tests=100)
            assert 0.5 < bound.epsilon <= 1.0

    def test_says_nothing_where_nothing_is_seen(self) -> None:
        assert epsilon_from_rates(0, 10, false_positives=10, negatives=10).epsilon == 0.0
        assert epsilon_from_rates(500, 1000, false_positives=500, negatives=1000).epsilon == 0.0
        assert epsilon_from_rates(10**6, 10**6, false_positives=0, negatives=10**6, delta=1.0).epsilon == 0.0

    @pytest.mark.parametrize(
        "change",
        [
            {"true_positives": 11},
            {"true_positives": -1},
            {"true_positives": True},
            {"true_positives": 1.0},
            {"false_positives": 11},
            {"false_positives": -1},
            {"false_positives": 2.5},
            {"positives": 0},
            {"negatives": 0},
            {"negatives": 10.0},
            {"negatives": 10**9 + 1},
            {"delta": -0.1},
            {"delta": 1.1},
            {"delta": math.nan},
            {"confidence": 0.0},
            {"confidence": 1.0},
            {"tests": 0},
            {"tests": 1.5},
            {"tests": True},
        ],
    )
    def test_refuses_impossible_arguments_by_name(self, change: dict[str, float]) -> None:
        arguments = {"true_positives": 5, "positives": 10, "false_positives": 3, "negatives": 10, **change}
        (name,) = change
        with pytest.raises(ConfigError, match=f"{name}="):
            epsilon_from_rates(**arguments)  # type: ignore[arg-type]
        if name != "delta":
            with pytest.raises(ConfigError, match=f"{name}="):
                renyi_from_rates(**arguments, alpha=2.0)  # type: ignore[arg-type]


class TestCeiling:
    def test_oracles(self) -> None:
        ceilings = [round(epsilon_ceiling(10**k), 1) for k in range(2, 8)]
        assert ceilings == [3.3, 5.6, 7.9, 10.2, 12.5, 14.8]

    @settings(deadline=None)
    @given(rates(), st.sampled_from([0.0, 1e-3, 0.3]), st.integers(1, 9))
    def test_no_counts_go_above_it(self, count: dict[str, int], delta: float, tests: int) -> None:
        runs = max(count["positives"], count["negatives"])
        bound = epsilon_from_rates(**count, delta=delta, tests=tests)
        assert bound.epsilon <= epsilon_ceiling(runs, delta=delta, tests=tests) + TOLERANCE

    def test_closed_form_at_large_counts(self) -> None:
        for runs in (10**5, 10**9):
            log = math.log(0.025) / runs
            assert epsilon_ceiling(runs) == pytest.approx(log - math.log(-math.expm1(log)), abs=1e-12)

    @pytest.mark.parametrize("runs", [0, -1, True, 10.0, 10**10])
    def test_refuses_impossible_runs(self, runs: int) -> None:
        with pytest.raises(ConfigError, match="runs="):
            epsilon_ceiling(runs)


class TestRenyi:
    @few_examples
    @given(rates(), st.sampled_from([1.1, 1.5, 2.0, 5.0, 30.0]))
    def test_agrees_with_the_formula(self, count: dict[str, int], alpha: float) -> None:
        p, q = naive_rates(count, 0.025)
        naive = 0.0
        if p > q:
            sum_ = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
            naive = math.log(sum_) / (alpha - 1)
        bound = renyi_from_rates(**count, alpha=alpha)
        assert bound == pytest.approx(naive, abs=1e-6)
        assert 0 <= bound <= naive + 1e-8

    @settings(deadline=None)
    @given(rates(), st.floats(1.01, 50), st.floats(1.01, 50))
    def test_grows_with_the_order_up_to_epsilon(self, count: dict[str, int], one: float, other: float) -> None:
        low, high = (renyi_from_rates(**count, alpha=alpha) for alpha in sorted((one, other)))
        assert low <= high + TOLERANCE
        # D_alpha <= D_infinity, whose certified binary value is the epsilon at delta 0.
        assert high <= epsilon_from_rates(**count).epsilon + 1e-6

    @settings(deadline=None)
    @given(rates(), st.floats(1.01, 20), st.floats(0.5, 0.99))
    def test_monotone_in_counts_confidence_and_tests(
        self, count: dict[str, int], alpha: float, confidence: float
    ) -> None:
        def bound(changes: dict[str, int], confidence: float, tests: int) -> float:
            return renyi_from_rates(**{**count, **changes}, alpha=alpha, confidence=confidence, tests=tests)

        here = bound({}, confidence, 1) + 1e-6
        assert bound({}, confidence + 0.005, 1) <= here
        assert bound({}, confidence, 2) <= here
        if count["true_positives"]:
            assert bound({"true_positives": count["true_positives"] - 1}, confidence, 1) <= here
        if count["false_positives"] < count["negatives"]:
            assert bound({"false_positives": count["false_positives"] + 1}, confidence, 1) <= here

    def test_zero_when_the_event_is_not_shown_to_be_more_frequent(self) -> None:
        for tp, fp in ((500, 500), (100, 900), (520, 500), (0, 1000)):
            assert renyi_from_rates(tp, 1000, false_positives=fp, negatives=1000, alpha=2.0) == 0.0

    def test_extreme_orders(self) -> None:
        count = {"true_positives": 10**7, "positives": 10**7, "false_positives": 0, "negatives": 10**7}
        assert renyi_from_rates(**count, alpha=1e6) == pytest.approx(epsilon_ceiling(10**7), rel=1e-3)
        p, q = naive_rates({**count, "true_positives": 9 * 10**6, "false_positives": 10**6}, 0.025)
        kl = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        near_one = renyi_from_rates(9 * 10**6, 10**7, false_positives=10**6, negatives=10**7, alpha=1 + 1e-9)
        assert kl - 1e-3 < near_one < kl

    def test_two_gaussians_are_not_overstated(self) -> None:
        # N(0,1) against N(1,1): D_alpha = alpha / 2.
        rng = np.random.default_rng(5)
        above = 0
        for _ in range(500):
            tp, fp = int((rng.normal(1, 1, 500) > 1.5).sum()), int((rng.normal(0, 1, 500) > 1.5).sum())
            above += renyi_from_rates(tp, 500, false_positives=fp, negatives=500, alpha=2.0) > 1.0
        assert above / 500 <= 0.05

    def test_covers_a_binary_mechanism_and_the_point_estimate_does_not(self) -> None:
        alpha, runs, audits = 3.0, 300, 2_000
        p, q = randomized_response(1.0)

        def divergence(p: float, q: float) -> float:
            return math.log(p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)) / (alpha - 1)

        rng = np.random.default_rng(6)
        above = naive_above = 0
        for tp, fp in zip(rng.binomial(runs, p, audits), rng.binomial(runs, q, audits), strict=True):
            bound = renyi_from_rates(int(tp), runs, false_positives=int(fp), negatives=runs, alpha=alpha)
            above += bound > divergence(p, q)
            naive_above += divergence(tp / runs, fp / runs) > divergence(p, q)
        assert above / audits <= 0.05
        assert naive_above / audits > 0.3

    @pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0, -1.0, math.inf, math.nan])
    def test_refuses_other_orders(self, alpha: float) -> None:
        with pytest.raises(ConfigError, match="alpha="):
            renyi_from_rates(5, 10, false_positives=1, negatives=10, alpha=alpha)


class TestReconstruction:
    def test_oracle(self) -> None:
        assert round(reconstruction_bound(5.0, 1000), 3) == 0.129  # derivations, "Reconstruction"

    @settings(deadline=None)
    @given(st.floats(0, 50), st.integers(1, 10**6), st.integers(1, 100))
    def test_agrees_with_the_formula_and_rounds_up(self, epsilon: float, candidates: int, top: int) -> None:
        top = min(top, candidates)
        naive = top * math.exp(epsilon) / (top * math.exp(epsilon) + candidates - top)
        bound = reconstruction_bound(epsilon, candidates, top=top)
        assert bound == pytest.approx(naive, rel=1e-12)
        assert naive * (1 - 1e-15) <= bound <= 1

    @settings(deadline=None)
    @given(st.floats(0, 50), st.integers(1, 10**6), st.integers(1, 100), st.floats(0, 1))
    def test_agrees_with_the_formula_with_delta(self, epsilon: float, candidates: int, top: int, delta: float) -> None:
        top = min(top, candidates)
        power = top * math.exp(epsilon)
        naive = min(1.0, (power + (candidates - 1) * delta) / (power + candidates - top))
        bound = reconstruction_bound(epsilon, candidates, top=top, delta=delta)
        assert bound == pytest.approx(naive, rel=1e-12)
        assert naive * (1 - 1e-15) <= bound <= 1

    def test_extremes(self) -> None:
        assert reconstruction_bound(5000.0, 10) == 1.0
        assert reconstruction_bound(0.0, 10) == pytest.approx(0.1)
        assert reconstruction_bound(0.0, 10, top=10) == 1.0
        assert reconstruction_bound(0.0, 10, delta=1.0) == 1.0
        assert reconstruction_bound(0.0, 1) == 1.0

    @pytest.mark.parametrize(
        ("candidates", "top", "epsilon", "delta"),
        [
            (3, 1, 1.0, 0.0),
            (4, 2, 1.0, 0.0),
            (4, 3, 0.5, 0.0),
            (3, 1, 1.0, 0.1),
            (4, 1, 0.3, 0.05),
            (3, 2, 1.0, 0.1),
            (4, 2, 1.0, 0.1),
            (5, 2, 0.7, 0.02),
            (5, 3, 0.0, 0.05),
            (5, 4, 1.5, 0.01),
        ],
    )
    def test_is_the_optimum_over_all_private_mechanisms(
        self, candidates: int, top: int, epsilon: float, delta: float
    ) -> None:
        optimum = best_reconstruction(candidates, top, epsilon, delta)
        assert reconstruction_bound(epsilon, candidates, top=top, delta=delta) == pytest.approx(optimum, abs=1e-7)

    @pytest.mark.parametrize(("top", "epsilon", "delta"), [(1, 0.5, 0.01), (2, 0.5, 0.01), (3, 0.1, 0.05)])
    def test_holds_for_random_mechanisms(self, top: int, epsilon: float, delta: float) -> None:
        """Any family of distributions, judged at the least delta that it has at this epsilon."""
        rng = np.random.default_rng(top)
        closest = math.inf
        for _ in range(200):
            candidates, outputs = int(rng.integers(top + 1, 7)), int(rng.integers(2, 12))
            family = rng.dirichlet(np.full(outputs, rng.choice([0.3, 1.0, 30.0])), candidates)
            family = (1 - delta) * family.mean(0) + delta * family
            excess = np.maximum(family[:, None] - math.exp(epsilon) * family[None], 0).sum(axis=2)
            success = np.sort(family, axis=0)[-top:].sum() / candidates  # the best guesses after each output
            bound = reconstruction_bound(epsilon, candidates, top=top, delta=min(1.0, float(excess.max())))
            assert success <= bound
            closest = min(closest, bound / success)
        assert closest < 2  # the trial had something to refute

    def test_guesses_alone_would_prove_less(self) -> None:
        """The events "i is guessed" give (j e^eps + (N-1) delta) / (e^eps + N - 1): true, but not the optimum."""
        power = math.exp(1.0)
        naive = (2 * power + 3 * 0.1) / (power + 3)
        assert reconstruction_bound(1.0, 4, top=2, delta=0.1) < naive - 0.05

    @pytest.mark.parametrize(
        "change",
        [
            {"epsilon": -1.0},
            {"epsilon": math.inf},
            {"candidates": 0},
            {"candidates": 10.0},
            {"top": 0},
            {"top": 11},
            {"delta": 2.0},
        ],
    )
    def test_refuses_what_is_impossible(self, change: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match=f"{next(iter(change))}="):
            reconstruction_bound(**{"epsilon": 1.0, "candidates": 10, **change})  # type: ignore[arg-type]


def best_reconstruction(candidates: int, top: int, epsilon: float, delta: float) -> float:
    """The largest success of any (epsilon, delta)-DP mechanism that outputs its own guess, by linear programming."""
    guesses = list(combinations(range(candidates), top))
    m = len(guesses)
    pairs = [(i, k) for i in range(candidates) for k in range(candidates) if i != k]
    size = (candidates + len(pairs)) * m  # P_i(guess), then the excess of P_i(guess) over e^eps P_k(guess)
    gain = np.zeros(size)
    for g, guess in enumerate(guesses):
        for i in guess:
            gain[i * m + g] = 1 / candidates
    rows, limits = [], []
    for at, (i, k) in enumerate(pairs):
        excess = (candidates + at) * m
        for g in range(m):
            row = np.zeros(size)
            row[i * m + g], row[k * m + g], row[excess + g] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0.0)
        row = np.zeros(size)
        row[excess : excess + m] = 1
        rows.append(row)
        limits.append(delta)
    totals = np.zeros((candidates, size))
    for i in range(candidates):
        totals[i, i * m : (i + 1) * m] = 1
    result = linprog(-gain, A_ub=np.array(rows), b_ub=limits, A_eq=totals, b_eq=np.ones(candidates))
    return float(-result.fun)


class TestAccuracy:
    def test_oracles(self) -> None:
        assert [round(accuracy_implies(a), 2) for a in (0.7, 0.8, 0.9, 0.95)] == [0.85, 1.39, 2.20, 2.94]

    def test_edges(self) -> None:
        assert accuracy_implies(0.5) == accuracy_implies(0.2) == accuracy_implies(0.0) == 0.0
        assert accuracy_implies(0.6, delta=0.6) == 0.0
        assert accuracy_implies(1.0) == accuracy_implies(1.0, delta=0.5) == math.inf
        assert accuracy_implies(1.0, delta=1.0) == 0.0

    @settings(deadline=None)
    @given(st.floats(0, 10), st.floats(0, 0.5))
    def test_exact_for_randomized_response(self, epsilon: float, delta: float) -> None:
        tpr, fpr = randomized_response(epsilon, delta)
        assert accuracy_implies((tpr + 1 - fpr) / 2, delta=delta) == pytest.approx(epsilon, abs=1e-9)

    @settings(deadline=None)
    @given(st.floats(0.5, 1, exclude_max=True))
    def test_rounds_down(self, accuracy: float) -> None:
        assert accuracy_implies(accuracy) <= math.log(accuracy / (1 - accuracy))

    @settings(deadline=None)
    @given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
    def test_monotone(self, one: float, other: float, delta: float) -> None:
        low, high = sorted((one, other))
        assert accuracy_implies(low, delta=delta) <= accuracy_implies(high, delta=delta)
        assert accuracy_implies(one, delta=delta) <= accuracy_implies(one)

    @pytest.mark.parametrize(("accuracy", "delta"), [(-0.1, 0.0), (1.1, 0.0), (math.nan, 0.0), (0.9, -0.1), (0.9, 2)])
    def test_refuses_no_probabilities(self, accuracy: float, delta: float) -> None:
        with pytest.raises(ConfigError):
            accuracy_implies(accuracy, delta=delta)


def mean(rows: Floats) -> float:
    return float(rows.mean())


class TestBootstrap:
    def test_agrees_with_a_naive_version(self) -> None:
        values = np.random.default_rng(1).exponential(size=50)
        estimate = bootstrap(values, mean, source=seeded(4), resamples=205, confidence=0.9)
        source = seeded(4)
        means = sorted(mean(values[uniform_below(50, 50, source)]) for _ in range(205))
        # rank 10 from either end: floor(0.05 * 206)
        assert (estimate.value, estimate.low, estimate.high) == (mean(values), means[9], means[195])
        assert estimate.confidence == 0.9

    def test_covers_a_mean_about_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(2)
        covered = 0
        for i in range(300):
            estimate = bootstrap(rng.normal(size=60), mean, source=seeded(i), resamples=199)
            covered += int(estimate.low <= 0 <= estimate.high)
        # 285 expected (282 for n = 60): 0.89 and 0.985 are more than three standard deviations away.
        assert 0.89 < covered / 300 < 0.985

    def test_rows_stay_together(self) -> None:
        scores = np.arange(20.0)
        rows = np.stack([scores, 2 * scores], axis=1)

        def broken_pairs(sample: Floats) -> float:
            return float((sample[:, 1] != 2 * sample[:, 0]).sum())

        assert bootstrap(rows, broken_pairs, source=seeded(0), bounds=(0.0, 0.0)).high == 0.0

    def test_contains_a_biased_statistic_and_is_repeatable(self) -> None:
        values = np.random.default_rng(3).normal(size=30)

        def distinct(sample: Floats) -> float:
            return float(len(np.unique(sample)))  # every resample has fewer

        estimate = bootstrap(values, distinct, source=seeded(5))
        assert estimate == bootstrap(values, distinct, source=seeded(5))
        assert estimate.low < 25 < estimate.value == estimate.high == 30.0

    def test_grows_with_confidence(self) -> None:
        values = np.random.default_rng(4).normal(size=100)
        wide, narrow = (bootstrap(values, mean, source=seeded(6), confidence=c) for c in (0.99, 0.8))
        assert wide.low < narrow.low < narrow.value < narrow.high < wide.high

    def test_resamples_must_support_the_confidence(self) -> None:
        values = np.ones(3)
        assert bootstrap(values, mean, source=seeded(0), resamples=39, bounds=(1.0, 2.0)).low == 1.0
        with pytest.raises(ConfigError, match="resamples=38 >= 39"):
            bootstrap(values, mean, source=seeded(0), resamples=38)
        for resamples in (0, True, 100.0):
            with pytest.raises(ConfigError, match="resamples="):
                bootstrap(values, mean, source=seeded(0), resamples=resamples)  # type: ignore[arg-type]

    @pytest.mark.parametrize("n", [1, 2, 3, 10, 29, 100])
    def test_rows_all_alike_show_no_more_than_their_number(self, n: int) -> None:
        """The exact interval of n successes in n trials is the right one for ones that could have been zeros."""
        found = bootstrap_mean(np.ones(n), seed=0, bounds=(0.0, 1.0))
        assert found.low == pytest.approx(clopper_pearson(n, n).low, rel=1e-9)
        assert (found.value, found.high) == (1.0, 1.0)
        nothing = bootstrap_mean(np.full(n, 0.2), seed=0, bounds=(-1.0, 1.0))
        assert (nothing.low < -0.9, nothing.high > 0.9) == ((True, True) if n == 1 else (False, False))
        assert bootstrap(np.ones(n), mean, source=seeded(0)).low == -math.inf  # nothing is known of its range

    @pytest.mark.parametrize("n", [1, 2, 3, 5, 12])
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
    def test_few_rows_cover_at_least_as_often_as_they_say(self, n: int, share: float) -> None:
        rng = np.random.default_rng(7)
        rows = (rng.random((150, n)) < share).astype(float)
        found = [bootstrap_mean(each, seed=i, bounds=(0.0, 1.0)) for i, each in enumerate(rows)]
        assert sum(each.low <= share <= each.high for each in found) >= 138  # 142.5; four standard deviations: 132

    def test_many_rows_that_differ_have_the_percentiles(self) -> None:
        values = np.random.default_rng(8).random(30)
        assert bootstrap_mean(values, seed=0, bounds=(0.0, 1.0)) == bootstrap_mean(values, seed=0, bounds=(-9.0, 9.0))
        few = [bootstrap_mean(values[:29], seed=0, bounds=bounds) for bounds in ((0.0, 1.0), (-9.0, 9.0))]
        assert few[1].low < few[0].low < few[0].high < few[1].high

    @pytest.mark.parametrize(("texts", "labels"), [(1, 1), (7, 3), (40, 30), (200, 5)])
    def test_f1_of_all_samples_at_once_is_that_of_one_at_a_time(self, texts: int, labels: int) -> None:
        rng = np.random.default_rng(9)
        true, given = rng.integers(0, labels, texts), rng.integers(0, labels + 1, texts)

        def one(pairs: Integers) -> float:  # without the code of no label
            told, seen = Counter(pairs[:, 0].tolist() + pairs[:, 1].tolist()), Counter[int]()
            seen.update(a for a, b in pairs.tolist() if a == b)
            f1 = [2 * seen[label] / told[label] for label in range(labels) if told[label]]
            return math.fsum(f1) / len(f1)

        found, pairs = bootstrap_f1(true, given, labels, source=seeded(3)), np.stack([true, given], axis=1)
        plain = bootstrap(pairs, one, source=seeded(3), bounds=(0.0, 1.0))
        assert [found.value, found.low, found.high] == pytest.approx([plain.value, plain.low, plain.high], rel=1e-12)
        named = np.unique(pairs[pairs < labels])
        assert found.value == pytest.approx(f1_score(true, given, labels=named, average="macro", zero_division=0))

    def test_refuses_what_has_no_answer_without_showing_values(self) -> None:
        for empty in (np.empty(0), np.empty((0, 2)), np.array(1.0)):
            with pytest.raises(ConfigError, match="at least one row"):
                bootstrap(empty, mean, source=seeded(0))
        with pytest.raises(ConfigError, match="confidence"):
            bootstrap(np.ones(3), mean, source=seeded(0), confidence=1.0)

        def no_number(sample: NDArray[np.str_]) -> float:
            return math.nan

        with pytest.raises(ConfigError, match="NaN") as caught:
            bootstrap(np.array(["canary-7391", "other"]), no_number, source=seeded(0))
        assert "canary" not in str(caught.value)
