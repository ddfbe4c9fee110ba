"""`dptext check`: describe the contents of a file, and the command line that reads the file."""

import itertools
import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

from typer import Argument

from dptext._wording import plural
from dptext.cli import options
from dptext.cli.answers import by_law
from dptext.cli.app import config
from dptext.cli.asking import author_columns
from dptext.cli.grouped import reads
from dptext.cli.labels import without_label
from dptext.cli.many import is_dataset
from dptext.cli.terminal import counted_if_slow
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.runs.known_languages import of_private_texts
from dptext.text.formats import PACKED, Format
from dptext.text.plain_text import a_record
from dptext.text.reading import MAX_CHARACTERS
from dptext.text.survey import Survey, survey
from dptext.text.surveyed import LONG, Column
from dptext.types import Json

NOT_PROTECTED: Final = "These numbers are computed from private text and are not protected: do not share them."
NOT_BY_TEXTS: Final = """\
Decide by how the file was made, not by what its texts hold: such a choice would reveal something of the texts. Column,
delimiter and encoding are guesses from the texts; certificates state --empty-nulls, --strip-html, --on-error skip."""
_AGAIN: Final = (
    "Again  guarantees per document assume that no document stands in two records: leave repetitions "
    "out,\n       or protect all texts of an author together"
)
_EMPTY: Final = "Empty  a text like any other: candidates, for example, releases a public text for it"
_LONG: Final = """\
Long   Texts of the pool leave as long as they are: take public texts that are as long, and measure no words or lengths.
       A language model writes some 200 words at most. Of a longer text the encoder reads the first 256 word pieces."""
