"""A folder of `dptext compare` for the page, and its table in words: numbers, guarantees, metrics."""

import math
import os
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from dptext.errors import ConfigError
from dptext.privacy.guarantee import Basis, Unit, format_delta, format_epsilon
from dptext.recommend.measured import EXPERIMENT, JSON_FILE, REFUTED, KeptRow
from dptext.recommend.pooled import Pooled, pooled
from dptext.types import Json
from dptext.utility.tables import ORIGINAL
from dptext_lab.compare.folder import read_about, read_cell, read_private_samples, read_table
from dptext_lab.compare.stored import About, CellFile, Sample, TableRow

#: Meanings of the metrics, and where more is worse for privacy. Other metrics are shown without words.
MEANINGS: Final[Mapping[str, str]] = {
    "classification.accuracy": "Share of real test records that a classifier trained on the releases labels rightly.",
    "classification.macro_f1": "F1 of the same classifier, each class counting the same.",
    "classification.accuracy_true_labels": "The same, trained with the labels of the originals: nothing protects them.",
    "classification.macro_f1_true_labels": "F1 of that classifier, each class counting the same.",
    "fidelity.cosine": "How near outputs are in meaning to their originals: mean cosine of the embeddings, at most 1.",
    "fidelity.limit": "The cosine of the best mechanism of any kind with these public texts at that epsilon.",
    "fidelity.own_first": "Share of outputs that are nearer to their own original than to the other candidates.",
    "fidelity.label_kept": "Share of releases that still carry the label of their original.",
    "fidelity.tokens_kept": "Mean share of the words of an original that its output still has.",
    "fidelity.distinct_texts": "Distinct outputs as a share of all outputs.",
    "fidelity.distinct_1": "Distinct words as a share of all words of the outputs.",
    "fidelity.distinct_2": "Distinct pairs of neighbouring words as a share of all.",
    "fidelity.repetition": "Share of outputs that repeat three neighbouring words; less is better.",
    "authorship.static": "Share of outputs ascribed to their true author by attackers who know originals; "
    "less is more private.",
    "authorship.adaptive": "The same by attackers who know what the mechanism makes of texts; less is more private.",
    "authorship.chance": "What guessing the author gives.",
    "authorship.similarity": "Mean cosine between the attacked outputs and their originals.",
    "membership.auc": "How well an attack tells texts that a classifier was trained on from others; 0.5 is guessing.",
    "membership.control": "The same attack where there is nothing to find: it should be near 0.5.",
    "embedding.accuracy": "Share of releases to which a classifier of public vectors gives the label of the original.",
    "embedding.macro_f1": "F1 of that classifier, each class counting the same.",
    "classification.gap_closed": "Share of the way from public-only to the original that the accuracy comes: 0 is "
    "public-only, 1 the original. Where the two overlap there is no gap, and no number.",
    "corpus.frechet": "Frechet distance of embeddings to real texts not released; the original shows how near two "
    "samples of one source come. Less is better.",
    "corpus.precision": "Share of released texts that lie among the real ones.",
    "corpus.recall": "Share of the real texts that the released ones lie around.",
    "corpus.told_apart": "AUC of a classifier that tells released from real texts: 0.5 is perfect.",
    "corpus.topics_tv": "Total variation of the released and the true topics, by public clusters; less is better.",
    "corpus.mix_l1": "L1 error of the label shares of the released texts, 0 to 2; less is better.",
    "corpus.own_label": "Share of released public texts that carry the label that they have in public.",
    "corpus.reported_mix_l1": "L1 error of the label shares in the noisy report; less is better.",
    "corpus.reported_topics_tv": "Total variation of the topics in the noisy report; less is better.",
    "balance.l1_error": "How far the class shares in the releases are from the true ones, 0 to 2; less is better.",
    "stylometry.distance": "How far the style of an output is from its original's.",
}
#: Meaning of a synthesis' epsilon, and its trust.
WHOLE: Final = "One epsilon for the whole corpus, central trust"
#: Shown for a missing number that would compare a text with its original.
NO_RECORD: Final = "no record of its own"
#: The accuracy of a classifier that learned from released texts and the originals' labels.
TRUE_LABELS: Final = "classification.accuracy_true_labels"
MOST_NAMED: Final = 4  #: Rows that one sentence names.
#: Prefixes of metrics of a corpus, not of each text.
_OF_CORPORA: Final = ("classification.", "corpus.")
_BOUND: Final = "epsilon_lower_bound"
_BOUND_MEANING: Final = "No smaller epsilon can be true, by what an attack achieved; 0 says nothing."

