"""`dptext check`: what a file holds, and the command line that reads it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from dptext.cli.options import (
    DelimiterOption,
    EncodingOption,
    FormatOption,
    JsonOption,
    file_argument,
    member,
)
from dptext.text.formats import PACKED, READ_ONLY, Format
from dptext.text.survey import Column, Survey, survey
from dptext.types import Json

NOT_PROTECTED: Final = "These numbers are computed from private text and not protected: do not hand them on."
_MOST_COLUMNS: Final = 12  # on a screen
_NAMES: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def check(
    path: Annotated[Path, file_argument(metavar="FILE", help="Records, as of `privatize`.")],
    text_field: Annotated[
        str | None, typer.Option("--text-field", help="Field of the text; default: the one of the longest texts.")
    ] = None,
    input_format: FormatOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a file holds, without a text of it, and the command line that reads it.

    Raises:
        ConfigError: the file cannot be opened, or an option is wrong.
        DataError: it cannot be read.
    """
    kind = None if input_format is None else member(Format, "--format", input_format)
    found = survey(path, format=kind, delimiter=delimiter, encoding=encoding, text=text_field)
    options = _options(found, kind)
    if as_json:
        print(json.dumps(_data(found, options), indent=2))
        return
    print(
        "\n".join([_answer(found), NOT_PROTECTED, "", *_facts(found, encoding), "", *_table(found), *_cautions(found)])
    )
    for line in _commands(found, options):
        print(line)


def _name(found: Survey, place: int) -> str:
    return repr(list(found.columns)[place]) if found.named else f"column {place + 1}"


def _text(found: Survey) -> tuple[str, Column]:
    """The column of the texts, by the name that may be shown."""
    names = list(found.columns)
    place = names.index(found.text or names[0])
    return _name(found, place), found.columns[names[place]]


def _answer(found: Survey) -> str:
    name, column = _text(found)
    if found.text is None:
        return f"{found.path} holds {found.rows:,} rows, and no column of texts."
    head = f"{found.path} holds {found.rows:,} rows that can be read; the texts seem to be in {name}."
    if not found.named and found.format is not Format.TEXT:
        head += " Its first line does not look like names of columns, and is not shown: if it has none, add them."
    wants = [
        f"{column.nulls:,} texts are null (--empty-nulls)" if column.nulls else "",
        f"{_share(column.tags, column.rows)} hold HTML (--strip-html)" if column.tags else "",
        f"{found.bad:,} records cannot be read (first: {found.fault})" if found.bad else "",
    ]
    said = "; ".join(filter(None, wants))
    return f"{head} To decide: {said}." if said else head


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.1%}"


def _facts(found: Survey, named: str | None) -> list[str]:
    _, column = _text(found)
    parted = "" if found.delimiter is None else f", parted by {_NAMES.get(found.delimiter, repr(found.delimiter))}"
    encoding = "" if found.format in PACKED else f", {found.encoding or 'in no encoding that could be told'}"
    if encoding and named is None and found.encoding != "utf-8":
        encoding += " (a guess of charset-normalizer)"
    tagged = _share(column.tags, column.rows)
    return [
        f"File    {found.format}{parted}{encoding}",
        f"Texts   {column.rows:,}: {column.nulls:,} null, {column.empties:,} empty, {found.duplicates:,} repeated",
        f"        {tagged} with HTML tags; median {column.median:,} characters, largest {column.largest:,}",
    ]


def _table(found: Survey) -> list[str]:
    """A line for each column."""
    if found.format is Format.TEXT:
        return []
    rows = [("Column", "null", "empty", "distinct", "median", "largest", "could be")]
    for place, (name, column) in list(enumerate(found.columns.items()))[:_MOST_COLUMNS]:
        distinct = "each" if column.unique else "many" if column.distinct is None else f"{column.distinct:,}"
        numbers = (f"{column.nulls:,}", f"{column.empties:,}", distinct, f"{column.median:,}", f"{column.largest:,}")
        rows.append((_name(found, place), *numbers, found.could_be(name)))
    widths = [max(map(len, each)) for each in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [each.rjust(width) for each, width in zip(rest[:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells, rest[-1]]).rstrip())
    more = len(found.columns) - _MOST_COLUMNS
    return [*lines, *([f"and {more} more columns"] if more > 0 else []), ""]


def _cautions(found: Survey) -> list[str]:
    unique = [_name(found, place) for place, each in enumerate(found.columns.values()) if each.unique]
    _, text = _text(found)
    kept = [name for name in unique if name != _text(found)[0]]
    lines = []
    if kept:
        lines.append(f"Unique in each row, so not for --keep: {', '.join(kept[:_MOST_COLUMNS])}.")
    if found.encoding is None and found.format not in PACKED:
        lines.append("Some lines are in UTF-8 and others not: save the file anew, or skip these: --on-error skip.")
    if text.empties:
        lines.append("Empty texts are records like others: take them out if they mean nothing.")
    return [*lines, *([""] if lines else [])]


def _options(found: Survey, named: Format | None) -> list[str]:
    """The options that read the file."""
    _, column = _text(found)
    said: list[str] = []
    if named is not None:
        said += ["--format", str(named)]
    if found.delimiter not in (None, "\t" if found.format is Format.TSV else ","):
        said += ["--delimiter", str(found.delimiter).replace("\t", "\\t")]
    if found.encoding not in (None, "utf-8"):
        said += ["--encoding", str(found.encoding)]
    if found.format is not Format.TEXT and found.text not in (None, "text"):
        said += ["--text-field", str(found.text) if found.named else "NAME"]
    return [*said, *(["--empty-nulls"] if column.nulls else []), *(["--strip-html"] if column.tags else [])]


def _commands(found: Survey, options: list[str]) -> list[str]:
    path = found.path
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    ending = ".jsonl" if found.format in READ_ONLY or not plain.suffix else plain.suffix
    out = plain.with_name(f"{plain.stem}.private{ending}")
    skip = ["--on-error", "skip"] if found.bad else []
    return [
        "Public texts of the same kind (PUBLIC) make a model, which privatizes the file:",
        "  dptext fit --mechanism candidates --set epsilon=10 --public PUBLIC --out MODEL",
        f"  {shlex.join(['dptext', 'privatize', str(path), str(out), *options, *skip])} --model MODEL",
        "Which mechanism, and at which epsilon: dptext recommend",
    ]


def _data(found: Survey, options: list[str]) -> dict[str, Json]:
    columns: list[Json] = [
        {
            "name": name if found.named else None,
            "rows": column.rows,
            "nulls": column.nulls,
            "empties": column.empties,
            "distinct": column.distinct,
            "unique": column.unique,
            "median": column.median,
            "largest": column.largest,
            "with_tags": column.tags,
            "could_be": found.could_be(name),
        }
        for name, column in found.columns.items()
    ]
    said: list[Json] = list(options)
    return {
        "not_protected": NOT_PROTECTED,
        "format": str(found.format),
        "delimiter": found.delimiter,
        "encoding": found.encoding,
        "rows": found.rows,
        "bad": found.bad,
        "repeated": found.duplicates,
        "columns": columns,
        "options": said,
    }
