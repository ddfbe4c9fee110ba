"""The interval and the null of every number of a comparison.

- The interval comes from 200 random halves of either set (40 for nearest neighbours), drawn without replacement. The
  scatter of a half about the whole is that of the whole about the truth (the delete-half jackknife; Shao and Wu 1989).
  A bootstrap with replacement would draw copies, which nearest neighbours take for concentration (on the published
  estimator .43 instead of .34 where the truth is 0, MATHS 3.2). Deviations are taken from the mean of the halves, as a
  half has a bias of its own. Learned models are not trained anew. Their values at unseen records are drawn.
- The null relabels the pooled records at random and computes everything again, training included. Where random labels
  give as much as the true ones (p > 5% at 95%), 0 is taken into the interval. So the interval of two sets from one
  distribution holds 0 with that confidence, whatever the bias of the estimator. Nothing is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from dptext.audits.divergence.density_ratio import LogRatios
from dptext.audits.divergence.estimators import learned_numbers, nearest_numbers, train_ratios
from dptext.audits.divergence.findings import Tested
from dptext.audits.divergence.settings import DivergenceSettings
from dptext.estimates import Estimate, bonferroni
from dptext.types import Floats, Positions

#: Random halves for nearest neighbours: there every half costs as much as a whole.
_NEAREST_HALVES = 40


def halves_of(
    first: Floats, second: Floats, ratios: Mapping[str, LogRatios], settings: DivergenceSettings
) -> dict[tuple[str, int], Floats]:
    """Every number on random halves of the records."""
    rng = np.random.default_rng((settings.seed, 1))
    found: dict[tuple[str, int], list[float]] = {}

    def half(rows: Floats) -> Positions:
        return rng.permutation(len(rows))[: len(rows) // 2]

    for i in range(settings.resamples):
        one, two = half(first), half(second)
        drawn = learned_numbers(
            first[one], second[two], {name: r.at(one, two) for name, r in ratios.items()}, settings
        ).flat()
        if i < max(_NEAREST_HALVES, math.ceil(2 / bonferroni(settings.confidence, 1) - 1e-9) - 1):
            drawn.update(nearest_numbers(first[one], second[two], settings).flat())
        for key, value in drawn.items():
            found.setdefault(key, []).append(value)
    return {key: np.asarray(values) for key, values in found.items()}


def nulls_of(
    first: Floats, second: Floats, settings: DivergenceSettings, on_step: Callable[[], None]
) -> dict[tuple[str, int], Floats]:
    """Every number where the records are relabelled at random. `on_step` is called after each relabelling."""
    rng = np.random.default_rng((settings.seed, 2))
    pooled = np.concatenate([first, second])
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(settings.permutations):
        order = rng.permutation(len(pooled))
        one, two = pooled[order[: len(first)]], pooled[order[len(first) :]]
        ratios = train_ratios(one, two, settings, int(rng.integers(2**31)))
        drawn = {**learned_numbers(one, two, ratios, settings).flat(), **nearest_numbers(one, two, settings).flat()}
        for key, value in drawn.items():
            found.setdefault(key, []).append(value)
        on_step()
    return {key: np.asarray(values) for key, values in found.items()}


def judge_number(
    value: float, halves: Floats, nulls: Floats, *, confidence: float, is_open: bool, is_epsilon: bool
) -> Tested:
    """A number with its interval and its null.

    Args:
        value: the number.
        halves: the same number on random halves of the records.
        nulls: the same number on relabelled records.
        confidence: of the interval.
        is_open: whether the interval has no upper end.
        is_epsilon: whether the number is an epsilon, which cannot be below 0.
    """
    p_value = float((1 + (nulls >= value).sum()) / (1 + len(nulls)))
    if math.isfinite(value) and np.isfinite(halves).all():
        deviations = np.sort(halves - halves.mean())
        rank = max(1, math.floor(bonferroni(confidence, 2) * (len(halves) + 1)))
        low, high = value + float(deviations[rank - 1]), value + float(deviations[-rank])
    else:
        low, high = float(halves.min()), math.inf
    if p_value > 1 - confidence + 1e-12:
        low = min(low, 0.0)
    low = max(low, 0.0) if is_epsilon else low
    high = math.inf if is_open else high
    return Tested(Estimate(value, min(low, value), max(high, value), confidence), float(nulls.mean()), p_value)
