"""Private choices among public options: exponential, permute-and-flip, top-k randomized response, two-set.

Each is a frozen dataclass of public settings with an `event`, an exact `distribution(scores)` and a
vectorized `choose(scores, source)` over a batch of rows::

    >>> import numpy as np
    >>> from dptext.sampling import randomness, selection
    >>> choice = selection.TopKRandomizedResponse(epsilon=3.0, k=1, size=4)
    >>> choice.distribution(np.array([[0.1, 0.9, 0.3, 0.2]])).round(3).tolist()
    [[0.043, 0.87, 0.043, 0.043]]
    >>> choice.event
    TopKEvent(epsilon=3.0, k=1, size=4, count=1)

Scores are `(rows, options)`; those that are not finite are refused. Their order and size are private. Draws use
integers only.

* `Exponential`, `ClippedExponential`, `PermuteAndFlip`: by score (`exponential`). `TwoSet`: as ER-AE chooses.
* `TruncatedExponential`: by distance up to a threshold.
* `TopKRandomizedResponse`: by the set of the k best alone (`top_k`).
"""

from dptext.sampling.exponential import (
    LEAST_DISTANCE,
    ClippedExponential,
    Exponential,
    PermuteAndFlip,
    TruncatedExponential,
    TwoSet,
)
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.sampling.weights import ROUNDING_LOSS, require_finite

__all__ = [
    "LEAST_DISTANCE", "ROUNDING_LOSS", "ClippedExponential", "Exponential", "PermuteAndFlip", "TopKRandomizedResponse",
    "TruncatedExponential", "TwoSet", "require_finite",
]  # fmt: skip
