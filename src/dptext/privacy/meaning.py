"""Events read as guarantees, and guarantees added up."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from dptext.errors import IncomparableError
from dptext.privacy.composition import epsilon, require_events
from dptext.privacy.curves import sum_up
from dptext.privacy.events import Event, MetricEvent, NoEvent, SampledGaussianEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit, weakest


class Bound(Protocol):
    """`epsilon` or `quick_epsilon`."""

    def __call__(self, events: Iterable[Event], delta: float = ..., *, relation: Relation = ...) -> float:
        """Epsilon at delta."""
        ...


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
        basis: why the guarantee should be believed; only the caller knows.
        relation: between which neighbours.
        trust: who sees the private text. The trainer of a training (a sampled Gaussian event) does.
        assumptions: what must hold for a CONDITIONAL basis.
        reveals: functions of the input that leave as they are.
        bound: `epsilon`, or `quick_epsilon`.

    Raises:
        IncomparableError: events with a metric are mixed with others, or with another metric; or a training is said to
            be local.
        ConfigError: there is no event.
    """
    merged = require_events(events)
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


def restated(source: Guarantee, *, epsilon: float, delta: float) -> Guarantee:
    """The guarantee with other numbers; its basis becomes NONE where epsilon is infinite."""
    if math.isinf(epsilon) and source.basis is not Basis.NONE:
        return source.voided("no finite epsilon is known")
    return replace(source, epsilon=epsilon, delta=delta)


def add(first: Guarantee, second: Guarantee) -> Guarantee:
    """Both releases by basic composition; IncomparableError where unit, relation or metric of the guarantees differ."""
    first.require_comparable(second)
    both = replace(
        first if weakest(first.basis, second.basis) is first.basis else second,
        trust=Trust.CENTRAL if Trust.CENTRAL in (first.trust, second.trust) else Trust.LOCAL,
        assumptions=tuple(dict.fromkeys(first.assumptions + second.assumptions)),
        reveals=first.common_reveals(second),
    )
    if both.basis is Basis.NONE:
        return both.voided("; ".join(filter(None, (first.reason, second.reason))))
    return restated(
        both,
        epsilon=sum_up([(first.epsilon, 1), (second.epsilon, 1)]),
        delta=min(1.0, sum_up([(first.delta, 1), (second.delta, 1)])),
    )
