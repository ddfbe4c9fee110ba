"""The only maker of epsilons: composing, lifting, calibrating and reading events as guarantees.

    >>> from dptext.privacy import accounting
    >>> from dptext.privacy.events import TopKEvent
    >>> accounting.epsilon([TopKEvent(epsilon=4, k=5, size=20_000, count=20)])
    80.0
    >>> accounting.epsilon([TopKEvent(epsilon=4, k=5, size=20_000, count=20)], delta=1e-5) < 16.1
    True

Every number is rounded up. What is pure is summed exactly, as fractions; where delta > 0 several valid
upper bounds are computed and the smallest is taken:

* pure epsilons added up, Gaussian parts by their analytic curve (Balle and Wang 2018), sampled Gaussian
  parts by the pessimistic privacy loss distribution of dp-accounting;
* the exact privacy loss distribution of equal runs of randomized response (MATHS 1.4): an epsilon-DP run loses no more
  than binary randomized response at epsilon, and an (epsilon, delta)-DP run no more once its delta was taken off
  (Kairouz, Oh and Viswanath 2015);
* zero-concentrated DP and Renyi DP, converted as in Canonne, Kamath and Steinke 2020, proposition 12;
* numerical privacy loss distributions of runs of several kinds, which `quick_epsilon` leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol, TypeVar, assert_never

import numpy as np
from scipy.optimize import brentq

from dptext import _validate
from dptext.errors import ConfigError, IncomparableError
from dptext.privacy.curves import (
    approximate_delta,
    dominating,
    exponential_epsilon,
    gaussian_epsilon,
    renyi_divergence,
    renyi_epsilon,
    round_up,
    sum_up,
    top_k_epsilon,
    two_set_epsilon,
    up,
    zcdp_epsilon,
)
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
from dptext.privacy.guarantee import RECORD_COUNT, Basis, Guarantee, Relation, Trust, Unit, weakest
from dptext.privacy.loss_distributions import Mixable, inverse_square, is_mixable, mixed_epsilon
from dptext.privacy.names import COMPARED
from dptext.types import Floats

AnyEvent = TypeVar("AnyEvent", bound=Event)

_MAX_EXACT_RUNS = 16_384  # beyond, the exact distribution of top-k losses costs more than it gains
_LARGEST_RHO = 1e15
_ORDERS = 1 + np.logspace(-4, 3.5, 160)


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
    return compose(replace(event, count=event.count * times) for event in _some(events))


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
                "give a public diameter (dptext.privacy.accounting.bounded_metric) first."
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


def _some(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events composed; refuses none, as an iterator that was read before has none."""
    merged = compose(events)
    if not merged:
        raise ConfigError("Expected at least one event, found none: an iterator can be read once, a list again.")
    return merged


# ------------------------------------------------------------------- epsilon at delta > 0


def _without_delta(events: Iterable[Event], delta: float) -> tuple[tuple[Event, ...], float]:
    """The events once the deltas of approximate ones were taken off delta, and what is left of it; below 0: none."""
    listed = list(events)
    approximate = [e for e in listed if isinstance(e, ApproximateEvent)]
    left = Fraction(delta) - approximate_delta(approximate)
    pure = (PureEvent(e.epsilon, e.count) for e in approximate)
    rest = compose(e for e in (*listed, *pure) if not isinstance(e, ApproximateEvent) and _pure_epsilon(e) != 0)
    rounded = float(left)
    return rest, math.nextafter(rounded, -math.inf) if Fraction(rounded) > left else rounded


def _as_choice(event: Event) -> Event:
    """Randomized response that loses no less, for a run that is pure; any other event as it is."""
    match event:
        case PureEvent(epsilon=pure):
            return TopKEvent(pure, 1, 2, event.count)
        case ExponentialEvent():
            return TopKEvent(exponential_epsilon(event), 1, 2, event.count)
        case _:
            return dominating(event)


def _mixed(events: Iterable[Event]) -> tuple[Mixable, ...]:
    """What a numerical loss distribution would bound more tightly; nothing where a formula or no distribution does."""
    found = compose(map(_as_choice, events))
    mixable = tuple(e for e in found if isinstance(e, Mixable) and is_mixable(e))
    by_formula = all(isinstance(e, GaussianEvent) for e in mixable) or (
        len(mixable) == 1 and isinstance(mixable[0], TopKEvent) and mixable[0].count <= _MAX_EXACT_RUNS
    )
    return () if len(mixable) < len(found) or by_formula else mixable


