"""`dptext utility corpus`: measure what a synthetic corpus kept of a private one, beside originals and public texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dptext._wording import NOT_PRIVATE, markdown_table
from dptext.cli import options
from dptext.cli.answers import Printing, interval, short
from dptext.cli.chosen import load_encoder
from dptext.cli.corpus_certified import (
    certified_label,
    certified_settings,
    declared_columns,
    fields_of,
    meanings_of,
    measured_together,
)
from dptext.cli.corpus_report import CorpusReport, beside
from dptext.cli.corpus_tables import EACH, FROM_TEXT, compared, explained, table_of_means
from dptext.cli.kept import kept_beside
from dptext.cli.terminal import counted, say, waiting
from dptext.cli.utility import cell
from dptext.embeddings.embedder import Embedder, RememberingEmbedder
from dptext.errors import ConfigError, HeaderError
from dptext.estimates import Estimate
from dptext.text.files import Target, refuse_inputs, sha256_of
from dptext.text.labels import relabelled
from dptext.text.reading import read_released
from dptext.text.records import Fields, Record
from dptext.text.schema import IdColumn
from dptext.types import Json, jsonable
from dptext.utility.corpus_rows import (
    AS_MANY_MIXED,
    FREQUENT,
    MIXED,
    RELEASED,
    judged_rows,
    labelled_by,
    require_enough,
)
from dptext.utility.group_means import GroupMeans
from dptext.utility.leaving import copied, leaving
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY
from dptext.utility.worth import CorpusWorth, other_mix

if TYPE_CHECKING:
    pass

_FIT = 5  # columns of a table's numbers on a screen
_FEW_LABELS = 4  # labels of a mix that is shown
_SHOWN = ("accuracy", "told_apart", "topics_tv", "mix_l1")
_HEADS = ("accuracy", "macro_f1", "told_apart", "frechet", "precision", "recall", "topics_tv", "mix_l1", "own_label")


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    private: Annotated[
        Path,
        options.records_argument(
            metavar="PRIVATE", help="The private records, in one file: join those of several months."
        ),
    ]
    released: Annotated[Path, options.file_argument(metavar="OUT", help="What `synthesize` wrote, or another corpus.")]
    public: Annotated[Path, options.records_option(help="The pool, with its labels if it has some.")]
    test: Annotated[
        Path | None,
        options.records_option(
            help="Real records that OUT was not made from, with the columns of PRIVATE. Attacks need it. Default: half "
            "of PRIVATE."
        ),
    ] = None


def corpus(
    *,
    files: CorpusFiles,
    layout: options.Layout,
    label_field: Annotated[
        str | None,
        options.reads(
            "--label-field",
            metavar="NAME",
            help="Field of the labels. Default: that of the summary that OUT was written from.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        options.reads(
            "--column",
            metavar="'NAME: WHAT'",
            help="A column of the table, as for `summarize`. Repeatable. Default: those of the summary that OUT was "
            "written from.",
        ),
    ] = None,
    names: Annotated[
        str | None,
        options.reads(
            "--names",
            metavar="LABEL=A,...",
            help="Meanings of the labels in words, or @FILE: public texts are labelled by them. Of a corpus from a "
            "summary without LABEL=, too, in its order. Default: those of the summary.",
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
    label_field = label_field or certified_label(files.released)
    declared = declared_columns(files.released, column)
    schema = tuple(each for each in declared if not isinstance(each, IdColumn) and each.name != label_field)
    asked = tuple(each.name for each in schema)
    fields, there = fields_of(files.released, layout, label_field, asked)
    private = _read(layout, files.private, label_field, asked)
    pool = layout.read_public(files.public, label=layout.public_label(files.public, label_field))
    made = _read_judged(files, fields)
    held = [] if files.test is None else _read(layout, files.test, label_field, asked, test=True)
    require_enough(private, pool, made, *([held] if held and out is not None else []))
    say(NOT_PRIVATE)
    if label_field is None:
        say("No labels are judged: --label-field NAME names their field in PRIVATE.")
    labels = tuple(sorted({record.label for record in private if record.label}))
    pool, made, held = (relabelled(records, labels) for records in (pool, made, held))
    if encoder == "distilled":
        raise ConfigError(
            "Expected --encoder sentence, glove or a folder: distilled belongs to one pool. Leave it out."
        )
    with kept_beside(files.public, pool):
        embedder = RememberingEmbedder(load_encoder(encoder, judged=[record.text for record in private]))
        embedder.embed([record.text for record in pool])
    meanings = meanings_of(files.released, labels, names)
    with counted("judging", "rows") as tell:
        judged = judged_rows(private, made, pool, held, meanings, embedder, seed, tell)
    rows, worth = judged.rows, judged.worth
    together = measured_together(files.released, label_field)
    of_columns, means = compared(judged, schema, label_field, labels, seed, together)
    known = {fields.text, label_field, *(each.name for each in declared)}
    wordless, by_words = labelled_by(meanings, pool)
    notes = [
        *_mix_note(private, held),
        *by_words,
        *([] if worth is None or worth.verdict()[0] == "yes" else _even_note(made, labels, files.released)),
        *_columns_note(asked, [name for name in there if name not in known], worth),
    ]
    headline: list[str] = []
    if out is not None:
        report = _report(judged.parts, held, rows, labels, embedder, seed)
        report = replace(
            report, copies=copied(made, private, pool), worth=worth, notes=notes + wordless, of_columns=of_columns,
            means=means,
        )  # fmt: skip
        with waiting("Drawing the report."):
            headline = report.written(out, embedder, [_real_texts(held, embedder.name, seed)], force=force)
    verdict = [] if headline else wordless + by_words if worth is None else [worth.sentence, *notes]
    learned = (
        [_learned(rows, labels, label_field, guessed=bool(wordless or by_words))] if labels or not of_columns else []
    )
    said = [
        *([" ".join([*learned, *verdict])] if learned else []),
        *of_columns,
        *_apart(rows, files),
    ]
    data: dict[str, Json] = {"note": NOT_PRIVATE, "seed": seed, "labels": [*labels]}
    data["rows"] = {row: {head: jsonable(value) for head, value in found.items()} for row, found in rows.items()}
    data |= {"gap_closed": None, "worth": None, "means": [each.to_dict() for each in means]}
    if worth is not None:
        data |= {"gap_closed": worth.closed.to_dict(), "worth": worth.to_dict()}
    screen, full = _tables(rows, means, columns=bool(schema))
    more = [*full, "", *(f"{row}: {what}." for row, what in explained(rows)), "",
            _real_texts(held, embedder.name, seed)]  # fmt: skip
    printing.answer([*headline, *said], screen, more, data, drawn=seed if drawn else None)


def _apart(rows: Mapping[str, Mapping[str, Estimate | float]], files: CorpusFiles) -> list[str]:
    """Say how well a classifier tells texts from real ones; of public texts alone, if OUT is their file."""
    released, public = (cell(rows[name].get("told_apart"), interval) for name in (RELEASED, PUBLIC_ONLY))
    if files.released.resolve() == files.public.resolve():
        return [f"A classifier tells public text from real texts with AUC {public}; .5 is perfect."]
    return [
        f"A classifier tells the corpus from real texts with AUC {released}, public text with {public}; .5 is perfect.",
        "Its texts have no record of their own, so there is no fidelity to measure.",
    ]


def _tables(
    rows: Mapping[str, Mapping[str, Estimate | float]], means: Sequence[GroupMeans], *, columns: bool
) -> tuple[list[str], list[str]]:
    """Return the lines of the screen's tables, and those of all tables."""
    screen, full = _table(rows, _SHOWN), _table(rows, _HEADS)
    if columns:
        heads = ["columns_tv", "pairs_tv", *(head for head in rows[RELEASED] if head.endswith(FROM_TEXT))]
        each = [head for head in rows[RELEASED] if head.endswith(EACH)]
        screen += ["", *_table(rows, heads[:_FIT])]
        full += ["", *_table(rows, heads), "", *_table(rows, each)]
    means_heads, lines = table_of_means(means)
    return screen, full + (["", *markdown_table(means_heads, lines)] if lines else [])


