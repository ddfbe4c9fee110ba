"""Equal events are composed by their count: as much as a list of them costs, and in little more time than one takes."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.privacy import accounting, curves
from dptext.privacy.events import (
    ApproximateEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    PureEvent,
    TopKEvent,
    TwoSetEvent,
    ZcdpEvent,
)

KINDS: list[Event] = [
    PureEvent(0.3),
    TopKEvent(1.5, 5, 100),
    TwoSetEvent(0.5, 5, 100),
    ExponentialEvent(0.7, 50),
    GaussianEvent(3.0),
    ZcdpEvent(0.02),
    ApproximateEvent(0.1, 1e-9),
]


def composed_one_by_one(events: list[Event]) -> tuple[Event, ...]:
    """As `compose`, from its meaning."""
    found: list[Event] = []
    for event in events:
        there = [i for i, each in enumerate(found) if replace(each, count=1) == replace(event, count=1)]
        if there:
            found[there[0]] = replace(found[there[0]], count=found[there[0]].count + event.count)
        else:
            found.append(event)
    return tuple(found)


@given(st.lists(st.builds(replace, st.sampled_from(KINDS), count=st.integers(1, 4)), min_size=1, max_size=9))
def test_composing_counts_equal_events(events: list[Event]) -> None:
    found = accounting.compose(events)
    assert found == composed_one_by_one(events)
    assert [
        e for each in accounting.compose([PureEvent(0.0), PureEvent(-0.0, 2)]) for e in (each.epsilon, each.count)
    ] == [
        0.0,
        3,
    ]


@pytest.mark.slow_cases(
    *("epsilon-3-1e-09", "epsilon-3-1e-05"), why="one kind stays at each delta, and three kinds without one"
)
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("bound", [accounting.epsilon, accounting.quick_epsilon])
def test_a_list_costs_what_its_counts_cost(bound: accounting.Bound, kinds: int, delta: float) -> None:
    for chosen in itertools.islice(itertools.combinations(KINDS, kinds), 0, None, kinds):
        listed = [event for event in chosen for _ in range(6)]
        assert bound(listed, delta) == bound([replace(event, count=6) for event in chosen], delta)


LONG = [
    TopKEvent(0.02, 1, 2, 1500),
    TopKEvent(0.5, 5, 1000, 2500),
    TopKEvent(3.0, 5, 20_000, 4097),
    TopKEvent(8.0, 1, 2, 1025),
    TopKEvent(0.1, 400, 1000, 3001),
]


@pytest.mark.parametrize("event", LONG)
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.1])
def test_long_distributions_leave_out_what_is_no_part_of_delta(event: TopKEvent, delta: float) -> None:
    """What is left out counts as lost, so that epsilon is never below that of the whole distribution."""
    short = curves.top_k_net_losses(event, delta * curves.NEGLIGIBLE)
    whole = curves.top_k_net_losses(event)
    assert len(short.mass) < len(whole.mass) == 2 * event.count + 1
    assert math.fsum(short.mass) + short.missing >= math.fsum(whole.mass) * (1 - 1e-11)
    assert short.missing < 1e-9 * delta
    at = short.lowest - whole.lowest
    assert np.allclose(short.mass, whole.mass[at : at + len(short.mass)], rtol=1e-6, atol=delta * 1e-15)
    found = curves.top_k_epsilon(event, delta)
    assert found == event.epsilon * event.count or curves.top_k_delta(event, found) <= delta, (
        "by the whole distribution"
    )
    assert found == 0 or curves.top_k_delta(event, found * (1 - 1e-6)) > delta, "no larger than it has to be"


def test_what_is_left_out_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: with too much left out and not counted, the whole distribution refutes epsilon."""
    event, delta = TopKEvent(0.02, 1, 2, 1500), 1e-9
    monkeypatch.setattr(curves, "NEGLIGIBLE", 1e3)
    assert curves.top_k_delta(event, curves.top_k_epsilon(event, delta)) <= delta
    after = curves.NetLosses.after

    def forgetful(first: curves.NetLosses, other: curves.NetLosses, negligible: float) -> curves.NetLosses:
        return replace(after(first, other, negligible), missing=0.0)

    monkeypatch.setattr(curves.NetLosses, "after", forgetful)
    assert curves.top_k_delta(event, curves.top_k_epsilon(event, delta)) > delta


@pytest.mark.parametrize("event", [TopKEvent(0.5, 5, 1000), TopKEvent(0.02, 1, 2), TopKEvent(1e-4, 400, 1000)])
@pytest.mark.parametrize("count", [20_000, 20_001])
def test_a_transform_has_the_distribution_of_repeated_squaring(event: TopKEvent, count: int) -> None:
    """Two ways to one distribution; an odd number of choices between two has odd net losses alone."""
    event = replace(event, count=count)
    whole, found = curves.top_k_net_losses(event, 1e-30), curves.many_net_losses(event)
    assert found is not None
    assert found.missing < 3e-13
    masses = {whole.lowest + i: mass for i, mass in enumerate(whole.mass.tolist())}
    others = {found.lowest + i: mass for i, mass in enumerate(found.mass.tolist())}
    assert math.fsum(others.values()) == pytest.approx(1, abs=1e-11)
    assert sum(abs(masses.get(i, 0.0) - others.get(i, 0.0)) for i in {*masses, *others}) < 1e-11


