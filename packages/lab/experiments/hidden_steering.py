"""One noisy vector a label that steers a language model, measured as `language.py` does: a CSV.

    python packages/lab/experiments/hidden_steering.py OUT.csv [SPLIT ...] [--epsilons 1 4] [--seeds 0] [--size 700]

A unit's vector: the mean, over the tokens of its text, of the token's own vector less the one that the model expects
there (the gradient of the text's log-likelihood by a vector that is added before the last layer), in the main
directions of the model's choices on public texts, clipped at the median length of public texts' vectors. One sum a
label, one Gaussian. What is added is a step of Newton's, whose curvature is that of public texts, shrunk by what noise
has in each direction: to whatever the model writes, as many texts as one likes.

*gain*: nats a token that the test texts are likelier than without the vector.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
from language import SEED, SPLITS, records, taught

from dptext.language.writing import options_of, write
from dptext.privacy.guarantee import Relation
from dptext.sampling.randomness import seeded
from dptext.sampling.weights import draw_by_weight
from dptext.synthesis.pool import apportioned
from dptext.synthesis.sums import Draws, Noise, PrivateSum
from dptext_lab.baselines.prediction import Prediction

DIRECTIONS, AT_ONCE, METRIC_TEXTS = 64, 48, 60


class Steered:
    """A writer whose logits are moved by a vector."""

    def __init__(self, writer: Any) -> None:
        self.writer, self.words = writer, writer.model.network.words

    def read(self, label: int, texts: list[str], vectors: list[np.ndarray], metric: np.ndarray | None) -> Any:
        """Gradients `(n, dim)`, and ln of the likelihood of all tokens, first as it is, then with each vector."""
        writer, most = self.writer, self.writer.tokens
        found, logs = np.zeros((len(texts), self.words.shape[1])), np.zeros(1 + len(vectors))
        shifts = [np.zeros(len(self.words)), *(self.words @ vector for vector in vectors)]
        for start in range(0, len(texts), AT_ONCE):
            lines = [[*writer.read(text)[:most], writer.end] for text in texts[start : start + AT_ONCE]]
            contexts = writer.model.contexts([writer.prompt(label)] * len(lines), more=most + 1)
            for t in range(max(map(len, lines))):
                known = contexts.log_probabilities()
                open_ = np.array([t < len(line) for line in lines])
                tokens = np.array([line[t] if t < len(line) else writer.end for line in lines])
                chances = np.exp(known).astype(np.float32)
                expected = chances @ self.words
                found[start : start + len(lines)] += open_[:, None] * (self.words[tokens] - expected) / (most + 1)
                for k, shift in enumerate(shifts):
                    moved = known + shift
                    total = moved.max(axis=1) + np.log(np.exp(moved - moved.max(axis=1, keepdims=True)).sum(axis=1))
                    logs[k] += ((moved[np.arange(len(lines)), tokens] - total) * open_).sum()
                if metric is not None:
                    for row in np.flatnonzero(open_):
                        top = np.argpartition(-chances[row], 512)[:512]
                        apart = self.words[top] - expected[row]
                        metric += (apart * chances[row, top, None]).T @ apart
                contexts.append(tokens)
        return found, logs, sum(min(most + 1, len(writer.read(text)) + 1) for text in texts)

    def write(self, label: int, n: int, vector: np.ndarray, source: Any) -> list[str]:
        """At most n different texts."""
        writer, shift = self.writer, self.words @ vector

        def choose(known: np.ndarray, _: Any) -> np.ndarray:
            moved = known + shift
            there = options_of(moved, writer.options, writer.end)
            drawn = draw_by_weight(np.take_along_axis(moved, there, axis=1) / writer.temperature, source)
            return there[np.arange(len(there)), drawn]

        kept: list[str] = []
        for _ in range(2):
            prompts = [writer.prompt(label)] * (n - len(kept))
            written = write(writer.model, prompts, choose, end=writer.end, most=writer.tokens) if prompts else []
            kept = list(dict.fromkeys([*kept, *writer.readable(written)]))
        return kept


def measured(name: str, epsilons: list[float], seeds: list[int], size: int) -> Any:
    """The rows of a split."""
    split = SPLITS[name]
    pool, private, test = split.rows(random.Random(SEED))  # noqa: S311
    labels, names = tuple(split.names), tuple(split.names.values())
    base = [row for row in pool if row["label"] in split.known]
    own, given = [row["text"] for row in base], [row["label"] for row in base]
    spec = Prediction(
        labels=labels, names=names, about=len(private), relation="replace_one", tokens=split.tokens, size=size
    )
    shown = records(
        [{**row, "label": split.names.get(row["label"], row["label"].removeprefix("atis_"))} for row in pool]
    )
    steered = Steered(spec.fit(public=shown, seed=SEED).writer)
    began = time.process_time()
    dim = steered.words.shape[1]
    metric = np.zeros((dim, dim))
    public = [row["text"] for row in pool[: 2 * METRIC_TEXTS]]
    known, _, tokens = steered.read(0, public[:METRIC_TEXTS], [], metric)
    more, _, _ = steered.read(len(names) - 1, public[METRIC_TEXTS:], [], None)
    known, metric = np.concatenate([known, more]), metric / tokens
    values, axes = np.linalg.eigh(metric)
    values, axes = values[::-1][:DIRECTIONS], axes[:, ::-1][:, :DIRECTIONS]
    length = float(np.median(np.linalg.norm(known @ axes, axis=1)))
    private_rows = []
    for label, name_of in enumerate(labels):
        texts = [row["text"] for row in private if row["label"] == name_of]
        found, _, _ = steered.read(label, texts, [], None)
        points = found @ axes / length
        private_rows.append(points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True) * (1 + 1e-9)))
    read = time.process_time() - began
    cells = DIRECTIONS * len(labels)
    counts = np.array([len(rows) for rows in private_rows], float)  # of the mix; the real way has noise on them, too
    for epsilon in [*epsilons, math.inf]:
        noise = Noise(Prediction(epsilon=min(epsilon, 1e4)).rho, Relation.REPLACE_ONE)
        for seed in seeds if math.isfinite(epsilon) else seeds[:1]:
            began = time.process_time()
            source = seeded(seed)
            summed = PrivateSum(cells, noise, signed=cells)
            part = (1 - 1e-9) / math.sqrt(noise.sign_weight)  # of a vector of length 1
            for label, rows in enumerate(private_rows):
                where = np.tile(np.arange(DIRECTIONS) + label * DIRECTIONS, (len(rows), 1))
                summed.add(where, rows * part)
            sums = summed.release(Draws(source)).reshape(len(labels), DIRECTIONS) * (length / part)
            per_unit = sums / np.maximum(counts, 1.0)[:, None]
            variance = (noise.scale * length / part / np.maximum(counts, 1.0)) ** 2
            # a normal prior of vectors, whose size the noisy sums tell
            spread = max(float((per_unit**2 - variance[:, None]).mean() / (values**2).mean()), 1e-12)
            steps = values * per_unit / (values**2 + variance[:, None] / spread)
            vectors = list(steps @ axes.T)
            texts, found, logs, total = [], [], np.zeros(2), 0
            for label, m in enumerate(apportioned(counts, size).tolist()):
                some = [row["text"] for row in test if row["label"] == labels[label]][:30]
                if some:
                    _, one, tokens = steered.read(label, some, [vectors[label]], None)
                    logs, total = logs + one, total + tokens
                written = steered.write(label, m, vectors[label], source)
                texts, found = texts + written, found + [labels[label]] * len(written)
            for text, label in list(zip(texts, found, strict=True))[:: max(1, len(texts) // 10)]:
                print(f"    {label}: {text}")
            yield {
                "split": name, "row": "steering", "epsilon": epsilon, "seed": seed,
                **taught(own + texts, given + found, test), "texts": len(texts),
                "gain": round(float(logs[1] - logs[0]) / total, 4),
                "seconds": round(time.process_time() - began + read),
            }  # fmt: skip


def main() -> None:
    """Measure the splits that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("splits", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--size", type=int, default=700)
    given = parser.parse_args()
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer: Any = None
        for name in given.splits or SPLITS:
            for row in measured(name, given.epsilons, given.seeds, given.size):
                if writer is None:
                    writer = csv.DictWriter(file, row, lineterminator="\n")
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                print(row, flush=True)


if __name__ == "__main__":
    main()
