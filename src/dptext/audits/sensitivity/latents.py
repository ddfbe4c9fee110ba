"""How many pairs of given vectors, such as real latents, violate a sensitivity claim."""

import numpy as np

from dptext import _validate
from dptext.audits.report import exactly
from dptext.audits.sensitivity.claims import Claim
from dptext.errors import ConfigError
from dptext.estimates import MAX_TRIALS, Estimate, clopper_pearson
from dptext.sampling.clipping import Norm, Vectors
from dptext.types import Floats

#: Numbers in each array of a block: 256 KiB, which the cache of a processor holds.
_BLOCK = 1 << 15


def violating_pairs(
    latents: Vectors, claim: Claim, *, max_pairs: int = 2_000_000, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """The share of pairs of these vectors that are further apart, after clipping, than claimed.

    It describes these vectors only, and nothing bounds what it tells about them. For the latents of private text it is
    as private as they are. Rows that are not finite become zero, as in `dptext.sampling.noise.clip`.

    Args:
        latents: `(n, dim)`, at least two rows, before clipping.
        claim: what is claimed.
        max_pairs: at most 1e9. Where all n (n - 1) / 2 pairs are no more than this, all are compared and the interval
            is the value itself. Else this many pairs are drawn independently.
        seed: of the draws.
        confidence: of the interval, in (0, 1).

    Raises:
        ConfigError: latents of another shape or type, or a setting out of its range.
    """
    _validate.count(max_pairs=max_pairs)
    _validate.within(1, MAX_TRIALS, max_pairs=max_pairs)
    _validate.not_negative(seed=seed)
    if latents.ndim != 2 or latents.shape[0] < 2 or latents.shape[1] != claim.dim:
        raise ConfigError(f"Expected latents of shape (2 or more, {claim.dim}), found {latents.shape}.")
    if latents.dtype.kind != "f":
        raise ConfigError(f"Expected latents of floats, found {latents.dtype}. Convert them: latents.astype(float).")
    points = claim.clip(latents)
    rows = len(points)
    pairs = rows * (rows - 1) // 2
    if pairs <= max_pairs:
        return exactly(_count_all(points, claim) / pairs, confidence)
    generator = np.random.default_rng(seed)
    return clopper_pearson(_count_drawn(points, claim, max_pairs, generator), max_pairs, confidence=confidence)


def _count_all(points: Floats, claim: Claim) -> int:
    from scipy.spatial.distance import cdist  # noqa: PLC0415 (slow to load)

    metric = "cityblock" if claim.measured is Norm.L1 else "euclidean"
    block = max(1, _BLOCK // len(points))
    found = 0
    for start in range(0, len(points), block):
        distances = cdist(points[start : start + block], points[start:], metric)
        found += int(np.count_nonzero(np.triu(distances > claim.claimed, k=1)))  # each pair once
    return found


def _count_drawn(points: Floats, claim: Claim, pairs: int, generator: np.random.Generator) -> int:
    block = max(1, _BLOCK // claim.dim)
    found = 0
    for start in range(0, pairs, block):
        size = min(block, pairs - start)
        first = generator.integers(0, len(points), size)
        second = generator.integers(0, len(points) - 1, size)
        second += second >= first  # uniform over the other rows
        found += claim.violated(points[first], points[second])
    return found
