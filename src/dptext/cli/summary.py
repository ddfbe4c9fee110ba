"""`dptext summary`: print a summary, and add summaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten, wrap
from typing import Annotated, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.grouped import promises
from dptext.cli.write import WHERE
from dptext.errors import ConfigError
from dptext.runs import summarizing
from dptext.runs.certificate import certificate_path
from dptext.runs.synthesized import paths_of
from dptext.synthesis.agreement import Estimated
from dptext.synthesis.report import LabelWords, Topics
from dptext.text.files import Target, refuse_inputs

_WIDTH: Final = 80  # columns of a screen
_HEIGHT: Final = 39  # lines of a screen above the next prompt
_FEWEST: Final = 3  # rows of a table, however long the warnings are
_NAME: Final = 40  # columns of a name at most


def show(summary: WHERE, *, as_json: options.JsonOption = False) -> None:
    found, certificate, _ = summarizing.read_summary(summary)
    report = found.report
    if as_json:
        print(json.dumps({**json.loads(certificate.to_json()), "report": report.to_dict()}, indent=2))
        return
    bare = () if found.public.has_pool else (f"Writing needs --public POOL: {found.public.pool_named}.",)
    said = [*_wrapped(certificate.guarantees[-1].sentence(), *report.warnings, *bare), ""]
    print("\n".join([*said, *_lines(report, _HEIGHT - len(said))]))


def _lines(report: Topics, room: int) -> list[str]:
    """Return lines for a screen with this room: labels, their words, and topics, each largest first."""
    known, unit = report.estimates, report.measure
    lines = _wrapped(f"In all {_number(known.whole, 0)} {unit}; the intervals hold in 95%.")
    names, words = list(report.shown or ("all texts",)), report.words
    topics = [", ".join(each[:4]) for each, _ in report.topics]
    labels = known.by_label if report.labels else known.whole
    tables = [("labels", len(names))] + [("words", len(names))] * (words is not None) + [("topics", len(topics))]
    room -= len(lines) + (words is not None) + bool(topics)
    kept = _divided(dict(tables), room)
    order = labels.numbers.argsort(kind="stable")[::-1].tolist()
    lines += _table("labels", names, labels, kept["labels"])
    if words is not None:
        lines += ["Words more frequent than in public text:"]
        deep = 2 if 3 * len(names) + len(topics) <= room else 1
        said = [line for i in order for line in _words(names[i], words, i, max(map(len, names)))[:deep]]
        lines += _more(said, "labels", max(kept["words"], deep * len(names) if deep > 1 else 0))
    if topics:
        lines += ["Topics, largest first:", *_table("topics", topics, known.by_topic, kept["topics"])]
    return lines


def _divided(rows: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the number of lines of each table with so many rows: short tables leave their rest to the others."""
    found: dict[str, int] = {}
    for i, (name, n) in enumerate(sorted(rows.items(), key=lambda each: each[1])):
        found[name] = min(n, max(_FEWEST, room // (len(rows) - i)))
        room -= found[name]
    return found


def _table(what: str, names: Sequence[str], known: Estimated, room: int) -> list[str]:
    """Return a row for each name, largest number first: name, and number with its interval."""
    order = known.numbers.argsort(kind="stable")[::-1].tolist()
    numbers = [_number(known, i) for i in order]
    width = min(_NAME, _WIDTH - max(map(len, numbers)) - 4, max(map(len, names)))
    rows = [f"  {_name(names[i], width)}  {number}" for i, number in zip(order, numbers, strict=True)]
    return _more(rows, what, room)


def _words(name: str, words: LabelWords, label: int, width: int) -> list[str]:
    """Return lines of the words of a label, with their numbers and intervals."""
    lines = [f"  {_name(name, min(_NAME // 2, width))} "]
    indent = " " * len(lines[0])
    for word, n, _ in words.words[label]:
        more = f" {shorten(word, _NAME // 2, placeholder='...')} {words.shown(n)},"
        if len(lines[-1] + more) > _WIDTH + 1:  # the last comma is taken off
            lines.append(indent)
        lines[-1] += more
    if not words.words[label]:
        lines[-1] += " none beyond the noise"
    return [line.removesuffix(",") for line in lines]


def _name(name: str, width: int) -> str:
    return f"{shorten(name, width, placeholder='...'):<{width}}"


def _more(rows: Sequence[str], what: str, room: int) -> list[str]:
    """Return the rows, or those that have room, and how many more there are."""
    if len(rows) <= room:
        return [*rows]
    return [*rows[: room - 1], f"  and {len(rows) - room + 1:,} more {what}: see --json, or the page"]


def _wrapped(*said: str) -> list[str]:
    return [line for each in said for line in wrap(each, _WIDTH)]


def _number(known: Estimated, i: int) -> str:
    n, low, high = (float(each[i]) for each in (known.numbers, known.low, known.high))
    return f"{n:,.0f} ({low:,.0f} to {high:,.0f})"


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
    print(f"\nWritten: {target} and {certificate_path(target).name}. It cost nothing more.")
