"""One summary, and what each writer makes of it, through the commands: a CSV.

    python packages/lab/experiments/writers.py OUT.csv [SPLIT ...] [--epsilons 1] [--seeds 0] [--size 1000]
        [--rows builtin model ...]

Each run is `dptext summarize` and `dptext write` in processes of their own. Splits and judge are those of `summary.py`.
The language model is SmolLM2-135M-Instruct in all rows. Its server is llama.cpp on this machine. Rows:

- *builtin*, *model*, *bias*: shifts of logits, by our kernels, by transformers, and by biases that the server takes.
- *words*, *words and bias*: key words in what the server is asked, alone and with biases.
- *chat*, *chat, words*: the model's chat template, with shifts by transformers, and with key words by the server.
- *nothing*, *nothing, chat*: nothing steers (the server); the numbers of texts alone follow the summary.
- *public-only* (rows of `summary.py`): the same model by our kernels writes as many texts from the same examples, and a
  summary of its own drafts reads and filters them. *random*: random labels on as many texts of the pool.

Columns: *accuracy* and *macro_f1* of a classifier that learns from the labelled part of the pool and what was written;
*own*: share of texts that the noisy class means read as their label; *copies*: share of texts of the pool; *nats*: a
token of the texts, by the model itself after a line break; *rate*: texts a second, drafts and loading included.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common import append_rows
from language import SEED, SPLITS
from llama_server import serving
from summary import Case, dptext, got

from dptext.language.reading import packaged
from dptext.language.torch_model import TorchModel, load_torch_model

Row = dict[str, Any]
ENDPOINT = "endpoint:BASE#smollm2"
WAYS: dict[str, tuple[str, ...]] = {
    "builtin": ("builtin",),
    "model": (f"model:{packaged()}",),
    "bias": (ENDPOINT, "--set", "by=bias"),
    "words": (ENDPOINT, "--set", "by=words"),
    "words and bias": (ENDPOINT, "--set", "by=both"),
    "chat": (f"model:{packaged()}", "--template", "chat"),
    "chat, words": (ENDPOINT, "--template", "chat", "--set", "by=words"),
    "nothing": (ENDPOINT, "--set", "steered=false"),
    "nothing, chat": (ENDPOINT, "--template", "chat", "--set", "steered=false"),
}


def nats(model: TorchModel, texts: list[str]) -> float:
    """Return the mean of -ln p of a token of the texts, each after a line break."""
    summed, tokens, before = 0.0, 0, model.tokens("\n")
    with torch.inference_mode():
        for text in texts[:400]:
            own = model.tokens(text)
            rows = torch.tensor([[*before, *own]])
            logits = torch.log_softmax(model.network(rows).logits[0].float(), dim=-1)
            summed -= float(logits[len(before) - 1 : -1].gather(1, rows[0, len(before) :, None]).sum())
            tokens += len(own)
    return summed / max(1, tokens)


def found(said: str, pattern: str) -> float | str:
    """Return the number that a sentence says; empty if it is not there."""
    there = re.search(pattern, said)
    return float(there.group(1).replace(",", "")) if there else ""


def rows_of(case: Case, given: argparse.Namespace, base: str) -> Iterator[Row]:
    """Measure the writers on a split."""
    model = load_torch_model(str(packaged()), device="cpu")
    real = [row["text"] for row in case.private], [row["label"] for row in case.private]
    none = dict.fromkeys(("own", "copies", "nats", "rate"), "")
    yield {**case.line("original", "", 0, real, time.time()), **none, "nats": round(nats(model, real[0]), 3)}
    rng = random.Random(SEED)  # noqa: S311
    pool = [json.loads(line)["text"] for line in case.pool.read_text().splitlines()]
    drawn = rng.sample(pool, min(given.size, len(pool)))
    labels = [rng.choice(list(case.split.names)) for _ in drawn]
    yield {**case.line("random", "", 0, (drawn, labels), time.time()), **none, "nats": round(nats(model, drawn), 3)}
    for seed in given.seeds:
        for epsilon in given.epsilons:
            summary = case.folder / f"{epsilon}.summary"
            case.summarized(epsilon, summary, seed, None)
            if epsilon == given.epsilons[0]:
                yield from ({**row, **none} for row in case.public_only(summary, seed, ["builtin"]))
            for row in given.rows:
                writer, *more = (part.replace("BASE", base) for part in WAYS[row])
                out, began = case.folder / "written.jsonl", time.time()
                said = dptext(
                    "write", summary, out, "--writer", writer, *more, "--size", given.size, "--seed", seed, "--force"
                )
                spent, made = time.time() - began, got(out)
                print(
                    row, said, *(f"    {b}: {a}" for a, b in list(zip(*made, strict=True))[:20]), sep="\n", flush=True
                )
                copies = found(said, r"Copies of public texts: ([\d,]+) of")
                yield {
                    **case.line(row, epsilon, seed, made, began), "own": found(said, r"read (\d+)% of the texts"),
                    "copies": round(copies / len(made[0]), 3) if copies != "" else "",
                    "nats": round(nats(model, made[0]), 3), "rate": round(len(made[0]) / spent, 2),
                }  # fmt: skip


def main() -> None:
    """Measure the splits that are named, or the first of `language.py`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--rows", nargs="+", default=list(WAYS), choices=list(WAYS))
    given = parser.parse_args()

    def every() -> Iterator[Row]:
        for name in given.splits or list(SPLITS)[:1]:
            with TemporaryDirectory() as folder, serving() as base:
                yield from rows_of(Case(name, Path(folder), given.size, []), given, base)

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
