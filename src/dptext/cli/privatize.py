"""`dptext privatize`: from file to file, with progress on stderr and the result on stdout."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dptext.cli.fit import check_label_field
from dptext.cli.stopping import advising
from dptext.cli.terminal import bars
from dptext.errors import ConfigError, LedgerError
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.privacy.guarantee import format_epsilon
from dptext.runs.certificate import certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.models import load_model
from dptext.runs.plan import Plan
from dptext.runs.resume import state_path
from dptext.runs.specs import parse_setting, read_spec, spec_from_settings
from dptext.sampling.randomness import secure, seeded
from dptext.text.files import refuse_inputs
from dptext.text.formats import Format, detect_format, file_format, is_compressed
from dptext.text.reading import OnError
from dptext.text.records import Fields
from dptext.text.writers import APPENDABLE
from dptext.types import Json

if TYPE_CHECKING:  # loaded by those who name a ledger
    from dptext.runs.payment import Payment

_LINE_EVERY_SECONDS = 10.0


def chosen_spec(mechanism: str | None, pairs: list[str], path: Path | None) -> Spec:
    """The spec of --spec FILE, or of --mechanism with --set; --set also changes single settings of a file.

    Raises:
        ConfigError: neither or both are given, or the settings cannot be used.
    """
    listed = [parse_setting(pair) for pair in pairs]
    changes = dict(listed)
    if len(changes) < len(listed) or "kind" in changes:
        raise ConfigError("Expected each setting once, and the mechanism by --mechanism, not by --set kind=...")
    if (mechanism is None) == (path is None):
        raise ConfigError("Expected one of --mechanism NAME and --spec FILE.toml.")
    if path is not None:
        return read_spec(path, changes)
    values: dict[str, Json] = {"kind": mechanism, **changes}
    return spec_from_settings(values)


def chosen(mechanism: str | None, pairs: list[str], path: Path | None, model: Path | None) -> Spec | Path:
    """The spec that is named, or the folder of a fitted model.

    Raises:
        ConfigError: none or several are named, or the settings cannot be used.
    """
    if model is None:
        return chosen_spec(mechanism, pairs, path)
    if mechanism is not None or path is not None or pairs:
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml and --model MODEL; a model has its settings, so that "
            "--set changes nothing in it."
        )
    return model


def fitted(chosen: Spec | Path, *, device: str | None = None) -> Mechanism[str]:
    """The mechanism of a model, on this device where one is named; or of a spec that learns from no text.

    Raises:
        ConfigError: the model cannot be loaded, the spec has to be fitted first, or a device is named for a spec.
        MissingExtraError: a package is not installed.
    """
    if isinstance(chosen, Path):
        return load_model(chosen, device=device)
    if device is not None:
        raise ConfigError("Expected --device with --model: a spec has its device, if any, by --set device=NAME.")
    if chosen.traits.learns is Learns.NOTHING:
        return chosen.fit()
    raise ConfigError(
        f"Expected a model of {chosen.kind}, which learns from text. Fit first: dptext fit --mechanism {chosen.kind} "
        "--set KEY=VALUE ... --public PUBLIC --out MODEL; then give --model MODEL."
    )


def _format(name: str | None, option: str) -> Format | None:
    if name is None:
        return None
    try:
        return Format(name)
    except ValueError:
        raise ConfigError(f"Expected {option} {name!r} to be one of {', '.join(Format)}.") from None


def plan(
    *,
    text_field: str,
    id_field: str | None,
    label_field: str | None = None,
    author_field: str | None,
    subject_field: str | None,
    keep: list[str],
    input_format: str | None,
    output_format: str | None,
    on_error: str,
    max_per_author: int | None,
    delta: float,
    batch_size: int,
    without_guarantee: bool,
    force: bool,
    resume: bool,
    safe_csv: bool = False,
) -> Plan:
    """The options as a plan.

    Raises:
        ConfigError: an option cannot be used.
    """
    if on_error not in tuple(OnError):
        raise ConfigError(f"Expected --on-error {on_error!r} to be one of {', '.join(OnError)}.")
    if force and resume:
        raise ConfigError("Expected one of --force (begin anew) and --resume (go on).")
    return Plan(
        fields=Fields(
            text=text_field,
            id=id_field,
            label=label_field,
            author=author_field,
            keep=tuple(keep),
            subject=subject_field,
        ),
        input_format=_format(input_format, "--format"),
        output_format=_format(output_format, "--output-format"),
        on_error=OnError(on_error),
        delta=delta,
        max_per_author=max_per_author,
        batch_size=batch_size,
        without_guarantee=without_guarantee,
        force=force,
        resume=resume,
        safe_csv=safe_csv,
    )


def payment(
    ledger: str | None, account: str | None, charge_key: str | None, *, subject_key: Path | None, named: bool
) -> Payment | None:
    """Who pays; None where nobody was named. The subject key is read only where subjects are charged by name.

    Raises:
        ConfigError: the options do not fit together.
    """
    if account is None:
        if ledger is not None or charge_key is not None:
            raise ConfigError(
                "Expected --account NAME with --ledger or DPTEXT_LEDGER, and with --charge-key: who pays for the run."
            )
        return None
    if ledger is None:
        raise ConfigError("Expected --ledger with --account: the books that the account is in.")
    from dptext.cli.budget import opened
    from dptext.runs.payment import Payment

    return Payment(opened(ledger, subject_key, named=named), account, charge_key)


def run(
    source: Path,
    target: Path,
    chosen: Spec | Path,
    plan: Plan,
    *,
    payment: Payment | None,
    seed: int | None,
    as_json: bool,
    device: str | None = None,
    inputs: Sequence[Path | None] = (),
) -> None:
    """Privatize a file and print its certificate; `inputs` are read besides, so that nothing is written there."""
    _refuse_inputs(target, inputs, payment)
    mechanism = fitted(chosen, device=device)
    spec = mechanism.spec
    check_label_field(
        spec, plan.fields.label, needed=spec.traits.reads_labels, copied=(plan.fields.id, *plan.fields.keep)
    )

    def skipped(number: int, reason: str) -> None:
        print(f"skipped record {number}: {reason}", file=sys.stderr)

    with (
        advising(lambda: _left_there(target, plan, paid=payment is not None)),
        _progress(source, plan.input_format) as advance,
    ):
        certificate = privatize_file(
            source,
            target,
            mechanism,
            plan=plan,
            randomness=secure() if seed is None else seeded(seed),
            payment=payment,
            on_progress=advance,
            on_skip=skipped,
        )
    if as_json:
        print(json.dumps({"certificate": str(certificate_path(target)), **json.loads(certificate.to_json())}, indent=2))
    else:
        print(certificate.explain())
        if payment is not None:
            print(f"\n{_left(payment)}")
        print(f"\nWritten: {target} and {certificate_path(target)}")


def _refuse_inputs(target: Path, inputs: Sequence[Path | None], payment: Payment | None) -> None:
    read = [path for path in inputs if path is not None]
    if payment is not None and payment.ledger.path is not None:
        from dptext.cli.budget import default_key

        read += [payment.ledger.path, default_key(payment.ledger) or payment.ledger.path]
    for path in (target, certificate_path(target)):
        refuse_inputs(path, read)


def _left_there(target: Path, plan: Plan, *, paid: bool) -> str:
    """What a run that was stopped has left beside its output, and how to go on."""
    if not state_path(target).exists():
        return f"No unfinished run lies beside {target}."
    charge = " What was charged stays charged: --resume finds the charge, --force charges anew." if paid else ""
    if file_format(target, plan.output_format) not in APPENDABLE:
        return f"The unfinished run beside {target} cannot be gone on with in this format: --force begins anew.{charge}"
    return f"What is done lies unpublished beside {target}: --resume goes on, --force begins anew.{charge}"


def _left(payment: Payment) -> str:
    """Where the account stands; the release is out, so that a ledger that cannot be read now is no failure."""
    from dptext.ledger.spending import format_left

    try:
        balance = payment.ledger.balance(payment.account)
    except LedgerError as error:
        return f"The run is paid for; what is left is not known: {error}"
    return (
        f"Account {payment.account!r}: spent {format_epsilon(balance.spent.epsilon)} of "
        f"{format_epsilon(balance.account.limit.epsilon)}, left {format_left(balance.left)}."
    )


@contextlib.contextmanager
def _progress(source: Path, named: Format | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, a line every ten seconds elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("privatizing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=bars()) as bar:
        task = bar.add_task("", total=_count(source, named), rate="")
        first: list[int] = []

        def advance(done: int) -> None:
            first.append(done) if not first else None
            seconds = max(time.monotonic() - began, 1e-9)
            bar.update(task, completed=done, rate=f"{(done - first[0]) / seconds:,.0f} records/s")

        yield advance


def _lines() -> Callable[[int], None]:
    began = last = time.monotonic()

    def advance(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _LINE_EVERY_SECONDS:
            last = now
            print(f"{done:,} records, {now - began:.0f} s", file=sys.stderr)

    return advance


def _count(source: Path, named: Format | None) -> int | None:
    """How many records the input has, for the progress bar; None where only reading it all could tell."""
    try:
        if (named or detect_format(source)) not in (Format.JSONL, Format.TEXT):
            return None
        opener = gzip.open if is_compressed(source) else open
        with opener(source, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except (OSError, EOFError, ConfigError):
        return None  # the reader will say what is wrong
