"""Exact enumeration of every private choice: the largest log ratio is the stated epsilon; draws follow it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dptext.errors import ConfigError
from dptext.privacy import accounting, events
from dptext.sampling import exponential, top_k, weights
from dptext.sampling.randomness import seeded
from private_choices import N, agrees, largest_log_ratio


def corner_scores(size: int, low: float, high: float) -> np.ndarray:
    return np.array(list(itertools.product([low, high], repeat=size)))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 20.0])
@pytest.mark.parametrize(("k", "size"), [(1, 2), (1, 6), (2, 6), (5, 6)])
def test_top_k_randomized_response_is_exact(epsilon, k, size) -> None:
    choice = top_k.TopKRandomizedResponse(epsilon, k, size)
    rows = choice.distribution(np.array(list(itertools.permutations(range(size))), float))
    assert largest_log_ratio(rows) <= epsilon
    assert largest_log_ratio(rows) == pytest.approx(epsilon, abs=1e-9)
    assert accounting.epsilon([choice.event]) == epsilon
    assert np.allclose(rows.sum(axis=1), 1)


@pytest.mark.parametrize("epsilon", [50.0, 700.0])
def test_top_k_at_an_epsilon_beyond_integers_is_safe(epsilon) -> None:
    choice = top_k.TopKRandomizedResponse(epsilon, 2, 20_000)
    rows = choice.distribution(np.random.default_rng(0).random((1, 20_000)))
    assert math.log(rows.max() / rows.min()) <= epsilon
    assert 2 * rows.max() > 1 - 1e-9


@pytest.mark.parametrize(
    ("epsilon", "k", "hit"), [(5, 1, 0.007), (8, 5, 0.427), (10, 5, 0.846), (12, 20, 0.994), (15, 1, 0.994)]
)
def test_top_k_hits_as_the_table_says(epsilon, k, hit) -> None:
    rows = top_k.TopKRandomizedResponse(epsilon, k, 20_000).distribution(np.arange(20_000.0)[None])
    assert rows[0, -k:].sum() == pytest.approx(hit, abs=0.0006)


@pytest.mark.parametrize("d", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_clipped_exponential_is_tight(d, size) -> None:
    choice = exponential.ClippedExponential(0.0, 1.0, 1 / d, size)
    found = largest_log_ratio(choice.distribution(corner_scores(size, -5, 7)))  # clipped to 0 and 1
    stated = accounting.epsilon([choice.event])
    assert found <= stated
    assert found == pytest.approx(stated, abs=1e-9)


@pytest.mark.parametrize("mechanism", [exponential.Exponential, exponential.PermuteAndFlip])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_score_mechanisms_for_neighbours(mechanism, epsilon) -> None:
    """All neighbours within the sensitivity, of scores far and near."""
    choice = mechanism(epsilon, sensitivity=2.0)
    moves = corner_scores(4, -2.0, 2.0)
    worst = 0.0
    for base in ([0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0], [0.0, 100.0, 3.0, 99.0], [0.0, -60.0, -60.0, -60.0]):
        here = choice.distribution(np.array([base]))
        there = choice.distribution(np.array(base) + moves)
        worst = max(worst, float(np.abs(np.log(there / here)).max()))
    assert worst <= epsilon + 1e-12
    assert worst > 0.45 * epsilon


@pytest.mark.parametrize("mechanism", [exponential.Exponential, exponential.PermuteAndFlip])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 10.0])
def test_score_mechanisms_are_tight(mechanism, epsilon) -> None:
    """An unlikely option gains a sensitivity while the likely one loses it: the whole epsilon is spent."""
    choice = mechanism(epsilon)
    here = np.array([[-60.0 / epsilon, 0.0]])
    ratio = choice.distribution(np.add(here, [[1.0, -1.0]]))[0, 0] / choice.distribution(here)[0, 0]
    assert math.log(ratio) <= epsilon
    assert math.log(ratio) == pytest.approx(epsilon, abs=1e-8)


def test_exponential_is_tight_when_options_are_many() -> None:
    """epsilon is approached as the moved option's share goes to 0: no smaller bound holds."""
    epsilon, size = 2.0, 20_000
    choice = exponential.Exponential(epsilon)
    here = choice.distribution(np.zeros((1, size)))
    moved = np.full((1, size), -1.0)
    moved[0, 0] = 1.0
    assert math.log(choice.distribution(moved)[0, 0] / here[0, 0]) == pytest.approx(epsilon, abs=1e-3)


def test_permute_and_flip_by_enumerating_orders() -> None:
    scores = np.array([[0.0, 1.0, 2.5, 2.0]])
    choice = exponential.PermuteAndFlip(3.0)
    coins = np.exp(3.0 * (scores[0] - 2.5) / 2)
    naive = np.zeros(4)
    for order in itertools.permutations(range(4)):
        left = 1 / 24
        for option in order:
            naive[option] += left * coins[option]
            left *= 1 - coins[option]
    assert np.allclose(choice.distribution(scores)[0], naive, atol=1e-9)
    expected = lambda p: float((p * scores).sum())  # noqa: E731
    assert expected(choice.distribution(scores)) >= expected(exponential.Exponential(3.0).distribution(scores))


