"""Privatizing with ADePT against a plain PyTorch loop over the same network.

`OMP_NUM_THREADS=1 python benchmarks/adept.py [--public N]`: one thread each, in one run, interleaved, in CPU time.
The plain loop encodes and decodes batches of 64 with the layers of torch and always writes the whole public length.
Each row adds one step to the row above it; the last two write texts of a codebook. Trained on N utterances of SNIPS
where DPTEXT_DATA (default ../shared/data) has it, else of the built-in sample. `--sentence` adds the default encoder,
whose fit takes minutes. Exits 1 where a row that has a bound does not reach it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from _timing import Rows, paired
from dptext import Record, sample_records
from dptext.sampling.clipping import clip
from dptext.sampling.randomness import secure
from dptext_lab import Adept
from dptext_lab.adept.net.codebook import write_codebook
from dptext_lab.adept.net.decoding import Decoding
from dptext_lab.adept.net.model import AnnotatedModel
from dptext_lab.adept.net.network import AutoEncoder
from dptext_lab.adept.sound import AdeptCodebook, AdeptNoise
from dptext_lab.nets.tokens import BEGIN, END, PAD, UNKNOWN

ROUNDS = 3
N = 1024
PUBLIC = 1_000
CODEBOOK = 300
WRITTEN = 512  # latents that become texts of a codebook
LIBRARY = "the library: Adept(noise='privunit').privatize"
LIGHT = "Adept(noise='codebook', encoder='distilled').privatize"
PLAIN_BOOK = f"a codebook of {WRITTEN} latents by the plain loop"
BOOK = f"a codebook of {WRITTEN} latents by write_codebook, which also reads and judges what it wrote"
LEAST = {LIBRARY: 1.5, LIGHT: 5.0, BOOK: 0.6}


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


def main() -> int:
    if os.environ.get("OMP_NUM_THREADS") != "1":
        raise SystemExit("Expected OMP_NUM_THREADS=1: the two sides are compared with one thread each.")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", type=int, default=PUBLIC)
    parser.add_argument("--sentence", action="store_true")
    name, records = corpus()
    given = parser.parse_args()
    n_public = given.public
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
        AnnotatedModel(mechanism.model.model, mechanism.model.tokens, None, precision="bfloat16"),
    )
    book = replace(spec, noise="codebook", codebook_size=CODEBOOK).fit(public=public, seed=0)
    light = Adept(epsilon=10.0, labels=labels, encoder="distilled", codebook_size=CODEBOOK).fit(public=public, seed=0)
    assert isinstance(book, AdeptCodebook)
    model = mechanism.model.model
    variants: dict[str, Callable[[], None]] = {
        "plain loop, batch 64, fixed length": lambda: plain(model, mechanism, private, batch=64, stops=False),
        "+ ends with its texts": lambda: plain(model, mechanism, private, batch=64, stops=True),
        "+ token table, ended rows dropped, batch 64": lambda: fast(mechanism, private, rows=64),
        "+ batch 512": lambda: fast(mechanism, private, rows=512),
        LIBRARY: lambda: mechanism.privatize(private, secure()) and None,
        "... with precision='bfloat16'": lambda: halved.privatize(private, secure()) and None,
        "Adept(noise='codebook', encoder='lstm').privatize": lambda: book.privatize(private, secure()) and None,
        LIGHT: lambda: light.privatize(private, secure()) and None,
        PLAIN_BOOK: lambda: plain(model, mechanism, public[:WRITTEN], batch=64, stops=True),
        BOOK: lambda: write_codebook(mechanism.model, public[:WRITTEN], size=2, seed=0) and None,
    }
    if given.sentence:
        began = time.process_time()
        best = Adept(epsilon=10.0, labels=labels).fit(public=public, seed=0)
        print(f"Adept().fit on {len(public)} public utterances: {time.process_time() - began:.0f} s")
        variants["Adept(noise='codebook', encoder='sentence').privatize"] = lambda: (
            best.privatize(private, secure()) and None
        )
    found: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for variant, work in variants.items():
            found[variant].append(seconds(work))
    print(f"ADePT on {name}, {N} utterances, vocabulary {len(mechanism.model.tokens)}, one thread, {ROUNDS} rounds")
    rows = Rows()
    for variant, took in found.items():
        n, base = (N, next(iter(variants))) if "codebook of" not in variant else (WRITTEN, PLAIN_BOOK)
        if variant != base:
            rows.add(variant, f"times as fast as: {base}", paired(found[base], took), least=LEAST.get(variant))
        rows.note(variant, "microseconds an utterance", [1e6 * each / n for each in took])
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
