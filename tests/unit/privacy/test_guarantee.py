import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError, IncomparableError
from dptext.privacy.events import (
    ApproximateEvent,
    ExponentialEvent,
    GaussianEvent,
    MetricEvent,
    NoEvent,
    PureEvent,
    SampledGaussianEvent,
    TopKEvent,
    TwoSetEvent,
    ZcdpEvent,
    event_from_dict,
    event_to_dict,
)
from dptext.privacy.guarantee import (
    Basis,
    Guarantee,
    Relation,
    Trust,
    Unit,
    format_delta,
    format_epsilon,
    weakest,
)

names = st.text(max_size=9).map("d{}".format)  # of distances, something of which can be seen
counts = st.integers(1, 10**6)
epsilons = st.floats(0, 1e6)
small = st.floats(0, 1)
positive = st.floats(1e-6, 1e6)
events = st.one_of(
    st.builds(PureEvent, epsilons, counts),
    st.builds(ApproximateEvent, epsilons, small, counts),
    st.builds(GaussianEvent, positive, counts),
    st.builds(ZcdpEvent, epsilons, counts),
    st.builds(SampledGaussianEvent, positive, st.floats(1e-6, 1), counts, counts),
    st.builds(TopKEvent, epsilons, st.integers(1, 5), st.integers(6, 10**6), counts),
    st.builds(
        TwoSetEvent, epsilons, st.integers(1, 3), st.integers(6, 99), st.sampled_from(["top_k", "sampled"]), counts
    ),
    st.builds(ExponentialEvent, epsilons, counts, counts),
    st.builds(MetricEvent, positive, names, small, counts),
    st.builds(NoEvent, st.text(min_size=1, max_size=20), counts),
)
guarantees = st.builds(
    Guarantee,
    epsilons,
    small,
    st.sampled_from(Unit),
    st.sampled_from(Relation),
    st.none() | names,
    st.sampled_from(Trust),
    st.sampled_from([Basis.PROVEN, Basis.CONDITIONAL, Basis.CLAIMED]),
    st.lists(st.text(max_size=9), max_size=3).map(tuple),
    st.lists(st.text(max_size=9), max_size=3).map(tuple),
)


def made(**changes: object) -> Guarantee:
    return replace(Guarantee(1.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE), **changes)


@given(events)
def test_events_survive_json_exactly(event) -> None:
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@given(guarantees)
def test_guarantees_survive_json_exactly(guarantee: Guarantee) -> None:
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
    voided = guarantee.voided("because")
    assert Guarantee.from_dict(json.loads(json.dumps(voided.to_dict(), allow_nan=False))) == voided


@given(guarantees)
def test_every_guarantee_explains_itself(guarantee: Guarantee) -> None:
    words = guarantee.explain()
    if guarantee.delta > 1e-3:
        assert words.startswith("No protection")
    else:
        assert guarantee.unit.value in words
        assert format_epsilon(guarantee.epsilon) in words
    assert all(item in words for item in guarantee.reveals)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "unheard"},
        {"kind": 3},
        {"kind": "pure"},
        {"kind": "pure", "epsilon": -1.0},
        {"kind": "pure", "epsilon": math.nan},
        {"kind": "pure", "epsilon": 1.0, "more": 2},
        {"kind": "pure", "epsilon": "1"},
        {"kind": "top_k", "epsilon": 1.0, "k": 5, "size": 5},
        {"kind": "two_set", "epsilon": 1.0, "k": 6, "size": 10},
        {"kind": "two_set", "epsilon": 1.0, "k": 1, "size": 10, "set_choice": "best"},
        {"kind": "sampled_gaussian", "noise_multiplier": 1.0, "sampling_rate": 2.0, "steps": 1},
        {"kind": "none", "reason": ""},
        {"kind": "pure", "epsilon": 1.0, "count": True},
    ],
)
def test_bad_events_are_refused(data) -> None:
    with pytest.raises(ConfigError):
        event_from_dict(data)


