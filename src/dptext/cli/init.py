"""`dptext init`: a few questions, a recommendation in words, and the `dptext.toml` that `fit` and `privatize` read."""

import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from dptext.cli import options
from dptext.cli.answers import TAKE_NONE, by_law
from dptext.cli.app import FILE
from dptext.cli.check import NOT_BY_TEXTS, NOT_PROTECTED, form_options, stated_options
from dptext.cli.grouped import promises
from dptext.cli.terminal import say
from dptext.doors import absent
from dptext.errors import ConfigError
from dptext.mechanism import Learns
from dptext.privacy.guarantee import Unit
from dptext.recommend.measured import KeptRow
from dptext.recommend.recommendation import Asked, recommendations
from dptext.recommend.tables import read_measured
from dptext.registry import MECHANISMS
from dptext.runs.specs import settings_to_toml, spec_from_settings
from dptext.text.files import Target, sha256_of
from dptext.text.formats import Format, file_format
from dptext.text.lines import listed
from dptext.text.plain_text import Portion
from dptext.text.records import TEXT_FIELD, Record
from dptext.text.survey import Survey, survey
from dptext.text.surveyed import Column
from dptext.types import Json

_WORDS = "word_metric"  # the mechanism that needs no public text
_MOST_LABELS = 50
_ENOUGH_TO_TRAIN = 1000  # texts; a network that is trained on fewer writes poor texts


def init(
    source: Annotated[Path, options.file_argument(metavar="FILE", help="The private texts. None of them is shown.")],
    text_field: options.TextFieldOption = None,
    record: options.RecordOption = None,
    sheet: options.SheetOption = None,
    label_field: options.LabelFieldOption = None,
    public: options.PublicOption = None,
    public_text_field: options.PublicTextFieldOption = None,
    public_label_field: options.PublicLabelFieldOption = None,
    public_record: options.PublicRecordOption = None,
    unit: Annotated[str | None, promises(help="What one epsilon protects: token or document.")] = None,
    epsilon: Annotated[float | None, promises(help="Largest epsilon of a release.")] = None,
    task: Annotated[str, promises(help="Use of the releases: classification, meaning or authorship.")] = "meaning",
    force: options.ForceOption = False,
) -> None:
    Target(FILE, force).check()
    found = survey(source, text=text_field, record=_record(record, source), sheet=sheet)
    text_field = text_field or text_field_of(found)
    label_field = _given(
        label_field,
        "The field of a label that is to leave, privatized too (empty: none)",
        lambda told: _require_field(found, told, "--label-field"),
    )
    named = _given(
        None if public is None else str(public),
        "A file of public texts of the same kind, with the same fields (empty: none)",
        lambda told: _require_public(told, source),
    )
    public = Path(named) if named else None
    wanted = Unit(_given(unit, "Protect each document or each token", _require_unit, Unit.DOCUMENT))
    limit = float(
        _given(None if epsilon is None else str(epsilon), "The largest epsilon for each", _require_epsilon, "10")
    )
    known: list[Record] = []
    form: list[str] = []
    fields: dict[str, Json] = {"text-field": text_field}
    fields |= {name: each for name, each in (("record", found.record), ("sheet", sheet)) if each}
    if public is not None:
        names = public_text_field or text_field, public_label_field or label_field
        public_record = _record(public_record or record, public)
        known, like = _public(public, *names, public_record, sheet)
        fields |= form_of(like, found.format, names[0])
        form = form_options(like, {"record": public_record, **fields})
        form += options.as_typed(on_error="skip" if like.bad else None)
    labels = _labels(known, label_field)
    settings, why = _mechanism(Asked(wanted, limit, 1e-3, task), labels, n_public=len(known))
    spec = spec_from_settings(settings)
    learns = spec.traits.learns is not Learns.NOTHING
    if labels and spec.traits.releases_labels:
        fields["label-field"] = label_field
    others = {"public-text-field": public_text_field, "public-label-field": public_label_field}
    others |= {"public-record": public_record}
    if learns:
        fields |= {name: value for name, value in others.items() if value is not None}
        fields |= {"public": str(public), "model": f"{source.name.partition('.')[0]}.model"}
    Target(FILE, force).write(settings_to_toml({**fields, "mechanism": settings}).encode())
    promised = spec.guarantee(spec.units[-1] if wanted is Unit.DOCUMENT else spec.units[0])
    print(f"{why}\n{promised.sentence()}\n{by_law(promised)}\n")
    print(f"Written: {FILE}. Next:")
    if learns:
        print(f"  {shlex.join(['dptext', 'fit', *form])}")
    out = source.with_name(f"{source.name.partition('.')[0]}.private.jsonl")
    own = form_options(found, fields)
    print(f"  {shlex.join(['dptext', 'privatize', str(source), str(out), *own])}\n  dptext explain {out}")
    column = found.columns.get(text_field, Column())
    suggested = [each for each in stated_options(found, column) if each.removeprefix("--") not in fields]
    if own or suggested:
        said = f" {source} also suggests {' '.join(suggested)}." if suggested else ""
        print(f"\n{NOT_PROTECTED}{said}\n{NOT_BY_TEXTS}")


