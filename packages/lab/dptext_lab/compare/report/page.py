"""The page, its sections in words and tables, written to one file by a template; and the tables as Markdown.

Every value is escaped by the template engine; only the figures, which an XML
writer has escaped, are inserted unescaped.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dptext.errors import ConfigError
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Guarantee, Unit, format_epsilon
from dptext.recommend.measured import EXPERIMENT, JSON_FILE
from dptext.text.files import Target
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY
from dptext_lab.compare.report import summary
from dptext_lab.compare.report.frontier import Frontier, frontiers, marker_svg, panel_svg, undrawn
from dptext_lab.compare.report.verdict import cautions, verdict
from dptext_lab.compare.stored import CELLS, Sample, TableRow

if TYPE_CHECKING:
    from jinja2 import Environment


#: The metric of the first picture, if it was measured: it separates mechanisms that public text classifies alike.
FIRST: Final = "fidelity.cosine"
#: The number of characters that are shown of a sample; a whole review would bury the next sample.
SAMPLE_CHARACTERS: Final = 400
#: The number of rows that are shown beside a sample before all rows are.
FEW: Final = 6


def compared_rows(rows: Sequence[TableRow]) -> list[tuple[str, str, str, str, str]]:
    """Return every row of the table: name, kind, guarantees on each corpus, those for a document, settings."""
    lines = summary.first_rows(rows)
    found = []
    for name in summary.row_names(rows):
        own = [line for (_, row), line in lines.items() if row == name]
        settings = [
            f"{key} = {_setting(value)}" if all(line.chosen.get(key) == value for line in own) else f"{key}: by corpus"
            for key, value in own[0].chosen.items()
            if key != "kind"
        ]
        stated, lifted = (", ".join(summary.names(map(of, own))) for of in (summary.privacy, summary.document_epsilon))
        found.append((name, own[0].kind, stated, lifted, ", ".join(settings)))
    return found


def _setting(value: Json) -> str:
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= 80 else f"{said[:76]} ..."


@dataclass(frozen=True, slots=True)
class Picture:
    """One metric under one meaning of epsilon: a figure a corpus, by name and SVG, and the legend of the series."""

    metric: str
    frontier: Frontier
    legend: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, str], ...]


def pictures(rows: Sequence[TableRow]) -> list[Picture]:
    """Return all pictures. The first is the main one: of the first meaning of epsilon and the metric `FIRST`."""
    found: list[Picture] = []
    for number, frontier in enumerate(frontiers(rows)):
        for metric in sorted(frontier.panels, key=lambda metric: number == 0 and metric != FIRST):
            panels, figure = frontier.panels[metric], f"figure-{len(found) + 1}"
            there = {series.name for panel in panels for series in panel.series}
            legend = ((name, marker_svg(style)) for name, style in frontier.legend if style >= 0 and name in there)
            drawn = ((f"{figure}-{i}", panel_svg(panel, frontier, f"{figure}-{i}")) for i, panel in enumerate(panels))
            found.append(Picture(metric, frontier, tuple(legend), tuple(drawn)))
    return found


@dataclass(frozen=True, slots=True)
class MetricTable:
    """One metric: a line a row, a column a corpus. `title` names the rows; it is empty for answers to each text."""

    metric: str
    corpora: tuple[str, ...]
    lines: tuple[tuple[str, str, tuple[str, ...]], ...]
    title: str = ""


def metric_tables(rows: Sequence[TableRow]) -> list[MetricTable]:
    """Return a table for each measured metric and each of `groups`."""
    most = trial_count(rows)
    return [
        table
        for metric in summary.names(row.metric for row in rows if row.metric)
        for title, group in summary.groups(rows)
        # A metric that no synthesis was measured by gets no second, empty table.
        if not title or metric == FIRST or any(row.metric == metric for row in group if row.whole)
        if (table := _metric_table(metric, title, group, most)).corpora
    ]


def _metric_table(metric: str, title: str, rows: Sequence[TableRow], most: int) -> MetricTable:
    numbers, lines = summary.measured(rows), summary.first_rows(rows)
    there = {corpus for corpus, _, of in numbers if of == metric}
    corpora = [corpus for corpus in summary.names(row.corpus for row in rows) if corpus in there]
    body = []
    for name in summary.row_names(rows):
        cells = []
        for corpus in corpora:
            number = numbers.get((corpus, name, metric))
            few = f" ({number.trials} of {most} trials)" if number is not None and number.trials < most else ""
            cells.append(f"{summary.shown(lines.get((corpus, name)), metric, number)}{few}")
        if set(cells) != {"-"}:
            stated = ", ".join(summary.names(summary.privacy(line) for (_, row), line in lines.items() if row == name))
            body.append((name, stated, tuple(cells)))
    return MetricTable(metric, tuple(corpora), tuple(body), title)


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """Samples of one corpus: each original with the release of each row."""

    corpus: str
    items: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = field(repr=False)


def grouped_samples(results: summary.Results, samples: Mapping[str, Sequence[Sample]]) -> list[SampleGroup]:
    """Group the samples of each corpus by original."""
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    lines = summary.first_rows(results.rows)
    for corpus in summary.names(row.corpus for row in results.rows):
        for name in summary.row_names(results.rows):
            line = lines.get((corpus, name))
            for sample in () if line is None else samples.get(line.signature, ()):
                of = found.setdefault(corpus, {}).setdefault(sample.original, [])
                of.append((name, "(no text)" if sample.released is None else _cut(sample.released)))
    cut = {name: tuple((_cut(text), tuple(made)) for text, made in group.items()) for name, group in found.items()}
    return [SampleGroup(corpus, items) for corpus, items in cut.items()]


def few(picture: Picture, groups: Sequence[SampleGroup]) -> list[SampleGroup]:
    """The first sample of the first corpora, with one row a series of the picture: the row nearest to epsilon 10."""
    found = []
    for panel in picture.frontier.panels[picture.metric]:
        chosen = {PUBLIC_ONLY}
        for series in panel.series:
            finite = [(abs(math.log(point.epsilon / 10)), point.row) for point in series.points if point.epsilon]
            chosen.update(row for _, row in sorted(finite)[:1])
        for group in groups:
            if group.corpus == panel.corpus:
                original, made = group.items[0]
                kept = tuple((row, text) for row, text in made if row in chosen)[:FEW]
                found.append(SampleGroup(panel.corpus, ((original, kept),)))
    return found[:2]


def _cut(text: str) -> str:
    if not text.strip():
        return "(no text)"
    return text if len(text) <= SAMPLE_CHARACTERS else f"{text[:SAMPLE_CHARACTERS].rstrip()} ..."


def certificates(results: summary.Results) -> list[tuple[str, list[str], tuple[str, ...]]]:
    """Return the guarantees in words: row, corpora and lines; equal guarantees of several corpora together."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    lines = summary.first_rows(results.rows)
    for name in summary.row_names(results.rows):
        for (corpus, row), line in lines.items():
            cell = results.cells.get(line.signature)
            if row == name and cell is not None and cell.guarantee is not None:
                words = tuple(summary.without_folders(cell.guarantee.explain()).splitlines())
                found.setdefault((name, (*words, *_lifted(line, cell.guarantee))), []).append(corpus)
    return [(row, corpora, words) for (row, words), corpora in found.items()]


