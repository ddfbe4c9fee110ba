"""`dptext utility NAME`: what releases kept of their originals, beside the rows that nothing may be shown without."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from dptext.cli.fit import chosen_seed
from dptext.cli.progress import WatchedEncoder, counted, say
from dptext.cli.terminal import plain_console
from dptext.embeddings.vectors import Embedder
from dptext.errors import ConfigError, MissingExtraError
from dptext.estimates import Estimate
from dptext.mechanism import settings
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.privacy.guarantee import Unit
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.models import load_model
from dptext.runs.specs import on_device, spec_from_settings
from dptext.sampling.randomness import seeded
from dptext.text.formats import Format, detect_format
from dptext.text.inputs import read_whole
from dptext.text.reading import read_records
from dptext.text.records import ID_FIELD, LABEL_FIELD, Fields, Record, Release
from dptext.types import Floats, Json
from dptext.utility.balance import balance_error, confusion_matrix
from dptext.utility.classification import ClassifierName, train_named
from dptext.utility.tables import CANDIDATES, LABEL_ONLY, ORIGINAL, PUBLIC_ONLY, UtilityTable, baselines, utility_table

NOT_PRIVATE = (
    "These numbers are computed from the originals: they are not private themselves and no guarantee covers them."
)
_CLASSIFIERS: dict[str, ClassifierName] = {"tfidf": "tfidf", "bilstm": "bilstm"}
_WIDE = 240
_TIMES = 5


@dataclass(frozen=True, slots=True)
class Task:
    """Releases to judge.

    Attributes:
        name: of the mechanism.
        originals: the private records.
        releases: of them, in order.
        public: records for the baselines.
        labels: the public set; empty where there are none.
        epsilon: of the baselines that spend one; None where it is unknown, which labels do not allow.
        seed: of baselines, classifiers and intervals.
        certificate: of the releases, where there is one.
        fields: of originals, public and test records.
    """

    name: str
    originals: Sequence[Record] = field(repr=False)
    releases: Sequence[Release[str]] = field(repr=False)
    public: Sequence[Record] = field(repr=False)
    labels: tuple[str, ...]
    epsilon: float | None
    seed: int
    certificate: Certificate | None = None
    fields: Fields = field(default_factory=Fields)


def task(
    originals: Path,
    released: Path,
    public: Path,
    *,
    text_field: str,
    label_field: str | None,
    id_field: str | None,
    labels: list[str],
    epsilon: float | None,
    seed: int | None,
) -> Task:
    """The files as a task.

    Raises:
        ConfigError: options or files that do not fit together.
        DataError: a record cannot be read, or RELEASED is not what its certificate speaks of.
    """
    seed = chosen_seed(seed)
    certificate = _certificate(released)
    spec = None if certificate is None else spec_from_settings(certificate.settings)
    known = () if spec is None else spec.traits.labels
    if known and labels:
        raise ConfigError("Expected no --label: the certificate of RELEASED names the labels.")
    found = known or tuple(labels)
    if label_field is None and found:
        raise ConfigError("Expected --label-field NAME: RELEASED, or --label, speaks of labels.")
    if label_field is not None and len(found) < 2:
        raise ConfigError(
            "Expected the public set of labels with --label-field, at least two: by the certificate of RELEASED, or by "
            "--label NAME, repeated."
        )
    labelled = bool(found) if spec is None else spec.traits.releases_labels
    names = Fields(text=text_field, label=label_field, id=id_field)
    private = list(read_records(originals, names))
    return Task(
        "released" if spec is None else spec.kind,
        private,
        read_back(released, private, labelled=labelled),
        list(read_records(public, Fields(text=text_field, label=label_field))),
        found,
        _epsilon(certificate, epsilon, needed=bool(found)),
        seed,
        certificate,
        names,
    )


def chosen_classifier(name: str) -> ClassifierName:
    """The name, of a classifier that is installed.

    Raises:
        ConfigError: there is none of this name.
        MissingExtraError: torch is not installed, which one needs.
    """
    if name not in _CLASSIFIERS:
        raise ConfigError(f"Expected --classifier {name!r} to be one of {', '.join(_CLASSIFIERS)}.")
    try:
        train_named(_CLASSIFIERS[name])
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The classifier {name} needs the package {error.name}. Run: pip install torch==2.13.0 'dptext[neural]'"
        ) from error
    return _CLASSIFIERS[name]


def _certificate(released: Path) -> Certificate | None:
    path = certificate_path(released)
    if not path.exists():
        return None
    try:
        certificate = Certificate.from_json(read_whole(path).decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a certificate that dptext wrote.") from error
    certificate.verify(path.parent)
    return certificate


def _epsilon(certificate: Certificate | None, asked: float | None, *, needed: bool) -> float | None:
    """Of a document, as asked or in RELEASED; where it is unknown and not needed, None."""
    if asked is not None:
        return asked
    for guarantee in () if certificate is None else certificate.guarantees:
        if guarantee.unit is Unit.DOCUMENT and guarantee.metric is None and math.isfinite(guarantee.epsilon):
            return guarantee.epsilon
    if not needed:
        return None
    raise ConfigError("Expected --epsilon: no certificate of RELEASED states a finite one for documents.")


def read_back(path: Path, originals: Sequence[Record], *, labelled: bool) -> list[Release[str]]:
    """The releases in a file, which must be those of the originals, in their order."""
    plain = detect_format(path) is Format.TEXT
    names = Fields() if plain else Fields(id=ID_FIELD, label=LABEL_FIELD if labelled else None)
    found = list(read_records(path, names))
    if len(found) != len(originals):
        raise ConfigError(f"Expected a release for each of the {len(originals)} originals, found {len(found)}.")
    if plain:
        return [Release(own.id, record.text) for own, record in zip(originals, found, strict=True)]
    if [record.id for record in found] != [record.id for record in originals]:
        raise ConfigError(
            "Expected the ids of the originals in RELEASED, in the same order. Where `privatize` ran with --id-field, "
            "give it here, too."
        )
    return [Release(record.id, record.text, record.label or None) for record in found]  # CSV has no null


def rows(task: Task) -> dict[str, Sequence[Release[str]]]:
    """The releases of the task among all baselines, in the order of the table."""
    plain = baselines(task.originals, task.public, labels=task.labels, seed=task.seed)
    spending: dict[str, Sequence[Release[str]]] = {}
    if task.labels and task.epsilon is not None:
        spec = LabelOnly(task.labels, epsilon=task.epsilon, embedder="sentence")
        for i, (name, each) in enumerate(zip(LABEL_ONLY, (spec, replace(spec, text="medoid")), strict=True)):
            mechanism = each.fit(public=task.public)
            spending[name] = mechanism.privatize(task.originals, seeded(task.seed + i))
    if task.epsilon is not None and task.name != CANDIDATES:
        weight = 3.0 if task.labels else 0.0  # labels first, as `adept` ranks by default
        nearest = Candidates(task.epsilon, task.labels, label_weight=weight).fit(public=task.public, seed=task.seed)
        spending[CANDIDATES] = nearest.privatize(task.originals, seeded(task.seed + len(LABEL_ONLY)))
    return {ORIGINAL: plain.pop(ORIGINAL), task.name: task.releases, **spending, **plain}


def table(task: Task, *, test: Sequence[Record], classifier: ClassifierName) -> UtilityTable:
    """The table of all rows; without accuracies where there are no test records.

    Raises:
        ConfigError: too few records, or labels that are not in the public set.
        MissingExtraError: the sentence encoder or the classifier is not installed.
    """
    from dptext.embeddings.sentence_encoder import load_sentence_encoder

    embedder: Embedder = WatchedEncoder(load_sentence_encoder())
    return utility_table(
        rows(task), private=task.originals, test=test, embedder=embedder, classifier=classifier, seed=task.seed
    )


def compare(task: Task, *, test: Path | None, classifier: str, as_json: bool) -> None:
    """Print how much came through, and with test records how well a classifier learns from the releases."""
    name = chosen_classifier(classifier)
    real: list[Record] = []
    if test is not None:
        if task.fields.label is None:
            raise ConfigError("Expected --label-field NAME: a classifier learns labels.")
        real = list(read_records(test, replace(task.fields, id=None)))
    say(NOT_PRIVATE)
    found = table(task, test=real, classifier=name)
    if as_json:
        shown: dict[str, Json] = {"note": NOT_PRIVATE, "epsilon": task.epsilon, "labels": list(task.labels)}
        print(json.dumps({**shown, **found.to_dict()}, indent=2))
        return
    show_table(found, wide_console())
    print(_legend(found, classifier if real else None))
    if task.epsilon is None and task.name != CANDIDATES:
        print(f"The row {CANDIDATES} is missing: no certificate states an epsilon of documents. Give --epsilon.")


def wide_console() -> Console:
    """Of the width of the terminal; in a file or a pipe nothing is wrapped."""
    return plain_console(width=None if sys.stdout.isatty() else _WIDE)


def show_table(found: UtilityTable, console: Console, *, columns: Sequence[str] = ()) -> None:
    """Print a table, intervals below the values; all columns that have a number, or those that are named."""
    cells = [row.cells() for row in found.rows]
    names = [
        name for name in cells[0] if (not columns or name in columns) and any(row[name] is not None for row in cells)
    ]
    drawn = Table("", *names, box=SIMPLE, pad_edge=False, show_lines=False)
    for row, values in zip(found.rows, cells, strict=True):
        drawn.add_row(row.name, *(_cell(values[name]) for name in names))
    console.print(drawn, markup=False, highlight=False)


def _cell(value: Estimate | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, Estimate):
        return f"{_short(value.value)}\n{_short(value.low)}-{_short(value.high)}"
    return _short(value)


def _short(value: float) -> str:
    """Three decimals without the zero before them: a table of 80 columns has no room for it."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 0.9995 else f"{value:.0f}"


