"""The black-box trial: tell two neighbouring inputs apart by outputs alone.

An event, which is a score and a threshold, is learned on some runs and counted on others. Runs are split in three:
scores are learned on the first part, an event for each direction is chosen on the second, and only the third is
counted. The bound is Clopper-Pearson's on both rates, with the error divided among directions and pairs (derivations,
"Two rates"; DP-Sniper, Bichsel et al. 2021, chooses events in the same way).
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dptext import _validate
from dptext.audits.bounds import epsilon_ceiling, epsilon_from_rates
from dptext.audits.features import Score, learned_scores, spread_thresholds
from dptext.audits.report import Report, exactly
from dptext.audits.subjects import OnCount, Outputs, Subject, Value, as_vector, sample, untold
from dptext.audits.trials.density import losses
from dptext.audits.trials.pairs import Pair, Trial
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.mechanism import VectorNoise
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record
from dptext.types import Floats

#: Fewer runs than this can show nothing.
FEWEST_TRIALS = 200


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """Settings of a comparison of outputs of two inputs, with `trials` runs on each input.

    The error of `confidence` is divided among `tests`: pairs times directions.
    """

    trials: int
    confidence: float
    delta: float
    tests: int

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """The runs to learn from, to choose the event on, and to count."""
        half, quarter = self.trials // 2, self.trials // 4
        return slice(0, quarter), slice(quarter, half), slice(half, None)

    @property
    def counted(self) -> int:
        """The number of counted runs on each input."""
        return self.trials - self.trials // 2


def separation(first: Outputs, second: Outputs, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Return a lower bound on the epsilon between the two distributions that the samples were drawn from.

    The bound is 0 if the samples do not tell the distributions apart. A positive bound says, with this confidence, that
    they differ. The outputs are independent, `(n, dim)` or n texts; the longer sample is cut. ConfigError for fewer
    than 200.
    """
    trials = min(len(first), len(second))
    if trials < FEWEST_TRIALS:
        raise ConfigError(f"Expected at least {FEWEST_TRIALS} outputs of each distribution, found {trials}.")
    settings = TrialSettings(trials, confidence, delta, 2)
    learn = settings.parts[0]
    first, second = first[:trials], second[:trials]
    return best_bound(learned_scores(first[learn], second[learn]), first, second, settings)[0]