_AUTHORS: Final = "Who    {names} may name authors: --unit author --author-field NAME protects all texts of one"
_TOO_LONG: Final = f"       A text of more than {MAX_CHARACTERS:,} characters is refused: cut it, or --on-error skip."
_ONE_FORM: Final = "       Commands take one --delimiter and one --encoding for all files: save the others anew"
_MOST_COLUMNS: Final = 12  # most columns on a screen
_LEAST_SHARE: Final = 0.001  # that is shown as a number
_DECLARED: Final = (
    "Columns for dptext summarize. What you list is released: take out values that you would not know without this "
    "file:"
)
_HEADINGS: Final = ("null", "empty", "distinct", "median", "largest", "unique", "could be")
_NAMES: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def check(
    path: Annotated[
        str,
        Argument(
            metavar="FILE",
            parser=options.place,
            help="The records, in any format that `privatize` reads: a file, a folder, a glob or a URL.",
        ),
    ],
    text_field: Annotated[
        str | None, reads(metavar="NAME", help="Field of the text. Default: the field with the longest texts.")
    ] = None,
    input_format: options.FormatOption = None,
    delimiter: options.DelimiterOption = None,
    encoding: options.EncodingOption = None,
    record: options.RecordOption = None,
    sheet: options.SheetOption = None,
    id_field: Annotated[
        str | None, reads("--id-field", metavar="NAME", help="Field of the ids. Default: none is checked.")
    ] = None,
    label_field: options.LabelFieldOption = None,
    label: Annotated[
        list[str] | None, reads(metavar="NAME", help="A public label. Repeatable. Default: the labels of dptext.toml.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    kind = None if input_format is None else options.member(Format, "--format", input_format)
    if label and label_field is None:
        raise ConfigError("Expected --label-field NAME with --label: the field whose labels are looked at.")
    labels = tuple(label or _written_labels())
    how: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "record": record, "sheet": sheet}
    how |= {"format": kind, "text": text_field, "id": id_field, "label": label_field, "labels": labels}
    found = _surveyed(path, language=True, **how)
    typed = [*_options(found, kind), *options.as_typed(sheet=sheet)]
    if as_json:
        print(json.dumps(_data(found, typed, label_field), indent=2))
        return
    table = [] if found.format is Format.TEXT else [*_table(found), ""]
    asked = [] if label_field is None else ["--label-field", label_field]
    told = _labels(found, label_field, labels)
    lines = [_answer(found, path), NOT_PROTECTED, *told, "", *_facts(found, encoding), "", *table]
    lines += [*_commands(found, path, typed, asked, label or ()), *_proposed(found, label_field)]
    print("\n".join(lines))


def _surveyed(source: str, **how: Any) -> Survey:
    with counted_if_slow("reading", "rows") as tell:
        how |= {"on_rows": lambda n: tell(n, None)}
        if not is_dataset(source):
            return survey(options.named(options.file_path, source, "FILE"), **how)
        from dptext.batch.contents import survey_dataset

        return survey_dataset(source, **how)


def _written_labels() -> Sequence[str]:
    found = config().mechanism.get("labels") or config().summary.get("labels")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _labels(found: Survey, field: str | None, labels: Sequence[str]) -> list[str]:
    """Say how many records have a label, or a label of the public set if the set is known."""
    if found.labelled is None:
        return []
    n_records = found.rows + found.bad
    if labels and found.labelled < n_records:
        return [without_label(n_records, found.labelled, len(labels), field)]
    known = f"one of the {len(labels)} public labels" if labels else "a label"
    return [f"{found.labelled:,} of {n_records:,} records have {known} in the field {field!r}."]


def _name(found: Survey, name: str) -> str:
    return repr(name) if found.named else f"column {list(found.columns).index(name) + 1}"


def _answer(found: Survey, source: str) -> str:
    if found.text is None:
        return f"{source} holds {plural(found.rows, 'row')}, and no column of texts."
    column = found.texts
    wants = [
        f"{plural(column.nulls, 'text')} null (--empty-nulls)" if column.nulls else "",
        f"{_share(column)} hold HTML (--strip-html)" if column.tags else "",
        f"{plural(found.duplicates, 'text')} repeated (see Again)" if found.duplicates else "",
        f"{plural(column.long, 'text')} of more than {LONG:,} characters (see Long)" if column.long else "",
        f"{plural(found.bad, 'record')} unreadable (first: {found.fault}; --on-error skip)" if found.bad else "",
    ]
    said = "; ".join(filter(None, wants))
    nameless = not found.named and found.format is not Format.TEXT
    why = "Its first line does not look like names of columns, and is not shown: if it has none, add them."
    if found.doubled:
        why = f"{plural(len(found.doubled), 'name')} of its first line occur twice, so none is shown: rename them."
    return (
        f"{source} holds {plural(found.rows, 'row')} that can be read; the texts seem to be in "
        f"{_name(found, found.text)}." + f" {why}" * nameless + (f" To decide: {said}." if said else "")
    )


def _share(column: Column) -> str:
    share = column.tags / max(1, column.rows)
    return "under 0.1%" if share < _LEAST_SHARE else f"{share:.1%}"


def _facts(found: Survey, named: str | None) -> list[str]:
    column = found.texts
    apart = dict.fromkeys(part.delimiter for part in found.parts if part.delimiter is not None)
    parted = f", parted by {' or '.join(_NAMES.get(each, repr(each)) for each in apart)}" if apart else ""
    encodings = dict.fromkeys(part.encoding for part in found.parts if part.format not in PACKED)
    encoding = "".join(f", {each or 'some lines in UTF-8 and others not'}" for each in encodings)
    kinds = ", ".join(dict.fromkeys(part.kind for part in found.parts))
    several = f"{len(found.parts):,} files of " if len(found.parts) > 1 else ""
    guessed = " (a guess of charset-normalizer: look at a word with an accent)" * (
        named is None and found.encoding not in (None, "utf-8")
    )
    unique = [_name(found, name) for name, each in found.columns.items() if each.unique and name != found.text]
    kept = ", ".join(unique[:_MOST_COLUMNS])
    by_name = author_columns(found)
    authors = [_name(found, each) for each in found.columns if each in by_name or found.could_be(each) == "author"]
    return [
        f"File   {several}{kinds}{parted}{encoding}{guessed}; a record is {a_record(found.record)}",
        *([_ONE_FORM] if len(apart) > 1 or len(encodings) > 1 else []),
        *_hidden(found),
        f"Texts  {column.nulls:,} null, {column.empties:,} empty, {found.duplicates:,} repeated",
        f"       {_share(column)} with HTML tags; median {column.median:,} characters, largest {column.largest:,}",
        *_language(found),
        *([_EMPTY] if column.empties else []),
        *([_AGAIN] if found.duplicates else []),
        *([_LONG] if column.long else []),
        *([_TOO_LONG] if column.largest > MAX_CHARACTERS else []),
        *([f"Keep   not {kept} (--keep copies fields as they are): unique in each row"] if kept else []),
        *([_AUTHORS.format(names=", ".join(authors[:_MOST_COLUMNS]))] if authors else []),
    ]


def _language(found: Survey) -> list[str]:
    """Say which language most texts are in, and what to give if encoders and words that are at hand do not know it."""
    if found.language is None:
        return []
    said = of_private_texts(found.language) or found.language.name
    return textwrap.wrap(f"Lang.  {said}", 118, subsequent_indent=" " * 7)


def _hidden(found: Survey) -> list[str]:
    """Say which parts of the sheet are hidden or filtered out. They are read like the rest."""
    sheet = found.sheet
    if sheet is None:
        return []
    parts = (
        "the sheet" if sheet.hidden else "",
        plural(sheet.hidden_rows, "row") if sheet.hidden_rows else "",
        plural(sheet.hidden_columns, "column") if sheet.hidden_columns else "",
    )
    said = ", ".join(filter(None, parts))
    shown = f"Sheet  {sheet.name!r}"
    if not said:
        return [shown]
    return [f"{shown}; hidden or filtered out, and read like the rest: {said}. Delete what is not to be read"]


def _columns(found: Survey) -> dict[str, tuple[str | int | None, ...]]:
    return {
        name: (each.nulls, each.empties, each.distinct, each.median, each.largest, each.unique, found.could_be(name))
        for name, each in found.columns.items()
    }


def _table(found: Survey) -> list[str]:
    shown: dict[object, str] = {True: "yes", False: "", None: "many"}
    rows: list[tuple[str, ...]] = [("Column", *_HEADINGS)]
    for name, values in itertools.islice(_columns(found).items(), _MOST_COLUMNS):
        cells = (f"{each:,}" if type(each) is int else shown.get(each, str(each)) for each in values)
        rows.append((_name(found, name), *cells))
    widths = [max(map(len, each)) for each in zip(*rows, strict=True)]
    lines = [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, rest[:-1], widths[1:-1]), rest[-1]]).rstrip()
        for first, *rest in rows
    ]
    more = len(found.columns) - _MOST_COLUMNS
    return [*lines, *([f"and {plural(more, 'more column')}"] if more > 0 else [])]


