"""Divergence of two sets of texts, a sensitive and a safe set, in one embedding.

A public embedder turns both sets into vectors, which are projected to the main directions of public text. Six
estimators of the Renyi divergence compare the sets in both directions. The curve of the default estimator becomes an
epsilon in three ways. Every number has an interval and a null (`estimators`); a certified bound stands beside them.

The results are an empirical estimate, and a certified lower bound, of leakage in this embedding. They are NOT an upper
bound and not differential privacy: texts can differ where vectors do not.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

import numpy as np

from dptext.audits.bounds import accuracy_implies
from dptext.audits.subjects import OnCount, untold
from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.records import Record
from dptext.types import Floats, Json
from dptext_lab.redaction.divergence import conversion, estimators, findings
from dptext_lab.redaction.divergence.density_ratio import LEAST_ROWS
from dptext_lab.redaction.divergence.estimators import DivergenceSettings, Ratios
from dptext_lab.redaction.divergence.findings import Consistency, Curve, DivergenceReport, Tested, three_digits
from dptext_lab.redaction.divergence.renyi import check_samples, falls

_MOST: Final = 0.5  # a larger share of one record in a curve gets a note


def measure(
    first: Sequence[Record],
    second: Sequence[Record],
    *,
    public: Sequence[Record],
    embedder: Embedder,
    settings: DivergenceSettings | None = None,
    attack: Estimate | None = None,
    on_step: OnCount | None = None,
) -> DivergenceReport:
    """Compare two sets of texts, each drawn independently.

    The projection is fitted on other, public text, without texts that are in one of the sets. The vectors of the public
    embedder are scaled to norm 1. The accuracy of an `attack` on the same sets is compared with the epsilons. `on_step`
    is called with the number of steps done and the number in all. ConfigError: too few records, public text that is the
    text of the sets, or an embedder without finite vectors.
    """
    settings = settings or DivergenceSettings()
    known, shared = estimators.apart(public, first, second)
    texts = [[record.text for record in records] for records in (first, second)]
    space = embed_distinct([*known, *texts[0], *texts[1]], embedder)
    projection = estimators.fit_projection(space.at(known), components=settings.components)
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
    origin: dict[str, Json] = {"embedder": embedder.name, "public": len(known)}
    origin |= {"dim": len(projection.axes), "variance_kept": round(projection.kept, 4)}
    a, b = (projection.apply(space.at(found)) for found in texts)
    return measure_vectors(a, b, settings=settings, attack=attack, notes=notes, origin=origin, on_step=on_step)


def measure_vectors(
    first: Floats,
    second: Floats,
    *,
    settings: DivergenceSettings | None = None,
    attack: Estimate | None = None,
    notes: Sequence[str] = (),
    origin: Mapping[str, Json] | None = None,
    on_step: OnCount | None = None,
) -> DivergenceReport:
    """Compare two samples of vectors, `(n, d)` and `(m, d)`. Their space must not have been fitted on them.

    The `components` of the settings have no effect here. `notes` stand before the notes of every report. `origin`
    enters the signature and says where the vectors come from. The other arguments are those of `measure`. ConfigError
    for samples that cannot be used.
    """
    settings = settings or DivergenceSettings()
    # A half must still have as many neighbours as the largest order needs.
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
    count = itertools.count(1)

    def step() -> None:
        (on_step or untold)(next(count), settings.permutations + 4)

    ratios = estimators.train_ratios(first, second, settings, settings.seed)
    step()
    learned = estimators.learned_numbers(first, second, ratios, settings)
    nearest = estimators.nearest_numbers(first, second, settings)
    step()
    delta, sure, seed = settings.whole_delta(len(first), len(second)), settings.confidence, settings.seed
    certified = conversion.certify(first, second, settings.alphas, delta=delta, confidence=sure, seed=seed)
    step()
    halves = estimators.halves_of(first, second, ratios, settings)
    step()
    nulls = estimators.nulls_of(first, second, settings, step)
    separated = any(found.is_separated for found in ratios.values())
    judge = functools.partial(estimators.judge_number, confidence=sure, is_open=separated)
    values = {**learned.flat(), **nearest.flat()}
    judged = {key: judge(value, halves[key], nulls[key], is_epsilon=key[1] < 0) for key, value in values.items()}
    both = {**nearest.curves, **learned.curves}

    def curve(name: str) -> Curve:
        there, back = (tuple(map(float, way)) for way in both[name])
        larger, rises = (judged[name, i] for i in range(len(settings.alphas))), not any(map(falls, both[name]))
        return Curve(name, there, back, tuple(larger), rises, _largest(name, both[name], ratios, settings))

    curves = tuple(map(curve, findings.ESTIMATORS))
    epsilons = {name: judged[name, -1] for name in findings.WAYS}
    larger = learned.curves[findings.DEFAULT].max(axis=0).tolist()
    return DivergenceReport(
        alphas=settings.alphas,
        curves=curves,
        epsilons=epsilons,
        conversion=conversion.direct(settings.alphas, larger, delta=settings.delta),
        cheapest=conversion.cheapest_line(settings.alphas, larger, delta=settings.delta),
        paper=conversion.paper_line(settings.alphas, larger, delta=settings.delta),
        certified=certified,
        checks=_checks(ratios, epsilons, attack, sure, certified.delta),
        delta=certified.delta,
        is_separated=separated,
        records=(len(first), len(second)),
        plane=(first[:, :2].copy(), second[:, :2].copy()),
        notes=(*notes, *_notes(curves, certified, epsilons[findings.DIRECT].estimate, separated)),
        signature={
            "attack": "divergence",
            "first": len(first),
            "second": len(second),
            **(origin or {"embedder": "vectors as given", "dim": first.shape[1]}),
            **{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(settings).items()},
        },
    )


def _largest(name: str, curve: Floats, ratios: Ratios, settings: DivergenceSettings) -> tuple[float, ...]:
    """Return the share of one record in each value of the larger direction of a curve `(2, n_alphas)`."""
    is_default = name == findings.DEFAULT
    found = ratios.get(findings.MLP_RATIO if is_default else name)
    if found is None:
        return ()
    each = [way.trimmed(settings.trim if is_default else 0.0) for way in (found, found.reversed)]
    shares = np.stack([way.largest_shares(settings.alphas) for way in each])
    if is_default:  # values of the Gaussian estimator rest on no single ratio
        shares[curve > np.stack([way.divergence(settings.alphas) for way in each])] = 0.0
    return tuple(shares[curve.argmax(axis=0), np.arange(curve.shape[1])].tolist())


def _checks(
    ratios: Ratios, epsilons: Mapping[str, Tested], attack: Estimate | None, confidence: float, delta: float
) -> tuple[Consistency, ...]:
    attacks = {f"{name} on unseen records": found.accuracy(confidence) for name, found in ratios.items()}
    if attack is not None:
        attacks["the given attack"] = attack
    checks = []
    for name, accuracy in attacks.items():
        needs, surely = (accuracy_implies(right, delta=delta) for right in (accuracy.value, max(0.0, accuracy.low)))
        below = [tuple(way for way, e in epsilons.items() if e.estimate.value < needed) for needed in (needs, surely)]
        checks.append(Consistency(name, accuracy, needs, surely, below[0], below[1]))
    return tuple(checks)


def _notes(
    curves: Sequence[Curve], certified: conversion.CertifiedBound, epsilon: Estimate, is_separated: bool
) -> list[str]:
    notes = [findings.MEANING, findings.TEXT, findings.ONE_DRAW, findings.INTERVALS]
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
    for curve in curves:
        if alone := [a for a, share in zip(certified.alphas, curve.largest, strict=False) if share > _MOST]:
            notes.append(
                f"One record: from order {alone[0]:g} on most of the sum behind {curve.name} is a single record, and "
                "says nothing of the sets. A larger --trim leaves more such records out of the default curve."
            )
    default = curves[-1]
    if any(bound > found.estimate.high for bound, found in zip(certified.divergences, default.larger, strict=True)):
        notes.append("Defect: the default curve is below the certified bound: blind to what tells the sets apart.")
    if certified.epsilon > epsilon.high:
        notes.append(
            f"Defect: epsilon is certified to be at least {three_digits(certified.epsilon)}, above the estimate: do "
            "not rely on the estimate."
        )
    return notes
