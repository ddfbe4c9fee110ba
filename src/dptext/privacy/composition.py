"""Composition of events: the epsilon of several runs together at a delta.

    >>> from dptext.privacy import accounting
    >>> from dptext.privacy.events import TopKEvent
    >>> accounting.epsilon([TopKEvent(epsilon=4, k=5, size=20_000, count=20)])
    80.0
    >>> accounting.epsilon([TopKEvent(epsilon=4, k=5, size=20_000, count=20)], delta=1e-5) < 16.1
    True

Every number is rounded up. Pure epsilons are summed exactly, as fractions. If delta > 0, several valid upper bounds are
computed and the smallest is returned:

* pure epsilons added up, Gaussian parts by their analytic curve (Balle and Wang 2018), sampled Gaussian
  parts by the pessimistic privacy loss distribution of dp-accounting;
* the exact privacy loss distribution of equal runs of randomized response (derivations, "Top-k randomized response").
  An epsilon-DP run loses no more than binary randomized response at epsilon. The same holds for an (epsilon, delta)-DP
  run, if its delta is subtracted from the total delta (Kairouz, Oh and Viswanath 2015);
* zero-concentrated DP and Renyi DP, converted as in Canonne, Kamath and Steinke 2020, proposition 12;
* numerical privacy loss distributions of runs of several kinds; `quick_epsilon` leaves these out.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, Self, assert_never

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError, IncomparableError
from dptext.privacy import curves
from dptext.privacy.events import (
    EVENTS,
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
from dptext.privacy.guarantee import Relation
from dptext.privacy.loss_distributions import Mixable, inverse_square, is_mixable, mixed_epsilon
from dptext.types import Floats

#: More equal choices than these take long enough that a search should be short.
_MANY = 16_384
#: The grid of a numerical distribution of more runs of several kinds is too coarse to be tighter than a formula.
_MOST_MIXED = 32_768
_LARGEST_RHO = 1e15
_ORDERS = 1 + np.logspace(-4, 3.5, 160)
#: Getters of all fields of an event but its count. Tuples of fields are made and compared ten times faster than events.
_SETTINGS = {cls: attrgetter(*(each.name for each in fields(cls) if each.name != "count")) for cls in EVENTS.values()}


def compose(events: Iterable[Event]) -> tuple[Event, ...]:
    """Compose runs on the same input: equal events are merged into one event with the sum of their counts."""
    first: dict[object, Event] = {}
    counts: dict[object, int] = {}
    for event in events:
        run = _SETTINGS[type(event)](event)
        first.setdefault(run, event)
        counts[run] = counts.get(run, 0) + event.count
    summed = ((event, counts[run]) for run, event in first.items())
    return tuple(event if event.count == count else replace(event, count=count) for event, count in summed)


def repeat(events: Iterable[Event], times: int) -> tuple[Event, ...]:
    """Return the events with each run repeated `times` times (adaptive sequential composition)."""
    _validate.count(times=times)
    return compose(replace(event, count=event.count * times) for event in require_events(events))


def _pure_epsilon(event: Event) -> float | None:
    """Epsilon of one run at delta = 0. None if it is infinite."""
    match event:
        case PureEvent() | TopKEvent():
            return event.epsilon
        case TwoSetEvent():
            return curves.two_set_epsilon(event)
        case ExponentialEvent():
            return curves.exponential_epsilon(event)
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
    """rho of one run in zero-concentrated DP. None if no rho is known."""
    match event:
        case ZcdpEvent():
            return event.rho
        case GaussianEvent():
            inverse = 1 / event.noise_multiplier
            return curves.up(0.5 * inverse * inverse)
        case ExponentialEvent():
            # Bounded range 2d (Cesar and Rogers 2021), or the tight pure epsilon.
            tight = curves.exponential_epsilon(event)
            return curves.up(min(event.log_range * event.log_range, tight * tight) / 2)
        case PureEvent() | TopKEvent() | TwoSetEvent():
            pure = _pure_epsilon(event)
            return None if pure is None else curves.up(pure * pure / 2)
        case ApproximateEvent() | SampledGaussianEvent() | NoEvent() | MetricEvent():
            return None
        case _:
            assert_never(event)


def require_events(events: Iterable[Event]) -> tuple[Event, ...]:
    """Compose the events. ConfigError: there is no event, for example because an iterator was read before."""
    merged = compose(events)
    if not merged:
        raise ConfigError("Expected at least one event, found none: an iterator can be read only once, so give a list.")
    return merged


def _without_delta(events: Iterable[Event], delta: float) -> tuple[tuple[Event, ...], float]:
    """Take the events' own deltas off delta. Return the events without them, and the rest of delta.

    No epsilon holds if the rest is below 0. Events with a pure epsilon of 0 are left out.
    """
    listed = list(events)
    approximate = [e for e in listed if isinstance(e, ApproximateEvent)]
    left = Fraction(delta) - curves.approximate_delta(approximate)
    pure = (PureEvent(e.epsilon, e.count) for e in approximate)
    rest = compose(e for e in (*listed, *pure) if not isinstance(e, ApproximateEvent) and _pure_epsilon(e) != 0)
    return rest, _round_down(left)


def _round_down(exact: Fraction) -> float:
    nearest = float(exact)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > exact else nearest


def _as_choice(event: Event) -> Event:
    """Return a randomized response that loses at least as much as a pure run. Other events are returned unchanged."""
    match event:
        case PureEvent(epsilon=pure):
            return TopKEvent(pure, 1, 2, event.count)
        case ExponentialEvent():
            return TopKEvent(curves.exponential_epsilon(event), 1, 2, event.count)
        case _:
            return curves.dominating(event)


def _one_choice(events: Sequence[Event]) -> TopKEvent | None:
    """Return all the events as runs of one randomized response. None if their randomized responses differ."""
    kinds = iter(map(_as_choice, events))
    first = next(kinds)
    if not isinstance(first, TopKEvent) or any(replace(each, count=first.count) != first for each in kinds):
        return None
    return replace(first, count=sum(event.count for event in events))


def _mixed(events: Iterable[Event]) -> tuple[Mixable, ...]:
    """The events as `Mixable` events if a numerical loss distribution is tighter than every formula, else ()."""
    found = compose(map(_as_choice, events))
    mixable = tuple(e for e in found if isinstance(e, Mixable) and is_mixable(e))
    by_formula = all(isinstance(e, GaussianEvent) for e in mixable) or (
        len(mixable) == 1 and isinstance(mixable[0], TopKEvent)
    )
    many = sum(e.count for e in mixable if isinstance(e, TopKEvent)) > _MOST_MIXED
    return () if len(mixable) < len(found) or by_formula or many else mixable


def _renyi_curve(event: Event) -> Floats | None:
    """Renyi divergences of one run at `_ORDERS`. None if no divergence is known."""
    rho = _zcdp_rho(event)
    if rho is None:
        return None
    choice = _as_choice(event)
    linear = _ORDERS * curves.up(rho)
    if not isinstance(choice, TopKEvent):
        return linear
    return np.minimum(linear, _choice_curve(choice.epsilon, choice.k, choice.size))


@lru_cache(maxsize=4096)  # a ledger account has many charges, but few different settings
def _choice_curve(per_run: float, k: int, size: int) -> Floats:
    return curves.renyi_divergence(TopKEvent(per_run, k, size), _ORDERS)


def _bounds(events: Sequence[Event], delta: float, relation: Relation) -> Iterator[float]:
    """Yield upper bounds on epsilon at delta by formulas, for events without a metric and without own deltas."""
    pure = [(event, _pure_epsilon(event)) for event in events]
    noisy = [event for event, value in pure if value is None]
    terms = [(value, event.count) for event, value in pure if value is not None]
    if noisy and not delta:
        return
    yield curves.sum_up([*terms, (_noise_epsilon(noisy, delta, relation), 1)] if noisy else terms)
    if not delta:
        return
    choice = _one_choice(events)
    if choice:
        yield curves.top_k_epsilon(choice, delta)
        if choice.count <= curves.MAX_SQUARED and not any(isinstance(event, ExponentialEvent) for event in events):
            return  # the bound is exact; an exponential mechanism loses less than randomized response
    rhos = [(_zcdp_rho(event), event.count) for event in events]
    rho = curves.sum_up((rho, count) for rho, count in rhos if rho is not None)
    if all(each is not None for each, _ in rhos) and rho < _LARGEST_RHO:
        yield curves.zcdp_epsilon(rho, delta)
        divergences = [(_renyi_curve(event), event.count) for event in events]
        total = sum((curve * count for curve, count in divergences if curve is not None), np.zeros(len(_ORDERS)))
        yield curves.renyi_epsilon(_ORDERS, total * (1 + 1e-9), delta)


def _noise_epsilon(noisy: Sequence[Event], delta: float, relation: Relation) -> float:
    """Epsilon at delta > 0 of events without a pure epsilon (Gaussian, zCDP, sampled Gaussian)."""
    zcdp = [e for e in noisy if isinstance(e, ZcdpEvent)]
    mixable = tuple(e for e in noisy if isinstance(e, GaussianEvent | SampledGaussianEvent))
    if any(isinstance(e, SampledGaussianEvent) for e in mixable):
        if not zcdp:
            return mixed_epsilon(mixable, delta, relation)
        rho = curves.sum_up((e.rho, e.count) for e in zcdp)
        halves = mixed_epsilon(mixable, delta / 2, relation), curves.zcdp_epsilon(rho, delta / 2)
        return curves.sum_up((half, 1) for half in halves)
    rho = curves.sum_up((_zcdp_rho(e) or 0.0, e.count) for e in noisy)
    precision = curves.sum_up((inverse_square(e.noise_multiplier), e.count) for e in mixable)
    return _unsampled_epsilon(rho, delta, None if zcdp else precision)


def _unsampled_epsilon(rho: float, delta: float, precision: float | None) -> float:
    """Epsilon at delta > 0 of runs that are rho-zCDP together.

    `precision` is the sum of 1 / noise_multiplier^2 if all runs are Gaussian, else None.
    """
    if precision is None or rho == 0 or rho > _LARGEST_RHO:
        return curves.zcdp_epsilon(rho, delta)
    return curves.gaussian_epsilon(1 / math.sqrt(precision), delta)  # Gaussians compose to one Gaussian


class Sums(NamedTuple):
    """Exact sums over runs in any order, in `curves.units`. `epsilons` computes its bounds from these sums alone."""

    pure: int = 0  # epsilons at delta 0
    slack: int = 0  # additive deltas
    precision: int = 0  # 1 / noise_multiplier^2 of Gaussian runs
    zcdp: int = 0  # number of zCDP runs
    noise: int = 0  # rho of the runs without a pure epsilon
    rho: int = 0  # rho of all runs

    @classmethod
    def of(cls, event: Event) -> Self | None:
        """The sums of one event and its count. None if the sums give no bound for this event."""
        if isinstance(event, SampledGaussianEvent | MetricEvent | NoEvent):
            return None
        run = PureEvent(event.epsilon) if isinstance(event, ApproximateEvent) else event
        pure, rho = _pure_epsilon(run), _zcdp_rho(run) or 0.0
        if pure is None and not rho:  # rho is too small for a float
            return None
        terms = (
            pure or 0.0,
            event.delta if isinstance(event, ApproximateEvent) else 0.0,
            inverse_square(run.noise_multiplier) if isinstance(run, GaussianEvent) else 0.0,
            float(isinstance(run, ZcdpEvent)),
            rho if pure is None else 0.0,
            rho,
        )
        try:
            return cls(*(curves.units(term) * event.count for term in terms))
        except OverflowError:
            return None

    def epsilons(self, delta: float) -> Iterator[float]:
        """Yield bounds at delta, quickest first. OverflowError: a bound is infinite.

        None is below `quick_epsilon`, but at deltas below 1e-290, where that bound counts with underflow.
        """
        left = _round_down(Fraction(delta) - Fraction(self.slack, curves.UNIT))
        if left < 0 or (self.noise and not left):
            return
        noise = 0.0
        if self.noise:
            precision = None if self.zcdp else curves.round_up(Fraction(self.precision, curves.UNIT))
            noise = _unsampled_epsilon(curves.round_up(Fraction(self.noise, curves.UNIT)), left, precision)
        yield curves.round_up(Fraction(self.pure + curves.units(noise), curves.UNIT))
        rho = curves.round_up(Fraction(self.rho, curves.UNIT))
        if left and rho < _LARGEST_RHO:
            yield curves.zcdp_epsilon(rho, left)


def is_numerical(events: Iterable[Event], delta: float) -> bool:
    """Tell whether `epsilon` of these events computes a numerical distribution, which takes tenths of a second.

    More than `_MANY` equal choices count as numerical, so that `accounting.calibrate` searches with fewer steps.
    """
    if not delta:
        return False
    rest, _ = _without_delta(require_events(events), delta)
    choice = _one_choice(rest) if rest else None
    return bool(_mixed(rest)) or (choice is not None and choice.count > _MANY)


def slack(events: Iterable[Event]) -> float:
    """The least delta at which the events can have an epsilon: their own additive deltas, composed and rounded up."""
    return curves.round_up(curves.approximate_delta(event for event in events if isinstance(event, ApproximateEvent)))


def epsilon(events: Iterable[Event], delta: float = 0.0, *, relation: Relation = Relation.REPLACE_ONE) -> float:
    """The smallest epsilon that is known to hold at delta for all these runs together, rounded up.

    Infinite if no epsilon holds (a Gaussian at delta 0, a NoEvent). IncomparableError: an event has a metric.
    ConfigError: delta is outside [0, 1], or there is no event.
    """
    return _epsilon(events, delta, relation, numerical=True)


def quick_epsilon(events: Iterable[Event], delta: float = 0.0, *, relation: Relation = Relation.REPLACE_ONE) -> float:
    """Bound `epsilon` from above, by formulas that take milliseconds. Ledgers charge this bound. Errors: see `epsilon`.

    The bound may be loose for runs of several kinds. A training has no formula, so its bound takes longer.
    """
    return _epsilon(events, delta, relation, numerical=False)


def _epsilon(events: Iterable[Event], delta: float, relation: Relation, *, numerical: bool) -> float:
    _validate.probability(delta=delta)
    merged = require_events(events)
    if any(isinstance(event, NoEvent) for event in merged):
        return math.inf
    rest, left = _without_delta(merged, delta)
    if left < 0:
        return math.inf
    if delta == 1 or not rest:
        return 0.0
    mixed = _mixed(rest) if numerical and left else ()
    tightest = mixed_epsilon(mixed, left, relation) if mixed else math.inf
    if _is_trained(mixed) and math.isfinite(tightest):
        return tightest  # the other bounds of a training are larger, and take seconds
    return min([tightest, *_bounds(rest, left, relation)])


def _is_trained(events: Iterable[Event]) -> bool:
    return any(isinstance(event, SampledGaussianEvent) for event in events)
