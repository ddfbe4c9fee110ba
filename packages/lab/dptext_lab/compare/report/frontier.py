"""The privacy-utility frontier: which points may share a pair of axes, and which must not.

Epsilons of another unit, relation or distance have another meaning, so each meaning has its own figures. Rows without a
guarantee stand beside the axis. A panel is SVG that takes its colours from the page, so that it is legible in light and
dark. The SVG is written by hand rather than by matplotlib: text stays text, and a figure weighs a few kilobytes.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from dptext.audits.figures import Scale, linear, round_ticks
from dptext.privacy.guarantee import Basis, Unit, format_delta, format_epsilon
from dptext.recommend.measured import KeptRow, Meaning
from dptext.recommend.pooled import Pooled
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM
from dptext_lab.compare.report.summary import WHOLE, Numbers, first_rows, is_bound, measured, names, without_folders
from dptext_lab.compare.stored import TableRow

Rows = Sequence[TableRow]

#: Metrics that are drawn if they were measured. The tables have all metrics.
DRAWN: Final = (
    "classification.accuracy", "corpus.told_apart", "embedding.accuracy", "fidelity.label_kept", "fidelity.own_first",
    "fidelity.cosine", "authorship.adaptive",
)  # fmt: skip
#: Rows that do not depend on epsilon: horizontal lines.
LEVELS: Final = (ORIGINAL, PUBLIC_ONLY, RANDOM)


@dataclass(frozen=True, slots=True)
class Point:
    """One row in one figure. `epsilon` is None without a guarantee, `checked` is false for a mere claim."""

    row: str
    epsilon: float | None
    measured: Pooled
    checked: bool


@dataclass(frozen=True, slots=True)
class Series:
    """Rows that differ in epsilon alone. `style` picks colour and marker; it is below 0 for *label_only*."""

    name: str
    style: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: one metric on one corpus. `lines` are the rows that do not depend on epsilon."""

    corpus: str
    metric: str
    series: tuple[Series, ...]
    lines: tuple[tuple[str, Pooled], ...]


@dataclass(frozen=True, slots=True)
class Frontier:
    """All figures of one meaning of epsilon: `title` names unit, relation and distance, `legend` series and styles.

    All panels share `epsilons`, the smallest and largest epsilon of the axis; the panels of a metric share its range.
    `beside` says whether any row stands beside the axis.
    """

    title: str
    axis: str
    legend: tuple[tuple[str, int], ...]
    panels: Mapping[str, tuple[Panel, ...]]
    epsilons: tuple[float, float]
    ranges: Mapping[str, tuple[float, float]]
    beside: bool
    notes: tuple[str, ...]


def frontiers(rows: Rows) -> list[Frontier]:
    """Return the figures of each meaning of epsilon that a mechanism has; whole documents first."""
    numbers = measured(rows)
    lines = [row for row in first_rows(rows).values() if not row.failed]
    there = names(row.metric for row in rows if row.value is not None)
    metrics = [metric for metric in DRAWN if metric in there] or [name for name in there if not is_bound(name)][:1]
    return [_frontier(meaning, lines, numbers, metrics) for meaning in meanings(lines)]


def meanings(rows: Iterable[KeptRow]) -> list[Meaning]:
    """Return the meanings of epsilon among mechanisms: whole documents first, then distances, corpora last."""
    found = names(row.meaning for row in rows if row.protects and row.epsilon and not row.reference)
    return sorted(found, key=lambda meaning: (meaning[3], meaning[2] is not None, meaning[0] != Unit.DOCUMENT))


def undrawn(rows: Rows) -> list[str]:
    """Return the mechanisms that are in no figure."""
    lines = [row for row in first_rows(rows).values() if not row.reference and not row.failed]
    units = {(row.unit, row.whole) for row in lines if row.protects and row.epsilon}
    return names(row.row for row in lines if not (row.protects and row.epsilon) and (row.unit, row.whole) not in units)


def _frontier(meaning: Meaning, lines: Rows, numbers: Numbers, metrics: Sequence[str]) -> Frontier:
    unit, relation, distance, whole = meaning
    on = [row for row in lines if row.meaning == meaning and row.protects and row.epsilon]
    # Without a guarantee there is no relation and no distance that could be mixed up.
    alike = (row for row in lines if row.unit == unit and row.whole == whole)
    beside = [row for row in alike if not row.reference and not row.protects]
    shown = [*on, *beside]
    own = names(row.series for row in shown if not row.reference)
    given = names(row.series for row in on if row.label_only)
    legend = [*((name, i) for i, name in enumerate(own)), *((name, -i) for i, name in enumerate(given, start=1))]
    panels: dict[str, tuple[Panel, ...]] = {}
    for metric in metrics:
        all_of = (_panel(corpus, metric, shown, numbers, legend) for corpus in names(row.corpus for row in shown))
        if drawn := tuple(panel for panel in all_of if panel.series):
            panels[metric] = drawn
    epsilons = [row.epsilon for row in on if row.epsilon is not None]
    per = f"unit of distance, {unit}" if distance else unit or "unit that is not stated"
    relation = relation.replace("_", " ")
    changed = f" ({relation})" if relation else ""
    title = f"Epsilon per unit of {distance}, {unit}{changed}" if distance else f"Epsilon per {per}{changed}"
    return Frontier(
        title=f"{WHOLE}: {unit}, {relation}" if whole else title,
        axis="epsilon for the whole corpus (log scale)" if whole else f"epsilon per {per} (log scale)",
        legend=tuple(legend),
        panels=panels,
        epsilons=(min(epsilons), max(epsilons)),
        ranges={metric: _range(found) for metric, found in panels.items()},
        beside=bool(beside),
        notes=tuple(_notes(meaning, lines, on, beside)),
    )


