"""Commands and their options. Heavy libraries are imported by the command that needs them, not here."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, NoReturn

import typer
import typer.main

from dptext.cli.audit_app import audit
from dptext.cli.budget_app import budget
from dptext.cli.options import (
    DeltaOption,
    ForceOption,
    JsonOption,
    LabelFieldOption,
    MechanismOption,
    ModelOption,
    PublicOption,
    SetOption,
    SpecOption,
    SubjectKeyOption,
    TextFieldOption,
    any_path,
    file_argument,
    file_option,
    folder_option,
    folder_path,
    ledger_location,
    output_option,
    output_path,
)
from dptext.cli.stopping import Stopped, listen
from dptext.cli.terminal import open_streams
from dptext.cli.utility_app import utility
from dptext.errors import BudgetExceededError, ConfigError, DataError, DPTextError

INTERNAL_ERROR = 70
#: What the system answers where a path or a disk cannot be used.
_REFUSALS: Final = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP),
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
        *(errno.EBUSY, errno.ETXTBSY, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.EMFILE, errno.ENFILE),
    )
)

app = typer.Typer(
    name="dptext",
    help="Rewrite text under differential privacy, and say exactly what was guaranteed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # the plain help is three times as fast to start
    pretty_exceptions_enable=False,
)

app.add_typer(audit, name="audit")
app.add_typer(budget, name="budget")
app.add_typer(utility, name="utility")


@app.command()
def mechanisms(as_json: JsonOption = False) -> None:
    """List the mechanisms, their settings and what they can guarantee."""
    from dptext.cli import mechanisms as command

    command.show(as_json)


@app.command()
def explain(
    certificate: Annotated[
        Path | None,
        typer.Argument(
            parser=any_path,
            help="OUT.guarantee.json, or OUT with it beside: verify OUT and say it in words. Or MODEL, a folder.",
        ),
    ] = None,
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    unit: Annotated[str | None, typer.Option("--unit", help="token, sentence, document or author.")] = None,
    delta: DeltaOption = 0.0,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", parser=ledger_location, help="With a certificate: look the charge up in these books, too."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say in plain words what a certificate, a model, or a mechanism with these settings guarantees."""
    from dptext.cli import explain as command

    if certificate is not None:
        of_model = certificate.is_dir()
        if mechanism or settings or spec or (unit and not of_model):
            raise ConfigError("Expected a certificate or a mechanism with settings, not both.")
        if not of_model:
            command.explain_certificate(certificate, ledger, as_json)
        elif ledger is None:
            command.explain_model(certificate, unit=unit, delta=delta, as_json=as_json)
        else:
            raise ConfigError("Expected a certificate with --ledger: the books speak of releases.")
    elif ledger is not None:
        raise ConfigError("Expected a certificate with --ledger: the books speak of releases.")
    else:
        command.explain_spec(mechanism, settings or [], spec, unit=unit, delta=delta, as_json=as_json)


