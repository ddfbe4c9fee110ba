"""What the commands that measure a corpus say before a run and after it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dptext.batch.shards import as_read, forms_of, shards_of
from dptext.cli.chosen import is_a_record, reads_english
from dptext.cli.corpus_options import CorpusReading, Ending
from dptext.cli.many import is_dataset
from dptext.cli.paying import PAID, charge_data, cost, what_is_left
from dptext.privacy.guarantee import Guarantee
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.plan import Plan
from dptext.runs.states import CorpusState
from dptext.runs.summarizing import WRITING_NEEDS
from dptext.runs.synthesized import REPORT_SUFFIXES, paths_of
from dptext.runs.writing import default_writer
from dptext.synthesis.report import HARDLY_MORE_THAN_NOISE
from dptext.synthesis.spec import CorpusSpec
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.text.plain_text import a_record
from dptext.text.records import TEXT_FIELD, Fields
from dptext.text.schema import IdColumn

if TYPE_CHECKING:  # the ledger is loaded only if it is used
    from dptext.runs.payment import Due, Payment


def say_what_would_be(
    wanted: CorpusSpec,
    promised: Sequence[Guarantee],
    source: str,
    reading: CorpusReading,
    payment: Payment | None,
    due: Due | None,
    ending: Ending,
    *,
    public: Path | None,
) -> None:
    layout = reading.layout
    record, forms = layout.record, tuple[str, ...]()
    if is_dataset(source):
        plan = Plan(Fields(), **layout.settings())
        shards = shards_of(source, format=plan.input_format, options={})
        record, forms = as_read(source, shards, plan).record, forms_of(shards, plan)
    what = "one corpus" if wanted.writes else "one report" if wanted.command == "synthesize" else f"one {wanted.kind}"
    said = [f"A run would release {what}. Nothing was read, drawn, charged or written.", promised[-1].sentence()]
    said += [
        is_a_record(record, forms),
        *reads_english(wanted),
        *filter(None, (wanted.plan, *wanted.advice.splitlines())),
    ]
    other = layout.public_text_field or layout.public_record
    if wanted.labels and reading.label_field is not None and public is not None and not (other or is_dataset(source)):
        text = [] if layout.text_field == TEXT_FIELD else ["--text-field", layout.text_field]
        names = wanted.names if isinstance(wanted, SummarySpec) else ()
        each = ",".join(f"{label}={name}" for label, name in zip(wanted.labels, names, strict=True)) if names else ""
        named = ["--names", each] if each else []
        judged = ["dptext", "utility", "corpus", source, str(public), "--public", str(public), *text]
        judged += ["--label-field", reading.label_field, *named]
        judged += ["--encoder", wanted.encoder] if wanted.encoder not in ("sentence", "distilled") else []
        said.append(f"What a corpus could teach beside public texts, for you alone and free: {shlex.join(judged)}")
    if payment is not None:
        said.append(PAID if due is None else cost(due))
    if not ending.as_json:
        print("\n".join(said))
        return
    told = {"record": a_record(record, forms), "guarantees": [each.to_dict() for each in promised]}
    print(json.dumps({**told, "charge": charge_data(due), "sentences": said}, indent=2))


def say_what_was_made(
    target: Path,
    state: CorpusState,
    certificate: Certificate,
    payment: Payment | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        told = {"certificate": str(certificate_path(target)), **json.loads(certificate.to_json())}
        report = json.loads(target.with_name(target.name + REPORT_SUFFIXES[0]).read_bytes())
        print(json.dumps({**told, "report": report}, indent=2))
        return
    print("\n".join([certificate.guarantees[-1].sentence(), *state.sentences, "", certificate.explain()]))
    if payment is not None:
        print(f"\n{what_is_left(payment, certificate)}")
    print(f"\nWritten: {files_of(target)}.")
    if HARDLY_MORE_THAN_NOISE in state.sentences:
        return
    if certificate.settings["kind"] == "summary":
        summary = Summary.of_bytes(target.read_bytes())
        if summary.spec.axes.columns:
            print("\n".join(filter(None, (summary.spec.pairs_named, summary.spec.means_moved))))
        print(next_of_summary(target, summary))
        return
    print(f"Next: {shlex.join(['dptext', 'explain', str(target)])}; open {target.name}{REPORT_SUFFIXES[1]}.")


def files_of(target: Path) -> str:
    """Return a list of all files of an output in words: its path, and the names of those beside it."""
    *first, last = (path.name for path in paths_of(target)[1:])
    return f"{', '.join([str(target), *first])} and {last}"


def next_of_summary(path: Path, summary: Summary, *, show: bool = True) -> str:
    """Return a line with the next commands for a summary: to `show` it, and to write a corpus from it."""
    first = shlex.join(["dptext", *(["summary", "show"] if show else ["explain"]), str(path)])
    if HARDLY_MORE_THAN_NOISE in summary.report.warnings:
        return f"Next: {first}."
    if not default_writer(summary):
        return f"Next: {first}. `dptext write` has no writer for it by itself: {WRITING_NEEDS}."
    corpus = path.with_suffix(".written.csv")  # never the name of the private file
    more = []
    if any(not isinstance(each, IdColumn) for each in summary.spec.schema):
        more = ["--drop-other"]
    pool = "" if summary.public.has_pool else " --public POOL"
    written = shlex.join(["dptext", "write", str(path), str(corpus), *more])
    said = f"Next: {f'{first}; ' if show else ''}{written}{pool}."
    if default_writer(summary) == "pool" and summary.public.model:
        said += " --writer builtin writes new texts: they mostly teach less, but for labels that the pool lacks."
    return said
