"""The privacy-utility frontier: which points stand on one pair of axes, and which must not.

Epsilons of another unit, relation or distance mean another thing, so each such meaning has figures of its own. Rows
without a guarantee stand beside the axis.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dptext.compare.pooled import Pooled
from dptext.compare.report.summary import WHOLE, Numbers, first_rows, is_bound, measured, names, without_folders
from dptext.compare.stored import KeptRow, Meaning, TableRow
from dptext.privacy.guarantee import Basis, Unit, format_delta, format_epsilon
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM

Rows = Sequence[TableRow]

#: Metrics that are drawn where they were measured. The tables have all metrics.
DRAWN: Final = (
    "classification.accuracy", "corpus.told_apart", "embedding.accuracy", "fidelity.label_kept", "fidelity.own_first",
    "fidelity.cosine", "authorship.adaptive",
)  # fmt: skip
#: Rows that no epsilon moves: horizontal lines.
LEVELS: Final = (ORIGINAL, PUBLIC_ONLY, RANDOM)


@dataclass(frozen=True, slots=True)
class Point:
    """One row in one figure. `epsilon` is None where nothing is guaranteed, `checked` is false for a mere claim."""

    row: str
    epsilon: float | None
    measured: Pooled
    checked: bool


@dataclass(frozen=True, slots=True)
class Series:
    """Rows that only epsilon tells apart. `style` picks colour and marker; it is below 0 for *label_only*."""

    name: str
    style: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: one metric on one corpus. `lines` are the rows that no epsilon moves."""

    corpus: str
    metric: str
    series: tuple[Series, ...]
    lines: tuple[tuple[str, Pooled], ...]


@dataclass(frozen=True, slots=True)
class Frontier:
    """All figures of one meaning of epsilon: its title has unit, relation and distance, its legend series and styles.

    All panels share the smallest and largest epsilons of the axis, those of a metric the range of its values. `beside`
    says whether any row stands beside the axis.
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
    """The figures of each meaning of epsilon that a mechanism has; whole documents first."""
    numbers = measured(rows)
    lines = [row for row in first_rows(rows).values() if not row.failed]
    there = names(row.metric for row in rows if row.value is not None)
    metrics = [metric for metric in DRAWN if metric in there] or [name for name in there if not is_bound(name)][:1]
    return [_frontier(meaning, lines, numbers, metrics) for meaning in meanings(lines)]


def meanings(rows: Iterable[KeptRow]) -> list[Meaning]:
    """What epsilon means for the mechanisms among the rows: whole documents first, then distances, corpora last."""
    found = names(row.meaning for row in rows if row.protects and row.epsilon and not row.reference)
    return sorted(found, key=lambda meaning: (meaning[3], meaning[2] is not None, meaning[0] != Unit.DOCUMENT))


def undrawn(rows: Rows) -> list[str]:
    """Mechanisms that stand in no figure at all."""
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
    """0 to 1 where everything lies there, so that no axis is cut to make a difference look large."""
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
        notes.append("label_only is not drawn: its epsilon is for each text, another thing. See the tables.")
    elif other and not any(row.label_only for row in on):
        notes.append(f"label_only is not drawn: its epsilon is per {other[0].unit}, another thing. See the tables.")
    if any(row.basis == Basis.CLAIMED for row in on):
        notes.append("Hollow points on the axis are claims that dptext did not check.")
    return notes


def in_words(panel: Panel) -> str:
    """What a panel shows, for those who do not see it."""
    lines = [f"{name} {line}" for name, line in panel.lines]
    said = [f"Lines: {'; '.join(lines)}."] if lines else []
    for series in panel.series:
        at = [None if p.epsilon is None else f"at epsilon {format_epsilon(p.epsilon)}" for p in series.points]
        points = [f"{p.measured} {e or 'without a guarantee'}" for p, e in zip(series.points, at, strict=True)]
        said.append(f"{series.name}: {'; '.join(points)}.")
    return without_folders(" ".join(said))
