"""`dptext init`: what readers need, in a few questions; the commands to type, and the `dptext.toml` that they read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from dptext.cli import options
from dptext.cli.answers import by_law
from dptext.cli.app import FILE
from dptext.cli.asking import given, record_of, require_epsilon, require_field, require_public, text_field_of
from dptext.cli.check import NOT_BY_TEXTS, NOT_PROTECTED, form_options, stated_options
from dptext.cli.grouped import promises
from dptext.cli.init_corpus import CorpusAnswers, ask
from dptext.cli.init_texts import mechanism_for
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.mechanism import Learns, settings
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.recommend.recommendation import Asked
from dptext.runs.specs import read_toml, settings_to_toml, spec_from_settings, synthesis_from_settings
from dptext.runs.summarizing import column_lines, fitting_topics
from dptext.text.files import Target
from dptext.text.formats import Format, file_format
from dptext.text.lines import listed
from dptext.text.plain_text import Portion
from dptext.text.records import Fields, Record
from dptext.text.survey import Survey, survey
from dptext.text.surveyed import Column
from dptext.types import Json

_MOST_LABELS: Final = 50
Needs = StrEnum("Needs", ["CORPUS", "TABLE", "NUMBERS", "TEXTS"])  # what readers need
_COLUMNS: Final = (
    "No column is declared yet: {file} has examples. `dptext check {path}` proposes lines of your columns: write those "
    "whose values may be known into the table [columns] before you measure."
)
#: Examples of the table [columns], which are comments of TOML.
_EXAMPLES: Final = """
# Take the # away from [columns] and from lines like these, and write values that may be known without the file.
# {there}
# [columns]
# priority = "low|normal|high"            # listed values; any other leaves as "other"
# "channel?" = "mail|web|*rest"           # may be null; any other leaves as "rest"
# amount = "0.00..500.00 by 25"           # numbers in bins, with two decimals
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
    about: Annotated[int | None, promises(metavar="N", help="About how many there are, for a corpus.")] = None,
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
    wanted = Needs(given(needs, "Readers need a corpus, a table, numbers, or texts", _require_needs, Needs.CORPUS))
    of_corpus = {"--author-field": author_field, "--labels": labels, "--about": about}
    wrong = {"--task": task} if wanted is not Needs.TEXTS else of_corpus
    if wanted is not Needs.TABLE and columns:
        wrong["--column"] = columns[0]
    if given_wrongly := [name for name, value in wrong.items() if value is not None]:
        raise ConfigError(f"Expected no {given_wrongly[0]} with --for {wanted}: it asks for something else.")
    found = _surveyed(source, text=text_field, record=record_of(record, source), sheet=sheet)
    if found.record == Portion.FILE and not source.is_dir():
        say(f"Warning: {source} is one record. Name its folder for a corpus of files, or split it: --record line.")
    text_field = text_field or text_field_of(found)
    kept = "" if wanted is not Needs.TEXTS else " that is to leave, privatized too"
    label_field = given(
        label_field,
        f"The field of a label{kept} (empty: none)",
        lambda told: require_field(found, told, "--label-field"),
    )
    named = given(
        None if public is None else str(public),
        "A file of public texts of the same kind, with the same fields (empty: none)",
        lambda told: require_public(told, source),
    )
    begun = InitFiles.of(
        source, found, text_field, label_field, Path(named) if named else None, sheet, public_text_field,
        public_label_field, public_record, wanted=wanted,
    )  # fmt: skip
    if wanted is Needs.TEXTS:
        _each_text(begun, unit, epsilon, task or "meaning", force=force)
        return
    if begun.public is None:
        raise ConfigError("Expected public texts of the same kind, from which a corpus is written: --public FILE.")
    answers = ask(
        found, label_field, begun.labels, unit=unit, author_field=author_field, epsilon=epsilon, about=about,
        labels=labels, columns=tuple(columns or _declared_before()) if wanted is Needs.TABLE else (),
    )  # fmt: skip
    _corpus(begun, answers, wanted, about, force=force)


