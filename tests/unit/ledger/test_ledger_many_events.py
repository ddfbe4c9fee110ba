"""A charge to an account that holds many different events: decided by adding up, written by changing one entry."""

import math
import random
from typing import Never

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ledger_tools import Raw, limit, opened, request

from dptext.errors import BudgetExceededError, LedgerError
from dptext.ledger import entries, requests, standings
from dptext.ledger.books import Ledger
from dptext.ledger.entries import after_charge, fits, in_order, is_within, spent_epsilon
from dptext.ledger.requests import events_from_text, events_to_text, with_events
from dptext.privacy.composition import Sums
from dptext.privacy.events import (
    ApproximateEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    MetricEvent,
    NoEvent,
    PureEvent,
    SampledGaussianEvent,
    TopKEvent,
    TwoSetEvent,
    ZcdpEvent,
)
from examples import few_examples

epsilons = st.sampled_from([0.0, -0.0, 1, 1.0, 0.1, 0.25, 3.5, 1e-9, 12.0])
counts = st.integers(1, 120)
EVENTS = st.one_of(
    st.builds(PureEvent, epsilons, counts),
    st.builds(ApproximateEvent, epsilons, st.sampled_from([1e-9, 1e-12]), counts),
    st.builds(TopKEvent, epsilons, st.just(5), st.sampled_from([10, 100, 1000]), counts),
    st.builds(TwoSetEvent, epsilons, st.just(5), st.sampled_from([100, 1000]), count=counts),
    st.builds(ExponentialEvent, epsilons, st.sampled_from([10, 100, 1000]), counts),
    st.builds(GaussianEvent, st.sampled_from([0.5, 5.0, 50.0]), counts),
    st.builds(ZcdpEvent, epsilons, counts),
)


@given(st.lists(EVENTS, max_size=8), st.lists(EVENTS, min_size=1, max_size=4))
def test_a_text_after_more_events_is_the_text_of_all(before: list[Event], more: list[Event]) -> None:
    text = events_to_text(before)
    assert with_events(text, more) == events_to_text([*before, *more])
    assert events_to_text(events_from_text(text)) == text


def test_one_more_charge_of_a_kind_leaves_nothing_in_memory() -> None:
    text = events_to_text([PureEvent(0.125)])
    before = None
    for _ in range(20):
        text = after_charge(text, [PureEvent(0.125)])
        events_from_text(text)
        kept = [each.cache_info().currsize for each in (requests._settings_text, requests._event)]
        before = before or kept
        assert kept == before
    assert events_from_text(text) == (PureEvent(0.125, 21),)


@pytest.mark.parametrize("text", ["nothing", "[]]", "7", "", "[", "[[]]", '({"count":1,"epsilon":1.0,"kind":"pure"}]'])
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LedgerError):
        events_from_text(text)


@pytest.mark.parametrize("edited", ['{"count":1.5,', '{"count":"1",', '{"count":,', '{"":1,', '{"count":1,"count":1,'])
def test_an_edited_count_is_a_named_error(edited: str) -> None:
    text = events_to_text([PureEvent(1.0), PureEvent(2.0)])
    with pytest.raises(LedgerError, match="damaged"):
        with_events(text.replace('{"count":1,', edited), [PureEvent(1.0)])


@given(
    st.lists(EVENTS, max_size=6),
    st.lists(st.lists(EVENTS, max_size=3), min_size=1, max_size=3),
    st.lists(EVENTS, min_size=1, max_size=2),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from([1.0, 12.0, 100.0, 1e4]),
)
@example([], [[]], [ExponentialEvent(0.25, 1000, 30)], 1e-6, 12.0)  # zCDP alone would accept it
@example([ExponentialEvent(0.25, 1000, 20)], [[]], [ExponentialEvent(0.25, 1000, 10)], 1e-6, 12.0)
def test_what_fits_when_added_up_is_within_the_limit(
    everyone: list[Event], own: list[list[Event]], asked: list[Event], delta: float, most: float
) -> None:
    bound = limit(most, delta)
    if fits(events_to_text(everyone), map(events_to_text, own), asked, bound):
        for each in own:
            assert is_within(spent_epsilon([*everyone, *each, *asked], bound), bound)


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (GaussianEvent(5.0), 0.0),
        (GaussianEvent(1e200), 0.0),  # whose rho is no float
        (ZcdpEvent(0.1), 0.0),
        (ZcdpEvent(0.0), 0.0),
        (ApproximateEvent(0.1, 1e-5), 1e-6),
        (SampledGaussianEvent(1.0, 0.1, 5), 1e-6),
        (MetricEvent(1.0, "distance"), 1e-6),
        (NoEvent("nothing was drawn"), 1e-6),
    ],
)
def test_what_no_sum_bounds_does_not_fit(event: Event, delta: float) -> None:
    bound = limit(1e9, delta)
    assert not fits(events_to_text([event]), ["[]"], [PureEvent(0.1)], bound)
    assert not fits("[]", ["[]", events_to_text([event])], [PureEvent(0.1)], bound)
    assert not fits("[]", ["[]"], [event], bound)


