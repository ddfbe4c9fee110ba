"""Pools of candidates for reconstruction: which inputs may stand in one, and how many it takes to show anything."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dptext import _validate
from dptext.audits.bounds import reconstruction_bound
from dptext.audits.subjects import as_record
from dptext.audits.trials.neighbours import check_neighbours
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import bonferroni, clopper_pearson_lower
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.sampling.float_draws import directions
from dptext.sampling.source import Randomness, secure
from dptext.text.records import Record
from dptext.types import Floats

#: Candidates as a caller gives them.
CandidateInputs = Floats | Sequence[str | Record]
#: Candidates that were checked: vectors `(N, dim)`, or records.
CandidatePool = Floats | list[Record]

#: The largest pool that `feasible` considers.
LARGEST_POOL = 1_000_000


def random_candidates(count: int, *, dim: int, clip_norm: float = 1.0, randomness: Randomness | None = None) -> Floats:
    """Independent uniform directions of length `clip_norm`, `(count, dim)`: a pool for vector noise."""
    _validate.count(count=count, dim=dim)
    _validate.positive(clip_norm=clip_norm)
    return clip_norm * directions(count, dim, randomness or secure())


def checked_pool(candidates: CandidateInputs, claim: Guarantee) -> CandidatePool:
    """The candidates as vectors `(N, dim)` or records, checked to be neighbours of each other under the claim.

    Fewer than two, or some alike, raise ConfigError; no neighbours, or a claim with a metric, IncomparableError.
    """
    if claim.metric is not None:
        raise IncomparableError(
            f"Expected a claim for any two candidates, found a multiple of the {claim.metric}: a pool has many "
            "distances. Audit two inputs with distinguish, whitebox or exact."
        )
    if isinstance(candidates, np.ndarray):
        vectors = np.asarray(candidates, np.float64)
        if vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise ConfigError(f"Expected finite candidates of shape (N, dim), found shape {vectors.shape}.")
        _require_different(len(np.unique(vectors, axis=0)), len(vectors))
        return vectors
    records = [as_record(candidate) for candidate in candidates]
    _require_different(len({(record.text, record.label) for record in records}), len(records))
    # Documents are neighbours if they reveal the same, so it is enough to compare all with the first.
    alike = claim.unit is Unit.DOCUMENT and claim.relation is Relation.REPLACE_ONE
    for first, second in ((records[0], other) for other in records[1:]) if alike else combinations(records, 2):
        check_neighbours(first, second, claim.unit, claim.relation, claim.reveals)
    return records


def _require_different(different: int, given: int) -> None:
    if given < 2 or different < given:
        raise ConfigError(f"Expected at least two candidates, all different; found {given}, {different} different.")


def feasible(
    epsilon: float, dim: int, *, tops: Sequence[int] = (1,), trials: int = 2000, confidence: float = 0.95
) -> int | None:
    """The fewest random candidates with which noise as published for ADePT shows to be wrong, to within 5%.

    That noise is Laplace of scale b = 2C / epsilon on each coordinate. The adversary ranks uniform directions of length
    C by likelihood. In units of b two of them differ by about a normal t of variance epsilon^2 / (2 dim) a coordinate.
    Their Bhattacharyya coefficient B is the mean of (1 + |t| / 2) e^(-|t| / 2), to the power dim. Standard normal
    scores, of which the true one is raised by d, have B = e^(-d^2 / 4). So d = 2 sqrt(-ln B), which grows to epsilon /
    2 with dim. Success is the chance that fewer than j of N - 1 scores exceed d + g, with g the noise of the true
    score. Simulated success at epsilon 10 to 20, 64 to 1024 dimensions and 5,000 to 30,000 candidates is within .04 of
    that.

    For one guess, many dimensions and many trials the answer is 34, 228, 878, 1,391 at epsilon 1, 5, 8, 10. MATHS 7
    asks for N > exp((2 + epsilon / 4)^2 / 2), which is 13, 197, 2,981, 24,959. There N * success = e^(d u - d^2 / 2)
    meets e^epsilon, with u^2 = 2 ln N and d = epsilon / 2. That describes a bound far below 1. Above epsilon 8 success
    meets the bound where the bound is near 1.

    Args:
        epsilon: the claimed one.
        dim: of the vectors.
        tops: numbers of guesses. One of them has to succeed too often.
        trials: releases that are attacked.
        confidence: of all tops together.

    Returns:
        N, or None where `LARGEST_POOL` candidates do not show it either. The density does, see `audits.whitebox`.

    Raises:
        ConfigError: a setting out of its range.
    """
    _validate.not_negative(epsilon=epsilon)
    _validate.count(dim=dim, trials=trials)
    alpha = bonferroni(confidence, len(tops))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    normal = 12 * nodes
    density = 12 * weights * np.exp(-np.square(normal) / 2) / math.sqrt(2 * math.pi)
    half = np.abs(normal) * epsilon / math.sqrt(2 * dim) / 2
    overlap = float((density * (1 + half) * np.exp(-half)).sum())
    shift = 2 * math.sqrt(max(0.0, -dim * math.log(max(overlap, 1e-300))))
    from scipy.special import betainc, ndtr  # noqa: PLC0415 (slow to load)

    beaten = ndtr(-shift - normal)  # the chance that one wrong candidate beats the true one
    for candidates in np.unique(np.rint(np.geomspace(2, LARGEST_POOL, 400))).astype(np.int64).tolist():
        for top in tops:
            if top >= candidates:
                continue
            # The binomial tail is the chance that `top` or more of the wrong ones do.
            failure = min(1.0, float((density * betainc(top, candidates - top, beaten)).sum()))
            low = clopper_pearson_lower(trials - round(trials * failure), trials, alpha=alpha)
            if low > reconstruction_bound(epsilon, candidates, top=top):
                return int(candidates)
    return None
