"""What DeepCandidate loses where a distilled encoder reads the private sentences, beside the encoder itself.

    python packages/lab/experiments/deep_candidate/distilled.py --corpus imdb [--public 6000] [--private \
        1000] [--epsilon 3 10]

Documents, classifier and scores are those of grid.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from grid import ALL, CLASSIFIER, SEED, VECTORS, Trial, choices, drawn, read_corpus

from dptext.embeddings.encoders import PublicVectors
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.mechanisms.sentences.document_candidates import Utility

UTILITIES: tuple[Utility, ...] = ("similarity", "whitened", "mixed")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=("imdb", "20newsgroups"), required=True)
    parser.add_argument("--public", type=int, default=6000, help="public documents at most")
    parser.add_argument("--private", type=int, default=1000, help="private documents at most")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=(3.0, 10.0))
    given = parser.parse_args()
    with PublicVectors(VECTORS).learning():  # the corpora are public: each sentence is embedded once
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Print the table."""
    train, test = read_corpus(given.corpus)
    trial = Trial(drawn(train, given.public), {ALL: drawn(test, given.private)}, Path())
    print("| utility | encoder | epsilon | macro-F1 | label kept | centred cosine |")
    print("|" + "---|" * 6)
    for epsilon in given.epsilon:
        for utility in UTILITIES:
            labels = trial.labels if utility == "mixed" else ()
            for encoder in ("all-MiniLM-L6-v2", "distilled"):
                spec = DeepCandidate(epsilon, labels, utility=utility, encoder=encoder, precision="bfloat16")
                mechanism = spec.fit(public=trial.public, seed=SEED)
                found = choices(trial, mechanism, trial.private[ALL], given.trials)
                shown = [float(np.mean([one[key] for one in found])) for key in (CLASSIFIER, "label", "cosine")]
                rest = " | ".join(f"{number:.3f}" for number in shown)
                print(f"| {utility} | {encoder} | {epsilon:g} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