def _read(
    layout: options.Layout, path: Path, label_field: str | None, columns: tuple[str, ...], *, test: bool = False
) -> list[Record]:
    """Return the records of PRIVATE or of --test. ConfigError: it lacks a column that is to be judged."""
    what = "--test" if test else "PRIVATE"
    remedy = "give --test the columns of PRIVATE, or leave --test out, and half of PRIVATE takes its place"
    if not test:
        remedy = "give the private table itself, or name with --column only the columns that it has"
    try:
        found = layout.read(path, label=label_field, measured=columns)
    except HeaderError as fault:
        absent = next((name for name in columns if f"no column {name!r}" in str(fault)), None)
        if absent is None:
            raise
        raise ConfigError(f"Expected the column {absent!r} in {what}, found no such column: {remedy}.") from None
    for name in columns:  # a record of JSON may lack it
        if found and all(record.kept.get(name) is None for record in found):
            raise ConfigError(f"Expected the column {name!r} in {what}, found it in no record: {remedy}.")
    return found


def _mix_note(private: Sequence[Record], held: Sequence[Record]) -> list[str]:
    """Say that other real texts have another mix of labels than the private ones, if they do."""
    mixes = [[record.label for record in side] for side in (private, held)]
    found = other_mix(*mixes)
    if found is None:
        return []
    own, other = (side.count(found[1]) / sum(label is not None for label in side) for side in mixes)
    said = (
        f"The labels of --test have another mix than those of PRIVATE (total variation {short(found[0])}; "
        f"{found[1]!r}: {other:.0%}, in PRIVATE {own:.0%}): all accuracies hold for the mix of --test."
    )
    return [said]


