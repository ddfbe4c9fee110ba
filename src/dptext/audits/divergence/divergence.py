"""Divergence: how far apart are two sets of texts, a sensitive and a safe one, in one embedding?

Both are embedded by a public embedder, cut to the main directions of public text, and compared by six estimators of the
Renyi divergence in both directions; the curve of the default one becomes an epsilon in three ways, and a bound that is
certified stands beside them::

    report = measure(sensitive, safe, public=texts, embedder=load_sentence_encoder())
    print(report.to_markdown())

What comes out is an empirical estimate, and a certified lower bound, of leakage in this embedding. It is NOT an upper
bound and not differential privacy: texts can differ where vectors do not.

Every number has an interval and a null:

- The interval comes from 200 random halves of either set (40 for nearest neighbours), drawn without replacement: the
  scatter of a half about the whole is that of the whole about the truth (the delete-half jackknife; Shao and Wu 1989).
  A bootstrap with replacement would draw copies, which nearest neighbours take for concentration (on the published
  estimator .43 instead of .34 where the truth is 0, MATHS 3.2). Deviations are taken from the mean of the halves, as a
  half has a bias of its own. Learned models are not trained anew: their values at unseen records are drawn.
- The null relabels the pooled records at random and computes everything again, training included. Where random labels
  give as much as the true ones (p > 5% at 95%), 0 is taken into the interval: so the interval of two sets from one
  distribution holds 0 with that confidence, whatever the bias of the estimator. Nothing is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dptext import _validate
from dptext.audits.bounds import accuracy_implies
from dptext.audits.divergence.density_ratio import LEAST_ROWS, CertifiedBound, LogRatios, Model, certify, cross_fit
from dptext.audits.divergence.epsilon import DELTA, cheapest_line, direct, is_inconsistent, paper_line
from dptext.audits.divergence.renyi import (
    ALPHAS,
    NEIGHBOURS,
    check_alphas,
    check_samples,
    falls,
    gaussian,
    knn_count_ratio,
    knn_poczos_schneider,
)
from dptext.audits.divergence.report import (
    CHEAPEST,
    DEFAULT,
    DIRECT,
    GAUSSIAN,
    INTERVALS,
    LOGISTIC,
    MEANING,
    MLP,
    NEAREST,
    ONE_DRAW,
    PAPER,
    PAPER_WHOLE,
    PUBLISHED,
    TEXT,
    Consistency,
    Curve,
    DivergenceReport,
    Tested,
    short,
)
from dptext.audits.divergence.space import COMPONENTS, apart, fit_projection
from dptext.audits.inference.authors import embed_distinct
from dptext.audits.subjects import Progress
from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni
from dptext.text.records import Record
from dptext.types import Floats, Json, Positions

__all__ = ["DivergenceReport", "DivergenceSettings", "measure", "measure_vectors"]


_MODELS = {LOGISTIC: Model.LOGISTIC, MLP: Model.MLP}
#: Random halves for nearest neighbours, whose every half costs as much as a whole.
_NEAREST_HALVES = 40


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """How two sets are compared.

    Attributes:
        alphas: orders, rising, above 1.
        delta: of all epsilons.
        components: main directions of public text that are kept.
        neighbours: k of both nearest-neighbour estimators.
        folds: of the cross-fitting.
        permutations: relabellings of the null; at least 1/(1 - confidence) - 1.
        resamples: random halves behind each interval.
        confidence: of intervals and bound.
        seed: of everything.

    Raises:
        ConfigError: a setting out of its range.
    """

    alphas: tuple[float, ...] = ALPHAS
    delta: float = DELTA
    components: int = COMPONENTS
    neighbours: int = NEIGHBOURS
    folds: int = 5
    permutations: int = 20
    resamples: int = 200
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_alphas(self.alphas)
        if len(self.alphas) < 2:
            raise ConfigError(f"Expected alphas={self.alphas!r} to be at least two: a line needs two points.")
        _validate.positive(delta=self.delta)
        _validate.within(0, 0.5, delta=self.delta)
        _validate.count(
            components=self.components,
            neighbours=self.neighbours,
            permutations=self.permutations,
            resamples=self.resamples,
        )
        _validate.within(2, 100, folds=self.folds)
        _validate.not_negative(seed=self.seed)
        alpha = bonferroni(self.confidence, 1)
        for name, given, least in (
            ("permutations", self.permutations, math.ceil(1 / alpha - 1e-9) - 1),
            ("resamples", self.resamples, math.ceil(2 / alpha - 1e-9) - 1),
        ):
            if given < least:
                raise ConfigError(f"Expected {name}={given!r} >= {least} for confidence={self.confidence!r}.")


@dataclass(frozen=True, slots=True)
class _Numbers:
    """All numbers of one labelling: curves by estimator, `(2 directions, n_alphas)`, and epsilons by name."""

    curves: Mapping[str, Floats]
    epsilons: Mapping[str, float]

    def flat(self) -> dict[tuple[str, int], float]:
        """Each number of the larger direction, and each epsilon, by (name, order)."""
        found = {(name, i): float(v) for name, both in self.curves.items() for i, v in enumerate(both.max(axis=0))}
        return {**found, **{(name, -1): value for name, value in self.epsilons.items()}}


def _learned(first: Floats, second: Floats, ratios: Mapping[str, LogRatios], settings: DivergenceSettings) -> _Numbers:
    """What is cheap once the models are trained: the Gaussian, the ratios, the default and its epsilons."""
    alphas = settings.alphas
    curves = {GAUSSIAN: np.stack([gaussian(first, second, alphas)] * 2)}  # the same in both directions
    for name, found in ratios.items():
        curves[name] = np.stack([found.divergence(alphas), found.reversed.divergence(alphas)])
    curves[DEFAULT] = np.maximum(curves[GAUSSIAN], curves[MLP])
    larger = curves[DEFAULT].max(axis=0).tolist()
    epsilons = {
        DIRECT: direct(alphas, larger, delta=settings.delta).epsilon,
        CHEAPEST: cheapest_line(alphas, larger, delta=settings.delta).epsilon,
        PAPER: paper_line(alphas, larger, delta=settings.delta).epsilon,
    }
    return _Numbers(curves, epsilons)


def _nearest(first: Floats, second: Floats, settings: DivergenceSettings) -> _Numbers:
    """The estimators by nearest neighbours, and the whole published recipe."""
    alphas, k = settings.alphas, settings.neighbours
    curves = {
        PUBLISHED: np.stack(
            [
                knn_count_ratio(first, second, alphas, neighbours=k),
                knn_count_ratio(second, first, alphas, neighbours=k),
            ]
        ),
        NEAREST: np.stack(
            [
                knn_poczos_schneider(first, second, alphas, neighbours=k),
                knn_poczos_schneider(second, first, alphas, neighbours=k),
            ]
        ),
    }
    line = paper_line(alphas, curves[PUBLISHED].max(axis=0).tolist(), delta=settings.delta)
    return _Numbers(curves, {PAPER_WHOLE: line.epsilon})


def _train(first: Floats, second: Floats, settings: DivergenceSettings, seed: int) -> dict[str, LogRatios]:
    return {
        name: cross_fit(first, second, model=model, folds=settings.folds, seed=seed) for name, model in _MODELS.items()
    }


# ------------------------------------------------------------------ the audit


def measure(
    first: Sequence[Record],
    second: Sequence[Record],
    *,
    public: Sequence[Record],
    embedder: Embedder,
    settings: DivergenceSettings | None = None,
    attack: Estimate | None = None,
    on_step: Progress | None = None,
) -> DivergenceReport:
    """Compare two sets of texts.

    Args:
        first: one set, drawn independently.
        second: the other.
        public: other text, on which the projection is fitted. Texts that are in one of the sets are left out.
        embedder: public; its vectors are scaled to norm 1.
        settings: of the comparison.
        attack: accuracy of an attack on the same sets, both equally likely, which the epsilons are held against.
        on_step: called with steps done and steps in all.

    Raises:
        ConfigError: too few records, public text that is that of the sets, or an embedder without finite vectors.
        MissingExtraError: scikit-learn is absent.
    """
    settings = DivergenceSettings() if settings is None else settings
    known, shared = apart(public, first, second)
    texts = [[record.text for record in records] for records in (first, second)]
    space = embed_distinct([*known, *texts[0], *texts[1]], embedder)
    projection = fit_projection(space.at(known), components=settings.components)
    common = len({*texts[0]} & {*texts[1]})
    notes = []
    if shared:
        notes.append(f"{shared:,} public texts were left out: they are in one of the sets.")
    for name, found in zip(("first", "second"), texts, strict=True):
        if repeated := len(found) - len({*found}):
            notes.append(
                f"{repeated:,} records of the {name} set repeat a text: copies are not independent, neither the null "
                "nor the certified bound holds as stated. Remove them where they are one record twice."
            )
    if common:
        notes.append(f"{common:,} distinct texts are in both sets.")
    return measure_vectors(
        projection.apply(space.at(texts[0])),
        projection.apply(space.at(texts[1])),
        settings=settings,
        attack=attack,
        notes=tuple(notes),
        origin={
            "embedder": embedder.name,
            "public": len(known),
            "dim": len(projection.axes),
            "variance_kept": round(projection.kept, 4),
        },
        on_step=on_step,
    )


def measure_vectors(
    first: Floats,
    second: Floats,
    *,
    settings: DivergenceSettings | None = None,
    attack: Estimate | None = None,
    notes: Sequence[str] = (),
    origin: Mapping[str, Json] | None = None,
    on_step: Progress | None = None,
) -> DivergenceReport:
    """Compare two samples of vectors, whose space must not have been fitted on them.

    Args:
        first: `(n, d)`.
        second: `(m, d)`.
        settings: of the comparison; `components` is of no effect here.
        attack: as for `measure`.
        notes: to put before those of every report.
        origin: of the vectors, for the signature.
        on_step: called with steps done and steps in all.

    Raises:
        ConfigError: samples that cannot be used.
        MissingExtraError: scikit-learn is absent.
    """
    settings = DivergenceSettings() if settings is None else settings
    # Halves must still have the neighbours that the largest order asks for.
    most = max(settings.neighbours, math.floor(settings.alphas[-1]))
    check_samples(first, second, least=max(LEAST_ROWS, 2 * settings.folds))
    if min(len(first), len(second)) < 2 * (most + 1):
        raise ConfigError(
            f"Expected at least {2 * (most + 1)} records in each set, found {len(first)} and {len(second)}: "
            f"order {settings.alphas[-1]:g} asks for so many neighbours. Give more, or end alphas at a smaller one."
        )
    if (len(first) + len(second)) // 2 - 4 <= first.shape[1] + 1:
        raise ConfigError(
            f"Expected more records than {len(first)} and {len(second)} for {first.shape[1]} coordinates: half of them "
            "must fix a covariance. Give more, or ask for fewer components."
        )
    steps = _Steps(settings.permutations + 4, on_step)
    ratios = _train(first, second, settings, settings.seed)
    steps.done()
    learned, nearest = _learned(first, second, ratios, settings), _nearest(first, second, settings)
    steps.done()
    certified = certify(
        first,
        second,
        settings.alphas,
        models=tuple(Model),
        delta=settings.delta,
        confidence=settings.confidence,
        seed=settings.seed,
    )
    steps.done()
    halves = _halves(first, second, ratios, settings)
    steps.done()
    nulls = _nulls(first, second, settings, steps)
    separated = any(found.is_separated for found in ratios.values())
    values = {**learned.flat(), **nearest.flat()}
    judged = {
        key: _judge(
            value, halves[key], nulls[key], confidence=settings.confidence, is_open=separated, is_epsilon=key[1] < 0
        )
        for key, value in values.items()
    }
    both = {**nearest.curves, **learned.curves}
    curves = tuple(
        Curve(
            name,
            tuple(map(float, both[name][0])),
            tuple(map(float, both[name][1])),
            tuple(judged[name, i] for i in range(len(settings.alphas))),
            rises=not any(falls(way) for way in both[name]),
        )
        for name in (PUBLISHED, NEAREST, GAUSSIAN, LOGISTIC, MLP, DEFAULT)
    )
    epsilons = {name: judged[name, -1] for name in (DIRECT, CHEAPEST, PAPER, PAPER_WHOLE)}
    larger = learned.curves[DEFAULT].max(axis=0).tolist()
    return DivergenceReport(
        alphas=settings.alphas,
        curves=curves,
        epsilons=epsilons,
        conversion=direct(settings.alphas, larger, delta=settings.delta),
        cheapest=cheapest_line(settings.alphas, larger, delta=settings.delta),
        paper=paper_line(settings.alphas, larger, delta=settings.delta),
        certified=certified,
        checks=_checks(ratios, epsilons, attack, settings),
        delta=settings.delta,
        is_separated=separated,
        records=(len(first), len(second)),
        plane=(first[:, :2].copy(), second[:, :2].copy()),
        notes=(*notes, *_notes(curves, certified, epsilons[DIRECT].estimate, separated)),
        signature={
            "attack": "divergence",
            "first": len(first),
            "second": len(second),
            **(origin or {"embedder": "vectors as given", "dim": first.shape[1]}),
            **{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(settings).items()},
        },
    )


class _Steps:
    """Counts steps for whoever wants to know."""

    def __init__(self, total: int, told: Progress | None) -> None:
        self._total, self._told, self._count = total, told, 0

    def done(self) -> None:
        self._count += 1
        if self._told is not None:
            self._told(self._count, self._total)


def _halves(
    first: Floats, second: Floats, ratios: Mapping[str, LogRatios], settings: DivergenceSettings
) -> dict[tuple[str, int], Floats]:
    """Every number on random halves of the records."""
    rng = np.random.default_rng((settings.seed, 1))
    found: dict[tuple[str, int], list[float]] = {}

    def half(rows: Floats) -> Positions:
        return rng.permutation(len(rows))[: len(rows) // 2]

    for i in range(settings.resamples):
        one, two = half(first), half(second)
        drawn = _learned(first[one], second[two], {name: r.at(one, two) for name, r in ratios.items()}, settings).flat()
        if i < max(_NEAREST_HALVES, math.ceil(2 / bonferroni(settings.confidence, 1) - 1e-9) - 1):
            drawn.update(_nearest(first[one], second[two], settings).flat())
        for key, value in drawn.items():
            found.setdefault(key, []).append(value)
    return {key: np.asarray(values) for key, values in found.items()}


def _nulls(first: Floats, second: Floats, settings: DivergenceSettings, steps: _Steps) -> dict[tuple[str, int], Floats]:
    """Every number where the labels are drawn at random."""
    rng = np.random.default_rng((settings.seed, 2))
    pooled = np.concatenate([first, second])
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(settings.permutations):
        order = rng.permutation(len(pooled))
        one, two = pooled[order[: len(first)]], pooled[order[len(first) :]]
        ratios = _train(one, two, settings, int(rng.integers(2**31)))
        drawn = {**_learned(one, two, ratios, settings).flat(), **_nearest(one, two, settings).flat()}
        for key, value in drawn.items():
            found.setdefault(key, []).append(value)
        steps.done()
    return {key: np.asarray(values) for key, values in found.items()}


def _judge(
    value: float, halves: Floats, nulls: Floats, *, confidence: float, is_open: bool, is_epsilon: bool
) -> Tested:
    """A number with its interval and its null, as the module says."""
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


def _checks(
    ratios: Mapping[str, LogRatios],
    epsilons: Mapping[str, Tested],
    attack: Estimate | None,
    settings: DivergenceSettings,
) -> tuple[Consistency, ...]:
    """Both learned models as attackers on unseen records, and the attack that was measured elsewhere."""
    attacks = {f"{name} on unseen records": found.accuracy(settings.confidence) for name, found in ratios.items()}
    if attack is not None:
        attacks["the given attack"] = attack
    delta = settings.delta
    checks = []
    for name, accuracy in attacks.items():
        surely = max(0.0, accuracy.low)
        below, surely_below = (
            tuple(way for way, e in epsilons.items() if is_inconsistent(e.estimate.value, right, delta=delta))
            for right in (accuracy.value, surely)
        )
        needs, needs_surely = (accuracy_implies(right, delta=delta) for right in (accuracy.value, surely))
        checks.append(Consistency(name, accuracy, needs, needs_surely, below, surely_below))
    return tuple(checks)


def _notes(curves: Sequence[Curve], certified: CertifiedBound, epsilon: Estimate, is_separated: bool) -> list[str]:
    notes = [MEANING, TEXT, ONE_DRAW, INTERVALS]
    if is_separated:
        notes.append(
            "A model told all unseen records apart: every divergence and epsilon is a lower value, the truth may be "
            "infinite. The published estimate may show 0 here: that is its fault, not privacy."
        )
    notes += [
        f"Defect: {curve.name} falls where the order rises, which no Renyi divergence does: do not rely on it."
        for curve in curves
        if not curve.rises
    ]
    default = curves[-1]
    if any(bound > found.estimate.high for bound, found in zip(certified.divergences, default.larger, strict=True)):
        notes.append(
            "Defect: the default curve is below the certified bound: it is blind to what tells the sets apart."
        )
    if certified.epsilon > epsilon.high:
        notes.append(
            f"Defect: epsilon is certified to be at least {short(certified.epsilon)}, above the estimate: do not rely "
            "on the estimate."
        )
    return notes
