"""Who pays for a run: options, the account they name, and the files that it must not replace."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dptext.cli.progress import say
from dptext.errors import ConfigError
from dptext.text.files import refuse_inputs

if TYPE_CHECKING:  # loaded by those who name a ledger
    from dptext.runs.payment import Payment

AccountOption = Annotated[
    str | None, typer.Option("--account", help="The account that pays, before anything is drawn.")
]
SubjectFieldOption = Annotated[
    str | None,
    typer.Option(
        "--subject-field", help="Charge each subject that this field names; without it, everyone in the account."
    ),
]
ChargeKeyOption = Annotated[
    str | None, typer.Option("--charge-key", help="Name of the charge: a run tried again under it is charged once.")
]


def paid_by(
    ledger: str | None, account: str | None, charge_key: str | None, *, subject_key: Path | None, by_name: bool
) -> Payment | None:
    """Who pays, or None. The subject key is read only where subjects are charged by name."""
    if account is None:
        if ledger is not None or charge_key is not None:
            raise ConfigError(
                "Expected --account NAME with --ledger or DPTEXT_LEDGER, and with --charge-key: who pays for the run."
            )
        return None
    if ledger is None:
        raise ConfigError("Expected --ledger with --account: the books that the account is in.")
    from dptext.cli.budget.books import opened
    from dptext.runs.payment import Payment

    return Payment(opened(ledger, subject_key, named=by_name), account, charge_key)


def said_key(payment: Payment | None) -> Payment | None:
    """The payment under a key that was said: whoever is stopped goes on under it."""
    if payment is None:
        return None
    payment = replace(payment, key=payment.key or secrets.token_hex(16))
    say(f"Where the corpus is not read to its end, go on with --charge-key {payment.key}: it is charged once.")
    return payment


def refuse_inputs_of(written: Sequence[Path], inputs: Sequence[Path | None], payment: Payment | None) -> None:
    """Refuse to write what is read: the inputs, the books and their key."""
    read = [path for path in inputs if path is not None]
    if payment is not None and payment.ledger.path is not None:
        from dptext.cli.budget.books import default_key

        read += [payment.ledger.path, default_key(payment.ledger) or payment.ledger.path]
    for path in written:
        refuse_inputs(path, read)
