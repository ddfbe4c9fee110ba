"""Every number of a comparison of two sets: curves of all estimators, epsilons, intervals and nulls.

- The interval comes from 200 random halves of either set (40 for nearest neighbours), drawn without replacement. A half
  scatters about the whole as the whole scatters about the truth (the delete-half jackknife; Shao and Wu 1989). A
  bootstrap with replacement would draw copies, which nearest neighbours take for concentration (on the published
  estimator .81 instead of .40 where the truth is 0; derivations, "Estimators of divergence"). Deviations are taken from
  the mean of the halves, because a half has a bias of its own. Learned models are not trained anew. Their values at
  unseen records are drawn.
- The null relabels the pooled records at random and computes everything again, training included. If random labels give
  as much as the true labels (p > 5% at 95%), 0 is taken into the interval. So the interval of two sets from one
  distribution holds 0 with that confidence, whatever the bias of the estimator. Nothing is subtracted.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni
from dptext.text.records import Record
from dptext.types import Floats
from dptext_lab.redaction.divergence import findings, renyi
from dptext_lab.redaction.divergence.conversion import DELTA, cheapest_line, direct, paper_line
from dptext_lab.redaction.divergence.density_ratio import LogRatios, RatioModel, cross_fit, to_trim
from dptext_lab.redaction.divergence.findings import Tested

#: Default number of kept coordinates.
COMPONENTS: Final = 64
LEAST_TEXTS: Final = 10
_NO_VARIANCE: Final = 1e-10


def apart(public: Iterable[Record], *sets: Sequence[Record]) -> tuple[list[str], int]:
    """Return public texts that are in no set, and how many are in one; ConfigError for fewer than 10 texts."""
    private = {record.text for records in sets for record in records}
    texts = [record.text for record in public]
    kept = [text for text in texts if text not in private]
    if len(kept) < LEAST_TEXTS:
        raise ConfigError(
            f"Expected at least {LEAST_TEXTS} public texts that are in neither set, found {len(kept)} of "
            f"{len(texts)}: the space of the comparison must not be fitted on what is compared. Give other public text."
        )
    return kept, len(texts) - len(kept)


# A projection must not see the sets: a projection fitted on the sets would turn with the measured difference.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection:
    """Principal components of public vectors: their mean `(dim,)`, and orthonormal `axes` `(components, dim)`.

    The axes are sorted by falling variance. `kept` is their share of the public variance.
    """

    centre: Floats
    axes: Floats
    kept: float

    def __repr__(self) -> str:
        return f"Projection(components={len(self.axes)}, dim={len(self.centre)}, kept={self.kept:.3f})"

    def apply(self, vectors: Floats) -> Floats:
        """Project vectors `(n, dim)` to the components, `(n, components)`."""
        return np.asarray((vectors - self.centre) @ self.axes.T, np.float64)


def fit_projection(public: Floats, *, components: int = COMPONENTS) -> Projection:
    """Fit the main directions of finite public vectors `(n_texts, dim)`: `components`, or as many as they span."""
    _validate.count(components=components)
    if public.ndim != 2 or len(public) < 2 or not np.isfinite(public).all():
        raise ConfigError(f"Expected at least 2 finite public vectors, found shape {public.shape}.")
    centre = public.mean(axis=0)
    inner = public - centre
    variances, axes = np.linalg.eigh(inner.T @ inner)
    variances, axes = variances[::-1], axes.T[::-1]
    kept = min(components, int((variances > _NO_VARIANCE * max(float(variances[0]), 0.0)).sum()))
    if kept == 0 or variances[0] <= 0:
        raise ConfigError("Expected public texts with different vectors, found them all the same.")
    share = float(variances[:kept].sum() / variances[variances > 0].sum())
    return Projection(centre, np.ascontiguousarray(axes[:kept]), share)


TRIM: Final = 0.005


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """Settings of the comparison of two sets; ConfigError for a setting out of its range.

    The orders `alphas` rise, above 1. The default curve leaves out a share `trim` of the records, those with the
    largest ratios, rounded up to whole records, which adds to the delta of every epsilon; at trim 0 a single record can
    dominate the curve. `components` is the number of main directions of public text that are kept. `neighbours` is the
    k of both nearest-neighbour estimators. `permutations`, at least 1/(1 - confidence) - 1, are the relabellings of the
    null; `resamples`, at least 2/(1 - confidence) - 1, the random halves of an interval. `confidence` is of the
    intervals and of the certified bound.
    """

    alphas: tuple[float, ...] = renyi.ALPHAS
    delta: float = DELTA
    trim: float = TRIM
    components: int = COMPONENTS
    neighbours: int = renyi.NEIGHBOURS
    folds: int = 5
    permutations: int = 20
    resamples: int = 200
    confidence: float = 0.95
    seed: int = 0

    def whole_delta(self, *records: int) -> float:
        """The delta of every epsilon: the conversion's, plus the share trimmed from sets of these sizes."""
        return self.delta + max(to_trim(self.trim, n) / n for n in records)

    def __post_init__(self) -> None:
        renyi.check_alphas(self.alphas)
        if len(self.alphas) < 2:
            raise ConfigError(f"Expected alphas={self.alphas!r} to be at least two: a line needs two points.")
        _validate.positive(delta=self.delta)
        _validate.within(0, 0.5, delta=self.delta)
        _validate.within(0, 0.1, trim=self.trim)
        _validate.count(components=self.components, neighbours=self.neighbours)
        _validate.count(permutations=self.permutations, resamples=self.resamples)
        _validate.within(2, 100, folds=self.folds)
        _validate.not_negative(seed=self.seed)
        alpha = bonferroni(self.confidence, 1)
        for name, given, sides in (("permutations", self.permutations, 1), ("resamples", self.resamples, 2)):
            least = math.ceil(sides / alpha - 1e-9) - 1
            if given < least:
                raise ConfigError(f"Expected {name}={given!r} >= {least} for confidence={self.confidence!r}.")


