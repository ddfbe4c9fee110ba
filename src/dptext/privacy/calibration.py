"""Events with their noise set so that they cost a given epsilon."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar, assert_never

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy import composition
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
from dptext.privacy.guarantee import Relation

AnyEvent = TypeVar("AnyEvent", bound=Event)


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
        return composition.epsilon(lifted(candidate) if lifted is not None else [candidate], delta, relation=relation)

    # A numerical distribution takes a second an evaluation. Then there are fewer, from a strength of 10^-4 on.
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
            raise ConfigError(
                f"Expected epsilon={epsilon!r} to bind: {type(event).__name__} costs less at any strength."
            )
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