def _panel(corpus: str, metric: str, rows: Rows, numbers: Numbers, styles: Sequence[tuple[str, int]]) -> Panel:
    series = []
    for name, style in styles:
        points = [
            Point(row.row, row.epsilon if row.protects else None, numbers[key], row.basis != Basis.CLAIMED)
            for row in rows
            if row.corpus == corpus and row.series == name and (key := (corpus, row.row, metric)) in numbers
        ]
        points.sort(key=lambda point: float("inf") if point.epsilon is None else point.epsilon)
        if points:
            series.append(Series(name, style, tuple(points)))
    lines = tuple((name, numbers[key]) for name in LEVELS if (key := (corpus, name, metric)) in numbers)
    return Panel(corpus, metric, tuple(series), lines)


def _range(panels: Sequence[Panel]) -> tuple[float, float]:
    """Return 0 to 1 if all values lie there, so that no axis is cut to make a difference look large."""
    found = [point.measured for panel in panels for series in panel.series for point in series.points]
    found += [line for panel in panels for _, line in panel.lines]
    low = min(number.low for number in found)
    high = max(number.high for number in found)
    return min(low, 0.0), max(high, 1.0 if low >= -1 and high <= 1 else high, 1e-9)


def _notes(meaning: Meaning, lines: Rows, on: Rows, beside: Rows) -> list[str]:
    notes = []
    deltas = sorted({row.delta or 0.0 for row in on})
    if len(deltas) > 1:
        span = f"{format_delta(deltas[0])} to {format_delta(deltas[-1])}"
        notes.append(f"The epsilons on this axis hold at different deltas, {span}; the tables name each.")
    if beside:
        which = without_folders(", ".join(names(row.series for row in beside)))
        notes.append(f"Beside the axis, hollow, because nothing is guaranteed: {which}.")
    zero = names(row.row for row in lines if row.meaning == meaning and not row.reference and row.epsilon == 0)
    if zero:
        notes.append(f"Epsilon 0 has no place on a logarithmic axis: {without_folders(', '.join(zero))}.")
    other = [row for row in lines if row.label_only and row.meaning != meaning and row.protects]
    if meaning[3]:
        notes.append("label_only is not drawn: its epsilon for each text has another meaning. See the tables.")
    elif other and not any(row.label_only for row in on):
        notes.append(f"label_only is not drawn: its epsilon per {other[0].unit} has another meaning. See the tables.")
    if any(row.basis == Basis.CLAIMED for row in on):
        notes.append("Hollow points on the axis are claims that dptext did not check.")
    return notes


def in_words(panel: Panel) -> str:
    """Describe a panel in words, for readers who do not see it."""
    lines = [f"{name} {line}" for name, line in panel.lines]
    said = [f"Lines: {'; '.join(lines)}."] if lines else []
    for series in panel.series:
        at = [None if p.epsilon is None else f"at epsilon {format_epsilon(p.epsilon)}" for p in series.points]
        points = [f"{p.measured} {e or 'without a guarantee'}" for p, e in zip(series.points, at, strict=True)]
        said.append(f"{series.name}: {'; '.join(points)}.")
    return without_folders(" ".join(said))


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


def panel_svg(panel: Panel, frontier: Frontier, name: str) -> str:
    """Draw one panel as an SVG element for a page, with a title and a description, whose ids begin with the name."""
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
    across = linear(low - room, high + room, _LEFT, inner)
    ticks = round_ticks(*frontier.ranges[panel.metric])
    up = linear(ticks[0], ticks[-1], _HEIGHT - _BOTTOM, _TOP)
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
    """Draw the marker of a series for the legend, which names it in words."""
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


def _epsilon_axis(svg: ET.Element, panel: Panel, frontier: Frontier, across: Scale, end: float) -> None:
    bottom = _HEIGHT - _BOTTOM
    _line(svg, "axis", _LEFT, bottom, end, bottom)
    there = sorted({p.epsilon for series in panel.series for p in series.points if p.epsilon is not None})
    for tick in _apart(there, across):
        x = across(math.log10(tick))
        _line(svg, "axis", x, bottom, x, bottom + 4)
        _text(svg, x, bottom + 15, format_epsilon(tick), "middle")
    _text(svg, _LEFT, _HEIGHT - 6, frontier.axis, "start")


def _apart(epsilons: Sequence[float], across: Scale) -> list[float]:
    kept: list[float] = []
    end = -math.inf
    for epsilon in epsilons:
        x, half = across(math.log10(epsilon)), len(format_epsilon(epsilon)) * _LETTER / 2
        if x - half > end + 4:
            kept.append(epsilon)
            end = x + half
    return kept


def _lines(svg: ET.Element, panel: Panel, across: Scale, up: Scale, right: float) -> None:
    """Draw the references' lines, with labels at the right that do not touch; *label_only* gets a leader line."""
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


def _series(svg: ET.Element, series: Series, offset: float, across: Scale, up: Scale, beside: float) -> None:
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
