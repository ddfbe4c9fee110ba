"""`dptext privatize`: from file to file or stream to stream, with progress on stderr and the result on stdout."""

import contextlib
import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument

from dptext.cli import labels, options
from dptext.cli.chosen import MechanismOptions, check_label_field, is_a_record, reads_english
from dptext.cli.grouped import computes, leaves, promises, runs
from dptext.cli.many import Many, Run, is_dataset, refuse_for_a_file
from dptext.cli.paying import CHARGED, PAID, Paying, cost, rehearsal, rehearsed_force, what_is_left
from dptext.cli.terminal import Tell, advising, counted
from dptext.errors import ConfigError, DPTextError
from dptext.runs.certificate import MANIFEST, certificate_path
from dptext.runs.files import privatize_file, rehearse, seconds
from dptext.runs.plan import Plan
from dptext.runs.states import state_path
from dptext.sampling.randomness import secure, seeded
from dptext.text.files import Target, create_private, refuse_inputs, writing
from dptext.text.formats import Format, detect_format, file_format, is_compressed
from dptext.text.plain_text import a_record
from dptext.text.records import Fields
from dptext.text.writers import APPENDABLE
from dptext.types import Json

STREAM: Final = Path("-")
_SUFFIX: Final = certificate_path(Path("x")).name[1:]  # the end of a certificate's name


@contextlib.contextmanager
def spooled(source: Path, target: Path, certificate: Path | None, plan: Plan) -> Iterator[tuple[Path, Path]]:
    """Yield the files of a run, with temporary files in place of `STREAM`.

    After the block, the certificate is written first, and then the complete output to stdout. `certificate` is the path
    of the certificate if the target is a stream. Its name says which file the certificate is about.
    """
    if (target == STREAM) != (certificate is not None):
        raise ConfigError("Expected --certificate NAME.guarantee.json with OUT -, and only there: it goes to a file.")
    if target == STREAM and sys.__stdout__ is None:
        raise ConfigError("Expected an open stdout with OUT -, found a closed one: the release would be lost.")
    if source == STREAM and plan.input_format is None:
        raise ConfigError("Expected --format with IN -: stdin has no extension that tells it.")
    if certificate is not None:
        refuse_inputs(certificate, [source])
        Target(certificate, plan.force).check()
        if not certificate.name.endswith(_SUFFIX) or certificate.name == _SUFFIX:
            named = f"--certificate {str(certificate)!r}"
            raise ConfigError(f"Expected {named} to end in {_SUFFIX}, after the name that stdout is saved as.")
        if plan.resume:
            raise ConfigError("Expected no --resume with OUT -: nothing is left of an unfinished run.")
    with contextlib.ExitStack() as stack:
        if STREAM in (source, target):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dptext-")))  # a folder of mode 0700
        if source == STREAM:
            source = folder / "stdin"
            with writing(source), create_private(source) as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        if certificate is not None:
            target = folder / certificate.name.removesuffix(_SUFFIX)
        yield source, target
        if certificate is not None and target.exists():
            Target(certificate, plan.force, private=False).write(certificate_path(target).read_bytes())
            sys.stdout.flush()
            try:
                with target.open("rb") as made, open(sys.stdout.fileno(), "wb", closefd=False) as out:
                    shutil.copyfileobj(made, out)
            except OSError as error:
                reason = error.strerror
            else:
                return
            raise ConfigError(
                f"stdout took no more ({reason}): the output is incomplete. Delete the output and {certificate}, and "
                "run again. Charges stay."
            )


_EMPTY: Final = "Each record that was read has a release: an empty text is privatized like any other."
_SHORT: Final = " where texts are short, by made-up ones; `dptext check` finds long ones."


