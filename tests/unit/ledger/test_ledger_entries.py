"""Requests, terms, charges and balances as plain data: their text, their rounding, their printing."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ledger_tools import limit, request

from dptext.errors import BudgetExceededError, ConfigError, IncomparableError, NoGuaranteeError
from dptext.ledger.entries import (
    PLANNED,
    Account,
    Balance,
    Charge,
    format_left,
    left_of,
    require_within,
    spent_epsilon,
    spent_guarantee,
)
from dptext.ledger.requests import Request, Terms, canonical, digest_of, events_from_text, events_to_text
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
    TwoSetEvent,
    ZcdpEvent,
)
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit, format_epsilon

TIME = "2026-01-01T00:00:00Z"

amounts = st.floats(0, 50) | st.integers(0, 3) | st.just(-0.0)
strengths = st.floats(1e-3, 100)
counts = st.integers(1, 10**10)
deltas = st.floats(0, 1) | st.sampled_from([0, 1, -0.0])
sizes = st.integers(11, 10**6)
events = st.one_of(
    st.builds(PureEvent, amounts, counts),
    st.builds(ApproximateEvent, amounts, deltas, counts),
    st.builds(GaussianEvent, strengths, counts),
    st.builds(ZcdpEvent, amounts, counts),
    st.builds(SampledGaussianEvent, strengths, st.floats(1e-6, 1), st.integers(1, 10**6), counts),
    st.builds(TopKEvent, amounts, st.integers(1, 10), sizes, counts),
    st.builds(TwoSetEvent, amounts, st.integers(1, 5), sizes, st.sampled_from(["top_k", "sampled"]), counts),
    st.builds(ExponentialEvent, amounts, sizes, counts),
    st.builds(MetricEvent, strengths, st.text().map("d{}".format), deltas, counts),
    st.builds(NoEvent, st.text(min_size=1), counts),
)
texts = st.lists(st.text(), max_size=3).map(tuple)
all_terms = st.builds(Terms, st.sampled_from(Trust), st.sampled_from(Basis), texts, texts)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
settings_of_runs = st.dictionaries(st.text(), st.one_of(scalars, st.lists(scalars, max_size=2)), max_size=3)
requests = st.builds(
    Request,
    st.lists(events, min_size=1, max_size=4).map(tuple),
    st.sampled_from(Unit),
    st.sampled_from(Relation),
    all_terms,
    settings_of_runs,
    st.integers(1, 10**9),
)


# ------------------------------------------------------------------------------------------------ text


@given(requests)
def test_a_request_survives_its_text(asked: Request) -> None:
    again = Request.from_text(asked.to_text())
    assert again.to_text() == asked.to_text()
    assert asked.to_text().isascii()  # whatever the encoding of a database
    assert set(again.events) == set(accounting.compose(asked.events))
    assert replace(again, events=asked.events) == asked


@given(requests, st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_the_order_of_events_or_settings(asked: Request, random) -> None:
    single = [replace(event, count=1) for event in asked.events]
    rest = [replace(event, count=event.count - 1) for event in asked.events if event.count > 1]
    shuffled = random.sample([*single, *rest], len(single) + len(rest))
    turned = dict(reversed(asked.settings.items()))
    assert replace(asked, events=tuple(shuffled), settings=turned).to_text() == asked.to_text()


@given(st.lists(events, max_size=5), st.lists(events, max_size=5))
def test_tallies_add_up_as_texts(first: list[Event], second: list[Event]) -> None:
    text = events_to_text(first)
    assert events_to_text(events_from_text(text)) == text
    assert events_to_text([*events_from_text(text), *second]) == events_to_text([*second, *first])


def test_the_text_is_as_it_was_when_it_was_published() -> None:
    """Ledgers hold such texts, and their digests: another wording would be another request."""
    asked = Request(
        (TopKEvent(4.0, 5, 5000, 20), PureEvent(0.1)),
        Unit.AUTHOR,
        Relation.REPLACE_ONE,
        Terms(Trust.CENTRAL, Basis.CONDITIONAL, ("públic",), ("length",)),
        {"kind": "top", "epsilon": 4.0, "words": [1, None]},
        3,
    )
    assert asked.to_text() == (
        '{"events":[{"count":1,"epsilon":0.1,"kind":"pure"},{"count":20,"epsilon":4.0,"k":5,"kind":"top_k",'
        '"size":5000}],"relation":"replace_one","settings":{"epsilon":4.0,"kind":"top","words":[1,null]},'
        '"terms":{"assumptions":["p\\u00fablic"],"basis":"conditional","reveals":["length"],"trust":"central"},'
        '"unit":"author","units_per_subject":3}'
    )
    assert digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PureEvent(1), PureEvent(1.0)),
        (PureEvent(0.0), PureEvent(-0.0)),
        (GaussianEvent(2), GaussianEvent(2.0)),
        (ApproximateEvent(1.0, 0), ApproximateEvent(1.0, 0.0)),
        (SampledGaussianEvent(2, 1, 3), SampledGaussianEvent(2.0, 1.0, 3)),
        (TopKEvent(2, 1, 10), TopKEvent(2.0, 1, 10)),
        (ExponentialEvent(3, 10), ExponentialEvent(3.0, 10)),
    ],
)
def test_equal_requests_have_one_text(one: Event, other: Event) -> None:
    assert one == other
    assert request(one).to_text() == request(other).to_text()
    assert events_to_text([one, other]) == events_to_text([other, one])


@pytest.mark.parametrize(
    "change",
    [
        {"events": [{"kind": "pure", "epsilon": -1.0, "count": 1}]},
        {"events": [{"kind": "later", "count": 1}]},
        {"events": []},
        {"events": 3},
        {"unit": "paragraph"},
        {"relation": "same"},
        {"terms": {"trust": "local"}},
        {"terms": {"trust": "local", "basis": "proven", "assumptions": "none", "reveals": []}},
        {"terms": None},
        {"settings": [1]},
        {"units_per_subject": "many"},
        {"units_per_subject": None},
    ],
)
def test_text_that_dptext_did_not_write_is_refused(change: dict[str, object]) -> None:
    text = canonical({**json.loads(request(1).to_text()), **change})
    with pytest.raises(ConfigError, match="this version of dptext can read"):
        Request.from_text(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"events"', "null", "{}"])
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this version of dptext can read"):
        Request.from_text(text)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_settings_that_json_cannot_hold_are_refused(value: float) -> None:
    try:
        request(1, setting=value).to_text()
    except ConfigError:
        return
    pytest.fail("accepted")


def test_a_run_without_events_is_no_request() -> None:
    with pytest.raises(ConfigError, match="a run without events needs no charge"):
        Request((), Unit.DOCUMENT)


# ----------------------------------------------------------------------------------------------- terms


@given(all_terms, all_terms, all_terms)
def test_terms_are_taken_together_in_any_order(first: Terms, second: Terms, third: Terms) -> None:
    assert Terms.from_dict(json.loads(canonical(first.to_dict()))) == first
    assert first | second == second | first
    assert (first | second) | third == first | (second | third)
    both = first | second
    assert both | first == both
    assert set(both.assumptions) == {*first.assumptions, *second.assumptions}
    assert set(both.reveals) == {*first.reveals, *second.reveals}
    assert (both.trust is Trust.CENTRAL) == (Trust.CENTRAL in (first.trust, second.trust))
    assert list(Basis).index(both.basis) == max(list(Basis).index(each.basis) for each in (first, second))


def test_terms_default_to_the_neutral_ones() -> None:
    some = Terms(Trust.CENTRAL, Basis.CLAIMED, ("a", "b"), ("c",))
    assert Terms() | some == some


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("basis", [Basis.NONE, Basis.CLAIMED])
def test_nothing_pays_for_what_nobody_bounds(basis: Basis) -> None:
    with pytest.raises(NoGuaranteeError, match=f"its basis is {basis.value}"):
        request(1, terms=Terms(basis=basis)).require_chargeable()
    with pytest.raises(NoGuaranteeError, match="names stay"):
        request(1, NoEvent("names stay")).require_chargeable()
    with pytest.raises(IncomparableError, match="epsilon per unit of angle: set a public diameter"):
        request(MetricEvent(1.0, "angle"), 1).require_chargeable()
    request(1, terms=Terms(basis=Basis.CONDITIONAL)).require_chargeable()


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("relation", Relation)
def test_accounts_and_charges_must_mean_the_same(unit: Unit, relation: Relation) -> None:
    account = Account("reviews", "reviews", limit(), by_subject=False, opened=TIME)
    asked = Request((PureEvent(1.0),), unit, relation)
    if (unit, relation) == (Unit.DOCUMENT, Relation.REPLACE_ONE):
        account.require_same_meaning(asked)
        return
    with pytest.raises(IncomparableError, match=f"found one per {unit.value}, {relation.value}: nothing is charged"):
        account.require_same_meaning(asked)


# ------------------------------------------------------------------------------------------- rounding


@given(st.floats(0, 1e6), st.floats(0, 1e6))
@example(2.0, 0.1)
@example(1e-300, 5e-324)
@example(1.0, 1e-300)
def test_what_is_left_is_rounded_down(whole: float, spent: float) -> None:
    left = left_of(whole, spent)
    truth = max(Fraction(whole) - Fraction(spent), Fraction(0))
    assert 0 <= Fraction(left) <= truth
    assert Fraction(math.nextafter(left, math.inf)) > truth
    assert left_of(whole, math.inf) == 0.0


@given(st.one_of(st.floats(0, 1e6), st.integers(0, 10**6).map(lambda n: n / 1000)))
@example(0.0009999999999999999)
@example(29.923)
def test_left_is_shown_rounded_down(epsilon: float) -> None:
    shown = Fraction(format_left(epsilon))
    assert shown <= Fraction(repr(epsilon)) < shown + Fraction(1, 1000)  # 0.1 is shown as 0.1


def test_left_as_it_is_read() -> None:
    values = [0.0, 0.0004, 1.0, 10.0, 100.0, 0.1, 1.2999, 19.999999, 1234.5]
    assert [format_left(value) for value in values] == [
        "0", "0", "1", "10", "100", "0.1", "1.299", "19.999", "1234.5",
    ]  # fmt: skip


@given(st.integers(1, 30_000))
@example(2000)
def test_spent_is_shown_within_a_thousandth(thousandths: int) -> None:
    for epsilon in (math.nextafter(thousandths / 1000, 0.0), thousandths / 1000):
        assert Fraction(format_epsilon(epsilon)) <= Fraction(epsilon) + Fraction(1, 1000)


def test_spent_is_shown_rounded_up() -> None:
    below = [
        epsilon
        for epsilon in (math.nextafter(n / 1000, math.inf) for n in range(1, 30_000, 7))
        if Fraction(format_epsilon(epsilon)) < Fraction(repr(epsilon))
    ]
    assert below == []
    assert [format_epsilon(value) for value in (0.1, 0.05, 4.001, 2.0000000000000004)] == [
        "0.1",
        "0.05",
        "4.001",
        "2.001",
    ]


def refused(whole: float, before: list[float], asked: float) -> BudgetExceededError:
    account = Account("reviews", "reviews", limit(whole), by_subject=False, opened=TIME)
    with pytest.raises(BudgetExceededError) as caught:
        require_within(account, [[PureEvent(value) for value in before]], [PureEvent(asked)])
    return caught.value


def test_a_refusal_says_what_was_asked_what_is_left_and_what_is_missing() -> None:
    error = refused(2.0, [0.5, 0.25], 1.5)
    assert (error.asked, error.left, error.gap) == (1.5, 1.25, 0.25)
    assert "asked epsilon = 1.5 at delta = 0 per document, left 1.25 of 2, together 0.25 above the limit" in str(error)
    assert "Nothing is charged and nothing is released." in str(error)


@given(st.floats(1e-6, 10), st.lists(st.floats(0, 1), max_size=3), st.floats(0, 100))
def test_the_numbers_of_a_refusal_are_those_of_the_books(whole: float, before: list[float], extra: float) -> None:
    spent = sum(map(Fraction, before), Fraction(0))
    asked = whole + extra + 1e-6
    error = refused(whole, before, asked)
    assert error.asked == asked
    left = max(Fraction(whole) - spent, Fraction(0))
    assert Fraction(error.left) <= left
    assert float(left) - error.left <= 1e-15 * (whole + float(spent))
    assert error.gap == pytest.approx(float(spent + Fraction(asked) - Fraction(whole)), rel=1e-9)


def test_what_is_missing_is_rounded_up() -> None:
    assert Fraction(refused(1.7, [], 57.3).gap) >= Fraction(57.3) - Fraction(1.7)


def test_where_no_epsilon_holds_the_refusal_says_so() -> None:
    account = Account("reviews", "reviews", limit(2.0), by_subject=False, opened=TIME)
    with pytest.raises(BudgetExceededError, match="at this delta no epsilon holds for both together") as caught:
        require_within(account, [[PureEvent(0.5)]], [GaussianEvent(1.0)])
    assert (caught.value.asked, caught.value.left, caught.value.gap) == (math.inf, 1.5, math.inf)
    assert "asked epsilon = infinity" in str(caught.value)
    line = "`dptext budget open NAME --epsilon E --delta D --unit document --relation replace_one [--ledger FILE]`"
    assert f"this account has delta 0 and such noise needs one above 0: {line}." in str(caught.value)
    some = Account("reviews", "reviews", limit(2.0, 1e-6), by_subject=False, opened=TIME)
    with pytest.raises(BudgetExceededError, match=r"a larger delta may pay\. At"):
        require_within(some, [[]], [ApproximateEvent(0.5, 1e-5)])


def test_a_charge_of_another_meaning_is_refused_with_the_line_that_opens_its_account() -> None:
    account = Account("reviews", "reviews", limit(2.0), by_subject=False, opened=TIME)
    asked = replace(request(1.0), unit=Unit.AUTHOR, relation=Relation.ADD_OR_REMOVE_ONE)
    with pytest.raises(IncomparableError, match="--unit author --relation add_or_remove_one") as caught:
        account.require_same_meaning(asked)
    assert "or open one: `dptext budget open NAME --epsilon E --delta D --unit author" in str(caught.value)
    with pytest.raises(IncomparableError, match=r"or open one\. The ledger does not add up"):  # no account is per token
        account.require_same_meaning(replace(asked, unit=Unit.TOKEN))


def test_what_was_spent_does_not_depend_on_the_order_of_the_books() -> None:
    """A charge adds to the books at their end, and `verify` reads them sorted: both must come to the same."""
    events = [TopKEvent(0.5, 5, 100), SampledGaussianEvent(1.1, 0.01, 100)]
    assert spent_epsilon(events, limit(5.0, 1e-5)) == spent_epsilon(events[::-1], limit(5.0, 1e-5))


def test_the_subject_of_whom_most_was_spent_decides() -> None:
    account = Account("reviews", "reviews", limit(2.0), by_subject=False, opened=TIME)
    standings = [[PureEvent(0.5)], [PureEvent(1.5)], []]
    require_within(account, standings, [PureEvent(0.5)])
    with pytest.raises(BudgetExceededError) as caught:
        require_within(account, standings, [PureEvent(0.75)])
    assert (caught.value.left, caught.value.gap) == (0.5, 0.25)


# ------------------------------------------------------------------------------------------- printing


def test_what_was_spent_names_what_it_rests_on() -> None:
    terms = Terms(Trust.CENTRAL, Basis.PROVEN, ("public text",), ("length",))
    one = spent_guarantee([GaussianEvent(5.0)] * 3, limit(10.0, 1e-5), terms)
    assert one == accounting.guarantee(
        [GaussianEvent(5.0, 3)],
        1e-5,
        unit=Unit.DOCUMENT,
        basis=Basis.PROVEN,
        trust=Trust.CENTRAL,
        assumptions=("public text",),
        reveals=("length",),
    )
    several = spent_guarantee([GaussianEvent(5.0), PureEvent(0.1)], limit(10.0, 1e-5), terms)
    assert several.basis is Basis.CONDITIONAL
    assert several.assumptions == (*sorted(("public text", PLANNED)),)
    # sums of pure epsilons hold whatever the later runs saw
    pure = spent_guarantee([PureEvent(0.2), PureEvent(0.1)], limit(10.0), terms)
    assert (pure.basis, pure.assumptions) == (Basis.PROVEN, ("public text",))
    trained = spent_guarantee([SampledGaussianEvent(1.1, 0.01, 20)], limit(10.0, 1e-5), Terms(Trust.CENTRAL))
    assert trained.trust is Trust.CENTRAL
    assert spent_guarantee([], limit(), Terms()) == Guarantee(0.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)


def test_accounts_charges_and_balances_print_public_facts_only() -> None:
    account = Account("reviews", "all reviews", limit(2.0), by_subject=True, opened=TIME)
    charge = Charge(7, "reviews", "first", request(0.5, kind="pure"), None, "2026-01-02T00:00:00Z")
    balance = Balance(account, spent_guarantee([PureEvent(0.5)], account.limit, Terms()), 1, 0)
    assert repr(account).startswith("Account(name='reviews', dataset='all reviews', limit=Guarantee(epsilon=2.0, ")
    assert "number=7" in repr(charge)
    assert "release=None" in repr(charge)
    assert "PureEvent(epsilon=0.5" in repr(charge)
    assert balance.left == 1.5
    assert "charges=1" in repr(balance)
    assert "Guaranteed (epsilon = 0.5), per document" in balance.spent.explain()
