"""The exact trial: if all outputs can be listed, epsilon and delta of two inputs are sums, not estimates."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.report import Report, exactly
from dptext.audits.subjects import METHODS, Chooser, OnCount, Subject, Value, as_record, as_vector, sample, untold
from dptext.audits.trials.density import distribution_p_value, sampler_defects
from dptext.audits.trials.pairs import Pair, Trial
from dptext.errors import ConfigError
from dptext.mechanism import HasDistribution
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.randomness import Randomness
from dptext.types import Floats

_UNLISTED: Final = (
    "outputs were drawn that the distribution does not list: it names an output as dptext.mechanism.seen does, by "
    "label, text and vector"
)
#: The largest relative float error of a probability: bounds are lowered by this share.
_FLOAT_SLACK = 1e-11


def exact_delta(first: Floats, second: Floats, epsilon: float) -> float:
    """max over both directions of sum (p - e^epsilon q)_+; ConfigError unless both are distributions `(outputs,)`."""
    p, q = _checked(first, second)
    _validate.not_negative(epsilon=epsilon)
    factor = math.exp(-epsilon)  # e^-epsilon p - q, times e^epsilon, would overflow
    return max(
        float(np.maximum(one - other / factor, 0.0).sum()) if factor > 0 else float(one[other == 0].sum())
        for one, other in ((p, q), (q, p))
    )


def exact_epsilon(first: Floats, second: Floats, delta: float = 0.0) -> float:
    """The smallest epsilon with `exact_delta` <= delta, infinite if there is none; ConfigError as `exact_delta`."""
    p, q = _checked(first, second)
    _validate.probability(delta=delta)
    return max(_one_way(p, q, delta), _one_way(q, p, delta))


def _one_way(p: Floats, q: Floats, delta: float) -> float:
    """Return the smallest epsilon >= 0 with sum (p - e^epsilon q)_+ <= delta."""
    possible = p > 0
    p, q = p[possible], q[possible]
    with np.errstate(divide="ignore"):
        ratio = np.log(p) - np.log(q)
    order = np.argsort(-ratio)
    ratio, p, q = ratio[order], p[order], q[order]
    if delta == 0:
        return max(0.0, float(ratio[0]))
    # If the k largest ratios are above epsilon the sum is linear in e^epsilon: find the k whose solution fits.
    mass, others = np.cumsum(p), np.cumsum(q)
    if mass[-1] <= delta:
        return 0.0
    next_ratio = np.append(ratio[1:], -math.inf)
    for k in np.flatnonzero(mass > delta).tolist():
        if others[k] == 0:
            if k == len(p) - 1 or math.isinf(next_ratio[k]):
                continue
            return math.inf
        solution = math.log((mass[k] - delta) / others[k])
        if solution >= next_ratio[k]:
            return max(0.0, float(min(solution, ratio[k])))
    return math.inf


def _checked(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    p, q = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if p.ndim != 1 or p.shape != q.shape or not len(p):
        raise ConfigError(f"Expected two distributions over the same outputs, found shapes {p.shape} and {q.shape}.")
    for values in (p, q):
        if not np.isfinite(values).all() or values.min() < 0 or abs(values.sum() - 1) > 1e-6:
            raise ConfigError("Expected probabilities of at least 0 that sum to 1.")
    return p, q


def exact(
    subject: Subject,
    first: Value | None = None,
    second: Value | None = None,
    *,
    pairs: Sequence[Pair] = (),
    claim: Guarantee | None = None,
    distance: float | None = None,
    delta: float | None = None,
    trials: int = 20_000,
    randomness: Randomness | None = None,
    on_progress: OnCount | None = None,
) -> Report:
    """Return the exact epsilon of two neighbouring inputs by enumeration, and test the sampler's distribution.

    The arguments and errors are those of `distinguish`. The subject is a mechanism with `output_distribution`, or a
    choice with `distribution`; ConfigError if outputs cannot be enumerated. The inputs of a choice are scores; the
    caller ensures that they differ by no more than its sensitivity. The `trials` are for the test of the sampler; the
    bound needs none.
    """
    _validate.count(trials=trials)
    trial = Trial.of(subject, first, second, pairs, claim, distance, delta, trials, randomness)
    if first is None and not pairs:
        trial = replace(trial, pairs=[pair for pair in trial.pairs if enumerable(subject, pair)])
    if not trial.pairs:
        raise ConfigError("Expected outputs that can be enumerated: give two short inputs, or set a small n_words.")
    done = 0
    found: list[tuple[float, Pair, float]] = []
    smallest_p, listed = 1.0, True
    # Sums of floats may exceed a delta that is just attained, and then no epsilon would hold. So delta is raised
    # slightly.
    above = min(1.0, trial.delta * (1 + _FLOAT_SLACK))
    for pair in trial.pairs:
        distributions = [_distribution(subject, value) for value in (pair.first, pair.second)]
        outputs = sorted(set(distributions[0]) | set(distributions[1]))
        p, q = (np.array([declared.get(output, 0.0) for output in outputs]) for declared in distributions)
        bound = pair.per_distance(max(0.0, exact_epsilon(p, q, above) * (1 - _FLOAT_SLACK) - _FLOAT_SLACK))
        found.append((bound, pair, min(1.0, exact_delta(p, q, trial.claimed(pair)))))
        for value, declared in zip((pair.first, pair.second), distributions, strict=True):
            released = sample(subject, value, trials, trial.randomness, position=done)
            keys = [str(int(row[0])) for row in released] if isinstance(released, np.ndarray) else released
            smallest_p = min(smallest_p, distribution_p_value(declared, keys))
            listed = listed and declared.keys() >= set(keys)
            done += trials
            (on_progress or untold)(done, trial.runs)
    bound, pair, at_claim = max(found, key=lambda each: each[0])
    p_value = min(1.0, smallest_p * 2 * len(trial.pairs))
    return trial.report(
        pair,
        bound,
        attack="exact",
        measures=trial.measures("distribution"),
        numbers=(exactly(at_claim, 0.95), exactly(trial.claim.delta, 0.95), exactly(p_value, 0.95)),
        confidence=1.0,
        settings={"trials": trials},
        defects=sampler_defects("distribution", p_value) if listed else (_UNLISTED,),
    )


def enumerable(subject: Subject, pair: Pair) -> bool:
    """Return whether the outputs of both inputs can be listed."""
    if not isinstance(subject, HasDistribution):
        return True
    try:
        for value in (pair.first, pair.second):
            subject.output_distribution(as_record(value))
    except ConfigError:
        return False
    return True


def _distribution(subject: Subject, value: Value) -> dict[str, float]:
    if isinstance(subject, HasDistribution):
        return dict(subject.output_distribution(as_record(value)))
    if isinstance(subject, Chooser):
        return {str(i): float(p) for i, p in enumerate(subject.distribution(as_vector(value)[None])[0])}
    raise ConfigError(
        "Expected a subject with output_distribution, or a choice with distribution: outputs to list. The audit "
        f"distinguish needs neither.{METHODS}"
    )