@pytest.mark.parametrize("event", [TopKEvent(0.5, 5, 1000), TopKEvent(0.02, 1, 2), TopKEvent(3.0, 5, 20_000)])
def test_epsilon_by_a_transform_is_that_of_the_whole_distribution_and_no_smaller(
    monkeypatch: pytest.MonkeyPatch, event: TopKEvent
) -> None:
    event = replace(event, count=20_000)
    exact = curves.top_k_epsilon(event, 1e-7)
    monkeypatch.setattr(curves, "MAX_SQUARED", 1)
    found = curves.top_k_epsilon(event, 1e-7)
    assert exact <= found <= exact * (1 + 1e-5)
    assert curves.top_k_delta(event, found) <= 1e-7


@pytest.mark.parametrize(("per_run", "count"), [(0.01, 10**6), (0.001, 10**6), (0.002, 3 * 10**6)])
def test_a_million_choices_between_two_cost_what_binomial_tails_say(per_run: float, count: int) -> None:
    from scipy.special import bdtrc

    delta = 1e-5
    found = curves.top_k_epsilon(TopKEvent(per_run, 1, 2, count), delta)

    def delta_at(epsilon: float) -> float:
        most, p = math.floor((epsilon / per_run + count) / 2), 1 / (1 + math.exp(-per_run))
        return float(bdtrc(most, count, p) - math.exp(epsilon) * bdtrc(most, count, 1 - p))

    assert delta_at(found) <= delta * (1 + 1e-6)  # the tails of scipy err by about 1e-7
    assert delta_at(found * (1 - 1e-5)) > delta


def test_what_a_transform_cannot_tell_is_bounded_by_formulas() -> None:
    """Losses that spread too far, and a delta that rounding could reach."""
    assert curves.many_net_losses(TopKEvent(1e-6, 1, 2, 10**12)) is None
    for delta in (1e-5, 1e-13):
        whole = accounting.epsilon([PureEvent(1e-6, 10**12)], delta)
        assert whole == pytest.approx(accounting.epsilon([ZcdpEvent(5e-13, 10**12)], delta), rel=1e-6)
    few = accounting.epsilon([PureEvent(1e-4, 40_000)], 1e-13)
    assert 0 < few <= accounting.epsilon([ZcdpEvent(5e-9, 40_000)], 1e-13) * (1 + 1e-9)


@pytest.mark.parametrize("event", [PureEvent(0.001), TopKEvent(0.5, 5, 1000), ExponentialEvent(0.01, 100)])
def test_more_runs_never_cost_less_where_the_way_to_compute_changes(event: Event) -> None:
    costs = [
        accounting.epsilon([replace(event, count=count)], 1e-6)
        for count in (16_384, 16_385, 32_768, 32_769, 40_000, 10**6)
    ]
    assert costs == sorted(costs)


def test_rounding_that_a_transform_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a distribution that leaves out its ends and does not say so is refuted by the whole one."""
    event, delta = TopKEvent(0.02, 1, 2, 1500), 1e-6

    def cut(_: TopKEvent) -> curves.NetLosses:
        whole = curves.top_k_net_losses(event)
        return curves.NetLosses(whole.lowest, np.where(whole.mass > 1e-6, whole.mass, 0.0))

    monkeypatch.setattr(curves, "MAX_SQUARED", 1)
    assert curves.top_k_delta(event, curves.top_k_epsilon(event, delta)) <= delta
    monkeypatch.setattr(curves, "many_net_losses", cut)
    assert curves.top_k_delta(event, curves.top_k_epsilon(event, delta)) > delta


def test_a_sum_is_exact() -> None:
    terms = [(0.1, 3), (1e-300, 7), (5e-324, 2), (1e300, 1), (2, 5)]
    exact = sum(curves.Fraction(value) * count for value, count in terms)
    assert curves.Fraction(curves.sum_up(terms)) >= exact
    assert curves.Fraction(math.nextafter(curves.sum_up(terms), 0)) < exact
    assert math.isinf(curves.sum_up([(1.0, 1), (math.inf, 2)]))
    assert math.isinf(curves.sum_up([(1e308, 2)]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("per_run", [1e-10, 1e-8, 1e-3])
def test_many_small_runs_warn_of_nothing(per_run: float) -> None:
    assert 0 <= accounting.quick_epsilon([PureEvent(per_run, 32_769)], 1e-5) < 1
