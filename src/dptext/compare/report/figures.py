"""A panel of the frontier as SVG that takes its colours from the page, so that it is legible in light and dark.

Written by hand rather than by matplotlib: text stays text, and a figure weighs a few kilobytes.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final
from xml.etree import ElementTree as ET

from dptext.compare.report.frontier import Frontier, Panel, Series, in_words
from dptext.compare.report.summary import without_folders
from dptext.privacy.guarantee import format_epsilon

COLORS: Final = 5
_WIDTH, _HEIGHT = 360.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 92.0, 28.0, 42.0
_BESIDE: Final = 46.0  # the room for rows without a guarantee
_RADIUS: Final = 3.8
_CAP: Final = 3.0
_LETTER: Final = 6.2  # a generous width of a letter of 11 px
_LINE: Final = 12.5


def _outline(*corners: tuple[float, float]) -> Callable[[float, float], str]:
    def path(x: float, y: float) -> str:
        return "M" + "L".join(f"{x + _RADIUS * dx:.1f},{y + _RADIUS * dy:.1f}" for dx, dy in corners) + "Z"

    return path


def _circle(x: float, y: float) -> str:
    r = _RADIUS
    return f"M{x - r:.1f},{y:.1f}a{r},{r} 0 1 0 {2 * r},0a{r},{r} 0 1 0 {-2 * r},0Z"


#: With 5 colours, 35 series differ in marker or colour.
MARKERS: Final = (
    _circle,
    _outline((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    _outline((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    _outline((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
    _outline((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
    _outline(
        *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
        *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    ),
    _outline((0, -1.2), (0.35, -0.35), (1.2, 0), (0.35, 0.35), (0, 1.2), (-0.35, 0.35), (-1.2, 0), (-0.35, -0.35)),
)
_BASELINES: Final = (
    _outline((-0.45, -1.2), (0.45, -1.2), (0.45, 1.2), (-0.45, 1.2)),
    _outline((-1.2, -0.45), (1.2, -0.45), (1.2, 0.45), (-1.2, 0.45)),
)


_Scale = Callable[[float], float]


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    return lambda number: start + (number - low) / (high - low) * (end - start)


def panel_svg(panel: Panel, frontier: Frontier, name: str) -> str:
    """One panel as an SVG element for a page, with a title and a description, whose ids begin with the name."""
    ids = {"aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-words"}
    svg = ET.Element("svg", {"viewBox": f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}", "role": "img", **ids})
    title = f"{panel.metric} on {panel.corpus} against {frontier.axis}"
    ET.SubElement(svg, "title", {"id": f"{name}-title"}).text = without_folders(title)
    ET.SubElement(svg, "desc", {"id": f"{name}-words"}).text = in_words(panel)
    _text(svg, 0, 13, without_folders(panel.corpus), "start")
    svg[-1].set("class", "head")
    right = _WIDTH - _RIGHT
    inner = right - (_BESIDE if frontier.beside else 0.0)
    low, high = (math.log10(epsilon) for epsilon in frontier.epsilons)
    room = max(0.08 * (high - low), 0.05)
    across = _scale(low - room, high + room, _LEFT, inner)
    ticks = _nice(*frontier.ranges[panel.metric])
    up = _scale(ticks[0], ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    for tick in ticks:
        _line(svg, "grid", _LEFT, up(tick), right, up(tick))
        _text(svg, _LEFT - 5, up(tick) + 4, f"{round(tick, 9) or 0.0:g}", "end")  # no minus before a zero
    _epsilon_axis(svg, panel, frontier, across, inner)
    if frontier.beside:
        _line(svg, "axis", inner, _TOP, inner, _HEIGHT - _BOTTOM, "2 3")
        _text(svg, (inner + right) / 2, _HEIGHT - _BOTTOM + 15, "none", "middle")
    _lines(svg, panel, across, up, right)
    offset = min(4.0, 14.0 / max(1, len(panel.series) - 1))
    for i, series in enumerate(panel.series):
        _series(svg, series, (i - (len(panel.series) - 1) / 2) * offset, across, up, (inner + right) / 2)
    return ET.tostring(svg, "unicode", short_empty_elements=False)


def marker_svg(style: int) -> str:
    """The marker of a series for the legend, which names it in words."""
    svg = ET.Element("svg", {"viewBox": "0 0 22 12", "class": "marker", "aria-hidden": "true"})
    group = ET.SubElement(svg, "g", {"class": _style_class(style)})
    _line(group, "series", 0, 6, 22, 6)
    ET.SubElement(group, "path", {"class": "point", "d": _marker(style)(11, 6)})
    return ET.tostring(svg, "unicode", short_empty_elements=False)


def _style_class(style: int) -> str:
    return "baseline" if style < 0 else f"s{style % COLORS}"


def _marker(style: int) -> Callable[[float, float], str]:
    return MARKERS[style % len(MARKERS)] if style >= 0 else _BASELINES[-style % len(_BASELINES)]


def _line(parent: ET.Element, kind: str, x1: float, y1: float, x2: float, y2: float, dashes: str = "") -> None:
    places = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    ET.SubElement(parent, "line", {"class": kind, **places, **({"stroke-dasharray": dashes} if dashes else {})})


def _text(parent: ET.Element, x: float, y: float, words: str, anchor: str) -> None:
    ET.SubElement(parent, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}).text = words


def _epsilon_axis(svg: ET.Element, panel: Panel, frontier: Frontier, across: _Scale, end: float) -> None:
    bottom = _HEIGHT - _BOTTOM
    _line(svg, "axis", _LEFT, bottom, end, bottom)
    there = sorted({p.epsilon for series in panel.series for p in series.points if p.epsilon is not None})
    for tick in _apart(there, across):
        x = across(math.log10(tick))
        _line(svg, "axis", x, bottom, x, bottom + 4)
        _text(svg, x, bottom + 15, format_epsilon(tick), "middle")
    _text(svg, _LEFT, _HEIGHT - 6, frontier.axis, "start")


def _apart(epsilons: Sequence[float], across: _Scale) -> list[float]:
    kept: list[float] = []
    end = -math.inf
    for epsilon in epsilons:
        x, half = across(math.log10(epsilon)), len(format_epsilon(epsilon)) * _LETTER / 2
        if x - half > end + 4:
            kept.append(epsilon)
            end = x + half
    return kept


def _lines(svg: ET.Element, panel: Panel, across: _Scale, up: _Scale, right: float) -> None:
    """Lines of the references, named at the right end without touching; a leader goes to the name of *label_only*."""
    dashes = {"original": "", "public-only": "7 3", "random": "2 3"}
    ends = [(series.name, series.points[-1]) for series in panel.series if series.style < 0]
    for _, end in ends:
        start, place = across(math.log10(end.epsilon or 1.0)), up(end.measured.value)
        _line(svg, "leader", start, place, right, place)
    named = [*panel.lines, *((name, end.measured) for name, end in ends)]
    found = sorted(((up(line.value), name, line) for name, line in named), key=lambda item: item[0])
    labels = list(itertools.accumulate((place for place, _, _ in found), lambda last, place: max(last + _LINE, place)))
    lowest = _HEIGHT - _BOTTOM
    for i in reversed(range(len(labels))):
        labels[i] = lowest = min(labels[i], lowest)
        lowest -= _LINE
    for label, (place, name, line) in zip(labels, found, strict=True):
        group = ET.SubElement(svg, "g", {"class": "reference"})
        _text(group, right + 4, label + 4, name.replace("label_only (", "label ("), "start")
        if (name, line) not in panel.lines:
            continue
        top, bottom = up(line.high), up(line.low)
        box = {"x": f"{_LEFT:.1f}", "y": f"{top:.1f}", "width": f"{right - _LEFT:.1f}"}
        ET.SubElement(group, "rect", {"class": "band", **box, "height": f"{max(bottom - top, 0):.1f}"})
        _line(group, "level", _LEFT, place, right, place, dashes.get(name, ""))


def _series(svg: ET.Element, series: Series, offset: float, across: _Scale, up: _Scale, beside: float) -> None:
    group = ET.SubElement(svg, "g", {"class": _style_class(series.style)})
    marker = _marker(series.style)
    finite = ((p, beside if p.epsilon is None else across(math.log10(p.epsilon))) for p in series.points)
    places = [(point, x + offset, up(point.measured.value)) for point, x in finite]
    on = [f"{x:.1f},{y:.1f}" for point, x, y in places if point.epsilon is not None]
    if len(on) > 1:
        ET.SubElement(group, "polyline", {"class": "series", "points": " ".join(on)})
    for point, x, y in places:
        number = point.measured
        if number.interval:
            _line(group, "bar", x, up(number.low), x, up(number.high))
            for end in (number.low, number.high):
                _line(group, "bar", x - _CAP, up(end), x + _CAP, up(end))
        kind = "point hollow" if point.epsilon is None or not point.checked else "point"
        path = ET.SubElement(group, "path", {"class": kind, "d": marker(x, y)})
        ET.SubElement(path, "title").text = without_folders(f"{point.row}: {number}")


def _nice(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (factor * step) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]
