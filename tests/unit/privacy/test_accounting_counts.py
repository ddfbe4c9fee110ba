"""Equal events are composed by their count: as much as a list of them costs, and in little more time than one takes."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.privacy import accounting, composition, curves
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


@pytest.mark.parametrize(
    "event",
    [pytest.param(PureEvent(0.01), marks=pytest.mark.slow), TopKEvent(0.5, 5, 1000), ExponentialEvent(0.01, 100)],
)
def test_more_runs_than_before_by_the_exact_bound_cost_no_more(monkeypatch: pytest.MonkeyPatch, event: Event) -> None:
    """Up to 16,384 runs were exact; the pessimistic numerical distribution of more is an upper bound of what is now."""
    runs = replace(event, count=20_000)
    tight, quick = accounting.epsilon([runs], 1e-6), accounting.quick_epsilon([runs], 1e-6)
    fewer = accounting.epsilon([replace(event, count=19_000)], 1e-6)
    monkeypatch.setattr(composition, "MAX_EXACT_RUNS", 16_384)
    assert fewer < tight <= quick <= accounting.quick_epsilon([runs], 1e-6)
    assert tight <= accounting.epsilon([runs], 1e-6)


def test_a_sum_is_exact() -> None:
    terms = [(0.1, 3), (1e-300, 7), (5e-324, 2), (1e300, 1), (2, 5)]
    exact = sum(curves.Fraction(value) * count for value, count in terms)
    assert curves.Fraction(curves.sum_up(terms)) >= exact
    assert curves.Fraction(math.nextafter(curves.sum_up(terms), 0)) < exact
    assert math.isinf(curves.sum_up([(1.0, 1), (math.inf, 2)]))
    assert math.isinf(curves.sum_up([(1e308, 2)]))
