"""LiRA, the likelihood ratio attack on membership (Carlini et al. 2022, arXiv 2112.03570).

A model's confidence in a record depends on the record more than on membership. So shadow models are trained with and
without each record, and the target's confidence in a record is compared with the shadows' confidence in the same
record.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.membership.attacks import CONTROL, PROXY, Measure, MemberScores, MembershipResult
from dptext.audits.membership.members import (
    Scorer,
    Trainer,
    Transform,
    blind_scores,
    check_members,
    halves_of_both,
    logit_confidence,
    train_on,
)
from dptext.audits.report import Result
from dptext.audits.subjects import OnCount, untold
from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Booleans, Floats, Json

FEWEST_SHADOWS: Final = 4
#: From this number of shadows on, each record has its own variances; below, variances are shared (Carlini et al.,
#: section 6.3).
OWN_VARIANCES_FROM: Final = 64
#: The least variance that is used: identical shadows still give finite scores.
_LEAST_VARIANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class LiraResult(Result):
    """Both attacks, from the same shadow models.

    The online attacker trains shadows with the record and without it. The offline attacker trains only shadows without
    the record, and none after learning of the record.
    """

    online: MembershipResult
    offline: MembershipResult

    def explain(self) -> str:
        """Return both results in plain words."""
        return f"{self.online.explain()}\n\n{self.offline.explain()}"


def lira(
    target: Scorer,
    members: Sequence[Record],
    non_members: Sequence[Record],
    *,
    train: Trainer,
    seed: int,
    shadows: int = 16,
    transform: Transform | None = None,
    measure: Measure | None = None,
    on_progress: OnCount | None = None,
) -> LiraResult:
    """Attack a classifier by likelihood ratios of log p - log(1 - p) of the true label.

    Each shadow is trained on a random half of members and non-members together; each record is in exactly half of the
    shadows (rounded down). Normal distributions are fitted to the confidences of shadows with and without the record.
    The online score is the log likelihood ratio of the two distributions at the target's confidence. The offline score
    is the number of standard deviations by which the target exceeds the shadows without the record. The control and the
    baselines are those of `attacks.shokri`. 16 or more `shadows` are recommended; from 64 on each record has its own
    variances; fewer than 4 raise ConfigError. The other arguments and errors are those of `attacks.shokri`.
    """
    check_members(members, non_members)
    _validate.count(shadows=shadows)
    if shadows < FEWEST_SHADOWS:
        raise ConfigError(f"Expected shadows={shadows!r} >= {FEWEST_SHADOWS}: with fewer no spread can be seen.")
    measure = replace(measure or Measure(), seed=seed)
    rng = np.random.default_rng(seed)
    pool = [*members, *non_members]
    done = 0

    def said(records: Sequence[Record]) -> Floats:
        nonlocal done
        model = train_on(records, train=train, transform=transform, seed=int(rng.integers(2**31)))
        done += 1
        (on_progress or untold)(done, shadows + 1)
        return logit_confidence(model, pool)

    inside = _assignment(shadows, len(pool), rng)
    by_shadows = np.stack([said([pool[i] for i in np.flatnonzero(row).tolist()]) for row in inside])
    by_control = said(halves_of_both(members, non_members, rng))
    by_target = logit_confidence(target, pool)

    def sides(scores: Floats) -> MemberScores:
        return scores[: len(members)], scores[len(members) :]

    blind = blind_scores(members, non_members, seed=seed)
    variances = "own" if shadows >= OWN_VARIANCES_FROM else "shared"
    made: dict[str, Json] = {"shadows": shadows, "variances": variances, "transform": transform is not None}

    def result(name: str, score: Callable[[Floats, Floats, Booleans], Floats]) -> MembershipResult:
        found, control = (sides(score(by, by_shadows, inside)) for by in (by_target, by_control))
        named = [(f"LiRA, {name}, {shadows} shadows", found), (CONTROL, control)]
        named += [("loss threshold", sides(by_target)), ("no look at the model", blind)]
        return measure.result(named, notes=[PROXY], signature={"attack": f"lira {name}", **made})

    return LiraResult(result("online", online_scores), result("offline", offline_scores))


def _assignment(shadows: int, records: int, rng: np.random.Generator) -> Booleans:
    """Return which shadow is trained on which record, `(shadows, records)`. Half of the shadows have a record."""
    return np.asarray(rng.random((shadows, records)).argsort(axis=0).argsort(axis=0) < shadows // 2)


def online_scores(observed: Floats, by_shadows: Floats, inside: Booleans) -> Floats:
    """Return the log likelihood ratio of each record, `(n,)`: shadows with the record against shadows without.

    `observed` `(n,)` is the target's confidence, `by_shadows` `(shadows, n)` the confidence of each shadow, and
    `inside` `(shadows, n)` says which shadow was trained on which record; at least two shadows with and two without
    each record.
    """
    return _log_density(observed, *_fitted(by_shadows, inside)) - _log_density(observed, *_fitted(by_shadows, ~inside))


def offline_scores(observed: Floats, by_shadows: Floats, inside: Booleans) -> Floats:
    """Return by how many standard deviations the target exceeds the shadows without the record, `(n,)`.

    The order is that of the paper's score, which is the normal distribution function of this score and has ties at 1.
    """
    mean, variance = _fitted(by_shadows, ~inside)
    return np.asarray((observed - mean) / np.sqrt(variance))


def _fitted(by_shadows: Floats, chosen: Booleans) -> tuple[Floats, Floats]:
    counts = chosen.sum(axis=0)
    mean = np.where(chosen, by_shadows, 0.0).sum(axis=0) / counts
    variance = np.square(np.where(chosen, by_shadows - mean, 0.0)).sum(axis=0) / (counts - 1)
    if len(by_shadows) < OWN_VARIANCES_FROM:
        variance = np.full_like(variance, variance.mean())
    return mean, np.maximum(variance, _LEAST_VARIANCE)


def _log_density(values: Floats, mean: Floats, variance: Floats) -> Floats:
    """Log density of normal distributions, without the constant."""
    return np.asarray(-np.square(values - mean) / (2 * variance) - np.log(variance) / 2)