@pytest.mark.parametrize(
    "change",
    [
        {"unit": Unit.TOKEN},
        {"relation": Relation.ADD_OR_REMOVE_ONE},
        {"metric": "Euclidean distance"},
    ],
)
def test_different_meanings_do_not_compare(change) -> None:
    with pytest.raises(IncomparableError, match="unit, relation and metric"):
        _ = made() < made(**change)


def test_order_puts_a_large_delta_and_no_basis_last() -> None:
    good, weak, leaky, void = made(), made(epsilon=2.0), made(epsilon=0.1, delta=2e-3), made().voided("seeded")
    assert leaky.effective_epsilon == math.inf
    assert sorted([void, leaky, weak, good])[:2] == [good, weak]
    assert made(delta=1e-6) < made(delta=1e-5)


def test_no_basis_needs_a_reason_and_an_infinite_epsilon() -> None:
    with pytest.raises(ConfigError, match="reason"):
        made(basis=Basis.NONE, epsilon=math.inf)
    with pytest.raises(ConfigError, match="infinite"):
        made(basis=Basis.NONE, reason="why")
    with pytest.raises(ConfigError, match="reason"):
        made(reason="why")
    voided = made().voided("seeded").voided("seeded")
    assert voided.reason == "seeded"
    assert voided.explain().startswith("No guarantee: seeded.")


def test_shown_epsilon_is_rounded_up() -> None:
    assert format_epsilon(1.00001) == "1.001"
    assert format_epsilon(2.0) == "2"
    assert format_epsilon(math.inf) == "infinity"


def test_shown_delta_is_rounded_up() -> None:
    assert [format_delta(delta) for delta in (1e-5, 1.2349e-5, 9.999e-4, 1.0, 0.0)] == [
        "1e-05",
        "1.24e-05",
        "0.001",
        "1",
        "0",
    ]


def test_an_infinite_epsilon_guarantees_nothing() -> None:
    with pytest.raises(ConfigError, match="infinite"):
        made(epsilon=math.inf)


def test_the_weakest_basis_wins() -> None:
    assert weakest(Basis.PROVEN, Basis.CLAIMED, Basis.CONDITIONAL) is Basis.CLAIMED
    assert weakest(Basis.PROVEN) is Basis.PROVEN


@pytest.mark.parametrize("field", ["epsilon", "unit", "reveals"])
def test_a_damaged_guarantee_is_refused(field: str) -> None:
    data = made().to_dict()
    del data[field]
    with pytest.raises(ConfigError, match="not a guarantee"):
        Guarantee.from_dict(data)
    data[field] = {"epsilon": -1.0, "unit": "house", "reveals": "text"}[field]
    with pytest.raises(ConfigError):
        Guarantee.from_dict(data)


@pytest.mark.parametrize(
    ("epsilon", "delta", "relation", "about_what_it_says"),
    [
        (1.0, 1e-5, Relation.ADD_OR_REMOVE_ONE, "by at most 7.39, but for a chance of 3.72e-05."),
        (1.0, 0.0, Relation.ADD_OR_REMOVE_ONE, "by at most 7.39."),
        (2.0, 1e-6, Relation.REPLACE_SPECIAL, "by at most 55, but for a chance of 8.39e-06."),
        (8.0, 1e-5, Relation.ADD_OR_REMOVE_ONE, "no bound is stated."),  # it would fail once in 33 times
        (800.0, 1e-5, Relation.ADD_OR_REMOVE_ONE, "no bound is stated."),
        (800.0, 0.0, Relation.ADD_OR_REMOVE_ONE, "by at most e^1600."),
    ],
)
def test_the_sentence_counts_twice_what_a_text_says_where_neighbours_have_one_more(
    epsilon: float, delta: float, relation: Relation, about_what_it_says: str
) -> None:
    """One text in the place of another is two steps, so epsilon is doubled, and delta (1 + e^epsilon) fails."""
    said = Guarantee(epsilon, delta, Unit.DOCUMENT, relation).sentence()
    assert "whether one document is there by a factor of at most" in said
    assert said.endswith(f"of any guess about what it says, {about_what_it_says}")
    assert "any guess about it" in Guarantee(epsilon, delta, Unit.DOCUMENT, Relation.REPLACE_ONE).sentence()
