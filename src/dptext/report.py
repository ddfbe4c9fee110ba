"""Figures of audits as SVG: equal numbers give equal bytes. Needs matplotlib: pip install "dptext[report]".

Each function writes an SVG file to `path`. Only the file's owner can read it; a `Target` may set other rights, or allow
an existing file to be overwritten. Errors of each: ConfigError if the file cannot be written, MissingExtraError if
matplotlib is not installed.

`drawing` yields a figure for drawings of one's own::

    with drawing("violations.svg", title="...") as figure:
        axes = figure.subplots()
        axes.plot(xs, ys)
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.audits.divergence.findings import DEFAULT, LOGISTIC_RATIO, MLP_RATIO, PUBLISHED, DivergenceReport
from dptext.audits.drawing import LINES, drawing, interval_curve, legend_below, load_matplotlib, save
from dptext.audits.roc import Roc
from dptext.audits.sensitivity.simulation import Law, Violations
from dptext.errors import ConfigError
from dptext.text.files import Target
from dptext.types import Floats

__all__ = ["LINES", "Bounds", "drawing", "load_matplotlib", "save"]

Place = str | os.PathLike[str] | Target


def violations_figure(rows: Sequence[Violations], path: Place) -> None:
    """Draw the share of pairs of vectors that violate a claimed sensitivity, against their size, one curve per law.

    The figure is figure 1 of Habernal 2021. The bands are the intervals of the shares. ConfigError: no rows, rows of
    too many laws, or rows of claims that differ in more than the number of coordinates.
    """
    if len({str(row.claim) for row in rows}) != 1:
        raise ConfigError("Expected rows of one claim, found none or several.")
    curves: dict[Law, list[Violations]] = {}
    for row in sorted(rows, key=lambda row: row.claim.dim):
        curves.setdefault(row.law, []).append(row)
    if len(curves) > len(LINES):
        raise ConfigError(f"Expected rows of at most {len(LINES)} laws, found {len(curves)}.")
    pairs = sorted({row.pairs for row in rows})
    claim = str(rows[0].claim)
    with drawing(path, title=f"Pairs of vectors that violate the claim: {claim}") as figure:
        axes = figure.subplots()
        for (law, curve), (color, dashes) in zip(curves.items(), LINES, strict=False):
            dims = [row.claim.dim for row in curve]
            percent = [[100 * x for x in (r.share.value, r.share.low, r.share.high)] for r in curve]
            values, lows, highs = zip(*percent, strict=True)
            axes.fill_between(dims, lows, highs, color=color, alpha=0.2, linewidth=0)
            marker = "o" if len(dims) <= 20 else None
            axes.plot(dims, values, dashes, color=color, label=str(law), marker=marker, markersize=4)
        largest = max(row.claim.dim for row in rows)
        axes.set_xscale("log", base=2)
        axes.set_xticks([2**i for i in range((largest - 1).bit_length() + 1)])
        axes.xaxis.set_major_formatter("{x:.0f}")
        counts = f"{pairs[0]:,} pairs" if len(pairs) == 1 else f"{pairs[0]:,} to {pairs[-1]:,} pairs"
        title = f"Claim: {claim}\nShare of random pairs that violate it ({counts} for each n)"
        axes.set(ylim=(-2, 102), xlabel="coordinates of a vector, n (log scale)")
        axes.set(ylabel="pairs that violate the claim (%)", title=title)
        axes.legend(title="coordinates before clipping", loc="upper left", bbox_to_anchor=(0, 0.97), alignment="left")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds on epsilon of one mechanism, by the number of runs."""

    name: str  #: name of the mechanism
    trials: tuple[int, ...]  #: numbers of runs on each input
    bounds: tuple[float, ...]  #: the measured bound for each number of runs
    ceilings: tuple[float, ...]  #: the largest bound that each number of runs can give
    claimed: float  #: claimed epsilon; infinite if nothing is claimed


def bounds_figure(curves: Sequence[Bounds], path: Place) -> None:
    """Draw lower bounds on epsilon against the number of runs, one panel per claimed epsilon.

    A curve above the claim refutes the claim. No curve can rise above the ceiling. ConfigError: no curves, or too many
    for one panel.
    """
    panels: dict[float, list[Bounds]] = {}
    for curve in curves:
        panels.setdefault(curve.claimed, []).append(curve)
    if not panels or max(map(len, panels.values())) > len(LINES):
        raise ConfigError(f"Expected 1 to {len(LINES)} curves for each claim, found {len(curves)} in all.")
    with drawing(path, title="Lower bound on epsilon against the number of runs") as figure:
        for axes, (claimed, group) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            for curve, (color, dashes) in zip(group, LINES, strict=False):
                axes.plot(curve.trials, curve.bounds, dashes, color=color, marker="o", markersize=4, label=curve.name)
            axes.plot(group[0].trials, group[0].ceilings, ":", color="#888888", label="ceiling of so many runs")
            if not math.isinf(claimed):
                axes.axhline(claimed, color="black", linewidth=1.0, label="claim")
            axes.set_xscale("log")
            axes.set_ylim(bottom=-0.15)
            axes.set(xlabel="runs on each of two inputs (log scale)", ylabel="lower bound on epsilon (95%)")
            axes.set_title(f"claimed epsilon {claimed:g}" if not math.isinf(claimed) else "nothing claimed")
        figure.set_size_inches(4.5 * max(len(panels), 1.4), 4.4)
        legend_below(figure)


