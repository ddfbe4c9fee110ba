"""Figures of audits as SVG, drawn without a library: equal numbers give equal bytes.

Each function writes an SVG file to `path`. Only the file's owner can read it; a `Target` may set other rights, or allow
an existing file to be overwritten. A figure is 640 px wide or less, has a title and says its numbers in words, and
refers to no font or other file. Error of each: ConfigError if the file cannot be written.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from dptext.audits.roc import Roc
from dptext.errors import ConfigError
from dptext.text.files import Target

Place = str | os.PathLike[str] | Target
Scale = Callable[[float], float]
Points = Sequence[tuple[float, float]]

#: Line styles that differ for colour-blind readers too (Okabe and Ito 2008), and for everybody by their dashes.
LINES: Final = (("#0072B2", ""), ("#D55E00", "7 3"), ("#009E73", "8 3 2 3"), ("#CC79A7", "2 2"))

_INK: Final = "#222222"
_GRID: Final = "#DDDDDD"
_REFERENCE: Final = "#777777"
_SIZE: Final = 12  # px, of every text
_LETTER: Final = 6.8  # a generous width of a letter
_LINE: Final = 18.0
_SAMPLE: Final = 30.0  # the line beside a name of the legend


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds on epsilon of one mechanism, by the number of runs."""

    name: str  #: name of the mechanism
    trials: tuple[int, ...]  #: numbers of runs on each input
    bounds: tuple[float, ...]  #: the measured bound for each number of runs
    ceilings: tuple[float, ...]  #: the largest bound that each number of runs can give
    claimed: float  #: claimed epsilon; infinite if nothing is claimed


def bounds_figure(curves: Sequence[Bounds], path: Place, *, confidence: float = 0.95) -> None:
    """Draw lower bounds on epsilon against the number of runs, one panel per claimed epsilon.

    A curve above the claim refutes the claim. No curve can rise above the ceiling. Curves of one name have one style in
    all panels. ConfigError: no curves, too many for one panel, or too many names.
    """
    panels: dict[float, list[Bounds]] = {}
    for curve in curves:
        panels.setdefault(curve.claimed, []).append(curve)
    styles = dict(zip(dict.fromkeys(curve.name for curve in curves), LINES, strict=False))
    if not panels or max(map(len, panels.values())) > len(LINES) or any(each.name not in styles for each in curves):
        most = len(LINES)
        raise ConfigError(f"Expected 1 to {most} curves for each claim, of {most} names, found {len(curves)} in all.")
    title = "Lower bound on epsilon against the number of runs"
    svg = _page(title, " ".join(_bounds_in_words(claimed, group) for claimed, group in panels.items()))
    columns = min(2, len(panels))
    width, height = 640.0 / columns, 290.0
    for i, (claimed, group) in enumerate(panels.items()):
        down, along = divmod(i, columns)
        frame = _Frame(along * width + 44, down * height + 46, (along + 1) * width - 16, (down + 1) * height - 46)
        _bounds_panel(svg, frame, claimed, group, styles, f"lower bound on epsilon ({100 * confidence:.6g}%)")
    bottom = math.ceil(len(panels) / columns) * height
    keys = [_LegendEntry(name, *style, dots=True) for name, style in styles.items()]
    keys.append(_LegendEntry("ceiling of so many runs", _REFERENCE, "2 3"))
    if any(map(math.isfinite, panels)):
        keys.append(_LegendEntry("claim", _INK))
    _save(svg, 640.0, _legend(svg, keys, bottom, 640.0), path)


_LEAST_RATE: Final = 1e-3  #: lower end of the log scales; smaller rates of true positives are drawn here
_RATES: Final = {0.001: "0.1%", 0.01: "1%", 0.1: "10%", 1.0: "100%"}


