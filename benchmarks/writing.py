"""Our language model against transformers with its key cache, over the same weights: tokens a second, as a ratio.

    python benchmarks/writing.py [--rounds 3]

SmolLM2 writes after a public prompt that all texts share, as the writer `builtin` does: few texts after a long prompt
(reviews), and many after a short one (requests). Reading of the prompt counts, too. On one thread, in turn in one run,
in processor time: the median over the rounds of each round's ratio. Exits 1 where ours is slower, 3 where the weights
are not installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # before anything starts threads

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from _timing import seconds
from dptext.language.reading import LanguageModel, is_there, load_language_model, packaged
from dptext.language.torch_model import load_torch_model
from dptext.text.samples import sample_records

#: Number of texts, tokens of the prompt, and tokens that are written of each.
CASES = ((16, 600, 40), (64, 600, 20), (64, 100, 20))
LEAST = 1.0


def by_us(model: LanguageModel, prompt: Sequence[int], n: int, steps: int, token: int) -> None:
    """Read the prompt once for `n` texts, and write `steps` tokens of each."""
    contexts = model.contexts([prompt] * n, more=steps)
    for _ in range(steps):
        contexts.log_probabilities()
        contexts.append(np.full(n, token))


def by_them(network: Any, prompt: Sequence[int], n: int, steps: int, token: int) -> None:
    """Do the same by transformers."""
    with torch.inference_mode():
        read = network(torch.tensor([prompt]), use_cache=True)
        cache = read.past_key_values
        cache.batch_repeat_interleave(n)
        for _ in range(steps):
            read = network(torch.full((n, 1), token), past_key_values=cache, use_cache=True)
            torch.log_softmax(read.logits[:, -1].float(), dim=-1)


def main() -> int:
    """Print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    if not is_there("smollm2"):
        print("The weights of SmolLM2 are not installed: make install")
        return 3
    ours, theirs = load_language_model("smollm2").fast(), load_torch_model(str(packaged()), device="cpu")
    torch.set_num_threads(1)
    public = ours.tokens("\n".join(record.text for record in sample_records(400)))
    print("| texts, tokens of the prompt | ours, tokens a second | transformers | ratio |\n|---|--:|--:|--:|")
    met = True
    for n, length, steps in CASES:
        given = {"prompt": public[:length], "n": n, "steps": steps, "token": public[length]}
        methods = {"ours": partial(by_us, ours, **given), "theirs": partial(by_them, theirs.network, **given)}
        times = seconds(methods, rounds, time.process_time)
        ratio = statistics.median(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
        met = met and ratio >= LEAST
        rates = (n * steps / statistics.median(times[name]) for name in ("ours", "theirs"))
        print(
            f"| {n} texts, {length} tokens | {' | '.join(f'{rate:.0f}' for rate in rates)} | {ratio:.2f} |", flush=True
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