def privatize(
    source: Annotated[
        str,
        Argument(
            metavar="IN",
            parser=options.place,
            help="The records: a file (.jsonl, .csv, .tsv, .txt or .json, also as .gz or .zst; .parquet; .xlsx), stdin "
            "(-, with --format), or many files (a folder, a glob or a URL).",
        ),
    ],
    target: Annotated[
        str,
        Argument(
            metavar="OUT",
            parser=options.place,
            help="The new file, with its certificate OUT.guarantee.json beside it, or stdout (-, with --certificate). "
            "Many files become a new folder or URL.",
        ),
    ],
    *,
    form: options.Form,
    label_field: options.LabelFieldOption = None,
    author_field: options.AuthorFieldOption = None,
    wanted: MechanismOptions,
    epsilon: options.EpsilonOption = None,
    delta: options.DeltaOption = 0.0,
    max_per_author: Annotated[
        int | None, promises(metavar="N", help="Refuse a run in which one author has more than N records.")
    ] = None,
    without_guarantee: options.WithoutGuaranteeOption = False,
    id_field: Annotated[
        str | None,
        leaves(metavar="NAME", help="Field of the ids, which leave as they are. Default: ids are 0, 1, 2, ..."),
    ] = None,
    keep: Annotated[
        list[str] | None, leaves(metavar="NAME", help="Public field, which leaves as it is. Repeatable.")
    ] = None,
    output_format: Annotated[str | None, leaves(help="Format of OUT, as --format. Default: by its extension.")] = None,
    safe_csv: Annotated[
        bool,
        leaves(
            "--safe-csv",
            help="In CSV, write an apostrophe before texts that a spreadsheet would take for formulas (they begin with "
            "= + - @ tab or CR).",
        ),
    ] = False,
    certificate: Annotated[
        Path | None,
        leaves(
            metavar="NAME.guarantee.json",
            parser=options.output_path,
            help="With OUT -: file of the certificate. It names the file NAME: save stdout as NAME.",
        ),
    ] = None,
    paying: Paying,
    batch_size: Annotated[int, computes(help="Number of records computed together. No block of OUT holds more.")] = 256,
    device: Annotated[
        str | None,
        computes(help="Device of the network of --model. Default: the device of the fit. A GPU may add an assumption."),
    ] = None,
    seed: options.VoidingSeedOption = None,
    dry_run: Annotated[
        bool, runs("--dry-run", help="Say what a run would do. Nothing is drawn, charged or written.")
    ] = False,
    force: Annotated[bool, runs("--force", help="Overwrite OUT, and throw away an unfinished run.")] = False,
    resume: options.ResumeOption = False,
    as_json: options.JsonOption = False,
    many: Many,
) -> None:
    choice = wanted.chosen(epsilon=epsilon)
    if force and resume:
        raise ConfigError("Expected one of --force (begin anew) and --resume (go on).")
    plan = Plan(
        fields=Fields(
            text=form.text_field,
            id=id_field,
            label=label_field,
            author=author_field,
            keep=tuple(keep or ()),
            subject=paying.subject_field,
        ),
        output_format=None if output_format is None else options.member(Format, "--output-format", output_format),
        delta=delta,
        max_per_author=max_per_author,
        batch_size=batch_size,
        without_guarantee=without_guarantee,
        force=force,
        resume=resume,
        safe_csv=safe_csv,
        **form.settings(),
    )
    payment = paying.payment()
    dataset = is_dataset(source)
    if dry_run:
        made = Path(target)
        own = (made / MANIFEST,) if dataset else (made, certificate or certificate_path(made))
        plan = replace(plan, force=rehearsed_force(*own, force=force, resume=resume))
    if not dataset:
        refuse_for_a_file(many)
        options.named(options.file_path, source, "IN")
        options.named(options.output_path, target, "OUT")
        beside = certificate or certificate_path(Path(target))
        paying.refuse_inputs((Path(target), beside), (wanted.spec, wanted.model), payment)
    elif certificate is not None:
        raise ConfigError("Expected no --certificate for many files: OUT holds it.")
    fitted_one = choice.fitted(device=device)
    read = fitted_one.spec.traits.reads_labels
    check_label_field(fitted_one.spec, label_field, needed=read, copied=(id_field, *plan.fields.keep))
    run = Run(fitted_one, plan, form, payment, seed, dry_run=dry_run, as_json=as_json)
    if dataset:
        from dptext.cli.privatize_folder import privatize_folder  # a single file needs none of it

        privatize_folder(source, target, run, many.plan(), json_progress=many.json_progress)
    else:
        _privatize_file(Path(source), Path(target), run, certificate)


