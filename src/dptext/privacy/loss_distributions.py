"""Numerical privacy loss distributions: how (sampled) Gaussian noise and randomized response add up at a delta.

This is the tightest bound for runs of several kinds, by the pessimistic distributions of dp-accounting. It takes from a
tenth of a second to seconds, so `dptext.privacy.accounting` also has a quicker one.

Losses are convolved by Fourier transforms, whose rounding error is absolute: some 1e-16 of probability. So 1e-12 is
subtracted from delta, and deltas below 1e-11 get a formula only.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dptext.privacy.curves import gaussian_epsilon, sum_up, top_k_probabilities, up
from dptext.privacy.events import GaussianEvent, SampledGaussianEvent, TopKEvent
from dptext.privacy.guarantee import Relation

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Mixable = TopKEvent | GaussianEvent | SampledGaussianEvent

_FINEST = 1e-4  # of the grid of losses, as dp-accounting has it
_WIDE = 50.0  # from here on a run has some 10^5 losses on a coarser grid, a tenth of a second each
#: Points of all losses together, about: a finer grid takes many seconds; this one cost up to 1e-5 of epsilon.
GRID_POINTS = 3e6
_COARSEST = 1.0
_LEAST_DELTA = 1e-11
_TRANSFORMED = 1e-12  # far above what Fourier transforms round
_MOST_SPREAD = 3e5
_MOST_KINDS = 32
_LARGEST_LOSS = 500.0  # e^-loss must be a float
#: Below this multiplier, or beyond this range of losses, a training protects nobody, and has no useful grid.
_LEAST_MULTIPLIER = 0.02


def is_mixable(event: object) -> bool:
    """Whether the event has a loss distribution here."""
    if isinstance(event, TopKEvent):
        return event.epsilon <= _LARGEST_LOSS
    return isinstance(event, GaussianEvent | SampledGaussianEvent)


@lru_cache(maxsize=256)  # planning, calibrating and stating ask for the same
def mixed_epsilon(events: tuple[Mixable, ...], delta: float, relation: Relation) -> float:
    """Epsilon at delta > 0 of (sampled) Gaussian and top-k events together, rounded up; infinite if none is known."""
    # dp-accounting takes most of a second to import, and few releases need it.
    from dp_accounting import NeighboringRelation  # noqa: PLC0415
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    choices = _few([event for event in events if isinstance(event, TopKEvent)])
    sampled = [event for event in events if isinstance(event, SampledGaussianEvent)]
    # Our multiplier is relative to the sensitivity, theirs to the norm of a record, which REPLACE_ONE moves by two.
    moved = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    precision = sum_up((inverse_square(e.noise_multiplier), e.count) for e in events if isinstance(e, GaussianEvent))
    # Sampling never harms: an output's distribution is a mixture, with public weights, of those with and without the
    # record, and divergences are jointly convex. So where there is very little noise, steps are counted as if they took
    # every record.
    bare = [e for e in sampled if e.noise_multiplier < _LEAST_MULTIPLIER or _spread(e, moved) > _MOST_SPREAD]
    every = sum_up([(precision, 1), *(_unsampled(event, moved) for event in sampled)])
    precision = sum_up([(precision, 1), *(_unsampled(event, moved) for event in bare)])
    sampled = [event for event in sampled if event not in bare]
    formula = math.inf if choices else gaussian_epsilon(1 / math.sqrt(every), delta)
    if delta < _LEAST_DELTA or not (choices or sampled):
        return formula
    widths = [_width(moved / e.noise_multiplier) for e in sampled] + [2 * e.epsilon for e in choices]
    if precision:
        widths.append(_width(math.sqrt(precision)))
    interval = max(
        _FINEST if max(widths) <= _WIDE else max(widths) / 1e5,
        # The grid holds the losses of all runs together, which takes the memory.
        sum(2 * event.epsilon * event.count for event in choices) / 5e6,
        sum(_sampled_spread(event, moved) for event in sampled) / GRID_POINTS,
    )
    if interval > _COARSEST:
        return formula  # a grid so coarse says nothing
    grid = {"neighboring_relation": NeighboringRelation[relation.name], "value_discretization_interval": interval}
    total: PrivacyLossDistribution = pld.identity(interval)
    for event in sampled:
        step = pld.from_gaussian_mechanism(event.noise_multiplier, sampling_prob=event.sampling_rate, **grid)
        total = total.compose(step.self_compose(event.steps * event.count))
    for runs in choices:
        gain, unmoved, loss = top_k_probabilities(runs)
        upper = {i: math.log(mass) for i, mass in enumerate((gain, unmoved, loss)) if mass > 0}
        lower = {i: math.log(mass) for i, mass in enumerate((loss, unmoved, gain)) if mass > 0}
        choice = pld.from_two_probability_mass_functions(lower, upper, value_discretization_interval=interval)
        total = total.compose(choice.self_compose(runs.count))
    if precision:
        total = total.compose(pld.from_gaussian_mechanism(moved / math.sqrt(precision), **grid))
    with np.errstate(over="ignore"):  # where e^-loss is no float, it is infinite
        found = up(float(total.get_epsilon_for_delta(delta - _TRANSFORMED)))
    return min(found, formula)


def inverse_square(noise_multiplier: float) -> float:
    """1 / noise_multiplier^2, rounded up: what Gaussians add up in."""
    return up(1 / noise_multiplier / noise_multiplier)


def _unsampled(event: SampledGaussianEvent, moved: float) -> tuple[float, int]:
    """1 / noise_multiplier^2 of a step that takes every record, and how many steps there are."""
    return inverse_square(event.noise_multiplier / moved), event.steps * event.count


def _spread(event: SampledGaussianEvent, moved: float) -> float:
    """About the range of losses of all steps together, of which the tails are cut."""
    steps = event.steps * event.count
    return _width(moved / event.noise_multiplier) * min(steps, 12 * math.sqrt(steps))


def _sampled_spread(event: SampledGaussianEvent, moved: float) -> float:
    """About the same, where a step's losses deviate by the root of q^2 (e^(mu^2) - 1)."""
    mu = moved / event.noise_multiplier
    deviation = min(mu, event.sampling_rate * math.sqrt(math.expm1(min(mu * mu, _WIDE))))
    return _width(mu) + 12 * math.sqrt(event.steps * event.count) * deviation


def _width(mu: float) -> float:
    """About the range of losses of a Gaussian that moves by mu standard deviations."""
    return mu * mu / 2 + 10 * mu


def _few(choices: Sequence[TopKEvent]) -> list[TopKEvent]:
    """The choices as a few kinds that lose no less.

    A pure run at epsilon is dominated by binary randomized response (Kairouz, Oh and Viswanath 2015), and that by the
    one at a larger epsilon.
    """
    if len(choices) <= _MOST_KINDS:
        return list(choices)
    ordered = sorted(choices, key=lambda event: event.epsilon)
    size = math.ceil(len(ordered) / _MOST_KINDS)
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [TopKEvent(group[-1].epsilon, 1, 2, sum(event.count for event in group)) for group in groups]
