"""What is chosen on public text before a private text meets a public pool: whose labels agree, and how many are near.

Top-k randomized response gives one of the k best of a pool of m with probability k e^epsilon / (k e^epsilon + m - k),
and any other with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dptext.types import Booleans, Floats, Int16s


def agreement(pool: Sequence[str | None], labels: Sequence[str | None]) -> Booleans:
    """Whether each label equals each label of the pool `(n, m)`; a missing or unknown label equals none."""
    number = {label: i for i, label in enumerate(dict.fromkeys(pool)) if label is not None}
    own = np.array([number.get(label or "", -2) for label in pool], np.int32)
    asked = np.array([number.get(label or "", -1) for label in labels], np.int32)
    return np.asarray(asked[:, None] == own[None, :])


def best_number(scores: Int16s, gains: Floats, own: Booleans, epsilon: float) -> int:
    """The k of top-k randomized response that gains most on public texts.

    Args:
        scores: by which the k nearest of each text are chosen, `(n, m)`; those of `own` are overwritten.
        gains: what each member of the pool is worth to each text, `(n, m)`; `own` is worth nothing.
        own: members that do not count for a text, as they are its own, `(n, m)`.
        epsilon: of the choice.
    """
    size = int(scores.shape[1])
    scores[own], gains[own] = np.iinfo(np.int16).min, 0.0
    order = np.argsort(~scores, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(gains, order, axis=1).mean(axis=0))

    def expected(k: int) -> float:
        hit = 1 / (1 + np.exp(-epsilon) * (size - k) / k)
        return float(hit * sums[k - 1] / k + (1 - hit) * (sums[-1] - sums[k - 1]) / (size - k))

    tried: set[int] = {min(size - 1, round(1.25**i)) for i in range(60)}
    return max(sorted(tried), key=expected)
