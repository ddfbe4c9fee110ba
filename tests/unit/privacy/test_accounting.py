import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dptext.errors import ConfigError, IncomparableError
from dptext.privacy import accounting, curves
from dptext.privacy.accounting import calibrate, epsilon, guarantee, lift
from dptext.privacy.curves import dominating, top_k_probabilities
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
)
from dptext.privacy.guarantee import Basis, Relation, Unit
from examples import few_examples, fewest_examples

S, K = 20_000, 5


# ---------------------------------------------------------------- numbers of docs/reference/derivations.md


@pytest.mark.parametrize(
    ("set_choice", "nominal", "tight"),
    [
        ("top_k", 1, 8.79),
        ("top_k", 5, 10.79),
        ("top_k", 10, 13.29),
        ("sampled", 1, 10.40),
        ("sampled", 5, 12.40),
        ("sampled", 10, 14.90),
    ],
)
def test_two_set(set_choice, nominal, tight) -> None:
    found = epsilon([TwoSetEvent(nominal, K, S, set_choice)])
    assert found == pytest.approx(tight, abs=0.005)
    assert found < nominal + math.log(S)  # the paper's theorem: true but loose


@pytest.mark.parametrize(("runs", "total"), [(10, 87.9), (20, 175.9), (50, 439.7)])
def test_two_set_composes_to_the_document(runs, total) -> None:
    assert epsilon(lift([TwoSetEvent(1, K, S)], runs=runs)) == pytest.approx(total, abs=0.05)


@pytest.mark.parametrize(("d", "tight"), [(5, 9.993), (10, 19.26), (12, 21.79), (15, 24.90), (20, 29.90)])
def test_clipped_exponential(d, tight) -> None:
    found = epsilon([ExponentialEvent(d, S)])
    assert found == pytest.approx(tight, abs=0.005)
    assert found <= min(2 * d, d + math.log(S - 1)) + 1e-9


def test_range_bound_of_a_document() -> None:
    # eps = 10, k = 16 sentences, m = 5000: d = eps * (k / 2) / 2 = 40
    assert epsilon([ExponentialEvent(40, 5000)]) == pytest.approx(48.5, abs=0.05)


@pytest.mark.parametrize(("per_token", "document"), [(2, 4.0), (4, 16.0), (6, 53.7), (8, 143), (10, 200)])
def test_exact_loss_distribution_of_top_k(per_token, document) -> None:
    event = TopKEvent(per_token, K, S, 20)
    assert epsilon([event], 1e-5) == pytest.approx(document, abs=0.5 if document > 100 else 0.05)
    assert epsilon([event]) == 20 * per_token


@pytest.mark.parametrize(
    ("variance", "at_c_1", "at_c_5"),
    [
        (0.25, 24.38, 284),
        (0.5, 15.46, 159),
        (0.6, 13.76, 138),
        (0.75, 11.95, 115),
        (0.85, 11.06, 104),
        (1.0, 10.00, 91.8),
    ],
)
def test_analytic_gaussian(variance, at_c_1, at_c_5) -> None:
    assert epsilon([GaussianEvent(math.sqrt(variance) / 2)], 1e-5) == pytest.approx(at_c_1, abs=0.006)
    assert epsilon([GaussianEvent(math.sqrt(variance) / 10)], 1e-5) == pytest.approx(at_c_5, abs=0.5)


def test_zcdp_conversion() -> None:
    assert curves.zcdp_epsilon(2, 1e-5) == pytest.approx(10.725, abs=0.001)
    assert curves.zcdp_epsilon(2, 1e-5) < 2 + 2 * math.sqrt(2 * math.log(1e5))
    assert epsilon([ZcdpEvent(2)], 1e-5) > epsilon([GaussianEvent(0.5)], 1e-5)


@pytest.mark.slow  # test_a_gaussian_beside_a_sampled_one_keeps_its_relation stays
def test_dp_sgd_under_two_relations() -> None:
    event = SampledGaussianEvent(1.0, 0.01, 1000)
    assert epsilon([event], 1e-5, relation=Relation.ADD_OR_REMOVE_ONE) == pytest.approx(1.83, abs=0.005)
    assert epsilon([event], 1e-5, relation=Relation.REPLACE_ONE) == pytest.approx(2.84, abs=0.005)