def text_field_of(found: Survey) -> str:
    """Return the field `text`, or the user's answer. The field with the longest texts is shown, but never chosen."""
    there = TEXT_FIELD if TEXT_FIELD in found.columns else ""

    def require(told: str) -> None:
        if told:
            _require_field(found, told, "--text-field")

    longest = f" (the longest texts are in {found.text!r})" if found.named and found.text else ""
    names = listed(list(found.columns)) if found.named else "no names that can be shown"
    answer = _asked(f"The field of the text, of {names}{longest}", there, require)
    if not answer:
        raise ConfigError(f"Expected --text-field NAME with {found.path}, found {names}{longest}.")
    return answer


def _given(told: str | None, question: str, require: Callable[[str], None], default: str = "") -> str:
    """Return the value of an option, or else the first answer that passes the check. ConfigError: the option fails."""
    if told is None:
        return _asked(question, default, require)
    require(told)
    return told


def _require_field(found: Survey, told: str, option: str) -> None:
    if told and found.columns and told not in found.columns:
        names = f"found {listed(list(found.columns))}" if found.named else "which has no such field"
        raise ConfigError(f"Expected {option} {told!r} to be a field of {found.path}, {names}.")


def _require_public(told: str, source: Path) -> None:
    if not told:
        return
    path = Path(told)
    try:
        same = sha256_of(path) == sha256_of(source)
    except OSError as error:
        raise ConfigError(f"Cannot read the public file {path}: {error.strerror}. Name another one.") from None
    if same:
        raise ConfigError("Expected public texts, found the private file itself: its texts would leave as they are.")


def _require_unit(told: str) -> None:
    if options.member(Unit, "--unit", told) not in (Unit.DOCUMENT, Unit.TOKEN):
        raise ConfigError(
            f"Expected --unit document or token, found {told!r}. All texts of an author are protected by dptext "
            "privatize --author-field NAME --max-per-author N, and by dptext synthesize --set unit=author."
        )


def _require_epsilon(told: str) -> None:
    try:
        number = float(told)
    except ValueError:
        number = math.nan
    if not (0 < number < math.inf):
        raise ConfigError(f"Expected a number above 0 for epsilon, such as 1 or 0.5, found {told!r}.")


def _asked(question: str, default: str, require: Callable[[str], None] = lambda _: None) -> str:
    """Return the first answer that passes the check, with the fault of others shown. The default without a terminal."""
    if not sys.stdin.isatty():
        return default

    def checked(answer: str) -> str:
        try:
            require(answer.strip())
        except ConfigError as error:
            raise typer.BadParameter(str(error)) from None  # click shows the message and asks again
        return answer.strip()

    ask: Callable[..., str] = typer.prompt
    try:
        return ask(question, default=default, show_default=bool(default), err=True, value_proc=checked)
    except typer.Abort:
        raise ConfigError(
            "Expected an answer, found the end of the input. Nothing is written. Options give answers, too: "
            "dptext init --help."
        ) from None


