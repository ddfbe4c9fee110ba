"""What accounting must not state: each case was accepted once, or took the process down."""

import functools
import itertools
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dptext.embeddings.likeness import Evidence, on_grid
from dptext.errors import ConfigError, IncomparableError, PrivacyError
from dptext.privacy import accounting, curves, loss_distributions
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
from dptext.privacy.guarantee import RECORD_COUNT, Basis, Relation, Trust, Unit
from dptext.privacy.loss_distributions import mixed_epsilon
from dptext.sampling.exponential import (
    LEAST_DISTANCE,
    ClippedExponential,
    Exponential,
    PermuteAndFlip,
    TruncatedExponential,
)
from dptext.sampling.float_noise import Gaussian
from dptext.sampling.hub import Hub
from dptext.sampling.randomness import secure
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.sampling.weights import ROUNDING_LOSS

TRAINING = SampledGaussianEvent(1.0, 0.05, 300)
DOCUMENT = accounting.guarantee([PureEvent(2.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN)

# -------------------------------------------------------------------------------------------------- trainings


def test_a_training_is_central() -> None:
    with pytest.raises(IncomparableError, match="trust=central"):
        accounting.guarantee([TRAINING], 1e-5, unit=Unit.DOCUMENT, basis=Basis.PROVEN)
    found = accounting.guarantee([TRAINING], 1e-5, unit=Unit.DOCUMENT, basis=Basis.CONDITIONAL, trust=Trust.CENTRAL)
    assert found.epsilon == pytest.approx(8.96, abs=0.01)
    with pytest.raises(IncomparableError, match="sees all documents of an author at once"):
        accounting.for_author(found, max_per_author=3)


def test_a_basis_is_always_named() -> None:
    with pytest.raises(TypeError, match="basis"):
        accounting.guarantee([PureEvent(1.0)], unit=Unit.DOCUMENT)  # type: ignore[call-arg]


@pytest.mark.parametrize("how", [{"runs": 3}, {"parts": 3}])
def test_a_training_is_not_lifted_by_adding_up(how: dict[str, int]) -> None:
    """Three records of one author stand in the same steps: 17.5 was stated where it is at least 35.3."""
    with pytest.raises(IncomparableError, match="group privacy"):
        accounting.lift([PureEvent(1.0), TRAINING], **how)
    assert accounting.lift([TRAINING]) == (TRAINING,)
    # The route that the message names: an (epsilon, delta) of the whole training, three times.
    once = ApproximateEvent(accounting.epsilon([TRAINING], 1e-12), 1e-12)
    (thrice,) = accounting.lift([once], parts=3)
    assert thrice.epsilon >= 35.3


# ------------------------------------------------------------------------------------------- what is not there


def test_no_events_are_no_epsilon() -> None:
    once = (PureEvent(5.0) for _ in range(3))
    assert accounting.epsilon(once) == 15.0
    for call in (accounting.epsilon, accounting.quick_epsilon):
        with pytest.raises(ConfigError, match="at least one event"):
            call(once)
    with pytest.raises(ConfigError, match="at least one event"):
        accounting.guarantee([], unit=Unit.DOCUMENT, basis=Basis.PROVEN)
    with pytest.raises(ConfigError, match="at least one event"):
        accounting.lift(iter(()), runs=2)
    with pytest.raises(ConfigError, match="at least one event"):
        accounting.repeat(once, 2)
    with pytest.raises(ConfigError, match="at least one event"):
        accounting.bounded_metric(once, diameter=1.0)
    with pytest.raises(ConfigError, match="at least one event"):
        accounting.calibrate(PureEvent(1.0), 2.0, lifted=lambda event: ())


@pytest.mark.parametrize("metric", ["", "  ", "\u200b", None, 3])
def test_a_metric_has_a_name(metric: object) -> None:
    with pytest.raises(ConfigError, match="name the distance"):
        MetricEvent(0.5, metric)  # type: ignore[arg-type]


def test_an_author_may_have_more_records_than_another() -> None:
    author = accounting.for_author(DOCUMENT, max_per_author=3)
    assert author.reveals == (RECORD_COUNT,)
    assert "the number of records" in author.explain()
    counted = accounting.for_author(DOCUMENT.revealing(RECORD_COUNT), max_per_author=3)
    assert counted.reveals == (RECORD_COUNT,)  # once
    none = accounting.guarantee([NoEvent("a trial")], unit=Unit.DOCUMENT, basis=Basis.NONE)
    assert RECORD_COUNT in accounting.for_author(none, max_per_author=2).reveals


# ------------------------------------------------------------------------------------------------------ scores


CHOICES = [
    Exponential(2.0),
    Exponential(2.0, score_range=1.0),
    ClippedExponential(0.0, 1.0, 0.5, 3),
    PermuteAndFlip(2.0),
    TopKRandomizedResponse(2.0, 1, 3),
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: type(choice).__name__)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_refused(choice, odd: float) -> None:
    """NaN became -1e150: at epsilon 2 two options were e^53.9 apart."""
    scores = np.array([[0.5, odd, 0.2]])
    with pytest.raises(PrivacyError, match="finite scores"):
        choice.choose(scores, secure())
    with pytest.raises(PrivacyError, match="finite scores") as caught:
        choice.distribution(scores)
    assert "0.2" not in str(caught.value)


def test_distances_and_suggestions_that_are_no_numbers_are_refused() -> None:
    tem = TruncatedExponential(1.0, 5.0, 4)
    with pytest.raises(PrivacyError):
        tem.choose(np.array([[0.0, math.nan, math.inf]]), secure())
    with pytest.raises(PrivacyError):
        tem.choose(np.array([[0.0, -math.inf]]), secure())
    assert tem.choose(np.array([[0.0, math.inf]]), secure()).shape == (1,)  # infinity is what pads
    hub, public = Hub(1.0, 2), np.array([[0.5, 0.5]])
    for private in ([[math.nan, 1.0]], [[math.inf, 1.0]]):
        with pytest.raises(PrivacyError):
            hub.choose(np.array(private), public, secure())


def test_embeddings_that_are_no_numbers_are_refused() -> None:
    """As whole numbers they became the smallest there is, a score of its own."""
    evidence = Evidence(np.eye(2), np.zeros(2), 2.0)
    for odd in (math.nan, math.inf):
        with pytest.raises(PrivacyError, match="finite embeddings"):
            evidence(np.array([[0.5, odd]]))
        with pytest.raises(PrivacyError, match="finite embeddings"):
            on_grid(np.array([[0.5, odd]]))


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_the_range_that_is_stated_is_enforced(kind) -> None:
    """Scores from 0 to 10 under a stated range of 1 were 20 apart where the event said 1.9."""
    choice = kind(2.0, score_range=1.0)
    event = choice.range_event(3) if kind is Exponential else choice.range_event()
    wild = np.array([[10.0, 0.0, 0.0], [0.0, 10.0, -10.0], [-5.0, 0.5, 99.0], [0.2, 0.7, 1.0], [-9.0, 9.0, 9.0]])
    log_chances = np.log(choice.distribution(wild))
    worst = max(float(np.abs(a - b).max()) for a, b in itertools.combinations(log_chances, 2))
    assert 0.75 * accounting.epsilon([event]) < worst <= accounting.epsilon([event])
    with pytest.raises(ConfigError, match="score_range"):
        kind(2.0).range_event(3) if kind is Exponential else kind(2.0).range_event()
    with pytest.raises(ConfigError, match=r"score_range=0\.5 >= sensitivity=1\.0"):  # which rounding would be beyond
        kind(2.0, score_range=0.5)


# ---------------------------------------------------------------------------------------------------- rounding


@functools.cache
def exact_net_losses(event: TopKEvent) -> tuple[tuple[int, mpmath.mpf], ...]:
    """The net losses of the runs, in units of epsilon, and their probabilities by enumeration."""
    loss = mpmath.mpf(event.epsilon)
    others = event.size - event.k
    z = event.k * mpmath.e**loss + others
    free = min(event.k, others)
    gain, fall = free * mpmath.e**loss / z, free / z
    masses = {0: mpmath.mpf(1)}
    for _ in range(event.count):
        after: dict[int, mpmath.mpf] = {}
        for (net, mass), (step, chance) in itertools.product(
            masses.items(), ((1, gain), (0, 1 - gain - fall), (-1, fall))
        ):
            after[net + step] = after.get(net + step, mpmath.mpf(0)) + mass * chance
        masses = after
    return tuple(masses.items())


def exact_top_k_delta(event: TopKEvent, epsilon: float) -> mpmath.mpf:
    """delta of the runs, in 60 digits."""
    loss, bound = mpmath.mpf(event.epsilon), mpmath.mpf(epsilon)
    return sum(
        (mass * (1 - mpmath.e ** (bound - net * loss)) for net, mass in exact_net_losses(event) if net * loss > bound),
        mpmath.mpf(0),
    )


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.1, 1.0, 4.0, 40.0, 400.0])
@pytest.mark.parametrize(("k", "size"), [(1, 2), (5, 10), (9, 10), (5, 20_000)])
def test_top_k_is_rounded_up_at_every_delta(epsilon: float, k: int, size: int) -> None:
    """At 1e-20 the stated delta was 266 times too small: numbers that are nearly equal were subtracted."""
    with mpmath.workdps(60):
        for count, delta in itertools.product((1, 7), (1e-3, 1e-9, 1e-15, 1e-18, 1e-20, 1e-100)):
            event = TopKEvent(epsilon, k, size, count)
            found = curves.top_k_epsilon(event, delta)
            assert exact_top_k_delta(event, found) <= delta
            assert exact_top_k_delta(event, found) <= curves.top_k_delta(event, found)
            if found and delta > 1e-10:  # and no more than it must be
                assert exact_top_k_delta(event, found * (1 - 1e-6)) > delta * (1 - 1e-9)


