"""Events and guarantees of a small unit, read for a larger one."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from dptext import _validate
from dptext.errors import IncomparableError
from dptext.privacy.composition import repeat, require_events
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
from dptext.privacy.guarantee import RECORD_COUNT, Basis, Guarantee, Trust, Unit
from dptext.privacy.meaning import restated
from dptext.privacy.names import COMPARED


def bounded_metric(events: Iterable[Event], *, diameter: float) -> tuple[Event, ...]:
    """Metric events read without metric, for inputs at most `diameter` (public) apart."""
    _validate.positive(diameter=diameter)

    def read(event: Event) -> Event:
        if not isinstance(event, MetricEvent):
            return event
        epsilon = up(event.epsilon * diameter)
        return ApproximateEvent(epsilon, event.delta, event.count) if event.delta else PureEvent(epsilon, event.count)

    return tuple(map(read, require_events(events)))


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
    listed = require_events(events)
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
    records is revealed: the guarantee does not cover two inputs that differ in the author's number of records.

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
    # Authors may have different numbers of records, and nothing here hides the total.
    enforced = f"no author has more than {max_per_author} records (enforced; names are {COMPARED})"
    author = replace(document.revealing(RECORD_COUNT), unit=Unit.AUTHOR, assumptions=(*document.assumptions, enforced))
    return restated(
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
