"""Does a synthesis say that its pool does not fit where it does not, and only there?

    python packages/lab/experiments/synthesis_pool_fit.py OUT.csv

For each split of packages/lab/experiments/synthesis.py: the share of the private texts that are unlike the pool, where
one in ten is usual, and how often in 100 draws of noise a topic report at epsilon .5, 1 and 4 says that the pool does
not fit. The encoder is GloVe, and the topics are 2, as neither they nor words decide.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from synthesis import SEED, as_records, kept
from synthesis_splits import SPLITS

from dptext.sampling.randomness import seeded
from dptext.synthesis.pool import UNLIKE_PART
from dptext.synthesis.votes import TopicReport

RUNS, EPSILONS = 100, (0.5, 1.0, 4.0)


def main() -> None:
    """Write a row a split."""
    names = [name for name, split in SPLITS.items() if split.settings.get("unit") != "author"]
    kept(Path(sys.argv[1]), map(told, names), ("split", "unlike", *map(str, EPSILONS)))


def told(name: str) -> dict[str, Any]:
    """The share that is unlike the pool, and of how many reports at each epsilon say that it does not fit."""
    pool, private, _ = map(as_records, SPLITS[name].rows(random.Random(SEED)))  # noqa: S311
    fitted = TopicReport(encoder="glove", words=0, topics=2, dim=8).fit(public=pool)
    unlike = float(fitted.pool.space.unlike(fitted.pool.space.features([each.text for each in private])).sum())
    units, found = np.array([[len(private), 0.0]]), dict[str, Any]()
    for epsilon in EPSILONS:
        noise, said = TopicReport(epsilon=epsilon).noise(), 0
        for run in range(RUNS):
            drawn = noise.draw(3, seeded(run)) / noise.sigma * noise.scale
            noisy = fitted.pool_fit(unlike * UNLIKE_PART + drawn[0], noise.scale, units + drawn[1:], noise.scale)
            said += not noisy.fits
        found[str(epsilon)] = said
    return {"split": name, "unlike": unlike / len(private), **found}


if __name__ == "__main__":
    main()