def roc_figure(curves: Mapping[str, Roc], path: Place) -> None:
    """Draw true against false positive rates of membership attacks, on log scales (Carlini et al. 2022, figure 1).

    Log scales show a few members who are found for sure, whom an AUC hides. The diagonal is guessing. Rates of true
    positives below 0.1% are drawn at 0.1%. `curves` maps names of attacks to curves. ConfigError: no curves, or too
    many.
    """
    if not 1 <= len(curves) <= len(LINES):
        raise ConfigError(f"Expected 1 to {len(LINES)} curves, found {len(curves)}.")
    title = "Membership inference: true against false positive rate"
    svg = _page(title, " ".join(_roc_in_words(name, roc) for name, roc in curves.items()))
    width, frame = 480.0, _Frame(52, 34, 460, 442)
    across, up = frame.across(math.log10(_LEAST_RATE), 0.0), frame.up(math.log10(_LEAST_RATE), 0.0)

    def at(fpr: float, tpr: float) -> tuple[float, float]:
        return across(math.log10(fpr)), up(math.log10(max(tpr, _LEAST_RATE)))

    _text(svg, 8, 18, "members found (log scale)")
    for rate, name in _RATES.items():
        x, y = at(rate, rate)
        _line(svg, [(x, frame.top), (x, frame.bottom)], _GRID)
        _line(svg, [(frame.left, y), (frame.right, y)], _GRID)
        _text(svg, x, frame.bottom + _LINE, name, "middle")
        _text(svg, frame.left - 6, y + 4, name, "end")
    _axes(svg, frame, "non-members accused (log scale)")
    _line(svg, [at(_LEAST_RATE, _LEAST_RATE), at(1.0, 1.0)], _REFERENCE)
    for roc, (color, dashes) in zip(curves.values(), LINES, strict=False):
        places = [at(fpr, tpr) for fpr, tpr in zip(roc.fpr, roc.tpr, strict=True) if fpr >= _LEAST_RATE]
        _line(svg, _steps(places), color, dashes, width=2)
    keys = [_LegendEntry(name, *style) for name, style in zip(curves, LINES, strict=False)]
    _save(svg, width, _legend(svg, [*keys, _LegendEntry("guessing", _REFERENCE)], frame.bottom + 42, width), path)


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """Return the scale that takes low to start and high to end."""
    return lambda number: start + (number - low) / (high - low) * (end - start)


def round_ticks(low: float, high: float) -> list[float]:
    """Return 3 to 8 round numbers, evenly spaced, whose ends are at or beyond these ends."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (factor * step) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The edges of the area where curves are drawn, in px from the left and the top of the figure."""

    left: float
    top: float
    right: float
    bottom: float

    def across(self, low: float, high: float) -> Scale:
        return linear(low, high, self.left, self.right)

    def up(self, low: float, high: float) -> Scale:
        return linear(low, high, self.bottom, self.top)


@dataclass(frozen=True, slots=True)
class _LegendEntry:
    """An entry of the legend."""

    name: str
    color: str
    dashes: str = ""
    dots: bool = False


def _bounds_panel(
    svg: ET.Element,
    frame: _Frame,
    claimed: float,
    group: Sequence[Bounds],
    styles: Mapping[str, tuple[str, str]],
    what: str,
) -> None:
    runs = sorted({n for curve in group for n in curve.trials})
    least, most = math.log10(runs[0]), math.log10(runs[-1])
    room = max(0.04 * (most - least), 0.05)
    across = frame.across(least - room, most + room)
    numbers = [number for curve in group for number in (*curve.bounds, *curve.ceilings)]
    high = max([each for each in (*numbers, claimed) if math.isfinite(each)], default=0.0)
    ticks = round_ticks(0.0, high if high > 0 else 1.0)
    up = frame.up(ticks[0], ticks[-1])

    def places(trials: Iterable[int], values: Iterable[float]) -> Points:
        both = zip(trials, values, strict=True)  # an infinite value is drawn at the top
        return [(across(math.log10(n)), up(min(value, ticks[-1]))) for n, value in both]

    head = "nothing claimed" if math.isinf(claimed) else f"claimed epsilon {claimed:g}"
    _text(svg, frame.left - 36, frame.top - 28, head, weight="bold")
    _text(svg, frame.left - 36, frame.top - 11, what)
    for tick in ticks:
        _line(svg, [(frame.left, up(tick)), (frame.right, up(tick))], _GRID)
        _text(svg, frame.left - 6, up(tick) + 4, f"{round(tick, 9):g}", "end")
    taken = -math.inf
    for n in runs:
        x, half = across(math.log10(n)), len(f"{n:,}") * _LETTER / 2
        if x - half > taken + 4:
            _line(svg, [(x, frame.bottom), (x, frame.bottom + 4)], _INK)
            _text(svg, min(x, frame.right + 12 - half), frame.bottom + _LINE, f"{n:,}", "middle")
            taken = x + half
    _axes(svg, frame, "runs on each of two inputs (log scale)")
    ceiling = places(group[0].trials, group[0].ceilings)
    _line(svg, ceiling, _REFERENCE, "2 3", width=2)
    if len(ceiling) == 1:
        _dot(svg, ceiling[0], _REFERENCE)
    if math.isfinite(claimed):
        _line(svg, [(frame.left, up(claimed)), (frame.right, up(claimed))], _INK)
    for curve in group:
        points = places(curve.trials, curve.bounds)
        _line(svg, points, *styles[curve.name], width=2)
        for point in points:
            _dot(svg, point, styles[curve.name][0])