@pytest.mark.parametrize("size", [2, 3, 20_000, 10**9])
def test_the_exponential_mechanism_is_rounded_up_at_every_range(size: int) -> None:
    """For tiny ranges it was 1e-12 of itself too small."""
    with mpmath.workdps(60):
        for d in [10.0**e for e in range(-18, 4)]:
            true = mpmath.mpf(d) + mpmath.log(
                ((size - 1) * mpmath.e ** mpmath.mpf(d) + 1) / (mpmath.e ** mpmath.mpf(d) + size - 1)
            )
            found = curves.exponential_epsilon(ExponentialEvent(d, size))
            assert true <= found <= true * (1 + mpmath.mpf("1e-12"))


@pytest.mark.parametrize("apart", [0.0, 1e-14, 1e-6, LEAST_DISTANCE, 0.3, 2.0])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_tem_never_loses_more_than_it_states(apart: float, epsilon: float) -> None:
    """At a distance of 1e-14 it lost 1.9e-15 more than epsilon times that."""
    tem = TruncatedExponential(epsilon, 5.0, 6)
    points = np.array([0.0, apart, 1.0, 1.5, 3.0, 40.0])
    distances = np.abs(points[:2, None] - points)
    chances = tem.distribution(distances)
    drawn = [weights_of(tem, row) for row in distances]
    stated = epsilon * (max(apart, LEAST_DISTANCE) if apart else 0.0)
    with mpmath.workdps(40):
        for one, other in ((drawn[0], drawn[1]), (drawn[1], drawn[0])):
            for a, b in zip(one, other, strict=True):
                log_ratio = mpmath.log(mpmath.mpf(a) / sum(one)) - mpmath.log(mpmath.mpf(b) / sum(other))
                assert log_ratio <= stated
    assert np.abs(np.log(chances[0] / chances[1])).max() <= stated + 1e-12


