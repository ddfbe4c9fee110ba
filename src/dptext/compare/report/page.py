"""The page: its sections in one file, by a template.

Needs Jinja2: pip install "dptext[report]". Every value is escaped by the template engine; only the figures, which an
XML writer has escaped, go in as they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dptext.compare.report import sections, summary
from dptext.compare.report.frontier import undrawn
from dptext.compare.report.verdict import cautions, verdict
from dptext.compare.stored import CELLS, EXPERIMENT, JSON_FILE
from dptext.errors import needing
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.text.files import Target

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Written:
    """What a page holds: numbers of corpora, rows of the tables, metrics, figures, warnings, samples and cells.

    The verdict is the answer in one to three sentences. So many samples as `private` are of private records. The size
    is in bytes.
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
    """Write the page of a folder of `dptext compare`, with samples of public records only, or of private ones, too.

    Private samples are shown as far as they were kept. Only its owner can read the page, as it tells what was measured
    on originals; a `Target` can overwrite one. ConfigError: there is no table in the folder, a file in it is damaged or
    of another schema, or the page is there already, would replace what it shows, or cannot be written.
    MissingExtraError: Jinja2 is not installed.
    """
    results, target = summary.read_results(folder), Target.at(path)
    own = tuple(Path(folder) / name for name in (JSON_FILE, EXPERIMENT, CELLS))  # the page replaces none of them
    target = replace(target, inputs=(*target.inputs, *own))
    # None where nobody asked for private samples, and empty where none were kept.
    private = summary.private_samples(folder, results) if show_private else None
    environment = load_environment()
    about = results.about
    answer = verdict(results.rows)
    drawn = sections.pictures(results.rows)
    # The one to read, and one of corpora where there are some.
    whole = [picture for picture in drawn if picture.frontier.title.startswith(summary.WHOLE)]
    first = [*drawn[:1], *(picture for picture in whole[:1] if picture is not drawn[0])]
    warnings = cautions(results)
    tables = sections.metric_tables(results.rows)
    titles = ["", summary.WHOLE] if any(row.whole for row in results.rows) else [""]
    alike = {title: [row for row in results.rows if row.whole == bool(title)] for title in titles}
    samples = sections.grouped_samples(results, {name: cell.samples for name, cell in results.cells.items()})
    kept = None if private is None else sections.grouped_samples(results, private)
    html = environment.get_template("report.html").render(
        about=about,
        parts=summary.names(part for parts in about.corpora.values() for part in parts),
        compared=[(title, sections.compared_rows(rows)) for title, rows in alike.items()],
        trials=sections.trial_count(results.rows),
        confidences=sections.confidences(results.rows),
        warnings=warnings,
        answer=answer,
        pictures=first,
        more_pictures=[picture for picture in drawn if picture not in first],
        undrawn=undrawn(results.rows),
        tables=tables,
        few=sections.few(drawn[0], samples) if drawn else [],
        samples=samples,
        private=kept,
        characters=sections.SAMPLE_CHARACTERS,
        certificates=sections.certificates(results),
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
    """The template engine: everything is escaped, and a name that is not there is an error."""
    with needing("The page", "report"):
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (an extra)
    found = Environment(
        loader=PackageLoader("dptext.compare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update({"shown": summary.without_folders, "listed": ", ".join, "meaning": summary.meaning_of})
    return found
