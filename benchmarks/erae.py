"""ER-AE's writing in batches against one text at a time, and hub decoding against top-k, as ratios.

python benchmarks/erae.py [--texts 256] [--rounds 5]
In turn in one run, on an untrained network of the default size (its speed does not ask): the median over the rounds of
each round's ratio. Exits 1 unless a batch writes five times as many texts a second as one text at a time, which is
computed on a block of one row.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from dptext.mechanisms.erae.choosing import choose
from dptext.mechanisms.erae.erae import ErAe
from dptext.neural.erae import writing as erae
from dptext.neural.erae.network import ErAeNetwork, Sizes
from dptext.neural.erae.writing import Writing
from dptext.sampling.randomness import secure

MIN_RATIO = 5.0
MAX_WORDS, MAX_TOKENS = 8000, 20


def written(network: ErAeNetwork, spec: ErAe, targets: np.ndarray) -> int:
    """Write these texts in blocks of `erae.ROWS`; how many."""
    source = secure()
    for start in range(0, len(targets), erae.ROWS):
        writing = Writing(network, targets[start : start + erae.ROWS], device="cpu", public=spec.choice == "hub")
        for _ in range(MAX_TOKENS):
            writing.wrote(choose(spec.chooser, spec.choice, writing.logits(), source))
    return len(targets)


def rate(work: Callable[[], int]) -> float:
    """Texts a second."""
    began = time.perf_counter()
    return work() / (time.perf_counter() - began)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(0)
    network = ErAeNetwork(Sizes(MAX_WORDS + 4, MAX_TOKENS, 128, 256, 256, "positions")).eval()
    targets = np.random.default_rng(0).integers(4, MAX_WORDS + 4, (given.texts, MAX_TOKENS))
    few = targets[: max(given.texts // 32, 4)]
    block = erae.ROWS
    ratios: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for choice in ("top_k_rr", "hub"):
            spec = ErAe(12.0, choice=choice)
            together = rate(lambda spec=spec: written(network, spec, targets))
            erae.ROWS = 1
            alone = rate(lambda spec=spec: written(network, spec, few))
            erae.ROWS = block
            ratios.setdefault(f"{choice}: a batch against one text at a time", []).append(together / alone)
            ratios.setdefault(f"{choice}: texts a second", []).append(together)
    print("| what | median | least | most |\n|---|---|---|---|")
    for name, found in ratios.items():
        print(f"| {name} | {statistics.median(found):.1f} | {min(found):.1f} | {max(found):.1f} |")
    least = statistics.median(ratios["top_k_rr: a batch against one text at a time"])
    return 0 if least >= MIN_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
