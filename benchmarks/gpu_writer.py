"""What a language model writes a second: by our kernels, by transformers on the CPU, and on a GPU where there is one.

    python benchmarks/gpu_writer.py [TEXTS]

SmolLM2-135M-Instruct writes so many texts (256) of at most 24 tokens after six examples, after one round that warms up.
The GPU writes eight times as many, 256 at once for 64 on the CPU. A line says how often as fast each is as our kernels,
its tokens a second, the most memory of the GPU, the mean log-probability of a drawn token, and the share of texts with
a word that is made likelier. Exits 1 if these two differ between writers by more than chance explains, 3 if the model
is not installed. Without a GPU this is said, and the CPU alone is measured.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

import dptext as dp
from dptext.language.reading import INSTALL, is_there, load_language_model, packaged
from dptext.sampling.randomness import seeded
from dptext.synthesis.from_transformers import TorchLines
from dptext.synthesis.writer import LineWriter, Writer

WORD, SHIFT, TOKENS = " ticket", 4.0, 24
LABELS = ("travel", "money")


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


def differs(one: Measured, other: Measured) -> bool:
    """Whether quality differs by more than four deviations."""
    chance = math.hypot(one.deviation, other.deviation)
    mean = (one.share + other.share) / 2
    apart = math.sqrt(mean * (1 - mean) * (1 / one.texts + 1 / other.texts)) + 0.01
    return abs(one.likely - other.likely) > 4 * chance or abs(one.share - other.share) > 4 * apart


def main() -> int:
    texts = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    if not is_there("smollm2"):
        print(f"Not measured: SmolLM2 is not installed. Run: {INSTALL}")
        return 3
    import torch

    from dptext.language.torch_model import load_torch_model

    examples = [record for record in dp.sample_records(60, seed=1) if record.label in LABELS][:6]
    given = {"tokens": TOKENS, "temperature": 0.7, "options": 512}
    ours = measured(Writer.of(load_language_model().fast(), LABELS, LABELS, examples, **given), texts)
    print("| writer | times as fast as our kernels | tokens a second | MiB of the GPU | nats a token | with the word |")
    print("|---|--:|--:|--:|--:|--:|")
    print(f"| our kernels | 1 | {ours.speed:,.0f} | | {ours.likely:.3f} | {ours.share:.2f} |", flush=True)
    good = True
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        model = load_torch_model(str(packaged()), device=device)
        found = measured(
            TorchLines.of(model, LABELS, LABELS, examples, **given), texts * (8 if device == "cuda" else 1)
        )
        memory = f"{torch.cuda.max_memory_allocated() / 2**20:,.0f}" if device == "cuda" else ""
        row = f"{found.speed:,.0f} | {memory} | {found.likely:.3f} | {found.share:.2f}"
        print(f"| transformers, {device} | {found.speed / ours.speed:.2f} | {row} |", flush=True)
        good &= not differs(ours, found)
    if not torch.cuda.is_available():
        print("No GPU is here: it was not measured.")
    if not good:
        print("missed: what is written differs between writers by more than chance explains")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
