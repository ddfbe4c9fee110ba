"""`dptext privatize FOLDER OUT_FOLDER`: privatize many files into a folder of parts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

from dptext._wording import plural
from dptext.batch.engines import DatasetPlan
from dptext.batch.runs import privatize_dataset, rehearse_dataset
from dptext.batch.shards import as_read, forms_of, shards_of
from dptext.cli import labels
from dptext.cli.chosen import is_a_record, reads_english
from dptext.cli.many import Run
from dptext.cli.paying import CHARGED, PAID, cost, rehearsal, what_is_left
from dptext.cli.terminal import advising, counted, say
from dptext.errors import ConfigError
from dptext.text.formats import Format, detect_format
from dptext.text.plain_text import Portion, a_record

_LINE_EVERY: Final = 10.0  # seconds


def _told_of_output(source: str, target: str, run: Run, options: Mapping[str, Any]) -> None:
    """Print in advance the properties of OUT that users may not expect."""
    with suppress(ConfigError):  # OUT has no extension of a file
        detect_format(target)
        if not Path(target).is_dir():
            say(f"{target} becomes a folder, as IN is many files.")
    shards = shards_of(source, format=run.plan.input_format, options=options)
    record = as_read(source, shards, run.plan).record
    in_text = run.plan.output_format in (None, Format.TEXT) and run.mechanism.spec.traits.releases_text
    if in_text and record in (Portion.FILE, Portion.BLOCK):
        say(
            f"A record is a {record}, and .txt has one a line: line breaks become blanks. --output-format jsonl "
            "keeps them."
        )


def privatize_folder(source: str, target: str, run: Run, dataset: DatasetPlan, *, json_progress: bool) -> None:
    _told_of_output(source, target, run, dataset.storage_options)
    shared: dict[str, Any] = {"plan": run.plan, "dataset": dataset, "seed": run.seed, "payment": run.payment}
    if run.dry_run:
        n_records, promised, due, n_labelled = rehearse_dataset(source, target, run.mechanism, **shared)
        named = ["the names of the files and how many records each has"] * dataset.keep_shards
        last = [f"Leaves as it is: {', '.join([*run.plan.reveals, *named])}."]
        last += [] if run.payment is None else [PAID if due is None else cost(due)]
        shards = shards_of(source, format=run.plan.input_format, options=dataset.storage_options)
        record = as_read(source, shards, run.plan).record
        forms = forms_of(shards, run.plan)
        words = [is_a_record(record, forms), *reads_english(run.mechanism.spec)]
        words += labels.told(run.mechanism.spec, n_records, n_labelled, run.plan.fields.label)
        data = {"record": a_record(record, forms), **labels.data(run.mechanism.spec, n_labelled)}
        print(rehearsal(n_records, promised, due, data if run.as_json else None, words, last))
        return
    every = 0.0 if json_progress else _LINE_EVERY
    left = f"What is done lies unpublished beside {target}: --resume goes on, --force begins anew."
    left += "" if run.payment is None else CHARGED
    # Ray reports dead workers on stdout, which is for the certificate.
    with redirect_stdout(sys.stderr), advising(lambda: left), counted("privatizing", every=every) as tell:

        def told(what: str, done: int, total: int | None) -> None:
            tell(done, total, "records read" if what == "reading" else "records")

        written = privatize_dataset(
            source,
            target,
            run.mechanism,
            **shared,
            on_progress=_as_lines if json_progress else told,
            on_skip=lambda name, n, reason: say(f"skipped {plural(n, 'record')} of {name}: {reason}"),
        )
    if run.as_json:
        print(json.dumps({"folder": target, **json.loads(written.to_json())}, indent=2))
        return
    print(written.explain())
    if run.payment is not None:
        print(f"\n{what_is_left(run.payment, written)}")
    judged = Path(source).is_dir() and Path(target).is_dir()
    print(f"\nWritten: {target}, which counts by its manifest.json.\n{run.following(source, target, judged=judged)}")


def _as_lines(what: str, done: int, total: int | None) -> None:
    print(json.dumps({"at": round(time.time()), "doing": what, "done": done, "of": total}), file=sys.stderr, flush=True)
