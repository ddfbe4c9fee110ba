"""The ledger as a whole: where it and its subject key are, `dptext budget verify` and `dptext budget upgrade`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptext._wording import plural
from dptext.cli.options import JsonOption, LedgerOption
from dptext.errors import DataError
from dptext.types import Json

if TYPE_CHECKING:  # slow to load
    from dptext.ledger.books import Ledger

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The account.")]
OptionalName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The account; all without it.")]


def opened(location: str, subject_key: Path | None, *, named: bool) -> Ledger:
    """The ledger of --ledger, with its subject key where subjects are named."""
    from dptext.ledger.books import Ledger
    from dptext.ledger.subjects import read_subject_key

    ledger = Ledger.at(location)
    path = subject_key or default_key(ledger)
    if not named or path is None:
        return ledger
    return Ledger.at(location, key=read_subject_key(path))


def default_key(ledger: Ledger) -> Path | None:
    """Where the subject key of a ledger in a file lies: beside it, and not in it."""
    return None if ledger.path is None else ledger.path.with_name(ledger.path.name + ".key")


def accounts(ledger: Ledger, name: str | None) -> list[str]:
    """The account of that name, or all."""
    return [name] if name is not None else [account.name for account in ledger.accounts()]


def verify(ledger: LedgerOption, name: OptionalName = None, as_json: JsonOption = False) -> None:
    """Recompute one account, or all."""
    from dptext.ledger.books import Ledger

    books = Ledger.at(ledger)
    found = [books.verify(each) for each in accounts(books, name)]
    if as_json:
        rows: list[dict[str, Json]] = [
            {"account": f.account, "charges": f.charges, "subjects": f.subjects, "problems": list(f.problems)}
            for f in found
        ]
        print(json.dumps(rows, indent=2))
    else:
        for one in found:
            verdict = "; ".join(one.problems) or "the balance follows from the charges"
            print(f"{one.account}: {plural(one.charges, 'charge')}, {plural(one.subjects, 'subject')}: {verdict}")
    if broken := [one.account for one in found if one.problems]:
        raise DataError(f"The books of {', '.join(map(repr, broken))} do not add up: somebody changed them.")


def upgrade(ledger: LedgerOption) -> None:
    """Bring the books to the newest schema."""
    from dptext.ledger.books import Ledger

    books = Ledger.at(ledger)
    done = books.upgrade()
    print(f"{books.name} has the newest schema{' now' if done else ' already'}.")
