"""`dptext utility`: measure what releases or a synthetic corpus kept. Baselines are always shown beside the results."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from dptext._wording import NOT_PRIVATE, markdown_table, plural
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval, short
from dptext.cli.chosen import fitted_on, load_encoder
from dptext.cli.grouped import promises, reads
from dptext.cli.kept import kept_beside
from dptext.cli.terminal import counted, say
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.mechanism import settings
from dptext.privacy.guarantee import Unit
from dptext.runs.certificate import READING, Certificate
from dptext.runs.models import load_model
from dptext.runs.specs import on_device, spec_from_settings
from dptext.runs.verification import certificate_of, is_part, parts_of, read_certificate, verify
from dptext.sampling.randomness import seeded
from dptext.text.formats import Format, detect_format
from dptext.text.labels import meaning, relabelled
from dptext.text.reading import read_released
from dptext.text.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD, Fields, Record, Release
from dptext.types import Floats, Json
from dptext.utility.balance import balance_error, confusion_matrix
from dptext.utility.classification import CLASSIFIERS
from dptext.utility.tables import (
    CANDIDATES,
    LABEL_ONLY_ROWS,
    LIMIT,
    ORIGINAL,
    PUBLIC_ONLY,
    UtilityTable,
    baselines,
    utility_table,
)


@dataclass(frozen=True, slots=True)
class Files:
    originals: Annotated[
        Path, options.records_argument(metavar="ORIGINALS", help="The private records: a file, or a folder of files.")
    ]
    released: Annotated[
        Path,
        options.records_argument(
            metavar="RELEASED",
            help="What `privatize` made of ORIGINALS: a file, or the folder of many files. Its certificate is read.",
        ),
    ]
    public: Annotated[Path, options.records_option(help="Public records, for the baselines.")]


@dataclass(frozen=True, slots=True)
class Named(options.Layout):
    """The options for reading all files but RELEASED, and for facts that a certificate states if there is one."""

    label_field: options.LabelFieldOption = None
    id_field: Annotated[str | None, reads(metavar="NAME", help="Field of the ids, as in the run of `privatize`.")] = (
        None
    )
    label: Annotated[
        list[str] | None, reads(metavar="NAME", help="A public label, if no certificate names the labels. Repeatable.")
    ] = None
    epsilon: Annotated[
        float | None,
        promises(help="Epsilon of the baselines label_only and candidates. Default: that of the certificate."),
    ] = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The inputs of a measurement: releases of the mechanism `name`, their originals, and public records for baselines.

    `labels` is the public set, or empty. `epsilon` is for baselines that spend an epsilon; with labels it is always
    known. `seed` seeds baselines, classifiers and intervals. `drawn` says whether it was drawn, not given.
    """

    name: str
    originals: Sequence[Record] = field(repr=False)
    releases: Sequence[Release[str]] = field(repr=False)
    public: Sequence[Record] = field(repr=False)
    labels: tuple[str, ...]
    epsilon: float | None
    seed: int
    certificate: Certificate | None = None
    drawn: bool = False

    @property
    def drawn_seed(self) -> int | None:
        return self.seed if self.drawn else None


def read_judged(files: Files, named: Named, seed: int | None) -> Judged:
    drawn, seed = seed is None, options.seed_of(seed)
    path = certificate_of(files.released)
    certificate = verify(path).certificate if path.exists() else None
    spec = None if certificate is None else spec_from_settings(certificate.settings)
    read = () if certificate is None else certificate.reading
    for name in read:
        if not getattr(named, name):
            say(f"By the certificate of RELEASED {READING[name]}: the originals are read in the same way.")
    so: dict[str, Any] = dict.fromkeys(read, True)
    named = replace(named, **so)
    known = () if spec is None else spec.traits.labels
    if known and named.label:
        raise ConfigError("Expected no --label: the certificate of RELEASED names the labels.")
    found = known or tuple(named.label or ())
    if named.label_field is None and found:
        raise ConfigError("Expected --label-field NAME: the certificate of RELEASED, or --label, names labels.")
    if named.label_field is not None and len(found) < 2:
        raise ConfigError(
            "Expected the public set of labels with --label-field, at least two: by the certificate of RELEASED, or by "
            "--label NAME, repeated."
        )
    labelled = bool(found) if spec is None else spec.traits.releases_labels
    own = named if certificate is None or named.record else replace(named, record=certificate.record or None)
    private = relabelled(own.read(files.originals, label=named.label_field, id=named.id_field), found)
    return Judged(
        "released" if spec is None else spec.kind,
        private,
        read_back(files.released, private, labelled=labelled),
        relabelled(named.read_public(files.public, label=named.label_field), found),
        found,
        _epsilon(certificate, named.epsilon, needed=bool(found)),
        seed,
        certificate,
        drawn,
    )