def _renyi_curve(event: Event) -> Floats | None:
    """Renyi divergences of one run at `_ORDERS`, or None where there are none."""
    rho = _zcdp_rho(event)
    if rho is None:
        return None
    choice = _as_choice(event)
    linear = _ORDERS * up(rho)
    return np.minimum(linear, renyi_divergence(choice, _ORDERS)) if isinstance(choice, TopKEvent) else linear


def _bounds(events: Sequence[Event], delta: float, relation: Relation) -> Iterator[float]:
    """Valid bounds on epsilon at delta that are quick to compute, for events without metric and without deltas."""
    pure = [(event, _pure_epsilon(event)) for event in events]
    noisy = [event for event, value in pure if value is None]
    terms = [(value, event.count) for event, value in pure if value is not None]
    if noisy and not delta:
        return
    yield sum_up([*terms, (_noise_epsilon(noisy, delta, relation), 1)] if noisy else terms)
    if not delta:
        return
    (first, *others) = compose(map(_as_choice, events))
    if isinstance(first, TopKEvent) and not others and first.count <= _MAX_EXACT_RUNS:
        yield top_k_epsilon(first, delta)
        return  # which is exact
    rhos = [(_zcdp_rho(event), event.count) for event in events]
    rho = sum_up((rho, count) for rho, count in rhos if rho is not None)
    if all(each is not None for each, _ in rhos) and rho < _LARGEST_RHO:
        yield zcdp_epsilon(rho, delta)
        curves = [(_renyi_curve(event), event.count) for event in events]
        total = sum((curve * count for curve, count in curves if curve is not None), np.zeros(len(_ORDERS)))
        yield renyi_epsilon(_ORDERS, total * (1 + 1e-9), delta)


def _noise_epsilon(noisy: Sequence[Event], delta: float, relation: Relation) -> float:
    """Epsilon at delta > 0 of events without a pure epsilon (Gaussian, zCDP, sampled Gaussian)."""
    zcdp = [e for e in noisy if isinstance(e, ZcdpEvent)]
    mixable = tuple(e for e in noisy if isinstance(e, GaussianEvent | SampledGaussianEvent))
    if any(isinstance(e, SampledGaussianEvent) for e in mixable):
        if not zcdp:
            return mixed_epsilon(mixable, delta, relation)
        rho = sum_up((e.rho, e.count) for e in zcdp)
        return sum_up([(mixed_epsilon(mixable, delta / 2, relation), 1), (zcdp_epsilon(rho, delta / 2), 1)])
    rho = sum_up((_zcdp_rho(e) or 0.0, e.count) for e in noisy)
    if zcdp or rho == 0 or rho > _LARGEST_RHO:
        return zcdp_epsilon(rho, delta)
    # Gaussians compose to one Gaussian: 1 / noise_multiplier^2 adds up.
    precision = sum_up((inverse_square(e.noise_multiplier), e.count) for e in mixable)
    return gaussian_epsilon(1 / math.sqrt(precision), delta)


def slack(events: Iterable[Event]) -> float:
    """The least delta at which the events can have an epsilon because of their own additive deltas, rounded up."""
    return round_up(approximate_delta(event for event in events if isinstance(event, ApproximateEvent)))


def epsilon(events: Iterable[Event], delta: float = 0.0, *, relation: Relation = Relation.REPLACE_ONE) -> float:
    """The smallest epsilon that is known to hold at delta for all these runs together, rounded up.

    Infinite where nothing holds (a Gaussian at delta 0, a NoEvent).

    Raises:
        IncomparableError: an event has a metric.
        ConfigError: delta is outside [0, 1], or there is no event.
    """
    return _epsilon(events, delta, relation, numerical=True)


def quick_epsilon(events: Iterable[Event], delta: float = 0.0, *, relation: Relation = Relation.REPLACE_ONE) -> float:
    """A bound that is never below `epsilon`, in milliseconds but for trainings: what a ledger charges by.

    It takes the formulas alone, where there are any: a training has none. Runs of several kinds may cost less than it
    says.

    Raises:
        IncomparableError: an event has a metric.
        ConfigError: delta is outside [0, 1], or there is no event.
    """
    return _epsilon(events, delta, relation, numerical=False)


def _epsilon(events: Iterable[Event], delta: float, relation: Relation, *, numerical: bool) -> float:
    _validate.probability(delta=delta)
    merged = _some(events)
    if any(isinstance(event, NoEvent) for event in merged):
        return math.inf
    rest, left = _without_delta(merged, delta)
    if left < 0:
        return math.inf
    if delta == 1 or not rest:
        return 0.0
    found = min(_bounds(rest, left, relation), default=math.inf)
    mixed = _mixed(rest) if numerical and left else ()
    return min(found, mixed_epsilon(mixed, left, relation)) if mixed else found


