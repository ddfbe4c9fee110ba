"""`dptext summary`: print a summary, and add summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.grouped import promises
from dptext.cli.write import WHERE
from dptext.errors import ConfigError
from dptext.runs.certificate import certificate_path
from dptext.runs.summarizing import add as sum_of
from dptext.runs.summarizing import read_summary
from dptext.runs.synthesized import paths_of
from dptext.synthesis.agreement import Estimated
from dptext.synthesis.report import Topics
from dptext.text.files import Target, refuse_inputs

_ROWS: Final = 10  # of a table
_WORDS: Final = 6  # of a label


def show(summary: WHERE, *, as_json: options.JsonOption = False) -> None:
    found, certificate, _ = read_summary(summary)
    report = found.report
    if as_json:
        print(json.dumps({**json.loads(certificate.to_json()), "report": report.to_dict()}, indent=2))
        return
    print(certificate.guarantees[-1].sentence())
    for line in report.warnings:
        print(line)
    print("\n".join(_lines(report)))


def _lines(report: Topics) -> list[str]:
    """Return the lines of a screen: labels with their words, then the largest topics, with intervals."""
    known, unit = report.estimates, report.measure
    lines = [f"\nIn all {_number(known.whole, 0)} {unit}; intervals hold the number without noise in 95%."]
    names = report.shown or ("all texts",)
    words = report.words.words if report.words is not None else ((),) * len(names)
    topics = [", ".join(each[:4]) for each, _ in report.topics]
    width = min(40, max(map(len, [*names, *topics])))
    order = known.by_label.numbers.argsort(kind="stable")[::-1].tolist() if report.labels else [0]
    for i in order[:_ROWS]:
        number = _number(known.by_label, i) if report.labels else ""
        said = ", ".join(word for word, *_ in words[i][:_WORDS])
        lines.append(f"  {names[i][:width]:<{width}}  {number:<22}  {said}".rstrip())
    lines += [f"  and {len(order) - _ROWS} more labels"] * (len(order) > _ROWS)
    if report.topics:
        lines.append("Topics, largest first:")
        order = known.by_topic.numbers.argsort(kind="stable")[::-1].tolist()
        for i in order[:_ROWS]:
            lines.append(f"  {topics[i][:width]:<{width}}  {_number(known.by_topic, i)}")
        lines += [f"  and {len(order) - _ROWS} more topics"] * (len(order) > _ROWS)
    return lines


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
    found = sum_of(*inputs, disjoint=disjoint)
    certificate = found.write(target, force=force)
    print("\n".join([found.guarantees[-1].sentence(), *found.sentences, "", certificate.explain()]))
    print(f"\nWritten: {target} and {certificate_path(target).name}. It cost nothing more.")