_LEAST_RATE: Final = 1e-3  #: lower end of the log scales; smaller rates of true positives are drawn here


def roc_figure(curves: Mapping[str, Roc], path: Place) -> None:
    """Draw true against false positive rates of membership attacks, on log scales (Carlini et al. 2022, figure 1).

    Log scales show a few members who are found for sure, whom an AUC hides. The diagonal is guessing. Rates of true
    positives below 0.1% are drawn at 0.1%. `curves` maps names of attacks to curves. ConfigError: no curves, or too
    many.
    """
    if not 1 <= len(curves) <= len(LINES):
        raise ConfigError(f"Expected 1 to {len(LINES)} curves, found {len(curves)}.")
    with drawing(path, title="Membership inference: true against false positive rate") as figure:
        figure.set_size_inches(5.0, 5.4)
        axes = figure.subplots()
        for (name, roc), (color, dashes) in zip(curves.items(), LINES, strict=False):
            shown = [(fpr, max(tpr, _LEAST_RATE)) for fpr, tpr in zip(roc.fpr, roc.tpr, strict=True) if fpr > 0]
            fprs, tprs = [fpr for fpr, _ in shown], [tpr for _, tpr in shown]
            axes.plot(fprs, tprs, dashes, color=color, label=name, drawstyle="steps-post")
        ends = [_LEAST_RATE, 1.0]
        axes.plot(ends, ends, color="#888888", linewidth=1.0, label="guessing")
        axes.set(xscale="log", yscale="log", xlim=(_LEAST_RATE, 1.0), ylim=(_LEAST_RATE, 1.1), aspect="equal")
        ticks = [0.001, 0.01, 0.1, 1.0]
        names = ["0.1%", "1%", "10%", "100%"]
        axes.set_xticks(ticks, names)
        axes.set_yticks(ticks, names)
        axes.minorticks_off()
        axes.set(xlabel="non-members accused (log scale)", ylabel="members found (log scale)")
        legend_below(figure, columns=2)


def divergence_figure(found: DivergenceReport, path: Place) -> None:
    """Draw divergences found by `dptext.audits.divergence` against their order, with the lines that give epsilons."""
    alphas = np.asarray(found.alphas)
    with drawing(path, title="Renyi divergence in one embedding against its order") as figure:
        figure.set_size_inches(6.4, 5.2)
        axes = figure.subplots()
        for name, (color, dashes) in zip((DEFAULT, MLP_RATIO, LOGISTIC_RATIO, PUBLISHED), LINES, strict=True):
            interval_curve(axes, alphas, [tested.estimate for tested in found.curve(name).larger], color, dashes, name)
        axes.plot(alphas, found.certified.divergences, "s", color="black", markersize=4, label="certified lower bound")
        for name, line, dashes in (("cheapest line above", found.cheapest, "-"), ("paper line", found.paper, "--")):
            if math.isfinite(line.intercept):
                label = f"{name}: epsilon {line.epsilon:.3g}"
                axes.plot(
                    alphas, line.intercept + line.slope * alphas, dashes, color="#888888", linewidth=1, label=label
                )
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=0)
        axes.set(xlabel="order alpha", ylabel="divergence (nats, larger direction)")
        axes.set_title("No upper bound: estimates in one embedding")
        legend_below(figure, columns=2)


def plane_figure(sets: Mapping[str, Floats], path: Place) -> None:
    """Draw sets of vectors in the first two main directions of public text, one point per record.

    The figure is as private as the sets: if space and embedder are public, anybody can look for the point of a
    candidate text. `sets` maps names to arrays `(n, 2)`. ConfigError: no sets, more than four, or another shape.
    """
    if not 1 <= len(sets) <= len(LINES) or any(rows.ndim != 2 or rows.shape[1] != 2 for rows in sets.values()):
        raise ConfigError(f"Expected 1 to {len(LINES)} sets of points of shape (n, 2).")
    with drawing(path, title="Two sets of texts in the first two main directions of public text") as figure:
        figure.set_size_inches(5.4, 5.2)
        axes = figure.subplots()
        for (name, rows), (color, _), marker in zip(sets.items(), LINES, "o^sD", strict=False):
            axes.plot(
                rows[:, 0], rows[:, 1], marker, color=color, markersize=2.5, alpha=0.4, markeredgewidth=0, label=name
            )
        axes.set_title("One embedding: texts can differ where points do not")
        axes.set(xlabel="first component", ylabel="second component")
        legend_below(figure, columns=2)
