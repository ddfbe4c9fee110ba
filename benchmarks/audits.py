"""Runs a minute of the audits of vector noise at n = 64, against the same noise one release at a time.

    python benchmarks/audits.py [--trials 20000] [--rounds 3]

Exits 1 below 20,000 runs a minute of `distinguish` on one core.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from _timing import Rows, paired
from dptext import audits
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridGaussian, GridLaplace
from dptext.sampling.privunit import PrivUnit
from dptext.sampling.randomness import secure
from dptext_lab.adept.published_noise import PublishedLaplace

REQUIRED = 20_000  # runs a minute on one core
NOISES = (
    PublishedLaplace(5.0, 64, 1.0),
    GridLaplace(5.0, 64, 1.0),
    GridGaussian(2.0, 64, 1.0),
    Gaussian(5.0, 1e-5, 64, 1.0),
    L2Laplace(5.0, 64, 1.0),
    PrivUnit(5.0, 64, 1.0),
)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    table, pair, trials = Rows(), audits.worst_latents(64)[0], given.trials
    rows = np.tile(pair.first, (1, 1))
    for noise in NOISES:
        claim, source, name = audits.claim_of(noise), secure(), type(noise).__name__
        assert claim is not None
        ways: dict[str, Callable[[], object]] = {
            "distinguish": lambda n=noise, c=claim: audits.distinguish(n, pairs=[pair], claim=c, trials=trials),
            "whitebox": lambda n=noise, c=claim: audits.whitebox(n, pairs=[pair], claim=c, trials=trials, delta=1e-5),
            "single": lambda n=noise, s=source: [n.release(rows, s) for _ in range(500)],
        }
        # what one takes a minute; nothing warms up, as each makes thousands of releases
        times = {way: [seconds(work) for _ in range(given.rounds)] for way, work in ways.items()}
        runs = {way: [60 * 2 * trials / each for each in times[way]] for way in ("distinguish", "whitebox")}
        single = [60 * 500 / each for each in times["single"]]
        for way, found in runs.items():
            rows_of = paired(found, single)
            table.add(f"{name}, {way}", "times one release at a time", rows_of)
        table.add(f"{name}, distinguish", "runs a minute", runs["distinguish"], least=REQUIRED)
    return table.code


if __name__ == "__main__":
    sys.exit(main())
