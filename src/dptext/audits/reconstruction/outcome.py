"""What a reconstruction found: success for each number of guesses, and what it says of epsilon."""

import math
from dataclasses import dataclass

from dptext.audits.bounds import reconstruction_bound
from dptext.audits.reconstruction.pools import LARGEST_POOL, feasible
from dptext.audits.report import Report, Result, exactly
from dptext.estimates import Estimate, bonferroni, clopper_pearson, clopper_pearson_lower, clopper_pearson_upper
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.types import Integers, Json

_FLOAT_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class TopSuccess(Result):
    """How often the true input was among the first `top` of the ranking.

    Attributes:
        success: share of trials.
        allowed: the largest share under the claim, for any attack; 1 where nothing is claimed.
        chance: top / N, the share without looking at the release.
    """

    top: int
    success: Estimate
    allowed: float
    chance: float

    def __str__(self) -> str:
        return f"top {self.top}: {self.success}, allowed {self.allowed:.4g}, by chance {self.chance:.4g}"


@dataclass(frozen=True, slots=True)
class Reconstruction(Result):
    """The outcome of one trial against a pool.

    Attributes:
        candidates: N, the size of the pool.
        trials: releases that were attacked.
        tops: success for each number of guesses, smallest first.
        dim: of the candidates' vectors; None for texts that only a surrogate saw.
        report: the same as a report. Its main number is the success of the smallest `top`.
    """

    candidates: int
    trials: int
    tops: tuple[TopSuccess, ...]
    dim: int | None
    report: Report

    LEFT_OUT = ("dim",)

    def refutes(self, guarantee: Guarantee) -> bool:
        """Whether the guarantee cannot be true, given this trial; IncomparableError as `Report.refutes`."""
        return self.report.refutes(guarantee)

    def explain(self, guarantee: Guarantee | None = None) -> str:
        """The outcome in plain words; with a guarantee also whether it is refuted, and what could refute it."""
        lines = [f"{self.trials:,} releases, each of one of {self.candidates:,} candidates"]
        lines += [f"  {found}" for found in self.tops]
        lines.append(self.report.explain(guarantee))
        if guarantee is not None and guarantee.basis is not Basis.NONE and not self.refutes(guarantee):
            lines += self._reach(guarantee)
        return "\n".join(lines)

    def feasible(self, guarantee: Guarantee) -> int | None:
        """The fewest candidates with which this trial would find noise as wrong as ADePT's, by `pools.feasible`.

        None where no pool is large enough, for texts without latents, and where nothing is guaranteed.
        """
        if self.dim is None or guarantee.basis is Basis.NONE:
            return None
        tops = [found.top for found in self.tops]
        return feasible(guarantee.epsilon, self.dim, tops=tops, trials=self.trials, confidence=self.report.confidence)

    def _reach(self, guarantee: Guarantee) -> list[str]:
        """A line on whether this trial would have noticed noise that is as wrong as ADePT's."""
        needed = self.feasible(guarantee)
        if self.dim is None or (needed is not None and needed <= self.candidates):
            return []
        wrong = f"Noise as published for ADePT, claimed as epsilon {guarantee.epsilon:.6g}"
        if needed is None:
            pool = f"any pool of up to {LARGEST_POOL:,} candidates"
            return [f"{wrong}, would not show in {self.trials:,} trials with {pool}: use the audit whitebox."]
        pool = f"some {needed:,} candidates, not with {self.candidates:,}"
        return [f"{wrong}, would show in {self.trials:,} trials with {pool}: use more, or the audit whitebox."]


def outcome_of(
    ranks: Integers,
    control: Integers,
    candidates: int,
    *,
    tops: tuple[int, ...],
    claim: Guarantee,
    confidence: float,
    settings: dict[str, Json],
) -> tuple[Report, tuple[TopSuccess, ...]]:
    """What ranks amount to: places `(trials,)` of the true candidates, from 0.

    Those of the control are the places of candidates that have nothing to do with the releases. The claim says what
    success is allowed. The settings are for the signature.
    """
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
        baseline=exactly(found[0].chance, confidence),
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
    # The counted failures give the same bound as 1 - low, which would lose its digits near 1.
    failure = clopper_pearson_upper(trials - successes, trials, alpha=alpha)
    power = low * (candidates - top) - (candidates - 1) * delta
    if power <= 0:
        return 0.0
    return max(0.0, math.log(power / (top * failure)) - _FLOAT_SLACK)
