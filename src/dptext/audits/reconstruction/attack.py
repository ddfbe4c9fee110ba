"""The informed adversary of Habernal 2021 (EMNLP, appendix C): which of N known inputs is behind one release?

It holds the mechanism and a pool of N equally likely candidates, and ranks the pool by the likelihood of the release
(white box), or by a surrogate that it trained on simulated releases (black box). What the best j guesses can reach is
bounded by the guarantee (`bounds.reconstruction_bound`), so success above that refutes it::

    >>> from dptext.audits.reconstruction.pools import random_candidates
    >>> from dptext.audits.reconstruction.attack import reconstruct
    >>> from dptext.sampling.published import PublishedLaplace
    >>> from dptext.sampling.randomness import seeded
    >>> pool = random_candidates(1000, dim=64, clip_norm=1.0, randomness=seeded(1))
    >>> adept = PublishedLaplace(epsilon=5.0, dim=64, clip_norm=1.0)
    >>> found = reconstruct(adept, pool, tops=(1,), trials=1000, randomness=seeded(0))
    >>> found.tops[0].success.low > found.tops[0].allowed > found.tops[0].chance
    True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np

from dptext import _validate
from dptext.audits.bounds import reconstruction_bound
from dptext.audits.reconstruction.pools import LARGEST_POOL, Candidates, Pool, checked_pool, feasible
from dptext.audits.reconstruction.surrogate import Score, learn_surrogate
from dptext.audits.report import Report
from dptext.audits.subjects import Outputs, Progress, Sampler, Subject, claim_of, sample
from dptext.audits.trials.distinguishing import unclaimed
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni, clopper_pearson, clopper_pearson_lower, clopper_pearson_upper
from dptext.mechanism import HasLatent, VectorNoise
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, secure
from dptext.types import Floats, Integers, Json

# Where the streams of a seeded run begin: far from the first ones, of which the caller may have made the candidates.
_RELEASES, _OWN = 1 << 40, 1 << 41
_SCORES_AT_ONCE = 1 << 22
_COORDINATES_AT_ONCE = 1 << 16  # so few stay in the processor's cache while a density is computed
_FLOAT_SLACK = 1e-12


class Attack(StrEnum):
    """How the pool is ranked: by the declared density, or by what simulated releases taught."""

    LIKELIHOOD = "likelihood"
    SURROGATE = "surrogate"


@dataclass(frozen=True, slots=True)
class TopSuccess:
    """How often the true input was among the first `top` of the ranking.

    Attributes:
        top: j, the number of guesses.
        success: share of trials.
        allowed: the largest share under the claim, for any attack; 1 where nothing is claimed.
        chance: j / N, the share without looking at the release.
    """

    top: int
    success: Estimate
    allowed: float
    chance: float

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "top": self.top,
            "success": {**self.success.to_dict()},
            "allowed": self.allowed,
            "chance": self.chance,
        }

    def __str__(self) -> str:
        return f"top {self.top}: {self.success}, allowed {self.allowed:.4g}, by chance {self.chance:.4g}"


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """The outcome of one trial against a pool.

    Attributes:
        candidates: N, the size of the pool.
        trials: releases that were attacked.
        tops: success for each number of guesses, smallest first.
        dim: of the candidates' vectors; None for texts that only a surrogate saw.
        report: the same as a report; its main number is the success of the smallest `top`.
    """

    candidates: int
    trials: int
    tops: tuple[TopSuccess, ...]
    dim: int | None
    report: Report

    def refutes(self, guarantee: Guarantee) -> bool:
        """Whether the guarantee cannot be true, given this trial: see `Report.refutes`.

        Raises:
            IncomparableError: the guarantee speaks of other neighbours, or has a larger delta.
        """
        return self.report.refutes(guarantee)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "candidates": self.candidates,
            "trials": self.trials,
            "tops": [found.to_dict() for found in self.tops],
            "report": self.report.to_dict(),
        }

    def explain(self, guarantee: Guarantee | None = None) -> str:
        """The outcome in plain words; with a guarantee also whether it is refuted, and what could refute it.

        Raises:
            IncomparableError: as `refutes`.
        """
        lines = [f"{self.trials:,} releases, each of one of {self.candidates:,} candidates"]
        lines += [f"  {found}" for found in self.tops]
        lines.append(self.report.explain(guarantee))
        if guarantee is not None and guarantee.basis is not Basis.NONE and not self.refutes(guarantee):
            lines += self._reach(guarantee)
        return "\n".join(lines)

    def feasible(self, guarantee: Guarantee) -> int | None:
        """The fewest candidates with which this trial would find noise as wrong as ADePT's; None where there are none.

        None also for texts without latents and where nothing is guaranteed. See `pools.feasible`.
        """
        if self.dim is None or guarantee.basis is Basis.NONE:
            return None
        tops = [found.top for found in self.tops]
        return feasible(guarantee.epsilon, self.dim, tops=tops, trials=self.trials, confidence=self.report.confidence)

    def _reach(self, guarantee: Guarantee) -> list[str]:
        """Whether this trial would have noticed noise that is as wrong as ADePT's."""
        needed = self.feasible(guarantee)
        if self.dim is None or (needed is not None and needed <= self.candidates):
            return []
        wrong = f"Noise as published for ADePT, claimed as epsilon {guarantee.epsilon:.6g}"
        if needed is None:
            pool = f"any pool of up to {LARGEST_POOL:,} candidates"
            return [f"{wrong}, would not show in {self.trials:,} trials with {pool}: use the audit whitebox."]
        pool = f"some {needed:,} candidates, not with {self.candidates:,}"
        return [f"{wrong}, would show in {self.trials:,} trials with {pool}: use more, or the audit whitebox."]


