"""Figures as SVG, the same bytes for the same numbers. Needs matplotlib: pip install "dptext[report]".

A figure is drawn on what `drawing` yields and saved when its block ends::

    with drawing("violations.svg", title="...") as figure:
        axes = figure.subplots()
        axes.plot(xs, ys)
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np

from dptext.audits.divergence.report import DEFAULT, LOGISTIC, MLP, PUBLISHED, DivergenceReport
from dptext.audits.roc import Roc
from dptext.audits.sensitivity.claims import Law, Violations
from dptext.errors import ConfigError, MissingExtraError
from dptext.estimates import Estimate
from dptext.text.files import Target
from dptext.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Distinct for colour-blind readers too (Okabe and Ito 2008), and for all by their dashes.
LINES: Final = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"))

_LONG_LABEL: Final = 30  # letters: two such legends side by side do not fit the width

_STYLE: Final = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "figure.figsize": (7.2, 4.0),
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that text is as wide everywhere
    "font.size": 9.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "dptext",  # ids are otherwise random
}


def load_matplotlib() -> ModuleType:
    """The module matplotlib, loaded when first needed.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415
        import matplotlib.figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError('Figures need matplotlib. Install it: pip install "dptext[report]"') from error
    return mpl


@contextlib.contextmanager
def drawing(path: str | os.PathLike[str] | Target, *, title: str) -> Iterator[Figure]:
    """An empty figure in the style of the house; saved as SVG when the block ends without an error.

    Args:
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.
        title: what a screen reader says of the file; not drawn.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ConfigError: the file is there already, or cannot be written.
    """
    mpl = load_matplotlib()
    Target.at(path).check()
    with mpl.rc_context(_STYLE):
        figure: Figure = mpl.figure.Figure()  # not by pyplot, which keeps figures and looks for a screen
        yield figure
        save(figure, path, title=title)


def save(figure: Figure, path: str | os.PathLike[str] | Target, *, title: str) -> None:
    """Write a figure as SVG without a date or a version, so that equal figures are equal files.

    Raises:
        ConfigError: the file is there already, or cannot be written.
    """
    load_matplotlib()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    Target.at(path).write(drawn.getvalue())


def violations_figure(rows: Sequence[Violations], path: str | os.PathLike[str] | Target) -> None:
    """The share of pairs of vectors that violate a claimed sensitivity, against their size, a curve a law.

    As figure 1 of Habernal 2021. The bands are the intervals of the shares.

    Args:
        rows: of one claim, which only the number of coordinates may tell apart.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: no rows, rows of different claims or of too many laws, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
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
        axes.set_ylim(-2, 102)
        axes.set_xlabel("coordinates of a vector, n (log scale)")
        axes.set_ylabel("pairs that violate the claim (%)")
        axes.set_title(f"Claim: {claim}\nShare of random pairs that violate it ({_counts(pairs)} for each n)")
        axes.legend(title="coordinates before clipping", loc="upper left", bbox_to_anchor=(0, 0.97), alignment="left")


def _counts(pairs: Sequence[int]) -> str:
    return f"{pairs[0]:,} pairs" if len(pairs) == 1 else f"{pairs[0]:,} to {pairs[-1]:,} pairs"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds on epsilon of one mechanism, by the number of runs.

    Attributes:
        name: of the mechanism.
        trials: runs on each input.
        bounds: the bound that so many runs gave.
        ceilings: the largest bound that so many runs can give.
        claimed: epsilon; infinite where nothing is claimed.
    """

    name: str
    trials: tuple[int, ...]
    bounds: tuple[float, ...]
    ceilings: tuple[float, ...]
    claimed: float


