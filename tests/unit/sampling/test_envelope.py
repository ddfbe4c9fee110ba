"""The choice of an envelope: exact whole numbers, its epsilon, faults planted in it; the best envelope against a linear
program over all channels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, sparse

from dptext.audits.trials.density import SIGNIFICANT, distribution_p_value
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.events import PureEvent
from dptext.sampling import envelope as module
from dptext.sampling.envelope import (
    EnvelopeResponse,
    best_envelope,
    expected_utility,
    limit,
    top_k_envelope,
    tuned_response,
)
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.top_k import TopKRandomizedResponse

EPSILONS = [1e-9, 0.01, 1.0, 5.0, 10.0, 30.0, 44.0, 100.0, 1000.0]


def e_to(epsilon: float) -> Fraction:
    """A little less than e^epsilon, by 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(epsilon).exp()) * (1 - Fraction(1, 10**58))


def some_envelope(rng: np.random.Generator, size: int, epsilon: float) -> np.ndarray:
    """Chances of very different size, some 0, whose sum lies between e^-epsilon and 1."""
    found = rng.gamma(0.3, size=size) * (rng.random(size) < 0.7)
    found[rng.integers(size)] += 0.1
    return found / found.sum() * math.exp(-min(epsilon, 90.0) * rng.choice([0.0, 0.5, 0.9, 1.0]))


def random_response(rng: np.random.Generator, size: int, epsilon: float) -> EnvelopeResponse:
    return EnvelopeResponse.of(some_envelope(rng, size, epsilon), epsilon=epsilon)


def raised(response: EnvelopeResponse, scores: Sequence[float]) -> list[tuple[int, int]]:
    """What each option is given, the best first: by counting, in integers of any size."""
    least, most = response.least.tolist(), response.most.tolist()
    spare, found = response.total - sum(least), []
    for i in sorted(range(len(least)), key=lambda i: (-scores[i], i)):
        given = min(spare, most[i] - least[i])
        found.append((i, given))
        spare -= given
    return found


def weights_of(response: EnvelopeResponse, scores: Sequence[float]) -> list[int]:
    found = response.least.tolist()
    for i, given in raised(response, scores):
        found[i] += given
    return found


