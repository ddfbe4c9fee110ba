"""The table and the figure of docs/results/language.md, from what packages/lab/experiments/language.py wrote.

python packages/lab/experiments/language_tables.py OUT.csv ... [--figure FIGURE.svg]
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from synthesis_tables import Rows, mean

from dptext.text.files import Target
from dptext_lab.figures import LINES, drawing

BESIDE = ("original", "public-only", "public-only, grown", "random")
WAYS = ("steering", "prototypes", "votes", "prediction", "evolution")
EPSILONS = (1.0, 4.0)


def low(rows: Rows, split: str) -> float:
    """The better of the rows that read nothing private."""
    found = (mean(rows, split, name, "accuracy")[0] for name in BESIDE[1:3])
    return max(value for value in found if not math.isnan(value))


def table(rows: Rows) -> str:
    """Accuracy with its 95% interval over seeds, the share of the gap, macro-F1, different words and seconds."""
    lines = [
        "| split | row | epsilon | accuracy | of the gap | macro-F1 | texts | words | seconds |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for split in dict.fromkeys(row["split"] for row in rows):
        high, least = mean(rows, split, "original", "accuracy")[0], low(rows, split)
        every = [(name, None) for name in BESIDE] + [(way, epsilon) for way in WAYS for epsilon in EPSILONS]
        for name, epsilon in every:
            value, spread = mean(rows, split, name, "accuracy", epsilon)
            if math.isnan(value):
                continue
            share = f"{(value - least) / (high - least):.0%}" if epsilon else ""
            rest = [
                mean(rows, split, name, column, epsilon)[0]
                for column in ("macro_f1", "texts", "distinct_words", "seconds")
            ]
            shown = f"{value:.3f}{f' ±{spread:.3f}' if spread else ''}"
            cells = [split, name, f"{epsilon:g}" if epsilon else "", shown, share, f"{rest[0]:.3f}"]
            lines.append("| " + " | ".join([*cells, *(f"{each:,.0f}" for each in rest[1:])]) + " |")
    return "\n".join(lines)


def figure(rows: Rows, path: Path, ways: Sequence[str] = WAYS, least: Callable[[Rows, str], float] = low) -> None:
    """Accuracy of `ways` by epsilon, a panel a split, between public-only, which is `least`, and original."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    with drawing(Target(path, force=True, private=False), title="A classifier taught by what leaves") as drawn:
        drawn.set_size_inches(10, 3.2)
        for panel, split in zip(drawn.subplots(1, len(splits), squeeze=False).ravel(), splits, strict=True):
            panel.axhline(mean(rows, split, "original", "accuracy")[0], color="0.45", ls="-", label="original", lw=1)
            panel.axhline(least(rows, split), color="0.45", ls="--", label="public-only", lw=1)
            for i, (way, (colour, dashes)) in enumerate(zip(ways, LINES, strict=False)):
                found = [mean(rows, split, way, "accuracy", epsilon) for epsilon in EPSILONS]
                if not math.isnan(found[0][0]):
                    means, spreads = zip(*found, strict=True)
                    at = [x + 0.03 * (i - (len(ways) - 1) / 2) for x in (0, 1)]  # intervals stand side by side
                    panel.errorbar(at, means, spreads, label=way, capsize=2, color=colour, ls=dashes)
            panel.set_title(split, fontsize=9)
            panel.set_xticks([0, 1], ["1", "4"], fontsize=8)
            panel.set_xlabel("epsilon of the corpus", fontsize=8)
            panel.tick_params(axis="y", labelsize=8)
        drawn.axes[min(1, len(splits) - 1)].legend(fontsize=7, loc="center")


def main() -> None:
    """Print the table; draw where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    rows: Rows = []
    for path in given.files:
        with path.open(encoding="utf-8") as file:
            rows += [{**row, "epsilon": row["epsilon"] or "0"} for row in csv.DictReader(file)]
    print(table(rows))
    if given.figure:
        figure(rows, given.figure)


if __name__ == "__main__":
    main()
