"""How much likelier steering makes real texts, and how fluent what it writes is, in nats a token.

    python packages/lab/experiments/language_gain.py [SPLIT] [--epsilons 1 4] [--texts 30]

*gain*: of test texts of each label (weighed alike), the mean log-probability of a token where log-probabilities are
shifted, less that where they are not; at the temperature of writing, after the same public examples. *fluency*: of
written texts, the mean log-probability of a token without a shift; beside it public-only writing and real texts.
"""

from __future__ import annotations

import argparse
import math
import random
from typing import Any

import numpy as np
from language import SEED, SPLITS, records

from dptext.sampling.randomness import seeded
from dptext.synthesis.steering import Steering
from dptext.synthesis.sums import Draws
from dptext.synthesis.word_targets import WordTargets
from dptext.synthesis.writer import Writer
from dptext.text.batches import Batch


def likelihood(
    writer: Writer,
    label: int,
    texts: list[list[int]],
    shift: np.ndarray | None = None,
    *,
    temperature: float = 1.0,
) -> float:
    """The mean log-probability of a token of these texts, and of their end."""
    total, n = 0.0, 0
    contexts = writer.model.contexts([writer.prompt(label)] * len(texts), more=writer.tokens + 1)
    for t in range(max(map(len, texts)) + 1):
        moved = contexts.log_probabilities() / temperature
        if shift is not None:
            moved = moved + shift
            for row, text in zip(moved, texts, strict=True):
                row[text[:t]] -= np.maximum(shift[text[:t]], 0.0)
        moved -= np.logaddexp.reduce(moved, axis=1, keepdims=True)
        tokens = [text[t] if t < len(text) else writer.end for text in texts]
        there = [i for i, text in enumerate(texts) if t <= len(text)]
        total, n = total + sum(moved[i, tokens[i]] for i in there), n + len(there)
        contexts.append(np.array(tokens))
    return total / n


def main() -> None:
    """Print a row an epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split", nargs="?", default=next(iter(SPLITS)))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--texts", type=int, default=30)
    given = parser.parse_args()
    split = SPLITS[given.split]
    pool, private, test = split.rows(random.Random(SEED))  # noqa: S311
    labels = tuple(split.names)
    shown = records([{**row, "label": split.names.get(row["label"], row["label"])} for row in pool])
    spec: dict[str, Any] = {
        "labels": labels, "names": tuple(split.names.values()), "tokens": split.tokens, "about": len(private),
        "relation": "replace_one",
    }  # fmt: skip

    def corpus() -> Any:
        yield Batch.of(records(private))

    print("| epsilon | gain | fluency: steered | public-only | real texts |\n|--:|--:|--:|--:|--:|")
    for epsilon in [*given.epsilons, math.inf]:
        fitted = Steering(**spec, epsilon=min(epsilon, 1e4)).fit(public=shown, seed=SEED)
        source, found = seeded(0), []
        summary = fitted.measures.measure(corpus, Draws(source))
        steered_by = WordTargets.of(summary, fitted.spec.writer).opened()
        writer = steered_by.writer
        for label, name in enumerate(labels):
            real = [writer.read(row["text"])[: split.tokens] for row in test if row["label"] == name]
            real = [text for text in real if text][: given.texts]
            if len(real) < 5:
                continue
            shift = steered_by.shift(label, label)
            warm = {"temperature": fitted.spec.temperature}
            plain = likelihood(writer, label, real, **warm)
            steered, _ = writer.shifted(label, given.texts, shift, source)
            public, _ = writer.shifted(label, given.texts, np.zeros_like(shift), source)
            found.append((
                likelihood(writer, label, real, shift, **warm) - plain,
                *(likelihood(writer, label, [text for text in texts if text]) for texts in (steered, public, real)),
            ))  # fmt: skip
        print(f"| {epsilon:g} | " + " | ".join(f"{each:.3f}" for each in np.mean(found, axis=0)) + " |", flush=True)


if __name__ == "__main__":
    main()