_ROUNDING: Final = 1e-5  # calibration may end a little below the requested epsilon
# an absolute path of any system; only its last part may be shown
_FOLDERS: Final = re.compile(r"(?<![\w.~/\\-])(?:~?/|[A-Za-z]:[\\/]|\\\\)(?:[^\s/\\'\"]+[/\\])+(?=[^\s/\\'\"])")


T = TypeVar("T", bound=Hashable)
Row = TypeVar("Row", bound=KeptRow)

#: Corpus, row, metric.
Key = tuple[str, str, str]
#: The numbers of a table, and one of its rows for each corpus and name.
Numbers = Mapping[Key, Pooled]
Lines = Mapping[tuple[str, str], KeptRow]


def measured(rows: Iterable[KeptRow]) -> dict[Key, Pooled]:
    """Return all numbers of the table by corpus, row and metric, trials pooled; failed cells and gaps left out."""
    found: dict[Key, list[KeptRow]] = {}
    for row in rows:
        if row.value is not None:
            found.setdefault((row.corpus, row.row, row.metric), []).append(row)
    return {key: pooled(trials) for key, trials in found.items()}


def first_rows(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """One row of the table for each corpus and name, of a finished cell if there is one: for settings and guarantee."""
    found: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row.failed):  # stable: otherwise in the order of the table
        found.setdefault((row.corpus, row.row), row)
    return found


def names(values: Iterable[T]) -> list[T]:
    """Return the distinct values in their order."""
    return list(dict.fromkeys(values))


def row_names(rows: Sequence[KeptRow]) -> list[str]:
    """Return references first, then mechanisms in the order of the table. Rows of one series are sorted by epsilon."""
    series = names((not row.reference, row.series) for row in rows)
    order = {name: (name[0], i) for i, name in enumerate(series)}
    ordered = sorted(rows, key=lambda row: (*order[not row.reference, row.series], row.epsilon or 0.0))
    return names(row.row for row in ordered)


def groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Group rows that may share a table, with a title each, references first: answers to each text, then syntheses.

    An epsilon for each text and an epsilon for the whole corpus are never sorted together.
    """
    local = [row for row in rows if row.reference or not row.whole]
    whole = [row for row in rows if row.reference or row.whole]
    found = [("", local)] if any(not row.reference for row in local) or len(local) == len(rows) else []
    return [*found, *([(WHOLE, whole)] if any(row.whole for row in whole) else [])]


def shown(row: KeptRow | None, metric: str, number: Pooled | None) -> str:
    """Format a number for a cell of a table, or the reason why there is none."""
    if number is not None:
        return str(number)
    if row is not None and row.failed:
        return "failed"
    return NO_RECORD if row is not None and row.whole and not metric.startswith(_OF_CORPORA) else "-"


def without_labels(rows: Iterable[KeptRow]) -> str:
    """Name the rows that release no labels, if a classifier was measured; empty if there are none."""
    found = names(row.row for row in rows if row.metric == TRUE_LABELS)
    if not found:
        return ""
    more = f" and {len(found) - MOST_NAMED} others" if len(found) > MOST_NAMED else ""
    return (
        f"No labels are released by {', '.join(found[:MOST_NAMED])}{more}: no classifier can be trained on such "
        f"releases alone. {TRUE_LABELS} is of one that takes the labels of the originals, which nothing protects."
    )


def without_folders(text: str) -> str:
    """Cut each absolute path in the text to its last part: a page reveals nothing of the machine."""
    return _FOLDERS.sub("", text)


def meaning_of(metric: str) -> str:
    """Return the metric in words; empty for a metric without words here."""
    if metric.endswith(REFUTED):
        return "1 where the audit refutes the guarantee; 0 is no proof of it."
    return _BOUND_MEANING if is_bound(metric) else MEANINGS.get(metric, "")


def is_bound(metric: str) -> bool:
    """Return whether the metric is a lower bound on epsilon, which can refute a claim."""
    return metric.rsplit(".", 1)[-1].endswith(_BOUND)


def privacy(row: KeptRow) -> str:
    """Return the guarantee of a row in one line."""
    if row.failed:
        return "failed"
    if row.basis == Basis.NONE:
        return "no guarantee"
    if row.epsilon is None:
        return "the texts as they are" if row.row == ORIGINAL else "no guarantee"
    if row.kind == "":
        return "reads nothing private"
    per = f" per {row.unit}" if row.unit else ""
    if row.whole:
        per = f" for the whole corpus, central trust, {row.unit}, {row.relation.replace('_', ' ')}"
    if row.metric_privacy:
        per = f" per unit of {row.metric_privacy}{', ' + row.unit if row.unit else ''}"
    delta = f", δ = {format_delta(row.delta)}" if row.delta else ""
    return f"ε = {format_epsilon(row.epsilon)}{delta}{per}, {row.basis}"


def baselines(row: KeptRow, lines: Lines) -> list[str]:
    """Return the corpus' *label_only* rows at no larger a document epsilon than the row's; all if the row has none."""
    if row.whole:
        return []
    document = row.epsilon if row.unit == Unit.DOCUMENT and not row.metric_privacy else row.document_epsilon
    most = math.inf if document is None else document * (1 + _ROUNDING)
    own = (line for (corpus, _), line in lines.items() if corpus == row.corpus and line.label_only)
    return [line.row for line in own if line.epsilon is not None and line.epsilon <= most]


def document_epsilon(row: KeptRow) -> str:
    """Return the epsilon of one whole document, by which rows of any unit can be compared; "-" for a synthesis."""
    if row.whole:
        return "-"
    if row.unit == Unit.DOCUMENT and not row.metric_privacy and row.protects:
        return format_epsilon(row.epsilon or 0.0)
    return "-" if row.document_epsilon is None or row.basis == Basis.NONE else format_epsilon(row.document_epsilon)


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of `dptext compare`. `cells` are found by their signature; a cell may be absent."""

    about: About
    rows: tuple[TableRow, ...]
    cells: Mapping[str, CellFile]


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Read a folder of `dptext compare`, without private samples; ConfigError if it is absent or damaged."""
    base = Path(folder)
    for name in (JSON_FILE, EXPERIMENT):
        if not (base / name).is_file():
            raise ConfigError(
                f"Expected DIR={str(base)!r} to hold {name}: run `dptext compare EXPERIMENT.toml --out DIR` first."
            )
    rows = distinct(read_table(base))
    about = read_about(base)
    signatures = dict.fromkeys(row.signature for row in rows if not row.failed)
    cells = {signature: cell for signature in signatures if (cell := read_cell(base, signature)) is not None}
    return Results(about, rows, cells)


def private_samples(folder: str | os.PathLike[str], results: Results) -> dict[str, tuple[Sample, ...]]:
    """Return private samples by signature, as far as `dptext compare --keep-private-samples` kept them."""
    found = {signature: read_private_samples(Path(folder), signature) for signature in results.cells}
    return {signature: samples for signature, samples in found.items() if samples}


def distinct(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rename rows so that each name stands for one spec: *label_only* has one name at several epsilons."""
    rows = tuple(rows)
    settings: dict[tuple[str, str], list[Mapping[str, Json]]] = {}
    for row in rows:
        known = settings.setdefault((row.corpus, row.row), [])
        if row.chosen not in known:
            known.append(row.chosen)
    shared = {name for (_, name), known in settings.items() if len(known) > 1}

    def told_apart(row: Row) -> Row:
        known, shown = settings[row.corpus, row.row], _epsilon_shown(row.chosen)
        alone = sum(_epsilon_shown(other) == shown for other in known) == 1
        more = f"epsilon={shown}" if alone and shown else f"#{known.index(row.chosen) + 1}"
        return row.model_copy(update={"row": f"{row.row} {more}"})

    return tuple(told_apart(row) if row.row in shared else row for row in rows)


def _epsilon_shown(settings: Mapping[str, Json]) -> str:
    epsilon = settings.get("epsilon")
    return f"{epsilon:g}" if isinstance(epsilon, int | float) else ""
