"""The share of the gap between public texts and originals that a corpus closes, as a classifier sees it.

Three classifiers learn, from originals, from the corpus and from public texts, and answer the same real texts. The
interval is over these texts alone: each resample has the same texts for all three. It does not cover other noise: a
corpus that is made again closes another share.

    >>> import numpy as np
    >>> own, made, public = np.arange(400) < 360, np.arange(400) < 320, np.arange(400) < 200
    >>> print(closed_gap(own, made, public).closed)
    0.75 [0.68, 0.81] (95%)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dptext.errors import ConfigError
from dptext.estimates import Estimate, bonferroni
from dptext.sampling.bootstrap import allowing_unseen, bootstrap_mean
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext.types import Floats, Json, jsonable
from dptext.utility.classification import Classifier

Answers = NDArray[np.bool_]
Shown = Answers | Floats  # a mean of some classifiers is a share
FEWEST: Final = 30  #: real texts; percentile intervals of fewer cover too seldom
COVERS: Final = "over the {}real texts that were judged, not over the noise of another run"
_RESAMPLES: Final = 2_000
_TOGETHER: Final = 1 << 19  # texts of the resamples that are drawn at once
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class ClosedGap:
    """What a corpus teaches between public texts and originals. All intervals are paired, over the same real texts.

    Attributes:
        gap: accuracy by originals less accuracy by public texts.
        more: accuracy by the corpus less accuracy by public texts.
        closed: `more` as a share of `gap`; None unless the gap is shown to be above 0, by `FEWEST` texts or more.
        texts: the number of real texts.
    """

    gap: Estimate
    more: Estimate
    closed: Estimate | None
    texts: int

    def to_dict(self) -> dict[str, Json]:
        """Return the numbers as JSON-able data."""
        named = {"closed": self.closed, "gap": self.gap, "more_than_public": self.more}
        return {
            **{name: jsonable(own) for name, own in named.items()},
            "texts": self.texts,
            "intervals": COVERS.format(""),
        }


def closed_gap(own: Shown, made: Shown, public: Shown, *, seed: int = 0) -> ClosedGap:
    """Return the share of the gap that a corpus closes, by which of the same `(n,)` real texts are answered rightly.

    `own` are the answers of a classifier of originals, `made` of one of the corpus, `public` of one of public texts.
    ConfigError: no texts, or not as many of each.
    """
    if not len(own) == len(made) == len(public) > 0:
        raise ConfigError(f"Expected as many answers of each, found {len(own)}, {len(made)} and {len(public)}.")
    rows = np.stack([own, made, public], axis=1).astype(np.float64)
    gap, more, short = rows[:, 0] - rows[:, 2], rows[:, 1] - rows[:, 2], rows[:, 1] - rows[:, 0]
    whole, part, rest = (bootstrap_mean(each, seed=seed, bounds=(-1.0, 1.0)) for each in (gap, more, short))
    closed = None
    if whole.low > 0 and len(rows) >= FEWEST:
        low, high = _ends(gap, more, seed)
        if not short.any():  # the same answers as those of originals in every resample
            low, high = 1 + rest.low / whole.value, 1 + rest.high / whole.value
        closed = Estimate(part.value / whole.value, low, high, _CONFIDENCE)
    return ClosedGap(whole, part, closed, len(rows))


def _ends(gap: Floats, more: Floats, seed: int) -> tuple[float, float]:
    """Return the percentile ends of the ratio of two means. A resample without a gap counts against both ends."""
    n, source, pieces = len(gap), seeded(seed), list[Floats]()
    together = max(1, _TOGETHER // n)
    for start in range(0, _RESAMPLES, together):
        k = min(together, _RESAMPLES - start)
        drawn = uniform_below(n, k * n, source).reshape(k, n)
        pieces.append(np.stack([gap[drawn].mean(axis=1), more[drawn].mean(axis=1)]))
    wholes, parts = np.concatenate(pieces, axis=1)
    there = wholes > 0
    shares = parts[there] / wholes[there]
    rank = int(bonferroni(_CONFIDENCE, 2) * (_RESAMPLES + 1))
    lows = np.sort(np.concatenate([shares, np.full(int((~there).sum()), -np.inf)]))
    highs = np.sort(np.concatenate([shares, np.full(int((~there).sum()), np.inf)]))
    value = more.mean() / gap.mean()
    return min(float(lows[rank - 1]), value), max(float(highs[-rank]), value)


def difference(made: Shown, other: Shown, *, seed: int = 0) -> Estimate:
    """Return the mean of two rows of `(n,)` right answers to the same texts, the first less the second."""
    return bootstrap_mean(made.astype(np.float64) - other.astype(np.float64), seed=seed, bounds=(-1.0, 1.0))


def beside_draws(made: Shown, draws: Sequence[Shown], *, seed: int = 0) -> Estimate:
    """Return the mean of a row of `(n,)` right answers less that of other rows, each of which is one draw of many.

    The interval is over the texts and over the draws, so that a row which is a draw of the same kind is seldom shown to
    be better or worse. One draw tells nothing of others: its interval is over the texts alone. ConfigError: no draw.
    """
    if not draws:
        raise ConfigError("Expected at least one draw.")
    gaps = np.stack([made.astype(np.float64) - each.astype(np.float64) for each in draws])
    k, n = gaps.shape
    if k == 1:
        return bootstrap_mean(gaps[0], seed=seed, bounds=(-1.0, 1.0))
    source, pieces = seeded(seed), list[Floats]()
    together = max(1, _TOGETHER // n)
    for start in range(0, _RESAMPLES, together):
        some = min(together, _RESAMPLES - start)
        texts, which = uniform_below(n, some * n, source).reshape(some, n), uniform_below(k, some, source)
        pieces.append(gaps[which[:, None], texts].mean(axis=1))
    means, value = np.sort(np.concatenate(pieces)), float(gaps.mean())
    rank = int(bonferroni(_CONFIDENCE, 2) * (_RESAMPLES + 1))
    low, high = min(float(means[rank - 1]), value), max(float(means[-rank]), value)
    return allowing_unseen(Estimate(value, low, high, _CONFIDENCE), n, (-1.0, 1.0))


def right_answers(classifier: Classifier, real: Sequence[Record]) -> Answers:
    """Return whether a classifier gives each real text its label, `(n,)`; texts without a label are left out."""
    known = [record for record in real if record.label is not None]
    if not classifier.labels or not known:
        return np.zeros(len(known), bool)
    best = np.argmax(classifier.probabilities([record.text for record in known]), axis=1)
    return np.array([classifier.labels[i] == record.label for i, record in zip(best, known, strict=True)])
