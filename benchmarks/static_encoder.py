"""The encoder distilled into words against a plain `SentenceTransformer.encode(batch_size=32)`, as a ratio.

python benchmarks/static_encoder.py [--public 5000] [--sentences 384] [--rounds 3]
Fits it on public texts; then both in turn in one run, on other texts, on one thread: each
round's ratio. Its loss: the cosine to the plain vectors, and the plain cosine of a text to its nearest public text, as
the encoder and as the distilled one rank these. Utterances of SNIPS and sentences of IMDB where DPTEXT_DATA (default
../shared/data) has them, else the built-in sample. Exits 1 below 50 times on any.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.resources
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from _timing import Rows, paired, seconds
from dptext import sample_records
from dptext.embeddings.distilled import common_words, distil_with_words
from dptext.embeddings.embedder import PACKAGE
from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.text.tokens import sentences

MIN_RATIO = 50
REPEATS = 10  # of the distilled encoder in a round: one is over too soon to be timed
ROWS = {"snips": 13_000, "imdb": 3_000}


def corpora(n: int) -> Iterator[tuple[str, list[str]]]:
    """At most n distinct texts of each corpus, in a fixed order."""
    folder = Path(os.environ.get("DPTEXT_DATA", "../shared/data"))
    here = [name for name in ROWS if (folder / name / f"{name}.jsonl.gz").is_file()]
    for name in here:
        draw = np.random.default_rng(0)
        with gzip.open(folder / name / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows = [json.loads(line)["text"] for line in file]
        some = [rows[i] for i in draw.permutation(len(rows))[: ROWS[name]]]
        distinct = sorted({part for text in some for part in (sentences(text) if name == "imdb" else [text])})
        yield name, [distinct[i] for i in draw.permutation(len(distinct))[:n]]
    if not here:
        yield "built-in sample", list(dict.fromkeys(record.text for record in sample_records(2 * n)))[:n]


def kept(known: np.ndarray, read: np.ndarray, public: np.ndarray) -> float:
    """Mean cosine of each text to the public text that is the nearest as the text is `read`."""
    middle = public.mean(axis=0)
    away = public - middle
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    return float((known * public[((read - middle) @ away.T).argmax(axis=1)]).sum(axis=1).mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", type=int, default=5000)
    parser.add_argument("--sentences", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with importlib.resources.as_file(importlib.resources.files(PACKAGE) / "model") as path:
        plain = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    teacher = load_sentence_encoder()
    rows = Rows()
    for name, texts in corpora(options.public + options.sentences):
        new, public = texts[: options.sentences], texts[options.sentences :]
        began = time.perf_counter()
        said = teacher.embed(public)
        ours = distil_with_words(teacher, public, said, common=common_words())
        fitted = time.perf_counter() - began
        times = seconds(
            {
                "encode": lambda new=new: plain.encode(new, batch_size=32, show_progress_bar=False),
                "ours": lambda new=new, ours=ours: [ours.embed(new) for _ in range(REPEATS)],
            },
            options.rounds,
        )
        ratios = paired(times["encode"], times["ours"], REPEATS)
        rows.add(name, "times as fast as encode(batch_size=32)", ratios, least=MIN_RATIO)
        known, read = plain.encode(new, batch_size=32, show_progress_bar=False), ours.embed(new)
        print(
            f"{name}: {len(new) * REPEATS / min(times['ours']):,.0f} texts a second, {len(ours.words):,} words, "
            f"fitted in {fitted:.0f} s; mean cosine {(known * read).sum(axis=1).mean():.3f}; nearest kept "
            f"{kept(known, read, said):.3f}, by the encoder {kept(known, known, said):.3f}",
            flush=True,
        )
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
