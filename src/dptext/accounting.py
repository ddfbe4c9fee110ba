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
from functools import lru_cache
from typing import TypeVar, assert_never

from scipy.optimize import brentq

from dptext import _validate
from dptext.curves import (
    approximate_delta,
    dominating,
    exponential_epsilon,
    gaussian_epsilon,
    sum_up,
    top_k_epsilon,
    top_k_probabilities,
    two_set_epsilon,
    up,
    zcdp_epsilon,
)
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

_MAX_EXACT_RUNS = 16_384  # beyond, the exact distribution of top-k losses costs more than it gains


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


def _pure_epsilon(event: Event) -> float | None:
    """Epsilon of one run at delta = 0, or None where it is infinite."""
    match event:
        case PureEvent() | TopKEvent():
            return event.epsilon
        case TwoSetEvent():
            return two_set_epsilon(event)
        case ExponentialEvent():
            return exponential_epsilon(event)
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
            inverse = 1 / event.noise_multiplier
            return up(0.5 * inverse * inverse)
        case ExponentialEvent():
            # Bounded range 2d (Cesar and Rogers 2021), or the tight pure epsilon.
            tight = exponential_epsilon(event)
            return up(min(event.log_range * event.log_range, tight * tight) / 2)
        case PureEvent() | TopKEvent() | TwoSetEvent():
            pure = _pure_epsilon(event)
            return None if pure is None else up(pure * pure / 2)
        case ApproximateEvent() | SampledGaussianEvent() | NoEvent() | MetricEvent():
            return None
        case _:
            assert_never(event)


# ------------------------------------------------------------------- epsilon at delta > 0


@lru_cache(maxsize=256)  # most of a second each; who plans, calibrates and then states asks three times
def _pld_epsilon(events: tuple[Event, ...], delta: float, relation: Relation) -> float:
    """Epsilon of (sampled) Gaussian and top-k events together, by the pessimistic distributions of dp-accounting."""
    # dp-accounting takes most of a second to import, and few releases need it.
    from dp_accounting import NeighboringRelation  # noqa: PLC0415
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    theirs = NeighboringRelation[relation.name]
    total = pld.identity()
    for event in events:
        if isinstance(event, SampledGaussianEvent):
            step = pld.from_gaussian_mechanism(
                event.noise_multiplier, sampling_prob=event.sampling_rate, neighboring_relation=theirs
            )
            total = total.compose(step.self_compose(event.steps * event.count))
        elif isinstance(event, TopKEvent):
            gain, _, loss = masses = top_k_probabilities(event)
            upper = {i: math.log(mass) for i, mass in enumerate(masses) if mass > 0}
            lower = {i: math.log(mass) for i, mass in enumerate((loss, masses[1], gain)) if mass > 0}
            choice = pld.from_two_probability_mass_functions(lower, upper)
            total = total.compose(choice.self_compose(event.count))
    rho = sum_up((_zcdp_rho(e) or 0.0, e.count) for e in events if isinstance(e, GaussianEvent))
    if rho:
        # Ours is relative to the sensitivity of the relation, theirs to a record's norm: REPLACE_ONE moves by two.
        moved = 2.0 if relation is Relation.REPLACE_ONE else 1.0
        total = total.compose(pld.from_gaussian_mechanism(moved / math.sqrt(2 * rho), neighboring_relation=theirs))
    return up(float(total.get_epsilon_for_delta(delta)))


def _needs_pld(events: Sequence[Event]) -> bool:
    """Whether the tightest bound takes a numerical distribution: sampled Gaussians, or top-k beside other noise."""
    mixable = [e for e in events if isinstance(e, TopKEvent | GaussianEvent | SampledGaussianEvent)]
    if any(isinstance(e, SampledGaussianEvent) for e in mixable):
        return True
    return any(isinstance(e, TopKEvent) and (len(mixable) > 1 or e.count > _MAX_EXACT_RUNS) for e in mixable)


