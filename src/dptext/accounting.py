"""The only maker of epsilons: composing, lifting, calibrating and reading events as guarantees.

    >>> from dptext import accounting
    >>> from dptext.guarantee import TopKEvent
    >>> accounting.epsilon([TopKEvent(epsilon=4, k=5, size=20_000, count=20)])
    80.0
    >>> accounting.epsilon([TopKEvent(epsilon=4, k=5, size=20_000, count=20)], delta=1e-5) < 16.1
    True

Every number is rounded up. What is pure is summed exactly, as fractions; where delta > 0 several valid
upper bounds are computed and the smallest is taken:

* pure epsilons added up, Gaussian parts by their analytic curve (Balle and Wang 2018), sampled Gaussian
  parts by the pessimistic privacy loss distribution of dp-accounting;
* the exact privacy loss distribution of top-k randomized response (MATHS 1.4);
* zero-concentrated DP for everything, converted as in Canonne, Kamath and Steinke 2020, proposition 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from dptext import _validate
from dptext.errors import ConfigError, IncomparableError
from dptext.guarantee import (
    ApproximateEvent,
    Basis,
    Event,
    ExponentialEvent,
    GaussianEvent,
    Guarantee,
    MetricEvent,
    NoEvent,
    PureEvent,
    Relation,
    SampledGaussianEvent,
    TopKEvent,
    Trust,
    TwoSetEvent,
    Unit,
    ZcdpEvent,
    weakest,
)

AnyEvent = TypeVar("AnyEvent", bound=Event)

#: Relative room for the rounding of exp and log in the closed formulas; they err by a few 2^-53.
_ROUNDING = 2.0**-44
#: Above this many runs the exact distribution of top-k losses costs more than it gains.
_MAX_EXACT_RUNS = 4096


# ------------------------------------------------------------------------ composition


def compose(events: Iterable[Event]) -> tuple[Event, ...]:
    """Several runs on the same input, as run lengths: equal events are merged into their count."""
    counts: dict[Event, int] = {}
    for event in events:
        single = replace(event, count=1)
        counts[single] = counts.get(single, 0) + event.count
    return tuple(replace(event, count=count) for event, count in counts.items())


def repeat(events: Iterable[Event], times: int) -> tuple[Event, ...]:
    """The same events, each run `times` times (adaptive sequential composition)."""
    _validate.count(times=times)
    return compose(replace(event, count=event.count * times) for event in events)


def _up(value: float) -> float:
    """A little above a value that floats computed, so that rounding never makes epsilon smaller than it is."""
    return math.nextafter(value * (1 + _ROUNDING), math.inf) if value > 0 else max(value, 0.0)


def _round_up(total: Fraction) -> float:
    """The smallest float that is at least this fraction."""
    nearest = float(total)
    return nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)


def _two_set_epsilon(event: TwoSetEvent) -> float:
    # MATHS 1.3 (a) and (b); the paper's epsilon + ln(size) is true but loose.
    spread = (event.size - event.k) / event.k if event.set_choice == "top_k" else event.size - 1
    return _up(event.epsilon / 2 + math.log(spread))


def _exponential_epsilon(event: ExponentialEvent) -> float:
    # MATHS 1.4: one option at the top of the range and the others at its bottom, against the reverse.
    d, others = event.log_range, event.size - 1
    if others == 0 or d == 0:
        return 0.0
    log_others = math.log(others)
    return _up(float(d + np.logaddexp(log_others + d, 0.0) - np.logaddexp(d, log_others)))


def _pure_epsilon(event: Event) -> float | None:
    """Epsilon of one run at delta = 0, or None where it is infinite."""
    match event:
        case PureEvent() | TopKEvent():
            return event.epsilon
        case TwoSetEvent():
            return _two_set_epsilon(event)
        case ExponentialEvent():
            return _exponential_epsilon(event)
        case ApproximateEvent() | GaussianEvent() | ZcdpEvent() | SampledGaussianEvent() | NoEvent():
            return None
        case MetricEvent():
            raise IncomparableError(
                f"Expected an epsilon without a metric, found epsilon per unit of {event.metric}: "
                "give a public diameter (dptext.accounting.bounded_metric) first."
            )
        case _:
            assert_never(event)


def _zcdp_rho(event: Event) -> float | None:
    """rho of one run in zero-concentrated DP, or None where there is none."""
    match event:
        case ZcdpEvent():
            return event.rho
        case GaussianEvent():
            return _up(0.5 / event.noise_multiplier**2)
        case ExponentialEvent():
            # Bounded range 2d (Cesar and Rogers 2021), or the tight pure epsilon.
            return _up(min((2 * event.log_range) ** 2 / 8, _exponential_epsilon(event) ** 2 / 2))
        case PureEvent() | TopKEvent() | TwoSetEvent():
            pure = _pure_epsilon(event)
            return None if pure is None else _up(pure**2 / 2)
        case ApproximateEvent() | SampledGaussianEvent() | NoEvent() | MetricEvent():
            return None
        case _:
            assert_never(event)


def _sum_up(terms: Iterable[tuple[float, int]]) -> float:
    return _round_up(sum((Fraction(value) * count for value, count in terms), Fraction(0)))


# ------------------------------------------------------------------- epsilon at delta > 0


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon at delta of a rho-zCDP release (Canonne, Kamath and Steinke 2020, proposition 12)."""
    _validate.not_negative(rho=rho)
    _validate.positive(delta=delta)
    if rho == 0:
        return 0.0

    def at(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return alpha * rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)

    # Every alpha gives a valid bound, so an imperfect minimum only costs tightness.
    best = minimize_scalar(at, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-10})
    guess = math.log(max(math.sqrt(-math.log(min(delta, 0.5)) / rho), 1e-5))
    return _up(max(min(float(best.fun), at(min(max(guess, -12.0), 12.0))), 0.0))


