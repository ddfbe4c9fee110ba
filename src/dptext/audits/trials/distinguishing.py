"""The black-box trial: tell two neighbouring inputs apart by outputs alone.

An event is learned on some runs and counted on others (`thresholds`). The bound is Clopper-Pearson's on both rates, its
error divided among directions and pairs (MATHS 7; DP-Sniper, Bichsel et al. 2021, chooses events in the same way).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dptext import _validate
from dptext.audits.bounds import epsilon_ceiling
from dptext.audits.features import Score, learned_scores
from dptext.audits.report import Report
from dptext.audits.running import sample
from dptext.audits.subjects import OnCount, Outputs, Subject, Value, as_vector, claim_of, unclaimed
from dptext.audits.trials.pairs import Pair, chosen_pairs
from dptext.audits.trials.sampler_fit import losses
from dptext.audits.trials.thresholds import FEWEST_TRIALS, TrialSettings, accuracy_of_best, best_bound
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.mechanism import VectorNoise
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.source import Randomness, secure
from dptext.text.records import Record
from dptext.types import Json

_MEASURES = "share of runs whose input is named rightly, of two equally likely ones"


def distinguish(
    subject: Subject,
    first: Value | None = None,
    second: Value | None = None,
    *,
    pairs: Sequence[Pair] = (),
    claim: Guarantee | None = None,
    distance: float | None = None,
    delta: float | None = None,
    trials: int = 20_000,
    confidence: float = 0.95,
    randomness: Randomness | None = None,
    on_progress: OnCount | None = None,
) -> Report:
    """Lower bound on epsilon from runs on two neighbouring inputs, or on the worst of several pairs.

    Args:
        subject: a mechanism, vector noise, a choice, or an adapter (see `dptext.audits.subjects`).
        first: one of two inputs: texts, records or vectors.
        second: the other one.
        pairs: neighbours to try; without them and without inputs, the worst ones that are known.
        claim: what the subject claims. It says which inputs are neighbours. The default is what the subject states
            itself, or else an infinite epsilon for documents.
        distance: of the two inputs where the claim is a multiple of a metric and the subject does not know it.
        delta: the bound is for this delta; the default is that of the claim.
        trials: runs on each input of each pair; half of them choose the event, the other half are counted.
        confidence: of the bound, over all pairs and directions together.
        randomness: handed to the subject; the default is `randomness.secure()`.
        on_progress: called with runs done and runs in all.

    Returns:
        The report on the pair with the largest bound.

    Raises:
        ConfigError: a setting out of its range, or inputs that the subject does not take.
        IncomparableError: inputs that are no neighbours under the claim.
        MissingExtraError: scikit-learn is absent.
    """
    _validate.count(trials=trials)
    if trials < FEWEST_TRIALS:
        raise ConfigError(f"Expected trials={trials!r} >= {FEWEST_TRIALS}.")
    claim = claim or claim_of(subject) or unclaimed()
    chosen = chosen_pairs(subject, first, second, pairs=pairs, claim=claim, distance=distance)
    settings = TrialSettings(
        trials, confidence, claim.delta if delta is None else delta, 2 * len(chosen), randomness or secure()
    )
    done = 0

    def advance(more: int) -> None:
        if on_progress is not None:
            on_progress(done + more, total)

    total = 2 * trials * len(chosen)
    best: _Outcome | None = None
    for pair in chosen:
        outputs = []
        for value in (pair.first, pair.second):
            outputs.append(sample(subject, value, trials, settings.randomness, position=done, on_progress=advance))
            done += trials
        if np.shape(outputs[0])[1:] != np.shape(outputs[1])[1:]:
            raise ConfigError("Expected outputs of one kind and size for both inputs.")
        outcome = _try_pair(subject, pair, outputs[0], outputs[1], settings)
        if best is None or outcome.bound > best.bound:
            best = outcome
    assert best is not None  # noqa: S101  # chosen_pairs never gives none
    return _report(best, claim, settings)


@dataclass(frozen=True, slots=True)
class _Outcome:
    pair: Pair
    bound: float
    event: str
    main: Estimate
    control: Estimate


def _try_pair(subject: Subject, pair: Pair, first: Outputs, second: Outputs, settings: TrialSettings) -> _Outcome:
    learn = settings.parts[0]
    scores = dict(learned_scores(first[learn], second[learn]))
    known = _likelihood_ratio(subject, pair)
    if known is not None:
        scores["likelihood ratio"] = known
    bound, event = best_bound(scores, first, second, settings)
    bound = pair.per_distance(bound)
    half = settings.trials // 2
    apart = replace(settings, trials=half)
    main = accuracy_of_best(scores, first, second, settings)
    none = learned_scores(first[:half][apart.parts[0]], first[half : 2 * half][apart.parts[0]])
    if known is not None:
        none["likelihood ratio"] = known
    control = accuracy_of_best(none, first[:half], first[half : 2 * half], apart)
    return _Outcome(pair, bound, event, main, control)


def _likelihood_ratio(subject: Subject, pair: Pair) -> Score | None:
    """The log ratio of the declared densities; None where no density of the two inputs is declared."""
    if isinstance(pair.first, str | Record) or isinstance(pair.second, str | Record):
        return None
    if not isinstance(subject, VectorNoise):
        return None
    one, other, noise = as_vector(pair.first), as_vector(pair.second), subject
    return lambda outputs: losses(noise, np.asarray(outputs, np.float64), one, other)


def _report(outcome: _Outcome, claim: Guarantee, settings: TrialSettings) -> Report:
    ceiling = epsilon_ceiling(
        settings.counted, delta=settings.delta, confidence=settings.confidence, tests=settings.tests
    )
    distance = outcome.pair.gap
    signature: dict[str, Json] = {
        "pair": outcome.pair.name,
        "pairs": settings.tests // 2,
        "event": outcome.event,
        "trials": settings.trials,
        "counted": settings.counted,
        "confidence": settings.confidence,
        "delta": settings.delta,
        "distance": distance,
        "randomness": settings.randomness.fingerprint[:12],
    }
    return Report(
        attack="distinguish",
        main=outcome.main,
        baseline=Estimate(0.5, 0.5, 0.5, settings.confidence),
        control=outcome.control,
        measures=_MEASURES,
        epsilon_lower_bound=outcome.bound,
        delta=settings.delta,
        confidence=settings.confidence,
        ceiling=ceiling / distance if distance > 0 else math.inf,
        unit=claim.unit,
        relation=claim.relation,
        metric=claim.metric,
        reveals=claim.reveals,
        signature=signature,
    )