def form_options(found: Survey, written: Mapping[str, Json] = MappingProxyType({})) -> list[str]:
    """Return the options for a delimiter and an encoding that are neither the defaults nor those in `written`."""
    delimiter = written.get("delimiter", "\t" if found.format is Format.TSV else ",")
    encoding = written.get("encoding", "utf-8")
    return options.as_typed(
        delimiter=None if found.delimiter in (None, delimiter) else str(found.delimiter).replace("\t", "\\t"),
        encoding=None if found.encoding == encoding else found.encoding,
        record=None if "record" in written else found.record,
    )


def stated_options(found: Survey, column: Column) -> list[str]:
    """Return the options that the contents of the texts may call for. Certificates state these options."""
    skip = "skip" if found.bad else None
    return options.as_typed(empty_nulls=bool(column.nulls), strip_html=bool(column.tags), on_error=skip)


def _options(found: Survey, named: Format | None) -> list[str]:
    typed = [] if named is None else ["--format", str(named)]
    typed += form_options(found)
    if found.format is not Format.TEXT and found.text not in (None, "text"):
        typed += ["--text-field", str(found.text) if found.named else "NAME"]
    return typed


def _proposed(found: Survey, label_field: str | None) -> list[str]:
    """Return options for the columns of a table, which the owner has to look at."""
    lines = [shlex.join(["--column", line]) for line in found.proposed([label_field])]
    if not lines:
        return []
    more = [f"  and {len(lines) - _MOST_COLUMNS:,} more: see --json"] if len(lines) > _MOST_COLUMNS else []
    return [_DECLARED, *(f"  {line}" for line in lines[:_MOST_COLUMNS]), *more]


