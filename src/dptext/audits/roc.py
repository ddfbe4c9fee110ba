"""Separation of two samples by a score: AUC, true positives at few false positives, and the epsilon that they show.

Scores are higher for likelier members. Plus and minus infinity are scores too. This module counts scores and knows
nothing of models or texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, epsilon_from_rates
from dptext.audits.features import spread_thresholds
from dptext.audits.report import Result
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.sampling.bootstrap import allowing_unseen
from dptext.types import Floats, Positions

#: False positive rates at which Carlini et al. 2022 report true positives.
RATES: Final = (0.001, 0.01)
#: Where curves are drawn: false positive rates from 0.1% to 1, evenly spaced on a log scale.
FPR_GRID: Final = tuple(float(rate) for rate in np.geomspace(1e-3, 1.0, 61))

_DRAWS_AT_ONCE: Final = 1 << 21


@dataclass(frozen=True, slots=True)
class TruePositives(Result):
    """Members found by the lowest threshold that accuses at most a share `fpr` of the non-members.

    `tpr` is the share of the members above the threshold, with an exact interval for this fixed threshold.
    `false_positives` is the number of non-members above the threshold.
    """

    fpr: float
    tpr: Estimate
    false_positives: int
    non_members: int

    ALSO = ("is_resolved",)

    @property
    def is_resolved(self) -> bool:
        """Return whether the rate allows at least one false positive. If not, `tpr` is the share found without any."""
        return _allowed(self.fpr, self.non_members) >= 1

    def __str__(self) -> str:
        few = "" if self.is_resolved else f" (of {self.non_members:,} non-members none may be accused: too few)"
        return f"TPR {self.tpr} at FPR {100 * self.fpr:g}%{few}"


@dataclass(frozen=True, slots=True)
class Roc(Result):
    """True positive rates `tpr` at false positive rates of at most `fpr`, both rising."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.fpr or len(self.fpr) != len(self.tpr):
            raise ConfigError(f"Expected as many fpr as tpr, found {len(self.fpr)} and {len(self.tpr)}.")


@dataclass(frozen=True, slots=True)
class Attack(Result):
    """The success of one score at telling members from non-members.

    `auc` has an interval by bootstrap over records. `tprs` are true positive rates at 0.1% and 1% false positives,
    `roc` those at 0.1% to 100%, for `dptext.audits.figures.roc_figure`.
    """

    name: str
    auc: Estimate
    tprs: tuple[TruePositives, ...]
    roc: Roc

    def __str__(self) -> str:
        return "; ".join([f"AUC {self.auc}", *map(str, self.tprs)])


def check_scores(name: str, scores: Floats) -> Floats:
    """Return the scores `(n,)` as floats; ConfigError for no scores, another shape, or NaN."""
    checked = np.asarray(scores, np.float64)
    if checked.ndim != 1 or len(checked) == 0 or np.isnan(checked).any():
        raise ConfigError(f"Expected {name} scores of shape (n,) without NaN, n >= 1, found shape {checked.shape}.")
    return checked


def area(members: Floats, non_members: Floats) -> float:
    """Return the AUC: the chance that a random member scores higher than a random non-member, ties as one half."""
    high, low, width = _places(members, non_members)
    return float(_areas(np.bincount(high, minlength=width)[None], np.bincount(low, minlength=width)[None])[0])