def chosen_classifier(name: str) -> str:
    """Return the name. ConfigError: there is no such classifier. MissingExtraError: its extra is absent."""
    CLASSIFIERS.named(name, f"--classifier {name!r}")
    return name


def _epsilon(certificate: Certificate | None, asked: float | None, *, needed: bool) -> float | None:
    if asked is not None:
        return asked
    for guarantee in () if certificate is None else certificate.guarantees:
        if guarantee.unit is Unit.DOCUMENT and guarantee.metric is None and math.isfinite(guarantee.epsilon):
            return guarantee.epsilon
    if not needed:
        return None
    raise ConfigError("Expected --epsilon: no certificate of RELEASED states a finite one for documents.")


def read_back(path: Path, originals: Sequence[Record], *, labelled: bool) -> list[Release[str]]:
    """Return the releases in a file, or in the parts of a folder. If there is a certificate, it names the columns."""
    parts = parts_of(path)
    plain = detect_format(parts[0]) is Format.TEXT
    beside = certificate_of(path)
    columns = read_certificate(beside).fields if beside.exists() else {}
    text, id_, label = (columns.get(name, name) for name in (TEXT_FIELD, ID_FIELD, LABEL_FIELD))
    names = Fields() if plain else Fields(text=text, id=id_, label=label if labelled else None)
    found = [record for part in parts for record in read_released(part, names)]
    if len(found) != len(originals):
        whole = f" {path} is a part of {path.parent}: give that folder, and all originals."
        raise ConfigError(
            f"Expected a release for each of the {len(originals)} originals, found {len(found)}. Where "
            "`privatize` ran with --on-error skip, give it here, too." + (whole if is_part(path) else "")
        )
    if plain:
        return [Release(own.id, record.text) for own, record in zip(originals, found, strict=True)]
    if list(map(meaning, (record.id for record in found))) != [meaning(record.id) for record in originals]:
        raise ConfigError(
            "Expected the ids of the originals in RELEASED, in the same order. Where `privatize` ran with --id-field, "
            "give it here, too."
        )
    # CSV has no null. Releases take their originals' ids, because readers may spell an id in other ways ("1.0", 1).
    return [Release(own.id, record.text, record.label or None) for own, record in zip(originals, found, strict=True)]


