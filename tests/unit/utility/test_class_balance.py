"""The shifted task: its split, the balance behind randomized response and other noise, and wrong settings seen."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.text.records import Record
from dptext.utility.balance import (
    balance_behind,
    balance_error,
    confusion_matrix,
    debiased_balance,
    observed_balance,
    shifted_split,
    simplex_projection,
)

LABELS = ("a", "b", "c", "d")
SHARES = {"a": 0.55, "b": 0.25, "c": 0.15, "d": 0.05}
POOL = [Record(str(i), f"text {i}", label=LABELS[i % 4]) for i in range(800)] + [Record("x", "?", label="other")]


def counted(records):
    return {label: sum(r.label == label for r in records) for label in LABELS}


def respond(labels, epsilon, seed=1):
    scores = np.eye(4)[[LABELS.index(label) for label in labels]]
    chosen = TopKRandomizedResponse(epsilon, 1, 4).choose(scores, seeded(seed))
    return [LABELS[i] for i in chosen.tolist()]


def private_labels(n=4000):
    return [label for label, share in SHARES.items() for _ in range(round(n * share))]


# --------------------------------------------------------------------------------------------------- split


def test_the_split_has_the_balance_and_the_scarce_class():
    public, private = shifted_split(POOL, shares=SHARES, scarce="a", scarce_public=3, private_size=200)
    assert counted(private) == {"a": 110, "b": 50, "c": 30, "d": 10}
    assert counted(public) == {"a": 3, "b": 150, "c": 170, "d": 190}
    ids = [r.id for r in public] + [r.id for r in private]
    assert len(set(ids)) == len(ids)
    assert "x" not in ids
    assert [r.label for r in private] != sorted(str(r.label) for r in private)  # in no order
    again = shifted_split(POOL, shares=SHARES, scarce="a", scarce_public=3, private_size=200)
    assert again == (public, private)
    assert shifted_split(POOL, shares=SHARES, scarce="a", scarce_public=3, private_size=200, seed=1) != again


def test_the_largest_private_part_that_fits():
    public, private = shifted_split(POOL, shares=SHARES, scarce="a", scarce_public=10)
    assert counted(private)["a"] == 190  # 200 less the ten public ones
    assert counted(public)["a"] == 10
    assert sum(counted(private).values()) == 346  # 190.3 + 86.5 + 51.9 + 17.3, rounded to 190 + 87 + 52 + 17
    even = shifted_split(POOL, shares=dict.fromkeys(LABELS, 0.25), scarce="d", scarce_public=5)[1]
    assert len(even) == 400  # half of all


def test_parts_are_rounded_by_largest_remainder():
    private = shifted_split(POOL, shares=SHARES, scarce="b", scarce_public=1, private_size=7)[1]
    assert counted(private) == {"a": 4, "b": 2, "c": 1, "d": 0}  # 3.85, 1.75, 1.05, 0.35


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"shares": {"a": 0.5, "b": 0.4}}, "sum to 1"),
        ({"shares": {"a": 1.5, "b": -0.5}}, "in \\[0, 1\\]"),
        ({"scarce": "z"}, "scarce"),
        ({"scarce_public": 0}, "scarce_public"),
        ({"private_size": 0}, "private_size"),
        ({"private_size": 380}, "label 'a'"),
    ],
)
def test_splits_that_cannot_be_made(wrong, match):
    settings = {"shares": SHARES, "scarce": "a", "scarce_public": 3, **wrong}
    with pytest.raises(ConfigError, match=match):
        shifted_split(POOL, **settings)


# ----------------------------------------------------------------------------------------------- estimates


def test_expected_counts_are_inverted_exactly():
    truth = np.array(list(SHARES.values()))
    for epsilon in (0.1, 1.0, 5.0, 800.0):
        p = 1 / (1 + 3 * np.exp(-epsilon))
        expected = truth * p + (1 - truth) * (1 - p) / 3
        np.testing.assert_allclose(debiased_balance(expected * 1000, epsilon), truth, atol=1e-12)
        matrix = np.where(np.eye(4) == 1, p, (1 - p) / 3)
        np.testing.assert_allclose(balance_behind(expected, matrix), truth, atol=1e-9)


def test_the_estimate_before_the_projection_is_unbiased():
    truth = private_labels(1000)
    found = [
        debiased_balance(np.array([respond(truth, 3.0, seed).count(label) for label in LABELS]), 3.0)
        for seed in range(40)
    ]
    # None is near the border of the simplex at this epsilon, so that the projection does nothing.
    np.testing.assert_allclose(np.mean(found, axis=0), list(SHARES.values()), atol=0.008)


@pytest.mark.parametrize("wrong", [2 / 3, pytest.param(3 / 2, marks=pytest.mark.slow)])  # the other side stays
def test_a_wrong_epsilon_shows_as_bias(wrong):
    truth = private_labels(3000)
    given = respond(truth, 1.5)
    right = balance_error(truth, given, LABELS, epsilon=1.5)
    biased = balance_error(truth, given, LABELS, epsilon=1.5 * wrong)
    naive = balance_error(truth, given, LABELS)
    assert right.value < 0.05
    assert biased.low > right.high
    assert naive.low > right.high


def test_the_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(5):
        values = rng.normal(0.25, 0.5, 4)
        found = simplex_projection(values)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        best = minimize(
            lambda x, values=values: ((x - values) ** 2).sum(),
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(found, best.x, atol=1e-5)
    np.testing.assert_allclose(simplex_projection(np.array([0.2, 0.8])), [0.2, 0.8])
    np.testing.assert_allclose(simplex_projection(np.array([-5.0, 3.0])), [0, 1])


@pytest.mark.slow  # the matrix is measured and inverted exactly in the tests of small numbers
def test_any_confusion_is_debiased_by_a_measured_matrix():
    matrix = np.array([[0.7, 0.1, 0.1, 0.1], [0.3, 0.5, 0.1, 0.1], [0, 0.4, 0.6, 0], [0.2, 0.2, 0.2, 0.4]])
    rng = np.random.default_rng(1)

    def mechanism(labels):
        ends = matrix.cumsum(axis=1)[[LABELS.index(label) for label in labels]]
        return [LABELS[i] for i in (rng.random((len(labels), 1)) * ends[:, -1:] >= ends).sum(axis=1)]

    held_out = list(LABELS) * 2000
    measured = confusion_matrix(held_out, mechanism(held_out), LABELS)
    np.testing.assert_allclose(measured, matrix, atol=0.03)
    truth = private_labels(8000)
    given = mechanism(truth)
    right = balance_error(truth, given, LABELS, matrix=measured)
    assert right.value < 0.06
    assert balance_error(truth, given, LABELS).low > right.high
    assert balance_error(truth, given, LABELS, matrix=measured[::-1]).low > right.high  # rows of other labels


def test_public_only_fails():
    truth = private_labels(2000)
    rng = np.random.default_rng(2)
    public = rng.choice(LABELS, 2000, p=[0.01, 0.33, 0.33, 0.33]).tolist()
    error = balance_error(truth, public, LABELS)
    expected = abs(0.55 - 0.01) + abs(0.25 - 0.33) + abs(0.15 - 0.33) + abs(0.05 - 0.33)
    assert error.value == pytest.approx(expected, abs=0.05)
    assert error.low > balance_error(truth, respond(truth, 2.0), LABELS, epsilon=2.0).high


def test_observed_shares_and_things_that_are_no_labels():
    np.testing.assert_allclose(observed_balance(["a", "a", None, "b", "odd"], LABELS), [2 / 3, 1 / 3, 0, 0])
    error = balance_error(["a", "b", "b", "a"], ["a", "b", None, "odd"], LABELS)
    assert error.value == 0
    assert 0 <= error.low <= error.high <= 2
    matrix = confusion_matrix(["a", "a", "b", None], ["a", "b", "b", "a"], ("a", "b"))
    np.testing.assert_allclose(matrix, [[0.5, 0.5], [0, 1]])


def test_nothing_better_than_zero_is_uniform():
    matrix = np.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(balance_behind(np.array([0, 5]), matrix), [0.5, 0.5])


def test_pairs_stay_together_in_the_bootstrap():
    truth = private_labels(400)
    kept = balance_error(truth, truth, LABELS)
    assert kept.value == kept.low == 0 < kept.high < 0.02  # 400 alike show that under 1% differ


@pytest.mark.slow  # tests/unit/audits/test_bounds.py has the coverage of the bootstrap
def test_the_interval_covers_the_mean_error():
    truth = private_labels(400)
    found = [balance_error(truth, respond(truth, 1.0, seed), LABELS, epsilon=1.0, seed=seed) for seed in range(12)]
    mean = np.mean([error.value for error in found])
    assert sum(error.low <= mean <= error.high for error in found) >= 10


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: balance_error(["a"], ["a", "b"], LABELS), "one given label"),
        (lambda: balance_error([], [], LABELS), "one given label"),
        (lambda: balance_error(["secret"], ["a"], LABELS), "one of the labels"),
        (lambda: balance_error(["a"], [None], LABELS), "no output"),
        (lambda: balance_error(["a"], ["a"], ("a", "a")), "named once"),
        (lambda: balance_error(["a"], ["a"], LABELS, epsilon=1.0, matrix=np.eye(4)), "not both"),
        (lambda: balance_error(["a"], ["a"], LABELS, epsilon=0.0), "epsilon"),
        (lambda: balance_error(["a"], ["a"], LABELS, matrix=np.eye(3)), "columns"),
        (lambda: balance_error(["a"], ["a"], LABELS, matrix=np.full((2, 4), 0.25)), "rows"),
        (lambda: balance_behind(np.ones(2), np.ones((2, 2))), "sum to 1"),
        (lambda: debiased_balance(np.array([3]), 1.0), "two labels"),
        (lambda: debiased_balance(np.array([3, -1]), 1.0), "counts"),
        (lambda: confusion_matrix(["a"], ["a"], ("a", "b")), "label 'b'"),
        (lambda: confusion_matrix(["a"], [], LABELS), "one given label"),
    ],
)
def test_faults_at_the_door(call, match):
    with pytest.raises(ConfigError, match=match) as caught:
        call()
    assert "secret" not in str(caught.value)