@pytest.mark.parametrize(
    "event", [GaussianEvent(30.0), ZcdpEvent(0.001), ApproximateEvent(0.1, 1e-9), PureEvent(0.5), PureEvent(0.01, 5000)]
)
def test_sums_bound_about_as_tightly_as_formulas_of_all(event: Event) -> None:
    """Renyi curves are left out, which gain little over the others."""
    events = [PureEvent(0.1), PureEvent(0.2), event]
    text, spent = events_to_text(events), spent_epsilon(events, limit(1.0, 1e-6))
    assert fits(text, ["[]"], [], limit(spent * 1.2, 1e-6))
    assert not fits(text, ["[]"], [], limit(spent * (1 - 1e-6), 1e-6))


@given(st.lists(EVENTS, max_size=6), st.lists(st.lists(EVENTS, min_size=1, max_size=2), max_size=4))
def test_sums_that_go_on_are_those_of_the_text(before: list[Event], charges: list[list[Event]]) -> None:
    text = events_to_text(before)
    for asked in charges:
        text = after_charge(text, asked)
        kept = entries._known.pop(text)
        assert entries.sums_of(text) == kept


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), max_size=8))
@few_examples
def test_events_that_are_folded_are_the_same_events(ledger: Ledger, raw: Raw, charges: list[list[int]]) -> None:
    """Wherever the recent ones end: the books hold what was charged, and spend it to the last bit."""
    total = sum(map(sum, charges)) / 64
    name, charged = opened(ledger, total + 1 / 64), list[Event]()
    account = raw.one("SELECT id FROM accounts WHERE name = :name", name=name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standings, "MOST_RECENT", 2)
        for numbers in charges:
            asked = request(*(number / 64 for number in numbers))
            ledger.charge(name, asked)
            charged += asked.events
            assert ledger.balance(name).events == in_order(charged)
            recent = raw.one(f"SELECT events FROM balances WHERE account_id = {account}")  # noqa: S608
            assert len(events_from_text(str(recent))) <= 2
        with pytest.raises(BudgetExceededError):
            ledger.charge(name, request(2 / 64))
        ledger.charge(name, request(1 / 64))
    assert ledger.balance(name).left == 0.0
    assert ledger.verify(name).problems == ()


def test_sums_beyond_all_floats_fit_nowhere() -> None:
    assert not fits(events_to_text([PureEvent(1e308, 10)]), ["[]"], [PureEvent(0.1)], limit(1e308))


def filled(ledger: Ledger, distinct: int, delta: float = 0.0) -> tuple[str, list[Event]]:
    """An account with so many different epsilons, and a limit that one more charge of 0.5 reaches exactly."""
    events: list[Event] = [PureEvent((i + 1) / 1024) for i in range(distinct)]
    total = math.fsum((i + 1) / 1024 for i in range(distinct)) + 0.5
    name = opened(ledger, total, delta)
    ledger.charge(name, request(*events))
    return name, events


def test_an_account_of_many_epsilons_is_spent_to_the_last_bit(ledger: Ledger) -> None:
    name, events = filled(ledger, 600)
    order = random.Random(3)
    for _ in range(8):
        ledger.charge(name, request(1 / 16))
    assert ledger.balance(name).left == 0.0
    with pytest.raises(BudgetExceededError) as refused:
        ledger.charge(name, request(order.choice(events)))
    assert refused.value.left == 0.0
    assert ledger.verify(name).problems == ()


def test_at_a_delta_composition_goes_on_where_adding_up_ends(ledger: Ledger) -> None:
    name, _ = filled(ledger, 100, 1e-6)
    for _ in range(3):
        ledger.charge(name, request(0.4))
    assert ledger.balance(name).spent.epsilon < ledger.account(name).limit.epsilon
    assert ledger.verify(name).problems == ()


def test_a_sum_that_forgets_is_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: where the sum leaves charges out, the account is overdrawn, and `verify` says so."""
    name, _ = filled(ledger, 50)
    monkeypatch.setattr(entries, "keep_sums", lambda key, several: Sums())
    ledger.charge(name, request(1.0))
    assert any("overdrawn" in problem for problem in ledger.verify(name).problems)


def test_an_edited_balance_is_added_up_anew(ledger: Ledger, raw: Raw) -> None:
    """Sums are known of the text that the charge before wrote, and of no other."""
    name, events = filled(ledger, 50)
    ledger.charge(name, request(0.25))
    edited = events_to_text([*events, PureEvent(0.25, 2)])
    raw.rows("UPDATE balances SET events = :text WHERE account_id = (SELECT id FROM accounts WHERE name = :name)",
             text=edited, name=name)  # fmt: skip
    with pytest.raises(BudgetExceededError):
        ledger.charge(name, request(0.25))


@pytest.mark.parametrize("asked", [PureEvent(0.001), GaussianEvent(1000.0), ApproximateEvent(0.001, 1e-12)])
def test_a_charge_reads_no_run_length(asked: Event, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that grows with the different events is computed again: no text is split, no epsilon derived."""
    name = opened(ledger, 1e6, 1e-6)
    ledger.charge(name, request(*(PureEvent((i + 1) / 1024) for i in range(400))))

    def never(*arguments: object, **named: object) -> Never:
        pytest.fail("run lengths were read again")

    monkeypatch.setattr(entries, "entries", lambda text: () if text == "[]" else never())
    monkeypatch.setattr(entries.accounting, "quick_epsilon", never)
    ledger.charge(name, request(asked))
    ledger.charge(name, request(asked))
