"""`dptext utility corpus`: measure what a synthetic corpus kept of a private one, beside originals and public texts."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, cast

import numpy as np

from dptext._wording import markdown_table
from dptext.cli import options
from dptext.cli.answers import Printing, interval
from dptext.cli.chosen import load_encoder
from dptext.cli.corpus_options import listed
from dptext.cli.corpus_report import CorpusReport, beside
from dptext.cli.terminal import say
from dptext.cli.utility import NOT_PRIVATE, cell
from dptext.embeddings.embedder import Embedder, RememberingEmbedder
from dptext.errors import ConfigError, DPTextError
from dptext.estimates import Estimate
from dptext.mechanism import settings
from dptext.runs.certificate import certificate_path
from dptext.runs.verification import read_certificate, verify
from dptext.text.declarations import schema_of, with_files
from dptext.text.files import Target, refuse_inputs, sha256_of
from dptext.text.formats import Format, detect_format
from dptext.text.labels import meaning, relabelled
from dptext.text.reading import read_released
from dptext.text.records import LABEL_FIELD, TEXT_FIELD, Fields, Record
from dptext.text.schema import DeclaredColumn, IdColumn, ListedColumn
from dptext.text.survey import survey
from dptext.types import Json, jsonable
from dptext.utility.classification import best_zero_shot, evaluate, train_tfidf
from dptext.utility.columns import cells_of, columns_kept, independent
from dptext.utility.corpus import corpus_kept
from dptext.utility.gap import Answers, ClosedGap, closed_gap, right_answers
from dptext.utility.leaving import leaving
from dptext.utility.tables import (
    ORIGINAL,
    PUBLIC_ONLY,
)

RELEASED = "released"
INDEPENDENT = "independent"  # originals, each column in another order
MIXED = "public, same mix"  # public texts with the mix of labels that the corpus has
FREQUENT = "most frequent label"  # always the label that most originals have
AS_MANY, AS_MANY_PUBLIC = "as many originals", "as many public"  # as texts of the corpus, where these are fewer
_FROM_TEXT, _EACH = " from text", " tv"
_FIT = 5  # columns of a table's numbers on a screen
_SHOWN = ("accuracy", "told_apart", "topics_tv", "mix_l1")
_HEADS = ("accuracy", "macro_f1", "told_apart", "frechet", "precision", "recall", "topics_tv", "mix_l1", "own_label")


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    private: Annotated[Path, options.records_argument(metavar="PRIVATE", help="The private records.")]
    released: Annotated[Path, options.file_argument(metavar="OUT", help="What `synthesize` wrote, or another corpus.")]
    public: Annotated[Path, options.records_option(help="The pool, with its labels if it has some.")]
    test: Annotated[
        Path | None, options.records_option(help="Real records that OUT was not made from. Default: half of PRIVATE.")
    ] = None


def corpus(
    *,
    files: CorpusFiles,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    column: Annotated[
        list[str] | None,
        options.reads(
            "--column",
            metavar="'NAME: WHAT'",
            help="A column of the table, as for `summarize`. Repeatable. Default: those of the summary that OUT was "
            "written from.",
        ),
    ] = None,
    encoder: options.EncoderOption = "sentence",
    out: Annotated[
        Path | None,
        options.output_option(
            "--out", metavar="PAGE.html", help="A report with pictures, and the same as JSON beside it, for you alone."
        ),
    ] = None,
    force: options.ForceOption = False,
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    drawn, seed = seed is None, options.seed_of(seed)
    _check_files(files, out, force=force)
    schema = _schema(files.released, column)
    asked = tuple(each.name for each in schema)
    private = layout.read(files.private, label=label_field, measured=asked)
    pool = layout.read_public(files.public, label=layout.public_label(files.public, label_field))
    made = list(read_released(files.released, _fields_of(files.released, layout, label_field, asked)))
    held = [] if files.test is None else layout.read(files.test, label=label_field, measured=asked)
    if min(map(len, (private, pool, made, *([held] if held and out is not None else [])))) < 8:
        raise ConfigError("Expected at least 8 records in each file.")
    say(NOT_PRIVATE)
    order = [private[i] for i in np.random.default_rng(seed).permutation(len(private)).tolist()]
    own, real = (private, held) if held else (order[: len(order) // 2], order[len(order) // 2 :])
    labels = tuple(sorted({record.label for record in private if record.label}))
    pool, made, held = (relabelled(records, labels) for records in (pool, made, held))
    if encoder == "distilled":
        raise ConfigError(
            "Expected --encoder sentence, glove or a folder: distilled belongs to one pool. Leave it out."
        )
    embedder = RememberingEmbedder(load_encoder(encoder, judged=[record.text for record in private]))
    parts = {ORIGINAL: own, RELEASED: made, PUBLIC_ONLY: pool}
    fewer = {AS_MANY: _as_many(own, made, seed), AS_MANY_PUBLIC: _as_many(pool, made, seed)}
    all_parts = {**parts, **{row: records for row, records in fewer.items() if records}}
    rows, closed = _measured(all_parts, private, real, _meanings(files.released, labels), embedder, seed)
    compared = _compared(rows, schema, label_field, labels, all_parts, real, seed)
    headline: list[str] = []
    if out is not None:
        report = replace(_report(parts, held, rows, labels, embedder, seed), closed=closed)
        headline = report.written(out, embedder, [_real_texts(held, embedder.name, seed)], force=force)
    guessed = bool(labels) and not any(record.label for record in pool)
    released, public = (cell(rows[name].get("told_apart"), interval) for name in (RELEASED, PUBLIC_ONLY))
    said = [
        *(_learned(rows, closed, labels, label_field, guessed=guessed) if labels or not compared else []),
        *compared,
        f"A classifier tells the corpus from real texts with AUC {released}, public text with {public}; .5 is perfect.",
        "Its texts have no record of their own, so there is no fidelity to measure.",
    ]
    by_text = [head for head in rows[RELEASED] if head.endswith(_FROM_TEXT)]
    table = ["columns_tv", "pairs_tv", *by_text] if schema else []
    each = [head for head in rows[RELEASED] if head.endswith(_EACH)]
    screen, full = _table(rows, _SHOWN), _table(rows, _HEADS)
    if schema:
        screen += ["", *_table(rows, table[:_FIT])]
        full += ["", *_table(rows, table), "", *_table(rows, each)]
    data: dict[str, Json] = {"note": NOT_PRIVATE, "seed": seed, "labels": [*labels]}
    data["rows"] = {row: {head: jsonable(value) for head, value in found.items()} for row, found in rows.items()}
    data["gap_closed"] = None if closed is None else closed.to_dict()
    more = [*full, "", _real_texts(held, embedder.name, seed)]
    printing.answer([*headline, *said], screen, more, data, drawn=seed if drawn else None)


def _measured(
    parts: Mapping[str, Sequence[Record]],
    private: Sequence[Record],
    real: Sequence[Record],
    names: Mapping[str, str],
    embedder: Embedder,
    seed: int,
) -> tuple[dict[str, dict[str, Estimate | float]], ClosedGap | None]:
    """Return the numbers of each row, and the share of the gap that the corpus closes, if all rows have labels.

    `names` are the meanings of labels; none without labels.
    """
    rows: dict[str, dict[str, Estimate | float]] = {}
    answered: dict[str, Answers] = {}

    def taught(row: str, known: Sequence[tuple[str, str]]) -> None:
        trained = train_tfidf([text for text, _ in known], [label for _, label in known], seed=seed)
        found = evaluate(trained, real, seed=seed)
        rows.setdefault(row, {}).update({"accuracy": found.accuracy, "macro_f1": found.macro_f1})
        answered[row] = right_answers(trained, real)

    mix = Counter(record.label for record in parts[RELEASED] if record.label)
    for row, records in parts.items():
        texts: Sequence[str] = [record.text for record in records]
        given: Sequence[str | None] = [record.label for record in records]
        kept = corpus_kept(
            texts, given, private=private, real=real, pool=parts[PUBLIC_ONLY], labels=[*names], embedder=embedder,
            seed=seed,
        )  # fmt: skip
        rows[row] = dict(kept.cells())
        if (
            row in (PUBLIC_ONLY, AS_MANY_PUBLIC) and names and not any(given)
        ):  # as anybody could: by the names of the labels
            texts, given = best_zero_shot(texts, names, embedder, real)
        known = [(text, label) for text, label in zip(texts, given, strict=True) if label]
        if names and known:
            taught(row, known)
            mixed = _in_mix(known, mix, seed) if row == PUBLIC_ONLY else []
            if len({label for _, label in mixed}) > 1:
                taught(MIXED, mixed)
    judged = [record.label for record in real if record.label]
    if names and judged:
        frequent = Counter(record.label for record in parts[ORIGINAL] if record.label).most_common(1)[0][0]
        rows[FREQUENT] = {"accuracy": judged.count(frequent) / len(judged)}
    if not answered.keys() >= {ORIGINAL, RELEASED, PUBLIC_ONLY}:
        return rows, None
    public = max((row for row in (PUBLIC_ONLY, MIXED) if row in answered), key=lambda row: float(answered[row].mean()))
    return rows, closed_gap(*(answered[row] for row in (ORIGINAL, RELEASED, public)), seed=seed)


def _in_mix(known: Sequence[tuple[str, str]], mix: Mapping[str, int], seed: int) -> list[tuple[str, str]]:
    """Return as many texts as there are with the labels in this mix, at random; none if a label has no text."""
    there = Counter(label for _, label in known)
    times = min((there[label] / n for label, n in mix.items()), default=0.0)
    left, found = {label: int(times * n) for label, n in mix.items()}, list[tuple[str, str]]()
    for i in np.random.default_rng(seed).permutation(len(known)).tolist():
        if left.get(label := known[i][1], 0):
            left[label] -= 1
            found.append(known[i])
    return found


def _as_many(records: Sequence[Record], made: Sequence[Record], seed: int) -> Sequence[Record]:
    """Return as many of the records as were made, at random; none if there are no more of them."""
    if len(records) <= len(made):
        return []
    chosen = np.random.default_rng(seed).choice(len(records), len(made), replace=False)
    return [records[i] for i in chosen.tolist()]


def _report(
    parts: Mapping[str, Sequence[Record]],
    held: Sequence[Record],
    rows: Mapping[str, Mapping[str, Estimate | float]],
    labels: Sequence[str],
    embedder: Embedder,
    seed: int,
) -> CorpusReport:
    own, made, pool = (parts[row] for row in (ORIGINAL, RELEASED, PUBLIC_ONLY))
    shown = {record.text for record in pool}
    found = leaving(made, private=own, others=held, pool=pool, embedder=embedder, seed=seed) if held else None
    copied = sum(record.text in shown for record in made) / len(made)
    return CorpusReport(RELEASED, parts, rows, labels, found, copied, seed)


def _check_files(files: CorpusFiles, out: Path | None, *, force: bool) -> None:
    """Raise ConfigError early: the report cannot be written, or the other real texts are the private ones."""
    if out is not None:
        inputs = (files.private, files.released, files.public, files.test)
        _check_page(out, tuple(filter(None, inputs)), force=force)
    if files.test is not None and sha256_of(files.test) == sha256_of(files.private):
        raise ConfigError("Expected --test to hold other real records than PRIVATE, found the same file.")


def _real_texts(held: Sequence[Record], encoder: str, seed: int) -> str:
    real_texts = "--test" if held else "half of PRIVATE, from which OUT may have been made"
    return f"Real texts: {real_texts}; embeddings of {encoder}; seed {seed}; intervals at 95%."


def _check_page(out: Path, inputs: tuple[Path, ...], *, force: bool) -> None:
    """Raise ConfigError early if the report cannot be written, or would replace an input."""
    if out.suffix not in (".html", ".htm"):
        raise ConfigError(f"Expected --out to end in .html, found {str(out)!r}: its JSON lies beside it.")
    for path in (out, beside(out)):
        refuse_inputs(path, inputs)
        Target(path, force, inputs).check()


def _settings(released: Path) -> Mapping[str, Json]:
    """Return the settings in the certificate beside the corpus; none without one, or if it is of another version."""
    beside = certificate_path(released)
    try:
        return settings(verify(beside).spec) if beside.is_file() else {}
    except DPTextError:
        return {}


def _meanings(released: Path, labels: Sequence[str]) -> dict[str, str]:
    """Return the meaning of each label in words, as the certificate beside the corpus names it; else the label."""
    found = _settings(released)
    known, names = (cast("list[str]", found.get(each) or []) for each in ("labels", "names"))
    own = dict(zip(map(meaning, known), names, strict=False))
    return {label: own.get(meaning(label), label) for label in labels}


def _schema(released: Path, given: Sequence[str] | None) -> tuple[DeclaredColumn, ...]:
    """Return the declared columns but ids; by default those of the certificate beside the corpus, if there is one."""
    if given is None:
        given = cast("list[str]", _settings(released).get("columns") or [])
    else:
        given = [with_files(each, lambda path: listed(f"@{path}", "--column")) for each in given]
    return tuple(each for each in schema_of(given) if not isinstance(each, IdColumn))


def _compared(
    rows: dict[str, dict[str, Estimate | float]],
    schema: Sequence[DeclaredColumn],
    label_field: str | None,
    labels: Sequence[str],
    parts: Mapping[str, Sequence[Record]],
    real: Sequence[Record],
    seed: int,
) -> list[str]:
    """Add the numbers of columns to `rows`, and return sentences on them; none without columns."""
    if not schema:
        return []
    labelled = label_field and labels and any(each.label for each in parts[RELEASED])
    own: list[DeclaredColumn] = [ListedColumn(label_field or "", False, tuple(labels))] if labelled else []
    columns, name = [*own, *schema], label_field or ""
    held = cells_of(real, columns, label=name)
    true = AS_MANY if AS_MANY in parts else ORIGINAL  # few rows are far from others by chance
    for row in (ORIGINAL, AS_MANY, RELEASED):
        if row not in parts:
            continue
        cells, texts = cells_of(parts[row], columns, label=name), [each.text for each in parts[row]]
        kept = columns_kept(cells, held, columns, texts=texts, real_records=real, seed=seed)
        rows[row] |= dict(kept.cells())
        if row == true:
            rows[INDEPENDENT] = dict(columns_kept(independent(cells, seed), held, columns).cells())
    one, two = ({row: rows[row].get(head) for row in rows} for head in ("columns_tv", "pairs_tv"))
    made, chance = cell(one[RELEASED], interval), cell(one[true], interval)
    of = f"{len(parts[true]):,} private rows"
    said = [f"A column is {made} from that of real rows on average (total variation), and {chance} in {of}."]
    if two[RELEASED] is not None:
        said.append(
            f"Two columns together are {cell(two[RELEASED], interval)} from real ones, {cell(two[true], interval)} in "
            f"{of}, and {cell(two[INDEPENDENT], interval)} in as many without relations."
        )
    return said


def _fields_of(
    released: Path, layout: options.Layout, label_field: str | None, measured: tuple[str, ...] = ()
) -> Fields:
    """Return the fields of a corpus: those that its certificate names, or the user's. No label if there is none."""
    if detect_format(released) is Format.TEXT:
        return Fields()
    there, certified = survey(released).columns, dict[str, str]()
    with contextlib.suppress(DPTextError):  # there is none, or one of another version
        certified |= read_certificate(certificate_path(released)).fields
    text, named = (certified.get(name, name) for name in (TEXT_FIELD, LABEL_FIELD))
    text = text if text in there else layout.text_field
    label = next((name for name in (named, label_field) if name in there), None)
    if absent := [name for name in measured if name not in there]:
        raise ConfigError(f"Expected the column {absent[0]!r} in {released}, found {', '.join(there)}.")
    return Fields(text, label=label if label_field is not None else None, measured=measured)