def fidelity(
    *,
    files: Files,
    named: Named,
    encoder: options.EncoderOption = "sentence",
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    _compare(files, named, encoder, seed, printing, test=None, classifier="tfidf")


def classification(
    *,
    files: Files,
    test: Annotated[Path, options.file_option(help="Real records that are in neither file.")],
    named: Named,
    classifier: options.ClassifierOption = "tfidf",
    encoder: options.EncoderOption = "sentence",
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    _compare(files, named, encoder, seed, printing, test=test, classifier=classifier)


def _compare(
    files: Files,
    named: Named,
    encoder: str,
    seed: int | None,
    printing: Printing,
    *,
    test: Path | None,
    classifier: str,
) -> None:
    judged = read_judged(files, named, seed)
    name = chosen_classifier(classifier)
    real: list[Record] = []
    if test is not None:
        if named.label_field is None:
            raise ConfigError("Expected --label-field NAME: a classifier learns labels.")
        real = relabelled(named.read(test, label=named.label_field), judged.labels)
    say(NOT_PRIVATE)
    found = table(judged, test=real, classifier=name, encoder=encoder, beside=files.public)
    answer, columns = answers.fidelity(found, judged.name), ["cosine", "tokens kept", "label kept"]
    if test is not None:
        learned = [answers.classification(found, judged.name), *answers.unlearned(found, judged.name)]
        answer, columns = [*learned, answer[0]], ["accuracy", "cosine"]
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
    printing.answer(answer, screen, [found.to_markdown()], {**data, **found.to_dict()}, drawn=judged.drawn_seed)


def _rows(judged: Judged) -> dict[str, Sequence[Release[str]]]:
    from dptext.mechanisms.candidates.candidates import Candidates
    from dptext.mechanisms.candidates.label_only import LabelOnly

    plain = baselines(judged.originals, judged.public, labels=judged.labels, seed=judged.seed)
    spending: dict[str, Sequence[Release[str]]] = {}
    if judged.labels and judged.epsilon is not None:
        spec = LabelOnly(judged.labels, epsilon=judged.epsilon, embedder="sentence")
        for i, (name, each) in enumerate(zip(LABEL_ONLY_ROWS, (spec, replace(spec, text="medoid")), strict=True)):
            spending[name] = each.fit(public=judged.public).privatize(judged.originals, seeded(judged.seed + i))
    if judged.epsilon is not None and judged.name != CANDIDATES:
        nearest = fitted_on(Candidates(judged.epsilon, judged.labels), public=judged.public, seed=judged.seed)
        spending[CANDIDATES] = nearest.privatize(judged.originals, seeded(judged.seed + len(LABEL_ONLY_ROWS)))
    return {ORIGINAL: plain.pop(ORIGINAL), judged.name: judged.releases, **spending, **plain}


def table(
    judged: Judged, *, test: Sequence[Record], classifier: str, encoder: str = "sentence", beside: Path | None = None
) -> UtilityTable:
    """Return the table of all rows. Without test records, it has no accuracies. `beside` is the file of public records.

    Rows and cosines take vectors of the same texts, which are computed once.
    """
    originals, pool = ([record.text for record in records] for records in (judged.originals, judged.public))
    with kept_beside(beside, judged.public):
        embedder = load_encoder(encoder, judged=originals)
        for texts in (pool, originals):  # with progress; public texts first, so that no private one tells what is kept
            embedder.embed(texts)
        with counted("judging", "rows") as tell:
            return utility_table(
                _rows(judged),
                private=judged.originals,
                test=test,
                embedder=embedder,
                classifier=classifier,
                seed=judged.seed,
                pool=pool,
                epsilon=judged.epsilon,
                on_progress=tell,
            )


def cell(value: Estimate | float | None, shown: Callable[[Estimate], str]) -> str:
    if value is None:
        return "-"
    return shown(value) if isinstance(value, Estimate) else short(value)


_TIMES = 5


def balance(
    *,
    files: Files,
    named: Named,
    model: options.ModelOption = None,
    held_out: Annotated[
        Path | None,
        options.file_option(
            help="Public records that --model was not fitted on. They correct the balance. Default: --public."
        ),
    ] = None,
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    """Print the L1 error of the class balance that each way recovers."""
    from dptext.mechanisms.candidates.label_only import LabelOnly

    judged = read_judged(files, named, seed)
    if held_out is not None and model is None:
        raise ConfigError("Expected --model with --held-out: the model is tried on those records.")
    if not judged.labels or judged.epsilon is None or all(release.label is None for release in judged.releases):
        raise ConfigError("Expected releases with labels: the command recovers the balance of the labels.")
    say(NOT_PRIVATE)
    true = [record.label for record in judged.originals]
    untouched = baselines(judged.originals, judged.public, labels=judged.labels, seed=judged.seed)[PUBLIC_ONLY]
    response = LabelOnly(judged.labels, epsilon=judged.epsilon).fit(public=judged.public)
    given = response.privatize(judged.originals, seeded(judged.seed))
    own = [release.label for release in judged.releases]

    def error(labels: Sequence[str | None], *, epsilon: float | None = None, matrix: Floats | None = None) -> Estimate:
        return balance_error(true, labels, judged.labels, epsilon=epsilon, matrix=matrix, seed=judged.seed)

    errors = {
        PUBLIC_ONLY: error([release.label for release in untouched]),
        "label randomized response, debiased": error([release.label for release in given], epsilon=judged.epsilon),
        f"{judged.name}, as released": error(own),
    }
    if model is not None:
        unseen = judged.public if held_out is None else named.read_public(held_out, label=named.label_field)
        errors[f"{judged.name}, debiased by public texts"] = error(own, matrix=_confusion(judged, model, unseen))
    data: dict[str, Json] = {
        "note": NOT_PRIVATE,
        "epsilon": judged.epsilon,
        "labels": list(judged.labels),
        "seed": judged.seed,
        "l1_error": {name: {**found.to_dict()} for name, found in errors.items()},
    }
    rows = [[name, interval(found)] for name, found in errors.items()]
    screen = markdown_table(["class balance recovered from", "L1 error (0 to 2), interval at 95%"], rows)
    legend = f"{plural(len(true), 'private record')}; epsilon {judged.epsilon:g}; seed {judged.seed}; intervals at 95%."
    if model is not None and held_out is None:
        biased = "The correction is biased where the model was fitted on --public: give --held-out, texts it never saw."
        screen += ["", biased]
    printing.answer(answers.balance(list(errors.values())), screen, [legend], data, drawn=judged.drawn_seed)


def _confusion(judged: Judged, model: Path, unseen: Sequence[Record]) -> Floats:
    """Return the matrix of labels that the model makes of public labels. Noise on public texts costs no privacy."""
    mechanism = load_model(model, device="cpu")  # whichever device the fit and the releases used
    if judged.certificate is not None and (
        settings(mechanism.spec) != on_device("cpu", judged.certificate.settings)
        or dict(mechanism.digests) != dict(judged.certificate.digests)
    ):
        raise ConfigError(f"Expected {model} to be the model that made RELEASED: its certificate names another.")
    true: list[str | None] = []
    given: list[str | None] = []
    with counted("the model on public texts", "rounds") as tell:
        for i in range(_TIMES):
            true += [record.label for record in unseen]
            given += [release.label for release in mechanism.privatize(unseen, seeded(judged.seed + i))]
            tell(i + 1, _TIMES)
    return confusion_matrix(true, given, judged.labels)
