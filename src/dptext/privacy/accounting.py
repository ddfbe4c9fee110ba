"""Compose (`composition`), lift and calibrate events, and derive guarantees. No other module makes an epsilon."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from dptext import _validate
from dptext.errors import ConfigError, IncomparableError
from dptext.privacy import composition
from dptext.privacy.composition import compose, epsilon, quick_epsilon, repeat, require_events, slack
from dptext.privacy.curves import sum_up, up
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
from dptext.privacy.guarantee import RECORD_COUNT, Basis, Guarantee, Relation, Trust, Unit
from dptext.privacy.names import COMPARED

__all__ = [
    "Bound", "bounded_metric", "calibrate", "compose", "epsilon", "for_author", "guarantee", "lift",
    "quick_epsilon", "repeat", "slack",
]  # fmt: skip


AnyEvent = TypeVar("AnyEvent", bound=Event)


def _with_strength(event: AnyEvent, strength: float) -> AnyEvent:
    """Return the event with its one free parameter set. A larger strength means a larger epsilon."""
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
    """Return the event with its free parameter (epsilon, rho, log_range or noise_multiplier) set to reach epsilon.

    The result never overshoots: `epsilon(lifted(result), delta) <= epsilon`. The event keeps its other fields and its
    count. `epsilon` bounds the cost of all runs together at delta. `lifted` maps the event to the events that are
    accounted for, for example `lambda event: lift([event], runs=20)`; the default accounts for the event alone.
    ConfigError: the mechanism cannot reach so small an epsilon (the message names the floor), or it always costs less.
    """
    _validate.positive(epsilon=epsilon)
    _validate.probability(delta=delta)

    def cost(strength: float) -> float:
        candidate = _with_strength(event, strength)
        return composition.epsilon(lifted(candidate) if lifted is not None else [candidate], delta, relation=relation)

    # Each evaluation of a numerical distribution takes a second, so the search makes fewer and starts at 10^-4.
    costly = composition.is_numerical(lifted(event) if lifted is not None else [event], delta)
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
            raise ConfigError(f"Expected epsilon={epsilon!r} to bind: {type(event).__name__} always costs less.")
    if costly:
        from scipy.optimize import brentq  # noqa: PLC0415 (slow to load)

        gap = lambda log_strength: math.log(max(cost(math.exp(log_strength)), 1e-12) / epsilon)  # noqa: E731
        low = math.exp(brentq(gap, math.log(low), math.log(high), xtol=1e-8))
        while cost(low) > epsilon:
            low *= 1 - 1e-7
        return _with_strength(event, low)
    while (middle := math.sqrt(low * high) if high > 4 * low else (low + high) / 2) not in (low, high):
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle)
    return _with_strength(event, low)


def bounded_metric(events: Iterable[Event], *, diameter: float) -> tuple[Event, ...]:
    """Convert metric events into pure or approximate events, for inputs at most `diameter` (public) apart."""
    _validate.positive(diameter=diameter)

    def read(event: Event) -> Event:
        if not isinstance(event, MetricEvent):
            return event
        epsilon = up(event.epsilon * diameter)
        return ApproximateEvent(epsilon, event.delta, event.count) if event.delta else PureEvent(epsilon, event.count)

    return tuple(map(read, require_events(events)))


def lift(events: Iterable[Event], *, runs: int = 1, parts: int = 1) -> tuple[Event, ...]:
    """Convert events of a small unit into events of a larger unit (derivations, "Lifting").

    `runs` and `parts` are public maxima of the number of small units in a large unit. `runs` counts units that are
    *each a run of its own* (tokens of a document, documents of an author): sequential composition. `parts` counts units
    of which *one run depends on all*: group privacy. IncomparableError: an event has a metric (see `bounded_metric`),
    or is a training, which sees all small units of a large unit at once. ConfigError: there is no event.
    """
    _validate.count(runs=runs, parts=parts)
    listed = require_events(events)
    if max(runs, parts) > 1 and any(isinstance(event, SampledGaussianEvent) for event in listed):
        raise IncomparableError(
            "Expected runs=1 and parts=1 for a training: its steps take several units of one person at once, so that "
            "runs do not add up. The sound way is group privacy of the whole: lift an "
            "ApproximateEvent(epsilon(training, delta), delta) with parts."
        )
    return repeat((_group(event, parts) for event in listed), runs)


def for_author(document: Guarantee, *, max_per_author: int) -> Guarantee:
    """Convert a guarantee per document into a guarantee per author with at most `max_per_author` documents.

    Each document is a run of its own, so epsilon and delta add up. The maximum must have been enforced. The number of
    records is revealed: the guarantee does not cover two inputs that differ in the author's number of records.
    IncomparableError: the guarantee is not per document, has a metric, or is of a training (trust is central).
    """
    _validate.count(max_per_author=max_per_author)
    if document.unit is not Unit.DOCUMENT or document.metric is not None:
        raise IncomparableError(f"Expected a guarantee per document without metric, found {document.meaning}.")
    if document.basis is Basis.NONE:
        return replace(document.revealing(RECORD_COUNT), unit=Unit.AUTHOR)
    if document.trust is Trust.CENTRAL:
        raise IncomparableError("Expected a local guarantee: one training sees all documents of an author at once.")
    # Authors may have different numbers of records, and nothing here hides the total.
    enforced = f"no author has more than {max_per_author} records (enforced; names are {COMPARED})"
    author = replace(document.revealing(RECORD_COUNT), unit=Unit.AUTHOR, assumptions=(*document.assumptions, enforced))
    whole, left = (sum_up([(part, max_per_author)]) for part in (document.epsilon, document.delta))
    return restated(author, epsilon=whole, delta=min(1.0, left))


def _group(event: Event, parts: int) -> Event:
    match event:
        case MetricEvent():
            raise IncomparableError(
                f"Expected events without a metric, found epsilon per unit of {event.metric}: the epsilon of a larger "
                "unit is unbounded unless a public diameter is given (dptext.privacy.accounting.bounded_metric)."
            )
        case PureEvent():
            return replace(event, epsilon=sum_up([(event.epsilon, parts)]))
        case ZcdpEvent():
            return replace(event, rho=sum_up([(event.rho, parts * parts)]))
        case GaussianEvent():
            return replace(event, noise_multiplier=math.nextafter(event.noise_multiplier / parts, 0.0))
        case ApproximateEvent() if parts > 1:
            total = sum_up([(event.epsilon, parts)])
            if total > 700:
                return replace(event, epsilon=total, delta=1.0 if event.delta else 0.0)
            growth = math.expm1(total) / math.expm1(event.epsilon) if event.epsilon else float(parts)
            return replace(event, epsilon=total, delta=min(1.0, up(event.delta * growth)))
        case TopKEvent() | TwoSetEvent() | ExponentialEvent():
            return event  # these bounds hold for any two inputs, so for groups, too
        case ApproximateEvent() | SampledGaussianEvent() | NoEvent():  # one part (see `lift`), or no guarantee
            return event
        case _:
            assert_never(event)


#: `epsilon` or `quick_epsilon`.
Bound = Callable[..., float]


def guarantee(
    events: Iterable[Event],
    delta: float = 0.0,
    *,
    unit: Unit,
    basis: Basis,
    relation: Relation = Relation.REPLACE_ONE,
    trust: Trust = Trust.LOCAL,
    assumptions: Sequence[str] = (),
    reveals: Sequence[str] = (),
    bound: Bound = epsilon,
) -> Guarantee:
    """Derive the guarantee of the events at this delta, for this unit and relation.

    The events are all that happened to one unit. Events with a metric give a metric guarantee: they must share one
    metric, and their epsilons and slacks are added up. The caller states `basis` (why the guarantee should be believed)
    and `assumptions` (the conditions of a CONDITIONAL guarantee), as events do not contain them. A training (a sampled
    Gaussian event) needs trust CENTRAL, as the trainer sees the private text. `reveals` lists the functions of the
    input that are released exactly. `bound` is `epsilon` or `quick_epsilon`. ConfigError: there is no event.
    IncomparableError: events with a metric are mixed with others, or with another metric; or a training is said to be
    local.
    """
    merged = require_events(events)
    if trust is Trust.LOCAL and any(isinstance(event, SampledGaussianEvent) for event in merged):
        raise IncomparableError("Expected trust=central for a training: whoever trains sees all the private texts.")
    without = [event.reason for event in merged if isinstance(event, NoEvent)]
    measured = [event for event in merged if isinstance(event, MetricEvent)]
    metrics = {event.metric if isinstance(event, MetricEvent) else None for event in merged}
    if len(metrics) > 1 and not without:
        raise IncomparableError(f"Expected events of one metric, found {sorted(str(m) for m in metrics)}.")
    metric, found = (None, math.inf) if without else (metrics.pop(), math.inf)
    if metric is not None:
        found = sum_up((event.epsilon, event.count) for event in measured)
        delta = min(1.0, max(delta, sum_up((event.delta, event.count) for event in measured)))
    elif not without:
        found = bound(merged, delta, relation=relation)
    if without or math.isinf(found):
        reason = "; ".join(without) or f"no finite epsilon is known at delta = {delta:g}"
        return Guarantee(
            math.inf, 0.0, unit, relation, None, trust, Basis.NONE, tuple(assumptions), tuple(reveals), reason
        )
    return Guarantee(found, delta, unit, relation, metric, trust, basis, tuple(assumptions), tuple(reveals))


def restated(source: Guarantee, *, epsilon: float, delta: float) -> Guarantee:
    """Return the guarantee with other numbers. The basis becomes NONE if epsilon is infinite."""
    if math.isinf(epsilon) and source.basis is not Basis.NONE:
        return source.voided("no finite epsilon is known")
    return replace(source, epsilon=epsilon, delta=delta)
