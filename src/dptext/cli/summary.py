"""`dptext summary`: print a summary, and add summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten, wrap
from typing import Annotated, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.corpus_answers import files_of, next_of_summary
from dptext.cli.grouped import promises
from dptext.cli.write import WHERE
from dptext.errors import ConfigError
from dptext.runs import summarizing
from dptext.runs.certificate import certificate_path
from dptext.runs.synthesized import paths_of
from dptext.synthesis.agreement import Estimated
from dptext.synthesis.label_words import LabelWords
from dptext.synthesis.report import Topics
from dptext.text.files import Target, refuse_inputs

_WIDTH: Final = 80  # columns of a screen
_HEIGHT: Final = 39  # lines of a screen above the next prompt
_HEAD: Final = 2  # lines before the tables at most
_FEWEST: Final = 3  # rows of a table, however long the warnings are
_PAIRS: Final = 3  # lines on the pairs that are measured, at most
_NAME: Final = 40  # columns of a name at most


def show(summary: WHERE, *, as_json: options.JsonOption = False) -> None:
    found, certificate, _ = summarizing.read_summary(summary)
    report = found.report
    if as_json:
        print(json.dumps({**json.loads(certificate.to_json()), "report": report.to_dict()}, indent=2))
        return
    bare = () if found.public.has_pool else (f"Writing needs --public POOL: {found.public.pool_named}.",)
    note = () if report.unit == "document" else (report.note,)  # the numbers count no authors
    said = [*_wrapped(certificate.guarantees[-1].sentence(), *report.warnings, *note, *bare), ""]
    following = next_of_summary(summary, found, show=False)
    room = _HEIGHT - len(said) - 1 - -(-len(following) // _WIDTH)
    pairs = wrap(found.spec.pairs_named, _WIDTH) if found.spec.axes.columns else []
    means = wrap(found.spec.means_moved, _WIDTH)
    short = pairs if len(pairs) <= _PAIRS else [*pairs[: _PAIRS - 1], shorten(pairs[_PAIRS - 1], _WIDTH - 4) + " ..."]
    print("\n".join([*said, *_lines(report, room, [*short, *means]), "", following]))


def _lines(report: Topics, room: int, pairs: Sequence[str] = ()) -> list[str]:
    """Return lines for a screen with this room: labels, their words, and topics, each largest first.

    `pairs` are lines on the pairs of columns that are measured.
    """
    known, words, names = report.estimates, report.words, list(report.shown or ("all texts",))
    topics = [", ".join(each[:4]) for each, _ in report.topics]
    order = (known.by_label if report.labels else known.whole).largest(len(names))[0]
    telling = [i for i in order if words is not None and words.words[i]]
    mute = [names[i] for i in order if words is not None and i not in telling]
    long = report.lengths.names if report.lengths is not None else ()
    tables = {"labels": len(report.labels), "words": len(telling), "topics": len(topics), "lengths": len(long)}
    tables |= {f"column {column.name}": len(column.cells) for column in report.columns}
    room -= len(report.columns) + bool(report.followed) + len(pairs)
    room -= _HEAD + (words is not None) + bool(telling) + bool(mute) + bool(topics) + bool(long)
    kept = _divided({name: n for name, n in tables.items() if n}, room)
    chosen = bool(telling) or any(kept.get(name, 0) < tables[name] for name in ("labels", "topics", "lengths"))
    sure = "; those of words and of cut lists in 95% of those shown" if chosen else ""
    lines = _wrapped(f"{report.in_all} Intervals hold in 95%{sure}.")
    if report.labels:
        lines += _table("labels", names, known.by_label, kept["labels"])
    if words is not None:
        lines += ["Words more frequent than in public text:", *([report.of_words] if telling else [])]
        deep = 2 if len(names) + 2 * len(telling) + len(topics) <= room else 1
        said = [line for i in telling for line in _words(names[i], words, i, max(map(len, names)))[:deep]]
        most = len(said) if deep > 1 or len(said) <= kept.get("words", 0) else kept["words"] - 1
        lines += [*said[:most], *_left(len(said) - most, "labels")]
        none = f"none beyond the noise: {', '.join(mute)}"
        lines += ["  " + shorten(none, _WIDTH - 2, placeholder=" ...")] if mute else []
    if topics:
        lines += ["Topics, largest first:", *_table("topics", topics, known.by_topic, kept["topics"])]
    for column, found in zip(report.columns, report.by_column, strict=True):
        own = _table("values", column.cells, found, kept[f"column {column.name}"], in_order=column.in_order)
        lines += [f"Column {column.name}:", *own]
    if report.followed:
        each = f"Beyond noise: {'; '.join(f'{two} follows {one}' for one, two in report.followed)}."
        lines.append(shorten(each, _WIDTH, placeholder=" ..."))
    lines += pairs
    if (by_length := report.by_length) is not None:
        lines += ["Lengths:", *_table("lengths", long, by_length, kept["lengths"], in_order=True)]
    return lines


def _divided(rows: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the number of lines of each table with so many rows: short tables leave their rest to the others."""
    found: dict[str, int] = {}
    for i, (name, n) in enumerate(sorted(rows.items(), key=lambda each: each[1])):
        found[name] = min(n, max(_FEWEST, room // (len(rows) - i)))
        room -= found[name]
    return found


def _table(what: str, names: Sequence[str], known: Estimated, room: int, *, in_order: bool = False) -> list[str]:
    """Return a row for each name, largest number first or `in_order`: name, and number with its interval."""
    places, sure = known.largest(len(names) if len(names) <= room else room - 1)
    places = sorted(places) if in_order else places
    numbers = [sure.shown(i) for i in places]
    width = min(_NAME, _WIDTH - max(map(len, numbers)) - 5, max(map(len, names)))
    rows = [f"  {_name(names[i], width)}  {number}" for i, number in zip(places, numbers, strict=True)]
    return [*rows, *_left(len(names) - len(rows), what)]


def _words(name: str, words: LabelWords, label: int, width: int) -> list[str]:
    """Return lines of the words of a label, with their numbers and intervals."""
    lines = [f"  {_name(name, min(_NAME // 2, width))} "]
    indent = " " * len(lines[0])
    for word, n, _ in words.words[label]:
        more = f" {_cut(word, _NAME // 2)}: {words.shown(n)},"
        if len(lines[-1] + more) > _WIDTH + 1:  # the last comma is taken off
            lines.append(indent)
        lines[-1] += more
    return [line.removesuffix(",") for line in lines]


def _name(name: str, width: int) -> str:
    """Return a name with a colon, which sets a name that is a number apart from the numbers, in `width` + 1 columns."""
    return f"{_cut(name, width)}:".ljust(width + 1)


def _cut(name: str, width: int) -> str:
    """Return a name in `width` columns: whole words, or the beginning of the first."""
    found = shorten(name, width, placeholder="...")
    return found if found != "..." else f"{name[: width - 3]}..."


def _left(n: int, what: str) -> list[str]:
    """Return a line that says how many more rows there are; none if all are shown."""
    return [f"  and {n:,} more {what}: see --json, or the page"] if n else []


def _wrapped(*said: str) -> list[str]:
    return [line for each in said for line in wrap(each, _WIDTH)]


def add(
    paths: Annotated[
        list[Path], Argument(metavar="A B ... OUT", parser=options.output_path, help="The summaries, then their sum.")
    ],
    *,
    disjoint: Annotated[
        bool,
        promises("--disjoint", help="Nobody is in two of the corpora: each person keeps the guarantee of one summary."),
    ] = False,
    force: options.ForceOption = False,
) -> None:
    *inputs, target = paths
    if len(inputs) < 2:
        raise ConfigError("Expected at least two summaries and the file of their sum: A.summary B.summary OUT.summary.")
    read = [path for each in inputs for path in (each, certificate_path(each))]
    for path in paths_of(target):
        refuse_inputs(path, read)
        Target(path, force, tuple(read), private=False).check()
    found = summarizing.add(*inputs, disjoint=disjoint)
    certificate = found.write(target, force=force)
    print("\n".join([found.guarantees[-1].sentence(), *found.sentences, "", certificate.explain()]))
    print(f"\nWritten: {files_of(target)}. It cost nothing more.")
    if not disjoint:
        print("If no person is in more than one of them, --disjoint keeps the epsilon of one: you answer for that.")
    print(next_of_summary(target, found.summary))
