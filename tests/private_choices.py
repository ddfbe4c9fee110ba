"""How tests hold private choices against what they state."""

import numpy as np
from scipy import stats

from dptext.sampling.randomness import seeded

#: Draws of `agrees`.
N = 40_000


def largest_log_ratio(rows: np.ndarray) -> float:
    """The largest log ratio of an option's probabilities, over pairs of rows."""
    logs = np.log(rows)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def agrees(choice, scores: np.ndarray) -> float:
    """p-value of 40,000 draws against the stated distribution."""
    expected = choice.distribution(scores)[0] * N
    counts = np.bincount(choice.choose(scores.repeat(N, 0), seeded(5)), minlength=scores.shape[1])
    enough = expected >= 5
    observed = np.append(counts[enough], counts[~enough].sum())
    wanted = np.append(expected[enough], expected[~enough].sum())
    kept = wanted > 0
    assert observed[~kept].sum() == 0
    return (
        float(stats.chisquare(observed[kept], wanted[kept] * observed.sum() / wanted.sum()).pvalue)
        if kept.sum() > 1
        else 1.0
    )