def _lifted(row: TableRow, guarantee: Guarantee) -> tuple[str, ...]:
    if guarantee.basis is Basis.NONE or (guarantee.unit is Unit.DOCUMENT and guarantee.metric is None):
        return ()
    if row.document_epsilon is None:
        return ("Lifted to one whole document there is no finite epsilon.",)
    return (f"Lifted to one whole document: epsilon = {format_epsilon(row.document_epsilon)}.",)


def trial_count(rows: Sequence[TableRow]) -> int:
    """Return the number of trials of the experiment."""
    return max(row.trial for row in rows) + 1


def confidences(rows: Sequence[TableRow]) -> list[str]:
    """Return the confidences of the intervals, in percent."""
    found = sorted({100 * row.confidence for row in rows if row.confidence is not None})
    return [f"{confidence:.4g}%" for confidence in found]


_TASK: Final = "classification.accuracy"
#: Default metrics: the kept meaning, the accuracy of a task and of an attacker; for corpora the closed gap, shares of
#: labels and topics, and whether they can be told from real texts.
METRICS: Final = (
    "fidelity.cosine", "fidelity.label_kept", "classification.accuracy", "authorship.adaptive",
    "classification.gap_closed", "corpus.mix_l1", "corpus.reported_mix_l1", "corpus.topics_tv",
    "corpus.reported_topics_tv", "corpus.told_apart",
)  # fmt: skip


def markdown(results: summary.Results, metrics: Sequence[str] = ()) -> str:
    """Return one table for each corpus, a line a row and a column a metric, intervals in brackets.

    Without `metrics` the measured metrics of `METRICS` are shown. ConfigError: a metric that no row has.
    """
    known = summary.names(row.metric for row in results.rows if row.metric)
    if missing := [metric for metric in metrics if metric not in known]:
        raise ConfigError(
            f"Expected metrics of the table, found {', '.join(missing)}; it has {', '.join(sorted(known)) or 'none'}."
        )
    tables = [
        (f"{corpus}. {title}" if title else corpus, _table(rows, metrics or METRICS))
        for corpus in summary.names(row.corpus for row in results.rows)
        for title, rows in summary.groups([row for row in results.rows if row.corpus == corpus])
    ]
    said = summary.without_labels(results.rows)
    said = f"\n{_plain(said)}\n" if said and _TASK in (metrics or METRICS) else ""
    return "\n".join(f"### {_plain(title)}\n\n{table}" for title, table in tables) + said


