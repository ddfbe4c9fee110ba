"""Figures of the grid's results, as in the paper (its figure 4, and its Table 1 as a figure).

python packages/lab/experiments/deep_candidate/figure.py --cells build/deep_candidate --figures docs/results/figures
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from grid import ALL, CLASSIFIER, EPSILON_OF_SIZES, EPSILONS, SIZES, name_of, read_cells

from dptext.sampling.exponential import Exponential
from dptext.text.files import Target
from dptext_lab.figures import drawing

#: Row, name in the legend, colour (Okabe and Ito 2008), dashes, marker.
LINES = (
    ("mixed_none", "half evidence, half similarity (public labels)", "#0072B2", "-", "o"),
    ("similarity_none", "similarity (no labels)", "#009E73", "-", "s"),
    ("lowest_clusters", "lowest depth, recoder (the paper)", "#D55E00", "--", "^"),
    ("algorithm_1_clusters", "algorithm 1 as printed, recoder", "#CC79A7", "--", "v"),
    ("truncation_none", "truncation", "#56B4E9", ":", "D"),
    ("words_none", "word-level metric privacy (epsilon per word and distance)", "#000000", ":", "x"),
)
LEVELS = (("original", "without privacy", "#666666", "-"), ("random", "random guess", "#666666", ":"))
TITLES = {"imdb": "IMDB", "20newsgroups": "20 Newsgroups", "goodreads": "GoodReads"}
POOL = 5000
#: epsilon, candidates that are deep, their depth: Table 1 of the paper.
TABLE_1 = ((3.0, 55, 5), (6.0, 25, 3), (10.0, 5, 2), (23.0, 1, 1))


def f1(cells: Mapping[str, list[dict[str, float]]], name: str) -> tuple[float, float]:
    """Mean and standard deviation over the trials; not a number where the cell is not finished."""
    found = np.array([trial[CLASSIFIER] for trial in cells.get(name, [])])
    return (float(found.mean()), float(found.std())) if found.size else (float("nan"), 0.0)


def lines(axes: Any, cells: Mapping[str, Any], places: Sequence[float], names: Mapping[str, Sequence[str]]) -> None:
    """Draw one line for each row of the table, with its standard deviation."""
    for row, legend, colour, dashes, marker in LINES:
        found = np.array([f1(cells, name) for name in names[row]])
        axes.errorbar(
            places, found[:, 0], found[:, 1], label=legend, color=colour, ls=dashes, marker=marker, ms=4, capsize=2
        )


def grid_figure(corpora: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Macro-F1 against epsilon (above) and against the number of sentences (below)."""
    with drawing(Target(path, force=True), title="Macro-F1 of sentence-private documents") as figure:
        figure.set_size_inches(9.0, 8.4)
        panels = figure.subplots(2, len(corpora), sharey=True, squeeze=False)
        for column, (corpus, cells) in enumerate(corpora.items()):
            above, below = panels[0][column], panels[1][column]
            lines(above, cells, EPSILONS, {row[0]: [f"{row[0]}_{e:g}" for e in EPSILONS] for row in LINES})
            for row, legend, colour, dashes in LEVELS:
                above.axhline(f1(cells, row)[0], color=colour, ls=dashes, lw=1.2, label=legend)
            above.set_title(f"{TITLES[corpus]}: documents of {ALL} sentences")
            above.set_xlabel("epsilon (of a sentence; of words: for each unit of distance)")
            above.set_xticks(EPSILONS)
            places = np.arange(len(SIZES))
            at = {row[0]: [name_of(f"{row[0]}_{EPSILON_OF_SIZES:g}", group) for group in SIZES] for row in LINES}
            lines(below, cells, places.tolist(), at)
            for row, _, colour, dashes in LEVELS:
                below.plot(
                    places, [f1(cells, name_of(row, group))[0] for group in SIZES], color=colour, ls=dashes, lw=1.2
                )
            below.set_title(f"{TITLES[corpus]}, epsilon {EPSILON_OF_SIZES:g}")
            below.set_xlabel("sentences of the document")
            below.set_xticks(places, list(SIZES))
        for axes in panels[:, 0]:
            axes.set_ylabel("macro-F1")
            axes.set_ylim(0, 1)
        handles, legends = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, legends, loc="outside lower center", ncols=2, fontsize=9)


def table_1_figure(path: Path) -> None:
    """How deep some of 5,000 candidates must lie to be chosen with probability .95, the others having depth 0."""
    some = np.unique(np.geomspace(1, 200, 60).round())
    with drawing(Target(path, force=True), title="How deep candidates must lie (Table 1)") as figure:
        axes = figure.subplots()
        for (epsilon, deep, depth), (_, _, colour, dashes, marker) in zip(TABLE_1, LINES, strict=False):
            axes.plot(some, 2 / epsilon * np.log(19 * (POOL - some) / some), color=colour, ls=dashes)
            utilities = np.zeros((1, POOL))
            utilities[0, :deep] = depth
            chance = Exponential(epsilon, 1.0).distribution(utilities)[0, :deep].sum()
            axes.plot([deep], [depth], color=colour, ls=dashes, marker=marker, ms=7, label=f"epsilon {epsilon:g}")
            above = epsilon != TABLE_1[-1][0]
            axes.annotate(
                f"{deep} of depth {depth}: {chance:.3f}",
                (deep, depth),
                xytext=(8, 6 if above else -12),
                textcoords="offset points",
                fontsize=9,
            )
        axes.set_xscale("log")
        axes.set_ylim(0, 8)
        axes.set_xlabel(f"deep candidates among {POOL:,}")
        axes.set_ylabel("depth of the deep ones")
        axes.set_title("Above its line a deep candidate is chosen with probability .95 or more")
        axes.legend()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=Path, default=Path("build/deep_candidate"))
    parser.add_argument("--run", default="6000_1000_200_5", help="sizes of the run, as its folder names them")
    parser.add_argument("--figures", type=Path, required=True)
    given = parser.parse_args()
    table_1_figure(given.figures / "deep_candidate_table_1.svg")
    corpora = {corpus: read_cells(given.cells / f"{corpus}_{given.run}") for corpus in TITLES}
    corpora = {corpus: cells for corpus, cells in corpora.items() if "original" in cells}
    if not corpora:
        sys.exit(f"Expected finished cells in {given.cells}: run grid.py first.")
    grid_figure(corpora, given.figures / "deep_candidate.svg")


if __name__ == "__main__":
    main()
