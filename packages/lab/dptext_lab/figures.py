"""Figures of sensitivities and divergences as SVG: equal numbers give equal bytes.

matplotlib draws them. `dptext.audits.figures` needs no library.

Each function writes an SVG file to `path`. Only the file's owner can read it; a `Target` may set other rights, or allow
an existing file to be overwritten. Error of each: ConfigError if the file cannot be written.

`drawing` yields a figure for drawings of one's own::

    with drawing("violations.svg", title="...") as figure:
        axes = figure.subplots()
        axes.plot(xs, ys)
"""

import math
import os
from collections.abc import Mapping, Sequence

import numpy as np

from dptext.errors import ConfigError
from dptext.text.files import Target
from dptext.types import Floats
from dptext_lab.drawing import LINES, drawing, interval_curve, legend_below, load_matplotlib, save
from dptext_lab.redaction.divergence.findings import DEFAULT, LOGISTIC_RATIO, MLP_RATIO, PUBLISHED, DivergenceReport
from dptext_lab.refutation.simulation import Law, Violations

__all__ = ["LINES", "divergence_figure", "drawing", "load_matplotlib", "plane_figure", "save", "violations_figure"]

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


def divergence_figure(found: DivergenceReport, path: Place) -> None:
    """Draw divergences of `dptext_lab.redaction.divergence` against their order, with the lines that give epsilons."""
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