@pytest.mark.parametrize(("set_choice", "floor"), [("top_k", "8.29"), ("sampled", "9.90")])
def test_two_set_refuses_below_its_floor(set_choice, floor) -> None:
    with pytest.raises(ConfigError, match=floor):
        calibrate(TwoSetEvent(1, K, S, set_choice), 8.0)


# ------------------------------------------------------------------------ against naive versions


def naive_gaussian_delta(sigma: float, eps: float) -> float:
    return norm.cdf(1 / (2 * sigma) - eps * sigma) - math.exp(eps) * norm.cdf(-1 / (2 * sigma) - eps * sigma)


@given(st.floats(0.2, 5), st.floats(0, 10))
def test_gaussian_delta_is_balle_and_wang(sigma, eps) -> None:
    assert curves.gaussian_delta(sigma, eps) == pytest.approx(naive_gaussian_delta(sigma, eps), rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-6, 1e-9])
def test_the_classical_gaussian_violates_its_delta(delta) -> None:
    """sqrt(2 ln(1.25 / delta)) / eps is proven for eps < 1 only; above about 8.42 (delta 1e-5) it is false."""

    def true_delta(nominal: float) -> float:
        return curves.gaussian_delta(math.sqrt(2 * math.log(1.25 / delta)) / nominal, nominal)

    crossing = {1e-3: 7.46, 1e-5: 8.42, 1e-6: 8.78, 1e-9: 9.62}[delta]
    assert true_delta(crossing - 0.02) < delta < true_delta(crossing + 0.02)


def test_the_classical_gaussian_at_100_is_300() -> None:
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / 100
    assert epsilon([GaussianEvent(sigma)], 1e-5) == pytest.approx(300, abs=1)


def naive_top_k_delta(event: TopKEvent, eps: float) -> float:
    """By enumerating every sequence of losses."""
    z = event.k * math.exp(event.epsilon) + event.size - event.k
    steps = [
        (event.epsilon, event.k * math.exp(event.epsilon) / z),
        (0.0, (event.size - 2 * event.k) / z),
        (-event.epsilon, event.k / z),
    ]
    losses = {0: 1.0}
    for _ in range(event.count):
        after: dict[int, float] = {}
        for net, mass in losses.items():
            for step, (_, p) in zip((1, 0, -1), steps, strict=True):
                after[net + step] = after.get(net + step, 0.0) + mass * p
        losses = after
    return sum(mass * max(0.0, 1 - math.exp(eps - net * event.epsilon)) for net, mass in losses.items())


@given(st.floats(0.1, 6), st.integers(1, 4), st.integers(9, 60), st.integers(1, 8), st.sampled_from([1e-6, 1e-3, 0.05]))
def test_top_k_epsilon_inverts_the_naive_delta(per_token, k, size, runs, delta) -> None:
    event = TopKEvent(per_token, k, size, runs)
    found = curves.top_k_epsilon(event, delta)
    assert naive_top_k_delta(event, found) <= delta * (1 + 1e-9)
    if found > 1e-6:
        assert naive_top_k_delta(event, found * (1 - 1e-6)) > delta * (1 - 1e-5)
    assert curves.top_k_delta(event, found) == pytest.approx(naive_top_k_delta(event, found), rel=1e-6, abs=1e-12)


@given(st.floats(0.1, 5), st.integers(2, 6), st.integers(7, 9))
def test_top_k_worst_case_is_disjoint_or_overlapping_sets(per_token, k, size) -> None:
    """Also where 2k > size: hockey-stick divergence of every pair of sets, by enumeration."""
    if k >= size:
        return
    event = TopKEvent(per_token, k, size)
    z = k * math.exp(per_token) + size - k
    worst = 0.0
    eps = per_token / 2
    for shift in range(size - k + 1):
        p = np.where(np.arange(size) < k, math.exp(per_token), 1) / z
        q = np.where((np.arange(size) >= shift) & (np.arange(size) < shift + k), math.exp(per_token), 1) / z
        worst = max(worst, float(np.maximum(p - math.exp(eps) * q, 0).sum()))
    assert curves.top_k_delta(event, eps) == pytest.approx(worst, rel=1e-6, abs=1e-12)