def weights_of(tem: TruncatedExponential, distances: np.ndarray) -> list[int]:
    """The integer weights that options are drawn with, read off the code that draws."""
    from dptext.sampling.discrete import LIMB_BITS
    from dptext.sampling.weights import integer_weights

    limbs = integer_weights(-tem._shrunk * np.minimum(distances, tem.threshold)[None])
    return [sum(int(limb) << (LIMB_BITS * i) for i, limb in enumerate(limbs[:, 0, j])) for j in range(len(distances))]


# ------------------------------------------------------------------------------------------- named, in seconds


@pytest.mark.slow_cases("noise and a choice", "a million", why="each occurs in a case that stays")
@pytest.mark.parametrize(
    "events",
    [
        [TopKEvent(800, 1, 2), TopKEvent(799, 1, 2)],
        [TopKEvent(400, 1, 2), TopKEvent(399, 5, 20)],
        [SampledGaussianEvent(1e-3, 0.05, 300)],
        [SampledGaussianEvent(1e-9, 0.5, 10_000, count=5)],
        [SampledGaussianEvent(0.05, 0.05, 300), PureEvent(3.0)],
        [PureEvent(0.001 + i * 1e-6) for i in range(500)],
        [ZcdpEvent(0.5), TopKEvent(3.0, 1, 4), PureEvent(700.0)],
        [PureEvent(0.1, 10**6)],
        [TopKEvent(5.0, 1, 2, 10**5), TopKEvent(4.0, 1, 9, 10**5)],
        [PureEvent(1e-3, 10**6), PureEvent(2.0, 10**4)],
        [GaussianEvent(1e-6), PureEvent(1.0)],
        [SampledGaussianEvent(0.021, 0.5, 10**6)],
        [SampledGaussianEvent(1.0, 0.01, 10**9)],
    ],
    ids=[
        *("beyond exp", "large", "little noise", "no noise", "noise and a choice", "many kinds", "with zcdp"),
        *("a million", "many of two kinds", "small and large", "hardly any noise", "a long training", "an endless one"),
    ],
)
def test_whatever_is_asked_an_answer_comes(events: list[Event]) -> None:
    began = time.process_time()
    tight, quick = (call(events, 1e-5) for call in (accounting.epsilon, accounting.quick_epsilon))
    assert time.process_time() - began < 20
    assert 0 < tight <= quick