def _approximate_epsilon(events: Sequence[Event], delta: float, relation: Relation) -> float:
    """The smallest of several valid bounds on epsilon at delta, for events without metric."""
    added = [e for e in events if isinstance(e, ApproximateEvent)]
    left = Fraction(delta) - approximate_delta(added)
    if left < 0:
        return math.inf
    base = sum_up((e.epsilon, e.count) for e in added)
    rest = [dominating(e) for e in events if not isinstance(e, ApproximateEvent)]
    if not rest:
        return base
    pure = {e: _pure_epsilon(e) for e in rest}
    noisy = [e for e, epsilon in pure.items() if epsilon is None]
    pure_terms = [(epsilon, e.count) for e, epsilon in pure.items() if epsilon is not None]
    delta_left = math.nextafter(float(left), 0.0) if Fraction(float(left)) > left else float(left)
    if not noisy:
        candidates = [sum_up(pure_terms)]
    elif delta_left == 0:
        return math.inf
    else:
        candidates = [sum_up([*pure_terms, (_noise_epsilon(noisy, delta_left, relation), 1)])]
    if delta_left > 0:
        mixable = [e for e in rest if isinstance(e, TopKEvent | GaussianEvent | SampledGaussianEvent)]
        others = [e for e in rest if e not in mixable]
        others_pure = [(value, e.count) for e in others if (value := pure[e]) is not None]
        if len(others_pure) == len(others) and any(isinstance(e, TopKEvent) for e in mixable):
            together = (
                _pld_epsilon((*mixable,), delta_left, relation)
                if _needs_pld(mixable)
                else top_k_epsilon(mixable[0], delta_left)  # type: ignore[arg-type]  # then it is one top-k event
            )
            candidates.append(sum_up([*others_pure, (together, 1)]))
        rhos = [_zcdp_rho(e) for e in rest]
        if all(rho is not None for rho in rhos):
            rho = sum_up((r, e.count) for r, e in zip(rhos, rest, strict=True) if r is not None)
            candidates.append(zcdp_epsilon(rho, delta_left))
    return sum_up([(base, 1), (min(candidates), 1)])


def _noise_epsilon(noisy: Sequence[Event], delta: float, relation: Relation) -> float:
    """Epsilon at delta > 0 of events without a pure epsilon (Gaussian, zCDP, sampled Gaussian)."""
    zcdp = [e for e in noisy if isinstance(e, ZcdpEvent)]
    gaussian = [e for e in noisy if isinstance(e, GaussianEvent)]
    sampled = [e for e in noisy if isinstance(e, SampledGaussianEvent)]
    if sampled and zcdp:
        rho = sum_up((e.rho, e.count) for e in zcdp)
        return sum_up(
            [(_pld_epsilon((*sampled, *gaussian), delta / 2, relation), 1), (zcdp_epsilon(rho, delta / 2), 1)]
        )
    if sampled:
        return _pld_epsilon((*noisy,), delta, relation)
    rho = sum_up((_zcdp_rho(e) or 0.0, e.count) for e in noisy)
    if zcdp or rho == 0 or rho > 1e15:
        return zcdp_epsilon(rho, delta)
    # Gaussians compose to one Gaussian: 1 / noise_multiplier^2 adds up.
    return gaussian_epsilon(1 / math.sqrt(2 * rho), delta)


def epsilon(events: Iterable[Event], delta: float = 0.0, *, relation: Relation = Relation.REPLACE_ONE) -> float:
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
        found = sum_up((event.epsilon, event.count) for event in metric_events)
        delta = min(1.0, max(delta, sum_up((event.delta, event.count) for event in metric_events)))
    elif not without:
        found = _epsilon(merged, delta, relation)
    if without or math.isinf(found):
        reason = "; ".join(without) or f"no finite epsilon is known at delta = {delta:g}"
        return Guarantee(
            math.inf, 0.0, unit, relation, None, trust, Basis.NONE, tuple(assumptions), tuple(reveals), reason
        )
    return Guarantee(found, delta, unit, relation, metric, trust, basis, tuple(assumptions), tuple(reveals))


def _restated(source: Guarantee, *, epsilon: float, delta: float) -> Guarantee:
    """The guarantee with other numbers; where epsilon is infinite, none."""
    if math.isinf(epsilon) and source.basis is not Basis.NONE:
        return source.voided("no finite epsilon is known")
    return replace(source, epsilon=epsilon, delta=delta)


def add(first: Guarantee, second: Guarantee) -> Guarantee:
    """Both releases together, when only their guarantees are known (basic composition).

    Raises:
        IncomparableError: unit, relation or metric differ.
    """
    first.require_comparable(second)
    both = replace(
        first if weakest(first.basis, second.basis) is first.basis else second,
        trust=Trust.CENTRAL if Trust.CENTRAL in (first.trust, second.trust) else Trust.LOCAL,
        assumptions=tuple(dict.fromkeys(first.assumptions + second.assumptions)),
        reveals=first.common_reveals(second),
    )
    if both.basis is Basis.NONE:
        return both.voided("; ".join(filter(None, (first.reason, second.reason))))
    return _restated(
        both,
        epsilon=sum_up([(first.epsilon, 1), (second.epsilon, 1)]),
        delta=min(1.0, sum_up([(first.delta, 1), (second.delta, 1)])),
    )