class Draws:
    """Stands for `uniform_below`: every row gets the same given numbers in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        monkeypatch.setattr(module, "uniform_below", self)

    def __call__(self, bound: int, size: int, _: object) -> np.ndarray:
        assert size == len(self.numbers)
        assert 0 <= min(self.numbers) <= max(self.numbers) < bound
        return np.array(self.numbers, np.uint64)


def counted(response: EnvelopeResponse, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """For each row of scores how many of the `total` draws there can be give each option."""
    Draws(monkeypatch, range(response.total))
    chosen = [response.choose(np.repeat(row[None], response.total, axis=0), seeded(0)) for row in scores]
    return [np.bincount(found, minlength=len(response.least)).tolist() for found in chosen]


def excess(rows: Sequence[Sequence[int]]) -> float:
    """The largest log ratio of two rows of weights that have one sum; ValueError where their sums differ."""
    if len({sum(row) for row in rows}) != 1:
        raise ValueError("rows of different sums")
    worst = Fraction(1)
    for of_option in zip(*rows, strict=True):
        if max(of_option):
            if not min(of_option):
                return math.inf
            worst = max(worst, Fraction(max(of_option), min(of_option)))
    return math.log(worst)


def within(rows: Sequence[Sequence[int]], epsilon: float) -> bool:
    """Whether no two rows are further apart than epsilon, in exact arithmetic."""
    factor = e_to(epsilon)
    return all(max(of_option) <= factor * min(of_option) for of_option in zip(*rows, strict=True))


# ------------------------------------------------------------------------------------------ whole numbers


@pytest.mark.slow_cases(
    "200-0.01", "200-5.0", "200-10.0", "200-30.0", "200-44.0", "200-100.0", why="fewer options stay at each epsilon"
)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [1, 2, 7, 200])
def test_weights_lie_between_least_and_most_and_add_up(epsilon, size):
    rng = np.random.default_rng(size)
    for _ in range(5):
        response = random_response(rng, size, epsilon)
        least, most = response.least.tolist(), response.most.tolist()
        assert all(a <= b <= e_to(epsilon) * a for a, b in zip(least, most, strict=True))
        assert sum(least) <= response.total <= min(sum(most), 1 << 62)
        scores = rng.integers(-9, 9, (6, size)).astype(np.int16)
        rows = [weights_of(response, row) for row in scores.tolist()]
        for row in rows:
            assert sum(row) == response.total
            assert all(a <= weight <= b for a, weight, b in zip(least, row, most, strict=True))
        exact = np.array([[float(Fraction(weight, response.total)) for weight in row] for row in rows])
        np.testing.assert_allclose(response.distribution(scores), exact, rtol=1e-15, atol=0)
        assert within(rows, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_envelope_is_kept_as_closely_as_whole_numbers_can(epsilon):
    rng = np.random.default_rng(3)
    wanted = some_envelope(rng, 40, epsilon)
    response = EnvelopeResponse.of(wanted, epsilon=epsilon)
    assert ((response.least > 0) == (wanted > 0)).all()
    if epsilon <= 30:
        np.testing.assert_allclose(response.least / response.total, wanted, rtol=1e-9 + 1e-9 * math.exp(epsilon / 2))
    assert response.event == PureEvent(epsilon)
    assert response.epsilon == epsilon


@pytest.mark.parametrize(
    ("least", "total", "epsilon"), [([1, 2, 0, 3], 12, 1.0), ([5], 5, 1.0), ([4, 4], 9, 0.3), ([7, 1, 2, 9], 30, 2.5)]
)
def test_all_draws_are_counted(least, total, epsilon, monkeypatch):
    """Each number below the total gives one option: so many as its weight is."""
    response = EnvelopeResponse(epsilon, np.array(least), total)
    scores = np.array(list(itertools.product([-1, 0, 1], repeat=len(least))), np.int16)
    rows = counted(response, scores, monkeypatch)
    assert rows == [weights_of(response, row) for row in scores.tolist()]
    assert within(rows, epsilon)
    assert excess(rows) <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_draws_at_the_ends_of_each_option_give_it(epsilon, monkeypatch):
    rng = np.random.default_rng(7)
    for size in (2, 9):
        response = random_response(rng, size, epsilon)
        scores = rng.integers(-2, 3, size).astype(np.int16)
        given = [*enumerate(response.least.tolist()), *raised(response, scores.tolist())]
        numbers, expected, start = [], [], 0
        for option, weight in given:
            if weight:
                numbers += [start, start + weight - 1]
                expected += [option, option]
            start += weight
        assert start == response.total
        Draws(monkeypatch, numbers)
        found = response.choose(np.repeat(scores[None], len(numbers), axis=0), seeded(0))
        assert found.tolist() == expected


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 7.0])
def test_many_pairs_reach_epsilon_and_no_more(epsilon):
    rng = np.random.default_rng(1)
    least = np.r_[rng.random(30), 0.0]
    response = EnvelopeResponse.of(least / least.sum() * math.exp(-epsilon / 2), epsilon=epsilon)
    rows = response.distribution(rng.normal(size=(500, 31)))[:, :30]
    logs = np.log(rows)
    found = float((logs.max(axis=0) - logs.min(axis=0)).max())
    assert found <= epsilon + 1e-12
    assert found == pytest.approx(epsilon, abs=1e-9)


def test_of_equal_options_the_first_is_raised():
    response = EnvelopeResponse.of(np.full(6, 1 / (2 * math.e**2 + 4)), epsilon=2.0)
    for scores in (np.zeros((1, 6)), np.full((1, 6), 7, np.int16), np.array([[0.0, -0.0, 0, -0.0, 0, 0]])):
        assert (response.distribution(scores)[0] > 0.2).tolist() == [True, True, False, False, False, False]
    later = np.array([[0, 0, 3, 0, 3, 3]], np.int16)
    assert (response.distribution(later)[0] > 0.2).tolist() == [False, False, True, False, True, False]


def test_an_option_without_weight_never_appears(monkeypatch):
    response = EnvelopeResponse(2.0, np.array([0, 3, 0, 2, 0]), 12)
    scores = np.array([[9, 0, 9, 0, 9], [9, 1, 0, 2, 0]], np.int16)
    assert (response.distribution(scores)[:, [0, 2, 4]] == 0).all()
    assert all(row[0] == row[2] == row[4] == 0 for row in counted(response, scores, monkeypatch))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32, np.float64])
def test_whole_scores_of_any_type_give_the_same(dtype):
    rng = np.random.default_rng(2)
    response = random_response(rng, 50, 3.0)
    scores = rng.integers(-32_768, 32_768, (40, 50)).astype(np.int16)
    scores[0, :2] = -32_768, 32_767
    found = scores.astype(dtype)
    assert (response.distribution(found) == response.distribution(scores)).all()
    assert (response.choose(found, seeded(5)) == response.choose(scores, seeded(5))).all()


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 12.0])
@pytest.mark.parametrize(("k", "size"), [(1, 2), (1, 9), (4, 9), (8, 9), (20, 5000)])
def test_equal_least_weights_are_top_k_randomized_response(epsilon, k, size):
    scores = np.random.default_rng(0).integers(-50, 50, (3, size)).astype(np.int16)
    found = EnvelopeResponse.of(top_k_envelope(k, size, epsilon=epsilon), epsilon=epsilon).distribution(scores)
    known = TopKRandomizedResponse(epsilon, k, size).distribution(scores)
    np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-8)  # what is over goes to the next option


def test_rows_are_chosen_in_blocks_as_alone(monkeypatch):
    response = random_response(np.random.default_rng(4), 30, 2.0)
    scores = np.random.default_rng(5).integers(-9, 9, (200, 30)).astype(np.int16)
    whole = response.choose(scores, seeded(1))
    monkeypatch.setattr("dptext.sampling.weights.OPTIONS_AT_ONCE", 70)
    assert (response.choose(scores, seeded(1)) == whole).all()
    assert response.choose(scores[:0], seeded(1)).shape == (0,)


@pytest.mark.parametrize("source", [seeded(3), secure()])
def test_frequencies_are_the_declared_ones(source):
    rng = np.random.default_rng(6)
    response = EnvelopeResponse.of(rng.dirichlet(np.ones(12)) * 0.4, epsilon=2.0)
    scores = rng.normal(size=(1, 12))
    declared = dict(enumerate(response.distribution(scores)[0].tolist()))
    drawn = response.choose(np.repeat(scores, 8000, axis=0), source).tolist()
    assert distribution_p_value(declared, drawn) > 1e-5
    for epsilon in (1.5, 2.5):  # of another scale
        other = EnvelopeResponse.of(response.least / response.total, epsilon=epsilon)
        drawn = other.choose(np.repeat(scores, 8000, axis=0), source).tolist()
        assert distribution_p_value(declared, drawn) < SIGNIFICANT


def test_scores_that_are_no_numbers_are_refused():
    response = EnvelopeResponse(1.0, np.array([1, 1]), 3)
    for wrong, error in (
        (np.array([[0.0, math.nan]]), PrivacyError),
        (np.array([[0.0, math.inf]]), PrivacyError),
        (np.zeros((1, 3)), ConfigError),
        (np.zeros((1, 3), np.int16), ConfigError),
        (np.zeros(2), ConfigError),
    ):
        for of in (response.distribution, lambda scores: response.choose(scores, seeded(0))):
            with pytest.raises(error):
                of(wrong)


def test_how_many_are_in_play():
    assert EnvelopeResponse(1.0, np.array([0, 1, 0]), 2).in_play() == 1
    assert EnvelopeResponse(1.0, np.array([99, 1, 0]), 200).in_play() == 1
    assert EnvelopeResponse(1.0, np.array([98, 1, 1]), 200).in_play() == 2
    assert EnvelopeResponse.of(top_k_envelope(3, 1000, epsilon=1.0), epsilon=1.0).in_play() == pytest.approx(990, abs=1)


# --------------------------------------------------------------------------------------------- planted faults


class RoundsUp(EnvelopeResponse):
    """The largest weight is one more than e^epsilon allows."""

    __slots__ = ()

    @property
    def most(self):
        return super().most + (self.least > 0)


class BeyondTheTotal(EnvelopeResponse):
    """All options are raised, whatever is to be given."""

    __slots__ = ()

    def _raised(self, order):
        return np.cumsum((self.most - self.least)[order], axis=1)


class TotalOfTheRow(EnvelopeResponse):
    """A row raises its options above 0, and is divided by what they add up to."""

    __slots__ = ()

    def distribution(self, scores):
        weights = np.where(scores > 0, self.most, self.least)
        return weights / weights.sum(axis=1, keepdims=True)


def test_a_weight_that_is_rounded_up_is_caught(monkeypatch):
    scores = np.array(list(itertools.permutations(range(4))), np.int16)
    for least, total in (([3, 1, 2, 4], 20), ([30, 10, 20, 40], 170)):
        for kind, sound in ((EnvelopeResponse, True), (RoundsUp, False)):
            rows = counted(kind(1.0, np.array(least), total), scores, monkeypatch)
            assert within(rows, 1.0) == sound
            assert (excess(rows) <= 1.0) == sound


def test_raising_beyond_the_total_is_caught():
    scores = np.arange(4.0)[None]
    least, kinds = np.array([3, 1, 2, 4]), (EnvelopeResponse, BeyondTheTotal)
    sums = [kind(1.0, least, 20).distribution(scores).sum() for kind in kinds]
    assert sums[0] == pytest.approx(1, abs=1e-15)
    assert sums[1] > 1.2


def test_a_total_that_depends_on_the_row_is_caught():
    scores = np.array([[1.0] * 4, [-1.0] * 3 + [1.0], [1.0] * 3 + [-1.0]])
    found = []
    for kind in (EnvelopeResponse, TotalOfTheRow):
        logs = np.log(kind(1.0, np.array([300, 100, 200, 400]), 1700).distribution(scores))
        found.append(float((logs.max(axis=0) - logs.min(axis=0)).max()))
    assert found[0] <= 1.0
    assert found[1] > 1.1


@pytest.mark.parametrize(
    ("least", "total", "epsilon"),
    [
        ([1, 2, 3], 5, 1.0),  # below the least
        ([1, 2, 3], 16, 1.0),  # 2 + 5 + 8 at most
        ([1, 2, 3], 7, 1e-3),
        ([1, 2, 3], -7, 1.0),
        ([1, 2, 3], 7.0, 1.0),
        ([1], True, 1.0),
        ([1, 2, 3], np.int64(7), 1.0),
        ([1, 2, 3], None, 1.0),
        ([1, 2, 3], 1 << 200, 1000.0),
        ([1, 2, 3], 1 << 2000, 1000.0),
        ([1, 2, 3], 1 << 61, 1000.0),  # sums of three would not fit
        ([1 << 61, 1 << 61], 1 << 62, 1.0),
        ([(1 << 63) - 1] * 3, (1 << 63) - 1, 1.0),
        ([0, 0], 0, 1.0),
        ([], 0, 1.0),
        ([-1, 3], 4, 1.0),
        ([[1, 2]], 4, 1.0),
        ([1.0, 2.0], 4, 1.0),
        ([True, True], 3, 1.0),
        ([1, 2, 3], 7, 0.0),
        ([1, 2, 3], 7, -1.0),
        ([1, 2, 3], 7, math.nan),
        ([1, 2, 3], 7, math.inf),
    ],
)
def test_wrong_constructions_are_refused(least, total, epsilon):
    with pytest.raises(ConfigError):
        EnvelopeResponse(epsilon, np.array(least), total)


# ------------------------------------------------------------------------------------------ the best envelope


def of_all_channels(u: np.ndarray, epsilon: float) -> float:
    """The largest expected utility of any Q(y | x) with a(y) <= Q(y | x) <= e^epsilon a(y): a linear program."""
    n, m = u.shape
    every, each = sparse.identity(n * m), sparse.vstack([sparse.identity(m)] * n)
    above = sparse.hstack([every, -math.exp(epsilon) * each])
    below = sparse.hstack([-every, each])
    sums = sparse.hstack([sparse.kron(sparse.identity(n), np.ones((1, m))), sparse.csr_array((n, m))])
    found = optimize.linprog(
        -np.r_[u.ravel() / n, np.zeros(m)],
        A_ub=sparse.vstack([above, below]).tocsr(),
        b_ub=np.zeros(2 * n * m),
        A_eq=sparse.csr_array(sums),
        b_eq=np.ones(n),
        method="highs",
    )
    assert found.status == 0
    return float(-found.fun)


def instances(rng: np.random.Generator):
    """Utilities without structure, of points in space, and of labels."""
    for n, m in ((6, 5), (12, 30), (30, 12), (25, 25)):
        yield rng.random((n, m))
        one, other = rng.normal(size=(n, 4)), rng.normal(size=(m, 4))
        yield one @ other.T / np.linalg.norm(one, axis=1)[:, None] / np.linalg.norm(other, axis=1)
        yield 0.2 * rng.random((n, m)) + (rng.integers(3, size=n)[:, None] == rng.integers(3, size=m))


@pytest.mark.slow_cases("1.0", "2.0", "5.0", "10.0", why="epsilon 0.5 stays")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0, 10.0])
def test_the_best_envelope_against_the_best_of_all_channels(epsilon):
    """No envelope is better than the best channel, no bound is below it; and both are near to it."""
    shares = []
    for u in itertools.islice(instances(np.random.default_rng(0)), 9):  # more options take the linear program long
        best = of_all_channels(u, epsilon)
        solved = limit(u, epsilon=epsilon)
        found, bound = solved.value, solved.bound
        assert found <= best + 1e-7
        assert best - 1e-7 <= bound < best * 1.02
        assert found >= best * 0.99
        shares.append(found / best)
    assert np.mean(shares) > 0.995


def test_the_best_envelope_is_a_choice_of_all_channels():
    u = next(instances(np.random.default_rng(3)))
    for epsilon in (0.5, 2.0, 6.0):
        envelope = best_envelope(u, epsilon=epsilon)
        assert (envelope >= 0).all()
        assert math.exp(-epsilon) <= envelope.sum() <= 1 + 1e-12
        chances = EnvelopeResponse.of(envelope, epsilon=epsilon).distribution(u)
        expected = expected_utility(envelope, u, u, epsilon=epsilon)
        np.testing.assert_allclose((chances * u).sum(axis=1), expected, rtol=1e-9)
        # Raised by other scores than the gains it is worth less.
        assert expected_utility(envelope, -u, u, epsilon=epsilon).mean() < expected.mean()


@pytest.mark.slow  # test_the_best_envelope_against_the_best_of_all_channels stays
def test_a_larger_epsilon_gains_more():
    epsilons = (0.2, 1.0, 2.0, 5.0, 30.0)
    for u in itertools.islice(instances(np.random.default_rng(4)), 3):
        solved = [limit(u, epsilon=epsilon) for epsilon in epsilons]
        values = np.array([found.value for found in solved])
        assert (values[1:] > 0.97 * values[:-1]).all()
        assert values[-1] == pytest.approx(u.max(axis=1).mean(), rel=2e-3)  # the best of each
        assert solved[0].bound < 1.2 * u.mean(axis=0).max() + 0.2 * u.std()  # hardly more than one option for all


@pytest.mark.parametrize("wrong", [np.array([[0.0, math.nan]]), np.array([[math.inf, 1.0]]), np.zeros(3)])
def test_utilities_that_are_no_numbers_are_refused(wrong):
    with pytest.raises((ConfigError, PrivacyError)):
        best_envelope(wrong, epsilon=1.0)


def steps(u: np.ndarray) -> np.ndarray:
    return np.rint(u * 4096).astype(np.int16)


def gained(response: EnvelopeResponse, u: np.ndarray) -> float:
    return float((response.distribution(steps(u)) * u).sum(axis=1).mean())


def test_options_that_are_an_input_itself_do_not_count():
    rng = np.random.default_rng(5)
    scores = steps(rng.random((40, 30)) * 0.3 + 0.6 * (rng.integers(4, size=40)[:, None] == rng.integers(4, size=30)))
    own = np.arange(40)[:, None] == np.arange(30)[None, :]
    plain = tuned_response(scores, own, epsilon=2.0, seed=0)
    assert len(set(plain.least.tolist())) > 2  # made of the gains, not of the number of options alone
    for value in (-4096, 0, 32_000):
        other = tuned_response(np.where(own, value, scores).astype(np.int16), own, epsilon=2.0, seed=0)
        assert (other.least == plain.least).all()
        assert other.total == plain.total
    counting = tuned_response(np.where(own, 32_000, scores).astype(np.int16), own & False, epsilon=2.0, seed=0)
    assert (counting.least != plain.least).any()


def test_an_envelope_that_fits_its_few_inputs_too_closely_is_mixed(monkeypatch):
    """Of options as good as any other: the best envelope keeps those that happen to suit the inputs it is made for."""
    rng = np.random.default_rng(6)
    few, others = rng.random((24, 200)), rng.random((500, 200))
    own = np.zeros(few.shape, bool)
    mixed = tuned_response(steps(few), own, epsilon=8.0, seed=0)
    monkeypatch.setattr(module, "MIXTURES", (0.0,))
    plain = tuned_response(steps(few), own, epsilon=8.0, seed=0)
    assert gained(plain, few) > gained(mixed, few)
    assert gained(mixed, others) > gained(plain, others) + 0.02


def test_the_same_seed_makes_the_same_choice():
    scores = steps(np.random.default_rng(8).random((20, 12)))
    own = np.zeros(scores.shape, bool)
    kept, before = scores.copy(), [tuned_response(scores, own, epsilon=3.0, seed=1) for _ in range(2)]
    assert (before[0].least == before[1].least).all()
    assert (scores == kept).all()  # the caller's own
    one = tuned_response(scores[:1], own[:1], epsilon=3.0, seed=1)  # of one input
    assert one.distribution(scores[:1]).argmax() == scores[0].argmax()