class Bound(Protocol):
    """`epsilon` or `quick_epsilon`."""

    def __call__(self, events: Iterable[Event], delta: float = ..., *, relation: Relation = ...) -> float:
        """Epsilon at delta."""
        ...


# ------------------------------------------------------------------------- guarantees


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
    """What the events mean at this delta, for this unit and relation.

    Events with a metric give a metric guarantee: all of one metric, epsilons and slacks added up.

    Args:
        events: what happened to one such unit; at least one event.
        delta: at which the guarantee is stated.
        unit: what is protected.
        basis: why the guarantee should be believed; nobody but the caller knows.
        relation: between which neighbours.
        trust: who sees the private text; a training (a sampled Gaussian event) has a trainer, who does.
        assumptions: what must hold for a CONDITIONAL basis.
        reveals: functions of the input that leave as they are.
        bound: `epsilon`, or `quick_epsilon`.

    Raises:
        IncomparableError: events with a metric are mixed with others, or with another metric; or a training is said to
            be local.
        ConfigError: there is no event.
    """
    merged = _some(events)
    if trust is Trust.LOCAL and any(isinstance(event, SampledGaussianEvent) for event in merged):
        raise IncomparableError("Expected trust=central for a training: whoever trains sees all the private texts.")
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
        found = bound(merged, delta, relation=relation)
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

    return tuple(map(read, _some(events)))


def lift(events: Iterable[Event], *, runs: int = 1, parts: int = 1) -> tuple[Event, ...]:
    """Events of a small unit read for a larger one (MATHS 8).

    Args:
        events: what happened to one small unit.
        runs: public maximum of small units in a large one when each is *a run of its own* (tokens of a
            document, documents of an author): sequential composition.
        parts: public maximum of small units when *one run depends on all of them*: group privacy.

    Raises:
        IncomparableError: an event has a metric (see `bounded_metric`), or is a training, which sees all small units of
            a large one at once.
        ConfigError: there is no event.
    """
    _validate.count(runs=runs, parts=parts)
    listed = _some(events)
    if max(runs, parts) > 1 and any(isinstance(event, SampledGaussianEvent) for event in listed):
        raise IncomparableError(
            "Expected runs=1 and parts=1 for a training: its steps take several units of one person at once, so that "
            "runs do not add up. The sound way is group privacy of the whole: lift an "
            "ApproximateEvent(epsilon(training, delta), delta) with parts."
        )
    return repeat((_group(event, parts) for event in listed), runs)


def for_author(document: Guarantee, *, max_per_author: int) -> Guarantee:
    """A document's guarantee read for everything by one author, when no author has more than so many documents.

    Each document is a run of its own, so epsilon and delta add up. The maximum must have been enforced. The number of
    records is revealed: the guarantee says nothing of two inputs in which the author has more records in one.

    Raises:
        IncomparableError: the guarantee is not per document, or it has a metric.
    """
    _validate.count(max_per_author=max_per_author)
    if document.unit is not Unit.DOCUMENT or document.metric is not None:
        raise IncomparableError(f"Expected a guarantee per document without metric, found {document.meaning}.")
    if document.basis is Basis.NONE:
        return replace(document.revealing(RECORD_COUNT), unit=Unit.AUTHOR)
    if document.trust is Trust.CENTRAL:
        raise IncomparableError("Expected a local guarantee: one training sees all documents of an author at once.")
    # Two authors may have different numbers of records, and nothing here hides how many all have together.
    enforced = f"no author has more than {max_per_author} records (enforced; names are {COMPARED})"
    author = replace(document.revealing(RECORD_COUNT), unit=Unit.AUTHOR, assumptions=(*document.assumptions, enforced))
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
                "unit is unbounded unless a public diameter is given (dptext.privacy.accounting.bounded_metric)."
            )
        case PureEvent():
            return replace(event, epsilon=sum_up([(event.epsilon, parts)]))
        case ZcdpEvent():
            return replace(event, rho=sum_up([(event.rho, parts * parts)]))
        case GaussianEvent():
            return replace(event, noise_multiplier=math.nextafter(event.noise_multiplier / parts, 0.0))
        case ApproximateEvent() if parts > 1:
            return _group_approximate(event, parts)
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
        return _epsilon(lifted(candidate) if lifted is not None else [candidate], delta, relation, numerical=True)

    # A numerical distribution costs a second an evaluation: fewer, and from a strength of 10^-4 on.
    together = _without_delta(_some(lifted(event) if lifted is not None else [event]), delta)[0]
    costly = delta > 0 and bool(_mixed(together))
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
