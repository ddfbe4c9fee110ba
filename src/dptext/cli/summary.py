"""`dptext summary`: print a summary, and add summaries."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from dptext.synthesis.report import Topics
from dptext.text.files import Target, refuse_inputs

_WIDTH: Final = 80  # columns of a screen
_HEIGHT: Final = 23  # lines of a screen above the next prompt
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
    """Return lines for a screen with this room: labels with their words, then topics, each largest first."""
    known, unit = report.estimates, report.measure
    lines = _wrapped(f"In all {_number(known.whole, 0)} {unit}; the intervals hold in 95%.")
    names, words = list(report.shown or ("all texts",)), report.words
    topics = [", ".join(each[:4]) for each, _ in report.topics]
    room -= len(lines) + bool(topics)
    kept = max(_FEWEST, room // 2, room - len(topics))  # rows of the labels
    said = [""] * len(names) if words is None else [", ".join(word for word, *_ in own) for own in words.words]
    lines += _table("labels", names, known.by_label if report.labels else known.whole, said, kept)
    if topics:
        left = max(_FEWEST, room - min(kept, len(names)))
        lines += ["Topics, largest first:", *_table("topics", topics, known.by_topic, [""] * len(topics), left)]
    return lines


def _table(what: str, names: Sequence[str], known: Estimated, said: Sequence[str], room: int) -> list[str]:
    """Return a row for each name, largest number first: name, number, and as much of what is said as has room."""
    order = known.numbers.argsort(kind="stable")[::-1].tolist()
    shown = order if len(order) <= room else order[: room - 1]
    numbers = [_number(known, i) for i in shown]
    wide = max(map(len, numbers))
    width = min(_NAME, _WIDTH - wide - 4, max(map(len, names)))
    rows = []
    for i, number in zip(shown, numbers, strict=True):
        row = f"  {shorten(names[i], width, placeholder='...'):<{width}}  {number:<{wide}}  "
        rows.append((row + shorten(said[i], max(1, _WIDTH - len(row)), placeholder="")).rstrip(" ,"))
    left = len(order) - len(shown)
    return rows + [f"  and {left:,} more {what}: see --json, or the page"] * bool(left)


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
