"""`dptext budget`: commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from dptext.cli.options import JsonOption, LedgerOption, SubjectKeyOption

budget = typer.Typer(
    help="Budgets that outlive the run: accounts with a limit, and charges that nothing takes back.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The account.")]
OptionalName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The account; all without it.")]


@budget.command("open")
def open_account(
    name: NameArgument,
    epsilon: Annotated[float, typer.Option("--epsilon", help="What all releases together may cost one subject.")],
    unit: Annotated[str, typer.Option("--unit", help="Who the subject is: document or author.")],
    ledger: LedgerOption,
    delta: Annotated[float, typer.Option("--delta", help="The delta of that limit.")] = 0.0,
    relation: Annotated[
        str, typer.Option("--relation", help="replace_one, add_or_remove_one or replace_special.")
    ] = "replace_one",
    dataset: Annotated[str | None, typer.Option("--dataset", help="Whose texts; default: NAME.")] = None,
    by_subject: Annotated[
        bool, typer.Option("--by-subject", help="Allow charges to named subjects; makes the key where there is none.")
    ] = False,
    subject_key: SubjectKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open an account, and the ledger where there is none yet. A limit never changes."""
    from dptext.cli import budget as command

    command.open_account(
        name,
        ledger,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        relation=relation,
        dataset=dataset,
        by_subject=by_subject,
        subject_key=subject_key,
        as_json=as_json,
    )


@budget.command()
def show(
    ledger: LedgerOption,
    name: OptionalName = None,
    tight: Annotated[
        bool, typer.Option("--tight", help="Also what the charges cost by the tightest known bound; takes seconds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """What is spent and what is left: spent is rounded up, left down."""
    from dptext.cli import budget as command

    command.show(ledger, name, as_json, tight=tight)


@budget.command()
def log(
    name: NameArgument,
    ledger: LedgerOption,
    last: Annotated[int | None, typer.Option("--last", help="Only the newest so many charges.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The charges of an account, oldest first."""
    from dptext.cli import budget as command

    command.log(ledger, name, last, as_json)


@budget.command()
def verify(ledger: LedgerOption, name: OptionalName = None, as_json: JsonOption = False) -> None:
    """Recompute balances from the charges; exit code 4 where they do not add up."""
    from dptext.cli import budget as command

    command.verify(ledger, name, as_json)


@budget.command()
def upgrade(ledger: LedgerOption) -> None:
    """Bring a ledger that an older dptext wrote to the newest schema."""
    from dptext.cli import budget as command

    command.upgrade(ledger)