def special_to_replace_one(special: Guarantee) -> Guarantee:
    """REPLACE_SPECIAL read as REPLACE_ONE: two steps through the empty record, 2 epsilon and (1 + e^epsilon) delta.

    Raises:
        IncomparableError: the guarantee is not one of REPLACE_SPECIAL, or it has a metric.
    """
    if special.relation is not Relation.REPLACE_SPECIAL or special.metric is not None:
        raise IncomparableError(f"Expected relation replace_special without metric, found {special.meaning}.")
    twice = sum_up([(special.epsilon, 2)])
    delta = 0.0
    if special.delta:
        delta = 1.0 if special.epsilon > 700 else min(1.0, up((1 + math.exp(special.epsilon)) * special.delta))
    return _restated(replace(special, relation=Relation.REPLACE_ONE), epsilon=twice, delta=delta)


# ---------------------------------------------------------------------------- lifting


def bounded_metric(events: Iterable[Event], *, diameter: float) -> tuple[Event, ...]:
    """Metric events read without metric, for inputs at most `diameter` (public) apart."""
    _validate.positive(diameter=diameter)

    def read(event: Event) -> Event:
        if not isinstance(event, MetricEvent):
            return event
        epsilon = up(event.epsilon * diameter)
        return ApproximateEvent(epsilon, event.delta, event.count) if event.delta else PureEvent(epsilon, event.count)

    return tuple(map(read, events))


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


def for_author(document: Guarantee, *, max_per_author: int) -> Guarantee:
    """A document's guarantee read for everything by one author, when no author has more than so many documents.

    Each document is a run of its own, so epsilon and delta add up. The maximum must have been enforced.

    Raises:
        IncomparableError: the guarantee is not per document, or it has a metric.
    """
    _validate.count(max_per_author=max_per_author)
    if document.unit is not Unit.DOCUMENT or document.metric is not None:
        raise IncomparableError(f"Expected a guarantee per document without metric, found {document.meaning}.")
    if document.basis is Basis.NONE:
        return replace(document, unit=Unit.AUTHOR)
    if document.trust is Trust.CENTRAL:
        raise IncomparableError("Expected a local guarantee: one training sees all documents of an author at once.")
    enforced = f"no author has more than {max_per_author} records (enforced)"
    author = replace(document, unit=Unit.AUTHOR, assumptions=(*document.assumptions, enforced))
    return _restated(
        author,
        epsilon=sum_up([(document.epsilon, max_per_author)]),
        delta=min(1.0, sum_up([(document.delta, max_per_author)])),
    )


def _group(event: Event, parts: int) -> Event:
    match event:
        case MetricEvent():
            raise IncomparableError(
                f"Expected events without a metric, found epsilon per unit of {event.metric}: the epsilon of a larger "
                "unit is unbounded unless a public diameter is given (dptext.accounting.bounded_metric)."
            )
        case PureEvent():
            return replace(event, epsilon=sum_up([(event.epsilon, parts)]))
        case ZcdpEvent():
            return replace(event, rho=sum_up([(event.rho, parts * parts)]))
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
    total = sum_up([(event.epsilon, parts)])
    if total > 700:
        delta = 1.0 if event.delta else 0.0
    else:
        growth = math.expm1(total) / math.expm1(event.epsilon) if event.epsilon else float(parts)
        delta = min(1.0, up(event.delta * growth))
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

    # A numerical distribution costs a second an evaluation: fewer, and from a strength of 10^-4 on.
    costly = delta > 0 and _needs_pld(compose(lifted(event) if lifted is not None else [event]))
    low = 1e-4 if costly else 2.0**-60
    floor = cost(low)
    if floor > epsilon:
        raise ConfigError(
            f"Expected epsilon={epsilon!r} >= {floor:.6g}, the floor of this mechanism at delta={delta:g} "
            f"({type(event).__name__}): choose a larger epsilon, a larger delta, fewer runs or another mechanism."
        )
    high = 1.0
    while cost(high) <= epsilon:
        low, high = high, high * 2
        if high > 2.0**60:
            raise ConfigError(
                f"Expected epsilon={epsilon!r} to bind: {type(event).__name__} costs less at any strength."
            )
    if costly:
        gap = lambda log_strength: math.log(max(cost(math.exp(log_strength)), 1e-12) / epsilon)  # noqa: E731
        low = math.exp(brentq(gap, math.log(low), math.log(high), xtol=1e-8))
        while cost(low) > epsilon:
            low *= 1 - 1e-7
        return _with_strength(event, low)
    while (middle := math.sqrt(low * high) if high > 4 * low else (low + high) / 2) not in (low, high):
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
    return _with_strength(event, low)
