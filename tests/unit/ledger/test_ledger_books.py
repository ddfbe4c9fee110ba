"""Charges: what fits, what is refused, and how they add up."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_tools import Raw, charged_epsilon, exact, opened, request

from dptext.errors import (
    BudgetExceededError,
    IncomparableError,
    NoGuaranteeError,
    PrivacyError,
)
from dptext.ledger.books import Ledger
from dptext.ledger.entries import PLANNED, TOLERANCE
from dptext.ledger.requests import Request, Terms
from dptext.privacy import accounting
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
    ZcdpEvent,
)
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit
from examples import few_examples


def refusal(ledger: Ledger, name: str, *events: Event | float) -> BudgetExceededError | None:
    """Charges everyone; what is said where the account cannot pay."""
    try:
        ledger.charge(name, request(*events))
    except BudgetExceededError as error:
        return error
    return None


def test_twenty_tenths_are_two_and_the_twenty_first_is_too_much(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 2.0)
    for _ in range(20):
        ledger.charge(name, request(0.1))
    before = raw.dump()
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(name, request(0.1))
    assert caught.value.asked == 0.1
    assert caught.value.left == 0.0
    assert caught.value.gap == pytest.approx(0.1, abs=1e-12)
    with pytest.raises(BudgetExceededError):
        ledger.charge(name, request(1e-11))
    assert raw.dump() == before
    balance = ledger.balance(name)
    assert balance.spent.epsilon - 2.0 < TOLERANCE
    assert Fraction(balance.spent.epsilon) >= 20 * Fraction(0.1)
    assert (balance.charges, balance.left) == (20, 0.0)
    assert ledger.verify(name).problems == ()


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
@pytest.mark.parametrize("whole", [0.1, 1.0, 20.0])
def test_a_limit_is_hardly_passed(ledger: Ledger, whole: float) -> None:
    assert overdrawn(ledger, whole) < 1.001e-12


@pytest.mark.parametrize("whole", [1.0, 10_000.0])
def test_a_limit_is_never_passed_by_more_than_the_tolerance(ledger: Ledger, whole: float) -> None:
    assert overdrawn(ledger, whole) <= Fraction(TOLERANCE)


def overdrawn(ledger: Ledger, whole: float) -> Fraction:
    """By how much the smallest charges can pass a limit that is reached."""
    name = opened(ledger, whole)
    ledger.charge(name, request(whole))
    passed = Fraction(0)
    for power in range(36, 54):
        for tiny in (2.0**-power, 2.0**-power * 0.9):
            error = refusal(ledger, name, tiny)
            assert error is None or error.left == 0.0
            passed += 0 if error else Fraction(tiny)
    assert ledger.verify(name).problems == ()
    return passed


def test_a_refusal_says_what_is_missing_and_writes_nothing(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 2.0, by_subject=True)
    ledger.charge(name, request(0.75))
    ledger.charge(name, request(0.5), subjects=["anna"])
    before = raw.dump()
    for subjects in (None, ["anna"], ["anna", "bert"]):
        with pytest.raises(BudgetExceededError) as caught:
            ledger.charge(name, request(1.0, 0.25, setting="new"), key="k", subjects=subjects)
        assert (caught.value.asked, caught.value.left, caught.value.gap) == (1.25, 0.75, 0.5)
        assert f"Expected account {name!r} to hold what the run costs" in str(caught.value)
        said = "asked epsilon = 1.25 at delta = 0 per document, left 0.75 of 2, together 0.5 above the limit"
        assert said in str(caught.value)
        assert "anna" not in str(caught.value)
        assert raw.dump() == before
    ledger.charge(name, request(1.25), key="k", subjects=["bert"])
    assert (ledger.balance(name).spent.epsilon, ledger.balance(name).left) == (2.0, 0.0)


def test_what_cannot_be_added_up_is_refused(ledger: Ledger, raw: Raw) -> None:
    name = opened(ledger, 5.0, 1e-5, by_subject=True)
    ledger.charge(name, request(1.0), subjects=["anna"])
    before = raw.dump()
    refusals: list[tuple[Request, type[PrivacyError], str]] = [
        (request(1.0, NoEvent("seeded")), NoGuaranteeError, "seeded"),
        (request(1.0, terms=Terms(basis=Basis.NONE)), NoGuaranteeError, "its basis is none"),
        (request(1.0, terms=Terms(basis=Basis.CLAIMED)), NoGuaranteeError, "its basis is claimed"),
        (request(MetricEvent(1.0, "angle")), IncomparableError, "set a public diameter"),
        (replace(request(1.0), unit=Unit.AUTHOR), IncomparableError, "found one per author, replace_one"),
        (replace(request(1.0), unit=Unit.TOKEN), IncomparableError, "found one per token, replace_one"),
        *(
            (replace(request(1.0), relation=relation), IncomparableError, f"found one per document, {relation.value}")
            for relation in (Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_SPECIAL)
        ),
        (request(ApproximateEvent(0.1, 2e-5)), BudgetExceededError, "an account with a larger delta may pay"),
    ]
    for asked, error, said in refusals:
        for subjects in (None, ["anna"], ["bert"]):
            with pytest.raises(error, match=said):
                ledger.charge(name, asked, key="k", subjects=subjects)
            if asked.events == request(1.0).events and asked.terms == request(1.0).terms:  # of another unit or relation
                with pytest.raises(error, match=said):
                    ledger.weigh(name, asked, subjects=subjects)
    assert raw.dump() == before


def test_noise_needs_a_delta(ledger: Ledger) -> None:
    pure = opened(ledger, 1e6)
    for event in (GaussianEvent(100.0), ZcdpEvent(0.001), SampledGaussianEvent(5.0, 0.001, 1)):
        with pytest.raises(BudgetExceededError, match="at this delta no epsilon holds") as caught:
            ledger.charge(pure, request(event, terms=Terms(Trust.CENTRAL)))
        assert (caught.value.asked, caught.value.left, caught.value.gap) == (math.inf, 1e6, math.inf)


strengths = st.floats(0.01, 1.5)
pure_kinds = st.one_of(
    st.builds(PureEvent, strengths, st.integers(1, 3)),
    st.builds(ExponentialEvent, strengths, st.integers(2, 1000), st.integers(1, 3)),
)
noise_kinds = st.one_of(
    st.builds(GaussianEvent, st.floats(2, 50), st.integers(1, 3)),
    st.builds(ZcdpEvent, st.floats(1e-4, 0.1), st.integers(1, 3)),
    st.builds(ApproximateEvent, strengths, st.sampled_from([0.0, 1e-7, 1e-6]), st.integers(1, 3)),
)
# one top-k in a sequence: several, or Gaussian noise beside it, cost a second each; they have a test of their own
top_k_kinds = st.builds(TopKEvent, st.just(0.5), st.just(5), st.just(1000), st.integers(1, 3))
sequences = st.one_of(
    st.tuples(st.just(0.0), st.lists(st.lists(pure_kinds | top_k_kinds, min_size=1, max_size=3), max_size=6)),
    st.tuples(st.just(1e-5), st.lists(st.lists(pure_kinds | noise_kinds, min_size=1, max_size=3), max_size=6)),
    st.tuples(st.just(1e-5), st.lists(st.lists(pure_kinds | top_k_kinds, min_size=1, max_size=3), max_size=6)),
)


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
@few_examples
@given(sequences)
def test_charges_add_up_as_accounting_says(ledger: Ledger, sequence: tuple[float, list[list[Event]]]) -> None:
    delta, asked = sequence
    name = opened(ledger, 4.0, delta)
    accepted: list[list[Event]] = []
    for events in asked:
        spent = charged_epsilon(itertools.chain(*accepted), delta)
        total = charged_epsilon([*itertools.chain(*accepted), *events], delta)
        error = refusal(ledger, name, *events)
        assert (error is None) == (total <= 4.0 + TOLERANCE)
        if error is None:
            accepted.append(events)
        else:
            assert error.asked == charged_epsilon(events, delta)
            assert Fraction(error.left) <= max(4 - Fraction(spent), 0)
            assert error.left == pytest.approx(4.0 - spent)
            assert error.gap == pytest.approx(total - 4.0)
    balance = ledger.balance(name)
    assert balance.charges == len(accepted)
    assert balance.spent.epsilon == charged_epsilon(itertools.chain(*accepted), delta)
    if accepted:
        assert accounting.epsilon(balance.events, delta) <= balance.spent.epsilon
    assert balance.spent.delta == delta
    assert Fraction(balance.left) <= max(4 - Fraction(balance.spent.epsilon), 0) < balance.left + 1e-15
    assert [set(line.request.events) for line in ledger.log(name)] == [set(accounting.compose(e)) for e in accepted]
    assert ledger.verify(name).problems == ()


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
@few_examples
@given(st.lists(st.floats(0, 1.0), max_size=12))
def test_pure_epsilons_add_up_exactly(ledger: Ledger, epsilons: list[float]) -> None:
    name = opened(ledger, 3.0)
    paid: list[float] = []
    for epsilon in epsilons:
        if exact([*paid, epsilon]) <= 3:
            ledger.charge(name, request(epsilon))
            paid.append(epsilon)
        elif exact([*paid, epsilon]) > 3 + Fraction(2 * TOLERANCE):
            with pytest.raises(BudgetExceededError):
                ledger.charge(name, request(epsilon))
    balance = ledger.balance(name)
    spent, left = balance.spent.epsilon, Fraction(balance.left)
    assert exact(paid) <= Fraction(spent)
    assert spent == 0 or Fraction(math.nextafter(spent, 0.0)) < exact(paid)
    assert left <= max(3 - exact(paid), 0) < left + Fraction(1, 2**50)


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
def test_several_kinds_of_noise_in_one_account(ledger: Ledger) -> None:
    name = opened(ledger, 5.0, 1e-5)
    charged = [TopKEvent(0.5, 5, 1000, 3), SampledGaussianEvent(1.1, 0.01, 20), PureEvent(0.1)]
    central = Terms(Trust.CENTRAL)
    with pytest.raises(IncomparableError, match="trust=central"):
        ledger.charge(name, request(*charged[1:]))
    ledger.charge(name, request(charged[0], terms=central))
    ledger.charge(name, request(*charged[1:], terms=central))
    balance = ledger.balance(name)
    spent = balance.spent
    assert spent.epsilon == pytest.approx(accounting.quick_epsilon(charged, 1e-5), abs=1e-9)
    assert (spent.basis, spent.assumptions) == (Basis.CONDITIONAL, (PLANNED,))


@pytest.mark.slow_cases("postgresql", why="the books are computed alike on SQLite, which stays")
def test_terms_of_charges_are_taken_together(ledger: Ledger) -> None:
    name = opened(ledger, 5.0, by_subject=True)
    ledger.charge(name, request(0.5, terms=Terms(assumptions=("b", "a"), reveals=("length",))))
    second = Terms(Trust.CENTRAL, Basis.CONDITIONAL, ("c", "a"), ())
    ledger.charge(name, request(0.5, terms=second), subjects=["anna"])
    expected = Guarantee(
        1.0,
        0.0,
        Unit.DOCUMENT,
        Relation.REPLACE_ONE,
        trust=Trust.CENTRAL,
        basis=Basis.CONDITIONAL,
        assumptions=("a", "b", "c"),
        reveals=("length",),
    )
    assert ledger.balance(name).spent == expected
    # of nobody less is said than holds for all
    assert ledger.balance(name, subject="bert").spent == replace(expected, epsilon=0.5)
    assert ledger.verify(name).problems == ()