def gaussian_delta(noise_multiplier: float, epsilon: float) -> float:
    """delta of continuous Gaussian noise at epsilon (Balle and Wang 2018, theorem 8), rounded up.

    noise_multiplier = standard deviation / L2 sensitivity.
    """
    _validate.positive(noise_multiplier=noise_multiplier)
    mu = 1 / noise_multiplier
    log_left = float(log_ndtr(mu / 2 - epsilon / mu))
    log_right = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if log_right >= log_left:
        return 0.0 if log_left < -700 else math.exp(log_left) * 1e-12
    # exp(left) - exp(right); log_ndtr errs by some 1e-14 relative, which the difference may magnify
    return min(1.0, -math.exp(log_left) * math.expm1(log_right - log_left) + math.exp(log_left) * 1e-12)


def _gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    if gaussian_delta(noise_multiplier, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(noise_multiplier, high) > delta:
        high *= 2
        if high > 1e12:
            return math.inf
    return _up(_smallest(lambda e: gaussian_delta(noise_multiplier, e) <= delta, high / 2 if high > 1 else 0.0, high))


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest float in (low, high] for which a monotone condition holds, given that it holds at high."""
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _top_k_probabilities(event: TopKEvent) -> tuple[float, float, float]:
    """Probabilities of loss +epsilon, 0 and -epsilon in the worst case of one run (disjoint top-k sets)."""
    k, size = event.k, event.size
    others = size - k
    overlap_free = min(k, others)  # when 2k > size the two sets must overlap; overlap has loss 0
    # p = e^E / Z and q = 1 / Z with Z = k e^E + size - k, without overflow
    q_over_p = math.exp(-event.epsilon)
    p = 1 / (k + others * q_over_p)
    up, down = overlap_free * p, overlap_free * p * q_over_p
    return up, max(0.0, 1 - up - down), down


def _top_k_net_losses(event: TopKEvent) -> NDArray[np.float64]:
    """Exact distribution of (runs with loss +epsilon) - (runs with loss -epsilon), from -count to count."""
    up, zero, down = _top_k_probabilities(event)
    result = np.ones(1)
    power = np.array([down, zero, up])
    remaining = event.count
    while remaining:
        if remaining % 2:
            result = np.convolve(result, power)
        remaining //= 2
        if remaining:
            power = np.convolve(power, power)
    return result


def top_k_delta(event: TopKEvent, epsilon: float) -> float:
    """delta at epsilon of `event.count` runs of top-k randomized response, from the exact loss distribution."""
    losses = _top_k_net_losses(event)
    net = np.arange(-event.count, event.count + 1) * event.epsilon
    above = net > epsilon
    total = float(np.sum(losses[above] * -np.expm1(epsilon - net[above])))
    return min(1.0, total * (1 + 1e-9))  # sums of positive terms: the error is far below 1e-9 relative


def _top_k_epsilon(event: TopKEvent, delta: float) -> float:
    losses = _top_k_net_losses(event) * (1 + 1e-9)
    net = np.arange(-event.count, event.count + 1) * event.epsilon
    # On [net_j, net_j+1): delta(epsilon) = tail_mass - e^epsilon * tail_weight, both over losses above net_j.
    tail_mass = np.cumsum(losses[::-1])[::-1]
    log_terms = np.log(np.maximum(losses, 1e-320)) - net
    tail_weight_log = np.logaddexp.accumulate(log_terms[::-1])[::-1]
    for j in range(len(net)):
        excess = tail_mass[j] - delta
        if excess <= 0:
            return _up(max(float(net[j - 1]), 0.0)) if j else 0.0
        candidate = math.log(excess) - float(tail_weight_log[j])
        if candidate <= net[j]:
            return _up(max(candidate, 0.0))
    return _up(float(net[-1]))


def _pld_epsilon(events: Sequence[Event], delta: float, relation: Relation) -> float:
    """Epsilon of sampled Gaussian events, with plain Gaussian ones beside them, by dp-accounting."""
    # dp-accounting takes most of a second to import and only trained models need it.
    import dp_accounting  # noqa: PLC0415
    from dp_accounting import pld  # noqa: PLC0415

    relations = dp_accounting.NeighboringRelation
    theirs = {
        Relation.REPLACE_ONE: relations.REPLACE_ONE,
        Relation.ADD_OR_REMOVE_ONE: relations.ADD_OR_REMOVE_ONE,
        Relation.REPLACE_SPECIAL: relations.REPLACE_SPECIAL,
    }[relation]
    accountant = pld.PLDAccountant(theirs)
    for event in events:
        if isinstance(event, SampledGaussianEvent):
            step = dp_accounting.GaussianDpEvent(event.noise_multiplier)
            if event.sampling_rate < 1:
                step = dp_accounting.PoissonSampledDpEvent(event.sampling_rate, step)
            accountant.compose(step, event.steps * event.count)
    rho = _sum_up((_zcdp_rho(e) or 0.0, e.count) for e in events if isinstance(e, GaussianEvent))
    if rho:
        # Ours is relative to the sensitivity of the relation, theirs to the norm of one record: under
        # REPLACE_ONE theirs moves the mean by two norms.
        moved = 2.0 if relation is Relation.REPLACE_ONE else 1.0
        accountant.compose(dp_accounting.GaussianDpEvent(moved / math.sqrt(2 * rho)))
    return _up(float(accountant.get_epsilon(delta)))


def _approximate_epsilon(events: Sequence[Event], delta: float, relation: Relation) -> float:
    """The smallest of several valid bounds on epsilon at delta, for events without metric."""
    added = [e for e in events if isinstance(e, ApproximateEvent)]
    left = Fraction(delta) - sum((Fraction(e.delta) * e.count for e in added), Fraction(0))
    if left < 0:
        return math.inf
    base = _sum_up((e.epsilon, e.count) for e in added)
    rest = [e for e in events if not isinstance(e, ApproximateEvent)]
    if not rest:
        return base
    pure = {e: _pure_epsilon(e) for e in rest}
    noisy = [e for e, epsilon in pure.items() if epsilon is None]
    pure_terms = [(epsilon, e.count) for e, epsilon in pure.items() if epsilon is not None]
    if not noisy:
        candidates = [_sum_up(pure_terms)]
    elif left == 0:
        return math.inf
    else:
        candidates = [_sum_up([*pure_terms, (_noise_epsilon(noisy, float(left), relation), 1)])]
    delta_left = math.nextafter(float(left), 0.0) if Fraction(float(left)) > left else float(left)
    if delta_left > 0:
        top_k = [e for e in rest if isinstance(e, TopKEvent)]
        if not noisy and len(top_k) == 1 and top_k[0].count <= _MAX_EXACT_RUNS:
            others = [(epsilon, e.count) for e, epsilon in pure.items() if e is not top_k[0] and epsilon is not None]
            candidates.append(_sum_up([*others, (_top_k_epsilon(top_k[0], delta_left), 1)]))
        rhos = [_zcdp_rho(e) for e in rest]
        if all(rho is not None for rho in rhos):
            rho = _sum_up((r, e.count) for r, e in zip(rhos, rest, strict=True) if r is not None)
            candidates.append(zcdp_epsilon(rho, delta_left))
    return _sum_up([(base, 1), (min(candidates), 1)])


def _noise_epsilon(noisy: Sequence[Event], delta: float, relation: Relation) -> float:
    """Epsilon at delta > 0 of events without a pure epsilon (Gaussian, zCDP, sampled Gaussian)."""
    zcdp = [e for e in noisy if isinstance(e, ZcdpEvent)]
    gaussian = [e for e in noisy if isinstance(e, GaussianEvent)]
    sampled = [e for e in noisy if isinstance(e, SampledGaussianEvent)]
    if sampled and zcdp:
        rho = _sum_up((e.rho, e.count) for e in zcdp)
        return _sum_up(
            [(_pld_epsilon([*sampled, *gaussian], delta / 2, relation), 1), (zcdp_epsilon(rho, delta / 2), 1)]
        )
    if sampled:
        return _pld_epsilon(noisy, delta, relation)
    rho = _sum_up((_zcdp_rho(e) or 0.0, e.count) for e in noisy)
    if zcdp:
        return zcdp_epsilon(rho, delta)
    # Gaussians compose to one Gaussian: 1 / noise_multiplier^2 adds up.
    return _gaussian_epsilon(1 / math.sqrt(2 * rho), delta)


def epsilon(
    events: Iterable[Event], delta: float = 0.0, *, relation: Relation = Relation.REPLACE_ONE
) -> float:
    """The smallest epsilon that is known to hold at delta for all these runs together, rounded up.

    Infinite where nothing holds (a Gaussian at delta 0, a NoEvent).

    Raises:
        IncomparableError: an event has a metric.
        ConfigError: delta is outside [0, 1].
    """
    _validate.probability(delta=delta)
    return _epsilon(events, delta, relation)


def _epsilon(events: Iterable[Event], delta: float, relation: Relation) -> float:
    merged = compose(events)
    if any(isinstance(event, NoEvent) for event in merged):
        return math.inf
    if delta == 1:
        return 0.0
    return _approximate_epsilon(merged, delta, relation) if merged else 0.0


# ------------------------------------------------------------------------- guarantees


def guarantee(
    events: Iterable[Event],
    delta: float = 0.0,
    *,
    unit: Unit,
    relation: Relation = Relation.REPLACE_ONE,
    trust: Trust = Trust.LOCAL,
    basis: Basis = Basis.PROVEN,
    assumptions: Sequence[str] = (),
    reveals: Sequence[str] = (),
) -> Guarantee:
    """What the events mean at this delta, for this unit and relation.

    Events with a metric give a metric guarantee: all of one metric, epsilons and slacks added up.

    Raises:
        IncomparableError: events with a metric are mixed with others, or with another metric.
    """
    merged = compose(events)
    without = [event.reason for event in merged if isinstance(event, NoEvent)]
    metrics = {event.metric if isinstance(event, MetricEvent) else None for event in merged}
    if len(metrics) > 1 and not without:
        raise IncomparableError(f"Expected events of one metric, found {sorted(str(m) for m in metrics)}.")
    metric = None if without else next(iter(metrics), None)
    found = math.inf
    if metric is not None:
        metric_events = [event for event in merged if isinstance(event, MetricEvent)]
        found = _sum_up((event.epsilon, event.count) for event in metric_events)
        delta = min(1.0, max(delta, _sum_up((event.delta, event.count) for event in metric_events)))
    elif not without:
        found = _epsilon(merged, delta, relation)
    if without or math.isinf(found):
        reason = "; ".join(without) or f"no finite epsilon is known at delta = {delta:g}"
        return Guarantee(
            math.inf, 0.0, unit, relation, None, trust, Basis.NONE, tuple(assumptions), tuple(reveals), reason
        )
    return Guarantee(found, delta, unit, relation, metric, trust, basis, tuple(assumptions), tuple(reveals))


def add(first: Guarantee, second: Guarantee) -> Guarantee:
    """Both releases together, when only their guarantees are known (basic composition).

    Raises:
        IncomparableError: unit, relation or metric differ.
    """
    first.require_comparable(second)
    basis = weakest(first.basis, second.basis)
    trust = Trust.CENTRAL if Trust.CENTRAL in (first.trust, second.trust) else Trust.LOCAL
    total = math.inf if basis is Basis.NONE else _sum_up([(first.epsilon, 1), (second.epsilon, 1)])
    return Guarantee(
        epsilon=total,
        delta=0.0 if basis is Basis.NONE else min(1.0, _sum_up([(first.delta, 1), (second.delta, 1)])),
        unit=first.unit,
        relation=first.relation,
        metric=first.metric,
        trust=trust,
        basis=basis,
        assumptions=tuple(dict.fromkeys(first.assumptions + second.assumptions)),
        reveals=first.common_reveals(second),
        reason="; ".join(dict.fromkeys(filter(None, (first.reason, second.reason)))),
    )


def special_to_replace_one(special: Guarantee) -> Guarantee:
    """REPLACE_SPECIAL read as REPLACE_ONE: two steps through the empty record, 2 epsilon and (1 + e^epsilon) delta.

    Raises:
        IncomparableError: the guarantee is not one of REPLACE_SPECIAL, or it has a metric.
    """
    if special.relation is not Relation.REPLACE_SPECIAL or special.metric is not None:
        raise IncomparableError(f"Expected relation replace_special without metric, found {special.meaning}.")
    twice = special.epsilon if math.isinf(special.epsilon) else _sum_up([(special.epsilon, 2)])
    delta = 0.0
    if special.delta:
        delta = 1.0 if special.epsilon > 700 else min(1.0, _up((1 + math.exp(special.epsilon)) * special.delta))
    return replace(special, relation=Relation.REPLACE_ONE, epsilon=twice, delta=delta)


# ---------------------------------------------------------------------------- lifting


def bounded_metric(events: Iterable[Event], *, diameter: float) -> tuple[Event, ...]:
    """Metric events read without metric, for inputs at most `diameter` (public) apart."""
    _validate.positive(diameter=diameter)
    return tuple(
        ApproximateEvent(_up(event.epsilon * diameter), event.delta, event.count)
        if isinstance(event, MetricEvent)
        else event
        for event in events
    )


def lift(events: Iterable[Event], *, runs: int = 1, parts: int = 1) -> tuple[Event, ...]:
    """Events of a small unit read for a larger one (MATHS 8).

    Args:
        events: what happened to one small unit.
        runs: public maximum of small units in a large one when each is *a run of its own* (tokens of a
            document, documents of an author): sequential composition.
        parts: public maximum of small units when *one run depends on all of them*: group privacy.

    Raises:
        IncomparableError: an event has a metric (see `bounded_metric`), or is a sampled Gaussian with parts > 1.
    """
    _validate.count(runs=runs, parts=parts)
    return repeat((_group(event, parts) for event in events), runs)


def _group(event: Event, parts: int) -> Event:
    match event:
        case MetricEvent():
            raise IncomparableError(
                f"Expected events without a metric, found epsilon per unit of {event.metric}: the epsilon of a larger "
                "unit is unbounded unless a public diameter is given (dptext.accounting.bounded_metric)."
            )
        case PureEvent():
            return replace(event, epsilon=_sum_up([(event.epsilon, parts)]))
        case ZcdpEvent():
            return replace(event, rho=_sum_up([(event.rho, parts * parts)]))
        case GaussianEvent():
            return replace(event, noise_multiplier=math.nextafter(event.noise_multiplier / parts, 0.0))
        case ApproximateEvent() if parts > 1:
            return _group_approximate(event, parts)
        case SampledGaussianEvent() if parts > 1:
            raise IncomparableError("Expected parts=1: sampled Gaussian events are not lifted to groups.")
        case TopKEvent() | TwoSetEvent() | ExponentialEvent():
            return event  # these hold for any two inputs whatever, groups included
        case ApproximateEvent() | SampledGaussianEvent() | NoEvent():
            return event
        case _:
            assert_never(event)


def _group_approximate(event: ApproximateEvent, parts: int) -> ApproximateEvent:
    total = _sum_up([(event.epsilon, parts)])
    if total > 700:
        delta = 1.0 if event.delta else 0.0
    else:
        growth = math.expm1(total) / math.expm1(event.epsilon) if event.epsilon else float(parts)
        delta = min(1.0, _up(event.delta * growth))
    return replace(event, epsilon=total, delta=delta)


# ------------------------------------------------------------------------- calibration


def _with_strength(event: AnyEvent, strength: float) -> AnyEvent:
    """The event with its one free parameter set; a larger strength means a larger epsilon."""
    match event:
        case PureEvent() | ApproximateEvent() | TopKEvent() | TwoSetEvent() | MetricEvent():
            return replace(event, epsilon=strength)
        case ZcdpEvent():
            return replace(event, rho=strength)
        case ExponentialEvent():
            return replace(event, log_range=strength)
        case GaussianEvent() | SampledGaussianEvent():
            return replace(event, noise_multiplier=1 / strength)
        case NoEvent():
            raise ConfigError(f"Expected an event with a guarantee to calibrate, found none: {event.reason}.")
        case _:
            assert_never(event)


def calibrate(
    event: AnyEvent,
    epsilon: float,
    *,
    delta: float = 0.0,
    relation: Relation = Relation.REPLACE_ONE,
    lifted: Callable[[AnyEvent], Iterable[Event]] | None = None,
) -> AnyEvent:
    """The event with its free parameter (epsilon, rho, log_range or noise_multiplier) set to reach epsilon.

    Never overshoots: `epsilon(lifted(result), delta) <= epsilon`.

    Args:
        event: a template; its other fields and its count stay as they are.
        epsilon: what all runs together may cost at delta.
        delta: as in `epsilon()`.
        relation: as in `epsilon()`.
        lifted: how the event becomes what is accounted for (default: it is accounted for as it is); for
            example `lambda event: lift([event], runs=20)`.

    Raises:
        ConfigError: the mechanism cannot reach so small an epsilon; the message names the floor.
    """
    _validate.positive(epsilon=epsilon)
    _validate.probability(delta=delta)

    def cost(strength: float) -> float:
        candidate = _with_strength(event, strength)
        return _epsilon(lifted(candidate) if lifted is not None else [candidate], delta, relation)

    tolerance = 1e-9 if isinstance(event, SampledGaussianEvent) else 0.0
    weakest_strength = 1e-4 if isinstance(event, SampledGaussianEvent) else 2.0**-60
    floor = cost(weakest_strength)
    if floor > epsilon:
        raise ConfigError(
            f"Expected epsilon={epsilon!r} >= {floor:.6g}, the floor of this mechanism at delta={delta:g} "
            f"({type(event).__name__}): choose a larger epsilon, a larger delta, fewer runs or another mechanism."
        )
    low, high = weakest_strength, 1.0
    while cost(high) <= epsilon:
        low, high = high, high * 2
        if high > 2.0**60:
            raise ConfigError(f"Expected epsilon={epsilon!r} to bind: {type(event).__name__} costs less at any strength.")
    while (middle := math.sqrt(low * high) if high > 4 * low else (low + high) / 2) not in (low, high):
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
        if high - low <= tolerance * high:
            break
    return _with_strength(event, low)
