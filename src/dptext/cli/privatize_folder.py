"""Who pays for a run, and who reads many files; `dptext privatize FOLDER OUT_FOLDER`."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from dptext._wording import plural
from dptext.batch.engines import PART_SIZE, DatasetPlan, Workers
from dptext.batch.runs import privatize_dataset, rehearse_dataset
from dptext.batch.shards import as_read, shards_of
from dptext.cli import labels
from dptext.cli.options import Form, PayingLedgerOption, SubjectKeyOption, default_key, opened
from dptext.cli.terminal import advising, counted, say
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.privacy.guarantee import Guarantee, format_epsilon
from dptext.runs.plan import Plan
from dptext.text.files import refuse_inputs
from dptext.text.formats import Format, detect_format
from dptext.text.plain_text import Portion
from dptext.types import Json

if TYPE_CHECKING:  # loaded by those who name a ledger
    from dptext.runs.payment import Due, Payment


@dataclass(frozen=True, slots=True)
class Paying:
    ledger: PayingLedgerOption = None
    account: Annotated[str | None, Option(help="The account that pays, before anything is drawn.")] = None
    subject_field: Annotated[
        str | None, Option(help="Charge each subject that this field names: of an account opened --by-subject.")
    ] = None
    everyone: Annotated[
        bool, Option("--everyone", help="Charge everyone in an account opened --by-subject, named in the run or not.")
    ] = False
    subject_key: SubjectKeyOption = None
    charge_key: Annotated[str | None, Option(help="Name of the charge: a run again under it is charged once.")] = None

    def payment(self) -> Payment | None:
        """Who pays, or None. The subject key is read only where subjects are charged by name."""
        if self.account is None:
            if self.ledger is not None or self.charge_key is not None or self.everyone:
                raise ConfigError(
                    "Expected --account NAME with --ledger or DPTEXT_LEDGER, with --charge-key and --everyone: who "
                    "pays for the run."
                )
            return None
        if self.ledger is None:
            raise ConfigError("Expected --ledger with --account: the books that the account is in.")
        from dptext.runs.payment import Payment

        books = opened(self.ledger)
        key = self.subject_key or default_key(books)
        if self.subject_field is not None and key is not None:
            from dptext.ledger.subjects import read_subject_key

            books = type(books).at(self.ledger, key=read_subject_key(key))
        return Payment(books, self.account, self.charge_key, self.everyone)

    def refuse_inputs(self, written: Sequence[Path], inputs: Sequence[Path | None], payment: Payment | None) -> None:
        """Refuse to write what is read: the inputs, the books and their key."""
        read = [path for path in (*inputs, self.subject_key) if path is not None]
        if payment is not None and payment.ledger.path is not None:
            read += [payment.ledger.path, default_key(payment.ledger) or payment.ledger.path]
        for path in written:
            refuse_inputs(path, read)


def said_key(payment: Payment | None) -> Payment | None:
    """The payment under a key that was said: whoever is stopped goes on under it."""
    if payment is None:
        return None
    payment = replace(payment, key=payment.key or secrets.token_hex(16))
    say(f"Where the corpus is not read to its end, go on with --charge-key {payment.key}: it is charged once.")
    return payment


def cost(due: Due) -> str:
    return f"Cost: epsilon {format_epsilon(due.epsilon())} alone, added to what was spent."


_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_LINE_EVERY = 10.0  # seconds


def size(given: object) -> int:
    text = str(given)  # the default is a number
    unit = _SIZES.get(text[-1:].upper(), 0)
    digits = text[:-1] if unit else text
    if not digits.isascii() or not digits.isdigit():
        raise typer.BadParameter("expected bytes, as 500M or 2G.")
    return int(digits) * (unit or 1)


@dataclass(frozen=True, slots=True)
class Who:
    engine: Annotated[str, Option(help="Of a folder: local processes, or ray.")] = "local"
    workers: Annotated[int, Option(help="Of a folder: how many; default: one a processor.")] = 0
    memory: Annotated[int, Option(parser=size, metavar="BYTES", help="Of a folder: for each worker, as 2G.")] = 0
    address: Annotated[str | None, Option(help="With --engine ray: of the cluster, as auto.")] = None

    def made(self) -> Workers:
        return Workers(self.engine, self.workers, self.memory, self.address)


@dataclass(frozen=True, slots=True)
class Many(Who):
    part_size: Annotated[int, Option(help="Of a folder: records of a part.")] = PART_SIZE
    keep_shards: Annotated[
        bool, Option("--keep-shards", help="Of a folder: a part for each file; names and counts leave.")
    ] = False
    json_progress: Annotated[bool, Option("--json-progress", help="Of a folder: progress as lines of JSON.")] = False

    def plan(self) -> DatasetPlan:
        return DatasetPlan(self.part_size, self.keep_shards, self.made())


def is_dataset(source: str) -> bool:
    """Whether the input is no single file: a folder, a glob or a URL."""
    return (
        "://" in source
        or Path(source).is_dir()
        or (any(sign in source for sign in "*?[") and not Path(source).exists())
    )


@dataclass(frozen=True, slots=True)
class Run:
    mechanism: Mechanism[str]
    plan: Plan
    form: Form
    payment: Payment | None
    seed: int | None
    dry_run: bool
    as_json: bool


def rehearsal(
    n_records: int,
    promised: Sequence[Guarantee],
    due: Due | None,
    data: Mapping[str, Json] | None,
    told: Sequence[str] = (),
    last: Sequence[str] = (),
) -> str:
    """What a run would do: as JSON where there is other data, else in lines, with others among them and behind."""
    if data is not None:
        charge = due and {"account": due.account.name, "epsilon": due.epsilon()}
        guarantees = [guarantee.to_dict() for guarantee in promised]
        return json.dumps({"records": n_records, **data, "guarantees": guarantees, "charge": charge}, indent=2)
    lead = f"A run would release {plural(n_records, 'record')}. Nothing was drawn, charged or written."
    return "\n".join([lead, *told, promised[-1].sentence(), *last])


def _told_of_output(source: str, target: str, run: Run, options: Mapping[str, Any]) -> None:
    """Say beforehand what people do not expect of OUT."""
    with suppress(ConfigError):  # no file's name
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
        last = [] if due is None else [cost(due)]
        words = labels.told(run.mechanism.spec, n_records, n_labelled, run.plan.fields.label)
        data = labels.data(run.mechanism.spec, n_labelled)
        print(rehearsal(n_records, promised, due, data if run.as_json else None, words, last))
        return
    every = 0.0 if json_progress else _LINE_EVERY
    left = f"What is done lies unpublished beside {target}: --resume goes on, --force begins anew."
    # Ray tells of dead workers on stdout, which is the certificate's.
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
        print(f"\n{run.payment.left()}")
    print(f"\nWritten: {target}, which counts by its manifest.json. Next: dptext explain {target}")


def _as_lines(what: str, done: int, total: int | None) -> None:
    print(json.dumps({"at": round(time.time()), "doing": what, "done": done, "of": total}), file=sys.stderr, flush=True)


def refuse_for_a_file(given: Who) -> None:
    if given != type(given)():
        named = ", ".join(f"--{each.name.replace('_', '-')}" for each in fields(given))
        raise ConfigError(f"Expected a folder, a glob or a URL with {named}: a single file is read by one process.")
