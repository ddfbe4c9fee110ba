"""The informed adversary of Habernal 2021 (EMNLP, appendix C): which of N known inputs led to one release?

The adversary holds the mechanism and a pool of N equally likely candidates. It ranks the pool by the likelihood of the
release (white box), or by a surrogate that it trained on simulated releases (black box). The guarantee bounds the
success of the best j guesses (`bounds.reconstruction_bound`), so a larger success refutes the guarantee::

    >>> from dptext_lab.refutation.pools import random_candidates
    >>> from dptext_lab.refutation.attack import reconstruct
    >>> from dptext_lab.adept.published_noise import PublishedLaplace
    >>> from dptext.sampling.randomness import seeded
    >>> pool = random_candidates(1000, dim=64, clip_norm=1.0, randomness=seeded(1))
    >>> adept = PublishedLaplace(epsilon=5.0, dim=64, clip_norm=1.0)
    >>> found = reconstruct(adept, pool, tops=(1,), trials=1000, randomness=seeded(0))
    >>> found.tops[0].success.low > found.tops[0].allowed > found.tops[0].chance
    True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptext import _validate
from dptext.audits.bounds import reconstruction_bound
from dptext.audits.report import Report, Result, exactly
from dptext.audits.subjects import OnCount, Subject, claim_of, unclaimed, untold
from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni, clopper_pearson, clopper_pearson_lower, clopper_pearson_upper
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, secure
from dptext.types import Integers, Json
from dptext_lab.refutation import pools
from dptext_lab.refutation.pools import Adversary, CandidateInputs

_FLOAT_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class TopSuccess(Result):
    """The share of trials in which the true input was among the first `top` of the ranking.

    Under the claim `allowed` is the largest possible share, for any attack: 1 if nothing is claimed. `chance` is the
    share without looking at the release, top / N.
    """

    top: int
    success: Estimate
    allowed: float
    chance: float

    def __str__(self) -> str:
        return f"top {self.top}: {self.success}, allowed {self.allowed:.4g}, by chance {self.chance:.4g}"


@dataclass(frozen=True, slots=True)
class Reconstruction(Result):
    """The outcome of `trials` releases, with a pool of N candidates.

    `tops` are sorted, smallest first. `dim` is the size of the candidates' vectors; None for texts that only a
    surrogate saw. The report says the same; its main number is the success of the smallest `top`.
    """

    candidates: int
    trials: int
    tops: tuple[TopSuccess, ...]
    dim: int | None
    report: Report

    LEFT_OUT = ("dim",)

    def refutes(self, guarantee: Guarantee) -> bool:
        """Return whether this trial refutes the guarantee; IncomparableError as `Report.refutes`."""
        return self.report.refutes(guarantee)

    def explain(self, guarantee: Guarantee | None = None) -> str:
        """Return the outcome in plain words; with a guarantee also whether it is refuted, and what could refute it."""
        lines = [f"{self.trials:,} releases, each of one of {self.candidates:,} candidates"]
        lines += [f"  {found}" for found in self.tops]
        lines.append(self.report.explain(guarantee))
        if guarantee is not None and guarantee.basis is not Basis.NONE and not self.refutes(guarantee):
            lines += self._reach(guarantee)
        return "\n".join(lines)

    def feasible(self, guarantee: Guarantee) -> int | None:
        """Return the fewest candidates with which this trial refutes noise as wrong as ADePT's, by `pools.feasible`.

        None if no pool is large enough, for texts without latents, and if nothing is guaranteed.
        """
        if self.dim is None or guarantee.basis is Basis.NONE:
            return None
        tops, sure = [found.top for found in self.tops], self.report.confidence
        return pools.feasible(guarantee.epsilon, self.dim, tops=tops, trials=self.trials, confidence=sure)

    def _reach(self, guarantee: Guarantee) -> list[str]:
        needed = self.feasible(guarantee)
        if self.dim is None or (needed is not None and needed <= self.candidates):
            return []
        shows, pool, instead = "show", f"some {needed or 0:,} candidates, not with {self.candidates:,}", "use more, or"
        if needed is None:
            shows, pool, instead = "not show", f"any pool of up to {pools.LARGEST_POOL:,} candidates", "use"
        wrong = f"Noise as published for ADePT, claimed as epsilon {guarantee.epsilon:.6g}, would {shows}"
        return [f"{wrong} in {self.trials:,} trials with {pool}: {instead} the audit whitebox."]


# Positions at which the streams of a seeded run begin. The caller may have made the candidates from the first
# positions.
_RELEASES, _OWN = 1 << 40, 1 << 41
SCORES_AT_ONCE = 1 << 22  #: Of releases and candidates: bounds memory


def reconstruct(
    subject: Subject,
    candidates: CandidateInputs,
    *,
    tops: Sequence[int] = (1, 5, 10),
    trials: int = 2000,
    attack: str = Adversary.LIKELIHOOD,
    simulations: int = 100,
    claim: Guarantee | None = None,
    confidence: float = 0.95,
    randomness: Randomness | None = None,
    on_progress: OnCount | None = None,
) -> Reconstruction:
    """Draw a candidate, release it once, and rank the pool: measure how often the true candidate is at the top.

    Every trial draws its candidate anew, uniformly, so that trials are independent and the intervals exact. Equal
    scores are ordered at random. The bound on epsilon inverts `reconstruction_bound` at the lower confidence limit s of
    the success: e^eps >= (s (N - j) - (N - 1) delta) / (j (1 - s)). `tops` are numbers of guesses j < N; the largest
    bound over the tops counts, and the tops share the error. The control is the success against a candidate that has
    nothing to do with the release.

    `candidates` are vectors `(N, dim)`, or texts or records that are neighbours of each other; at least two, all
    different. `attack` is "likelihood" (white box: of vector noise, or of a mechanism with latents, by which texts are
    replaced) or "surrogate" (black box, learned from `simulations` releases of each candidate, none of which is
    attacked: the nearest mean in units of the pooled variance, for texts naive Bayes on hashed words). `claim` is by
    default the subject's own claim. `randomness`, `randomness.secure()` by default, is handed to the subject, too.
    `on_progress` is called with the number of releases done and the number in all. ConfigError: candidates or a setting
    that cannot be used, or a subject without a density for the likelihood. IncomparableError: candidates that are no
    neighbours, or a claim that is a multiple of a distance.
    """
    _validate.count(trials=trials, simulations=simulations)
    _validate.one_of(Adversary, attack=attack)
    kind = Adversary(attack)
    claimed = claim or claim_of(subject) or unclaimed()
    pool = pools.checked_pool(candidates, claimed)
    kept = _kept(tops, len(pool))
    randomness = randomness or secure()
    own, position = randomness.at(_OWN), _RELEASES
    simulated = simulations * len(pool) if kind is Adversary.SURROGATE else 0

    def advance(done: int) -> None:
        (on_progress or untold)(done, simulated + trials)

    if kind is Adversary.LIKELIHOOD:
        subject, pool = pools.with_latents(subject, pool)
        score = pools.likelihood_score(subject, pool)
    else:
        score = pools.surrogate_score(subject, pool, simulations, randomness, position, advance)
    position += simulated
    ranks, control = np.empty(trials, np.int64), np.empty(trials, np.int64)
    step = max(1, SCORES_AT_ONCE // len(pool))
    for start in range(0, trials, step):
        rows = slice(start, min(start + step, trials))
        true, other = (uniform_below(len(pool), rows.stop - start, own).astype(np.int64) for _ in range(2))
        scores = score(pools.release_chosen(subject, pool, true, randomness, position + start))
        if np.isnan(scores).any():
            raise ConfigError("Expected a number as the score of every candidate, found NaN: see log_density.")
        ranks[rows], control[rows] = pools.ranks_of(scores, true, own), pools.ranks_of(scores, other, own)
        advance(simulated + rows.stop)
    alpha = bonferroni(confidence, len(kept))

    def share(places: Integers, top: int) -> Estimate:
        return clopper_pearson(int((places < top).sum()), trials, confidence=confidence)

    def bound(successes: int, top: int) -> float:
        """Return the largest epsilon, rounded down, that allows less success than the lower confidence limit."""
        low = clopper_pearson_lower(successes, trials, alpha=alpha)
        # The counted failures give the same bound as 1 - low, which would lose its digits near 1.
        failure = clopper_pearson_upper(trials - successes, trials, alpha=alpha)
        power = low * (len(pool) - top) - (len(pool) - 1) * claimed.delta
        return max(0.0, math.log(power / (top * failure)) - _FLOAT_SLACK) if power > 0 else 0.0

    def allowed(top: int) -> float:
        nothing = claimed.basis is Basis.NONE
        return 1.0 if nothing else reconstruction_bound(claimed.epsilon, len(pool), top=top, delta=claimed.delta)

    found = tuple(TopSuccess(top, share(ranks, top), allowed(top), top / len(pool)) for top in kept)
    signature: dict[str, Json] = {"candidates": len(pool), "tops": list(kept), "trials": trials, "adversary": str(kind)}
    signature |= {"simulations": simulations} if simulated else {}
    signature |= {"confidence": confidence, "delta": claimed.delta, "randomness": randomness.fingerprint[:12]}
    report = Report(
        attack="reconstruction",
        main=found[0].success,
        baseline=exactly(found[0].chance, confidence),
        control=share(control, kept[0]),
        measures=f"share of releases whose input is among the first {kept[0]} of {len(pool):,}",
        epsilon_lower_bound=max(bound(int((ranks < top).sum()), top) for top in kept),
        delta=claimed.delta,
        confidence=confidence,
        ceiling=max(bound(trials, top) for top in kept),
        unit=claimed.unit,
        relation=claimed.relation,
        reveals=claimed.reveals,
        signature=signature,
    )
    return Reconstruction(len(pool), trials, found, pool.shape[1] if isinstance(pool, np.ndarray) else None, report)


def _kept(tops: Sequence[int], candidates: int) -> tuple[int, ...]:
    for top in tops:
        _validate.count(top=top)
    kept = tuple(sorted({top for top in tops if top < candidates}))
    if not kept:
        raise ConfigError(f"Expected tops={tuple(tops)!r} to hold a number below that of the candidates, {candidates}.")
    return kept