def test_two_set_bound_is_tight_by_enumeration() -> None:
    """sg(+-eps(2p-1)/2) over all masses p of the top-k set: the largest log ratio is the stated epsilon."""
    nominal, k, size = 3.0, 2, 9
    p = np.linspace(k / size, 1, 100_001)
    inside = 1 / (1 + np.exp(-nominal * (2 * p - 1) / 2)) / k
    outside = 1 / (1 + np.exp(nominal * (2 * p - 1) / 2)) / (size - k)
    spread = math.log(max(inside.max(), outside.max()) / min(inside.min(), outside.min()))
    assert epsilon([TwoSetEvent(nominal, k, size)]) == pytest.approx(spread, abs=1e-9)


def test_exponential_bound_is_tight_by_enumeration() -> None:
    d, size = 1.3, 4
    corners = [np.array([(i >> j) & 1 for j in range(size)]) * d for i in range(2**size)]
    rows = [np.exp(c) / np.exp(c).sum() for c in corners]
    worst = max(float(np.log(a / b).max()) for a in rows for b in rows)
    assert epsilon([ExponentialEvent(d, size)]) == pytest.approx(worst, abs=1e-9)


# ------------------------------------------------------------------------------- properties

pure_like = st.one_of(
    st.builds(PureEvent, st.floats(0, 20), st.integers(1, 50)),
    st.builds(TopKEvent, st.floats(0, 20), st.integers(1, 5), st.integers(11, 99), st.integers(1, 50)),
    st.builds(
        TwoSetEvent,
        st.floats(0, 20),
        st.integers(1, 5),
        st.integers(11, 99),
        st.sampled_from(["top_k", "sampled"]),
        st.integers(1, 50),
    ),
    st.builds(ExponentialEvent, st.floats(0, 20), st.integers(1, 99), st.integers(1, 50)),
)
noisy = st.one_of(
    st.builds(GaussianEvent, st.floats(0.1, 50), st.integers(1, 50)),
    st.builds(ZcdpEvent, st.floats(0, 20), st.integers(1, 50)),
    st.builds(ApproximateEvent, st.floats(0, 20), st.floats(0, 1e-9), st.integers(1, 50)),
)
any_event = st.one_of(pure_like, noisy)
deltas = st.sampled_from([1e-9, 1e-6, 1e-5, 1e-3])


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=9))
def test_pure_epsilons_are_summed_exactly_and_rounded_up(values) -> None:
    found = epsilon([PureEvent(value) for value in values])
    exact = sum(map(Fraction, values))
    assert Fraction(found) >= exact
    assert found == 0 or Fraction(math.nextafter(found, 0)) < exact


@pytest.mark.slow  # few examples; lists of several kinds have their numbers and those of their counts
@fewest_examples
@given(st.lists(any_event, min_size=1, max_size=4), any_event, deltas)
def test_one_more_release_never_costs_less(events, more, delta) -> None:
    assert epsilon([*events, more], delta) >= epsilon(events, delta) * (1 - 1e-9)


@pytest.mark.slow  # the numbers of test_exact_loss_distribution_of_top_k and others would move
@fewest_examples
@given(st.lists(pure_like, min_size=1, max_size=4), deltas)
def test_delta_only_helps(events, delta) -> None:
    assert epsilon(events, delta) <= epsilon(events) * (1 + 1e-12)
    assert epsilon(events, 1.0) == 0


@given(any_event, deltas, st.integers(1, 20))
def test_counts_equal_repetition(event, delta, times) -> None:
    assert epsilon([event] * times, delta) == epsilon(accounting.repeat([event], times), delta)


@given(any_event, st.integers(1, 9), st.integers(1, 9), deltas)
def test_lifting_is_monotone(event, runs, parts, delta) -> None:
    single = epsilon([event], delta)
    assert epsilon(lift([event], runs=runs), delta) >= single * (1 - 1e-9)
    assert epsilon(lift([event], parts=parts), delta) >= single * (1 - 1e-9)
    assert epsilon(lift([event], runs=runs + 1), delta) >= epsilon(lift([event], runs=runs), delta) * (1 - 1e-9)


