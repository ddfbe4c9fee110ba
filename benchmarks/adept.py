"""Privatizing with ADePT against a plain PyTorch loop over the same network.

`OMP_NUM_THREADS=1 python benchmarks/adept.py [--public N]`: one thread each, in one run, interleaved; the median of
several rounds, of CPU time. The plain loop encodes and decodes batches of 64 with the layers of torch and always writes
the whole public length. Each row adds one step to the row above it. Trained on N utterances (half) of SNIPS where
DPTEXT_DATA (default ../shared/data) has it, else of the built-in sample; how long the default `Adept` takes to fit
there is printed too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dptext import Adept, Record, sample_records
from dptext.mechanisms.adept.sound import AdeptCodebook, AdeptNoise
from dptext.neural.adept.decoding import Decoding
from dptext.neural.adept.model import AnnotatedModel
from dptext.neural.adept.network import AutoEncoder
from dptext.neural.tokens import BEGIN, END, PAD, UNKNOWN
from dptext.sampling.noise import clip
from dptext.sampling.randomness import secure

ROUNDS = 5
N = 1024


def corpus() -> tuple[str, list[Record]]:
    """Labelled utterances."""
    path = Path(os.environ.get("DPTEXT_DATA", "../shared/data")) / "snips" / "snips.jsonl.gz"
    if not path.is_file():
        return "built-in sample", sample_records(4000)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return "SNIPS", [Record(str(i), row["text"], label=row["label"]) for i, row in enumerate(rows)]


def plain(model: AutoEncoder, mechanism: AdeptNoise, records: list[Record], *, batch: int, stops: bool) -> None:
    """What one writes at first: the layers of torch, token by token; `stops` ends a batch when all its texts end."""
    tokens = mechanism.model.tokens
    with torch.inference_mode():
        for start in range(0, len(records), batch):
            inputs = torch.from_numpy(tokens.inputs(tokens.sequences(records[start : start + batch])))
            latents = model.latent(inputs).double().numpy()
            noisy = clip(mechanism.release(latents, secure()), mechanism.spec.clip_norm)
            z = torch.from_numpy(noisy.astype(np.float32))
            h, c = torch.tanh(model.start(z))[None], torch.zeros(1, len(z), model.sizes.hidden)
            token = torch.full((len(z),), BEGIN)
            ended = torch.zeros(len(z), dtype=torch.bool)
            written = []
            for _ in range(tokens.length):
                seen = torch.cat([model.write_embedding(token), z], dim=1)[:, None]
                states, (h, c) = model.writer(seen, (h, c))
                scores = model.choose(states[:, 0])
                scores[:, [PAD, UNKNOWN, BEGIN]] = -torch.inf
                token = scores.argmax(dim=1)
                written.append(token)
                ended |= token == END
                if stops and bool(ended.all()):
                    break
            for row in torch.stack(written, dim=1).tolist():
                tokens.read(row)


def fast(mechanism: AdeptNoise, records: list[Record], *, rows: int) -> None:
    """The library's decoder, `rows` latents at once."""
    model = mechanism.model
    latents = model.latents(records)
    noisy = clip(mechanism.release(latents, secure()), mechanism.spec.clip_norm)
    model._decoder.decode(noisy, Decoding("none"), rows=rows)


def seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    if os.environ.get("OMP_NUM_THREADS") != "1":
        raise SystemExit("Expected OMP_NUM_THREADS=1: the two sides are compared with one thread each.")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", type=int)
    name, records = corpus()
    n_public = parser.parse_args().public or len(records) // 2
    order = np.random.default_rng(0).permutation(len(records))
    public, private = [records[i] for i in order[:n_public]], [records[i] for i in order[-N:]]
    labels = tuple(sorted({str(record.label) for record in records}))
    spec = Adept(
        epsilon=10.0, labels=labels, noise="privunit", encoder="lstm", latent_dim=16, epochs=6, decoding="greedy"
    )
    mechanism = spec.fit(public=public, seed=0)
    assert isinstance(mechanism, AdeptNoise)
    halved = AdeptNoise(
        replace(spec, precision="bfloat16"),
        AnnotatedModel(mechanism.model.model, mechanism.model.tokens, None, device="cpu", precision="bfloat16"),
    )
    book = replace(spec, noise="codebook", codebook_size=2000).fit(public=public, seed=0)
    began = time.process_time()
    best = Adept(epsilon=10.0, labels=labels).fit(public=public, seed=0)
    fitted = time.process_time() - began
    began = time.process_time()
    light = Adept(epsilon=10.0, labels=labels, encoder="distilled").fit(public=public, seed=0)
    distilled = time.process_time() - began
    assert isinstance(book, AdeptCodebook)
    model = mechanism.model.model
    variants: dict[str, Callable[[], None]] = {
        "plain loop, batch 64, fixed length": lambda: plain(model, mechanism, private, batch=64, stops=False),
        "+ ends with its texts": lambda: plain(model, mechanism, private, batch=64, stops=True),
        "+ token table, ended rows dropped, batch 64": lambda: fast(mechanism, private, rows=64),
        "+ batch 512": lambda: fast(mechanism, private, rows=512),
        "the library: Adept(noise='privunit').privatize": lambda: mechanism.privatize(private, secure()) and None,
        "... with precision='bfloat16'": lambda: halved.privatize(private, secure()) and None,
        "Adept(noise='codebook', encoder='lstm').privatize": lambda: book.privatize(private, secure()) and None,
        "Adept(noise='codebook', encoder='distilled').privatize": lambda: light.privatize(private, secure()) and None,
        "Adept(noise='codebook', encoder='sentence').privatize": lambda: best.privatize(private, secure()) and None,
    }
    found: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for variant, work in variants.items():
            found[variant].append(seconds(work))
    first = statistics.median(found[next(iter(variants))])
    print(f"ADePT on {name}, {N} utterances, vocabulary {len(mechanism.model.tokens)}, one thread, {ROUNDS} rounds")
    print(f"Adept().fit on {len(public)} public utterances: {fitted:.0f} s; encoder='distilled': {distilled:.0f} s")
    print("| variant | microseconds an utterance | times as fast as the plain loop |\n|---|---|---|")
    for variant, took in found.items():
        median = statistics.median(took)
        print(f"| {variant} | {1e6 * median / N:.0f} | {first / median:.2f} |")


if __name__ == "__main__":
    main()
