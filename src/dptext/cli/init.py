"""`dptext init`: what readers need, in a few questions; the commands to type, and the `dptext.toml` that they read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from dptext.cli import options
from dptext.cli.answers import by_law
from dptext.cli.app import FILE
from dptext.cli.asking import (
    at_terminal,
    author_columns,
    given,
    made,
    record_of,
    require_about,
    require_epsilon,
    require_field,
    text_field_of,
)
from dptext.cli.check import form_options
from dptext.cli.grouped import promises
from dptext.cli.init_corpus import CorpusAnswers, ask, require_labels, require_unit_of_corpus
from dptext.cli.init_files import InitFiles, surveyed
from dptext.cli.init_texts import NO_PUBLIC, mechanism_for
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Spec
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.recommend.recommendation import Asked
from dptext.runs.specs import read_toml, settings_to_toml, spec_from_settings
from dptext.synthesis.blocks import TOPICS
from dptext.text.files import Target
from dptext.text.lines import listed
from dptext.text.plain_text import Portion
from dptext.text.records import Fields
from dptext.types import Json

Needs = StrEnum("Needs", ["CORPUS", "TABLE", "NUMBERS", "TEXTS"])  # what readers need
_COLUMNS: Final = (
    "No column is declared yet: {file} has examples. `dptext check {path}` proposes lines of your columns: write those "
    "whose values may be known into the table [columns] before you measure."
)
_ABOUT: Final = (
    "(N: about how many {unit}s there are, a round number, which is public. It decides how many topics and values "
    "noise leaves readable. A wrong one is measured, and paid for, twice.)"
)
#: Examples of the table [columns], which are comments of TOML.
_EXAMPLES: Final = """
# Take the # away from [columns] and from lines like these, and write values that may be known without the file.
# {there}
# [columns]
# priority = "low|normal|high"            # listed values; any other leaves as "other"
# "channel?" = "mail|web|*rest"           # may be null; any other leaves as "rest"
# amount = "0.00..500.00 by 10,50,200"    # numbers in bins that begin there, with two decimals
# day = "2026-01..2026-12 by month"       # dates
# ticket = "id"                           # fresh ids: those of the file are not read
"""


def init(
    source: Annotated[
        Path, options.records_argument(metavar="FILE|FOLDER", help="The private texts. None of them is shown.")
    ],
    needs: Annotated[
        str | None,
        promises(
            "--for",
            metavar="WHAT",
            help="What readers need: corpus, table, numbers (under one epsilon), or texts (each has its own). Default: "
            "asked, else corpus.",
        ),
    ] = None,
    text_field: options.TextFieldOption = None,
    record: options.RecordOption = None,
    sheet: options.SheetOption = None,
    label_field: options.LabelFieldOption = None,
    author_field: options.AuthorFieldOption = None,
    public: options.PublicOption = None,
    public_text_field: options.PublicTextFieldOption = None,
    public_label_field: options.PublicLabelFieldOption = None,
    public_record: options.PublicRecordOption = None,
    labels: Annotated[
        str | None,
        promises(metavar="A,B,...", help="The public set of labels of a corpus. Default: those of the public texts."),
    ] = None,
    about: Annotated[
        int | None,
        promises(metavar="N", help="About how many documents there are, or authors with --unit author, for a corpus."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        promises("--column", metavar="'NAME: WHAT'", help="A column of a table, as for `summarize`. Repeatable."),
    ] = None,
    unit: Annotated[
        str | None, promises(help="Who is protected: document or author; with --for texts document or token.")
    ] = None,
    epsilon: Annotated[float | None, promises(help="Largest epsilon of a release.")] = None,
    task: Annotated[
        str | None, promises(help="Use of each text: classification, meaning (default) or authorship.")
    ] = None,
    force: options.ForceOption = False,
) -> None:
    Target(FILE, force).check()
    if needs is None and not at_terminal():
        say("Without a terminal nothing is asked: options answer, and --for is corpus. dptext init --help lists them.")
    wanted = Needs(given(needs, "Readers need a corpus, a table, numbers, or texts", _require_needs, Needs.CORPUS))
    of_corpus = {"--author-field": author_field, "--labels": labels, "--about": about}
    wrong = {"--task": task} if wanted is not Needs.TEXTS else of_corpus
    if wanted is not Needs.TABLE and columns:
        wrong["--column"] = columns[0]
    if given_wrongly := [name for name, value in wrong.items() if value is not None]:
        raise ConfigError(f"Expected no {given_wrongly[0]} with --for {wanted}: it asks for something else.")
    _require_options(wanted, unit, epsilon, about, labels)
    found = surveyed(source, text=text_field, record=record_of(record, source), sheet=sheet)
    if found.record == Portion.FILE and not source.is_dir():
        say(f"Warning: {source} is one record. Name its folder for a corpus of files, or split it: --record line.")
    text_field = text_field or text_field_of(found)
    fields = Fields(text_field)
    begun = made(
        None if public is None else str(public),
        "A file of public texts of the same kind, with the same fields" + " (return: none)" * (wanted is Needs.TEXTS),
        lambda told: InitFiles.of(
            source, found, text_field, told, sheet, public_text_field, public_record, each_text=wanted is Needs.TEXTS
        ),
    )
    kept = "" if wanted is not Needs.TEXTS else " that is to leave, privatized too"
    begun = made(
        label_field,
        f"The field of a label{kept}, of {', '.join(map(repr, found.columns))} (return: none)"
        if found.named
        else f"The field of a label{kept} (return: none)",
        lambda told: begun.labelled(told, public_label_field),
    )
    if wanted is Needs.TEXTS:
        _each_text(begun, unit, epsilon, task or "meaning", force=force)
        return
    answers = ask(
        found, replace(fields, label=begun.label_field or None), begun.labels, unit=unit, author_field=author_field,
        epsilon=epsilon, about=about, labels=labels,
        columns=tuple(columns or _declared_before()) if wanted is Needs.TABLE else (),
    )  # fmt: skip
    if unit is None and answers.unit is not Unit.AUTHOR and (may := author_columns(found)):
        own = f"--unit author --author-field {shlex.quote(may[0])}"
        say(f"{', '.join(map(repr, may))} of {source} may name authors: {own} protects all texts of one.")
    _corpus(begun, answers, wanted, force=force)


def _require_options(
    wanted: Needs, unit: str | None, epsilon: float | None, about: int | None, labels: str | None
) -> None:
    """Raise ConfigError for an option that is refused whatever the answers are: before anything is asked."""
    if unit is not None:
        (require_unit_of_text if wanted is Needs.TEXTS else require_unit_of_corpus)(unit)
    if epsilon is not None:
        require_epsilon(str(epsilon))
    if about is not None:
        require_about(str(about))
    if labels is not None:
        require_labels(labels)


def _corpus(begun: InitFiles, answers: CorpusAnswers, wanted: Needs, *, force: bool) -> None:
    """Write the settings of a summary, and say what to type."""
    fields = {**begun.fields, **dict(begun.others), "public": str(begun.public)}
    fields |= {"label-field": begun.label_field} if begun.label_field else {}
    fields |= {"author-field": answers.author_field} if answers.author_field else {}
    fields |= {"with": TOPICS} if answers.of_topics else {}  # as many as `about` tells apart when it is measured
    promised = answers.promised()
    kept = Fields(
        begun.text_field, label=begun.label_field or None, author=answers.author_field or None,
        measured=promised.measured_fields,
    )  # fmt: skip
    for name in kept.measured:
        require_field(begun.found, name, "--column")
    examples = ""
    if wanted is Needs.TABLE and not answers.columns:
        beside = [name for name in begun.found.columns if name not in (kept.text, kept.label, kept.author)]
        there = listed(beside) if beside else "no other columns"
        examples = _EXAMPLES.format(there=f"Beside the texts, {begun.source} has {there}.")
    _write(fields, "summary", answers.settings, answers.columns, examples, force=force)
    summary, known = begun.source.with_name(f"{begun.stem}.summary"), answers.about is not None
    _say(answers.why(corpus=wanted is not Needs.NUMBERS), promised.guarantee(), begun, promised.advice * known)
    if examples:
        print(_COLUMNS.format(path=begun.source, file=FILE))
    print(f"Written: {FILE}. Next{', once columns are declared' if examples else ''}:")
    own = [*form_options(begun.found, fields), *begun.form, *([] if known else ["--about", "N"])]
    if wanted is Needs.CORPUS and begun.label_field and not (begun.others or begun.source.is_dir()):
        pool = str(begun.public)
        print(f"  {shlex.join(['dptext', 'utility', 'corpus', str(begun.source), pool, '--public', pool])}")
        print("(For you alone, without a charge: it says what a corpus could teach beside the public texts.)")
    if not known:
        print(_ABOUT.format(unit=answers.unit.value))
    print(f"  {shlex.join(['dptext', 'summarize', str(begun.source), str(summary), *own])}")
    print(f"  {shlex.join(['dptext', 'summary', 'show', str(summary)])}")
    if wanted is not Needs.NUMBERS:
        out = begun.source.with_name(f"{begun.stem}.written.csv")
        other = ["--drop-other"] if answers.columns else []
        print(f"  {shlex.join(['dptext', 'write', str(summary), str(out), *other])}")
    print(begun.suggested(fields), end="\n" if begun.suggested(fields) else "")


def _each_text(begun: InitFiles, unit: str | None, epsilon: float | None, task: str, *, force: bool) -> None:
    """Write the settings of a mechanism, and say what to type."""

    def protected(told: str) -> Unit:
        require_unit_of_text(told)
        if begun.public is None and Unit(told) is not Unit.TOKEN:
            raise ConfigError(NO_PUBLIC)
        return Unit(told)

    alone = begun.public is None and at_terminal()  # without a terminal, what is lacking is refused
    need = " (documents need public texts: begin again with --public FILE)" if alone else ""
    wanted = made(unit, f"Protect each document or each token{need}", protected, Unit.TOKEN if alone else Unit.DOCUMENT)
    labels = begun.labels if begun.label_field else []

    def chosen_at(told: str) -> tuple[dict[str, Json], str, Spec]:
        require_epsilon(told)
        chosen, why = mechanism_for(Asked(wanted, float(told), 1e-3, task), labels, n_public=len(begun.known))
        return chosen, why, spec_from_settings(chosen)

    limit = None if epsilon is None else str(epsilon)
    chosen, why, spec = made(limit, "The largest epsilon for each", chosen_at, "8")
    learns = spec.traits.learns is not Learns.NOTHING
    fields = begun.fields
    if labels and spec.traits.releases_labels:
        fields["label-field"] = begun.label_field
    if learns:
        fields |= {**dict(begun.others), "public": str(begun.public), "model": f"{begun.stem}.model"}
    _write(fields, "mechanism", chosen, force=force)
    _say(why, spec.guarantee(spec.units[-1] if wanted is Unit.DOCUMENT else spec.units[0]), begun)
    print(f"Written: {FILE}. Next:")
    if learns:
        print(f"  {shlex.join(['dptext', 'fit', *begun.form])}")
    out = begun.source.with_name(f"{begun.stem}.released{'' if begun.source.is_dir() else '.jsonl'}")
    own = form_options(begun.found, fields)
    print(f"  {shlex.join(['dptext', 'privatize', str(begun.source), str(out), *own])}\n  dptext explain {out}")
    print(begun.suggested(fields), end="\n" if begun.suggested(fields) else "")


def _declared_before() -> list[str]:
    """Return the columns that the owner of the file wrote into it."""
    columns = read_toml(FILE).get("columns") if FILE.exists() else None
    return [f"{name}: {what}" for name, what in columns.items()] if isinstance(columns, dict) else []


def _write(
    fields: dict[str, Json],
    table: str,
    settings: dict[str, Json],
    declared: Sequence[str] = (),
    examples: str = "",
    *,
    force: bool,
) -> None:
    """Write the file, with the columns that are declared, or else those that its owner wrote into it."""
    columns: Json = {name.strip(): what.strip() for name, _, what in (each.partition(":") for each in declared)}
    if not columns and FILE.exists():
        columns = read_toml(FILE).get("columns")
    kept: dict[str, Json] = {"columns": columns} if columns else {}
    Target(FILE, force).write((settings_to_toml({**fields, table: settings, **kept}) + examples).encode())


def _say(why: str, promised: Guarantee, begun: InitFiles, advice: str = "") -> None:
    lines = [why, promised.sentence(), by_law(promised), *advice.splitlines(), *begun.taken()]
    print("\n".join(lines), end="\n\n")


def _require_needs(told: str) -> None:
    options.member(Needs, "--for", told)


def require_unit_of_text(told: str) -> None:
    if options.member(Unit, "--unit", told) not in (Unit.DOCUMENT, Unit.TOKEN):
        raise ConfigError(
            f"Expected --unit document or token, found {told!r}. All texts of an author are protected by dptext "
            "privatize --author-field NAME --max-per-author N, and by dptext synthesize --set unit=author."
        )
