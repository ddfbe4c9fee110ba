"""Every number of one comparison: the curves of all estimators, and the epsilons read from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dptext.audits.divergence.conversion import cheapest_line, direct, paper_line
from dptext.audits.divergence.density_ratio import LogRatios, cross_fit
from dptext.audits.divergence.findings import (
    CHEAPEST,
    DEFAULT,
    DIRECT,
    GAUSSIAN,
    LOGISTIC_RATIO,
    MLP_RATIO,
    NEAREST,
    PAPER,
    PAPER_WHOLE,
    PUBLISHED,
)
from dptext.audits.divergence.knn import knn_count_ratio, knn_poczos_schneider
from dptext.audits.divergence.ratio_models import RatioModel
from dptext.audits.divergence.renyi import gaussian
from dptext.audits.divergence.settings import DivergenceSettings
from dptext.types import Floats

_MODELS = {LOGISTIC_RATIO: RatioModel.LOGISTIC, MLP_RATIO: RatioModel.MLP}


@dataclass(frozen=True, slots=True)
class Numbers:
    """All numbers of one labelling: curves by estimator, `(2 directions, n_alphas)`, and epsilons by name."""

    curves: Mapping[str, Floats]
    epsilons: Mapping[str, float]

    def flat(self) -> dict[tuple[str, int], float]:
        """Each number of the larger direction, and each epsilon, by (name, order)."""
        found = {(name, i): float(v) for name, both in self.curves.items() for i, v in enumerate(both.max(axis=0))}
        return {**found, **{(name, -1): value for name, value in self.epsilons.items()}}


def learned_numbers(
    first: Floats, second: Floats, ratios: Mapping[str, LogRatios], settings: DivergenceSettings
) -> Numbers:
    """Numbers that are cheap once the models are trained: the Gaussian, the ratios, the default and its epsilons."""
    alphas = settings.alphas
    curves = {GAUSSIAN: np.stack([gaussian(first, second, alphas)] * 2)}  # the same in both directions
    for name, found in ratios.items():
        curves[name] = np.stack([found.divergence(alphas), found.reversed.divergence(alphas)])
    curves[DEFAULT] = np.maximum(curves[GAUSSIAN], curves[MLP_RATIO])
    larger = curves[DEFAULT].max(axis=0).tolist()
    epsilons = {
        DIRECT: direct(alphas, larger, delta=settings.delta).epsilon,
        CHEAPEST: cheapest_line(alphas, larger, delta=settings.delta).epsilon,
        PAPER: paper_line(alphas, larger, delta=settings.delta).epsilon,
    }
    return Numbers(curves, epsilons)


def nearest_numbers(first: Floats, second: Floats, settings: DivergenceSettings) -> Numbers:
    """Numbers by nearest neighbours, and the epsilon of the whole published recipe."""
    alphas, k = settings.alphas, settings.neighbours
    both = (first, second), (second, first)
    curves = {
        PUBLISHED: np.stack([knn_count_ratio(p, q, alphas, neighbours=k) for p, q in both]),
        NEAREST: np.stack([knn_poczos_schneider(p, q, alphas, neighbours=k) for p, q in both]),
    }
    line = paper_line(alphas, curves[PUBLISHED].max(axis=0).tolist(), delta=settings.delta)
    return Numbers(curves, {PAPER_WHOLE: line.epsilon})


def train_ratios(first: Floats, second: Floats, settings: DivergenceSettings, seed: int) -> dict[str, LogRatios]:
    """Log density ratios of all rows by each model, cross-fitted."""
    return {
        name: cross_fit(first, second, model=model, folds=settings.folds, seed=seed) for name, model in _MODELS.items()
    }