def _beside(source: str, ending: str) -> Path:
    """Return the path of an output beside an input; an output of a glob or a URL lies in the current folder."""
    path = Path(source)
    stem = path.name.partition(".")[0]  # as `dptext init` names files
    if "://" in source or not stem or (is_dataset(source) and not path.is_dir()):
        return Path(("corpus" if not stem or any(sign in stem for sign in "*?[") else stem) + ending)
    return path.with_name(stem + ending)


def _commands(found: Survey, source: str, typed: list[str], asked: list[str], known: Sequence[str]) -> list[str]:
    """Return the commands to go on with. `asked` names the field of the labels, and `known` are public labels."""
    summary, out = _beside(source, ".summary"), _beside(source, ".written.csv")
    # The default encoder reads English alone.
    reads = " --encoder FOLDER" if found.language is not None and of_private_texts(found.language) else ""
    each = [] if is_dataset(source) else ["dptext", "init", source, "--for", "texts"]
    labels = shlex.join(["--labels", ",".join(known) or "A,B"])
    what = f"{labels} {shlex.join(asked)}" if asked else "--with topics"
    told = "A,B: the labels, as you know them without this file. " if asked and not known else ""
    more = "" if asked else _with_labels(found, labels)
    more += f" Each text by itself: {shlex.join(each)}" if each else ""
    public = f"--public PUBLIC{reads} {what} --epsilon 1 --about N"
    head = f"A corpus under one epsilon, from public texts of the same kind and form (PUBLIC). {told}"
    first = shlex.join(["dptext", "utility", "corpus", source, "PUBLIC", "--public", "PUBLIC", *asked, *typed])
    teach = "What a corpus could teach beside PUBLIC, for you alone and free:"
    return [
        *([f"{teach}\n  {first}{reads}"] if asked and not is_dataset(source) else []),
        f"{head}N: about how many texts, or authors with --unit author:",
        f"  {shlex.join(['dptext', 'summarize', source, str(summary)])} {public} {shlex.join(typed)}".rstrip(),
        f"  {shlex.join(['dptext', 'write', str(summary), str(out)])}",
        by_law(Guarantee(1.0, 1e-5, Unit.DOCUMENT, Relation.ADD_OR_REMOVE_ONE)),
        NOT_BY_TEXTS,
        *([more.strip()] if more else []),
    ]


def _with_labels(found: Survey, labels: str) -> str:
    """Say what to pass to measure labels, and which columns could hold some."""
    by_name = author_columns(found)
    named = [name for name in found.columns if found.could_be(name) == "label" and name not in by_name]
    named.sort(key=lambda name: found.columns[name].proposal.is_number)  # stars and grades are seldom what is asked for
    if not named or not found.named:
        return f"With labels: --label-field FIELD {labels}."
    could = ", ".join(_name(found, name) for name in named[:_MOST_COLUMNS])
    field = shlex.join(["--label-field", named[0]])
    instead = "in place of --with topics and of its --column (A,B: known without this file)."
    return f"{could} could hold labels: pass {field} {labels} {instead}"


def _data(found: Survey, typed: list[str], label_field: str | None) -> dict[str, object]:
    columns = [
        {"name": name if found.named else None, **dict(zip(_HEADINGS, values, strict=True))}
        for name, values in _columns(found).items()
    ]
    return {
        "not_protected": NOT_PROTECTED,
        "format": "arrow" if found.parts[0].saved else str(found.format),
        "files": len(found.parts),
        **{name: getattr(found, name) for name in ("delimiter", "encoding", "rows", "bad")},
        "sheet": None if found.sheet is None else asdict(found.sheet),
        "repeated": found.duplicates,
        "with_tags": found.texts.tags,
        "long": found.texts.long,
        "labelled": found.labelled,
        "record": a_record(found.record),
        "language": None if found.language is None else asdict(found.language),
        "fault": found.fault,
        "columns": columns,
        "declarations": found.proposed([label_field]),
        "options": typed,
        "to_decide": stated_options(found, found.texts),
    }
