"""The tables and the figure of docs/results/synthesis.md, from what experiments/synthesis.py wrote.

python experiments/synthesis_tables.py OUT.csv ... [--figure FIGURE.svg] [--reduce measured_synthesis.json]
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path

import numpy as np

from dptext.report import LINES, drawing
from dptext.text.files import Target

EPSILONS = (0.5, 1.0, 2.0, 4.0, math.inf)
WAYS = ("prototypes", "votes")
BESIDE = ("original", "public-only", "random", "label_only", "candidates")
Rows = list[dict[str, str]]


def mean(rows: Rows, split: str, row: str, column: str, epsilon: float | None = None) -> tuple[float, float]:
    """The mean over seeds and its spread (the largest distance from it); NaN where nothing was measured."""
    found = [
        float(each[column])
        for each in rows
        if (each["split"], each["row"]) == (split, row)
        and each.get(column)
        and epsilon in (None, float(each["epsilon"]))
    ]
    middle = float(np.mean(found)) if found else math.nan
    return middle, max((abs(each - middle) for each in found), default=math.nan)


def accuracies(rows: Rows) -> str:
    """Accuracy by split, spread over seeds, and the share of the gap that is closed."""
    lines = [
        "| split | original | public-only | random | label_only | candidates | way | .5 | 1 | 2 | 4 | ceiling |",
        "|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for split in dict.fromkeys(row["split"] for row in rows):
        high, low, *others = (mean(rows, split, name, "accuracy")[0] for name in BESIDE)
        for way in WAYS:
            cells = []
            for epsilon in EPSILONS:
                value, spread = mean(rows, split, way, "accuracy", epsilon)
                share = f", {(value - low) / (high - low):.0%}" if high - low >= 0.02 else ""
                cells.append(f"{value:.3f}{f' ±{spread:.3f}' if spread else ''}{share}")
            head = [split, *("" if math.isnan(each) else f"{each:.3f}" for each in (high, low, *others))]
            lines.append("| " + " | ".join([*(head if way == WAYS[0] else [""] * len(head)), way, *cells]) + " |")
    return "\n".join(lines)


def others(rows: Rows, epsilon: float) -> str:
    """What else is kept at one epsilon: macro-F1, own labels, the mix of labels, topics."""
    lines = [
        f"| split (epsilon {epsilon:g}) | way | macro-F1 | own label | mix, L1 | reported mix, L1 | topics, TV |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    columns = ("macro_f1", "own_label", "mix_l1", "reported_l1", "topics_tv")
    for split in dict.fromkeys(row["split"] for row in rows):
        for way in (*WAYS, "topics"):
            found = [mean(rows, split, way, column, epsilon)[0] for column in columns]
            cells = ["" if math.isnan(each) else f"{each:.3f}" for each in found]
            lines.append("| " + " | ".join([split if way == WAYS[0] else "", way, *cells]) + " |")
    return "\n".join(lines)


def figure(rows: Rows, path: Path) -> None:
    """Accuracy of prototypes by epsilon, a panel a split, between public-only and original."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    height = math.ceil(len(splits) / 3)
    with drawing(Target(path, force=True, private=False), title="A classifier taught by the synthetic corpus") as drawn:
        drawn.set_size_inches(10, 2.4 * height)
        panels = drawn.subplots(height, 3, squeeze=False, sharex=True).ravel()
        for panel, split in zip(panels, splits, strict=False):
            for name, style in (("original", "-"), ("public-only", "--")):
                panel.axhline(mean(rows, split, name, "accuracy")[0], color="0.45", linestyle=style, label=name, lw=1)
            for way, (colour, dashes) in zip(WAYS, LINES, strict=False):
                found = [mean(rows, split, way, "accuracy", epsilon) for epsilon in EPSILONS]
                xs = [0, 1, 2, 3, 4]
                means, spreads = zip(*found, strict=True)
                panel.errorbar(xs, means, spreads, label=way, capsize=2, color=colour, ls=dashes)
            panel.set_title(split, fontsize=9)
            panel.set_xticks([0, 1, 2, 3, 4], [".5", "1", "2", "4", "none"], fontsize=8)
            panel.tick_params(axis="y", labelsize=8)
        for panel in panels[len(splits) :]:
            panel.set_axis_off()
        panels[0].legend(fontsize=7)
        for panel in panels[max(0, len(splits) - 3) : len(splits)]:
            panel.set_xlabel("epsilon of the corpus (none: the ceiling)", fontsize=8)


def reduced(rows: Rows) -> str:
    """What `dptext recommend --of corpus` rests on, as JSON."""
    found = [
        {
            "split": split,
            "way": way,
            "epsilon": epsilon,
            "accuracy": round(mean(rows, split, way, "accuracy", epsilon)[0], 4),
            "public_only": round(mean(rows, split, "public-only", "accuracy")[0], 4),
            "original": round(mean(rows, split, "original", "accuracy")[0], 4),
            "ceiling": round(mean(rows, split, way, "accuracy", math.inf)[0], 4),
        }
        for split in dict.fromkeys(row["split"] for row in rows)
        for way in WAYS
        for epsilon in EPSILONS[:-1]
    ]
    about = {"command": "python experiments/synthesis.py OUT.csv", "seeds": 3}
    return json.dumps({"about": about, "rows": found}, indent=1) + "\n"


def main() -> None:
    """Print the tables; write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--reduce", type=Path)
    given = parser.parse_args()
    rows: Rows = []
    for path in given.files:
        with path.open(encoding="utf-8") as file:
            rows += csv.DictReader(file)
    print(accuracies(rows), others(rows, 1.0), sep="\n\n")
    if given.figure:
        figure(rows, given.figure)
    if given.reduce:
        given.reduce.write_text(reduced(rows), "utf-8")


if __name__ == "__main__":
    main()
