"""The white-box trial: read the privacy loss off the declared density, and check that the sampler keeps to it.

A density shows what counting cannot show at large epsilon (MATHS 7). A million runs can count up to epsilon 12.5; the
classical Gaussian of nominal epsilon 50 has delta .586 at epsilon 50.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.audits.report import Report
from dptext.audits.running import sample
from dptext.audits.subjects import OnCount, Subject, Value, as_record, as_vector, claim_of, unclaimed
from dptext.audits.trials.pairs import Pair, chosen_pairs
from dptext.audits.trials.sampler_fit import SIGNIFICANT, density_p_value, losses
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni
from dptext.mechanism import HasLatent, VectorNoise
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.source import Randomness, secure
from dptext.text.records import Record
from dptext.types import Floats

#: Losses are lowered by this share of 1 + their size: so much may the floats of two log densities err.
_FLOAT_LOSS = 1e-9
_FEWEST_TRIALS = 200
_FIT_RUNS = 20_000
_ENTRIES_AT_ONCE = 1 << 21
_LARGEST_EPSILON = 1e6


def whitebox(
    subject: Subject,
    first: Value | None = None,
    second: Value | None = None,
    *,
    pairs: Sequence[Pair] = (),
    claim: Guarantee | None = None,
    distance: float | None = None,
    delta: float | None = None,
    trials: int = 100_000,
    confidence: float = 0.95,
    randomness: Randomness | None = None,
    on_progress: OnCount | None = None,
) -> Report:
    """Lower bound on epsilon by Monte Carlo of delta(epsilon) = E[(1 - e^(epsilon - L))_+] under the declared density.

    L is the loss of a release drawn on one input of a pair. The mean of numbers in [0, 1] is bounded by Hoeffding's
    inequality in its sharp form (Hoeffding 1963, theorem 1; through the Kullback-Leibler divergence). That bound is
    monotone in epsilon, so the search for epsilon needs no correction. At delta = 0 a single release with a loss above
    epsilon is enough: the largest loss seen is the bound.

    A sampler that does not draw from the declared density is a defect. A defect refutes any claim.

    Args:
        subject: vector noise with `log_density`, or a mechanism with latents (`HasLatent`).
        first: one of two inputs: texts, records or vectors.
        second: the other one.
        pairs: neighbours to try; without them and without inputs, the worst ones that are known.
        claim: what the subject claims; the default is what it states itself.
        distance: of the two inputs where the claim is a multiple of a metric and the subject does not know it.
        delta: the bound is for this delta; the default is that of the claim.
        trials: releases from each input of each pair.
        confidence: of the bound, over all pairs and directions together.
        randomness: handed to the subject; the default is `randomness.secure()`.
        on_progress: called with releases done and releases in all.

    Raises:
        ConfigError: the subject declares no density, or a setting is out of its range.
        IncomparableError: inputs that are no neighbours under the claim.
    """
    _validate.count(trials=trials)
    if trials < _FEWEST_TRIALS:
        raise ConfigError(f"Expected trials={trials!r} >= {_FEWEST_TRIALS}.")
    if not isinstance(subject, VectorNoise):
        raise ConfigError("Expected a subject with release and log_density: only a declared density can be read.")
    claim = claim or claim_of(subject) or unclaimed()
    chosen = chosen_pairs(subject, first, second, pairs=pairs, claim=claim, distance=distance)
    delta = claim.delta if delta is None else delta
    _validate.probability(delta=delta)
    randomness = randomness or secure()
    alpha = bonferroni(confidence, 2 * len(chosen))
    total, done = 2 * trials * len(chosen), 0
    best: _Finding | None = None
    for pair in chosen:
        one, other = _latents(subject, pair)
        for start, end in ((one, other), (other, one)):
            found = _sampled_losses(subject, start, end, trials, randomness, position=done)
            done += trials
            finding = _finding(found, pair, claim, delta=delta, alpha=alpha)
            if best is None or finding.bound > best.bound:
                best = finding
            if on_progress is not None:
                on_progress(done, total)
    assert best is not None  # noqa: S101  # chosen_pairs never gives none
    one, other = _latents(subject, best.pair)
    runs = min(_FIT_RUNS, max(_FEWEST_TRIALS, trials // 2))
    p_value = density_p_value(subject, one, other, runs=runs, randomness=randomness.at(done))
    return _report(best, claim, delta, confidence, trials, len(chosen), p_value, randomness)


def _sampled_losses(
    subject: VectorNoise, start: Floats, end: Floats, trials: int, randomness: Randomness, *, position: int
) -> Floats:
    """Losses of releases from `start`, lowered by what floats may err. The releases are not kept."""
    block = max(_FEWEST_TRIALS, _ENTRIES_AT_ONCE // len(start))
    parts = []
    for offset in range(0, trials, block):
        runs = min(block, trials - offset)
        released = np.asarray(sample(subject, start, runs, randomness, position=position + offset), np.float64)
        parts.append(losses(subject, released, start, end))
    found = np.concatenate(parts)
    found -= _FLOAT_LOSS * (1 + np.abs(found))
    return found


def _latents(subject: VectorNoise, pair: Pair) -> tuple[Floats, Floats]:
    if not isinstance(pair.first, str | Record) and not isinstance(pair.second, str | Record):
        return as_vector(pair.first), as_vector(pair.second)
    if not isinstance(subject, HasLatent):
        raise ConfigError("Expected vectors as inputs: the subject has no latents of texts.")
    first, second = subject.latent([as_record(pair.first), as_record(pair.second)])
    return first, second


@dataclass(frozen=True, slots=True)
class _Finding:
    pair: Pair
    bound: float
    at_claim: Estimate


def _finding(found: Floats, pair: Pair, claim: Guarantee, *, delta: float, alpha: float) -> _Finding:
    claimed = 0.0 if claim.basis is Basis.NONE else claim.epsilon * pair.gap
    bound = max(0.0, float(found.max())) if delta == 0 else _largest_refuted(found, delta, alpha)
    return _Finding(pair, pair.per_distance(bound), _delta_at(found, claimed, alpha))


def _excess(found: Floats, epsilon: float) -> float:
    """The Monte Carlo estimate of delta(epsilon)."""
    return abs(float(np.expm1(np.minimum(epsilon - found, 0.0)).mean()))


def _delta_at(found: Floats, epsilon: float, alpha: float) -> Estimate:
    mean = _excess(found, epsilon)
    low = _lower_mean(mean, len(found), alpha)
    high = 1 - _lower_mean(1 - mean, len(found), alpha)
    return Estimate(mean, min(low, mean), max(high, mean), 1 - 2 * alpha)


def _largest_refuted(found: Floats, delta: float, alpha: float) -> float:
    """The largest epsilon whose delta(epsilon) is certainly above delta; 0 where none is."""
    if _lower_mean(_excess(found, 0.0), len(found), alpha) <= delta:
        return 0.0
    low, high = 0.0, min(float(found.max()), _LARGEST_EPSILON)
    for _ in range(60):
        middle = (low + high) / 2
        if _lower_mean(_excess(found, middle), len(found), alpha) > delta:
            low = middle
        else:
            high = middle
    return low


def _lower_mean(mean: float, runs: int, alpha: float) -> float:
    """The smallest mean m with KL(mean || m) <= ln(1 / alpha) / runs: Hoeffding's bound for variables in [0, 1]."""
    if mean <= 0:
        return 0.0
    budget = math.log(1 / alpha) / runs
    low, high = 0.0, min(mean, 1.0)
    for _ in range(100):
        middle = (low + high) / 2
        if _divergence(min(mean, 1.0), middle) > budget:
            low = middle
        else:
            high = middle
    return low * (1 - 1e-12)


