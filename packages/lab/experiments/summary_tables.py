"""The table and the figure of docs/results/summary.md, from what packages/lab/experiments/summary.py wrote.

python packages/lab/experiments/summary_tables.py OUT.csv ... [--figure FIGURE.svg]
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

import numpy as np
from language_tables import figure
from scipy.stats import t as student_t
from synthesis_tables import Rows, mean

WAYS = ("builtin", "pool", "both", "summary reads")


def of(rows: Rows, split: str, name: str, epsilon: float | None = None) -> dict[int, float]:
    """Accuracy by seed."""
    return {
        int(row["seed"]): float(row["accuracy"])
        for row in rows
        if (row["split"], row["row"]) == (split, name) and epsilon in (None, float(row["epsilon"]))
    }


def public_only(rows: Rows, split: str) -> dict[int, float]:
    """The best accuracy of a row that reads nothing private, by seed: chosen by test score, in favour of those rows."""
    found: dict[int, float] = {}
    for name in dict.fromkeys(row["row"] for row in rows if row["row"].startswith("public-only")):
        for seed, value in of(rows, split, name).items():
            found[seed] = max(value, found.get(seed, 0.0))
    return found


def closed(rows: Rows, split: str, name: str, epsilon: float) -> tuple[float, float]:
    """The share of the gap that a row closes, paired by seed with public-only; half of its 95% interval."""
    high, low = mean(rows, split, "original", "accuracy")[0], public_only(rows, split)
    shares = np.array([(value - low[s]) / (high - low[s]) for s, value in of(rows, split, name, epsilon).items()])
    if len(shares) < 2:
        return float(shares[0]), math.nan
    return float(shares.mean()), float(student_t.ppf(0.975, len(shares) - 1) * shares.std(ddof=1) / len(shares) ** 0.5)


def shown(value: float, spread: float, digits: int = 3) -> str:
    """A number with half of its interval."""
    return f"{value:.{digits}f}" + (f" ±{spread:.{digits}f}" if spread and not math.isnan(spread) else "")


def table(rows: Rows) -> str:
    """Texts, accuracy and macro-F1 with intervals, share of the gap, seeds; all rows of the files."""
    lines = [
        "| split | row | epsilon | texts | accuracy | macro-F1 | of the gap | seeds |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for split in dict.fromkeys(row["split"] for row in rows):
        own = [(row["row"], row["epsilon"]) for row in rows if row["split"] == split]
        public = public_only(rows, split)
        for name, epsilon in sorted(dict.fromkeys(own), key=lambda each: (each[1] != "nan", each[1], own.index(each))):
            at = None if epsilon == "nan" else float(epsilon)
            accuracy, f1 = (mean(rows, split, name, column, at) for column in ("accuracy", "macro_f1"))
            texts, seeds = mean(rows, split, name, "texts", at)[0], len(of(rows, split, name, at))
            part = ""
            if at is not None and set(of(rows, split, name, at)) <= set(public):
                part = " ±".join(f"{each:.0%}" for each in closed(rows, split, name, at) if not math.isnan(each))
            cells = [split, name, f"{at:g}" if at else "", f"{texts:,.0f}", shown(*accuracy), shown(*f1), part]
            lines.append(f"| {' | '.join([*cells, str(seeds)])} |")
    return "\n".join(lines)


def low(rows: Rows, split: str) -> float:
    """The mean over seeds of the best row that reads nothing private."""
    return float(np.mean(list(public_only(rows, split).values())))


def main() -> None:
    """Print the table; draw where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    rows: Rows = []
    for path in given.files:
        with path.open(newline="", encoding="utf-8") as file:
            rows += [{**row, "epsilon": row["epsilon"] or "nan"} for row in csv.DictReader(file)]
    print(table(rows))
    if given.figure:
        figure(rows, given.figure, WAYS, low)


if __name__ == "__main__":
    main()
