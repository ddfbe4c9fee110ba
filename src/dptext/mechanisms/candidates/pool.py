"""The pool of public candidates, and what is chosen on public text before a private one is compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dptext.embeddings.likeness import STEPS
from dptext.embeddings.text_pools import TextPool
from dptext.mechanisms.candidates.rankers import Ranker
from dptext.sampling.exponential import Exponential
from dptext.sampling.top_k import agreement, best_number
from dptext.text.records import Record
from dptext.types import Booleans, Floats, Int16s

_QUERIES = 500
_LOW = (0.5, 0.9, 0.99)  # quantiles of the scores of public texts
_HIGH = (0.99, 0.998, 0.9995, 1.0)
#: Scores of the exponential mechanism lie in [0, 2]: its epsilon is then the range of its log weights, so that nothing
#: is rounded between the event and the choice, and what `Exponential` takes off for its integer weights is enough.
WIDTH = 2.0


@dataclass(frozen=True, slots=True, repr=False)
class Pool(TextPool):
    """The candidates, and what was chosen on them: all public.

    Attributes:
        k: how many of the nearest share the probability of `top_k`.
        low: the score, in steps of 2^-12, below which the exponential mechanism tells no two apart.
        high: the one above which it does not.
        public: digest of the public records.
        given: digest of the pool, where the candidates come from one.
    """

    k: int = 1
    low: int = -STEPS
    high: int = STEPS
    public: str = ""
    given: str = ""

    def stretched(self, scores: Int16s) -> Floats:
        """Scores cut to [low, high] and laid on [0, 2]."""
        return (np.clip(scores, self.low, self.high).astype(np.float64) - self.low) / (self.high - self.low) * WIDTH

    def scores(self, cosines: Int16s, labels: Sequence[str | None], label_weight: float) -> Int16s:
        """Cosine plus `label_weight` where the labels agree, `(n, m)`, in whole steps of 2^-12."""
        if not label_weight:
            return cosines
        return cosines + agreement(self.labels, labels) * np.int16(round(label_weight * STEPS))


def tuned(
    pool: Pool,
    ranker: Ranker,
    public: Sequence[Record],
    *,
    choice: float | Exponential,
    label_weight: float,
    seed: int,
) -> Pool:
    """The pool with the k, or the range of scores, that keeps most, by public records.

    What is kept: cosine, and where there are labels the share of those kept. A text does not count for itself. Without
    public records the candidates stand for them.

    Args:
        pool: the candidates.
        ranker: what compares texts with them.
        public: records with their labels.
        choice: the epsilon of top-k randomized response, whose k is then chosen; or the exponential choice, whose range
            of scores is.
        label_weight: what an equal label counts.
        seed: it draws the texts that are compared.
    """
    every = [(r.text, r.label) for r in public] or [*zip(pool.texts, pool.labels, strict=True)]
    rows = np.sort(np.random.default_rng(seed).permutation(len(every))[:_QUERIES])
    asked = [every[i] for i in rows.tolist()]
    labels = [label for _, label in asked]
    read = ranker.read([text for text, _ in asked]) if public else ranker.points[rows]
    cosines = ranker.cosines(read)
    scores, gains = pool.scores(cosines, labels, label_weight), cosines / STEPS + agreement(pool.labels, labels)
    place = {candidate: i for i, candidate in enumerate(zip(pool.texts, pool.labels, strict=True))}
    own = np.array([place.get(one, -1) for one in asked])[:, None] == np.arange(len(pool))[None, :]
    if not isinstance(choice, Exponential):
        return replace(pool, k=best_number(scores, gains, own, choice))
    gains[own] = 0.0
    widest = STEPS + round(label_weight * STEPS)
    low, high = (np.quantile(scores[~own], at, method="nearest").tolist() for at in (_LOW, _HIGH))
    pools = [replace(pool, low=a, high=b) for a, b in [(-STEPS, widest), *product(low, high)] if a < b]
    return max(pools, key=lambda tried: _expected(choice, tried.stretched(scores), gains, own))


def _expected(choice: Exponential, scores: Floats, gains: Floats, own: Booleans) -> float:
    weights = np.where(own, 0.0, np.exp((scores - WIDTH) * (choice.epsilon / 2)))
    return float(((weights * gains).sum(axis=1) / weights.sum(axis=1)).mean())