def _learned(
    rows: Mapping[str, Mapping[str, Estimate | float]],
    closed: ClosedGap | None,
    labels: Sequence[str],
    label_field: str | None,
    *,
    guessed: bool,
) -> list[str]:
    """Say what a classifier learns from the corpus and from public text, with a verdict; or why there is no verdict."""
    if not labels:
        asked = "name them with --label-field" if label_field is None else "no record of PRIVATE has one"
        return [f"Labels are not judged: {asked}."]
    right = {name: found["accuracy"] for name, found in rows.items() if "accuracy" in found}
    if RELEASED not in right:
        return ["Labels are not judged: the corpus has none."]
    made, public = right[RELEASED], right.get(PUBLIC_ONLY)
    said = f"Of the labels of real texts a classifier that learns from the corpus has {cell(made, interval)} right"
    said += f", from originals {cell(right[ORIGINAL], interval)}"
    if public is None or closed is None:
        return [f"{said}; the public texts have no labels to learn from."]
    named = " (labelled by the names of the labels)" if guessed else ""
    mixed = f" ({cell(right[MIXED], interval)} in the mix of the corpus)" if MIXED in right else ""
    said += (
        f", from the public texts{named} {cell(public, interval)}{mixed}; {cell(right[FREQUENT], interval)} have the "
    )
    return [f"{said}most frequent label. {closed.sentence}"]


def worth(made: Estimate, public: Estimate) -> str:
    """Say whether a corpus teaches a classifier more than public texts do, by two accuracies."""
    if made.low > public.high:
        return "The corpus teaches more than the public texts."
    if made.high < public.low:
        return "The public texts teach more: take these."
    return "It is not shown to teach more than the public texts."


def _table(rows: Mapping[str, Mapping[str, Estimate | float]], heads: Iterable[str]) -> list[str]:
    known = [head for head in heads if any(head in found for found in rows.values())]
    there = {row: found for row, found in rows.items() if any(head in found for head in known)}
    lines = [[row, *(cell(found.get(head), interval) for head in known)] for row, found in there.items()]
    return markdown_table(["interval at 95%", *known], lines)
