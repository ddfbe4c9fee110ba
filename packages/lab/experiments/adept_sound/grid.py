"""The sound protocol: public 40%, private 40%, test 20%; every mechanism at document-level epsilon, with its baselines.

    python packages/lab/experiments/adept_sound/grid.py --corpus snips --epsilons 2,5,10

Finds the corpora by DPTEXT_DATA (default ../shared/data beside the checkout). A finished cell is kept under --out and
never run again; a killed run goes on where it was. `--only` picks mechanisms, `--table` only prints what is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from dptext import Candidates, LabelOnly, Record, Release, privatize
from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.mechanism import Mechanism
from dptext.text.writers import write_releases
from dptext.utility.tables import baselines, utility_table
from dptext_lab import Adept
from dptext_lab.adept.sound import AdeptCodebook

sys.path.append(str(Path(__file__).parents[1]))
from common import utterances, write_json

VECTORS = 200_000  # that are kept
SEED = 20250101
DELTA = 1e-5
CORPORA = ("snips", "atis")
#: Beside every mechanism, whatever --only picks.
BASELINES = ("label_only", "candidates")


def split(records: Sequence[Record]) -> tuple[list[Record], list[Record], list[Record]]:
    """Public 40%, private 40%, test 20%."""
    order = np.random.default_rng(SEED).permutation(len(records))
    first, second = round(0.4 * len(records)), round(0.8 * len(records))
    parts = (order[:first], order[first:second], order[second:])
    public, private, test = ([records[i] for i in part] for part in parts)
    return public, private, test


def mechanisms(labels: tuple[str, ...], epsilon: float) -> dict[str, Adept | LabelOnly | Candidates]:
    """Every row but the three that need no mechanism."""
    noisy = Adept(epsilon=epsilon, labels=labels, latent_dim=16, noise="privunit")
    sentence_medoid = LabelOnly(labels, epsilon, text="medoid", embedder="sentence")
    return {
        "label_only (random)": LabelOnly(labels, epsilon),
        "label_only (medoid)": sentence_medoid,
        "candidates": Candidates(epsilon, labels),
        "candidates, label weight 3": Candidates(epsilon, labels, label_weight=3.0),
        "laplace_l2": replace(noisy, noise="laplace_l2"),
        "laplace_l1": replace(noisy, noise="laplace_l1"),
        "l2_laplace": replace(noisy, noise="l2_laplace"),
        "gaussian": replace(noisy, noise="gaussian", delta=DELTA),
        "privunit": noisy,
        "privunit, LSTM": replace(noisy, encoder="lstm"),
        "codebook, LSTM": Adept(epsilon=epsilon, labels=labels, encoder="lstm"),
        "codebook, distilled": Adept(epsilon=epsilon, labels=labels, encoder="distilled"),
        "codebook": Adept(epsilon=epsilon, labels=labels),
    }


@cache
def written_codebook(spec: Adept, public: tuple[Record, ...]) -> AdeptCodebook:
    """A codebook, which is the same at every epsilon but for the choice in it."""
    fitted = spec.fit(public=public, seed=SEED)
    assert isinstance(fitted, AdeptCodebook)
    return fitted


def fit(spec: Adept | LabelOnly | Candidates, public: list[Record]) -> Mechanism[str]:
    """Fit a mechanism; all epsilons of a codebook share one network."""
    if not isinstance(spec, Adept) or spec.noise != "codebook":
        return spec.fit(public=public, seed=SEED)
    return spec.refit(written_codebook(replace(spec, epsilon=10.0), tuple(public)), public=public, seed=SEED)


def run_cell(spec: Adept | LabelOnly | Candidates, public: list[Record], private: list[Record], path: Path) -> None:
    """Fit, privatize with fresh randomness, keep the releases and the seconds."""
    began = time.monotonic()
    mechanism = fit(spec, public)
    fitted = time.monotonic()
    releases = list(privatize(private, mechanism))
    cached = isinstance(spec, Adept) and spec.noise == "codebook"  # the first of several epsilons pays for all
    seconds = {"fit": None if cached else fitted - began, "privatize": time.monotonic() - fitted}
    write_releases(path.with_suffix(".new.jsonl"), releases, force=True)
    write_json(path.with_suffix(".json"), {"seconds": seconds})
    path.with_suffix(".new.jsonl").replace(path)


def read_cell(path: Path, private: list[Record]) -> list[Release[str]]:
    """The releases of a finished cell."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [Release(record.id, row["text"], row["label"]) for record, row in zip(private, rows, strict=True)]


def main() -> int:
    """Run the cells that are missing and print one table an epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", choices=CORPORA, default="snips")
    parser.add_argument("--epsilons", default="2,5,10", help="1,2,5,10,20,50 is the whole grid")
    parser.add_argument("--only", default="", help="names of mechanisms, separated by semicolons")
    parser.add_argument("--classifier", choices=("tfidf", "bilstm"), default="bilstm")
    parser.add_argument("--out", type=Path, default=Path("build/adept_sound"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    public, private, test = split(utterances(given.corpus))
    labels = tuple(sorted({str(record.label) for record in public}))
    epsilons = [float(text) for text in given.epsilons.split(",")]
    only = {name.strip() for name in given.only.split(";") if name.strip()}
    folder = given.out / given.corpus
    folder.mkdir(parents=True, exist_ok=True)
    cells = {
        (epsilon, name): (spec, folder / f"{name.replace(' ', '_').replace(',', '')}-{epsilon:g}.jsonl")
        for epsilon in epsilons
        for name, spec in mechanisms(labels, epsilon).items()
        if not only or name in only or name.startswith(BASELINES)
    }
    embedder = load_encoder()
    left = [] if given.table else [key for key, (_, path) in cells.items() if not path.exists()]
    took: list[float] = []
    for number, key in enumerate(left, start=1):
        began = time.monotonic()
        run_cell(cells[key][0], public, private, cells[key][1])
        took.append(time.monotonic() - began)
        hours = (len(left) - number) * float(np.mean(took)) / 3600
        print(f"{number}/{len(left)} {key[1]} epsilon {key[0]:g}: {took[-1]:.0f} s, {hours:.2f} h left", flush=True)
    for epsilon in epsilons:
        rows = baselines(private, public, labels=labels, seed=SEED)
        rows |= {
            name: read_cell(path, private) for (at, name), (_, path) in cells.items() if at == epsilon and path.exists()
        }
        table = utility_table(
            rows, private=private, test=test, embedder=embedder, classifier=given.classifier, seed=SEED
        )
        write_json(folder / f"table-{epsilon:g}.json", table.to_dict())
        print(f"\n{given.corpus}, epsilon {epsilon:g} per document\n\n{table.to_markdown()}", flush=True)
    return 0


if __name__ == "__main__":
    with PublicVectors(VECTORS).learning():  # the corpora are public: each text is embedded once
        sys.exit(main())
