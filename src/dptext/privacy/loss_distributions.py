"""Numerical privacy loss distributions: the composition of (sampled) Gaussian noise and randomized response at a delta.

The pessimistic distributions of dp-accounting give the tightest bound for runs of several kinds. The computation takes
a tenth of a second to seconds, so `dptext.privacy.accounting` also has a quicker bound.

Fourier transforms convolve the losses. Their rounding error is absolute, and grows with the number of runs: 1.4e-11 of
probability was measured for 10^6 of them. So 2^-52 for each run, and at least 1e-12, is subtracted from delta, and a
delta below ten times of that gets the bound of a formula only.
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

_FINEST = 1e-4  # finest step of the grid of losses, the default of dp-accounting
_WIDE = 50.0  # runs with a wider range of losses get a coarser grid of about 10^5 points, a tenth of a second each
#: Approximate number of grid points. A finer grid takes many seconds; this grid cost up to 1e-5 of epsilon.
GRID_POINTS = 3e6
_COARSEST = 1.0
_TRANSFORMED = 1e-12  # far above the rounding error of Fourier transforms of few runs
_PER_RUN = 2.0**-52
_MOST_SPREAD = 3e5
_MOST_KINDS = 32
_LARGEST_LOSS = 500.0  # e^-loss must be a float
#: A training with a smaller multiplier, or losses beyond `_MOST_SPREAD`, protects nobody and has no useful grid.
_LEAST_MULTIPLIER = 0.02


def is_mixable(event: object) -> bool:
    """Tell whether this module has a loss distribution for the event."""
    if isinstance(event, TopKEvent):
        return event.epsilon <= _LARGEST_LOSS
    return isinstance(event, GaussianEvent | SampledGaussianEvent)


@lru_cache(maxsize=256)  # planning, calibrating and stating a guarantee ask for the same epsilon
def mixed_epsilon(events: tuple[Mixable, ...], delta: float, relation: Relation) -> float:
    """Epsilon at delta > 0 of (sampled) Gaussian and top-k events together, rounded up; infinite if none is known."""
    # The import of dp-accounting takes most of a second, and few releases need it.
    from dp_accounting import NeighboringRelation  # noqa: PLC0415
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    choices = _few([event for event in events if isinstance(event, TopKEvent)])
    sampled = [event for event in events if isinstance(event, SampledGaussianEvent)]
    # Our multiplier is relative to the sensitivity, theirs to the norm of a record. REPLACE_ONE has a sensitivity of
    # twice that norm.
    moved = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    precision = sum_up((inverse_square(e.noise_multiplier), e.count) for e in events if isinstance(e, GaussianEvent))
    # Sampling never harms: the output's distribution is a mixture, with public weights, of the distributions with and
    # without the record, and divergences are jointly convex. So steps with very little noise are counted as if each
    # step took every record.
    bare = [e for e in sampled if e.noise_multiplier < _LEAST_MULTIPLIER or _sampled_spread(e, moved) > _MOST_SPREAD]
    every = sum_up([(precision, 1), *(_unsampled(event, moved) for event in sampled)])
    precision = sum_up([(precision, 1), *(_unsampled(event, moved) for event in bare)])
    sampled = [event for event in sampled if event not in bare]
    formula = math.inf if choices else gaussian_epsilon(1 / math.sqrt(every), delta)
    runs_in_all = sum(event.steps * event.count for event in sampled) + sum(event.count for event in choices)
    lost = max(_TRANSFORMED, _PER_RUN * runs_in_all)
    if delta < 10 * lost or not (choices or sampled):
        return formula
    widths = [_width(moved / e.noise_multiplier) for e in sampled] + [2 * e.epsilon for e in choices]
    if precision:
        widths.append(_width(math.sqrt(precision)))
    interval = max(
        _FINEST if max(widths) <= _WIDE else max(widths) / 1e5,
        # The grid of the losses of all runs together must fit into memory.
        sum(2 * event.epsilon * event.count for event in choices) / 5e6,
        sum(_sampled_spread(event, moved) for event in sampled) / GRID_POINTS,
    )
    if interval > _COARSEST:
        return formula  # the grid is too coarse for a useful bound
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
    with np.errstate(over="ignore"):  # e^-loss overflows to infinity, as intended
        found = up(float(total.get_epsilon_for_delta(delta - lost)))
    return min(found, formula)


def inverse_square(noise_multiplier: float) -> float:
    """1 / noise_multiplier^2, rounded up. Composed Gaussians add up in this quantity."""
    return up(1 / noise_multiplier / noise_multiplier)


def _unsampled(event: SampledGaussianEvent, moved: float) -> tuple[float, int]:
    """1 / noise_multiplier^2 of a step that takes every record, and the number of steps."""
    return inverse_square(event.noise_multiplier / moved), event.steps * event.count


def _sampled_spread(event: SampledGaussianEvent, moved: float) -> float:
    """Approximate range of losses of all steps, from a standard deviation of sqrt(q^2 (e^(mu^2) - 1)) per step."""
    mu = moved / event.noise_multiplier
    deviation = min(mu, event.sampling_rate * math.sqrt(math.expm1(min(mu * mu, _WIDE))))
    return _width(mu) + 12 * math.sqrt(event.steps * event.count) * deviation


def _width(mu: float) -> float:
    """Approximate range of losses of a Gaussian that moves by mu standard deviations."""
    return mu * mu / 2 + 10 * mu


def _few(choices: Sequence[TopKEvent]) -> list[TopKEvent]:
    """Replace the choices by at most `_MOST_KINDS` kinds that lose no less.

    Binary randomized response at epsilon dominates a pure run at epsilon (Kairouz, Oh and Viswanath 2015), and binary
    randomized response at a larger epsilon dominates both.
    """
    if len(choices) <= _MOST_KINDS:
        return list(choices)
    ordered = sorted(choices, key=lambda event: event.epsilon)
    size = math.ceil(len(ordered) / _MOST_KINDS)
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [TopKEvent(group[-1].epsilon, 1, 2, sum(event.count for event in group)) for group in groups]