def test_numerical_distributions_speak_of_deltas_that_their_rounding_cannot_reach() -> None:
    """Fourier transforms round absolutely: at tiny deltas the formulas alone are left, which are never below."""
    events = [TopKEvent(2.0, 2, 50, 6), PureEvent(0.5, 8)]
    assert accounting.epsilon(events, 1e-10) < accounting.quick_epsilon(events, 1e-10)
    assert accounting.epsilon(events, 1e-12) == accounting.quick_epsilon(events, 1e-12)
    every = accounting.epsilon([GaussianEvent(0.5, 300)], 1e-12)
    assert accounting.epsilon([TRAINING], 1e-12) == pytest.approx(every, rel=1e-9)
    assert accounting.epsilon([TRAINING], 1e-10) < every / 5


@pytest.mark.parametrize("runs", [10**3, 10**5, 10**6])
def test_rounding_of_transforms_is_less_than_is_subtracted_from_delta(runs: int) -> None:
    """By the exact distribution of a sum of coins. Of 10^5 runs it is 4.6e-12 of probability: 1e-12 is too little."""
    from dp_accounting.pld import common
    from scipy import stats

    _, found = common.self_convolve([0.25, 0.5, 0.25], runs)
    near = np.arange(max(0, runs - 30 * math.isqrt(runs)), min(2 * runs, runs + 30 * math.isqrt(runs)) + 1)
    true = np.zeros(2 * runs + 1)  # 42 standard deviations away the least float is too large
    true[near] = stats.binom.pmf(near, 2 * runs, 0.5)
    wrong = np.abs(np.cumsum(found - true)).max()
    assert wrong < max(1e-12, runs * 2.0**-52)
    assert runs < 10**5 or wrong > 1e-12


def test_more_runs_need_a_larger_delta() -> None:
    long = SampledGaussianEvent(1.0, 1e-3, 10**6)  # 2^-52 of each run are 2.2e-10
    every = accounting.epsilon([GaussianEvent(0.5, 10**6)], 2e-9)
    assert accounting.epsilon([long], 2e-9) == pytest.approx(every, rel=1e-9)
    assert accounting.epsilon([long], 3e-9) < 20


@pytest.mark.parametrize(("rate", "steps"), [(1e-3, 10**6), (3e-4, 10**7), (3e-5, 10**9)])
def test_a_long_training_at_a_small_rate_is_no_training_of_all_records(rate: float, steps: int) -> None:
    """Beyond 1.3 million steps 4 million was stated. In the limit of many steps the losses are Gaussian."""
    limit = rate * math.sqrt(steps * math.expm1(1.0))
    added = accounting.epsilon([SampledGaussianEvent(1.0, rate, steps)], 1e-5, relation=Relation.ADD_OR_REMOVE_ONE)
    expected = curves.gaussian_epsilon(1 / limit, 1e-5)
    assert 0.99 * expected < added < 1.6 * expected  # of 10^9 steps the rounding up of losses is half of that
    assert added < accounting.epsilon([SampledGaussianEvent(1.0, rate, steps)], 1e-5) < 20


@pytest.mark.slow
def test_a_calibration_beyond_reason_returns() -> None:
    began = time.process_time()
    found = accounting.calibrate(TRAINING, 2000, delta=1e-5)
    assert time.process_time() - began < 60
    assert 1990 < accounting.epsilon([found], 1e-5) <= 2000


