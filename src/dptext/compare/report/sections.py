"""The sections of the page: what stands in each, in words and tables. Nothing here is escaped for HTML yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dptext.compare.report.figures import marker_svg, panel_svg
from dptext.compare.report.frontier import Frontier, in_brief
from dptext.compare.report.results import Results
from dptext.compare.report.summary import (
    document_epsilon,
    first_rows,
    listed,
    meaning_of,
    measured,
    names,
    privacy,
    row_names,
    without_folders,
)
from dptext.compare.stored import Sample, TableRow
from dptext.privacy.guarantee import Basis, Guarantee, Unit, format_epsilon
from dptext.types import Json

#: Characters of a sample that are shown; a whole review would bury the next one.
SAMPLE_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A row with its mechanism, its settings and its guarantees."""

    row: str
    kind: str
    settings: str
    privacy: tuple[str, ...]
    document: tuple[str, ...]


def compared_rows(rows: Sequence[TableRow]) -> list[ComparedRow]:
    """Every row of the table, with its settings and its guarantee on each corpus."""
    lines = first_rows(rows)
    found = []
    for name in row_names(rows):
        own = [line for (_, row), line in lines.items() if row == name]
        settings = [
            f"{key} = {_setting(value)}" if all(line.chosen.get(key) == value for line in own) else f"{key}: by corpus"
            for key, value in own[0].chosen.items()
            if key != "kind"
        ]
        found.append(
            ComparedRow(
                name,
                own[0].kind,
                without_folders(listed(settings)),
                tuple(names(privacy(line) for line in own)),
                tuple(names(document_epsilon(line) for line in own)),
            )
        )
    return found


def _setting(value: Json) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 80 else f"{shown[:76]} ..."


@dataclass(frozen=True, slots=True)
class Figure:
    """A panel as SVG, with a sentence that says what it shows."""

    name: str
    corpus: str
    svg: str
    brief: str


@dataclass(frozen=True, slots=True)
class DrawnFrontier:
    """A frontier as SVG: figures by metric and what the metric means, with the legend and notes."""

    title: str
    legend: tuple[tuple[str, str], ...]
    panels: Mapping[tuple[str, str], Sequence[Figure]]
    notes: tuple[str, ...]


def drawn_figures(frontier: Frontier, number: int) -> DrawnFrontier:
    """The figures of a frontier, whose number is part of their names."""
    figures: dict[tuple[str, str], list[Figure]] = {}
    for metric, panels in frontier.panels.items():
        for panel in panels:
            name = f"figure-{number}-{sum(map(len, figures.values())) + 1}"
            figure = Figure(name, panel.corpus, panel_svg(panel, frontier, name), in_brief(panel))
            figures.setdefault((metric, meaning_of(metric)), []).append(figure)
    legend = tuple((name, marker_svg(style)) for name, style in frontier.legend)
    return DrawnFrontier(frontier.title, legend, figures, frontier.notes)


@dataclass(frozen=True, slots=True)
class MetricTable:
    """One metric: a line a row, a column a corpus."""

    metric: str
    meaning: str
    corpora: tuple[str, ...]
    lines: tuple[tuple[str, str, tuple[str, ...]], ...]


def metric_tables(rows: Sequence[TableRow]) -> list[MetricTable]:
    """A table for each metric that was measured."""
    numbers = measured(rows)
    lines = first_rows(rows)
    most = trial_count(rows)
    found = []
    for metric in names(row.metric for row in rows if row.metric):
        corpora = [
            corpus
            for corpus in names(row.corpus for row in rows)
            if any((corpus, row, metric) in numbers for row in row_names(rows))
        ]
        body = []
        for name in row_names(rows):
            cells = []
            for corpus in corpora:
                number = numbers.get((corpus, name, metric))
                line = lines.get((corpus, name))
                if number is not None:
                    few = f" ({number.trials} of {most} trials)" if number.trials < most else ""
                    cells.append(f"{number}{few}")
                else:
                    cells.append("failed" if line is not None and line.failed else "-")
            if set(cells) != {"-"}:
                stated = listed(names(privacy(line) for (_, row), line in lines.items() if row == name))
                body.append((name, stated, tuple(cells)))
        if corpora:
            found.append(MetricTable(metric, meaning_of(metric), tuple(corpora), tuple(body)))
    return found


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """Samples of one corpus: each original with what each row made of it."""

    corpus: str
    items: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = field(repr=False)


def grouped_samples(results: Results, samples: Mapping[str, Sequence[Sample]]) -> list[SampleGroup]:
    """The samples of each corpus, by original."""
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    lines = first_rows(results.rows)
    for corpus in names(row.corpus for row in results.rows):
        for name in row_names(results.rows):
            line = lines.get((corpus, name))
            for sample in () if line is None else samples.get(line.signature, ()):
                of = found.setdefault(corpus, {}).setdefault(sample.original, [])
                of.append((name, "(no text)" if sample.released is None else _cut(sample.released)))
    return [
        SampleGroup(corpus, tuple((_cut(original), tuple(made)) for original, made in group.items()))
        for corpus, group in found.items()
    ]


def _cut(text: str) -> str:
    if not text.strip():
        return "(no text)"
    return text if len(text) <= SAMPLE_CHARACTERS else f"{text[:SAMPLE_CHARACTERS].rstrip()} ..."


@dataclass(frozen=True, slots=True)
class GuaranteeInWords:
    """A guarantee in words, and whose it is."""

    row: str
    corpora: tuple[str, ...]
    words: tuple[str, ...]


def certificates(results: Results) -> list[GuaranteeInWords]:
    """The guarantees in words, equal ones of several corpora together."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    lines = first_rows(results.rows)
    for name in row_names(results.rows):
        for (corpus, row), line in lines.items():
            cell = results.cells.get(line.signature)
            if row == name and cell is not None and cell.guarantee is not None:
                words = tuple(without_folders(cell.guarantee.explain()).splitlines())
                found.setdefault((name, (*words, *_lifted(line, cell.guarantee))), []).append(corpus)
    return [GuaranteeInWords(row, tuple(corpora), words) for (row, words), corpora in found.items()]


def _lifted(row: TableRow, guarantee: Guarantee) -> tuple[str, ...]:
    if guarantee.basis is Basis.NONE or (guarantee.unit is Unit.DOCUMENT and guarantee.metric is None):
        return ()
    if row.document_epsilon is None:
        return ("Lifted to one whole document there is no finite epsilon.",)
    return (f"Lifted to one whole document: epsilon = {format_epsilon(row.document_epsilon)}.",)


def one_row_a_cell(rows: Sequence[TableRow]) -> list[TableRow]:
    """One line for each cell."""
    return list({(row.corpus, row.row, row.trial): row for row in rows}.values())


def trial_count(rows: Sequence[TableRow]) -> int:
    """The number of trials of the experiment."""
    return max(row.trial for row in rows) + 1


def confidences(rows: Sequence[TableRow]) -> list[str]:
    """The confidences of the intervals, in percent."""
    found = sorted({100 * row.confidence for row in rows if row.confidence is not None})
    return [f"{confidence:.4g}%" for confidence in found]
