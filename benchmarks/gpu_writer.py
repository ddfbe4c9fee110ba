"""What a language model writes a second: by our kernels, by transformers on the CPU, and on a GPU.

    python benchmarks/gpu_writer.py [TEXTS]

SmolLM2-135M-Instruct writes so many texts (256) of at most 24 tokens after six examples, after one round that warms up;
three rounds in turn. The GPU writes eight times as many, 256 at once for 64 on the CPU. Exits 1 if the mean
log-probability of a drawn token, or the share of texts with a word that is made likelier, differs between writers by
more than chance explains, 3 if the model is not installed. Without a GPU nothing is measured: `writing.py` has the CPU.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

import dptext as dp
from _timing import Rows, paired
from dptext.language.reading import INSTALL, is_there, load_language_model, packaged
from dptext.sampling.randomness import seeded
from dptext.synthesis.from_transformers import TorchLines
from dptext.synthesis.writer import LineWriter, Writer

WORD, SHIFT, TOKENS = " ticket", 4.0, 24
LABELS = ("travel", "money")
ROUNDS, MOST = 3, 4.0  # deviations of chance


@dataclass(frozen=True)
class Measured:
    """Tokens a second, the mean log-probability of a token with its deviation, the share with the word, and texts."""

    speed: float
    likely: float
    deviation: float
    share: float
    texts: int


def measured(writer: LineWriter, texts: int) -> Measured:
    shift = np.zeros(writer.model.size)
    writer.shifted(0, 32, shift, seeded(0))
    began = time.perf_counter()
    plain = writer.shifted(0, texts, shift, seeded(1))
    speed = plain.drawn / (time.perf_counter() - began)
    shift[writer.model.tokens(WORD)] = SHIFT
    moved = [writer.model.text(tokens) for tokens in writer.shifted(0, texts, shift, seeded(2)).texts]
    share = float(np.mean([WORD.strip() in text.lower() for text in moved]))
    # A token's log-probability varies by about two nats, and those of a text hang together.
    return Measured(speed, plain.likely / plain.drawn, 2.0 / math.sqrt(texts), share, texts)


def apart(one: Measured, other: Measured) -> tuple[float, float]:
    """How many deviations of chance lie between the log-probabilities, and between the shares."""
    mean = (one.share + other.share) / 2
    chance = math.sqrt(mean * (1 - mean) * (1 / one.texts + 1 / other.texts)) + 0.01
    likely = abs(one.likely - other.likely) / math.hypot(one.deviation, other.deviation)
    return likely, abs(one.share - other.share) / chance


def main() -> int:
    texts, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 256, Rows()
    if not is_there("smollm2"):
        rows.absent("all", f"SmolLM2 is not installed ({INSTALL})")
        return rows.code
    import torch

    from dptext.language.torch_model import load_torch_model

    if not torch.cuda.is_available():
        rows.absent("writing on a GPU", "no GPU is here", code=0)
        return rows.code
    examples = [record for record in dp.sample_records(60, seed=1) if record.label in LABELS][:6]
    given = {"tokens": TOKENS, "temperature": 0.7, "options": 512}
    writers: dict[str, tuple[LineWriter, int]] = {
        "ours": (Writer.of(load_language_model().fast(), LABELS, LABELS, examples, **given), texts)
    }
    for device, more in (("cpu", 1), ("cuda", 8)):
        model = load_torch_model(str(packaged()), device=device)
        writers[device] = TorchLines.of(model, LABELS, LABELS, examples, **given), texts * more
    rounds = [{name: measured(*each) for name, each in writers.items()} for _ in range(ROUNDS)]
    speeds = {name: [found[name].speed for found in rounds] for name in writers}
    for device in ("cpu", "cuda"):
        name = f"transformers, {device}"
        rows.add(name, "times as fast as our kernels", paired(speeds[device], speeds["ours"]))
        likely, shares = zip(*(apart(found["ours"], found[device]) for found in rounds), strict=True)
        rows.add(f"{name}: nats a token", "deviations of chance from ours", likely, most=MOST)
        rows.add(f"{name}: texts with the word", "deviations of chance from ours", shares, most=MOST)
    for name, found in speeds.items():
        rows.note(name, "tokens a second", found)
    rows.note("memory of the GPU", "MiB at most", [torch.cuda.max_memory_allocated() / 2**20])
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