def test_group_privacy_by_hand() -> None:
    assert lift([PureEvent(0.5)], parts=3) == (PureEvent(1.5),)
    assert lift([ZcdpEvent(0.5)], parts=3) == (ZcdpEvent(4.5),)
    assert lift([GaussianEvent(3.0)], parts=3)[0].noise_multiplier == pytest.approx(1.0, rel=1e-12)
    (approximate,) = lift([ApproximateEvent(0.5, 1e-6)], parts=3)
    assert approximate.epsilon == 1.5
    assert approximate.delta == pytest.approx(1e-6 * (math.exp(1.5) - 1) / (math.exp(0.5) - 1), rel=1e-9)
    top = TopKEvent(2.0, 1, 10)
    assert lift([top], parts=3) == (top,)  # holds for any two inputs
    with pytest.raises(IncomparableError, match="group privacy"):
        lift([SampledGaussianEvent(1.0, 0.1, 10)], parts=2)
    assert accounting.repeat([SampledGaussianEvent(1.0, 0.1, 10)], 2)[0].count == 2  # two trainings on the same records


templates = st.one_of(
    st.builds(PureEvent, st.just(1.0), st.integers(1, 50)),
    st.builds(TopKEvent, st.just(1.0), st.integers(1, 5), st.integers(11, 30_000), st.integers(1, 50)),
    st.builds(ExponentialEvent, st.just(1.0), st.integers(2, 99), st.integers(1, 50)),
    st.builds(GaussianEvent, st.just(1.0), st.integers(1, 50)),
    st.builds(ZcdpEvent, st.just(1.0), st.integers(1, 50)),
    st.builds(TwoSetEvent, st.just(1.0), st.just(5), st.just(12), st.sampled_from(["top_k", "sampled"])),
)


@few_examples
@given(templates, st.floats(0.05, 100), st.sampled_from([1e-9, 1e-5, 1e-3]))
def test_calibrate_never_overshoots_and_is_close(event, wanted, delta) -> None:
    floor = epsilon([with_strength(event, 2.0**-60)], delta)
    if floor > wanted:
        with pytest.raises(ConfigError, match="floor"):
            calibrate(event, wanted, delta=delta)
        return
    found = calibrate(event, wanted, delta=delta)
    assert epsilon([found], delta) <= wanted
    assert epsilon([found], delta) >= wanted * (1 - 1e-6)


def with_strength(event, strength: float):
    match event:
        case ZcdpEvent():
            return ZcdpEvent(strength, event.count)
        case GaussianEvent():
            return GaussianEvent(1 / strength, event.count)
        case ExponentialEvent():
            return replace(event, log_range=strength)
        case _:
            return replace(event, epsilon=strength)


def test_calibrate_through_lifting() -> None:
    found = calibrate(PureEvent(1.0), 10.0, lifted=lambda event: lift([event], runs=20))
    assert found == PureEvent(0.5)


@pytest.mark.slow
def test_calibrate_sampled_noise() -> None:
    sampled = calibrate(SampledGaussianEvent(1.0, 0.02, 50), 3.0, delta=1e-5)
    assert 3.0 * (1 - 1e-5) <= epsilon([sampled], 1e-5) <= 3.0


def test_calibrate_refuses_what_cannot_be_reached() -> None:
    with pytest.raises(ConfigError, match="floor"):
        calibrate(GaussianEvent(1.0), 1.0)  # delta = 0
    with pytest.raises(ConfigError, match=r"found none"):
        calibrate(NoEvent("why"), 1.0)
    with pytest.raises(ConfigError, match="epsilon"):
        calibrate(PureEvent(1.0), -1.0)


# ----------------------------------------------------------------------- mixing and meaning


def test_what_has_no_finite_epsilon_is_infinite() -> None:
    assert epsilon([GaussianEvent(1.0)]) == math.inf
    assert epsilon([PureEvent(1.0), NoEvent("why")], 0.5) == math.inf
    assert epsilon([ApproximateEvent(1.0, 1e-4)], 1e-5) == math.inf


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40)), max_size=4))
def test_deltas_compose_to_the_chance_that_one_of_them_fails(runs: list[tuple[float, int]]) -> None:
    kept, added = Fraction(1), Fraction(0)
    for delta, count in runs:
        kept *= (1 - Fraction(delta)) ** count
        added += Fraction(delta) * count
    found = curves.approximate_delta([ApproximateEvent(0.0, delta, count) for delta, count in runs])
    assert 1 - kept <= found <= min(Fraction(1), added)
    assert found <= (1 - kept) * (1 + Fraction(1, 10**12))


