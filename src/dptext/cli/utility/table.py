"""`dptext utility fidelity` and `dptext utility classification`: a table of the releases and all baselines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from dptext.audits.report import markdown_table
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval, short
from dptext.cli.chosen import load_encoder
from dptext.cli.options import spread
from dptext.cli.progress import say
from dptext.cli.utility.judged import NOT_PRIVATE, Files, Judged, Named, chosen_classifier, read_judged
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.source import seeded
from dptext.text.records import Record, Release
from dptext.types import Json
from dptext.utility.classification import ClassifierName
from dptext.utility.tables import (
    CANDIDATES,
    LABEL_ONLY_ROWS,
    LIMIT,
    ORIGINAL,
    UtilityTable,
    baselines,
    utility_table,
)


@spread
def fidelity(
    *,
    files: Files,
    named: Named,
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    """Print how much of each record came through."""
    _compare(files, named, seed, printing, test=None, classifier="tfidf")


@spread
def classification(
    *,
    files: Files,
    test: Annotated[Path, options.file_option(help="Real records that neither file holds.")],
    named: Named,
    classifier: options.ClassifierOption = "tfidf",
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    """Print how well a classifier learns from the releases."""
    _compare(files, named, seed, printing, test=test, classifier=classifier)


def _compare(
    files: Files, named: Named, seed: int | None, printing: Printing, *, test: Path | None, classifier: str
) -> None:
    judged = read_judged(files, named, seed)
    name = chosen_classifier(classifier)
    real: list[Record] = []
    if test is not None:
        if named.label_field is None:
            raise ConfigError("Expected --label-field NAME: a classifier learns labels.")
        real = named.read(test, label=named.label_field)
    say(NOT_PRIVATE)
    found = table(judged, test=real, classifier=name)
    answer, columns = answers.fidelity(found, judged.name), ["cosine", "tokens kept", "label kept"]
    if test is not None:
        answer, columns = [answers.classification(found, judged.name), answer[0]], ["accuracy", "cosine"]
    data: dict[str, Json] = {"note": NOT_PRIVATE, "epsilon": judged.epsilon, "labels": list(judged.labels)}
    cells = {row.name: row.cells() for row in found.rows}
    known = [column for column in columns if any(row[column] is not None for row in cells.values())]
    rows = [[row, *(cell(values[column], interval) for column in known)] for row, values in cells.items()]
    if found.limit is not None:
        rows.append([LIMIT, *(short(found.limit.value) if column == "cosine" else "-" for column in known)])
    screen = markdown_table(["interval at 95%", *known], rows)
    if found.limit is not None:
        screen += ["", f"{LIMIT}: the best that a public text for each can keep at this epsilon and delta 0."]
    if judged.epsilon is None and judged.name != CANDIDATES:
        missing = f"The row {CANDIDATES} is missing: no certificate states an epsilon of documents. Give --epsilon."
        screen += ["", missing]
    everything = {**data, **found.to_dict()}
    printing.answer(answer, screen, [found.to_markdown()], everything, drawn=judged.drawn_seed)


def _rows(judged: Judged) -> dict[str, Sequence[Release[str]]]:
    from dptext.mechanisms.candidates.candidates import Candidates
    from dptext.mechanisms.candidates.label_only import LabelOnly

    plain = baselines(judged.originals, judged.public, labels=judged.labels, seed=judged.seed)
    spending: dict[str, Sequence[Release[str]]] = {}
    if judged.labels and judged.epsilon is not None:
        spec = LabelOnly(judged.labels, epsilon=judged.epsilon, embedder="sentence")
        for i, (name, each) in enumerate(zip(LABEL_ONLY_ROWS, (spec, replace(spec, text="medoid")), strict=True)):
            mechanism = each.fit(public=judged.public)
            spending[name] = mechanism.privatize(judged.originals, seeded(judged.seed + i))
    if judged.epsilon is not None and judged.name != CANDIDATES:
        nearest = Candidates(judged.epsilon, judged.labels).fit(public=judged.public, seed=judged.seed)
        spending[CANDIDATES] = nearest.privatize(judged.originals, seeded(judged.seed + len(LABEL_ONLY_ROWS)))
    return {ORIGINAL: plain.pop(ORIGINAL), judged.name: judged.releases, **spending, **plain}


def table(judged: Judged, *, test: Sequence[Record], classifier: ClassifierName) -> UtilityTable:
    """The table of all rows; without accuracies where there are no test records."""
    return utility_table(
        _rows(judged),
        private=judged.originals,
        test=test,
        embedder=load_encoder(),
        classifier=classifier,
        seed=judged.seed,
        pool=[record.text for record in judged.public],
        epsilon=judged.epsilon,
    )


def cell(value: Estimate | float | None, shown: Callable[[Estimate], str]) -> str:
    """A number of the table, `-` where it is unknown."""
    if value is None:
        return "-"
    return shown(value) if isinstance(value, Estimate) else short(value)
