"""A canary in or out of the corpus: the noisy sums tell it as well as the stated Gaussian, and no better."""

import math

import numpy as np
import pytest

from dptext.privacy.guarantee import Relation
from dptext.sampling.source import seeded
from dptext.synthesis.sums import STEPS, Noise, PrivateSum

RUNS, CELLS = 600, 12


def told_apart(rho: float, *, factor: float = 1.0) -> tuple[float, float]:
    """mu by which a canary of length 1 is told from none, along its own direction, and its standard error.

    `factor` plants a fault: so many times the contribution that is allowed.
    """
    noise = Noise(rho, Relation.ADD_OR_REMOVE_ONE, signed=True)
    rng = np.random.default_rng(1)
    canary = rng.standard_normal(CELLS)
    canary /= np.linalg.norm(canary) * (1 + 1e-9)
    others = rng.uniform(-0.2, 0.2, (20, CELLS))
    scores: list[list[float]] = [[], []]
    for run in range(2 * RUNS):
        found = PrivateSum(CELLS, noise)
        rows = np.concatenate([others, canary[None]]) if run % 2 else others
        found.add(np.tile(np.arange(CELLS), (len(rows), 1)), rows)
        if run % 2:
            found._total += np.rint((factor - 1) * canary * STEPS).astype(np.int64)
        scores[run % 2].append(float(found.release(seeded(run)) @ canary))
    out, inside = map(np.array, scores)
    deviation = math.sqrt((out.var(ddof=1) + inside.var(ddof=1)) / 2)
    return (inside.mean() - out.mean()) / deviation, math.sqrt(2 / RUNS)


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_a_canary_is_told_as_stated(rho: float) -> None:
    mu, error = told_apart(rho)
    stated = math.sqrt(2 * rho)
    assert abs(mu - stated) < 4 * error + 0.05 * stated
    assert mu < stated + 4 * error


def test_a_contribution_of_twice_the_length_is_found_out() -> None:
    mu, error = told_apart(0.5, factor=2.0)
    assert mu > 1 + 6 * error
