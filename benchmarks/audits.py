"""Runs a minute of the audits of vector noise at n = 64, against the same noise one release at a time."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

from dptext import audits
from dptext.sampling.float_noise import Gaussian, L2Laplace
from dptext.sampling.grid_noise import GridGaussian, GridLaplace
from dptext.sampling.privunit import PrivUnit
from dptext.sampling.randomness import secure
from dptext_lab.adept.published_noise import PublishedLaplace

TRIALS = 20_000
REQUIRED = 20_000  # runs a minute on one core
NOISES = (
    PublishedLaplace(5.0, 64, 1.0),
    GridLaplace(5.0, 64, 1.0),
    GridGaussian(2.0, 64, 1.0),
    Gaussian(5.0, 1e-5, 64, 1.0),
    L2Laplace(5.0, 64, 1.0),
    PrivUnit(5.0, 64, 1.0),
)


def seconds(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    print("| noise, n = 64 | distinguish, runs a minute | whitebox | one release at a time | ratio |")
    print("|---|---|---|---|---|")
    pair = audits.worst_latents(64)[0]
    rows = np.tile(pair.first, (1, 1))
    for noise in NOISES:
        claim = audits.claim_of(noise)
        assert claim is not None
        counted = seconds(lambda n=noise, c=claim: audits.distinguish(n, pairs=[pair], claim=c, trials=TRIALS))
        read = seconds(lambda n=noise, c=claim: audits.whitebox(n, pairs=[pair], claim=c, trials=TRIALS, delta=1e-5))
        source = secure()
        single = seconds(lambda n=noise, s=source: [n.release(rows, s) for _ in range(500)]) / 500
        rate = 60 * 2 * TRIALS / counted
        print(
            f"| {type(noise).__name__} | {rate:,.0f} | {60 * 2 * TRIALS / read:,.0f} | {60 / single:,.0f} "
            f"| {rate * single / 60:.1f} |"
        )
        if rate < REQUIRED:
            raise SystemExit(f"Expected at least {REQUIRED:,} runs a minute, found {rate:,.0f}.")


if __name__ == "__main__":
    main()
