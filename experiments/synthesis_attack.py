"""Is a canary record in the corpus? Thousands of runs of a synthesis with it and without it.

    python experiments/synthesis_attack.py [RUNS]
    python experiments/synthesis_attack.py RUNS whole

The corpus: 600 texts of SNIPS, a pool of 1,000, seven intents, epsilon 1 and 4. Canaries: 200 other texts and 40 of
another corpus, each under one of the labels; the one that adds the longest vector is taken. Two attackers know
everything but whether the canary is there. One sees the noisy sums (which are no release) and projects them on what the
canary adds. The other sees what leaves: how many texts have the canary's label, and how near these are to it. Each
chooses its threshold on half of the runs.

With `whole`, every run is a whole `dptext.synthesize`: it reads and embeds all texts (60, a pool of 120, GloVe), with
the canary's text among them or not, and the attacker sees what leaves and the report.
"""

from __future__ import annotations

import math
import sys
from typing import Any
from unittest import mock

import numpy as np

import dptext as dp
from common import corpus_rows
from dptext.audits.bounds import epsilon_from_rates
from dptext.runs import synthesizing
from dptext.runs.synthesizing import Private
from dptext.sampling.source import seeded
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.sums import STEPS, PrivateSum
from dptext.text.batches import Batch
from dptext.text.records import Fields


def clean_sum(fitted: Any, records: list[dp.Record]) -> np.ndarray:
    """The sum of a corpus without noise, in steps; for the attack alone."""
    seen = []

    def watched(found: PrivateSum, _: object) -> np.ndarray:
        seen.append(found._clean())  # noqa: SLF001
        return seen[-1] / STEPS

    with mock.patch.object(PrivateSum, "release", watched):
        fitted.synthesize(lambda: (batch for batch in [Batch.of(records)]), seeded(0))
    return seen[0]


def bound(inside: np.ndarray, outside: np.ndarray, delta: float) -> float:
    """A lower bound of epsilon with 95%: the best threshold of one half, judged on the other."""
    half = len(inside) // 2
    best, found = 0.0, 0.0
    for cut in np.quantile(np.concatenate([inside[:half], outside[:half]]), np.linspace(0.02, 0.98, 49)):
        for sign in (1, -1):
            hits, false = (sign * inside[:half] > sign * cut).mean(), (sign * outside[:half] > sign * cut).mean()
            score = math.log(max(hits - delta, 1e-9) / max(false, 1 / half))
            if score > best:
                best = score
                true = int((sign * inside[half:] > sign * cut).sum()), int((sign * outside[half:] > sign * cut).sum())
                rest = len(inside) - half
                found = epsilon_from_rates(true[0], rest, false_positives=true[1], negatives=rest, delta=delta).epsilon
    return found


def whole(records: list[dp.Record], labels: tuple[str, ...], canary: dp.Record, runs: int) -> None:
    """Print what leaves whole runs, with the canary or without it, shows of epsilon."""
    pool, private = records[:120], records[120:180]
    place = labels.index(canary.label or "")
    print("| epsilon | runs | shown by what leaves |\n|--:|--:|--:|")
    for epsilon in (1.0, 4.0):
        spec = Prototypes(labels=labels, epsilon=epsilon, about=60, dim=8, words=0, size=60, encoder="glove")
        fitted = spec.fit(public=pool)
        near = fitted.pool.points @ fitted.pool.space.points([canary.text])[0]
        at = {text: i for i, text in enumerate(fitted.pool.texts)}
        seen: list[list[list[float]]] = [[], []]
        for run in range(2 * runs):
            given = [*private, canary] if run % 2 else private
            out = synthesizing.run(Private(given, Fields(), {}), fitted, randomness=seeded(run))
            mine = [at[each.output] for each in out.releases if each.label == canary.label]
            assert out.report.fit is not None
            told = [len(mine), near[mine].sum(), out.report.counts[place][0], out.report.fit.share]
            seen[run % 2].append([float(each) for each in told])
        outside, inside = map(np.array, seen)
        shown = max(bound(inside[:, i], outside[:, i], spec.delta) for i in range(inside.shape[1]))
        print(f"| {epsilon:g} | {runs:,} | {shown:.2f} |", flush=True)


def main() -> None:
    """Print mu of the sums, and the bound from what leaves, for the worst canary."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    rows = list(corpus_rows("snips"))
    labels = tuple(sorted({row["label"] for row in rows}))
    records = [dp.Record(str(i), row["text"], label=row["label"]) for i, row in enumerate(rows[:4000])]
    if sys.argv[2:] == ["whole"]:
        whole(records, labels, dp.Record("canary", next(iter(corpus_rows("atis")))["text"], label=labels[0]), runs)
        return
    pool, private = records[:1000], records[1000:1600]
    foreign = [row["text"] for _, row in zip(range(40), corpus_rows("atis"), strict=False)]
    print("| epsilon | stated mu | mu of the worst canary on the sums | epsilon shown by the sums | by what leaves |")
    print("|--:|--:|--:|--:|--:|")
    for epsilon in (1.0, 4.0):
        spec = Prototypes(labels=labels, epsilon=epsilon, about=600, dim=32, words=100)
        fitted = spec.fit(public=pool)
        noise = spec.noise()
        base = clean_sum(fitted, private)
        added = []
        for i, text in enumerate([*(record.text for record in records[1600:1800]), *foreign]):
            added.append(clean_sum(fitted, [dp.Record("canary", text, label=labels[i % len(labels)])]))  # sums add up
        worst = max(added, key=lambda vector: int((vector**2).sum()))
        stated = STEPS / noise.sigma
        direction = worst / np.linalg.norm(worst)
        label = int(np.flatnonzero(worst[:-1].reshape(len(labels), -1)[:, -1])[0])
        sums: list[list[float]] = [[], []]
        seen: list[list[list[float]]] = [[], []]
        near = fitted.pool.points @ worst[:-1].reshape(len(labels), -1)[label, :-1]
        place = {text: i for i, text in enumerate(fitted.pool.texts)}
        for run in range(2 * runs):
            source = seeded(run)
            noisy = base + (run % 2) * worst + noise.draw(len(base), source)
            sums[run % 2].append(float(noisy @ direction))
            part = spec.point_length
            out = fitted._written(noisy / STEPS, part, part / 2, 1.0, source)  # noqa: SLF001
            mine = [place[text] for text, name in zip(out.texts, out.labels, strict=True) if name == labels[label]]
            seen[run % 2].append([len(mine), float(near[mine].sum()) if mine else 0.0])
        outside, inside = map(np.array, sums)
        mu = (inside.mean() - outside.mean()) / math.sqrt((inside.var(ddof=1) + outside.var(ddof=1)) / 2)
        error = 1.96 * math.sqrt(2 / runs)
        told = [np.array(each) for each in seen]
        shown = max(bound(told[1][:, i], told[0][:, i], spec.delta) for i in range(2))
        sums_say = bound(inside, outside, spec.delta)
        cells = [f"{stated:.3f}", f"{mu:.3f} [{mu - error:.3f}, {mu + error:.3f}]", f"{sums_say:.2f}", f"{shown:.2f}"]
        print(f"| {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