def _read_judged(files: CorpusFiles, fields: Fields) -> list[Record]:
    """Read the corpus that is judged. Public texts are judged without their labels: that is what a corpus adds to."""
    found = list(read_released(files.released, fields))
    if files.released.resolve() != files.public.resolve():
        return found
    return [replace(record, label=None) for record in found]


def _even_note(made: Sequence[Record], labels: Sequence[str], released: Path) -> list[str]:
    """Say that a corpus of uneven labels can be written evenly, if it comes from a summary."""
    given = [record.label for record in made if record.label]
    if certified_settings(released).get("kind") != "summary" or other_mix(given, [*labels] * len(given)) is None:
        return []
    shares = ",".join(f"{label}={1 / len(labels):.2g}" for label in labels[:_FEW_LABELS])
    of = f"`dptext write --mix {shares}`" if len(labels) <= _FEW_LABELS else "`dptext write --mix` with equal shares"
    return [f"The corpus has uneven labels. A classifier may learn more from an even mix, which costs nothing: {of}."]


def _columns_note(judged: Sequence[str], others: Sequence[str], worth: CorpusWorth | None) -> list[str]:
    """Say that the verdict on training is not on columns, if there are some."""
    if worth is None or not (judged or others):
        return []
    said = "This verdict is on texts and their label alone: public texts have no such columns."
    if judged:
        said += f" Columns are judged below ({', '.join(judged)})."
    return [said + (f" Not judged: {', '.join(others)} (--column)." if others else "")]


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
    public = sum(record.text in shown for record in made) / len(made)
    return CorpusReport(RELEASED, parts, rows, labels, found, public, seed)


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


def _learned(
    rows: Mapping[str, Mapping[str, Estimate | float]],
    labels: Sequence[str],
    label_field: str | None,
    *,
    guessed: bool,
) -> str:
    """Say what a classifier learns from the corpus and from public text; or why that is not judged."""
    if not labels:
        asked = "name them with --label-field" if label_field is None else "no record of PRIVATE has one"
        return f"Labels are not judged: {asked}."
    right = {name: found["accuracy"] for name, found in rows.items() if "accuracy" in found}
    named = " (labelled by the names of the labels)" if guessed else ""
    if RELEASED not in right:
        if not {ORIGINAL, PUBLIC_ONLY} <= right.keys():
            return "Labels are not judged: the corpus has none."
        most, least = (cell(right[row], interval) for row in (ORIGINAL, PUBLIC_ONLY))
        return (
            f"What a corpus could teach lies between: a classifier that learns from the public texts{named} has "
            f"{least} of the labels of real texts right, from originals {most}."
        )
    if ORIGINAL not in right:
        return "Labels are not judged: the half of PRIVATE to learn from has none."
    said = f"Of the labels of real texts a classifier that learns from the corpus has {cell(right[RELEASED], interval)}"
    said += f" right, from originals {cell(right[ORIGINAL], interval)}"
    if PUBLIC_ONLY not in right:
        return f"{said}; the public texts have no labels to learn from."
    said += f", from the public texts{named} {cell(right[PUBLIC_ONLY], interval)}"
    for row, where in ((MIXED, "in the mix of the corpus"), (AS_MANY_MIXED, "if as many, in this mix")):
        said += f", {cell(right[row], interval)} {where}" if row in right else ""
    return f"{said}; {cell(right[FREQUENT], interval)} have the most frequent label."


def _table(rows: Mapping[str, Mapping[str, Estimate | float]], heads: Iterable[str]) -> list[str]:
    known = [head for head in heads if any(head in found for found in rows.values())]
    there = {row: found for row, found in rows.items() if any(head in found for head in known)}
    lines = [[row, *(cell(found.get(head), interval) for head in known)] for row, found in there.items()]
    return markdown_table(["interval at 95%", *known], lines)