def test_little_noise_is_counted_as_if_every_step_took_every_record() -> None:
    """Below the least multiplier that has a grid the bound is Gaussian, and above all that is known of the grid."""
    little = SampledGaussianEvent(0.0199, 0.05, 10)
    more = SampledGaussianEvent(0.021, 0.05, 10)
    assert accounting.epsilon([little], 1e-5) > accounting.epsilon([more], 1e-5)
    every = accounting.epsilon([GaussianEvent(0.0199 / 2, 10)], 1e-5)  # replace one moves by two
    assert accounting.epsilon([little], 1e-5) == pytest.approx(every, rel=1e-9)
    added = accounting.epsilon([little], 1e-5, relation=Relation.ADD_OR_REMOVE_ONE)
    assert added == pytest.approx(accounting.epsilon([GaussianEvent(0.0199, 10)], 1e-5), rel=1e-9)


# --------------------------------------------------------------------------------------------- what adds up how


def test_gaussian_releases_compose_as_gaussians() -> None:
    """Ten releases at (1, 1e-6) were charged 10 where they cost 3.14 at 1e-5."""
    one = Gaussian(1.0, 1e-6, 16, 1.0).events
    assert accounting.epsilon(one, 1e-6) <= 1.0
    ten = accounting.repeat(one, 10)
    assert accounting.epsilon(ten, 1e-5) == pytest.approx(3.14, abs=0.005)
    assert accounting.quick_epsilon(ten, 1e-5) == pytest.approx(3.14, abs=0.005)


def test_pure_and_approximate_runs_compose_as_randomized_response() -> None:
    """100 runs at .1 were charged 4.73 where 4.31 is attained by binary randomized response."""
    found = accounting.epsilon([PureEvent(0.1, 100)], 1e-5)
    assert found == pytest.approx(4.307, abs=0.001)
    assert found == accounting.epsilon([TopKEvent(0.1, 1, 2, 100)], 1e-5)
    slack = ApproximateEvent(0.1, 1e-8, 100)  # 1e-6 of delta goes to the slack
    assert found < accounting.epsilon([slack], 1e-5) < accounting.epsilon([PureEvent(0.1, 100)], 8e-6)
    assert accounting.epsilon([slack], 1e-7) == math.inf
    assert accounting.epsilon([PureEvent(0.1, 100)]) == pytest.approx(10.0)


def mixed_delta(kinds: list[tuple[float, float, float, int]], epsilon: float) -> float:
    """delta of independent runs of several kinds (loss, chance of it, chance of its negative, count), enumerated."""
    total = {0.0: 1.0}
    for loss, gain, fall, count in kinds:
        for _ in range(count):
            after: dict[float, float] = {}
            for (net, mass), (step, chance) in itertools.product(
                total.items(), ((loss, gain), (0.0, 1 - gain - fall), (-loss, fall))
            ):
                key = round(net + step, 9)
                after[key] = after.get(key, 0.0) + mass * chance
            total = after
    return sum(mass * -math.expm1(epsilon - net) for net, mass in total.items() if net > epsilon)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
def test_runs_of_several_kinds_against_enumeration(delta: float) -> None:
    events = [TopKEvent(2.0, 2, 50, 6), PureEvent(0.5, 8), ApproximateEvent(1.0, 0.0, 3)]
    kinds = []
    for event in (TopKEvent(2.0, 2, 50), TopKEvent(0.5, 1, 2), TopKEvent(1.0, 1, 2)):
        gain, _, fall = curves.top_k_probabilities(event)
        kinds.append((event.epsilon, gain, fall))
    counted = [(*kind, count) for kind, count in zip(kinds, (6, 8, 3), strict=True)]
    tight, quick = accounting.epsilon(events, delta), accounting.quick_epsilon(events, delta)
    assert mixed_delta(counted, tight) <= delta * (1 + 1e-6)
    assert mixed_delta(counted, tight - 0.02) > delta  # and it is nearly exact
    assert tight <= quick <= min(accounting.epsilon(events), 1.6 * tight)


@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 8.0, 64.0])
def test_renyi_divergence_against_its_definition(order: float) -> None:
    for event in (TopKEvent(1e-6, 1, 2), TopKEvent(1.0, 1, 2), TopKEvent(4.0, 5, 20_000), TopKEvent(3.0, 7, 10)):
        gain, unmoved, fall = curves.top_k_probabilities(event)
        with mpmath.workdps(50):
            a, e = mpmath.mpf(order), mpmath.mpf(event.epsilon)
            z = event.k * mpmath.e**e + event.size - event.k
            free = min(event.k, event.size - event.k)
            p, q = free * mpmath.e**e / z, free / z
            mean = p * mpmath.e ** ((a - 1) * e) + (1 - p - q) + q * mpmath.e ** (-(a - 1) * e)
            true = float(mpmath.log(mean) / (a - 1))
        (found,) = curves.renyi_divergence(event, np.array([order]))
        assert true <= found <= true * (1 + 2e-9)
        assert gain + unmoved + fall == pytest.approx(1.0, abs=1e-15)


