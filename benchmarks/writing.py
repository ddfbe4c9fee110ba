"""Our language model against transformers and llama.cpp, over the same weights: tokens a second, as ratios.

    python benchmarks/writing.py [--rounds 3]

SmolLM2 writes after a public prompt that all texts share, as the writer `builtin` does: few texts after a long prompt
(reviews), and many after a short one (requests). Beside transformers with its key cache, reading of the prompt counts,
too. Beside a server of llama.cpp, on threads of this process, it does not: the server has read the prompt in each of
its slots before. On one thread, in turn in one run, in processor time: the median over the rounds of each round's
ratio. Exits 1 where ours is slower than required, 3 where weights or server (make .venv/stamps/server) are absent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

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
#: The same beside llama.cpp, and the least ratio.
BESIDE_LLAMA = ((1, 100, 100, 0.8), (16, 100, 40, 1.0), (64, 100, 20, 1.0))


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


class Llama:
    """A server of llama.cpp with the same file, and as many slots as the largest case."""

    def __init__(self) -> None:
        import xllamacpp

        n, length, steps, _ = max(BESIDE_LLAMA)
        given = xllamacpp.CommonParams()
        given.model.path, given.n_parallel = str(packaged()), n
        given.n_ctx, given.hostnames, given.port = 2 * n * (length + steps), ["127.0.0.1"], 0
        given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
        given.verbosity = -1  # errors alone
        self.server = xllamacpp.Server(given)

    def write(self, prompt: Sequence[int], n: int, steps: int) -> None:
        """Write the likeliest `steps` tokens after the prompt, in `n` slots at once."""
        given = {"prompt": [*map(int, prompt)], "n_predict": steps, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(  # noqa: S310 (this machine)
            f"{self.server.listening_address}/completion",
            json.dumps(given | {"cache_prompt": True}).encode(),
            {"Content-Type": "application/json"},
        )

        def one(_: int) -> None:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 (this machine)
                if json.load(answer)["tokens_predicted"] != steps:
                    raise ValueError(f"Expected {steps} tokens of the server.")

        with ThreadPoolExecutor(n) as pool:
            list(pool.map(one, range(n)))


def beside_llama(model: LanguageModel, public: Sequence[int], rounds: int) -> bool:
    """Print the rows beside llama.cpp, and return whether each ratio is as required."""
    llama, met = Llama(), True
    for n, length, steps, least in BESIDE_LLAMA:
        prompt = public[:length]
        llama.write(prompt, n, 1)
        ratios, rates = list[float](), list[tuple[float, float]]()
        for _ in range(rounds):
            contexts = model.contexts([prompt] * n, more=steps)
            began = time.process_time()
            for _ in range(steps):
                contexts.log_probabilities()
                contexts.append(np.full(n, public[length]))
            between = time.process_time()
            llama.write(prompt, n, steps)
            ours, theirs = between - began, time.process_time() - between
            ratios.append(theirs / ours)
            rates.append((n * steps / ours, n * steps / theirs))
        ratio = statistics.median(ratios)
        met = met and ratio >= least
        shown = " | ".join(f"{statistics.median(each):.0f}" for each in zip(*rates, strict=True))
        print(f"| {n} texts, {length} tokens, llama.cpp | {shown} | {ratio:.2f} |", flush=True)
    return met


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
    print("| texts, tokens of the prompt | ours, tokens a second | other | ratio |\n|---|--:|--:|--:|")
    met = True
    for n, length, steps in CASES:
        given = {"prompt": public[:length], "n": n, "steps": steps, "token": public[length]}
        methods = {"ours": partial(by_us, ours, **given), "theirs": partial(by_them, theirs.network, **given)}
        times = seconds(methods, rounds, time.process_time)
        ratio = statistics.median(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
        met = met and ratio >= LEAST
        rates = (n * steps / statistics.median(times[name]) for name in ("ours", "theirs"))
        shown = " | ".join(f"{rate:.0f}" for rate in rates)
        print(f"| {n} texts, {length} tokens, transformers | {shown} | {ratio:.2f} |", flush=True)
    if find_spec("xllamacpp") is None:
        print("The server of llama.cpp is not installed: make .venv/stamps/server")
        return 3 if met else 1
    return 0 if beside_llama(ours, public, rounds) and met else 1


if __name__ == "__main__":
    sys.exit(main())
