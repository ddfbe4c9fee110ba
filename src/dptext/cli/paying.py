"""Who pays for a run: options, the account they name, and the files that it must not replace."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from dptext.cli.options import PayingLedgerOption, SubjectKeyOption
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.privacy.guarantee import format_epsilon
from dptext.text.files import refuse_inputs

if TYPE_CHECKING:  # loaded by those who name a ledger
    from dptext.ledger.books import Ledger
    from dptext.runs.payment import Due, Payment


@dataclass(frozen=True, slots=True)
class Paying:
    """The options of who pays."""

    ledger: PayingLedgerOption = None
    account: Annotated[str | None, Option(help="The account that pays, before anything is drawn.")] = None
    subject_field: Annotated[
        str | None, Option(help="Charge each subject that this field names; without it, everyone in the account.")
    ] = None
    subject_key: SubjectKeyOption = None
    charge_key: Annotated[str | None, Option(help="Name of the charge: a run again under it is charged once.")] = None

    def payment(self) -> Payment | None:
        """Who pays, or None. The subject key is read only where subjects are charged by name."""
        if self.account is None:
            if self.ledger is not None or self.charge_key is not None:
                raise ConfigError(
                    "Expected --account NAME with --ledger or DPTEXT_LEDGER, and with --charge-key: who pays for the "
                    "run."
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
        return Payment(books, self.account, self.charge_key)

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


def opened(location: str) -> Ledger:
    """The ledger of --ledger."""
    from dptext.ledger.books import Ledger

    return Ledger.at(location)


def default_key(ledger: Ledger) -> Path | None:
    """Where the subject key of a ledger in a file lies: beside it, and not in it."""
    return None if ledger.path is None else ledger.path.with_name(ledger.path.name + ".key")


def cost(due: Due) -> str:
    """What a charge costs, in words."""
    return f"Cost: epsilon {format_epsilon(due.epsilon())} alone, added to what was spent."