def _divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence of two coins, in nats."""
    if q <= 0:
        return math.inf
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0)


def _report(
    best: _Finding,
    claim: Guarantee,
    delta: float,
    confidence: float,
    trials: int,
    n_pairs: int,
    p_value: float,
    randomness: Randomness,
) -> Report:
    at = "0" if claim.basis is Basis.NONE else f"{claim.epsilon:.6g}" + (" x distance" if claim.metric else "")
    defects = (
        (f"the sampler does not draw from the density it declares (p = {p_value:.2g})",)
        if p_value < SIGNIFICANT
        else ()
    )
    return Report(
        attack="whitebox",
        main=best.at_claim,
        baseline=Estimate(claim.delta, claim.delta, claim.delta, confidence),
        control=Estimate(p_value, p_value, p_value, confidence),
        measures=f"delta at epsilon {at}; beside the delta allowed; control: p-value of the declared density",
        epsilon_lower_bound=best.bound,
        delta=delta,
        confidence=confidence,
        ceiling=math.inf,
        unit=claim.unit,
        relation=claim.relation,
        metric=claim.metric,
        reveals=claim.reveals,
        signature={
            "pair": best.pair.name,
            "pairs": n_pairs,
            "trials": trials,
            "confidence": confidence,
            "delta": delta,
            "distance": best.pair.gap,
            "randomness": randomness.fingerprint[:12],
        },
        defects=defects,
    )
