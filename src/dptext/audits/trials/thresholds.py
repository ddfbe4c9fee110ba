"""An event that tells two samples of outputs apart: chosen on some runs, counted on others.

An event is a score and a threshold. Runs are split in three: scores are learned on the first part, an event for each
direction is chosen on the second, and only the third is counted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dptext.audits.bounds import epsilon_from_rates
from dptext.audits.features import Score, learned_scores, spread_thresholds
from dptext.audits.subjects import Outputs
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.types import Floats

#: Fewer runs than this can show nothing.
FEWEST_TRIALS = 200


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """How outputs of two inputs are compared.

    Attributes:
        trials: runs on each input.
        tests: pairs times directions, among which the error of `confidence` is divided.
    """

    trials: int
    confidence: float
    delta: float
    tests: int

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Runs to learn from, to choose the event with, and to count."""
        half, quarter = self.trials // 2, self.trials // 4
        return slice(0, quarter), slice(quarter, half), slice(half, None)

    @property
    def counted(self) -> int:
        """Runs on each input in the last part."""
        return self.trials - self.trials // 2


def separation(first: Outputs, second: Outputs, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on the epsilon between the two distributions that the samples were drawn from.

    It is 0 where the samples do not tell the distributions apart. A positive bound says, with this confidence, that
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
    """The larger bound of both directions, with the name of its event."""
    _, choose, count = settings.parts
    bound, event = 0.0, "none"
    for direction, (one, other) in {"first": (first, second), "second": (second, first)}.items():
        sign = 1.0 if direction == "first" else -1.0
        name, threshold = _best_event(scores, one[choose], other[choose], sign, settings)
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
    """Thresholds half way between neighbouring scores, so that no later score is likely to fall on one."""
    values = spread_thresholds(scores)
    return np.concatenate([[-np.inf], values[:-1] + np.diff(values) / 2, [np.inf]])


def _best_event(
    scores: Mapping[str, Score], one: Outputs, other: Outputs, sign: float, settings: TrialSettings
) -> tuple[str, float]:
    """The score and the threshold with the largest bound on the runs that are meant for choosing."""
    best = (-1.0, next(iter(scores)), math.inf)
    scale = max(1, settings.counted // len(one))
    for name, score in scores.items():
        mine, theirs = np.sort(sign * score(one)), np.sort(sign * score(other))
        for threshold in _thresholds(np.concatenate([mine, theirs])).tolist():
            tp = len(mine) - int(np.searchsorted(mine, threshold, "right"))
            fp = len(theirs) - int(np.searchsorted(theirs, threshold, "right"))
            # The bound that the same shares would give among the runs that will be counted, which are more.
            found = _bound(tp * scale, fp * scale, len(mine) * scale, settings)
            if found > best[0]:
                best = (found, name, threshold)
    return best[1], best[2]


def accuracy_of_best(scores: Mapping[str, Score], first: Outputs, second: Outputs, settings: TrialSettings) -> Estimate:
    """How often the best of the scores names the input, counted on runs that chose nothing."""
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
