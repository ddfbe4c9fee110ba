"""Our language model against transformers and llama.cpp, over the same weights: tokens a second, as ratios.

    python benchmarks/writing.py [--rounds 3] [--texts 64]

SmolLM2 writes after a public prompt that all texts share, as the writer `builtin` does: few texts after a long prompt
(reviews), and many after a short one (requests). Beside transformers with its key cache, reading of the prompt counts,
too. Beside a server of llama.cpp, on threads of this process, it does not: the server has read the prompt in each of
its slots before. On one thread, in turn in one run, in processor time. One text beside llama.cpp, which is close, has
five rounds. Where weights stay in the 4 and 8 bits of their file (see `dptext.kernels.packing`), one text is also
written with the same weights in panels. Exits 1 where ours is slower than required, 3 where weights or
server (make .venv/stamps/server) are absent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # before anything starts threads

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES
from gguf.quants import dequantize

from _timing import Rows, paired, seconds
from dptext.kernels.linear import Exactness, Linear, best_there_is
from dptext.language.llama import Llama as Network
from dptext.language.reading import LanguageModel, is_there, load_language_model, packaged
from dptext.language.torch_model import load_torch_model
from dptext.text.samples import sample_records

#: Number of texts, tokens of the prompt, and tokens that are written of each.
CASES = ((16, 600, 16), (64, 600, 8), (64, 100, 10))
LEAST = 1.0
#: Tokens of the prompt, and tokens that are written, with weights in panels and without.
OF_PANELS = (10, 30)
#: As `CASES`, beside llama.cpp, and the least ratio.
Case = tuple[int, int, int, float]
BESIDE_LLAMA = ((1, 100, 100, 0.8), (16, 100, 16, 1.0), (64, 100, 8, 1.0))


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

    def __init__(self, cases: Sequence[Case]) -> None:
        import xllamacpp

        n, length, steps = (max(column) for column in list(zip(*cases, strict=True))[:3])
        given = xllamacpp.CommonParams()
        given.model.path, given.n_parallel = str(packaged()), n
        given.n_ctx, given.hostnames, given.port = 2 * n * (length + steps), ["127.0.0.1"], 0
        given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
        given.verbosity = -1  # errors alone
        self.server = xllamacpp.Server(given)

    def write(self, prompt: Sequence[int], n: int, steps: int) -> None:
        """Write the likeliest `steps` tokens after the prompt, in `n` slots at once."""
        given = {"prompt": [*map(int, prompt)], "n_predict": steps, "temperature": 0, "ignore_eos": True}

        def one(slot: int) -> None:
            request = urllib.request.Request(  # noqa: S310 (this machine)
                f"{self.server.listening_address}/completion",
                json.dumps(given | {"cache_prompt": True, "id_slot": slot}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request) as answer:  # noqa: S310 (this machine)
                if json.load(answer)["tokens_predicted"] != steps:
                    raise ValueError(f"Expected {steps} tokens of the server.")

        with ThreadPoolExecutor(n) as pool:
            list(pool.map(one, range(n)))


def beside_llama(model: LanguageModel, public: Sequence[int], cases: Sequence[Case], rounds: int, rows: Rows) -> None:
    """Print the rows beside llama.cpp."""
    llama = Llama(cases)
    for n, length, steps, least in cases:
        prompt = public[:length]
        llama.write(prompt, n, 1)
        times = list[tuple[float, float]]()
        for _ in range(max(rounds, 5) if n == 1 and rounds > 1 else rounds):
            contexts = model.contexts([prompt] * n, more=steps)
            began = time.process_time()
            for _ in range(steps):
                contexts.log_probabilities()
                contexts.append(np.full(n, public[length]))
            between = time.process_time()
            llama.write(prompt, n, steps)
            times.append((between - began, time.process_time() - between))
        ours, theirs = (list(each) for each in zip(*times, strict=True))
        add(
            rows,
            f"{n} texts, prompt of {length} tokens, {steps} written of each",
            "llama.cpp",
            ours,
            theirs,
            n * steps,
            least,
        )


def in_panels(network: Network, exactness: Exactness) -> Network:
    """The network in a precision, with weights of that precision in memory."""

    def unpacked(layer: Linear) -> Linear:
        assert layer.blocks is not None
        kind = next(kind for kind, (_, size) in GGML_QUANT_SIZES.items() if size == layer.blocks.shape[2])
        weights = dequantize(layer.blocks.reshape(len(layer.blocks), -1), kind)
        return Linear.of(weights, layer.bias, exactness).alone()

    layers = tuple(
        replace(
            each,
            attention=unpacked(each.attention),
            mixed=unpacked(each.mixed),
            widened=unpacked(each.widened),
            narrowed=unpacked(each.narrowed),
        )
        for each in network.layers
    )
    return replace(network, layers=layers, head=unpacked(network.head))


def beside_panels(model: LanguageModel, public: Sequence[int], rounds: int, rows: Rows) -> None:
    """Print the rows of weights that stay in few bits."""
    length, steps = OF_PANELS
    for exactness in dict.fromkeys(("float32", best_there_is("auto"))):
        packed = model.network.at(exactness)
        if packed.head.packed is None:
            return
        networks = {"ours": packed, "theirs": in_panels(packed, exactness)}
        methods = {
            name: partial(by_us, replace(model, network=network), public[:length], 1, steps, public[length])
            for name, network in networks.items()
        }
        times = seconds(methods, rounds, time.process_time)
        what = f"1 text in {exactness}, prompt of {length} tokens, {steps} written"
        add(rows, what, "with weights in panels", times["ours"], times["theirs"], steps, LEAST)


def add(rows: Rows, what: str, other: str, ours: list[float], theirs: list[float], tokens: int, least: float) -> None:
    """Print the ratio and the rates of both."""
    rows.add(what, f"times as fast as {other}", paired(theirs, ours), least=least)
    for name, taken in (("ours", ours), (other, theirs)):
        rows.note(f"{what}: {name}", "tokens a second", [tokens / each for each in taken])


def main() -> int:
    """Print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=64, help="cases of more texts at once are left out")
    given = parser.parse_args()
    rounds, texts = given.rounds, given.texts
    rows = Rows()
    if not is_there("smollm2"):
        rows.absent("all", "the weights of SmolLM2 are not installed (make install)")
        return rows.code
    ours, theirs = load_language_model("smollm2").fast(), load_torch_model(str(packaged()), device="cpu")
    torch.set_num_threads(1)
    public = ours.tokens("\n".join(record.text for record in sample_records(400)))
    for n, length, steps in (case for case in CASES if case[0] <= texts):
        asked = {"prompt": public[:length], "n": n, "steps": steps, "token": public[length]}
        methods = {"ours": partial(by_us, ours, **asked), "theirs": partial(by_them, theirs.network, **asked)}
        times = seconds(methods, rounds, time.process_time)
        what = f"{n} texts, prompt of {length} tokens, {steps} written of each"
        add(rows, what, "transformers", times["ours"], times["theirs"], n * steps, LEAST)
    beside_panels(ours, public, rounds, rows)
    if find_spec("xllamacpp") is None:
        rows.absent("llama.cpp", "its server is not installed (make .venv/stamps/server)")
    else:
        beside_llama(ours, public, [case for case in BESIDE_LLAMA if case[0] <= texts], rounds, rows)
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