@app.command()
def fit(
    target: Annotated[Path, folder_option("--out", metavar="MODEL", help="New folder of the model.")],
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    public: PublicOption = None,
    private: Annotated[
        Path | None,
        file_option("--private", help="Private records to train on, where the mechanism is made for it."),
    ] = None,
    pool: Annotated[
        Path | None,
        file_option("--pool", help="Public records to choose among, where not those of --public."),
    ] = None,
    text_field: TextFieldOption = "text",
    label_field: LabelFieldOption = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the training, which is public; no secret.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a model for `privatize --model`, from public records or, where a mechanism says so, from private ones."""
    from dptext.cli import fit as command
    from dptext.cli.privatize import chosen_spec

    command.run(
        chosen_spec(mechanism, settings or [], spec),
        target,
        public=public,
        private=private,
        pool=pool,
        text_field=text_field,
        label_field=label_field,
        seed=seed,
        as_json=as_json,
    )


@app.command()
def privatize(
    source: Annotated[Path, file_argument(metavar="IN", help="Records: .jsonl .csv .parquet .txt, also .gz.")],
    target: Annotated[
        Path,
        typer.Argument(metavar="OUT", parser=output_path, help="The new file; OUT.guarantee.json is its certificate."),
    ],
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    text_field: TextFieldOption = "text",
    id_field: Annotated[
        str | None, typer.Option("--id-field", help="Field of the ids (released!); default 0, 1, 2, ...")
    ] = None,
    label_field: LabelFieldOption = None,
    author_field: Annotated[str | None, typer.Option("--author-field", help="Field of the author.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="Public field to copy to the output. Repeatable.")
    ] = None,
    input_format: Annotated[str | None, typer.Option("--format", help="jsonl, csv, parquet or text.")] = None,
    output_format: Annotated[str | None, typer.Option("--output-format", help="The same for OUT.")] = None,
    on_error: Annotated[str, typer.Option("--on-error", help="stop, or skip unreadable records.")] = "stop",
    max_per_author: Annotated[
        int | None, typer.Option("--max-per-author", help="Refuse more records of one author than this.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            parser=ledger_location,
            envvar="DPTEXT_LEDGER",
            show_envvar=True,
            help="Books with the account; see `dptext budget`.",
        ),
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", help="The account that pays, before anything is drawn.")
    ] = None,
    subject_field: Annotated[
        str | None,
        typer.Option(
            "--subject-field", help="Charge each subject that this field names; without it, everyone in the account."
        ),
    ] = None,
    subject_key: SubjectKeyOption = None,
    charge_key: Annotated[
        str | None,
        typer.Option("--charge-key", help="Name of the charge: a run tried again under it is charged once."),
    ] = None,
    delta: DeltaOption = 0.0,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Records computed together, and at most in a block of OUT.")
    ] = 256,
    seed: Annotated[int | None, typer.Option("--seed", help="For experiments: voids the guarantee.")] = None,
    without_guarantee: Annotated[
        bool, typer.Option("--without-guarantee", help="Run a mechanism that guarantees nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT; throw away an unfinished run.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run.")] = False,
    safe_csv: Annotated[
        bool,
        typer.Option(
            "--safe-csv",
            help="In CSV, an apostrophe before texts that a spreadsheet computes: they begin with = + - @ tab CR.",
        ),
    ] = False,
    device: Annotated[
        str | None, typer.Option("--device", help="With --model: where its network computes, if not as it was fitted.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Privatize the records of IN into OUT, with a certificate beside it."""
    from dptext.cli import privatize as command

    command.run(
        source,
        target,
        command.chosen(mechanism, settings or [], spec, model),
        command.plan(
            text_field=text_field,
            id_field=id_field,
            label_field=label_field,
            author_field=author_field,
            subject_field=subject_field,
            keep=keep or [],
            input_format=input_format,
            output_format=output_format,
            on_error=on_error,
            max_per_author=max_per_author,
            delta=delta,
            batch_size=batch_size,
            without_guarantee=without_guarantee,
            force=force,
            resume=resume,
            safe_csv=safe_csv,
        ),
        payment=command.payment(ledger, account, charge_key, subject_key=subject_key, named=subject_field is not None),
        seed=seed,
        as_json=as_json,
        device=device,
        inputs=(spec, model, subject_key),
    )


@app.command()
def compare(
    experiment: Annotated[Path, file_argument(metavar="EXPERIMENT.toml", help="Corpora, mechanisms, what to measure.")],
    out: Annotated[
        Path,
        folder_option("--out", metavar="DIR", help="Folder of cells and table; gone on with if there."),
    ],
    workers: Annotated[int, typer.Option("--workers", help="Processes at once; 0 is one a core.")] = 0,
    memory: Annotated[
        float, typer.Option("--memory", metavar="GIB", help="What a process may take; 0 is an equal share.")
    ] = 0.0,
    keep_private_samples: Annotated[
        bool, typer.Option("--keep-private-samples", help="Keep some private originals in DIR, for the report.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Run cells again that failed.")] = False,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Go on in DIR with another experiment; equal cells are kept.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a grid of mechanisms over corpora into one table. Exit code 1: a claim was refuted; 5: cells failed."""
    from dptext.cli import compare as command

    raise typer.Exit(
        command.run(
            experiment,
            out,
            workers=workers,
            memory=memory,
            keep_private_samples=keep_private_samples,
            retry=retry,
            accept_changes=accept_changes,
            as_json=as_json,
        )
    )


@app.command()
def recommend(
    unit: Annotated[str, typer.Option("--unit", help="token, sentence, document or author.")] = "document",
    epsilon: Annotated[float, typer.Option("--epsilon", help="The most that a release may cost.")] = 10.0,
    task: Annotated[
        str, typer.Option("--task", help="classification, meaning, or authorship (that it stays hidden).")
    ] = "classification",
    delta: Annotated[float, typer.Option("--delta", help="At most; above 1e-3 nothing is protected.")] = 1e-3,
    table: Annotated[
        Path | None,
        typer.Option(
            "--table", parser=any_path, help="Folder of `dptext compare`, or a file of --reduce; not our own table."
        ),
    ] = None,
    reduce: Annotated[
        Path | None,
        output_option("--reduce", metavar="FILE", help="Also write the rows that are read of --table."),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Name the mechanism that measured best under a guarantee, with the rows behind it; or say "none"."""
    from dptext.cli import recommend as command

    command.run(unit, epsilon, task, delta=delta, table=table, reduce=reduce, force=force, as_json=as_json)


@app.command()
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", parser=folder_path, help="Folder that `dptext compare` wrote.")
    ],
    target: Annotated[Path | None, output_option("--out", help="The page; default: DIR/report.html.")] = None,
    show_private: Annotated[
        bool, typer.Option("--show-private", help="Also show samples of private records, where they were kept.")
    ] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table for each corpus instead of the page.")
    ] = False,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="A column of --markdown, such as fidelity.cosine. Repeatable.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write what `dptext compare` measured as one HTML page, which needs no network and no JavaScript."""
    from dptext.cli import report as command

    if as_markdown or metric:
        if not as_markdown:
            raise ConfigError("Expected --metric with --markdown: the page shows every metric.")
        command.show_markdown(folder, metric or [], others=target is not None or show_private or as_json)
        return
    command.run(folder, target, show_private=show_private, force=force, as_json=as_json)