def _privatize_file(source: Path, target: Path, run: Run, certificate: Path | None) -> None:
    plan, payment = run.plan, run.payment
    out = sys.stderr if target == STREAM else sys.stdout
    with spooled(source, target, certificate, plan) as (given, made), _naming(source, given):
        shared: dict[str, Any] = {"plan": plan, "payment": payment, "on_skip": options.skipped}
        shared["randomness"] = secure() if run.seed is None else seeded(run.seed)
        if run.dry_run:
            n_records, promised, due, n_labelled = rehearse(given, made, run.mechanism, **shared)
            took = seconds(n_records, run.mechanism)
            told = [is_a_record(plan.record)]
            told += [] if took is None else [f"That takes about {max(1, round(took)):,} s{_SHORT}"]
            told += reads_english(run.mechanism.spec)
            last = [f"Leaves as it is: {', '.join(plan.reveals)}."]
            if due is not None:
                last.append(cost(due))
            elif payment is not None:
                last.append(PAID)
            told += labels.told(run.mechanism.spec, n_records, n_labelled, plan.fields.label)
            data: dict[str, Json] = {
                "seconds": took,
                "record": a_record(plan.record),
                **labels.data(run.mechanism.spec, n_labelled),
            }
            shown = data if run.as_json else None
            print(rehearsal(n_records, promised, due, shown, told, last), file=out)
            return
        total = _count(given, plan.input_format) if sys.stderr.isatty() else None  # a bar has an end, lines have none
        with advising(lambda: _left_there(target, plan, paid=payment is not None)), counted("privatizing") as tell:
            written = privatize_file(given, made, run.mechanism, **shared, on_progress=_with_rate(tell, total))
    beside = certificate or certificate_path(target)
    if run.as_json:
        print(json.dumps({"certificate": str(beside), **json.loads(written.to_json())}, indent=2), file=out)
        return
    print(written.explain(), file=out)
    if payment is not None:
        print(f"\n{what_is_left(payment, written)}", file=out)
    print(f"\nWritten: {'stdout' if target == STREAM else target} and {beside}. {_EMPTY}", file=out)
    if target != STREAM:
        judged = source != STREAM and plan.output_format is None  # `dptext utility` has no such option
        print(run.following(str(source), str(target), judged=judged), file=out)


@contextlib.contextmanager
def _naming(source: Path, given: Path) -> Iterator[None]:
    """Make errors name stdin, not the temporary file in its place."""
    try:
        yield
    except DPTextError as error:
        if source == STREAM:
            error.args = (str(error).replace(str(given), "stdin"),)
        raise


def _left_there(target: Path, plan: Plan, *, paid: bool) -> str:
    if target == STREAM:
        return "Nothing is left of a run to stdout." + (" What was charged stays charged." if paid else "")
    if not state_path(target).exists():
        return f"No unfinished run lies beside {target}."
    charge = CHARGED if paid else ""
    if file_format(target, plan.output_format) not in APPENDABLE:
        lies = f"The unfinished run beside {target} cannot be gone on with in this format"
        return f"{lies}: --{'resume' if paid else 'force'} begins anew.{charge}"
    return f"What is done lies unpublished beside {target}: --resume goes on, --force begins anew.{charge}"


def _with_rate(tell: Tell, total: int | None) -> Callable[[int], None]:
    """Tell the number of finished records, and the rate in a second, without the records of an earlier run."""
    began, first = time.monotonic(), None

    def advance(done: int) -> None:
        nonlocal first
        if first is None:
            first = done
        rate = (done - first) / max(time.monotonic() - began, 1e-9)
        tell(done, total, f"records, {rate:,.0f}/s")

    return advance


def _count(source: Path, named: Format | None) -> int | None:
    try:
        if (named or detect_format(source)) not in (Format.JSONL, Format.TEXT):
            return None
        opener = gzip.open if is_compressed(source) else open
        with opener(source, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except (OSError, EOFError, ConfigError):
        return None  # the reader will report the error
