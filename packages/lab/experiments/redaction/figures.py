"""The talk's figures 1 to 5 and 8, drawn from the cells of grid.py.

python packages/lab/experiments/redaction/grid.py --figures docs/results/figures
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cells import ATTACKERS, CONFIDENCE, PLANE_LEVELS, TRANSFORMER, Cells, Mode, estimate
from levels import Levels, divergence_levels_figure, epsilon_levels_figure

from dptext.estimates import Estimate
from dptext.text.files import Target
from dptext_lab.figures import LINES, divergence_figure, drawing
from dptext_lab.redaction.divergence.conversion import CertifiedBound, Direct, Line
from dptext_lab.redaction.divergence.findings import (
    CHEAPEST,
    DEFAULT,
    DIRECT,
    PAPER,
    PAPER_WHOLE,
    PUBLISHED,
    Curve,
    DivergenceReport,
    Tested,
)
from dptext_lab.redaction.trait import LINEAR, TFIDF

NAMES = {"sentence": "sentence encoder", "medical": "fine-tuned on medical topics", "glove": "GloVe", "tfidf": "TF-IDF"}
SETS = {"cancer": ("cancer", "other medical"), "imdb": ("cancer", "film reviews")}
BELOW = "certified at least (95%)"


def draw(out: Path, folder: Path) -> None:
    """Draw every figure whose cells are there."""
    cancer, imdb = Cells(out, "cancer"), Cells(out, "imdb")
    figures: dict[str, Callable[[Target], None]] = {}
    if cancer.levels("random", "sentence"):
        figures["1"] = lambda path: divergence_levels_figure(divergences(cancer), path, alpha=2.0)
    if any(planes(cancer)):
        figures["2"] = lambda path: planes_figure(cancer, path)
    if cell := cancer.get("random", 0.0, "sentence"):
        figures["3"] = lambda path: divergence_figure(report_of(cell), path)
    by_level: tuple[tuple[str, Cells, Mode], ...] = (
        ("4", cancer, "random"),
        ("5", cancer, "smart"),
        ("8a", imdb, "random"),
    )
    for name, cells, mode in by_level:
        if len(cells.levels(mode, "sentence")) > 1 and cells.levels(mode, "attack"):
            figures[name] = partial(epsilon_levels_figure, epsilons(cells, mode), accuracies(cells, mode))
    if cancer.levels("random", "transformer"):
        figures["8b"] = lambda path: divergence_and_accuracy(cancer, path)
    if cancer.levels("random", "glove"):
        figures["8c"] = lambda path: divergence_levels_figure(by_embedding(cancer), path, alpha=2.0)
    for name, work in figures.items():
        path = folder / f"redaction_{name}.svg"
        work(Target(path, force=True))
        print(path)


def levels(
    cells: Cells, mode: Mode, part: str, name: str, value: Callable[[float], Estimate | None]
) -> tuple[Levels, ...]:
    """One curve over the levels that are finished and have a value; none if there are none."""
    found = [(level, value(level)) for level in cells.levels(mode, part)]
    shown = [(level, one) for level, one in found if one is not None]
    return (Levels(name, tuple(a for a, _ in shown), tuple(b for _, b in shown)),) if shown else ()


def exactly(value: float) -> Estimate:
    """A number that is an end of an interval itself."""
    return Estimate(value, value, value, CONFIDENCE)


def divergence_of(cells: Cells, mode: Mode, embedding: str, name: str) -> Callable[[float], Estimate | None]:
    """D_2 by level."""

    def found(level: float) -> Estimate | None:
        curve = cells.curve(mode, level, embedding, name)
        return None if curve is None else estimate(curve)

    return found


def divergences(cells: Cells) -> list[Levels]:
    """Figure 1: random and smart, the published estimate, and what is certified."""
    curves: list[Levels] = []
    modes: tuple[Mode, ...] = ("random", "smart")
    for mode in modes:
        curves += levels(cells, mode, "sentence", f"{mode} redaction", divergence_of(cells, mode, "sentence", DEFAULT))
    published = divergence_of(cells, "random", "sentence", PUBLISHED)
    curves += levels(cells, "random", "sentence", "random, as published", published)
    curves += levels(
        cells, "random", "sentence", f"random, {BELOW}", lambda x: exactly(cells.certified("random", x, "sentence"))
    )
    return curves


def by_embedding(cells: Cells) -> list[Levels]:
    """Figure 8c."""
    return [
        curve
        for embedding, name in NAMES.items()
        for curve in levels(cells, "random", embedding, name, divergence_of(cells, "random", embedding, DEFAULT))
    ]


def epsilons(cells: Cells, mode: Mode) -> list[Levels]:
    """The three ways from the default curve, and the whole published recipe."""

    def of(way: str) -> Callable[[float], Estimate | None]:
        def found(level: float) -> Estimate | None:
            cell = cells.get(mode, level, "sentence")
            return None if cell is None else estimate(cell["report"]["epsilons"][way])

        return found

    ways = (DIRECT, CHEAPEST, PAPER, PAPER_WHOLE)
    return [curve for way in ways for curve in levels(cells, mode, "sentence", way, of(way))]


def accuracies(
    cells: Cells,
    mode: Mode,
    shown: Sequence[str] = (f"{TFIDF}, static", f"{TFIDF}, adaptive", f"{LINEAR}, adaptive", TRANSFORMER),
) -> list[Levels]:
    """The accuracies of the attackers by level."""

    def of(name: str) -> Callable[[float], Estimate | None]:
        return lambda level: cells.accuracies(mode, level).get(name)

    found = [levels(cells, mode, "attack", name, of(name)) for name in ATTACKERS if name in shown]
    return [curve for curves in found for curve in curves]


def planes(cells: Cells) -> list[tuple[float, Any]]:
    """Points of both sets at the levels of figure 2."""
    found = [(level, cells.get("random", level, "sentence")) for level in PLANE_LEVELS]
    return [(level, cell["plane"]) for level, cell in found if cell is not None and cell["plane"]]


def planes_figure(cells: Cells, path: Target) -> None:
    """Figure 2: points only, one panel a level. Each has its own axes: masks draw all texts to one place."""
    panels = planes(cells)
    with drawing(path, title="Two sets of redacted texts in the first two main directions of public text") as figure:
        figure.set_size_inches(3.3 * len(panels) + 0.5, 4.0)
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (level, plane) in zip(row, panels, strict=True):
            for rows, name, (color, _), marker in zip(plane, SETS[cells.pair], LINES, "o^", strict=False):
                xs, ys = np.asarray(rows).T
                axes.plot(xs, ys, marker, color=color, markersize=2, alpha=0.35, markeredgewidth=0, label=name)
            axes.set_title(f"{100 * level:.0f}% redacted")
            axes.set_xlabel("first component")
            axes.locator_params(axis="x", nbins=4)
        row[0].set_ylabel("second component")
        handles, labels = row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, markerscale=3)


def divergence_and_accuracy(cells: Cells, path: Target) -> None:
    """Figure 8b: divergence above, attackers with words and with a transformer below."""
    above = levels(cells, "random", "sentence", "divergence", divergence_of(cells, "random", "sentence", DEFAULT))
    below = accuracies(cells, "random", (f"{TFIDF}, adaptive", TRANSFORMER))
    with drawing(path, title="Divergence and attack accuracy against the redaction level") as figure:
        figure.set_size_inches(6.4, 6.0)
        top, bottom = figure.subplots(2, 1, sharex=True)
        top.set_title("No upper bound: estimates in one embedding")
        for axes, curves in ((top, above), (bottom, below)):
            for curve, (color, dashes) in zip(curves, LINES, strict=False):
                values = np.array([[v.value, v.value - v.low, v.high - v.value] for v in curve.values]).T
                xs = 100 * np.asarray(curve.levels)
                axes.errorbar(
                    xs, values[0], values[1:], fmt=f"o{dashes}", color=color, ms=3.5, elinewidth=1, label=curve.name
                )
        top.set_ylabel("divergence of order 2 (nats)")
        bottom.set_ylabel("attack accuracy")
        bottom.axhline(0.5, color="#888888", linewidth=1.0)
        bottom.set_xlabel("redaction level (%)")
        bottom.legend(fontsize=8)


def report_of(cell: dict[str, Any]) -> DivergenceReport:
    """The report of a cell, as far as figure 3 shows it."""
    found = cell["report"]
    curves = tuple(
        Curve(
            curve["name"],
            tuple(map(float, curve["forward"])),
            tuple(map(float, curve["backward"])),
            tuple(tested(one) for one in curve["larger"]),
            curve["rises"],
        )
        for curve in found["curves"]
    )
    bound = cell["certified"]
    lines = found["lines"]
    nothing = np.zeros((0, 2))
    return DivergenceReport(
        alphas=tuple(found["alphas"]),
        curves=curves,
        epsilons={way: tested(one) for way, one in found["epsilons"].items()},
        conversion=Direct(float(lines[DIRECT]["epsilon"]), lines[DIRECT]["alpha"]),
        cheapest=line(lines[CHEAPEST]),
        paper=line(lines[PAPER]),
        certified=CertifiedBound(
            tuple(bound["alphas"]),
            tuple(bound["forward"]),
            tuple(bound["backward"]),
            bound["epsilon"],
            bound["delta"],
            bound["confidence"],
            (bound["rows"][0], bound["rows"][1]),
        ),
        checks=(),
        delta=found["delta"],
        is_separated=found["is_separated"],
        records=(found["records"][0], found["records"][1]),
        plane=(nothing, nothing),
    )


def tested(found: dict[str, Any]) -> Tested:
    """A tested divergence from JSON."""
    return Tested(estimate(found), float(found["null"]), float(found["p_value"]))


def line(found: dict[str, Any]) -> Line:
    """A fitted line from JSON."""
    return Line(float(found["intercept"]), float(found["slope"]), float(found["epsilon"]), is_above=found["is_above"])