def test_half_leaving_three_times_is_seven_eighths_and_not_one_and_a_half() -> None:
    three = lift([ApproximateEvent(0.0, 0.5)], runs=3)
    assert epsilon(three, 0.875 * (1 + 1e-12)) == 0
    assert epsilon(three, 0.8749999) == math.inf  # a planted sum of two, or a rounding down, would pass
    assert epsilon([*three, PureEvent(2.0)], 0.875 * (1 + 1e-12)) == pytest.approx(2, abs=1e-9)
    assert epsilon([*three, PureEvent(2.0)], 0.9) < 2  # what is left of delta helps the pure run
    assert epsilon(lift([ApproximateEvent(0.0, 1.0)], runs=2), 0.999) == math.inf
    (group,) = lift([ApproximateEvent(0.0, 0.25)], parts=3)
    assert group.delta == pytest.approx(0.75)  # one run that depends on three parts: no independence to use


def test_mixed_events_cost_at_most_the_sum() -> None:
    mixed = [PureEvent(0.5), GaussianEvent(1.0), ZcdpEvent(0.1), TopKEvent(1.0, 5, 100, 3)]
    parts = 0.5 + 3.0 + epsilon([GaussianEvent(1.0), ZcdpEvent(0.1)], 1e-5)
    assert epsilon(mixed, 1e-5) <= parts * (1 + 1e-9)
    assert epsilon(mixed, 1e-5) > epsilon(mixed[:2], 1e-5)


@pytest.mark.slow_cases("replace_special", why="the two other relations stay")
@pytest.mark.parametrize("relation", list(Relation))
def test_a_gaussian_beside_a_sampled_one_keeps_its_relation(relation) -> None:
    alone = epsilon([GaussianEvent(1.0)], 1e-5)
    beside = epsilon([GaussianEvent(1.0), SampledGaussianEvent(1000.0, 1e-4, 1)], 1e-5, relation=relation)
    assert beside == pytest.approx(alone, rel=1e-3)
    with_zcdp = epsilon([ZcdpEvent(0.01), SampledGaussianEvent(10.0, 0.01, 1)], 1e-5, relation=relation)
    assert with_zcdp >= epsilon([ZcdpEvent(0.01)], 1e-5)


def test_metric_events_do_not_mix() -> None:
    metric = MetricEvent(2.0, "Euclidean", 1e-12, 3)
    found = guarantee([metric], unit=Unit.TOKEN, basis=Basis.PROVEN)
    assert (found.epsilon, found.metric) == (6.0, "Euclidean")
    assert 3e-12 <= found.delta < 3.1e-12
    for other in (PureEvent(1.0), MetricEvent(1.0, "Mahalanobis")):
        with pytest.raises(IncomparableError):
            guarantee([metric, other], unit=Unit.TOKEN, basis=Basis.PROVEN)
    with pytest.raises(IncomparableError, match="diameter"):
        epsilon([metric])
    with pytest.raises(IncomparableError, match="diameter"):
        lift([metric], runs=5)
    bounded = accounting.bounded_metric([MetricEvent(2.0, "Euclidean")], diameter=3.0)
    assert epsilon(lift(bounded, runs=5)) == pytest.approx(30.0, rel=1e-9)


