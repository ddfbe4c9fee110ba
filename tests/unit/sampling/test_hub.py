"""Hub decoding: every option near its public probability, whatever the private text suggests."""

import math
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dptext.errors import ConfigError
from dptext.privacy import accounting
from dptext.privacy.events import TopKEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.sampling.hub import PARTS, Hub
from dptext.sampling.randomness import secure


def rows(seed: int, n: int, size: int, alpha: float) -> np.ndarray:
    """Random probabilities, the more uneven the smaller alpha."""
    return np.random.default_rng(seed).dirichlet(np.full(size, alpha), n)


@given(st.floats(1e-4, 24), st.integers(2, 300), st.integers(0, 1000), st.sampled_from([0.005, 0.1, 10.0]))
def test_no_two_private_texts_differ_by_more_than_epsilon(epsilon: float, size: int, seed: int, alpha: float) -> None:
    hub = Hub(epsilon, size)
    public = np.repeat(rows(seed, 1, size, alpha), 12, axis=0)
    private = rows(seed + 1, 12, size, 0.01)
    private[0], private[1] = public[0], 0.0
    parts = hub.parts(private, public)
    assert (parts.sum(axis=1) == PARTS).all()
    assert (parts == np.floor(parts)).all()
    # exact: fractions are compared, with an e^epsilon that is too small by less than 1e-60
    most, least = parts.max(axis=0), parts.min(axis=0)
    ratio = below_exp(epsilon)
    assert all(int(a) <= int(b) * ratio for a, b in zip(most, least, strict=True))


def below_exp(value: float) -> Fraction:
    """A fraction a little below e^value."""
    with localcontext() as context:
        context.prec, context.rounding = 80, ROUND_FLOOR
        return Fraction(Decimal(value).exp()) * (1 - Fraction(1, 10**70))


def test_the_smallest_epsilons_keep_what_they_say() -> None:
    """The rounding of e^h is absolute: slack in proportion to a small epsilon would not cover it."""
    for epsilon in (1e-4, 1.7e-4):
        public = np.random.default_rng(0).dirichlet(np.ones(2), 20_000)
        least, most = Hub(epsilon, 2)._limits(public)
        ratio = below_exp(epsilon)
        assert all(int(a) <= int(b) * ratio for a, b in zip(most.ravel(), least.ravel(), strict=True))


@pytest.mark.parametrize("epsilon", [18.0, 20.0, 24.0])
def test_what_is_left_goes_to_others_in_proportion(epsilon: float) -> None:
    """A text that suggests one rare word: nothing else is favoured for its place in the vocabulary."""
    public = rows(5, 1, 1000, 1.0)
    rare = int(np.argsort(public[0])[20])
    private = np.zeros_like(public)
    private[0, rare] = 1.0
    hub = Hub(epsilon, 1000)
    ratio = np.delete(hub.parts(private, public)[0] / hub._limits(public)[0][0], rare)
    assert ratio.max() < 1.5 * np.median(ratio)


def test_the_bound_is_attained() -> None:
    hub, size = Hub(4.0, 50), 50
    public = np.full((2, size), 1 / size)
    private = np.zeros((2, size))
    private[0, :6] = private[1, -6:] = 1.0  # 6 of 50: a little more than the share 1 / (1 + e^2)
    found = hub.distribution(private, public)
    assert np.log(found[0] / found[1]).max() == pytest.approx(4.0, abs=0.02)
    assert found[0, 3] == pytest.approx(math.exp(2) / size, rel=0.02)


def test_what_a_text_suggests_is_followed_where_it_may_be() -> None:
    public = np.array([[0.4, 0.3, 0.2, 0.1]])
    private = np.array([[0.3, 0.3, 0.25, 0.15]])
    # within the bounds nothing is clipped
    np.testing.assert_allclose(Hub(3.0, 4).distribution(private, public), private, atol=1e-6)


def test_what_is_no_probability_counts_as_none() -> None:
    hub, public = Hub(2.0, 3), np.full((1, 3), 1 / 3)
    found = hub.parts(np.array([[-1.0, 0.5, 0.5]]), public)
    np.testing.assert_array_equal(found, hub.parts(np.array([[0.0, 0.5, 0.5]]), public))