def bounds_figure(curves: Sequence[Bounds], path: str | os.PathLike[str] | Target) -> None:
    """What counting shows, against the number of runs: a panel for each claimed epsilon.

    A curve above the claim refutes it; none can rise above the ceiling.

    Args:
        curves: of mechanisms under the same or other claims.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: no curves, too many for one panel, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
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
            axes.set_xlabel("runs on each of two inputs (log scale)")
            axes.set_ylabel("lower bound on epsilon (95%)")
            axes.set_title(f"claimed epsilon {claimed:g}" if not math.isinf(claimed) else "nothing claimed")
        figure.set_size_inches(4.5 * max(len(panels), 1.4), 4.4)
        _legend_below(figure)


@dataclass(frozen=True, slots=True)
class Success:
    """How often an attacker's j guesses held the input, by epsilon, for one mechanism and size.

    Attributes:
        name: of the mechanism.
        epsilons: claimed.
        shares: found, with their intervals.
        bounds: the most that the claim allows.
    """

    name: str
    epsilons: tuple[float, ...]
    shares: tuple[Estimate, ...]
    bounds: tuple[float, ...]


def reconstruction_figure(panels: Mapping[str, Sequence[Success]], path: str | os.PathLike[str] | Target) -> None:
    """Success of the informed adversary against the bound of the claim, a panel for each title.

    Args:
        panels: curves by the title of their panel, such as "n = 64".
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: no panels, too many curves for one, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    if not panels or max(map(len, panels.values())) > len(LINES):
        raise ConfigError(f"Expected panels of 1 to {len(LINES)} curves.")
    with drawing(path, title="Reconstruction by an informed adversary against the bound") as figure:
        figure.set_size_inches(3.4 * len(panels) + 0.6, 4.3)
        all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, group) in zip(all_axes, panels.items(), strict=True):
            for curve, (color, dashes) in zip(group, LINES, strict=False):
                values = [100 * share.value for share in curve.shares]
                errors = [
                    [100 * (share.value - share.low) for share in curve.shares],
                    [100 * (share.high - share.value) for share in curve.shares],
                ]
                axes.errorbar(
                    curve.epsilons, values, errors, fmt=f"o{dashes}", color=color, markersize=4, label=curve.name
                )
            widest = max(group, key=lambda curve: curve.bounds)
            axes.plot(widest.epsilons, [100 * bound for bound in widest.bounds], color="black", label="bound")
            axes.set_xscale("log")
            axes.set_xticks(widest.epsilons, [f"{epsilon:g}" for epsilon in widest.epsilons])
            axes.minorticks_off()
            axes.set_title(title)
            axes.set_xlabel("claimed epsilon (log scale)")
        all_axes[0].set_ylabel("first guess is right (%)")
        _legend_below(figure)


#: Rates that a log scale cannot show are drawn at this one.
_LEAST_RATE: Final = 1e-3


def roc_figure(curves: Mapping[str, Roc], path: str | os.PathLike[str] | Target) -> None:
    """True against false positive rates of membership attacks, both on log scales (Carlini et al. 2022, figure 1).

    On log scales a few members who are found for sure show, which an AUC hides. The diagonal is guessing; rates of
    true positives below 0.1% are drawn at 0.1%.

    Args:
        curves: by the name of the attack.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: no curves or too many, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
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
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(_LEAST_RATE, 1.0)
        axes.set_ylim(_LEAST_RATE, 1.1)
        axes.set_aspect("equal")
        ticks = [0.001, 0.01, 0.1, 1.0]
        names = ["0.1%", "1%", "10%", "100%"]
        axes.set_xticks(ticks, names)
        axes.set_yticks(ticks, names)
        axes.minorticks_off()
        axes.set_xlabel("non-members accused (log scale)")
        axes.set_ylabel("members found (log scale)")
        _legend_below(figure, columns=2)


@dataclass(frozen=True, slots=True)
class Levels:
    """A measured number by redaction level.

    Attributes:
        name: what was measured, or by whom.
        levels: share of the tokens that are redacted, in [0, 1].
        values: at each level.
    """

    name: str
    levels: tuple[float, ...]
    values: tuple[Estimate, ...]


def divergence_figure(found: DivergenceReport, path: str | os.PathLike[str] | Target) -> None:
    """Divergence against its order, with the lines that epsilons are read from.

    Args:
        found: by `dptext.audits.divergence`.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    alphas = np.asarray(found.alphas)
    with drawing(path, title="Renyi divergence in one embedding against its order") as figure:
        figure.set_size_inches(6.4, 5.2)
        axes = figure.subplots()
        for name, (color, dashes) in zip((DEFAULT, MLP, LOGISTIC, PUBLISHED), LINES, strict=True):
            _interval(axes, alphas, [tested.estimate for tested in found.curve(name).larger], color, dashes, name)
        axes.plot(alphas, found.certified.divergences, "s", color="black", markersize=4, label="certified lower bound")
        for name, line, dashes in (("cheapest line above", found.cheapest, "-"), ("paper line", found.paper, "--")):
            if math.isfinite(line.intercept):
                label = f"{name}: epsilon {line.epsilon:.3g}"
                axes.plot(
                    alphas, line.intercept + line.slope * alphas, dashes, color="#888888", linewidth=1, label=label
                )
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("order alpha")
        axes.set_ylabel("divergence (nats, larger direction)")
        axes.set_title("No upper bound: estimates in one embedding")
        _legend_below(figure, columns=2)


