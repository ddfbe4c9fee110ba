"""The paper's Table 1 on the built-in sample, whose texts are generated: what became of some utterances.

    python packages/lab/experiments/adept_paper/sample_table.py

Published ADePT is trained on the private half, as in the paper; `adept` on the public half. Markdown to the terminal.
"""

from __future__ import annotations

import sys

import torch

from dptext import Record, sample_records
from dptext.sampling.randomness import seeded
from dptext.text.samples import SAMPLE_LABELS
from dptext_lab import Adept, PublishedAdept

SEED = 46
SHOWN = 6
POINTS = ((5.0, "gaussian", 0.25), (5.0, "laplace", 1.0), (1.0, "laplace", 0.25))


def main() -> int:
    """Train four systems and print their outputs for the same records."""
    torch.set_num_threads(1)
    records = sample_records(2400)
    public, private = records[:1200], records[1200:]
    shown = private[:SHOWN]
    columns = {"original": [(record.label, record.text) for record in shown]}
    for clip, noise, variance in POINTS:
        spec = PublishedAdept(variance=variance, noise=noise, labels=SAMPLE_LABELS, clip_norm=clip, max_tokens=24)
        claimed, true = spec.vector_noise.claimed.epsilon, spec.vector_noise.true_epsilon
        name = f"published, C = {clip:g}, {noise}, variance {variance:g} (claimed {claimed:.3g}, true {true:.3g})"
        columns[name] = written(spec.fit(private=private, seed=SEED), shown)
    sound = Adept(epsilon=10.0, labels=SAMPLE_LABELS).fit(public=public, seed=SEED)
    columns["`adept`, epsilon 10"] = written(sound, shown)
    for i in range(SHOWN):
        print("| system | label | text |\n|---|---|---|")
        for name, rows in columns.items():
            label, text = rows[i]
            print(f"| {name} | {label or '-'} | {text} |")
        print()
    return 0


def written(mechanism: object, records: list[Record]) -> list[tuple[str | None, str]]:
    """Label and text of one release of each record."""
    releases = mechanism.privatize(records, seeded(SEED))  # type: ignore[attr-defined]
    return [(release.label, release.output) for release in releases]


if __name__ == "__main__":
    sys.exit(main())