#: Log density ratios by the name of their estimator.
Ratios = Mapping[str, LogRatios]
#: The draws of each number, by (name, order).
Draws = dict[tuple[str, int], Floats]

_MODELS = {findings.LOGISTIC_RATIO: RatioModel.LOGISTIC, findings.MLP_RATIO: RatioModel.MLP}
#: The number of random halves for nearest neighbours, where every half costs as much as a whole.
NEAREST_HALVES = 40


@dataclass(frozen=True, slots=True)
class Numbers:
    """All numbers of one labelling: curves by estimator, `(2 directions, n_alphas)`, and epsilons by name."""

    curves: Mapping[str, Floats]
    epsilons: Mapping[str, float]

    def flat(self) -> dict[tuple[str, int], float]:
        """Each number of the larger direction, and each epsilon, by (name, order)."""
        found = {(name, i): float(v) for name, both in self.curves.items() for i, v in enumerate(both.max(axis=0))}
        return {**found, **{(name, -1): value for name, value in self.epsilons.items()}}


def learned_numbers(first: Floats, second: Floats, ratios: Ratios, settings: DivergenceSettings) -> Numbers:
    """Compute the numbers that are cheap after training: Gaussian, ratios, default curve and its epsilons."""
    alphas = settings.alphas
    curves = {findings.GAUSSIAN: np.stack([renyi.gaussian(first, second, alphas)] * 2)}  # equal in both directions
    for name, found in ratios.items():
        curves[name] = np.stack([each.divergence(alphas) for each in (found, found.reversed)])
    mlp = ratios[findings.MLP_RATIO]
    rest = np.stack([each.trimmed(settings.trim).divergence(alphas) for each in (mlp, mlp.reversed)])
    curves[findings.DEFAULT] = np.maximum(curves[findings.GAUSSIAN], rest)
    larger, delta = curves[findings.DEFAULT].max(axis=0).tolist(), settings.delta
    epsilons = {findings.DIRECT: direct(alphas, larger, delta=delta).epsilon}
    epsilons[findings.CHEAPEST] = cheapest_line(alphas, larger, delta=delta).epsilon
    epsilons[findings.PAPER] = paper_line(alphas, larger, delta=delta).epsilon
    return Numbers(curves, epsilons)


def nearest_numbers(first: Floats, second: Floats, settings: DivergenceSettings) -> Numbers:
    """Compute the numbers by nearest neighbours, and the epsilon of the whole published recipe."""
    alphas, k = settings.alphas, settings.neighbours
    both = (first, second), (second, first)
    curves = {
        findings.PUBLISHED: np.stack([renyi.knn_count_ratio(p, q, alphas, neighbours=k) for p, q in both]),
        findings.NEAREST: np.stack([renyi.knn_poczos_schneider(p, q, alphas, neighbours=k) for p, q in both]),
    }
    line = paper_line(alphas, curves[findings.PUBLISHED].max(axis=0).tolist(), delta=settings.delta)
    return Numbers(curves, {findings.PAPER_WHOLE: line.epsilon})


def train_ratios(first: Floats, second: Floats, settings: DivergenceSettings, seed: int) -> dict[str, LogRatios]:
    """Compute log density ratios of all rows by each model, cross-fitted."""
    return {
        name: cross_fit(first, second, model=model, folds=settings.folds, seed=seed) for name, model in _MODELS.items()
    }


def halves_of(first: Floats, second: Floats, ratios: Ratios, settings: DivergenceSettings) -> Draws:
    """Compute every number on random halves of the records."""
    rng = np.random.default_rng((settings.seed, 1))
    found: list[dict[tuple[str, int], float]] = []
    for i in range(settings.resamples):
        one, two = (rng.permutation(len(rows))[: len(rows) // 2] for rows in (first, second))
        halved = {name: ratio.at(one, two) for name, ratio in ratios.items()}
        drawn = learned_numbers(first[one], second[two], halved, settings).flat()
        if i < max(NEAREST_HALVES, math.ceil(2 / bonferroni(settings.confidence, 1) - 1e-9) - 1):
            drawn.update(nearest_numbers(first[one], second[two], settings).flat())
        found.append(drawn)
    return _stacked(found)


def nulls_of(first: Floats, second: Floats, settings: DivergenceSettings, on_step: Callable[[], None]) -> Draws:
    """Compute every number on randomly relabelled records. `on_step` is called after each relabelling."""
    rng = np.random.default_rng((settings.seed, 2))
    pooled = np.concatenate([first, second])
    found = []
    for _ in range(settings.permutations):
        order = rng.permutation(len(pooled))
        one, two = pooled[order[: len(first)]], pooled[order[len(first) :]]
        ratios = train_ratios(one, two, settings, int(rng.integers(2**31)))
        found.append(learned_numbers(one, two, ratios, settings).flat() | nearest_numbers(one, two, settings).flat())
        on_step()
    return _stacked(found)


def _stacked(drawn: Sequence[Mapping[tuple[str, int], float]]) -> Draws:
    """Stack the draws of each number; the first draw has all numbers."""
    return {key: np.array([each[key] for each in drawn if key in each]) for key in drawn[0]}


def judge_number(
    value: float, halves: Floats, nulls: Floats, *, confidence: float, is_open: bool, is_epsilon: bool
) -> Tested:
    """Return a number with its interval from random halves of the records, and its null from relabelled records.

    If `is_open`, the interval has no upper end. An epsilon cannot be below 0.
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
