"""The tables and the figure of docs/results/synthesis.md, from what packages/lab/experiments/synthesis.py wrote.

python packages/lab/experiments/synthesis_tables.py OUT.csv ... [--figure FIGURE.svg] [--reduce measured_synthesis.json]
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t as student_t

from dptext.text.files import Target
from dptext_lab.figures import LINES, drawing

EPSILONS = (0.5, 1.0, 2.0, 4.0, math.inf)
WAYS = ("prototypes", "votes")
EXACT = ("original", "public-only")  # rows without noise
BESIDE = ("original", "public-only", "random", "label_only", "candidates")
Rows = list[dict[str, str]]


def mean(rows: Rows, split: str, row: str, column: str, epsilon: float | None = None) -> tuple[float, float]:
    """The mean over seeds and half of its 95% interval by Student's t; NaN where nothing was measured.

    Of a row without noise that has a fourth seed: what all test texts say, and how far draws of test texts are from it.
    """
    found = {
        int(each["seed"]): float(each[column])
        for each in rows
        if (each["split"], each["row"]) == (split, row)
        and each.get(column)
        and epsilon in (None, float(each["epsilon"]))
    }
    exact = (row in EXACT or (epsilon is not None and math.isinf(epsilon))) and 3 in found
    values = np.array([each for seed, each in found.items() if seed or not exact])
    if len(values) < 2:
        return (float(values[0]), 0.0) if len(values) else (math.nan, math.nan)
    if exact:
        return found[0], float(student_t.ppf(0.975, len(values)) * np.sqrt(np.mean((values - found[0]) ** 2)))
    return float(values.mean()), float(student_t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)


def number(value: float, spread: float = 0.0) -> str:
    """Three digits, and the spread if there is any."""
    shown = "" if math.isnan(value) else f"{value:.3f}".lstrip("0")
    return f"{shown}±{spread:.3f}".replace("±0", "±") if shown and spread else shown


def with_errors(rows: Sequence[Mapping[str, str]], column: str) -> str:
    """Return the mean of a column over rows that have a number there, and two standard errors."""
    values = np.array([float(each[column]) for each in rows if each[column]])
    error = f" ±{2 * values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{error}" if len(values) else ""


def print_tables(path: Path, tables: Callable[[list[dict[str, str]]], str]) -> None:
    """Print the tables of a CSV file of rows."""
    with path.open(newline="", encoding="utf-8") as file:
        print(tables(list(csv.DictReader(file))))


def table(columns: str, lines: list[list[str]]) -> str:
    """A table of Markdown, the first column on the left."""
    rule = "|---|" + "--:|" * columns.count("|")
    return "\n".join([f"| {columns} |", rule, *(f"| {' | '.join(cells)} |" for cells in lines)])


def accuracies(rows: Rows) -> str:
    """Accuracy by split, with its spread."""
    lines = []
    for split in dict.fromkeys(row["split"] for row in rows):
        cells = [number(*mean(rows, split, name, "accuracy")) for name in BESIDE]
        cells += [number(*mean(rows, split, "prototypes", "accuracy", epsilon)) for epsilon in EPSILONS]
        lines.append([split, *cells, number(*mean(rows, split, "votes", "accuracy", 1.0))])
    return table(f"split | {' | '.join(BESIDE)} | .5 | 1 | 2 | 4 | ceiling | votes, 1", lines)


def closed(rows: Rows) -> str:
    """The share of the gap that prototypes close, with its interval by their seeds, and of what the ceiling closes."""
    lines = []
    for split in dict.fromkeys(row["split"] for row in rows):
        high, low = (mean(rows, split, name, "accuracy")[0] for name in BESIDE[:2])
        found = [mean(rows, split, "prototypes", "accuracy", epsilon) for epsilon in (1.0, 4.0, math.inf)]
        gained, gap = [each - low for each, _ in found], high - low
        if gap >= 0.05:
            shares = [f"{100 * (each - low) / gap:.0f}±{100 * half / gap:.0f}%" for each, half in found]
            of_ceiling = [f"{each / gained[-1]:.0%}" for each in gained[:2]]
            lines.append([split, number(high - low), *shares, *of_ceiling])
    return table("split | gap | 1 | 4 | ceiling | of the ceiling, 1 | 4", lines)


def others(rows: Rows, epsilon: float) -> str:
    """What else prototypes keep at one epsilon, and how far reported topics are from true ones."""
    columns = ("macro_f1", "own_label", "mix_l1", "reported_l1", "topics_tv")
    lines = []
    for split in dict.fromkeys(row["split"] for row in rows):
        cells = [number(mean(rows, split, "prototypes", column, epsilon)[0]) for column in columns]
        lines.append([split, *cells, number(mean(rows, split, "topics", "topics_tv", epsilon)[0])])
    return table("split | macro-F1 | own label | mix, L1 | reported mix, L1 | topics, TV | reported topics, TV", lines)


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
            panel.tick_params(axis="x", labelbottom=True)


def reduced(rows: Rows) -> str:
    """What `dptext recommend` rests on, as JSON: corpora under one epsilon, and texts of which each has its own."""
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
    about = {"command": "python packages/lab/experiments/synthesis.py OUT.csv", "seeds": 3}
    return json.dumps({"about": about, "rows": found, "texts": texts_alone(rows)}, indent=1) + "\n"


def texts_alone(rows: Rows) -> list[dict[str, str | float]]:
    """Each split and way with an epsilon for each text: accuracies, with half of their 95% intervals."""
    found: list[dict[str, str | float]] = []
    for split in dict.fromkeys(row["split"] for row in rows if not row["split"].endswith(" author")):
        for way in BESIDE[3:]:
            told: dict[str, str | float] = {"split": split, "way": way, "epsilon": 10.0}
            for name, row in (("accuracy", way), ("public_only", "public-only"), ("original", "original")):
                value, half = mean(rows, split, row, "accuracy")
                told |= {name: round(value, 4), f"{name}_half": round(half, 4)}
            found.append(told)
    return found


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
    whole = {row["split"] for row in rows if row["row"] == WAYS[1]}  # the last way that is measured
    rows = [row for row in rows if row["split"] in whole]
    print(accuracies(rows), closed(rows), others(rows, 1.0), sep="\n\n")
    if given.figure:
        figure(rows, given.figure)
    if given.reduce:
        given.reduce.write_text(reduced(rows), "utf-8")


if __name__ == "__main__":
    main()