def plane_figure(sets: Mapping[str, Floats], path: str | os.PathLike[str] | Target) -> None:
    """Sets of vectors in the first two main directions of public text: a point a record.

    As private as the sets: where space and embedder are public, who has a candidate text can look for its point.

    Args:
        sets: `(n, 2)` by name, at most four.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: no sets, too many, vectors of another shape, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
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
        axes.set_xlabel("first component")
        axes.set_ylabel("second component")
        _legend_below(figure, columns=2)


def divergence_levels_figure(curves: Sequence[Levels], path: str | os.PathLike[str] | Target, *, alpha: float) -> None:
    """Divergence of one order against the redaction level (figures 1 and 8 of Gusain and Leith 2024).

    Args:
        curves: of embeddings or of ways to redact, at most four.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.
        alpha: the order, for the label.

    Raises:
        ConfigError: no curves, too many, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    _check_levels(curves)
    with drawing(path, title=f"Renyi divergence of order {alpha:g} against the redaction level") as figure:
        axes = _levels(figure.subplots(), curves, f"divergence of order {alpha:g} (nats)")
        axes.set_xlabel("redaction level (%)")
        axes.set_title("No upper bound: estimates in one embedding")
        _legend_below(figure, columns=2)


def epsilon_levels_figure(
    epsilons: Sequence[Levels], accuracies: Sequence[Levels], path: str | os.PathLike[str] | Target
) -> None:
    """Epsilon, and the accuracy of attacks, against the redaction level (figures 4 and 5 of Gusain and Leith 2024).

    Args:
        epsilons: at most four.
        accuracies: of attacks, at most four; 50% is guessing.
        path: of the SVG file, which only its owner can read; a `Target` says otherwise, or overwrites one.

    Raises:
        ConfigError: no curves, too many, or a file that cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    _check_levels(epsilons)
    _check_levels(accuracies)
    with drawing(path, title="Epsilon and attack accuracy against the redaction level") as figure:
        figure.set_size_inches(6.4, 6.4)
        above, below = figure.subplots(2, 1, sharex=True)
        _levels(above, epsilons, "epsilon (no upper bound)").legend(fontsize=8)
        _levels(below, accuracies, "attack accuracy").legend(fontsize=8)
        below.axhline(0.5, color="#888888", linewidth=1.0)
        below.set_xlabel("redaction level (%)")


def _check_levels(curves: Sequence[Levels]) -> None:
    if not 1 <= len(curves) <= len(LINES):
        raise ConfigError(f"Expected 1 to {len(LINES)} curves, found {len(curves)}.")
    for curve in curves:
        if len(curve.levels) != len(curve.values):
            raise ConfigError(f"Expected a value for each level of the curve {curve.name!r}.")


def _levels(axes: Axes, curves: Sequence[Levels], label: str) -> Axes:
    for curve, (color, dashes) in zip(curves, LINES, strict=False):
        _interval(axes, 100 * np.asarray(curve.levels), curve.values, color, dashes, curve.name)
    axes.set_ylabel(label)
    return axes


def _interval(axes: Axes, xs: Floats, values: Sequence[Estimate], color: str, dashes: str, name: str) -> None:
    """A curve with its intervals; an infinite end is an arrow, an infinite value a star at the top."""
    shown = [(x, found) for x, found in zip(xs, values, strict=True) if math.isfinite(found.value)]
    if beyond := [x for x, found in zip(xs, values, strict=True) if not math.isfinite(found.value)]:
        top = axes.get_xaxis_transform()
        axes.plot(beyond, [0.99] * len(beyond), "*", color=color, transform=top, label=f"{name}: infinite")
    middle = [found.value for _, found in shown]
    down = [found.value - found.low if math.isfinite(found.low) else 0.0 for _, found in shown]
    up = [found.high - found.value if math.isfinite(found.high) else 0.0 for _, found in shown]
    axes.errorbar(
        [x for x, _ in shown],
        middle,
        [down, up],
        lolims=[math.isinf(found.high) for _, found in shown],
        fmt=f"o{dashes}",
        color=color,
        markersize=3.5,
        elinewidth=1.0,
        label=name,
    )


def _legend_below(figure: Figure, *, columns: int = 3) -> None:
    """One legend for all panels, where no curve is."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if max(map(len, labels), default=0) > _LONG_LABEL:
        columns = 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)
