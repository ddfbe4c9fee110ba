"""The black-box trial: tell two neighbouring inputs apart by outputs alone.

Runs are split in three: scores are learned on the first part, an event (a score and a threshold, one for each
direction) is chosen on the second, and only the third is counted. The bound is Clopper-Pearson's on both rates,
divided among directions and pairs (MATHS 7; DP-Sniper, Bichsel et al. 2021, chooses events in the same way).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, epsilon_ceiling, epsilon_from_rates
from dptext.audits.features import Score, learned_scores
from dptext.audits.report import Report
from dptext.audits.subjects import Outputs, Privatizer, Progress, Subject, Value, as_vector, claim_of, sample
from dptext.audits.trials.pairs import Pair, checked_pair, worst_latents, worst_pairs
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate, clopper_pearson
from dptext.mechanism import VectorNoise
from dptext.privacy import accounting
from dptext.privacy.events import NoEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.randomness import Randomness, secure
from dptext.text.records import Record
from dptext.types import Floats, Json

_FEWEST_TRIALS = 200
_THRESHOLDS = 150
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
    on_progress: Progress | None = None,
) -> Report:
    """Lower bound on epsilon from runs on two neighbouring inputs, or on the worst of several pairs.

    Args:
        subject: a mechanism, vector noise, a choice, or an adapter (see `dptext.audits.subjects`).
        first: one of two inputs, texts, records or vectors; without them `pairs`.
        second: the other one.
        pairs: neighbours to try; without them and without inputs, `worst_pairs` of the claim.
        claim: what the subject claims, which says who is a neighbour of whom; by default what it states itself, else
            epsilon infinite for documents.
        distance: of the two inputs where the claim is a multiple of a metric and the subject does not know it.
        delta: the bound is for this delta; by default the claim's.
        trials: runs on each input of each pair; half of them choose the event, the other half are counted.
        confidence: of the bound, over all pairs and directions together.
        randomness: handed to the subject; `randomness.secure()` by default.
        on_progress: called with runs done and runs in all.

    Returns:
        The report on the pair with the largest bound.

    Raises:
        ConfigError: a setting out of its range, or inputs that the subject does not take.
        IncomparableError: inputs that are no neighbours under the claim.
        MissingExtraError: scikit-learn is absent.
    """
    _validate.count(trials=trials)
    if trials < _FEWEST_TRIALS:
        raise ConfigError(f"Expected trials={trials!r} >= {_FEWEST_TRIALS}.")
    claim = claim or claim_of(subject) or unclaimed()
    chosen = chosen_pairs(subject, first, second, pairs=pairs, claim=claim, distance=distance)
    settings = _Settings(
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


def unclaimed() -> Guarantee:
    """Nothing claimed, for whole documents."""
    return accounting.guarantee([NoEvent("nothing is claimed")], unit=Unit.DOCUMENT, basis=Basis.NONE)


def chosen_pairs(
    subject: Subject,
    first: Value | None,
    second: Value | None,
    *,
    pairs: Sequence[Pair],
    claim: Guarantee,
    distance: float | None = None,
) -> list[Pair]:
    """The pairs to try, with their distances.

    Raises:
        ConfigError: one input of two, or a subject for which no pair can be proposed.
        IncomparableError: inputs that are no neighbours under the claim.
    """
    if (first is None) != (second is None) or (first is not None and pairs):
        raise ConfigError("Expected two inputs, or pairs, or neither.")
    if first is not None and second is not None:
        found = [Pair(first, second, distance=distance)]
    elif pairs:
        found = list(pairs)
    elif hasattr(subject, "dim"):
        found = worst_latents(int(subject.dim), float(getattr(subject, "clip_norm", 1.0)))
    elif isinstance(subject, Privatizer):
        found = worst_pairs(claim.unit, claim.relation, claim.reveals)
    else:
        raise ConfigError("Expected two inputs: none can be proposed for this subject.")
    if not found:
        raise IncomparableError(
            f"No neighbours are known for unit {claim.unit} and relation {claim.relation} that agree on what is "
            "revealed: give the two inputs yourself."
        )
    checked = [checked_pair(subject, pair, claim) for pair in found]
    for pair in checked:
        vectors = [value for value in (pair.first, pair.second) if not isinstance(value, str | Record)]
        if len({len(as_vector(vector)) for vector in vectors}) > 1:
            raise ConfigError("Expected two vectors of one size.")
    return checked


@dataclass(frozen=True, slots=True)
class _Settings:
    trials: int
    confidence: float
    delta: float
    tests: int
    randomness: Randomness

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Runs to learn from, to choose the event with, and to count."""
        half, quarter = self.trials // 2, self.trials // 4
        return slice(0, quarter), slice(quarter, half), slice(half, None)

    @property
    def counted(self) -> int:
        return self.trials - self.trials // 2


@dataclass(frozen=True, slots=True)
class _Outcome:
    pair: Pair
    bound: float
    event: str
    main: Estimate
    control: Estimate