def reconstruct(
    subject: Subject,
    candidates: Candidates,
    *,
    tops: Sequence[int] = (1, 5, 10),
    trials: int = 2000,
    attack: str = Attack.LIKELIHOOD,
    simulations: int = 100,
    claim: Guarantee | None = None,
    confidence: float = 0.95,
    randomness: Randomness | None = None,
    on_progress: Progress | None = None,
) -> Reconstruction:
    """Draw a candidate, release it once, rank the pool; how often is the truth at the top?

    Every trial draws its candidate anew, uniformly, so that trials are independent and the intervals exact. Equal
    scores are ordered at random. The bound on epsilon inverts `reconstruction_bound` at the lower confidence limit:
    e^eps >= (s (N - j) - (N - 1) delta) / (j (1 - s)), the largest over the tops, which share the error probability.

    Args:
        subject: vector noise or a mechanism with latents for the likelihood, any subject for the surrogate.
        candidates: vectors `(N, dim)`, or texts or records that are neighbours of each other; at least two, all
            different. For the likelihood texts are replaced by their latents.
        tops: numbers of guesses j. Those of N and more always succeed and are left out.
        trials: releases to attack.
        attack: "likelihood" (white box) or "surrogate" (black box: nearest mean in units of the pooled variance for
            vectors, naive Bayes on hashed words for texts).
        simulations: releases of each candidate that the surrogate learns from; none of them is attacked.
        claim: what the subject claims; by default what it states itself.
        confidence: of each interval, and of the bound on epsilon.
        randomness: draws candidates and ties and is handed to the subject; `randomness.secure()` by default.
        on_progress: called with releases done and releases in all.

    Returns:
        Success beside the most that the claim allows. The control of its report is the success against a candidate
        that has nothing to do with the release.

    Raises:
        ConfigError: candidates or a setting that cannot be used, or a subject without a density for the likelihood.
        IncomparableError: candidates that are no neighbours, or a claim that is a multiple of a distance: a pool has
            many distances.
        MissingExtraError: the surrogate met texts and scikit-learn is absent.
    """
    _validate.count(trials=trials, simulations=simulations)
    kind = _attack(attack)
    claim = claim or claim_of(subject) or unclaimed()
    pool = checked_pool(candidates, claim)
    kept = _kept(tops, len(pool))
    randomness = randomness or secure()
    own, position = randomness.at(_OWN), _RELEASES
    simulated = simulations * len(pool) if kind is Attack.SURROGATE else 0

    def advance(done: int) -> None:
        if on_progress is not None:
            on_progress(done, simulated + trials)

    match kind:
        case Attack.LIKELIHOOD:
            subject, pool = _with_latents(subject, pool)
            score = _likelihood(subject, pool)
        case Attack.SURROGATE:
            score = _surrogate(subject, pool, simulations, randomness, position, advance)
        case _:
            assert_never(kind)
    position += simulated
    ranks, control = np.empty(trials, np.int64), np.empty(trials, np.int64)
    step = max(1, _SCORES_AT_ONCE // len(pool))
    for start in range(0, trials, step):
        rows = slice(start, min(start + step, trials))
        true, other = (uniform_below(len(pool), rows.stop - start, own).astype(np.int64) for _ in range(2))
        scores = score(_released(subject, pool, true, randomness, position + start))
        if np.isnan(scores).any():
            raise ConfigError("Expected a number as the score of every candidate, found NaN: see log_density.")
        ranks[rows], control[rows] = _ranks(scores, true, own), _ranks(scores, other, own)
        advance(simulated + rows.stop)
    settings: dict[str, Json] = {
        "candidates": len(pool),
        "tops": list(kept),
        "trials": trials,
        "adversary": str(kind),
        **({"simulations": simulations} if simulated else {}),
        "confidence": confidence,
        "delta": claim.delta,
        "randomness": randomness.fingerprint[:12],
    }
    report, found = _outcome(
        ranks, control, len(pool), tops=kept, claim=claim, confidence=confidence, settings=settings
    )
    return Reconstruction(len(pool), trials, found, pool.shape[1] if isinstance(pool, np.ndarray) else None, report)


# ------------------------------------------------------------------ what is given


def _attack(name: str) -> Attack:
    try:
        return Attack(name)
    except ValueError:
        raise ConfigError(f"Expected attack={name!r} to be one of {', '.join(Attack)}.") from None


def _kept(tops: Sequence[int], candidates: int) -> tuple[int, ...]:
    for top in tops:
        _validate.count(top=top)
    kept = tuple(sorted({top for top in tops if top < candidates}))
    if not kept:
        raise ConfigError(f"Expected tops={tuple(tops)!r} to hold a number below that of the candidates, {candidates}.")
    return kept


def _with_latents(subject: Subject, pool: Pool) -> tuple[VectorNoise, Floats]:
    if not isinstance(subject, VectorNoise):
        raise ConfigError("Expected a subject with release and log_density; others are attacked by a surrogate.")
    if isinstance(pool, np.ndarray):
        return subject, pool
    if not isinstance(subject, HasLatent):
        raise ConfigError("Expected vectors as candidates: the subject has no latents of texts.")
    return subject, np.asarray(subject.latent(pool), np.float64)


# ------------------------------------------------------------------ releases and scores


def _released(subject: Subject, pool: Pool, chosen: Integers, randomness: Randomness, position: int) -> Outputs:
    """One release of each chosen candidate, in order."""
    if isinstance(pool, np.ndarray) and isinstance(subject, VectorNoise) and not isinstance(subject, Sampler):
        return np.asarray(subject.release(pool[chosen], randomness.at(position)), np.float64)
    parts: list[Outputs] = []
    for i, count in zip(*np.unique(chosen, return_counts=True), strict=True):
        parts.append(sample(subject, pool[int(i)], int(count), randomness, position=position))
        position += int(count)
    place = np.empty(len(chosen), np.int64)
    place[np.argsort(chosen, kind="stable")] = np.arange(len(chosen))
    vectors = [part for part in parts if isinstance(part, np.ndarray)]
    if vectors:
        return np.concatenate(vectors)[place]
    texts = [text for part in parts for text in part]
    return [texts[i] for i in place]


def _likelihood(noise: VectorNoise, latents: Floats) -> Score:
    """The log density of each release given each candidate, `(releases, candidates)`, in blocks of pairs."""
    n, dim = latents.shape

    def score(outputs: Outputs) -> Floats:
        released = np.asarray(outputs, np.float64)
        result = np.empty((len(released), n))
        rows = max(1, min(len(released), _COORDINATES_AT_ONCE // dim))
        columns = max(1, _COORDINATES_AT_ONCE // (rows * dim))
        for top in range(0, len(released), rows):
            block = released[top : top + rows]
            for left in range(0, n, columns):
                some = latents[left : left + columns]
                pairs = noise.log_density(np.tile(block, (len(some), 1)), np.repeat(some, len(block), axis=0))
                result[top : top + rows, left : left + columns] = pairs.reshape(len(some), len(block)).T
        return result

    return score


def _ranks(scores: Floats, chosen: Integers, own: Randomness) -> Integers:
    """The place of the chosen candidate in each row, 0 for the best; equal scores in random order.

    To count better scores alone would be wrong: an attack that scores all candidates the same would always succeed.
    """
    mine = np.take_along_axis(scores, chosen[:, None], axis=1)
    ranks = (scores > mine).sum(axis=1)
    tied = (scores == mine).sum(axis=1)
    for size in np.unique(tied[tied > 1]):
        rows = np.flatnonzero(tied == size)
        ranks[rows] += uniform_below(int(size), len(rows), own).astype(np.int64)
    return np.asarray(ranks, np.int64)


def _surrogate(
    subject: Subject,
    pool: Pool,
    simulations: int,
    randomness: Randomness,
    position: int,
    advance: Callable[[int], None],
) -> Score:
    """Scores learned from simulated releases of each candidate."""
    if simulations < 2:
        raise ConfigError(f"Expected simulations={simulations!r} >= 2.")

    def simulate(i: int) -> Outputs:
        outputs = sample(subject, pool[i], simulations, randomness, position=position + i * simulations)
        advance((i + 1) * simulations)
        return outputs

    return learn_surrogate(simulate, len(pool))


# ------------------------------------------------------------------ what it means


def _outcome(
    ranks: Integers,
    control: Integers,
    candidates: int,
    *,
    tops: tuple[int, ...],
    claim: Guarantee,
    confidence: float,
    settings: dict[str, Json],
) -> tuple[Report, tuple[TopSuccess, ...]]:
    trials, smallest, alpha = len(ranks), tops[0], bonferroni(confidence, len(tops))

    def share(places: Integers, top: int) -> Estimate:
        return clopper_pearson(int((places < top).sum()), trials, confidence=confidence)

    def bound(successes: int, top: int) -> float:
        return _epsilon(successes, trials, candidates, top, delta=claim.delta, alpha=alpha)

    found = tuple(
        TopSuccess(top, share(ranks, top), _allowed(claim, candidates, top), top / candidates) for top in tops
    )
    report = Report(
        attack="reconstruction",
        main=found[0].success,
        baseline=Estimate(found[0].chance, found[0].chance, found[0].chance, confidence),
        control=share(control, smallest),
        measures=f"share of releases whose input is among the first {smallest} of {candidates:,}",
        epsilon_lower_bound=max(bound(int((ranks < top).sum()), top) for top in tops),
        delta=claim.delta,
        confidence=confidence,
        ceiling=max(bound(trials, top) for top in tops),
        unit=claim.unit,
        relation=claim.relation,
        metric=None,
        reveals=claim.reveals,
        signature=settings,
    )
    return report, found


def _allowed(claim: Guarantee, candidates: int, top: int) -> float:
    if claim.basis is Basis.NONE:
        return 1.0
    return reconstruction_bound(claim.epsilon, candidates, top=top, delta=claim.delta)


def _epsilon(successes: int, trials: int, candidates: int, top: int, *, delta: float, alpha: float) -> float:
    """The largest epsilon, rounded down, that allows less success than the lower confidence limit."""
    low = clopper_pearson_lower(successes, trials, alpha=alpha)
    # The same bound, from the counted failures: 1 - low would lose its digits near 1.
    failure = clopper_pearson_upper(trials - successes, trials, alpha=alpha)
    power = low * (candidates - top) - (candidates - 1) * delta
    if power <= 0:
        return 0.0
    return max(0.0, math.log(power / (top * failure)) - _FLOAT_SLACK)
