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

from synthesis import SEED, as_records, kept
from synthesis_splits import SPLITS

from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import COUNTS, UNLIKE
from dptext.synthesis.pool_findings import CorpusFit
from dptext.synthesis.space import UNLIKE_SHARE
from dptext.synthesis.sums import STEPS
from dptext.synthesis.votes import TopicReport, topics_alone

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
    found = dict[str, Any]()
    for epsilon in EPSILONS:
        spec, said = topics_alone(TopicReport(epsilon=epsilon, topics=2), 8), 0
        noise, layout = spec.noise(), spec.layout(dim=8, width=0)
        for run in range(RUNS):
            known = layout.known(noise.draw(layout.cells, seeded(run)) / STEPS, noise.scale)
            odd, counts = known[UNLIKE], known[COUNTS]
            noisy = CorpusFit.of(
                unlike + float(odd.numbers[0, 0]), odd.deviation, len(private) + float(counts.numbers[0, 0]),
                counts.deviation, usual=UNLIKE_SHARE, compared=fitted.pool.space.compared,
            )  # fmt: skip
            said += not noisy.fits
        found[str(epsilon)] = said
    return {"split": name, "unlike": unlike / len(private), **found}


if __name__ == "__main__":
    main()
