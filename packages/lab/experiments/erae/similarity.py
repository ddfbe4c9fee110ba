"""Similarity of every choice at equal true epsilon a word, on one network that grid.py trained.

Below each table: by how much one choice is more similar than another, text by text, with a lower limit that is below
the true mean difference in 95 of 100 such experiments (bootstrap over the texts).

python packages/lab/experiments/erae/similarity.py --out build/erae --corpus blogs --network reward
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from grid import SEED, read_posts, split, write_json

from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.runs.models import load_model
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.randomness import secure, seeded
from dptext.text.files import Target
from dptext.text.records import Record, Release
from dptext.text.tokens import tokenize
from dptext.utility.fidelity import fidelity
from dptext_lab.figures import LINES, drawing

#: Choice and k.
CHOICES: tuple[tuple[Any, int], ...] = (
    ("two_set", 5),
    ("two_set_sampled", 5),
    ("top_k_rr", 1),
    ("top_k_rr", 5),
    ("hub", 0),
    ("exponential", 0),
    ("ae_dp", 0),
)
#: Which is held against which.
PAIRS = (
    (("top_k_rr", 1), ("two_set", 5)),
    (("top_k_rr", 5), ("two_set", 5)),
    (("top_k_rr", 1), ("two_set_sampled", 5)),
    (("top_k_rr", 1), ("exponential", 0)),
    (("top_k_rr", 1), ("hub", 0)),
)


def figure(found: list[dict[str, Any]], path: Path) -> None:
    """Similarity against the epsilon of a word, a line for each choice."""
    lines = {(row["choice"], row["k"]) for row in found if row["epsilon"]}
    with drawing(Target(path, force=True), title="Similarity of ER-AE by the choice of a word") as page:
        axes = page.add_subplot()
        for i, (choice, k) in enumerate(sorted(lines)):
            rows = sorted((r for r in found if (r["choice"], r["k"]) == (choice, k)), key=lambda r: r["epsilon"])
            colour, dashes = LINES[i % len(LINES)]
            middle = [r["value"] for r in rows]
            spread = [[r["value"] - r["low"] for r in rows], [r["high"] - r["value"] for r in rows]]
            style = {"color": colour, "linestyle": dashes, "marker": "os^D"[i // len(LINES)], "markersize": 4}
            name = choice + (f", k = {k}" if k else "")
            axes.errorbar([r["epsilon"] for r in rows], middle, yerr=spread, label=name, **style)
        for row in found:
            if not row["epsilon"] and row["choice"] == "public-only":
                axes.axhline(row["value"], color="#555555", linewidth=1)
                axes.annotate("public-only", (6, row["value"]), xytext=(0, -11), textcoords="offset points")
        axes.set_xlabel("epsilon of a word")
        axes.set_ylabel("cosine to the own original")
        axes.set_ylim(0, 1)
        axes.legend(loc="upper left")


class Rows:
    """The table, as it grows."""

    def __init__(self, records: list[Record], encoder: Any, *, tokens: int, kept: Path) -> None:
        self._records, self._encoder, self._tokens, self._kept = records, encoder, tokens, kept
        self._found: list[dict[str, Any]] = []

    def __call__(self, name: str, k: int, epsilon: float, released: list[Release[str]], seconds: float) -> None:
        """Measure and print one row, and keep it for the figure."""
        found = fidelity(self._records, released, embedder=self._encoder, seed=SEED)
        kept = "-" if found.tokens_kept is None else f"{found.tokens_kept.value:.3f}"
        speed = f"{len(released) / seconds:.0f}" if seconds else "-"
        shown = (f"{epsilon:g}", f"{epsilon * self._tokens:g}") if epsilon else ("-", "-")
        low, high = found.cosine.low, found.cosine.high
        self._found.append(
            {"choice": name, "k": k, "epsilon": epsilon, "value": found.cosine.value, "low": low, "high": high}
        )
        write_json(self._kept, self._found)
        print(
            f"| {name} | {k or '-'} | {' | '.join(shown)} | {found.cosine.value:.3f} [{low:.3f}, {high:.3f}] "
            f"| {kept} | {found.own_first.value:.3f} | {speed} |",
            flush=True,
        )


def main() -> None:
    """Print a table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/erae"))
    parser.add_argument("--corpus", choices=("blogs", "peer_reviews"), default="blogs")
    parser.add_argument("--network", default="reward")
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--epsilon", type=float, nargs="+", default=(6.0, 9.0, 10.0, 12.0))
    parser.add_argument("--figure", type=Path, help="draw what an earlier run found; run nothing")
    given = parser.parse_args()
    kept = given.out / given.corpus / f"similarity_{given.network.replace(' ', '_')}.json"
    if given.figure:
        figure(json.loads(kept.read_text("utf-8")), given.figure)
        return
    folder = given.out / given.corpus / f"network_{given.network.replace(' ', '_')}"
    if not folder.exists():
        sys.exit(f"Expected the network {folder}: run grid.py first.")
    trained: Any = load_model(folder)
    corpus = split(read_posts(given.corpus), training=30, attacked=20)
    source = np.random.default_rng(SEED)
    records = [corpus.attacked[i] for i in source.permutation(len(corpus.attacked))[: given.texts]]
    encoder = load_sentence_encoder(precision="bfloat16")
    print("| choice | k | epsilon a word | a text | cosine | tokens kept | own first of 100 | texts a second |")
    print("|" + "---|" * 8)

    row = Rows(records, encoder, tokens=trained.spec.max_tokens, kept=kept)
    public = [corpus.public[i].text for i in source.integers(0, len(corpus.public), len(records))]
    words = sorted({word for text in public for line in tokenize(text) for word in line})
    noise = [
        " ".join(words[i] for i in drawn)
        for drawn in source.integers(0, len(words), (len(records), trained.spec.max_tokens))
    ]
    row("public-only", 0, 0, released_as(records, public), 0)
    row("random", 0, 0, released_as(records, noise), 0)
    own = np.asarray(encoder.embed([record.text for record in records]), np.float64)
    lines = ["| more | less | epsilon a word | mean difference | at least (95%) |", "|" + "---|" * 5]
    for epsilon in given.epsilon:
        cosines: dict[tuple[Any, int], Any] = {}
        for choice, k in CHOICES:
            floor = {"two_set": 7.5, "two_set_sampled": 9.1}.get(choice, 0.0)  # of 8,001 options
            if epsilon <= floor:
                continue
            spec = replace(trained.spec, epsilon=epsilon, choice=choice, k=k)
            began = time.perf_counter()
            released = type(trained)(spec, trained.model).privatize(records, secure())
            row(choice, k, epsilon, released, time.perf_counter() - began)
            found = np.asarray(encoder.embed([release.output for release in released]), np.float64)
            cosines[choice, k] = np.einsum("ij,ij->i", own, found)
        for more, less in PAIRS:
            if more in cosines and less in cosines:
                gained = bootstrap(
                    cosines[more] - cosines[less], lambda d: float(d.mean()), source=seeded(SEED), confidence=0.9
                )
                names = " | ".join(f"{choice}{f', k = {k}' if k else ''}" for choice, k in (more, less))
                lines.append(f"| {names} | {epsilon:g} | {gained.value:.3f} | {gained.low:.3f} |")
    print("\n" + "\n".join(lines))


def released_as(records: list[Record], texts: list[str]) -> list[Release[str]]:
    """These texts as the releases of the records."""
    return [Release(record.id, text) for record, text in zip(records, texts, strict=True)]


if __name__ == "__main__":
    main()
