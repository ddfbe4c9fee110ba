"""Figures as SVG, with the same bytes for the same numbers.

`drawing` yields an empty figure and saves it when the block ends::

    with drawing("violations.svg", title="...") as figure:
        axes = figure.subplots()
        axes.plot(xs, ys)
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from dptext.estimates import Estimate
from dptext.text.files import Target
from dptext.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Line styles that differ for colour-blind readers too (Okabe and Ito 2008), and for everybody by their dashes.
LINES: Final = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"))

#: Two legends with labels longer than this, side by side, do not fit the width.
_LONG_LABEL: Final = 30

_STYLE: Final = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "figure.figsize": (7.2, 4.0),
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that text has the same width everywhere
    "font.size": 9.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "dptext",  # ids are otherwise random
}


def load_matplotlib() -> ModuleType:
    """Load the module matplotlib at first use."""
    import matplotlib as mpl  # noqa: PLC0415 (slow to load)
    import matplotlib.figure  # noqa: PLC0415

    return mpl


@contextlib.contextmanager
def drawing(path: str | os.PathLike[str] | Target, *, title: str) -> Iterator[Figure]:
    """Yield an empty figure in the style of the house, and save it as SVG when the block ends without an error.

    Only the owner can read the file, unless a `Target` says otherwise. A screen reader reads the title, which is not
    drawn. ConfigError if the file exists or cannot be written.
    """
    mpl = load_matplotlib()
    Target.at(path).check()
    with mpl.rc_context(_STYLE):
        figure: Figure = mpl.figure.Figure()  # pyplot would keep figures and look for a screen
        yield figure
        save(figure, path, title=title)


def save(figure: Figure, path: str | os.PathLike[str] | Target, *, title: str) -> None:
    """Write a figure as SVG without a date or a version, so that equal figures are equal files."""
    load_matplotlib()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    Target.at(path).write(drawn.getvalue())


def interval_curve(axes: Axes, xs: Floats, values: Sequence[Estimate], color: str, dashes: str, name: str) -> None:
    """Draw a curve with its intervals: an infinite end as an arrow, an infinite value as a star at the top."""
    shown = [(x, found) for x, found in zip(xs, values, strict=True) if math.isfinite(found.value)]
    if beyond := [x for x, found in zip(xs, values, strict=True) if not math.isfinite(found.value)]:
        top = axes.get_xaxis_transform()
        axes.plot(beyond, [0.99] * len(beyond), "*", color=color, transform=top, label=f"{name}: infinite")
    at, middle = [x for x, _ in shown], [found.value for _, found in shown]
    down = [found.value - found.low if math.isfinite(found.low) else 0.0 for _, found in shown]
    up = [found.high - found.value if math.isfinite(found.high) else 0.0 for _, found in shown]
    arrows = [math.isinf(found.high) for _, found in shown]
    style: dict[str, Any] = {"fmt": f"o{dashes}", "color": color, "markersize": 3.5, "elinewidth": 1.0}
    axes.errorbar(at, middle, [down, up], lolims=arrows, label=name, **style)


def legend_below(figure: Figure, *, columns: int = 3) -> None:
    """Draw one legend for all panels below them, where no curve runs."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if max(map(len, labels), default=0) > _LONG_LABEL:
        columns = 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)
