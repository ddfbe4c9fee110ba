"""Our encoder against a plain `SentenceTransformer.encode(batch_size=32)` over the same weights, as ratios.

python benchmarks/sentence_encoder.py [--sentences 384] [--rounds 5] [--corpora imdb snips 20newsgroups]
On one thread, in turn in one run: each round's ratio, the sentences a second, cosines to the plain vectors.
Distinct sentences of the corpora that DPTEXT_DATA (default ../shared/data) has, else the built-in sample. Then how many
vectors change with their company, and how many operations a second the products alone reach. Times are of the CPU.
First it says what the probe of the processor chose. Exits 1 below what is required there: bfloat16 5 times with every
cosine above .999, and int8 8 times with a mean cosine above .995, where AVX-512 multiplies them; else what AVX2 can
reach; or where a vector changes.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # before anything starts threads

import argparse
import gzip
import importlib.resources
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from _timing import Rows, paired, seconds
from dptext import sample_records
from dptext.embeddings.embedder import PACKAGE
from dptext.embeddings.sentence_encoder import SentenceEncoder, load_sentence_encoder
from dptext.embeddings.torch_network import TorchNetwork
from dptext.kernels import matrix_tiles, tiles
from dptext.kernels.linear import DTYPES, Linear, best_there_is, room
from dptext.kernels.products import SPARE, int_products, products, rounded_products
from dptext.text.tokens import sentences

#: Precision, least ratio, the cosine that counts, how large it must be: with AVX-512 and bfloat16, without bfloat16,
#: and without AVX-512.
WANTED = {"bfloat16": (5.0, np.min, 0.999), "int8": (8.0, np.mean, 0.995)}
WANTED_OF_WIDE = {"float32": (2.0, np.min, 0.99999), "int8": WANTED["int8"]}
WANTED_OF_NARROW = {"float32": (1.3, np.min, 0.99999), "int8": (1.8, np.mean, 0.995)}
DOCUMENTS = 2000
ENCODE = "times as fast as encode(batch_size=32)"
PRODUCTS = 20 * 2 * 256 * 384 * 1536  # operations of `products`
PIECES = 128


def corpus(name: str, n: int) -> tuple[str, list[str]]:
    """Distinct sentences in a fixed order."""
    draw = np.random.default_rng(0)
    path = Path(os.environ.get("DPTEXT_DATA", "../shared/data")) / name / f"{name}.jsonl.gz"
    if path.is_file():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line in file]
        some = draw.permutation(len(texts))[:DOCUMENTS]
        found = [sentence for i in some for sentence in sentences(texts[i])]
    else:
        name, found = "built-in sample", [record.text for record in sample_records(20 * n)]
    distinct = sorted(set(found))
    return name, [distinct[i] for i in draw.permutation(len(distinct))[:n]]


def changed(encoder: SentenceEncoder, texts: list[str]) -> int:
    """How many vectors are not bit for bit those that the texts have together."""
    together = encoder.network.vectors(texts)
    alone = np.concatenate([encoder.network.vectors([text]) for text in texts])
    order = np.random.default_rng(0).permutation(len(texts))
    moved = encoder.network.vectors([texts[i] for i in order])
    half = encoder.network.vectors(texts[: len(texts) // 2])
    pairs = ((alone, together), (moved, together[order]), (half, together[: len(half)]))
    return sum(int((found != known).any(axis=1).sum()) for found, known in pairs)


def products_of_a_layer(precision: str) -> Callable[[], None]:
    """The products of one layer's widest matrix, again and again, with nothing between them."""
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(size=(1536, 384)).astype(np.float32), np.zeros(1536, np.float32)
    layer = Linear.of(weights, bias, precision)
    n = 256
    rows = room(n + SPARE, 384, dtype=DTYPES[precision])
    out, scales, totals = room(n + SPARE, 1536), room(n + SPARE), room(n + SPARE, dtype=np.int32)
    tile = room(SPARE, tiles.COLUMNS, dtype=np.int32 if precision == "int8" else np.float32)

    def run() -> None:
        for _ in range(20):
            if precision == "int8":  # as the encoder does: in matrix registers where there are some
                (matrix_tiles.int_products if matrix_tiles.THERE else int_products)(
                    rows, n, layer.panels, layer.units, bias, scales, totals, tile, out
                )
            elif precision == "bfloat16":
                rounded_products(rows, n, layer.panels, bias, tile, out)
            else:
                products(rows, n, layer.panels, bias, tile, out)

    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--corpora", nargs="+", default=["imdb", "snips", "20newsgroups"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with importlib.resources.as_file(importlib.resources.files(PACKAGE) / "model") as path:
        plain = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    found = {precision: load_sentence_encoder(precision=precision) for precision in ("float32", "bfloat16", "int8")}
    encoders = {precision: encoder for precision, encoder in found.items() if encoder.precision == precision}
    blocks = SentenceEncoder("blocks", 384, "", "bfloat16", TorchNetwork(plain, "bfloat16"))
    wanted, there = (
        (WANTED, "AVX-512 with bfloat16")
        if tiles.HAS_BFLOAT16
        else (WANTED_OF_WIDE, "AVX-512 without bfloat16")
        if tiles.WIDE
        else (WANTED_OF_NARROW, "no AVX-512")
    )
    chosen = {asked: best_there_is(asked) for asked in ("auto", "int8")}
    print(f"probe: AVX-512 {tiles.WIDE}, tiles of {tiles.ROWS} rows and {tiles.COLUMNS} columns, {chosen}")
    print(f"matrix registers for bfloat16: {matrix_tiles.THERE}")
    rows = Rows()
    for name, texts in dict(corpus(asked, options.sentences) for asked in options.corpora).items():  # the sample once
        known = plain.encode(texts, batch_size=32, show_progress_bar=False)
        named = {f"ours, {name}": encoder for name, encoder in encoders.items()}
        if tiles.HAS_BFLOAT16:  # else torch emulates it
            named["ours by torch, bfloat16"] = blocks
        methods: dict[str, Callable[[], object]] = {
            "encode(batch_size=32)": lambda texts=texts: plain.encode(texts, batch_size=32, show_progress_bar=False),
            **{label: lambda texts=texts, one=one: one.embed(texts) for label, one in named.items()},
        }
        times = seconds(methods, options.rounds, clock=time.process_time)
        base = times.pop("encode(batch_size=32)")
        for label, taken in times.items():
            what = f"{name}: {label}"
            least, which, cosine = wanted.get(label.removeprefix("ours, "), (None, None, None))
            rows.add(what, ENCODE, paired(base, taken), least=least, processor=there if least else "")
            cosines = (named[label].network.vectors(texts) * known).sum(axis=1)
            for said, way in (("least", np.min), ("mean", np.mean)):
                if which is way:
                    rows.add(what, f"{said} cosine", [way(cosines)], least=cosine)
                else:
                    rows.note(what, f"{said} cosine", [way(cosines)])
            rows.note(what, "sentences a second", [len(texts) / each for each in taken])
        for precision, encoder in encoders.items():
            count, n = changed(encoder, texts[:PIECES]), 3 * PIECES - PIECES // 2
            rows.add(f"{name}: {precision}, vectors that change with their company", f"of {n}", [count], most=0)
    a, b = np.ones((256, 384), np.float32), np.ones((384, 1536), np.float32)
    rates = seconds(
        {
            "NumPy, float32": lambda: [a @ b for _ in range(20)],
            **{f"ours, {name}": products_of_a_layer(name) for name in encoders},
        },
        options.rounds,
        clock=time.process_time,
    )
    for label, taken in rates.items():
        what = f"products alone, 256 rows of 384 times 1,536 columns: {label}"
        rows.note(what, "thousands of millions of operations a second", [PRODUCTS / each / 1e9 for each in taken])
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
