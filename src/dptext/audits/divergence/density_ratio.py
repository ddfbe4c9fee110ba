"""Renyi divergence from learned density ratios.

A classifier that tells two sets apart estimates ln(p/q). `cross_fit` learns it on some rows and reads it on others, so
that each row has a value from a model that never saw it. `LogRatios.divergence` averages powers of the ratios::

    >>> import numpy as np
    >>> from dptext.audits.divergence.density_ratio import cross_fit
    >>> from dptext.audits.divergence.ratio_models import RatioModel
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.standard_normal((3000, 2)) + [1.0, 0.0], rng.standard_normal((3000, 2))
    >>> learned = cross_fit(first, second, model=RatioModel.LOGISTIC, folds=5, seed=0)
    >>> bool(0.8 < learned.divergence((2.0,))[0] < 1.2)  # true: 1
    True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.divergence.ratio_models import RatioModel, train_log_ratio
from dptext.audits.divergence.renyi import check_alphas, check_samples
from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.types import Floats, Positions

#: Fewest rows of a set to learn from: a third of them must be able to show something.
LEAST_ROWS: Final = 30


def to_trim(share: float, records: int) -> int:
    """How many records this share is, rounded up: of a small set one goes, as one alone can be the curve."""
    return math.ceil(share * records - 1e-9)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogRatios:
    """ln(p/q) at rows of P, `(n,)`, and of Q, `(m,)`, each from a model that did not see the row."""

    first: Floats
    second: Floats

    @property
    def is_separated(self) -> bool:
        """Whether every row of P is above every row of Q. Then nothing here bounds the truth from above."""
        return float(self.first.min()) > float(self.second.max())

    @property
    def reversed(self) -> "LogRatios":
        """ln(q/p), for the other direction."""
        return LogRatios(-self.second, -self.first)

    def at(self, first: Positions, second: Positions) -> "LogRatios":
        """Some of the rows."""
        return LogRatios(self.first[first], self.second[second])

    def trimmed(self, share: float) -> "LogRatios":
        """Without this share of the rows of P, rounded up, those of the largest ratios.

        Let t be the share that goes. If P without it is (epsilon, delta)-close to Q, P is (epsilon, delta + t)-close.
        """
        kept = len(self.first) - to_trim(share, len(self.first))
        return LogRatios(np.sort(self.first)[:kept], self.second)

    def largest_shares(self, alphas: Sequence[float]) -> Floats:
        """The share of one row, the largest, in the sum behind each divergence, `(n_alphas,)`."""
        powers = [(a - 1) * self.first for a in check_alphas(alphas)]
        return np.array([math.exp(float(each.max() - np.logaddexp.reduce(each))) for each in powers])

    def divergence(self, alphas: Sequence[float]) -> Floats:
        """D_alpha(P || Q) = ln mean_P[(p/q)^(alpha - 1)] / (alpha - 1) for each order, `(n_alphas,)`.

        At large orders the few largest values decide the mean, and it is too small: rows that would dominate it are too
        rare to be seen. Where the rows are fully separated the divergence is at least ln m, which is what m rows of Q
        show that are all on one side. This is a lower value, as the true one may be infinite.
        """
        orders = check_alphas(alphas)
        found = [(np.logaddexp.reduce((a - 1) * self.first) - math.log(len(self.first))) / (a - 1) for a in orders]
        least = math.log(len(self.second)) if self.is_separated else -math.inf
        return np.maximum(found, least)

    def accuracy(self, confidence: float) -> Estimate:
        """How often p > q names the set of an unseen row rightly, both sets equally likely. Ties count one half.

        The interval is the mean of two exact ones with half of the error each.
        """
        each = 1 - bonferroni(confidence, 2)
        parts = [_share(self.first, each), _share(-self.second, each)]
        value, low, high = np.mean([(part.value, part.low, part.high) for part in parts], axis=0).tolist()
        return Estimate(value, low, high, confidence)


def _share(values: Floats, confidence: float) -> Estimate:
    right, ties = int((values > 0).sum()), int((values == 0).sum())
    return clopper_pearson(right + ties // 2, len(values), confidence=confidence)


def cross_fit(first: Floats, second: Floats, *, model: RatioModel, folds: int, seed: int) -> LogRatios:
    """Log density ratios of all rows, `(n, d)` of P and `(m, d)` of Q, each by a model trained on the other folds.

    Samples that cannot be used or are too small, or fewer than 2 folds, raise ConfigError.
    """
    _validate.within(2, 100, folds=folds)
    check_samples(first, second, least=max(LEAST_ROWS, 2 * folds))
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(len(rows)) % folds for rows in (first, second)]
    found = [np.empty(len(first)), np.empty(len(second))]
    for fold in range(folds):
        held = [part == fold for part in parts]
        score = train_log_ratio(first[~held[0]], second[~held[1]], model=model, seed=int(rng.integers(2**31)))
        for values, rows, out in zip(found, (first, second), held, strict=True):
            values[out] = score(rows[out])
    return LogRatios(found[0], found[1])