def test_no_event_makes_basis_none() -> None:
    found = guarantee([PureEvent(1.0), NoEvent("words pass verbatim")], unit=Unit.DOCUMENT, basis=Basis.NONE)
    assert found.basis is Basis.NONE
    assert found.reason == "words pass verbatim"
    assert guarantee([GaussianEvent(1.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN).basis is Basis.NONE


def test_for_author_adds_up_documents() -> None:
    document = guarantee([PureEvent(2.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN)
    author = accounting.for_author(document, max_per_author=5)
    assert (author.unit, author.epsilon) == (Unit.AUTHOR, 10.0)
    assert "no author has more than 5" in author.explain() or author.assumptions
    with pytest.raises(IncomparableError):
        accounting.for_author(author, max_per_author=5)


def test_mixed_events_use_their_loss_distributions() -> None:
    """Top-k beside a Gaussian, beside another top-k, and in great number: no cliff, no sum of pure epsilons."""
    twenty, alone = TopKEvent(4.0, 5, 20_000, 20), epsilon([TopKEvent(4.0, 5, 20_000, 20)], 1e-5)
    with_noise = epsilon([twenty, GaussianEvent(1.0)], 1e-5)
    assert alone < with_noise < 18.0
    assert alone <= epsilon([twenty, TopKEvent(4.0, 6, 20_000)], 1e-5) < 16.1
    many = [epsilon([TopKEvent(0.5, 5, 20_000, count)], 1e-5) for count in (4096, 4097, 16_384, 16_385)]
    assert many == sorted(many)
    assert many[3] < many[2] + 2.0


@pytest.mark.parametrize(
    "event",
    [
        PureEvent(1e308, 100),
        PureEvent(1e200),
        ExponentialEvent(1e200, 20),
        ExponentialEvent(1e308, 20),
        GaussianEvent(1e200),
        GaussianEvent(1e-200),
        ZcdpEvent(1e308, 9),
        ApproximateEvent(1e308, 1e-9, 5),
        TopKEvent(1e308, 2, 9, 3),
    ],
)
def test_beyond_all_floats_is_infinite_not_an_error(event) -> None:
    for delta in (0.0, 1e-5):
        assert epsilon([event], delta) >= 0
        found = guarantee([event], delta, unit=Unit.DOCUMENT, basis=Basis.PROVEN)
        assert found.explain()
        assert (found.basis is Basis.NONE) == math.isinf(found.epsilon)
        if found.basis is not Basis.NONE:
            assert accounting.for_author(found, max_per_author=10**6).explain()
    with pytest.raises(ConfigError):
        PureEvent(10**400)


def _two_set_law(inside: float, members: range, size: int) -> np.ndarray:
    """Probability `inside` spread evenly over the members, the rest over the others."""
    found = np.full(size, (1 - inside) / (size - len(members)))
    found[members.start : members.stop] = inside / len(members)
    return found


@pytest.mark.parametrize("set_choice", ["top_k", "sampled"])
def test_two_sets_lose_no_more_than_what_stands_for_them(set_choice) -> None:
    """Every size and overlap of two sets and both extreme masses, at every order: so composition is covered, too."""
    orders = np.linspace(0, 14, 141)
    for size, nominal in itertools.product((4, 7, 10, 40), (0.1, 1.0, 3.0, 10.0)):
        least = 1 / (1 + math.exp(nominal / 2))
        for k in range(1, min(4, size // 2) + 1):
            event = dominating(TwoSetEvent(nominal, k, size, set_choice))
            up, _, down = top_k_probabilities(event)
            stated = np.maximum(up - np.exp(orders) * down, 0)
            stated += np.maximum((1 - up - down) * (1 - np.exp(orders)), 0)
            assert event.epsilon == pytest.approx(epsilon([TwoSetEvent(nominal, k, size, set_choice)]))
            sizes = [k] if set_choice == "top_k" else range(1, k + 1)
            for first, second, a, b in itertools.product(sizes, sizes, (least, 1 - least), (least, 1 - least)):
                for start in range(max(0, first - min(first, second)), first + 1):
                    if start + second > size:
                        continue
                    p = _two_set_law(a, range(first), size)
                    q = _two_set_law(b, range(start, start + second), size)
                    lost = np.maximum(p - np.exp(orders)[:, None] * q, 0).sum(axis=1)
                    assert (lost <= stated + 1e-12).all()


def test_two_sets_compose_to_less_with_a_delta() -> None:
    # Top-k has 53.7 at 6 a word; at 8, where two sets exist with 8,000 words, it is near the pure sum.
    event = TwoSetEvent(2 * (8.0 - math.log(1599)), 5, 8000, count=20)
    assert epsilon([event]) == pytest.approx(160.0, abs=0.1)
    assert epsilon([event], 1e-5) == pytest.approx(epsilon([TopKEvent(8.0, 5, 8000, count=20)], 1e-5), abs=0.1)