@pytest.mark.slow_cases(
    "events6-1e-05", why="three kinds; test_whatever_is_asked_an_answer_comes has a training and another kind"
)
@pytest.mark.parametrize("delta", [0.0, 1e-5, *(pytest.param(d, marks=pytest.mark.slow) for d in (1e-9, 1e-3))])
@pytest.mark.parametrize(
    "events",
    [
        [PureEvent(0.3, 50)],
        [TopKEvent(4.0, 5, 20_000, 3), TopKEvent(6.0, 5, 20_000, 3)],
        [GaussianEvent(3.0, 10), PureEvent(0.1, 10)],
        [ExponentialEvent(0.5, 100, 20), TwoSetEvent(1.0, 5, 100, count=2)],
        [ZcdpEvent(0.1), PureEvent(0.2)],
        [TopKEvent(0.1, 1, 2, 20_000)],
        [SampledGaussianEvent(1.0, 0.05, 300), TopKEvent(4.0, 1, 2), GaussianEvent(3.0)],
        # the same with fewer kinds, and on wide grids
        pytest.param([SampledGaussianEvent(1.0, 0.05, 300), TopKEvent(4.0, 1, 2)], marks=pytest.mark.slow),
        pytest.param([TopKEvent(4.0, 5, 20_000, 20), TopKEvent(6.0, 5, 20_000, 20)], marks=pytest.mark.slow),
        pytest.param(
            [SampledGaussianEvent(0.8, 0.99, 100), TopKEvent(0.01, 1, 7, 5), GaussianEvent(3.0)], marks=pytest.mark.slow
        ),
    ],
)
def test_the_quick_bound_is_never_below(events: list[Event], delta: float) -> None:
    assert accounting.epsilon(events, delta) <= accounting.quick_epsilon(events, delta)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 10.0])
def test_tem_pays_for_its_rounding_at_the_least_distance(epsilon: float) -> None:
    shrunk = 2 * Fraction(TruncatedExponential(epsilon, 5.0, 6)._shrunk)
    allowed = Fraction(epsilon) * Fraction(LEAST_DISTANCE) * (1 + Fraction(1, 2**50))
    assert shrunk == 0 or shrunk * Fraction(LEAST_DISTANCE) + 2 * Fraction(ROUNDING_LOSS) <= allowed


@pytest.mark.slow  # test_dp_sgd_under_two_relations has the numbers of such a training
@pytest.mark.parametrize(
    ("multiplier", "rate", "steps", "relation"),
    [
        (1.0, 0.05, 300, Relation.ADD_OR_REMOVE_ONE),
        # the other relation stays, and test_dp_sgd_under_two_relations has the numbers of both
        pytest.param(4.0, 0.99, 300, Relation.REPLACE_ONE, marks=pytest.mark.slow),
        # wider grids, and the same trainings under the other relation
        pytest.param(0.6, 0.02, 3000, Relation.ADD_OR_REMOVE_ONE, marks=pytest.mark.slow),
        pytest.param(1.0, 0.9, 60, Relation.REPLACE_ONE, marks=pytest.mark.slow),
        pytest.param(1.0, 0.05, 300, Relation.REPLACE_ONE, marks=pytest.mark.slow),
        pytest.param(0.6, 0.02, 3000, Relation.REPLACE_ONE, marks=pytest.mark.slow),
        pytest.param(4.0, 0.99, 300, Relation.ADD_OR_REMOVE_ONE, marks=pytest.mark.slow),
        pytest.param(1.0, 0.9, 60, Relation.ADD_OR_REMOVE_ONE, marks=pytest.mark.slow),
    ],
)
def test_the_grid_of_a_training_is_as_good_as_a_finer_one(
    multiplier: float, rate: float, steps: int, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the points state the same; some thousand points state too much."""
    events, stated = (SampledGaussianEvent(multiplier, rate, steps),), []
    for points in (3e6, 1.2e7, 2e3):
        monkeypatch.setattr(loss_distributions, "GRID_POINTS", points)
        mixed_epsilon.cache_clear()
        stated.append(mixed_epsilon(events, 1e-5, relation))
    mixed_epsilon.cache_clear()
    now, finer, coarse = stated
    assert finer * (1 - 1e-5) <= now <= finer * (1 + 1e-5)
    assert coarse > now * (1 + 1e-4)