@dataclass(frozen=True, slots=True)
class InitFiles:
    """What is known of both files, or folders.

    Attributes:
        source, found: the private file, and what is in it.
        label_field: the column of the labels; empty without labels.
        public: the public file.
        known: its records.
        form: options by which it is read, and that are not written down.
        fields: options that are written down, by their names.
        others: those of the public file.
    """

    source: Path
    found: Survey
    text_field: str
    label_field: str
    public: Path | None
    known: list[Record]
    form: list[str]
    fields: dict[str, Json]
    others: dict[str, Json]

    @classmethod
    def of(
        cls, source: Path, found: Survey, text_field: str, label_field: str, public: Path | None, sheet: str | None,
        public_text_field: str | None, public_label_field: str | None, public_record: str | None, *, wanted: Needs,
    ) -> InitFiles:  # fmt: skip
        """Read the public file."""
        known: list[Record] = []
        form: list[str] = []
        fields: dict[str, Json] = {"text-field": text_field}
        fields |= {name: each for name, each in (("record", found.record), ("sheet", sheet)) if each}
        if public is not None:
            public_record = record_of(public_record or found.record, public)
            label: str | None = public_label_field or label_field
            known, like = _public(public, public_text_field or text_field, label, public_record, sheet, wanted)
            if wanted is not Needs.TEXTS and found.format is like.format:
                _require_alike(found, like)
            fields |= form_of(like, found.format, public_text_field or text_field)
            form = form_options(like, {"record": public_record, **fields})
            form += options.as_typed(on_error="skip" if like.bad else None)
        others = {"public-text-field": public_text_field, "public-record": public_record}
        others |= {"public-label-field": public_label_field}
        said: dict[str, Json] = {name: value for name, value in others.items() if value is not None}
        return cls(source, found, text_field, label_field, public, known, form, fields, said)

    @property
    def labels(self) -> list[str]:
        """The labels of the public texts, if they have some. Labels of the private texts are private."""
        return sorted({record.label for record in self.known if record.label is not None})

    @property
    def stem(self) -> str:
        """The name of the private file without its endings."""
        return self.source.name.partition(".")[0]

    def suggested(self, fields: dict[str, Json]) -> str:
        """Return what the private file suggests besides what is written, and how to decide it."""
        column = self.found.columns.get(self.text_field, Column())
        found = [each for each in stated_options(self.found, column) if each.removeprefix("--") not in fields]
        if not found and not form_options(self.found, fields):
            return ""
        said = f" {self.source} also suggests {' '.join(found)}." if found else ""
        return f"\n{NOT_PROTECTED}{said}\n{NOT_BY_TEXTS}"


def _corpus(begun: InitFiles, answers: CorpusAnswers, wanted: Needs, about: int | None, *, force: bool) -> None:
    """Write the settings of a summary, and say what to type."""
    fields = {**begun.fields, **begun.others, "public": str(begun.public)}
    fields |= {"label-field": begun.label_field} if begun.label_field else {}
    fields |= {"author-field": answers.author_field} if answers.author_field else {}
    measured: dict[str, Json] = {"columns": [*column_lines([*answers.columns])]} if answers.columns else {}
    chosen = answers.settings
    promised = synthesis_from_settings({"kind": "summary", **chosen, **measured})
    if answers.of_topics:
        promised = fitting_topics(promised, ())
        chosen |= {"topics": settings(promised)["topics"]}
    kept = Fields(
        begun.text_field, label=begun.label_field or None, author=answers.author_field or None,
        measured=promised.measured_fields,
    )  # fmt: skip
    for name in kept.measured:
        require_field(begun.found, name, "--column")
    examples = ""
    if wanted is Needs.TABLE and not answers.columns:
        beside = [name for name in begun.found.columns if name not in (kept.text, kept.label, kept.author)]
        examples = _EXAMPLES.format(there=f"Beside the texts, {begun.source} has {listed(beside)}.")
    _write(fields, "summary", chosen, answers.columns, examples, force=force)
    summary = begun.source.with_name(f"{begun.stem}.summary")
    _say(answers.why(corpus=wanted is not Needs.NUMBERS), promised.guarantee())
    if examples:
        print(_COLUMNS.format(path=begun.source, file=FILE))
    if about is None:
        print(f"About {answers.about:,} {answers.unit.value}s are assumed: --about N says otherwise.")
    print(f"Written: {FILE}. Next{', once columns are declared' if examples else ''}:")
    own = [*form_options(begun.found, fields), *begun.form]
    print(f"  {shlex.join(['dptext', 'summarize', str(begun.source), str(summary), *own])}")
    print(f"  {shlex.join(['dptext', 'summary', 'show', str(summary)])}")
    if wanted is not Needs.NUMBERS:
        out = begun.source.with_name(f"{begun.stem}.written.csv")
        print(f"  {shlex.join(['dptext', 'write', str(summary), str(out)])}")
    print(begun.suggested(fields), end="\n" if begun.suggested(fields) else "")


