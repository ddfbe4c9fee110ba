"""The shifted task: the private part of SNIPS has another class balance, and one class has 50 public texts.

    python packages/lab/experiments/adept_sound/shift.py --epsilons 2,5,10

L1 error of the class balance recovered from the outputs: public-only, label randomized response, each mechanism as it
is, and debiased by its confusion on public held-out texts. Finds the corpora by DPTEXT_DATA (default ../shared/data).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from grid import SEED, VECTORS, fit, mechanisms, utterances, write_json

from dptext import LabelOnly, Record, privatize
from dptext.embeddings.encoders import PublicVectors
from dptext.estimates import Estimate
from dptext.utility.balance import balance_error, confusion_matrix, shifted_split
from dptext.utility.tables import baselines

SHARES = {
    "AddToPlaylist": 0.05,
    "BookRestaurant": 0.15,
    "GetWeather": 0.35,
    "PlayMusic": 0.25,
    "RateBook": 0.05,
    "SearchCreativeWork": 0.10,
    "SearchScreeningEvent": 0.05,
}
SCARCE, SCARCE_PUBLIC = "GetWeather", 50


def main() -> int:
    """Print one row a mechanism and epsilon; keep them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", default="2,5,10")
    parser.add_argument("--only", default="laplace_l2;gaussian;privunit;codebook", help="as for grid.py")
    parser.add_argument("--out", type=Path, default=Path("build/adept_sound"))
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    records = utterances("snips")
    public, private = shifted_split(
        records, shares=SHARES, scarce=SCARCE, scarce_public=SCARCE_PUBLIC, private_size=5000, seed=SEED
    )
    labels, true = tuple(SHARES), [record.label for record in private]
    print(
        f"{len(public)} public records, {sum(r.label == SCARCE for r in public)} of {SCARCE}; {len(private)} private\n"
    )
    print("| epsilon | outputs | balance read | L1 error |\n|---|---|---|---|", flush=True)
    found: list[dict[str, object]] = []

    def show(epsilon: float | None, outputs: str, how: str, error: Estimate) -> None:
        found.append({"epsilon": epsilon, "outputs": outputs, "how": how, "error": error.to_dict()})
        at = "-" if epsilon is None else f"{epsilon:g}"
        print(f"| {at} | {outputs} | {how} | {error.value:.4f} [{error.low:.4f}, {error.high:.4f}] |", flush=True)

    for name, releases in baselines(private, public, labels=labels, seed=SEED).items():
        show(None, name, "as it is", balance_error(true, [r.label for r in releases], labels))
    held = np.random.default_rng(SEED).random(len(public)) < 0.25
    trained: list[Record] = [record for record, out in zip(public, held, strict=True) if not out]
    asked: list[Record] = [record for record, out in zip(public, held, strict=True) if out]
    for epsilon in (float(text) for text in given.epsilons.split(",")):
        only = [r.label for r in privatize(private, LabelOnly(labels, epsilon).fit(public=public, seed=SEED))]
        show(epsilon, "label_only", "as it is", balance_error(true, only, labels))
        show(epsilon, "label_only", "debiased by k-RR", balance_error(true, only, labels, epsilon=epsilon))
        named = mechanisms(labels, epsilon)
        for outputs in ("candidates", "candidates, label weight 3", *given.only.split(";")):
            mechanism = fit(named[outputs], trained)
            released = [r.label for r in privatize(private, mechanism)]
            # the public texts are no private records: asking about them costs nothing, and many times is better
            answers = [r.label for _ in range(20) for r in privatize(asked, mechanism)]
            matrix = confusion_matrix([r.label for _ in range(20) for r in asked], answers, labels)
            show(epsilon, outputs, "as it is", balance_error(true, released, labels))
            show(epsilon, outputs, "debiased by public confusion", balance_error(true, released, labels, matrix=matrix))
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "shift.json", found)
    return 0


if __name__ == "__main__":
    with PublicVectors(VECTORS).learning():  # the corpora are public: each text is embedded once
        sys.exit(main())