@app.command()
def demo(as_json: JsonOption = False) -> None:
    """Fit ADePT on built-in sample texts, privatize others, and show what was guaranteed, kept and leaked."""
    from dptext.cli import demo as command

    command.show(as_json)


def exit_code(error: DPTextError) -> int:
    """2 bad usage or settings, 3 budget refused, 4 bad data."""
    match error:
        case BudgetExceededError():
            return 3
        case DataError():
            return 4
        case _:
            return 2


def _withhold(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """Report an unexpected error and end."""
    _tell(kind, trace)
    os._exit(INTERNAL_ERROR)  # an exception would end with status 1, which means that an audit refuted a claim


def _withhold_unraisable(found: sys.UnraisableHookArgs) -> None:
    """Report an error of what ends as an object goes, which Python would print whole; a signal may come there, too."""
    if isinstance(found.exc_value, Stopped):
        print(f"dptext: {found.exc_value}", file=sys.stderr, flush=True)
        os._exit(found.exc_value.code)
    _tell(found.exc_type, found.exc_traceback)


def _tell(kind: type[BaseException], trace: TracebackType | None) -> None:
    """Report an unexpected error without its message, which might hold private text."""
    frame = trace
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
    print(f"dptext: internal error {kind.__name__}{where}; its message is withheld.", file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line; every deliberate error becomes one line on stderr and an exit code."""
    sys.excepthook = _withhold
    sys.unraisablehook = _withhold_unraisable
    threading.excepthook = lambda found: _tell(found.exc_type, found.exc_traceback)
    open_streams()
    listen()
    try:
        try:
            typer.main.get_command(app)()  # calling app itself would put typer's own excepthook in place
        finally:
            sys.stdout.flush()
    except (DPTextError, OSError) as error:
        problem = error if isinstance(error, DPTextError) else refusal(error)
        if problem is None:
            raise
        _end(str(problem), exit_code(problem))
    except Stopped as stopped:
        _end(str(stopped), stopped.code)


def refusal(error: OSError) -> ConfigError | None:
    """What the system says of a path or a disk, where nobody said it better; None for what is no such fault."""
    if error.errno not in _REFUSALS:
        return None
    path = "a file" if error.filename is None else repr(error.filename)
    return ConfigError(
        f"Cannot use {path}: {os.strerror(error.errno)}. Look at the paths of the command, what you may "
        "read and write there, and the room on the disk."
    )


def _end(message: str, code: int) -> NoReturn:
    print("dptext: " + message.replace("\n", "\\n"), file=sys.stderr, flush=True)
    raise SystemExit(code) from None
