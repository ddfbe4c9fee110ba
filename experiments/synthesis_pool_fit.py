"""Does a synthesis say that its pool does not fit where it does not, and only there?

    python experiments/synthesis_pool_fit.py

For each split of experiments/synthesis.py: the share of the private texts that are unlike the pool, where one in ten is
usual, and how often in 100 draws of noise a topic report at epsilon .5, 1 and 4 says that the pool does not fit. The
encoder is GloVe, and the topics are 2, as neither they nor words decide.
"""

from __future__ import annotations

import random

import numpy as np

from dptext.sampling.source import seeded
from dptext.synthesis.topic_report import TopicReport
from synthesis import SEED, as_records
from synthesis_splits import SPLITS

RUNS = 100


def main() -> None:
    """Print a row a split."""
    print("| split | unlike | .5 | 1 | 4 |\n|---|--:|--:|--:|--:|")
    for name, split in SPLITS.items():
        if split.settings.get("unit") == "author":
            continue
        pool, private, _ = map(as_records, split.rows(random.Random(SEED)))  # noqa: S311
        fitted = TopicReport(encoder="glove", words=0, topics=2, dim=8).fit(public=pool)
        unlike = float(fitted.pool.space.unlike(fitted.pool.space.features([each.text for each in private])).sum())
        units = np.array([[len(private), 0.0]])
        told = []
        for epsilon in (0.5, 1.0, 4.0):
            noise = TopicReport(epsilon=epsilon).noise()
            said = 0
            for run in range(RUNS):
                drawn = noise.draw(3, seeded(run)) / noise.sigma * noise.scale
                noisy = fitted.pool_fit(unlike * 0.1 + drawn[0], noise.scale, units + drawn[1:], noise.scale)
                said += not noisy.fits
            told.append(f"{said / RUNS:.0%}")
        print(f"| {name} | {unlike / len(private):.3f} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