def area_interval(
    members: Floats, non_members: Floats, *, seed: int, resamples: int = 1000, confidence: float = 0.95
) -> Estimate:
    """Return the AUC with its percentile bootstrap interval. Members and non-members are drawn separately.

    As in `dptext.sampling.bootstrap` the interval is right only in the limit of many records, its ends are rounded
    outwards, and it is widened to hold the value, and further if either sample is small, or if scores separate all
    records or are all equal. No refutation may rest on the interval. ConfigError for too few resamples for the
    confidence.
    """
    _validate.count(resamples=resamples)
    rank = math.floor(bonferroni(confidence, 2) * (resamples + 1))
    if rank < 1:
        raise ConfigError(f"Expected resamples={resamples!r} to be more for confidence={confidence!r}.")
    value, (high, low, width) = area(members, non_members), _places(members, non_members)
    rng, drawn = np.random.default_rng(seed), np.empty(resamples)
    step = max(1, _DRAWS_AT_ONCE // (len(high) + len(low)))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn[start : start + rows] = _areas(_drawn(high, rows, width, rng), _drawn(low, rows, width, rng))
    drawn.sort()
    found = Estimate(value, min(value, float(drawn[rank - 1])), max(value, float(drawn[-rank])), confidence)
    return allowing_unseen(found, min(len(high), len(low)), (0.0, 1.0))


def _places(members: Floats, non_members: Floats) -> tuple[Positions, Positions, int]:
    """Return the rank of each score among the distinct scores, and their number; ConfigError as `check_scores`."""
    members, non_members = check_scores("member", members), check_scores("non-member", non_members)
    distinct, places = np.unique(np.concatenate([members, non_members]), return_inverse=True)
    return places[: len(members)], places[len(members) :], len(distinct)


def _drawn(places: Positions, rows: int, width: int, rng: np.random.Generator) -> Positions:
    """Return counts `(rows, width)` of the ranks in `rows` resamples."""
    picked = places[rng.integers(0, len(places), size=(rows, len(places)))]
    picked += width * np.arange(rows)[:, None]
    return np.bincount(picked.ravel(), minlength=rows * width).reshape(rows, width)


def _areas(high: Positions, low: Positions) -> Floats:
    """Return the AUC of each row of counts, `(rows, distinct scores)`."""
    # Twice the pairs in which the member wins, plus the ties: these are integers, so only the division rounds.
    twice = (high * (2 * np.cumsum(low, axis=1) - low)).sum(axis=1)
    return np.asarray(twice / (2.0 * high.sum(axis=1) * low.sum(axis=1)))


def true_positives_at(members: Floats, non_members: Floats, fpr: float, *, confidence: float = 0.95) -> TruePositives:
    """Return the share of members that score above all but a share `fpr` of non-members (Carlini et al. 2022).

    Ties with the last non-member that may not be accused count against the attacker. The interval is Clopper-Pearson's
    for the threshold as found. It does not include the chance in finding the threshold on these non-members.
    """
    _validate.probability(fpr=fpr)
    members, non_members = _sorted(members, non_members)
    found, false = _above(members, non_members, fpr)
    return TruePositives(fpr, clopper_pearson(found, len(members), confidence=confidence), false, len(non_members))


def curve(members: Floats, non_members: Floats, rates: Sequence[float] = FPR_GRID) -> Roc:
    """Return the true positive rate at each false positive rate, by the rule of `true_positives_at`."""
    members, non_members = _sorted(members, non_members)
    return Roc(tuple(rates), tuple(_above(members, non_members, rate)[0] / len(members) for rate in rates))


def attack(name: str, members: Floats, non_members: Floats, *, seed: int, resamples: int, confidence: float) -> Attack:
    """Return AUC, true positives and curve of a score; ConfigError for no scores, or NaN."""
    members, others = check_scores(f"{name}, member", members), check_scores(f"{name}, non-member", non_members)
    auc = area_interval(members, others, seed=seed, resamples=resamples, confidence=confidence)
    tprs = tuple(true_positives_at(members, others, rate, confidence=confidence) for rate in RATES)
    return Attack(name, auc, tprs, curve(members, others))


def _sorted(members: Floats, non_members: Floats) -> tuple[Floats, Floats]:
    return np.sort(check_scores("member", members)), np.sort(check_scores("non-member", non_members))


def _allowed(fpr: float, non_members: int) -> int:
    return math.floor(fpr * non_members * (1 + 1e-12))  # a product such as 0.29 * 100 may fall just below its integer


def _above(members: Floats, non_members: Floats, fpr: float) -> tuple[int, int]:
    """Count members and non-members above the threshold; both samples are sorted."""
    allowed = _allowed(fpr, len(non_members))
    if allowed >= len(non_members):
        return len(members), len(non_members)
    threshold = non_members[len(non_members) - 1 - allowed]
    found, false = (len(side) - int(np.searchsorted(side, threshold, "right")) for side in (members, non_members))
    return found, false


def epsilon_measured(
    members: Floats, non_members: Floats, *, seed: int, delta: float = 0.0, confidence: float = 0.95
) -> EpsilonLowerBound:
    """Return the epsilon of the counts. A threshold is chosen on half of the records and counted on the other half.

    This is `bounds.epsilon_from_rates` on records of one trained model. Records are no independent runs, so the number
    measures the model and refutes no guarantee. It is 0 if either sample has fewer than two records. The confidence is
    for independent records.
    """
    rng = np.random.default_rng(seed)
    sides = check_scores("member", members), check_scores("non-member", non_members)
    mixed = [np.array_split(rng.permutation(side), [len(side) // 2]) for side in sides]
    (choose, count), (choose_out, count_out) = mixed
    if not len(choose) or not len(choose_out):
        return EpsilonLowerBound(0.0, delta, confidence, 1)

    def bound(high: Floats, low: Floats, threshold: float) -> EpsilonLowerBound:
        hits, false = int((high > threshold).sum()), int((low > threshold).sum())
        given = {"false_positives": false, "negatives": len(low)}
        return epsilon_from_rates(hits, len(high), **given, delta=delta, confidence=confidence)

    tried = spread_thresholds(np.concatenate([choose, choose_out])).tolist()
    return bound(count, count_out, max(tried, key=lambda t: bound(choose, choose_out, t).epsilon))