def test_truncated_exponential_is_the_tem_of_its_paper() -> None:
    """The paper's two stages, by hand, give the same distribution; and neighbours keep epsilon * distance."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(30, 2)) * 2
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    epsilon, beta = 3.0, 0.01
    threshold = exponential.TruncatedExponential.threshold_for(epsilon, 30, beta)
    choice = exponential.TruncatedExponential(epsilon, threshold, 30)
    found = choice.distribution(distances)
    for i in range(30):
        near = distances[i] <= threshold
        far = 30 - near.sum()
        scores = np.append(-distances[i][near], -threshold + 2 * math.log(far) / epsilon if far else -np.inf)
        stage = np.exp(epsilon * scores / 2)
        stage /= stage.sum()
        naive = np.full(30, stage[-1] / far if far else 0.0)
        naive[near] = stage[:-1]
        assert np.allclose(found[i], naive, atol=1e-9)
    log = np.log(found)
    assert (np.abs(log[:, None] - log).max(axis=2) <= epsilon * distances + 1e-12).all()
    assert (found * (distances > threshold)).sum(axis=1).max() <= beta


SCORES = np.array([[0.3, 2.0, 1.7, -4.0, 0.0, 1.99, 0.5]])


def families():
    """Every choice as a function of its epsilon, at the epsilon that is tested."""
    yield "exponential", exponential.Exponential, 3.0, SCORES
    yield "permute and flip", exponential.PermuteAndFlip, 3.0, SCORES
    yield "clipped", lambda e: exponential.ClippedExponential(0, 2, 2 / e, 7), 4.0, SCORES
    yield "top k", lambda e: top_k.TopKRandomizedResponse(e, 2, 7), 2.0, SCORES


@pytest.mark.parametrize(("name", "make", "epsilon", "scores"), list(families()), ids=[f[0] for f in families()])
def test_draws_fit_their_distribution_and_none_of_another_scale(name, make, epsilon, scores) -> None:
    choice = make(epsilon)
    assert agrees(choice, scores) > 1e-4
    for factor in (2 / 3, 3 / 2):
        planted = type("Planted", (), {"distribution": make(factor * epsilon).distribution, "choose": choice.choose})()
        assert agrees(planted, scores) < 1e-4


def test_draws_of_one_mechanism_do_not_fit_another() -> None:
    flip, by_score = exponential.PermuteAndFlip(3.0), exponential.Exponential(3.0)
    planted = type("Planted", (), {"distribution": by_score.distribution, "choose": flip.choose})()
    assert agrees(planted, SCORES) < 1e-4


def test_truncated_exponential_draws_near_and_far() -> None:
    choice = exponential.TruncatedExponential(2.0, 3.0, 10)
    near = np.array([[0.0, 1.0, 5.0, np.inf]]).repeat(N, 0)
    counts = np.bincount(choice.choose(near, seeded(6)) + 1, minlength=5)
    assert counts[4] == 0
    for factor, fits in ((1, True), (2 / 3, False), (3 / 2, False)):
        epsilon = 2.0 * factor
        weights = np.exp(-epsilon * np.array([3.0, 0.0, 1.0, 3.0]) / 2) * [7, 1, 1, 1]  # -1, then the columns
        assert (stats.chisquare(counts[:4], weights / weights.sum() * N).pvalue > 1e-4) == fits
    everything = np.arange(10.0)[None, :].repeat(100, 0)
    assert (choice.choose(everything, seeded(6)) >= 0).all()


def test_the_rounding_of_weights_is_paid_for() -> None:
    """The stated epsilon leaves room for what rounding e^w to integers can add."""
    for mechanism in (exponential.Exponential(1.0), exponential.PermuteAndFlip(1.0)):
        here = np.array([[-60.0, 0.0]])
        ratio = mechanism.distribution(np.add(here, [[1.0, -1.0]]))[0, 0] / mechanism.distribution(here)[0, 0]
        assert 1.0 - math.log(ratio) > weights.ROUNDING_LOSS / 2
        assert mechanism.event.epsilon == 1.0


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_any_finite_scores_give_a_choice(rows) -> None:
    scores = np.array(rows)
    for choice in (
        exponential.Exponential(1.0),
        exponential.PermuteAndFlip(1.0),
        top_k.TopKRandomizedResponse(1.0, 2, 4),
    ):
        chosen = choice.choose(scores, seeded(0))
        assert ((chosen >= 0) & (chosen < 4)).all()
        assert np.isfinite(choice.distribution(scores)).all()


def test_ties_go_to_the_lower_index() -> None:
    assert top_k.TopKRandomizedResponse(9.0, 2, 5).event == events.TopKEvent(9.0, 2, 5)
    scores = np.array([[1.0, 2.0, 2.0, 2.0, 0.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    mask = top_k.TopKRandomizedResponse(9.0, 2, 5).distribution(scores) > 0.1
    assert mask.tolist() == [[False, True, True, False, False], [True, True, False, False, False]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: exponential.Exponential(0.0),
        lambda: exponential.Exponential(1.0, 0.0),
        lambda: exponential.ClippedExponential(1.0, 1.0, 1.0, 5),
        lambda: top_k.TopKRandomizedResponse(1.0, 5, 5),
        lambda: exponential.TruncatedExponential(10.0, 100.0, 5),
        lambda: top_k.TopKRandomizedResponse(1.0, 2, 5).choose(np.zeros((2, 4)), seeded(0)),
        lambda: exponential.Exponential(1.0).choose(np.zeros(4), seeded(0)),
    ],
)
def test_bad_settings_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        make()
