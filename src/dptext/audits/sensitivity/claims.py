"""Sensitivity claims put to trial: by formula, by simulated pairs of vectors, and on real latents.

ADePT (Krishna et al. 2021) clips a latent vector to L2 norm C and adds Laplace noise for an L1 sensitivity
of 2C; the true one is 2C * sqrt(n) (Habernal 2021, theorem 5.1)::

    >>> from dptext.audits.sensitivity.claims import Claim, Normal, counterexample, simulate
    >>> claim = Claim(dim=256)
    >>> round(claim.factor, 6), round(claim.true_epsilon(5.0), 6), claim.refuted
    (16.0, 80.0, True)
    >>> round(counterexample().privacy_loss(1.0), 6)  # two dimensions suffice
    1.333333
    >>> simulate(Claim(dim=24), Normal(0.1), pairs=2000, seed=7).share.low > 0.9
    True

The formula says what the worst pair of vectors costs. The share of violating pairs says how ordinary such
pairs are; it is not a privacy parameter: one violating pair refutes a claim as well as all of them do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from dptext import _validate
from dptext.errors import ConfigError
from dptext.estimates import MAX_TRIALS, Estimate, clopper_pearson
from dptext.privacy.curves import up
from dptext.sampling.clipping import Norm, Vectors, clip, finite
from dptext.sampling.noise import sensitivity
from dptext.types import Floats

#: The published simulation: authors' code of Habernal 2021 (habernal/emnlp2021-differential-privacy-nlp).
PUBLISHED_SEED = 123456
PUBLISHED_PAIRS = 10_000
PUBLISHED_CLIP_NORM = 10.0
PUBLISHED_DIMS = range(1, 256)

# `noise.sensitivity` rounds up by 2^-40: a claim of exactly the sensitivity is not to be refuted for that.
_ROUNDING = 2.0**-39
#: Numbers in each of a block's few arrays: 256 KiB, which a processor's cache holds.
_BLOCK = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim that two clipped vectors are never further apart than `multiple` * C; by default ADePT's.

    Attributes:
        dim: coordinates of a vector, n.
        clip_norm: C.
        clipped: the norm in which vectors are clipped to C; None where they are not clipped.
        measured: the norm in which their distance is measured: L1 for Laplace noise on each coordinate, L2 for
            Gaussian and L2-Laplace noise.
        multiple: the claimed sensitivity in units of C.
    """

    dim: int
    clip_norm: float = 1.0
    clipped: Norm | None = Norm.L2
    measured: Norm = Norm.L1
    multiple: float = 2.0

    def __post_init__(self) -> None:
        _validate.count(dim=self.dim)
        _validate.positive(clip_norm=self.clip_norm, multiple=self.multiple)
        _validate.within(1e-100, 1e100, clip_norm=self.clip_norm, multiple=self.multiple)

    def __str__(self) -> str:
        vectors = "vectors that are not clipped" if self.clipped is None else f"{self.clipped.upper()}-clipped vectors"
        return f"no two {vectors} are more than {self.multiple:g}C apart in {self.measured.upper()} norm"

    @property
    def claimed(self) -> float:
        """The claimed sensitivity."""
        return self.multiple * self.clip_norm

    @property
    def sensitivity(self) -> float:
        """The largest distance of two clipped vectors, rounded up; infinite without clipping."""
        if self.clipped is None:
            return math.inf
        return sensitivity(self.clip_norm, dim=self.dim, clipped=self.clipped, measured=self.measured)

    @property
    def factor(self) -> float:
        """True sensitivity / claimed sensitivity, rounded up."""
        return self.sensitivity / self.claimed

    @property
    def refuted(self) -> bool:
        """Whether the true sensitivity exceeds the claimed one, by more than rounding."""
        return self.factor > 1 + _ROUNDING

    def true_epsilon(self, epsilon: float) -> float:
        """What a run that was meant for `epsilon` had, with the scale claimed / epsilon; rounded up.

        For noise whose log density falls by 1 / scale per unit of distance: Laplace on each coordinate
        (measured in L1) or L2-Laplace (measured in L2). The worst pair loses sensitivity / scale.

        Raises:
            ConfigError: epsilon is not above 0.
        """
        _validate.positive(epsilon=epsilon)
        return up(epsilon * self.factor)

    def worst_pair(self) -> Floats:
        """Two vectors `(2, dim)` in the clipping ball at the largest distance; beyond the claim without clipping."""
        if self.clipped is None:
            point = np.zeros(self.dim)
            point[0] = self.claimed
        elif (self.clipped, self.measured) == (Norm.L2, Norm.L1):
            point = np.full(self.dim, self.clip_norm / math.sqrt(self.dim))  # Habernal 2021, eq. 36
        else:
            point = np.zeros(self.dim)
            point[0] = self.clip_norm
        return np.stack([point, -point])