def _each_text(begun: InitFiles, unit: str | None, epsilon: float | None, task: str, *, force: bool) -> None:
    """Write the settings of a mechanism, and say what to type."""
    wanted = Unit(given(unit, "Protect each document or each token", _require_unit, Unit.DOCUMENT))
    limit = float(
        given(None if epsilon is None else str(epsilon), "The largest epsilon for each", require_epsilon, "10")
    )
    labels = _labels(begun.labels, begun.label_field) if begun.known and begun.label_field else []
    chosen, why = mechanism_for(Asked(wanted, limit, 1e-3, task), labels, n_public=len(begun.known))
    spec = spec_from_settings(chosen)
    learns = spec.traits.learns is not Learns.NOTHING
    fields = dict(begun.fields)
    if labels and spec.traits.releases_labels:
        fields["label-field"] = begun.label_field
    if learns:
        fields |= {**begun.others, "public": str(begun.public), "model": f"{begun.stem}.model"}
    _write(fields, "mechanism", chosen, force=force)
    _say(why, spec.guarantee(spec.units[-1] if wanted is Unit.DOCUMENT else spec.units[0]))
    print(f"Written: {FILE}. Next:")
    if learns:
        print(f"  {shlex.join(['dptext', 'fit', *begun.form])}")
    out = begun.source.with_name(f"{begun.stem}.private{'' if begun.source.is_dir() else '.jsonl'}")
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


def _say(why: str, promised: Guarantee) -> None:
    print(f"{why}\n{promised.sentence()}\n{by_law(promised)}\n")


def _surveyed(source: Path, **how: Any) -> Survey:
    if not source.is_dir():
        return survey(source, **how)
    from dptext.batch.contents import survey_dataset  # folders alone need it

    return survey_dataset(str(source), **how)


def _require_needs(told: str) -> None:
    options.member(Needs, "--for", told)


def _require_unit(told: str) -> None:
    if options.member(Unit, "--unit", told) not in (Unit.DOCUMENT, Unit.TOKEN):
        raise ConfigError(
            f"Expected --unit document or token, found {told!r}. All texts of an author are protected by dptext "
            "privatize --author-field NAME --max-per-author N, and by dptext synthesize --set unit=author."
        )


def _public(
    public: Path, text_field: str, label_field: str | None, record: str | None, sheet: str | None, wanted: Needs
) -> tuple[list[Record], Survey]:
    sheet = sheet if public.is_dir() or file_format(public, None) is Format.XLSX else None
    found = _surveyed(public, text=text_field, record=record, sheet=sheet)
    layout = options.Layout(
        text_field, delimiter=found.delimiter, encoding=found.encoding, record=found.record, sheet=sheet,
        empty_nulls=True, on_error="skip" if found.bad else "stop",
    )  # fmt: skip
    if label_field and label_field not in found.columns:
        if wanted is Needs.TEXTS:
            raise ConfigError(
                f"Expected the field {label_field!r} in {public}, whose labels the mechanism learns: name it with "
                "--public-label-field, or leave --label-field out."
            )
        label_field = None  # the pool of a corpus needs no labels
    return layout.read_public(public, label=label_field or None), found


def form_of(public: Survey, private: Format, text_field: str) -> dict[str, Json]:
    """Return the options by which both files are read, from the public file.

    A delimiter and an encoding are among them only if both files have the public file's format.
    """
    column = public.columns.get(text_field, Column())
    form = {"delimiter": public.delimiter, "encoding": public.encoding} if public.format is private else {}
    usual = (None, False, "\t" if public.format is Format.TSV else ",", "utf-8")
    said: dict[str, Json] = {**form, "empty-nulls": bool(column.nulls), "strip-html": bool(column.tags)}
    return {name: value for name, value in said.items() if value not in usual}


def _require_alike(private: Survey, public: Survey) -> None:
    """Raise ConfigError unless `summarize` can read both files by one delimiter.

    Their encodings may differ: which one a file has is guessed from its texts.
    """
    one, other = private.delimiter, public.delimiter
    if None not in (one, other) and one != other:
        raise ConfigError(
            f"Expected both files to have one delimiter, as --delimiter is of both: found {one!r} in {private.path} "
            f"and {other!r} in {public.path}. Save one of them anew."
        )


def _labels(labels: Sequence[str], label_field: str) -> list[str]:
    if not 1 < len(labels) <= _MOST_LABELS:
        raise ConfigError(
            f"Expected {label_field!r} of the public texts to hold 2 to {_MOST_LABELS} labels, found {len(labels)}. "
            "Name another field, or leave it out."
        )
    return [*labels]