def separation(first: Outputs, second: Outputs, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on the epsilon between the distributions that two samples of outputs were drawn from.

    0 unless they differ; a positive bound says that they do, with this confidence.

    Args:
        first: independent outputs, `(n, dim)` or n texts.
        second: as many of the other distribution; the longer sample is cut.
        delta: the bound is for this delta.
        confidence: of the bound.

    Raises:
        ConfigError: fewer than 200 outputs, or a setting out of its range.
    """
    trials = min(len(first), len(second))
    if trials < _FEWEST_TRIALS:
        raise ConfigError(f"Expected at least {_FEWEST_TRIALS} outputs of each distribution, found {trials}.")
    settings = _Settings(trials, confidence, delta, 2, secure())
    learn = settings.parts[0]
    first, second = first[:trials], second[:trials]
    return _events(learned_scores(first[learn], second[learn]), first, second, settings)[0]


def _try_pair(subject: Subject, pair: Pair, first: Outputs, second: Outputs, settings: _Settings) -> _Outcome:
    learn = settings.parts[0]
    scores = dict(learned_scores(first[learn], second[learn]))
    known = _likelihood_ratio(subject, pair)
    if known is not None:
        scores["likelihood ratio"] = known
    bound, event = _events(scores, first, second, settings)
    bound = pair.per_distance(bound)
    half = settings.trials // 2
    apart = replace(settings, trials=half)
    main = _accuracy(scores, first, second, settings)
    none = learned_scores(first[:half][apart.parts[0]], first[half : 2 * half][apart.parts[0]])
    if known is not None:
        none["likelihood ratio"] = known
    control = _accuracy(none, first[:half], first[half : 2 * half], apart)
    return _Outcome(pair, bound, event, main, control)


def _events(scores: Mapping[str, Score], first: Outputs, second: Outputs, settings: _Settings) -> tuple[float, str]:
    """The larger bound of both directions, with the name of its event."""
    _, choose, count = settings.parts
    bound, event = 0.0, "none"
    for direction, (one, other) in {"first": (first, second), "second": (second, first)}.items():
        sign = 1.0 if direction == "first" else -1.0
        name, threshold = _best_event(scores, one[choose], other[choose], sign, settings)
        tp = int((sign * scores[name](one[count]) > threshold).sum())
        fp = int((sign * scores[name](other[count]) > threshold).sum())
        found = _bound(tp, fp, settings.counted, settings).epsilon
        if found > bound:
            bound, event = found, f"{name}, towards the {direction}"
    return bound, event


def _likelihood_ratio(subject: Subject, pair: Pair) -> Score | None:
    if isinstance(pair.first, str | Record) or isinstance(pair.second, str | Record):
        return None
    if not isinstance(subject, VectorNoise):
        return None
    one, other, noise = as_vector(pair.first), as_vector(pair.second), subject

    def score(outputs: Outputs) -> Floats:
        released = np.asarray(outputs, np.float64)
        at_one, at_other = np.broadcast_to(one, released.shape), np.broadcast_to(other, released.shape)
        return noise.log_density(released, at_one) - noise.log_density(released, at_other)

    return score


def _bound(tp: int, fp: int, runs: int, settings: _Settings) -> EpsilonLowerBound:
    return epsilon_from_rates(
        tp,
        runs,
        false_positives=fp,
        negatives=runs,
        delta=settings.delta,
        confidence=settings.confidence,
        tests=settings.tests,
    )


def _thresholds(scores: Floats) -> Floats:
    """Thresholds worth trying: between all scores where they are few, else evenly spaced by rank, dense at the ends."""
    values = np.unique(scores)
    if len(values) > _THRESHOLDS:
        ends = np.geomspace(1, len(values) / 2, _THRESHOLDS // 2).astype(np.int64)
        values = values[np.unique(np.concatenate([ends - 1, len(values) - ends]))]
    # Half way to the next score: no later score is likely to fall on a threshold.
    return np.concatenate([[-np.inf], values[:-1] + np.diff(values) / 2, [np.inf]])


def _best_event(
    scores: Mapping[str, Score], one: Outputs, other: Outputs, sign: float, settings: _Settings
) -> tuple[str, float]:
    """The score and threshold with the largest bound on the runs meant for choosing."""
    best = (-1.0, next(iter(scores)), math.inf)
    scale = max(1, settings.counted // len(one))
    for name, score in scores.items():
        mine, theirs = np.sort(sign * score(one)), np.sort(sign * score(other))
        for threshold in _thresholds(np.concatenate([mine, theirs])).tolist():
            tp = len(mine) - int(np.searchsorted(mine, threshold, "right"))
            fp = len(theirs) - int(np.searchsorted(theirs, threshold, "right"))
            # As if the same shares were found among the runs that will be counted, which are more.
            found = _bound(tp * scale, fp * scale, len(mine) * scale, settings).epsilon
            if found > best[0]:
                best = (found, name, threshold)
    return best[1], best[2]


def _accuracy(scores: Mapping[str, Score], first: Outputs, second: Outputs, settings: _Settings) -> Estimate:
    """How often the better of the scores names the input, counted on runs that chose nothing."""
    _, choose, count = settings.parts
    best = (-1, next(iter(scores)), 0.0)
    for name, score in scores.items():
        mine, theirs = score(first[choose]), score(second[choose])
        for threshold in _thresholds(np.concatenate([mine, theirs])).tolist():
            right = int((mine > threshold).sum() + (theirs <= threshold).sum())
            if right > best[0]:
                best = (right, name, threshold)
    score = scores[best[1]]
    mine, theirs = score(first[count]), score(second[count])
    right = int((mine > best[2]).sum() + (theirs <= best[2]).sum())
    return clopper_pearson(right, len(mine) + len(theirs), confidence=settings.confidence)


def _report(outcome: _Outcome, claim: Guarantee, settings: _Settings) -> Report:
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