# ------------------------------------------------------------------ worked example


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two vectors that L2 clipping leaves alone and that are further apart than ADePT claims.

    Attributes:
        claim: the claim they refute.
        first, second: the vectors.
    """

    claim: Claim
    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def distance(self) -> float:
        """Their L1 distance."""
        return math.fsum(abs(a - b) for a, b in zip(self.first, self.second, strict=True))

    def privacy_loss(self, epsilon: float) -> float:
        """The log of the ratio of the two densities where the output is `first` itself.

        With Laplace noise of scale claimed / epsilon on each coordinate; at most epsilon, if the claim were true.

        Raises:
            ConfigError: epsilon is not above 0.
        """
        _validate.positive(epsilon=epsilon)
        return self.distance * epsilon / self.claim.claimed


def counterexample(clip_norm: float = 1.0) -> Counterexample:
    """(2C/3, 2C/3) and its negative: L2 norm .943 C, L1 distance 8C/3, so epsilon is 4/3 of the claimed one.

    Habernal 2021, section 4.

    Raises:
        ConfigError: clip_norm is not above 0.
    """
    side = 2 * clip_norm / 3
    return Counterexample(Claim(dim=2, clip_norm=clip_norm), (side, side), (-side, -side))


# ------------------------------------------------------------------ simulated pairs


@dataclass(frozen=True, slots=True)
class Uniform:
    """Vectors whose coordinates are independent and uniform in (-C, C)."""

    def __str__(self) -> str:
        return "uniform in (-C, C)"

    def draw(self, rows: int, claim: Claim, *, generator: np.random.Generator) -> Floats:
        """Vectors `(rows, dim)`."""
        return generator.uniform(-claim.clip_norm, claim.clip_norm, (rows, claim.dim))


@dataclass(frozen=True, slots=True)
class Normal:
    """Vectors whose coordinates are independent and normal with mean 0.

    Attributes:
        sd: standard deviation in units of C. The paper's "variance 0.1 C" is a standard deviation of 0.1 C in its
            code, where C = 10 makes the two agree; read literally with C = 1 it would be sqrt(0.1).
    """

    sd: float = 0.1

    def __post_init__(self) -> None:
        _validate.positive(sd=self.sd)

    def __str__(self) -> str:
        return f"normal, sd {self.sd:.4g} C"

    def draw(self, rows: int, claim: Claim, *, generator: np.random.Generator) -> Floats:
        """Vectors `(rows, dim)`."""
        return generator.normal(0.0, self.sd * claim.clip_norm, (rows, claim.dim))


Law = Uniform | Normal

#: The three laws of the published code, in the order in which it draws. The paper shows the first two.
PUBLISHED_LAWS: tuple[Law, ...] = (Uniform(), Normal(0.1), Normal(0.01))


@dataclass(frozen=True, slots=True)
class Violations:
    """How many pairs of random vectors are further apart than claimed.

    Attributes:
        claim: what was claimed, of vectors of which size.
        law: how the vectors are drawn before clipping.
        pairs: independent pairs drawn.
        share: of them that violate the claim, with its Clopper-Pearson interval.
    """

    claim: Claim
    law: Law
    pairs: int
    share: Estimate


def _distances(vectors: Floats, claim: Claim) -> Floats:
    """Distances `(rows / 2,)` of the vectors 0 and 1, 2 and 3, ... after clipping."""
    bounded = _clipped(vectors, claim)
    difference = bounded[0::2] - bounded[1::2]
    return np.asarray(np.linalg.norm(difference, ord=1 if claim.measured is Norm.L1 else 2, axis=1))


def _clipped(vectors: Vectors, claim: Claim) -> Floats:
    return finite(vectors, claim.dim) if claim.clipped is None else clip(vectors, claim.clip_norm, norm=claim.clipped)


def _violations(claim: Claim, law: Law, *, pairs: int, generator: np.random.Generator, confidence: float) -> Violations:
    # A block at a time: memory stays constant, and numbers come from the generator in the same order.
    block = max(1, _BLOCK // (2 * claim.dim))
    found = 0
    for start in range(0, pairs, block):
        vectors = law.draw(2 * min(block, pairs - start), claim, generator=generator)
        found += int(np.count_nonzero(_distances(vectors, claim) > claim.claimed))
    return Violations(claim, law, pairs, clopper_pearson(found, pairs, confidence=confidence))


def simulate(
    claim: Claim, law: Law, *, pairs: int = PUBLISHED_PAIRS, seed: int = 0, confidence: float = 0.95
) -> Violations:
    """Draw independent pairs of vectors and count those that violate the claim after clipping.

    Args:
        claim: what is claimed, of vectors of which size, clipped how.
        law: of the vectors before clipping.
        pairs: how many, at most 1e9.
        seed: of the draws; each (seed, dim) has a stream of its own.
        confidence: of the interval, in (0, 1).

    Raises:
        ConfigError: a setting out of its range.
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
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Violations, ...]:
    """The published simulation with the very numbers that its authors drew (Habernal 2021, figure 1).

    C = 10; for n = 1, 2, ... one generator gives 10,000 independent pairs of each of `PUBLISHED_LAWS`. As it is
    shared by all n, everything up to the largest of `dims` is drawn. Another clip, norm or claim may be held
    against the same vectors.

    Args:
        dims: which n to count, each in [1, 255].
        clipped: see `Claim`.
        measured: see `Claim`.
        multiple: see `Claim`.
        confidence: of the intervals, in (0, 1).
        on_progress: called with the coordinates of a vector drawn so far and in all, over all n.

    Returns:
        By n, then in the order of `PUBLISHED_LAWS`.

    Raises:
        ConfigError: a setting out of its range.
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
        if on_progress is not None:
            on_progress(dim * (dim + 1) // 2, largest * (largest + 1) // 2)
    return tuple(found)


# ------------------------------------------------------------------ real vectors


def violating_pairs(
    latents: Vectors, claim: Claim, *, max_pairs: int = 2_000_000, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """The share of pairs of these vectors that are further apart, after clipping, than claimed.

    It describes these vectors only, and nothing bounds what it tells about them: for the latents of private
    text it is as private as they are. Rows that are not finite become zero, as in `dptext.sampling.noise.clip`.

    Args:
        latents: `(n, dim)`, at least two rows, before clipping.
        claim: what is claimed.
        max_pairs: all n (n - 1) / 2 pairs are compared where they are no more than this, and the interval is the
            value itself; else this many pairs are drawn independently. At most 1e9.
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
    points = _clipped(latents, claim)
    rows = len(points)
    pairs = rows * (rows - 1) // 2
    if pairs <= max_pairs:
        share = _count_all(points, claim) / pairs
        return Estimate(share, share, share, confidence)
    generator = np.random.default_rng(seed)
    return clopper_pearson(_count_drawn(points, claim, max_pairs, generator), max_pairs, confidence=confidence)


def _count_all(points: Floats, claim: Claim) -> int:
    metric = "cityblock" if claim.measured is Norm.L1 else "euclidean"
    block = max(1, _BLOCK // len(points))
    found = 0
    for start in range(0, len(points), block):
        distances = cdist(points[start : start + block], points[start:], metric)
        found += int(np.count_nonzero(np.triu(distances > claim.claimed, k=1)))  # each pair once
    return found


def _count_drawn(points: Floats, claim: Claim, pairs: int, generator: np.random.Generator) -> int:
    block = max(1, _BLOCK // claim.dim)
    order = 1 if claim.measured is Norm.L1 else 2
    found = 0
    for start in range(0, pairs, block):
        size = min(block, pairs - start)
        first = generator.integers(0, len(points), size)
        second = generator.integers(0, len(points) - 1, size)
        second += second >= first  # uniform over the other rows
        distances = np.linalg.norm(points[first] - points[second], ord=order, axis=1)
        found += int(np.count_nonzero(distances > claim.claimed))
    return found
