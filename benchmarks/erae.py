"""ER-AE's writing in batches against one text at a time, and its training against a plain PyTorch step, as ratios.

python benchmarks/erae.py [--texts 256] [--rounds 5]
CPU time, in turn in one run, on an untrained network of the default size (its speed does not ask). `hub`, which has no
bound, has three rounds. Exits 1 unless a batch writes three times as many texts a second as torch, one text at a
time, and no fewer than torch in blocks (which are not bit for bit alone); and training takes half as long as the plain
step. That step computes all logits of whole texts, for the reconstruction alone, at the paper's size: 20,000 words and
50 tokens, of which 18 are used.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from _timing import Rows
from dptext.sampling.randomness import secure
from dptext_lab.erae.erae import ErAe, choose
from dptext_lab.erae.net.exact import ExactNetwork, ExactWriting
from dptext_lab.erae.net.network import FIRST_OPTION, ROWS, ErAeNetwork, Sizes, Writing
from dptext_lab.erae.net.training import ErAeSchedule, train
from dptext_lab.nets.tokens import BEGIN, END

MIN_RATIO, MIN_BLOCK_RATIO, MIN_TRAINING_RATIO = 3.0, 1.0, 2.0
MAX_WORDS, MAX_TOKENS = 8000, 20
PAPER_WORDS, PAPER_TOKENS, USED = 20_000, 50, 18
BATCH = 128
FEW = 3  # rounds of `hub`


Begin = Callable[[np.ndarray, bool], Writing | ExactWriting]


def written(begin: Begin, spec: ErAe, targets: np.ndarray, rows: int) -> int:
    """Write these texts in blocks of so many; how many there are."""
    source = secure()
    for start in range(0, len(targets), rows):
        writing = begin(targets[start : start + rows], spec.choice == "hub")
        for _ in range(MAX_TOKENS):
            writing.wrote(choose(spec.chooser, spec.choice, writing.logits(), source))
    return len(targets)


def paper_network() -> ErAeNetwork:
    """Untrained, of the paper's size."""
    return ErAeNetwork(Sizes(PAPER_WORDS + FIRST_OPTION + 1, PAPER_TOKENS, 128, 256, 256, "positions"))


def paper_texts() -> np.ndarray:
    """A batch of the paper's size."""
    source = np.random.default_rng(0)
    words = source.integers(END + 1, PAPER_WORDS + FIRST_OPTION + 1, (BATCH, PAPER_TOKENS))
    lengths = source.integers(USED // 2, 3 * USED // 2 + 1, BATCH)
    return np.where(np.arange(PAPER_TOKENS) < lengths[:, None], words, END)


def plain_step(network: ErAeNetwork, targets: np.ndarray) -> int:
    """One step of Adam, as one writes it at first; how many texts."""
    optimizer = torch.optim.Adam(network.parameters())
    wanted = torch.from_numpy(targets)
    before = torch.cat([torch.full_like(wanted[:, :1], BEGIN), wanted[:, :-1]], dim=1)
    latents = network.latents(wanted)
    logits, _ = network.read_on(before, latents, network.begin(latents))
    counted = (wanted != END) | (before != END)
    torch.nn.functional.cross_entropy(logits[counted], wanted[counted] - FIRST_OPTION).backward()
    optimizer.step()
    return len(targets)


def trained(network: ErAeNetwork, targets: np.ndarray) -> int:
    """The same step by the library."""
    vectors = np.zeros((PAPER_WORDS + 1, 1), np.float32)
    train(network, targets, vectors, schedule=ErAeSchedule(reward=0.0, batch_size=BATCH), seed=0)
    return len(targets)


def rate(work: Callable[[], int]) -> float:
    """Texts a second of CPU time."""
    began = time.process_time()
    return work() / (time.process_time() - began)


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
    tiles = ExactNetwork(network)

    def by_tiles(block: np.ndarray, public: bool) -> ExactWriting:
        return tiles.begin(block, public=public)

    def by_torch(rows: int) -> Begin:
        return lambda block, public: Writing(network, block, device="cpu", public=public, rows=rows)

    ratios: dict[str, list[float]] = {}
    for round_ in range(given.rounds):
        for choice in ("top_k_rr", "hub")[: 1 + (round_ < FEW)]:
            spec = ErAe(12.0, choice=choice)
            together = rate(lambda spec=spec: written(by_tiles, spec, targets, ROWS))
            block = rate(lambda spec=spec: written(by_torch(ROWS), spec, targets, ROWS))
            alone = rate(lambda spec=spec: written(by_torch(1), spec, few, 1))
            single = rate(lambda spec=spec: written(by_tiles, spec, few, 1))
            ratios.setdefault(f"{choice}: a batch against torch, one text at a time", []).append(together / alone)
            ratios.setdefault(f"{choice}: a batch against torch in blocks", []).append(together / block)
            ratios.setdefault(f"{choice}: one text at a time against torch", []).append(single / alone)
            ratios.setdefault(f"{choice}: texts a second", []).append(together)
    large, texts = paper_network(), paper_texts()
    for _ in range(given.rounds):
        plain, fast = (rate(lambda work=work: work(large, texts)) for work in (plain_step, trained))
        ratios.setdefault("training: the library against a plain step", []).append(fast / plain)
    least = {
        "top_k_rr: a batch against torch, one text at a time": MIN_RATIO,
        "top_k_rr: a batch against torch in blocks": MIN_BLOCK_RATIO,
        "training: the library against a plain step": MIN_TRAINING_RATIO,
    }
    rows = Rows()
    for name, found in ratios.items():
        what, _, other = name.partition(" against ")
        if other:
            rows.add(what, f"times as fast as {other}", found, least=least.get(name))
        else:
            rows.note(what, "a second", found)
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