def _bounds_in_words(claimed: float, group: Sequence[Bounds]) -> str:
    said = ["Nothing is claimed." if math.isinf(claimed) else f"Claimed epsilon {claimed:g}."]
    for curve in group:
        least = [number if math.isinf(number) else math.floor(number * 1000) / 1000 for number in curve.bounds]
        found = (f"{number:g} by {n:,}" for number, n in zip(least, curve.trials, strict=True))
        said.append(f"{curve.name}, lower bound by runs: {', '.join(found)}.")
    most = (f"{number:.3g} by {n:,}" for number, n in zip(group[0].ceilings, group[0].trials, strict=True))
    return " ".join([*said, f"So many runs show at most: {', '.join(most)}."])


def _roc_in_words(name: str, roc: Roc) -> str:
    found = []
    for rate, shown in itertools.islice(_RATES.items(), 3):
        tpr = max((tpr for fpr, tpr in zip(roc.fpr, roc.tpr, strict=True) if fpr <= rate * (1 + 1e-9)), default=0.0)
        found.append(f"{100 * tpr:.3g}% at {shown}")
    return f"{name}, members found by non-members accused: {', '.join(found)}."


def _steps(points: Points) -> Points:
    """Return the corners of a curve that keeps each height until the next point."""
    corners = [((after[0], before[1]), after) for before, after in itertools.pairwise(points)]
    return [*points[:1], *itertools.chain.from_iterable(corners)]


def _page(title: str, words: str) -> ET.Element:
    """Return an empty white figure with a title, and a description for readers who do not see it."""
    ids = {"aria-labelledby": "title", "aria-describedby": "words"}
    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **ids})
    ET.SubElement(svg, "title", {"id": "title"}).text = title
    ET.SubElement(svg, "desc", {"id": "words"}).text = words
    ET.SubElement(svg, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    return svg


def _axes(svg: ET.Element, frame: _Frame, below: str) -> None:
    corners = [(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)]
    _line(svg, corners, _INK)
    _text(svg, (frame.left + frame.right) / 2, frame.bottom + 2 * _LINE, below, "middle")


def _legend(svg: ET.Element, keys: Sequence[_LegendEntry], top: float, width: float) -> float:
    """Draw the legend in rows below the panels, and return where it ends."""
    left = 12.0
    x, y = left, top + _LINE
    for key in keys:
        most = int((width - 2 * left - _SAMPLE - 6) / _LETTER)
        name = key.name if len(key.name) <= most else f"{key.name[: most - 1]}…"
        wide = _SAMPLE + 6 + len(name) * _LETTER + 16
        if x > left and x + wide - 16 > width - left:
            x, y = left, y + _LINE
        _line(svg, [(x, y - 4), (x + _SAMPLE, y - 4)], key.color, key.dashes, width=2)
        if key.dots:
            _dot(svg, (x + _SAMPLE / 2, y - 4), key.color)
        _text(svg, x + _SAMPLE + 6, y, name)
        x += wide
    return y + _LINE / 2


def _line(svg: ET.Element, points: Points, color: str, dashes: str = "", *, width: float = 1) -> None:
    style = {"fill": "none", "stroke": color, "stroke-width": f"{width:g}"}
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    ET.SubElement(svg, "polyline", {"points": places, **style, **({"stroke-dasharray": dashes} if dashes else {})})


def _dot(svg: ET.Element, place: tuple[float, float], color: str) -> None:
    ET.SubElement(svg, "circle", {"cx": f"{place[0]:.1f}", "cy": f"{place[1]:.1f}", "r": "3.5", "fill": color})


def _text(svg: ET.Element, x: float, y: float, words: str, anchor: str = "start", *, weight: str = "normal") -> None:
    style = {"font-family": "system-ui, sans-serif", "font-size": f"{_SIZE}", "font-weight": weight, "fill": _INK}
    ET.SubElement(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, **style}).text = words


def _save(svg: ET.Element, width: float, height: float, path: Place) -> None:
    size = {"width": f"{width:.0f}", "height": f"{math.ceil(height)}"}
    size["viewBox"] = f"0 0 {size['width']} {size['height']}"
    for name, value in size.items():
        svg.set(name, value)
    svg.set("style", "max-width:100%;height:auto")
    Target.at(path).write(ET.tostring(svg, "utf-8", xml_declaration=True, short_empty_elements=False) + b"\n")
