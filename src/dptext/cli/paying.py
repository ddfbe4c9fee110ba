"""The payment for a run, and the preview of a run and its cost."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from dptext._wording import plural
from dptext.cli.grouped import pays
from dptext.cli.options import PayingLedgerOption, SubjectKeyOption, default_key, opened
from dptext.cli.terminal import say
from dptext.errors import ConfigError, LedgerError
from dptext.privacy.guarantee import Guarantee, format_epsilon
from dptext.runs.states import unfinished_beside
from dptext.text.files import refuse_inputs
from dptext.types import Json

if TYPE_CHECKING:  # loaded only if a ledger is named
    from dptext.runs.certificate import Certificate
    from dptext.runs.payment import Due, Payment


@dataclass(frozen=True, slots=True)
class Paying:
    ledger: PayingLedgerOption = None
    account: Annotated[
        str | None, pays(metavar="NAME", help="The account that is charged, before anything is drawn.")
    ] = None
    subject_field: Annotated[
        str | None,
        pays(
            metavar="NAME",
            help="Field of the subjects to charge, each by name. The account was opened with --by-subject.",
        ),
    ] = None
    everyone: Annotated[
        bool,
        pays(
            "--everyone",
            help="Charge everyone in an account opened with --by-subject, even those whom the run does not name.",
        ),
    ] = False
    subject_key: SubjectKeyOption = None
    charge_key: Annotated[
        str | None, pays(metavar="KEY", help="Name of the charge. Another run under this name is not charged again.")
    ] = None

    def payment(self) -> Payment | None:
        """Return the payment, or None. The subject key is read only if subjects are charged by name."""
        if self.account is None:
            if self.ledger is not None or self.charge_key is not None or self.everyone:
                raise ConfigError(
                    "Expected --account NAME with --ledger or DPTEXT_LEDGER, with --charge-key and --everyone: who "
                    "pays for the run."
                )
            return None
        if self.ledger is None:
            raise ConfigError("Expected --ledger with --account: the ledger that holds the account.")
        from dptext.runs.payment import Payment

        books = opened(self.ledger)
        key = self.subject_key or default_key(books)
        if self.subject_field is not None and key is not None:
            from dptext.ledger.subjects import read_subject_key

            books = type(books).at(self.ledger, key=read_subject_key(key))
        return Payment(books, self.account, self.charge_key, self.everyone)

    def refuse_inputs(self, written: Sequence[Path], inputs: Sequence[Path | None], payment: Payment | None) -> None:
        """Refuse to write over files that are read: the inputs, the ledger and its key."""
        read = [path for path in (*inputs, self.subject_key) if path is not None]
        if payment is not None and payment.ledger.path is not None:
            read += [payment.ledger.path, default_key(payment.ledger) or payment.ledger.path]
        for path in written:
            refuse_inputs(path, read)


def said_key(payment: Payment | None) -> Payment | None:
    """Return the payment, and print its charge key. A stopped run continues under this key."""
    if payment is None:
        return None
    payment = replace(payment, key=payment.charge_key())
    say(
        "If the run stops, go on with --resume, which charges nothing twice. If its unfinished files are lost before "
        f"the corpus is read to its end, go on with --charge-key {payment.key}: it is charged once."
    )
    return payment


QUICK: Final = 1000  #: run lengths of an account, of which many sums are made in less than a second
#: Said of a paid run that ended early.
CHARGED: Final = " What was charged stays charged: --resume finds the charge, --force charges anew."
PAID: Final = "Cost: nothing more, because the charge is in the ledger already."


def cost(due: Due) -> str:
    """Say what a run would cost, what would be spent afterwards, and how many more like it would fit."""
    alone = f"Cost: epsilon {format_epsilon(due.epsilon())} alone"
    spent = due.payment.left()
    if _is_by_name(due):
        return f"{alone}, added to what was spent. {spent}"
    after, room = _afterwards(due)
    limit = format_epsilon(due.account.limit.epsilon)
    return f"{alone}. {spent} Afterwards {format_epsilon(after)} of {limit} would be spent, and {_more(room)}."


def charge_data(due: Due | None) -> dict[str, Json] | None:
    """Return `cost` as JSON-able data; None if nothing would be charged."""
    if due is None:
        return None
    data: dict[str, Json] = {"account": due.account.name, "epsilon": due.epsilon()}
    if not _is_by_name(due):
        data["spent_afterwards"], data["more_like_it"] = _afterwards(due)
    return data


def what_is_left(payment: Payment, certificate: Certificate) -> str:
    """Say what a charged run has left in its account, and how many more like it would fit."""
    said, charged = payment.left(), certificate.charged
    if charged is None or charged.by_subject:
        return said
    with contextlib.suppress(LedgerError):  # `said` says what is wrong with the ledger
        outlook = payment.ledger.outlook(charged.account)
        if sum(map(len, outlook.histories)) <= QUICK:
            more = _more(outlook.room(payment.ledger.find(charged.number).request.events))
            return f"{said} {more[0].upper()}{more[1:]}."
    return said


def _is_by_name(due: Due) -> bool:
    """Return whether subjects pay by name, so that the next run of other subjects costs them nothing."""
    return due.account.by_subject and not due.payment.everyone


def _afterwards(due: Due) -> tuple[float, int]:
    """Return the epsilon that would be spent after a charge to everyone, and how many more like it would fit."""
    outlook, events = due.payment.ledger.outlook(due.account.name), due.request.events
    return outlook.spent(events), max(0, outlook.room(events) - 1)


def _more(room: int) -> str:
    from dptext.ledger.outlooks import MOST_COUNTED

    counted = f"at least {room:,}" if room >= MOST_COUNTED - 1 else f"{room:,}" if room else "no"
    return f"{counted} more like it would fit"


def rehearsed_force(output: Path, *beside: Path, force: bool, resume: bool = False) -> bool:
    """Return whether a dry run goes on where an output is: --force is given, or it would be needed.

    A line says that it would be needed. Beside an unfinished run, which may be paid, a dry run ends as the run would.
    """
    there = [path for path in (output, *beside) if os.path.lexists(path)]
    if force or resume or not there or unfinished_beside(output) is not None:
        return force
    say(f"{there[0]} is there already: a run needs another name, or --force, which overwrites it.")
    return True


def rehearsal(
    n_records: int,
    promised: Sequence[Guarantee],
    due: Due | None,
    data: Mapping[str, Json] | None,
    told: Sequence[str] = (),
    last: Sequence[str] = (),
) -> str:
    """Say what a run would do: as JSON with `data`, if given, else in lines, with the lines `told` and `last`."""
    if data is not None:
        guarantees = [guarantee.to_dict() for guarantee in promised]
        return json.dumps(
            {"records": n_records, **data, "guarantees": guarantees, "charge": charge_data(due)}, indent=2
        )
    lead = f"A run would release {plural(n_records, 'record')}. Nothing was drawn, charged or written."
    return "\n".join([lead, *told, promised[-1].sentence(), *last])