def _table(rows: Sequence[TableRow], metrics: Sequence[str]) -> str:
    numbers = summary.measured(rows)
    lines = {row: line for (_, row), line in summary.first_rows(rows).items()}
    here = [metric for metric in metrics if any(key[2] == metric for key in numbers)]
    body = [
        [name, summary.privacy(lines[name]), summary.document_epsilon(lines[name])]
        + [summary.shown(lines[name], metric, numbers.get((lines[name].corpus, name, metric))) for metric in here]
        for name in summary.row_names(rows)
    ]
    head = ["row", "guarantee", "ε of a document", *here]
    return "".join(f"| {' | '.join(map(_plain, cells))} |\n" for cells in (head, ["---"] * len(head), *body))


def _plain(words: str) -> str:
    """Put words on one line, without characters that Markdown would interpret."""
    return " ".join(words.split()).replace("|", r"\|").replace("<", "&lt;")


@dataclass(frozen=True, slots=True)
class Written:
    """The contents of a page: numbers of corpora, rows of the tables, metrics, figures, warnings, samples and cells.

    `verdict` is the answer in one to three sentences. `private` is the number of samples of private records. `size` is
    in bytes.
    """

    verdict: tuple[str, ...]
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


def write_page(
    folder: str | os.PathLike[str], path: str | os.PathLike[str] | Target, *, show_private: bool = False
) -> Written:
    """Write the page of a folder of `dptext compare`, with samples of public records only, or of private records, too.

    Private samples are shown as far as they were kept. Only its owner can read the page, because it shows measurements
    on originals; a `Target` can overwrite a page. ConfigError: there is no table in the folder, a file in it is damaged
    or of another schema, or the page exists, would replace a file that it shows, or cannot be written.
    """
    results, target = summary.read_results(folder), Target.at(path)
    own = tuple(Path(folder) / name for name in (JSON_FILE, EXPERIMENT, CELLS))  # the page replaces none of them
    target = replace(target, inputs=(*target.inputs, *own))
    # None if private samples were not requested, and empty if none were kept.
    private = summary.private_samples(folder, results) if show_private else None
    environment = load_environment()
    about = results.about
    answer = verdict(results.rows)
    drawn = pictures(results.rows)
    # The main picture, and a picture of corpora if there are some.
    whole = [picture for picture in drawn if picture.frontier.title.startswith(summary.WHOLE)]
    first = [*drawn[:1], *(picture for picture in whole[:1] if picture is not drawn[0])]
    warnings = cautions(results)
    tables = metric_tables(results.rows)
    titles = ["", summary.WHOLE] if any(row.whole for row in results.rows) else [""]
    alike = {title: [row for row in results.rows if row.whole == bool(title)] for title in titles}
    samples = grouped_samples(results, {name: cell.samples for name, cell in results.cells.items()})
    kept = None if private is None else grouped_samples(results, private)
    html = environment.get_template("report.html").render(
        about=about,
        parts=summary.names(part for parts in about.corpora.values() for part in parts),
        compared=[(title, compared_rows(rows)) for title, rows in alike.items()],
        trials=trial_count(results.rows),
        confidences=confidences(results.rows),
        warnings=warnings,
        answer=answer,
        pictures=first,
        more_pictures=[picture for picture in drawn if picture not in first],
        undrawn=undrawn(results.rows),
        tables=tables,
        without_labels=summary.without_labels(results.rows),
        few=few(drawn[0], samples) if drawn else [],
        samples=samples,
        private=kept,
        characters=SAMPLE_CHARACTERS,
        certificates=certificates(results),
        max_delta=f"{MAX_MEANINGFUL_DELTA:g}",
    )
    data = html.encode("utf-8", "replace")  # a lone surrogate in a sample has no bytes
    target.write(data)
    return Written(
        verdict=tuple(answer),
        corpora=len(summary.names(row.corpus for row in results.rows)),
        rows=len(summary.row_names(results.rows)),
        metrics=len(tables),
        figures=sum(len(picture.figures) for picture in drawn),
        warnings=sum(len(caution.items) for caution in warnings),
        samples=sum(len(group.items) for group in samples),
        private=sum(len(group.items) for group in kept or ()),
        **about.cells.model_dump(),
        size=len(data),
    )


def load_environment() -> Environment:
    """Load the template engine: everything is escaped, and an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (slow to load)

    found = Environment(
        loader=PackageLoader("dptext_lab.compare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update({"shown": summary.without_folders, "listed": ", ".join, "meaning": summary.meaning_of})
    return found