def _record(named: str | None, path: Path) -> str | None:
    """Return the portion of plain text that is one record, as the user says. None for a file with rows."""
    if file_format(path, None) is not Format.TEXT:
        return None
    named = named or _asked(f"One record of {path} is the file, a line, or a block of lines between blank ones", "")
    return None if not named else options.member(Portion, "--record", named)


def _public(
    public: Path, text_field: str, label_field: str, record: str | None, sheet: str | None
) -> tuple[list[Record], Survey]:
    sheet = sheet if file_format(public, None) is Format.XLSX else None
    found = survey(public, text=text_field, record=record, sheet=sheet)
    on_error = "skip" if found.bad else "stop"
    layout = options.Layout(
        text_field,
        delimiter=found.delimiter,
        encoding=found.encoding,
        record=found.record,
        sheet=sheet,
        empty_nulls=True,
        on_error=on_error,
    )
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


def _labels(public: Sequence[Record], label_field: str) -> list[str]:
    """Return the labels of the public texts. Labels of the private texts are private."""
    if not public or not label_field:
        return []
    labels = sorted({record.label for record in public if record.label is not None})
    if not 1 < len(labels) <= _MOST_LABELS:
        raise ConfigError(
            f"Expected {label_field!r} of the public texts to hold 2 to {_MOST_LABELS} labels, found {len(labels)}. "
            "Name another field, or leave it out."
        )
    return labels


def _mechanism(asked: Asked, labels: list[str], *, n_public: int) -> tuple[dict[str, Json], str]:
    price = f"epsilon {asked.epsilon:g} per {asked.unit}"
    if not n_public or asked.unit is Unit.TOKEN:
        if asked.unit is not Unit.TOKEN:
            raise ConfigError(
                "Expected public texts of the same kind: every mechanism that protects a whole document learns from "
                "them. Name a file with --public, or protect single words with --unit token."
            )
        return {"kind": _WORDS, "epsilon": asked.epsilon}, f"Take {_WORDS}: it blurs each word at {price} of distance."
    answers = [each for each in recommendations(_installed(read_measured(None).rows), asked) if each.qualified]
    best, free = [each.qualified[0].row for each in answers], [each.corpus for each in answers if each.is_free]
    trained = {kind for kind, cls in MECHANISMS.usable().items() if cls.tiny()[0].traits.trains}
    able = MECHANISMS.usable().keys() - (trained if n_public < _ENOUGH_TO_TRAIN else ())
    usable = [row.kind for row in best if row.kind in able]
    kind, n = Counter(usable).most_common(1)[0] if usable else ("candidates", 0)
    settings: dict[str, Json] = {"kind": kind, "epsilon": asked.epsilon}
    if labels and any(spec.traits.releases_labels for spec in MECHANISMS.usable()[kind].tiny()):
        settings["labels"] = list(labels)
    if not n:
        return settings, (
            f"Nothing measured is worth taking for {asked.task} at {price}. {kind} is the first to try; a larger "
            "epsilon keeps more."
        )
    if len(free) == len(answers):
        return settings, (
            f"{TAKE_NONE} At {price} nothing that was measured teaches more than they do for {asked.task}, on "
            f"{', '.join(free)}. {kind} is written down for whoever needs each text."
        )
    return settings, f"Take {kind}: at {price} it measured best for {asked.task} on {n} of our corpora."


def _installed(rows: Sequence[KeptRow]) -> list[KeptRow]:
    """Return the rows of references and of installed mechanisms, and say how many mechanisms are left out."""
    if left := sorted({row.kind for row in rows} - {"", *MECHANISMS}):
        said = f"{len(left)} measured mechanisms are not installed and left out, such as {left[0]}."
        say(f"{said}{absent(MECHANISMS.group, left[0])}")
    return [row for row in rows if row.kind not in left]