def _legend(found: UtilityTable, classifier: str | None) -> str:
    tested = "" if classifier is None else f", {found.test} test records, classifier {classifier}"
    return f"{found.private} private records{tested}; cosines by {found.embedder}; seed {found.seed}; intervals at 95%."


def balance(task: Task, *, model: Path | None, held_out: Path | None, as_json: bool) -> None:
    """Print the L1 error of the class balance that each way recovers; `held_out` is what the model is tried on.

    Raises:
        ConfigError: no labels, a model that did not make the releases, or held-out records without a model.
        DataError: a held-out record cannot be read.
    """
    if held_out is not None and model is None:
        raise ConfigError("Expected --model with --held-out: those records are what it is tried on.")
    if not task.labels or task.epsilon is None or all(release.label is None for release in task.releases):
        raise ConfigError("Expected releases with labels: their balance is what is recovered.")
    say(NOT_PRIVATE)
    true = [record.label for record in task.originals]
    public = baselines(task.originals, task.public, labels=task.labels, seed=task.seed)[PUBLIC_ONLY]
    response = LabelOnly(task.labels, epsilon=task.epsilon).fit(public=task.public)
    given = response.privatize(task.originals, seeded(task.seed))
    own = [release.label for release in task.releases]

    def error(labels: Sequence[str | None], *, epsilon: float | None = None, matrix: Floats | None = None) -> Estimate:
        return balance_error(true, labels, task.labels, epsilon=epsilon, matrix=matrix, seed=task.seed)

    errors = {
        PUBLIC_ONLY: error([release.label for release in public]),
        "label randomized response, debiased": error([release.label for release in given], epsilon=task.epsilon),
        f"{task.name}, as released": error(own),
    }
    if model is not None:
        fields = Fields(text=task.fields.text, label=task.fields.label)
        unseen = task.public if held_out is None else list(read_records(held_out, fields))
        errors[f"{task.name}, debiased by public texts"] = error(own, matrix=_confusion(task, model, unseen))
    if as_json:
        data: dict[str, Json] = {
            "note": NOT_PRIVATE,
            "epsilon": task.epsilon,
            "labels": list(task.labels),
            "seed": task.seed,
            "l1_error": {name: {**found.to_dict()} for name, found in errors.items()},
        }
        print(json.dumps(data, indent=2))
        return
    drawn = Table("class balance recovered from", "L1 error (0 to 2)", box=SIMPLE, pad_edge=False)
    for name, found in errors.items():
        drawn.add_row(name, f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    wide_console().print(drawn, markup=False, highlight=False)
    print(f"{len(true)} private records; epsilon {task.epsilon:g}; seed {task.seed}; intervals at 95%.")
    if model is not None and held_out is None:
        print("The correction is biased where the model was fitted on --public: give --held-out, texts it never saw.")


def _confusion(task: Task, model: Path, unseen: Sequence[Record]) -> Floats:
    """What the model makes of public labels; noise on public texts costs no privacy."""
    mechanism = load_model(model, device="cpu")  # wherever it was fitted, and the releases were made
    if task.certificate is not None and (
        settings(mechanism.spec) != on_device("cpu", task.certificate.settings)
        or dict(mechanism.digests) != dict(task.certificate.digests)
    ):
        raise ConfigError(f"Expected {model} to be the model that made RELEASED: its certificate names another.")
    true: list[str | None] = []
    given: list[str | None] = []
    with counted("the model on public texts") as tell:
        for i in range(_TIMES):
            true += [record.label for record in unseen]
            given += [release.label for release in mechanism.privatize(unseen, seeded(task.seed + i))]
            tell(i + 1, _TIMES, "rounds")
    return confusion_matrix(true, given, task.labels)
