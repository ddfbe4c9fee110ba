"""The page itself: what stands in it, in which order, and how it gets into one file.

Needs Jinja2: pip install "dptext[report]". Every value is escaped by the template engine; only the figures, which an
XML writer has escaped, go in as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dptext.compare.report.cautions import cautions
from dptext.compare.report.figures import marker_svg, panel_svg
from dptext.compare.report.frontier import Frontier, frontiers, in_brief, undrawn
from dptext.compare.report.results import CELLS, EXPERIMENT, TABLE, Results, Row, Sample, private_samples, read_results
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
from dptext.errors import MissingExtraError
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Guarantee, Unit, format_epsilon
from dptext.text.files import Target
from dptext.types import Json

if TYPE_CHECKING:
    from jinja2 import Environment

#: Characters of a sample that are shown; a whole review would bury the next one.
SAMPLE_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Written:
    """What a page holds.

    Attributes:
        corpora, rows, metrics, figures, warnings, samples: numbers of each; rows are those of the tables.
        private: how many of the samples were made from private records.
        done, failed, total: numbers of cells.
        size: of the page, in bytes.
    """

    corpora: int
    rows: int
    metrics: int
    figures: int
    warnings: int
    samples: int
    private: int
    done: int
    failed: int
    total: int
    size: int


def write_page(folder: str | os.PathLike[str], path: str | os.PathLike[str] | Target) -> Written:
    """Write the page of a folder of `dptext compare`, with samples of public records only.

    Args:
        folder: that `dptext compare` wrote.
        path: of the page, which all may read; a `Target` can overwrite one.

    Raises:
        ConfigError: there is no table in the folder, a file in it is damaged or of another schema, or the page is
            there already, would replace what it shows, or cannot be written.
        MissingExtraError: Jinja2 is not installed.
    """
    return _write(read_results(folder), None, _target(folder, path, private=False))


def write_private_page(folder: str | os.PathLike[str], path: str | os.PathLike[str] | Target) -> Written:
    """Write the same page with samples of private records, as far as they were kept; only its owner can read it.

    Raises:
        ConfigError: as `write_page`.
        MissingExtraError: Jinja2 is not installed.
    """
    results = read_results(folder)
    return _write(results, private_samples(folder, results), _target(folder, path, private=True))


def _target(folder: str | os.PathLike[str], path: str | os.PathLike[str] | Target, *, private: bool) -> Target:
    """The page replaces nothing that it is made from."""
    found = Target.at(path)
    own = tuple(Path(folder) / name for name in (TABLE, EXPERIMENT, CELLS))
    return replace(found, inputs=(*found.inputs, *own), private=private)


def load_environment() -> Environment:
    """The template engine: everything is escaped, and a name that is not there is an error.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError('The page needs Jinja2. Install it: pip install "dptext[report]"') from error
    found = Environment(
        loader=PackageLoader("dptext.compare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update({"shown": without_folders, "listed": listed})
    return found


def _write(results: Results, private: Mapping[str, Sequence[Sample]] | None, target: Target) -> Written:
    """`private` is None where nobody asked for private samples, empty where none were kept."""
    environment = load_environment()
    drawn = [_drawn(frontier, number) for number, frontier in enumerate(frontiers(results.rows), start=1)]
    warnings = cautions(results)
    tables = _tables(results.rows)
    samples = _samples(results, {name: cell.samples for name, cell in results.cells.items()})
    kept = None if private is None else _samples(results, private)
    html = environment.get_template("report.html").render(
        experiment=results.experiment,
        corpora=results.experiment.corpora,
        parts=names(part.name for parts in results.experiment.corpora.values() for part in parts),
        compared=_compared(results.rows),
        trials=_trials(results.rows),
        confidences=[f"{confidence:.4g}%" for confidence in _confidences(results.rows)],
        warnings=warnings,
        frontiers=drawn,
        undrawn=undrawn(results.rows),
        tables=tables,
        samples=samples,
        private=kept,
        characters=SAMPLE_CHARACTERS,
        certificates=_certificates(results),
        rows=_cells(results.rows),
        max_delta=f"{MAX_MEANINGFUL_DELTA:g}",
    )
    data = html.encode("utf-8", "replace")  # a lone surrogate in a sample has no bytes
    target.write(data)
    return Written(
        corpora=len(names(row.corpus for row in results.rows)),
        rows=len(row_names(results.rows)),
        metrics=len(tables),
        figures=sum(len(panels) for frontier in drawn for panels in frontier.panels.values()),
        warnings=sum(len(caution.items) for caution in warnings),
        samples=sum(len(group.items) for group in samples),
        private=sum(len(group.items) for group in kept or ()),
        done=results.experiment.done,
        failed=results.experiment.failed,
        total=results.experiment.total,
        size=len(data),
    )


# ------------------------------------------------------------------------ what is shown


@dataclass(frozen=True, slots=True)
class Compared:
    """A row and what made it."""

    row: str
    kind: str
    settings: str
    privacy: tuple[str, ...]
    document: tuple[str, ...]


def _compared(rows: Sequence[Row]) -> list[Compared]:
    lines = first_rows(rows)
    found = []
    for name in row_names(rows):
        own = [line for (_, row), line in lines.items() if row == name]
        settings = [
            f"{key} = {_setting(value)}"
            if all(line.settings.get(key) == value for line in own)
            else f"{key}: by corpus"
            for key, value in own[0].settings.items()
            if key != "kind"
        ]
        found.append(
            Compared(
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
    """A panel as it stands on the page."""

    name: str
    corpus: str
    svg: str
    brief: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A frontier as it stands on the page; panels by metric, with the metric in words."""

    title: str
    legend: tuple[tuple[str, str], ...]
    panels: Mapping[tuple[str, str], Sequence[Figure]]
    notes: tuple[str, ...]


def _drawn(frontier: Frontier, number: int) -> Drawn:
    figures: dict[tuple[str, str], list[Figure]] = {}
    for metric, panels in frontier.panels.items():
        for panel in panels:
            name = f"figure-{number}-{sum(map(len, figures.values())) + 1}"
            figure = Figure(name, panel.corpus, panel_svg(panel, frontier, name), in_brief(panel))
            figures.setdefault((metric, meaning_of(metric)), []).append(figure)
    legend = tuple((name, marker_svg(style)) for name, style in frontier.legend)
    return Drawn(frontier.title, legend, figures, frontier.notes)


@dataclass(frozen=True, slots=True)
class MetricTable:
    """One metric: a line a row, a column a corpus."""

    metric: str
    meaning: str
    corpora: tuple[str, ...]
    lines: tuple[tuple[str, str, tuple[str, ...]], ...]


def _tables(rows: Sequence[Row]) -> list[MetricTable]:
    numbers = measured(rows)
    lines = first_rows(rows)
    most = _trials(rows)
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
class Group:
    """Samples of one corpus: each original with what each row made of it."""

    corpus: str
    items: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = field(repr=False)


def _samples(results: Results, samples: Mapping[str, Sequence[Sample]]) -> list[Group]:
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    lines = first_rows(results.rows)
    for corpus in names(row.corpus for row in results.rows):
        for name in row_names(results.rows):
            line = lines.get((corpus, name))
            for sample in () if line is None else samples.get(line.signature, ()):
                of = found.setdefault(corpus, {}).setdefault(sample.original, [])
                of.append((name, "(no text)" if sample.released is None else _cut(sample.released)))
    return [
        Group(corpus, tuple((_cut(original), tuple(made)) for original, made in group.items()))
        for corpus, group in found.items()
    ]


def _cut(text: str) -> str:
    if not text.strip():
        return "(no text)"
    return text if len(text) <= SAMPLE_CHARACTERS else f"{text[:SAMPLE_CHARACTERS].rstrip()} ..."


@dataclass(frozen=True, slots=True)
class Certificate:
    """A guarantee in words, and whose it is."""

    row: str
    corpora: tuple[str, ...]
    words: tuple[str, ...]


def _certificates(results: Results) -> list[Certificate]:
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    lines = first_rows(results.rows)
    for name in row_names(results.rows):
        for (corpus, row), line in lines.items():
            cell = results.cells.get(line.signature)
            if row == name and cell is not None and cell.guarantee is not None:
                words = tuple(without_folders(cell.guarantee.explain()).splitlines())
                found.setdefault((name, (*words, *_lifted(line, cell.guarantee))), []).append(corpus)
    return [Certificate(row, tuple(corpora), words) for (row, words), corpora in found.items()]


def _lifted(row: Row, guarantee: Guarantee) -> tuple[str, ...]:
    if guarantee.basis is Basis.NONE or (guarantee.unit is Unit.DOCUMENT and guarantee.metric is None):
        return ()
    if row.document_epsilon is None:
        return ("Lifted to one whole document there is no finite epsilon.",)
    return (f"Lifted to one whole document: epsilon = {format_epsilon(row.document_epsilon)}.",)


def _cells(rows: Sequence[Row]) -> list[Row]:
    """One line for each cell."""
    return list({(row.corpus, row.row, row.trial): row for row in rows}.values())


def _trials(rows: Sequence[Row]) -> int:
    return max(row.trial for row in rows) + 1


def _confidences(rows: Sequence[Row]) -> list[float]:
    return sorted({100 * row.confidence for row in rows if row.confidence is not None})
