"""The table of a comparison as Markdown, for a README or a page of results."""

from collections.abc import Iterable, Sequence
from typing import Final

from dptext.compare.report.results import Results
from dptext.compare.report.summary import (
    document_epsilon,
    first_rows,
    groups,
    measured,
    names,
    privacy,
    row_names,
    shown,
)
from dptext.compare.stored import TableRow
from dptext.errors import ConfigError

#: Shown where none are asked for: what is kept, what a task gets, what an attacker gets; of corpora, the
#: gap that is closed, shares of labels and topics, and whether they can be told from real texts.
METRICS: Final = (
    "fidelity.cosine", "fidelity.label_kept", "classification.accuracy", "authorship.adaptive",
    "classification.gap_closed", "corpus.mix_l1", "corpus.topics_tv", "corpus.told_apart",
)  # fmt: skip


def markdown(results: Results, metrics: Sequence[str] = ()) -> str:
    """One table for each corpus, a line a row and a column a metric, intervals in brackets.

    Args:
        results: of `read_results`.
        metrics: columns; those of `METRICS` that were measured, where none are given.

    Raises:
        ConfigError: a metric that no row has.
    """
    known = names(row.metric for row in results.rows if row.metric)
    if missing := [metric for metric in metrics if metric not in known]:
        raise ConfigError(
            f"Expected metrics of the table, found {', '.join(missing)}; it has {', '.join(sorted(known)) or 'none'}."
        )
    corpora = names(row.corpus for row in results.rows)
    tables = [
        (f"{corpus}. {title}" if title else corpus, _table(rows, metrics or METRICS))
        for corpus in corpora
        for title, rows in groups([row for row in results.rows if row.corpus == corpus])
    ]
    return "\n".join(f"### {_plain(title)}\n\n{table}" for title, table in tables)


def _table(rows: Sequence[TableRow], metrics: Sequence[str]) -> str:
    numbers = measured(rows)
    lines = {row: line for (_, row), line in first_rows(rows).items()}
    here = [metric for metric in metrics if any(key[2] == metric for key in numbers)]
    body = [
        [name, privacy(lines[name]), document_epsilon(lines[name])]
        + [shown(lines[name], metric, numbers.get((lines[name].corpus, name, metric))) for metric in here]
        for name in row_names(rows)
    ]
    head = ["row", "guarantee", "ε of a document", *here]
    return "".join(_line(cells) for cells in (head, ["---"] * len(head), *body))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |\n"


def _plain(words: str) -> str:
    """On one line, and without what Markdown would take for its own."""
    return " ".join(words.split()).replace("|", r"\|").replace("<", "&lt;")
