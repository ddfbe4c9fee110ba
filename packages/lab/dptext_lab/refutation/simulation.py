"""Share of random or given pairs of vectors that violate a sensitivity claim.

    >>> from dptext_lab.refutation.claims import Claim
    >>> from dptext_lab.refutation.simulation import Normal, simulate
    >>> simulate(Claim(dim=24), Normal(0.1), pairs=2000, seed=7).share.low > 0.9
    True

The share of violating pairs shows how ordinary such pairs are. The share is no privacy parameter: one violating pair
refutes a claim just as all pairs do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dptext import _validate
from dptext.audits.report import exactly
from dptext.audits.subjects import OnCount, untold
from dptext.errors import ConfigError
from dptext.estimates import MAX_TRIALS, Estimate, clopper_pearson
from dptext.sampling.clipping import Norm, Vectors
from dptext.types import Floats
from dptext_lab.refutation.claims import Claim

#: The published simulation, as in the authors' code of Habernal 2021 (habernal/emnlp2021-differential-privacy-nlp).
PUBLISHED_SEED = 123456
PUBLISHED_PAIRS = 10_000
PUBLISHED_CLIP_NORM = 10.0
PUBLISHED_DIMS = range(1, 256)

#: Numbers in each array of a block: 256 KiB, which the cache of a processor holds.
NUMBERS_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True)
class Uniform:
    """Vectors whose coordinates are independent and uniform in (-C, C)."""

    def __str__(self) -> str:
        return "uniform in (-C, C)"

    def draw(self, rows: int, claim: Claim, *, generator: np.random.Generator) -> Floats:
        """Draw vectors `(rows, dim)`."""
        return generator.uniform(-claim.clip_norm, claim.clip_norm, (rows, claim.dim))


@dataclass(frozen=True, slots=True)
class Normal:
    """Vectors whose coordinates are independent and normal with mean 0, and a standard deviation in units of C.

    The paper's "variance 0.1 C" is a standard deviation of 0.1 C in its code, where C = 10 makes the two agree. Read
    literally with C = 1 it would be sqrt(0.1).
    """

    sd: float = 0.1

    def __post_init__(self) -> None:
        _validate.positive(sd=self.sd)

    def __str__(self) -> str:
        return f"normal, sd {self.sd:.4g} C"

    def draw(self, rows: int, claim: Claim, *, generator: np.random.Generator) -> Floats:
        """Draw vectors `(rows, dim)`."""
        return generator.normal(0.0, self.sd * claim.clip_norm, (rows, claim.dim))


Law = Uniform | Normal

#: The three laws of the published code, in the order of its draws. The paper shows the first two.
PUBLISHED_LAWS: tuple[Law, ...] = (Uniform(), Normal(0.1), Normal(0.01))


@dataclass(frozen=True, slots=True)
class Violations:
    """The number of pairs of random vectors, drawn by a law before clipping, that are farther apart than claimed.

    `share` is the share of independent pairs that violate the claim, with its Clopper-Pearson interval.
    """

    claim: Claim
    law: Law
    pairs: int
    share: Estimate


def _violations(claim: Claim, law: Law, *, pairs: int, generator: np.random.Generator, confidence: float) -> Violations:
    # Blocks keep memory constant; the generator gives the same numbers in the same order.
    block = max(1, NUMBERS_AT_ONCE // (2 * claim.dim))
    found = 0
    for start in range(0, pairs, block):
        bounded = claim.clip(law.draw(2 * min(block, pairs - start), claim, generator=generator))
        found += claim.violated(bounded[0::2], bounded[1::2])
    return Violations(claim, law, pairs, clopper_pearson(found, pairs, confidence=confidence))


def simulate(
    claim: Claim, law: Law, *, pairs: int = PUBLISHED_PAIRS, seed: int = 0, confidence: float = 0.95
) -> Violations:
    """Draw at most 1e9 independent pairs of vectors and count those that violate the claim after clipping.

    Each (seed, dim) has a stream of its own. ConfigError for a setting out of its range.
    """
    _validate.count(pairs=pairs)
    _validate.within(1, MAX_TRIALS, pairs=pairs)
    _validate.not_negative(seed=seed)
    generator = np.random.default_rng([seed, claim.dim])
    return _violations(claim, law, pairs=pairs, generator=generator, confidence=confidence)


def replay(
    dims: Iterable[int] = PUBLISHED_DIMS,
    *,
    clipped: Norm | None = Norm.L2,
    measured: Norm = Norm.L1,
    multiple: float = 2.0,
    confidence: float = 0.95,
    on_progress: OnCount | None = None,
) -> tuple[Violations, ...]:
    """Repeat the published simulation with the very numbers that its authors drew (Habernal 2021, figure 1).

    C is 10. For n = 1, 2, ... one generator gives 10,000 independent pairs by each of `PUBLISHED_LAWS`; all n share the
    generator, so everything up to the largest of `dims`, in [1, 255], is drawn. Another clip, norm or claim may be
    checked on the same vectors. `on_progress` is called with the number of coordinates drawn and the number in all.
    Results are sorted by n, then by law.
    """
    wanted = frozenset(dims)
    if not wanted:
        raise ConfigError("Expected dims to name at least one number of coordinates.")
    for dim in wanted:
        _validate.count(dim=dim)
        _validate.within(PUBLISHED_DIMS.start, PUBLISHED_DIMS.stop - 1, dim=dim)
    first = Claim(dim=1, clip_norm=PUBLISHED_CLIP_NORM, clipped=clipped, measured=measured, multiple=multiple)
    generator = np.random.default_rng(PUBLISHED_SEED)
    largest = max(wanted)
    found: list[Violations] = []
    for dim in range(1, largest + 1):
        claim = replace(first, dim=dim)
        for law in PUBLISHED_LAWS:
            if dim in wanted:
                found.append(_violations(claim, law, pairs=PUBLISHED_PAIRS, generator=generator, confidence=confidence))
            else:
                law.draw(2 * PUBLISHED_PAIRS, claim, generator=generator)
        (on_progress or untold)(dim * (dim + 1) // 2, largest * (largest + 1) // 2)
    return tuple(found)


def violating_pairs(
    latents: Vectors, claim: Claim, *, max_pairs: int = 2_000_000, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """Return the share of pairs of these vectors that are farther apart, after clipping, than claimed.

    The share describes these vectors only; for the latents of private text it is as private as the latents. `latents`
    are `(n, dim)`, at least two rows, before clipping; rows that are not finite become zero. If all n (n - 1) / 2 pairs
    are no more than `max_pairs`, at most 1e9, all are compared and the interval is the value itself. Otherwise
    `max_pairs` pairs are drawn independently by the seed. ConfigError for latents of another shape or type, or a
    setting out of its range.
    """
    _validate.count(max_pairs=max_pairs)
    _validate.within(1, MAX_TRIALS, max_pairs=max_pairs)
    _validate.not_negative(seed=seed)
    if latents.ndim != 2 or latents.shape[0] < 2 or latents.shape[1] != claim.dim:
        raise ConfigError(f"Expected latents of shape (2 or more, {claim.dim}), found {latents.shape}.")
    if latents.dtype.kind != "f":
        raise ConfigError(f"Expected latents of floats, found {latents.dtype}. Convert them: latents.astype(float).")
    points = claim.clip(latents)
    rows, found = len(points), 0
    pairs = rows * (rows - 1) // 2
    if pairs <= max_pairs:
        from scipy.spatial.distance import cdist  # noqa: PLC0415 (slow to load)

        metric = "cityblock" if claim.measured is Norm.L1 else "euclidean"
        block = max(1, NUMBERS_AT_ONCE // rows)
        for start in range(0, rows, block):
            distances = cdist(points[start : start + block], points[start:], metric)
            found += int(np.count_nonzero(np.triu(distances > claim.claimed, k=1)))  # each pair once
        return exactly(found / pairs, confidence)
    generator, block = np.random.default_rng(seed), max(1, NUMBERS_AT_ONCE // claim.dim)
    for start in range(0, max_pairs, block):
        size = min(block, max_pairs - start)
        first, second = generator.integers(0, rows, size), generator.integers(0, rows - 1, size)
        second += second >= first  # uniform over the other rows
        found += claim.violated(points[first], points[second])
    return clopper_pearson(found, max_pairs, confidence=confidence)