def test_draws_follow_the_distribution() -> None:
    hub = Hub(2.0, 5)
    public, private = rows(3, 1, 5, 1.0), rows(4, 1, 5, 0.2)
    n = 6_000
    drawn = hub.choose(np.repeat(private, n, axis=0), np.repeat(public, n, axis=0), secure())
    counts = np.bincount(drawn, minlength=5)
    assert stats.chisquare(counts, hub.distribution(private, public)[0] * n).pvalue > 1e-6
    wrong = Hub(6.0, 5).distribution(private, public)[0] * n
    assert stats.chisquare(counts, wrong).pvalue < 1e-6


def hockey_stick(first: np.ndarray, second: np.ndarray, at: float) -> float:
    """The divergence of two distributions at e^at."""
    return float(np.maximum(first - math.exp(at) * second, 0).sum())


def stated(event: TopKEvent, at: float) -> float:
    """The same of the event's two worst distributions."""
    share, high = event.k / event.size, math.exp(event.epsilon)
    total = share * high + 1 - share
    return max(share * (high - math.exp(at)) / total, 0.0)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("alpha", [0.02, 1.0, 100.0])
def test_the_event_dominates_every_pair(epsilon: float, alpha: float) -> None:
    size = 400
    hub = Hub(epsilon, size)
    public = np.repeat(rows(5, 1, size, alpha), 40, axis=0)
    private = rows(6, 40, size, 0.02)
    # the extreme ones too: all on disjoint sets of the mass at which the bound is attained
    cut = np.searchsorted(np.cumsum(public[0]), [0.5 / (1 + math.exp(epsilon / 2)), 0.5])
    private[0], private[1] = np.arange(size) <= cut[0], np.arange(size) >= cut[1]
    found = hub.distribution(private, public)
    for at in np.linspace(0, epsilon, 9):
        worst = max(hockey_stick(found[i], found[j], at) for i in range(12) for j in range(12))
        assert worst <= stated(hub.event, at) + 1e-9


def test_a_smaller_set_would_not_dominate() -> None:
    hub, size = Hub(2.0, 1000), 1000
    share = 1 / (1 + math.e)
    n = round(share * size)
    private = np.zeros((2, size))
    private[0, :n], private[1, -n:] = 1.0, 1.0
    found = hub.distribution(private, np.full((2, size), 1 / size))
    event = hub.event
    assert hockey_stick(found[0], found[1], 0.5) == pytest.approx(stated(event, 0.5), rel=0.01)
    assert hockey_stick(found[0], found[1], 0.5) > stated(replace(event, k=event.k // 2), 0.5)


def test_accounting_knows_the_event() -> None:
    event = replace(Hub(0.5, 100).event, count=20)
    pure = accounting.guarantee((event,), 0.0, unit=Unit.DOCUMENT, relation=Relation.REPLACE_ONE, basis=Basis.PROVEN)
    some = accounting.guarantee((event,), 1e-5, unit=Unit.DOCUMENT, relation=Relation.REPLACE_ONE, basis=Basis.PROVEN)
    assert pure.epsilon == pytest.approx(10.0)
    assert some.epsilon < 9.5


def test_a_hub_that_depends_on_the_text_is_no_hub() -> None:
    hub, size = Hub(2.0, 4), 4
    private = np.eye(size)[:2]
    found = hub.parts(private, np.maximum(private, 1e-3))  # the planted fault: each text brings its own
    assert np.log(found[0] / found[1]).max() > 2.0


@pytest.mark.parametrize(("epsilon", "size"), [(0.0, 4), (30.0, 4), (1.0, 1), (1.0, 70_000)])
def test_settings_are_checked(epsilon: float, size: int) -> None:
    with pytest.raises(ConfigError):
        Hub(epsilon, size)


def test_shapes_are_checked() -> None:
    with pytest.raises(ConfigError, match="shape"):
        Hub(1.0, 4).parts(np.ones((1, 3)), np.ones((1, 3)))
