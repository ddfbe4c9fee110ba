"""How two sets of texts are compared."""

import math
from dataclasses import dataclass
from typing import Final

from dptext import _validate
from dptext.audits.divergence.conversion import DELTA
from dptext.audits.divergence.density_ratio import to_trim
from dptext.audits.divergence.knn import NEIGHBOURS
from dptext.audits.divergence.renyi import ALPHAS, check_alphas
from dptext.audits.divergence.space import COMPONENTS
from dptext.errors import ConfigError
from dptext.estimates import bonferroni

TRIM: Final = 0.005


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """How two sets are compared.

    Attributes:
        alphas: orders, rising, above 1.
        trim: share of the records whose ratios the default curve leaves out, the largest ones, rounded up to whole
            records. It adds to the delta of every epsilon. With 0 a single record can be the curve.
        components: main directions of public text that are kept.
        neighbours: k of both nearest-neighbour estimators.
        permutations: relabellings of the null; at least 1/(1 - confidence) - 1.
        resamples: random halves behind each interval; at least 2/(1 - confidence) - 1.
        confidence: of the intervals and of the certified bound.

    Raises:
        ConfigError: a setting out of its range.
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
        _validate.count(
            components=self.components,
            neighbours=self.neighbours,
            permutations=self.permutations,
            resamples=self.resamples,
        )
        _validate.within(2, 100, folds=self.folds)
        _validate.not_negative(seed=self.seed)
        alpha = bonferroni(self.confidence, 1)
        for name, given, least in (
            ("permutations", self.permutations, math.ceil(1 / alpha - 1e-9) - 1),
            ("resamples", self.resamples, math.ceil(2 / alpha - 1e-9) - 1),
        ):
            if given < least:
                raise ConfigError(f"Expected {name}={given!r} >= {least} for confidence={self.confidence!r}.")