def best_bound(
    scores: Mapping[str, Score], first: Outputs, second: Outputs, settings: TrialSettings
) -> tuple[float, str]:
    """Return the larger bound of both directions, with the name of its event."""
    _, choose, count = settings.parts
    bound, event = 0.0, "none"
    chosen = len(first[choose])
    scale = max(1, settings.counted // chosen)

    def worth(tp: int, fp: int) -> float:
        """Return the bound that the same shares would give among the counted runs, which are more."""
        return _bound(tp * scale, fp * scale, chosen * scale, settings)

    for direction, (one, other) in {"first": (first, second), "second": (second, first)}.items():
        sign = 1.0 if direction == "first" else -1.0
        name, threshold = _best_event(scores, one[choose], other[choose], sign, worth)
        tp = int((sign * scores[name](one[count]) > threshold).sum())
        fp = int((sign * scores[name](other[count]) > threshold).sum())
        found = _bound(tp, fp, settings.counted, settings)
        if found > bound:
            bound, event = found, f"{name}, towards the {direction}"
    return bound, event


def _bound(tp: int, fp: int, runs: int, settings: TrialSettings) -> float:
    given = {"delta": settings.delta, "confidence": settings.confidence}
    return epsilon_from_rates(tp, runs, false_positives=fp, negatives=runs, tests=settings.tests, **given).epsilon


def _thresholds(scores: Floats) -> Floats:
    """Return thresholds half way between neighbouring scores, so that no later score is likely to equal one."""
    values = spread_thresholds(scores)
    return np.concatenate([[-np.inf], values[:-1] + np.diff(values) / 2, [np.inf]])


def _best_event(
    scores: Mapping[str, Score], one: Outputs, other: Outputs, sign: float, worth: Callable[[int, int], float]
) -> tuple[str, float]:
    """Return the score and the threshold of the largest `worth`, by the numbers of outputs above it."""
    best = (-math.inf, next(iter(scores)), math.inf)
    for name, score in scores.items():
        mine, theirs = np.sort(sign * score(one)), np.sort(sign * score(other))
        for threshold in _thresholds(np.concatenate([mine, theirs])).tolist():
            tp = len(mine) - int(np.searchsorted(mine, threshold, "right"))
            fp = len(theirs) - int(np.searchsorted(theirs, threshold, "right"))
            if (found := worth(tp, fp)) > best[0]:
                best = (found, name, threshold)
    return best[1], best[2]


def accuracy_of_best(scores: Mapping[str, Score], first: Outputs, second: Outputs, settings: TrialSettings) -> Estimate:
    """Return how often the best score names the input, counted on runs that chose nothing."""
    _, choose, count = settings.parts
    name, threshold = _best_event(scores, first[choose], second[choose], 1.0, operator.sub)
    mine, theirs = scores[name](first[count]), scores[name](second[count])
    right = int((mine > threshold).sum() + (theirs <= threshold).sum())
    return clopper_pearson(right, len(mine) + len(theirs), confidence=settings.confidence)


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
    """Return a lower bound on epsilon from runs on two neighbouring inputs, or on the worst of several pairs.

    The subject is a mechanism, vector noise, a choice, or an adapter (see `dptext.audits.subjects`). The two inputs are
    texts, records or vectors; `pairs` are neighbours to try, by default the worst known pairs. `claim` says which
    inputs are neighbours; the default is the subject's own claim, or else an infinite epsilon for documents. `distance`
    is between the two inputs, for a claim that is a multiple of a metric that the subject does not compute. The bound
    is for `delta`, by default the claim's. Each input of each pair gets `trials` runs: half choose the event, the
    others are counted. The confidence holds over all pairs and directions together. `randomness`, `randomness.secure()`
    by default, is handed to the subject. `on_progress` is called with the number of runs done and the number in all.
    The report is on the pair with the largest bound. ConfigError: a setting out of its range, or inputs that the
    subject does not take. IncomparableError: inputs that are no neighbours under the claim.
    """
    _validate.count(trials=trials)
    if trials < FEWEST_TRIALS:
        raise ConfigError(f"Expected trials={trials!r} >= {FEWEST_TRIALS}.")
    trial = Trial.of(subject, first, second, pairs, claim, distance, delta, trials, randomness)
    settings = TrialSettings(trials, confidence, trial.delta, 2 * len(trial.pairs))
    done = 0

    def advance(more: int) -> None:
        (on_progress or untold)(done + more, trial.runs)

    found: list[tuple[float, Pair, str, tuple[Estimate, Estimate, Estimate]]] = []
    for pair in trial.pairs:
        outputs = []
        for value in (pair.first, pair.second):
            outputs.append(sample(subject, value, trials, trial.randomness, position=done, on_progress=advance))
            done += trials
        if np.shape(outputs[0])[1:] != np.shape(outputs[1])[1:]:
            raise ConfigError("Expected outputs of one kind and size for both inputs.")
        runs, known = outputs[0], _likelihood_ratio(subject, pair)
        scores = _scores(outputs[0], outputs[1], settings, known)
        bound, event = best_bound(scores, outputs[0], outputs[1], settings)
        main = accuracy_of_best(scores, outputs[0], outputs[1], settings)
        half = trials // 2  # both halves come from one input, so there is nothing to find
        apart, one, other = replace(settings, trials=half), runs[:half], runs[half : 2 * half]
        control = accuracy_of_best(_scores(one, other, apart, known), one, other, apart)
        found.append((pair.per_distance(bound), pair, event, (main, exactly(0.5, confidence), control)))
    bound, pair, event, numbers = max(found, key=lambda each: each[0])
    ceiling = epsilon_ceiling(settings.counted, delta=trial.delta, confidence=confidence, tests=settings.tests)
    return trial.report(
        pair,
        bound,
        attack="distinguish",
        measures="share of runs whose input is named rightly, of two equally likely ones",
        numbers=numbers,
        confidence=confidence,
        ceiling=ceiling / pair.gap if pair.gap > 0 else math.inf,
        settings={"event": event, "trials": trials, "counted": settings.counted, "confidence": confidence},
    )


def _scores(first: Outputs, second: Outputs, settings: TrialSettings, known: Score | None) -> dict[str, Score]:
    learn = settings.parts[0]
    found = learned_scores(first[learn], second[learn])
    return found if known is None else {**found, "likelihood ratio": known}


def _likelihood_ratio(subject: Subject, pair: Pair) -> Score | None:
    """Return the log ratio of the declared densities; None where no density of the two inputs is declared."""
    inputs = [value for value in (pair.first, pair.second) if not isinstance(value, str | Record)]
    if len(inputs) < 2 or not isinstance(subject, VectorNoise):
        return None
    one, other = map(as_vector, inputs)
    return lambda outputs: losses(subject, np.asarray(outputs, np.float64), one, other)
