"""How two sets of texts are compared."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.divergence.conversion import DELTA
from dptext.audits.divergence.density_ratio import to_trim
from dptext.audits.divergence.renyi import ALPHAS, NEIGHBOURS, check_alphas
from dptext.errors import ConfigError
from dptext.estimates import bonferroni
from dptext.text.records import Record
from dptext.types import Floats

#: Coordinates that are kept, unless another number is asked for.
COMPONENTS: Final = 64
LEAST_TEXTS: Final = 10
_NO_VARIANCE: Final = 1e-10


def apart(public: Iterable[Record], *sets: Sequence[Record]) -> tuple[list[str], int]:
    """Texts of public records that are in no set, and how many were; ConfigError for fewer than 10."""
    private = {record.text for records in sets for record in records}
    texts = [record.text for record in public]
    kept = [text for text in texts if text not in private]
    if len(kept) < LEAST_TEXTS:
        raise ConfigError(
            f"Expected at least {LEAST_TEXTS} public texts that are in neither set, found {len(kept)} of "
            f"{len(texts)}: the space of the comparison must not be fitted on what is compared. Give other public text."
        )
    return kept, len(texts) - len(kept)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection:
    """Principal components of public vectors: their mean `(dim,)`, and orthonormal `axes` `(components, dim)`.

    The axes stand by falling variance and keep this share of the public variance.
    """

    centre: Floats
    axes: Floats
    kept: float

    def __repr__(self) -> str:
        return f"Projection(components={len(self.axes)}, dim={len(self.centre)}, kept={self.kept:.3f})"

    def apply(self, vectors: Floats) -> Floats:
        """Vectors `(n, dim)` in the components, `(n, components)`."""
        return np.asarray((vectors - self.centre) @ self.axes.T, np.float64)


def fit_projection(public: Floats, *, components: int = COMPONENTS) -> Projection:
    """The main directions of finite public vectors `(n_texts, dim)`; fewer than `components` where these span fewer."""
    _validate.count(components=components)
    if public.ndim != 2 or len(public) < 2 or not np.isfinite(public).all():
        raise ConfigError(f"Expected at least 2 finite public vectors, found shape {public.shape}.")
    centre = public.mean(axis=0)
    inner = public - centre
    variances, axes = np.linalg.eigh(inner.T @ inner)
    variances, axes = variances[::-1], axes.T[::-1]
    kept = min(components, int((variances > _NO_VARIANCE * max(float(variances[0]), 0.0)).sum()))
    if kept == 0 or variances[0] <= 0:
        raise ConfigError("Expected public texts with different vectors, found them all the same.")
    share = float(variances[:kept].sum() / variances[variances > 0].sum())
    return Projection(centre, np.ascontiguousarray(axes[:kept]), share)


TRIM: Final = 0.005


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """How two sets are compared; ConfigError for a setting out of its range.

    Attributes:
        alphas: orders, rising, above 1.
        trim: share of the records whose ratios the default curve leaves out, the largest ones, rounded up to whole
            records. It adds to the delta of every epsilon. With 0 a single record can be the curve.
        components: main directions of public text that are kept.
        neighbours: k of both nearest-neighbour estimators.
        permutations: relabellings of the null; at least 1/(1 - confidence) - 1.
        resamples: random halves behind each interval; at least 2/(1 - confidence) - 1.
        confidence: of the intervals and of the certified bound.
    """

    alphas: tuple[float, ...] = ALPHAS
    delta: float = DELTA
    trim: float = TRIM
    components: int = COMPONENTS
    neighbours: int = NEIGHBOURS
    folds: int = 5
    permutations: int = 20
    resamples: int = 200
    confidence: float = 0.95
    seed: int = 0

    def whole_delta(self, *records: int) -> float:
        """The delta of every epsilon: that of the conversion, and the share that sets of these sizes are trimmed by."""
        return self.delta + max(to_trim(self.trim, n) / n for n in records)

    def __post_init__(self) -> None:
        check_alphas(self.alphas)
        if len(self.alphas) < 2:
            raise ConfigError(f"Expected alphas={self.alphas!r} to be at least two: a line needs two points.")
        _validate.positive(delta=self.delta)
        _validate.within(0, 0.5, delta=self.delta)
        _validate.within(0, 0.1, trim=self.trim)
        _validate.count(components=self.components, neighbours=self.neighbours)
        _validate.count(permutations=self.permutations, resamples=self.resamples)
        _validate.within(2, 100, folds=self.folds)
        _validate.not_negative(seed=self.seed)
        alpha = bonferroni(self.confidence, 1)
        for name, given, sides in (("permutations", self.permutations, 1), ("resamples", self.resamples, 2)):
            least = math.ceil(sides / alpha - 1e-9) - 1
            if given < least:
                raise ConfigError(f"Expected {name}={given!r} >= {least} for confidence={self.confidence!r}.")
