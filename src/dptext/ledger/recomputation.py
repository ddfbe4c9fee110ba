"""Balances recomputed from the charges: everything that a ledger stores for speed must follow from its charges."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter

import sqlalchemy as sa

from dptext._wording import plural
from dptext.errors import ConfigError, IncomparableError, LedgerError
from dptext.ledger import standings
from dptext.ledger.entries import Account, is_within, spent_epsilon
from dptext.ledger.requests import Request, Terms, canonical, digest_of, events_from_text, events_to_text
from dptext.ledger.schema import charged_subjects, charges, requests, subject_balances, tallies
from dptext.ledger.statements import AnyRow
from dptext.privacy import accounting
from dptext.privacy.events import Event
from dptext.privacy.guarantee import format_epsilon

_ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The result of a recomputation: charges read, subjects with charges of their own, and problems, if any."""

    account: str
    charges: int
    subjects: int
    problems: tuple[str, ...]


def recompute(connection: sa.Connection, row: AnyRow, account: Account) -> Recomputation:
    """Recompute the balance of an account from its charges, in a transaction that sees one moment of the ledger."""
    problems: list[str] = []
    known: dict[int, Request] = {}
    for_everyone: list[Event] = []
    terms, n_charges = Terms(), 0
    for number, digest, text, for_all, times in connection.execute(
        sa.select(requests.c.id, requests.c.digest, requests.c.request, charges.c.everyone, sa.func.count())
        .join(charges, charges.c.request_id == requests.c.id)
        .where(charges.c.account_id == row.id)
        .group_by(requests.c.id, requests.c.digest, requests.c.request, charges.c.everyone)
        .order_by(requests.c.id)
    ):
        n_charges += times
        if digest_of(text) != digest:
            problems.append(f"request {number} is not the one that was written: its digest differs")
        try:
            request = Request.from_text(text)
            account.require_same_meaning(request)
        except (ConfigError, IncomparableError) as error:
            problems.append(f"request {number} cannot be counted: {error}")
            continue
        known[number] = request
        terms |= request.terms
        if for_all:
            for_everyone += accounting.repeat(request.events, times)
    if n_charges != row.charges:
        problems.append(f"the balance speaks of {row.charges} charges, there are {n_charges}")
    if not _keeps(connection, row, for_everyone):
        problems.append("the balance of everyone is not the sum of the charges to everyone")
    if canonical(terms.to_dict()) != row.terms:
        problems.append("the terms of the balance are not those of the charges")
    problems += _charges_without_subjects(connection, row.id)
    n_subjects, wrong = _compare_subjects(connection, row.id, known)
    if wrong:
        problems.append(f"the balances of {plural(wrong, 'subject')} are not the sums of their charges")
    if n_subjects != row.subjects:
        problems.append(f"the balance speaks of {row.subjects} subjects, there are {n_subjects}")
    limit = account.limit
    try:
        owned = standings.tallies_of(connection, row.id)
    except LedgerError:
        owned = []  # a problem above says already that balances of subjects are wrong
    for own in [(), *owned]:
        spent = spent_epsilon([*for_everyone, *own], limit)
        if not is_within(spent, limit):
            problems.append(f"overdrawn: epsilon = {format_epsilon(spent)} is spent of {format_epsilon(limit.epsilon)}")
    return Recomputation(account.name, n_charges, n_subjects, tuple(problems))


def _keeps(connection: sa.Connection, row: AnyRow, events: list[Event]) -> bool:
    try:
        is_sound = events_to_text(events_from_text(row.events)) == row.events
        return is_sound and standings.whole(connection, row, row.events) == events_to_text(events)
    except LedgerError:
        return False


def _charges_without_subjects(connection: sa.Connection, account_id: int) -> list[str]:
    counted = (
        sa.select(charged_subjects.c.charge_id, sa.func.count().label("n"))
        .group_by(charged_subjects.c.charge_id)
        .subquery()
    )
    found = connection.execute(
        sa.select(charges.c.id)
        .outerjoin(counted, counted.c.charge_id == charges.c.id)
        .where(
            charges.c.account_id == account_id,
            sa.func.coalesce(counted.c.n, 0) != sa.func.coalesce(charges.c.subjects, 0),
        )
        .order_by(charges.c.id)
    )
    return [f"charge {number} fell on another number of subjects than it says" for (number,) in found]


def _compare_subjects(connection: sa.Connection, account_id: int, known: dict[int, Request]) -> tuple[int, int]:
    """Return the number of subjects, and of subjects whose balance is wrong, missing or without charges."""
    reading = connection.execution_options(yield_per=_ROWS_AT_ONCE)
    charged = reading.execute(
        sa.select(charged_subjects.c.subject, charges.c.request_id, sa.func.count())
        .join(charges, charges.c.id == charged_subjects.c.charge_id)
        .where(charges.c.account_id == account_id)
        .group_by(charged_subjects.c.subject, charges.c.request_id)
        .order_by(charged_subjects.c.subject, charges.c.request_id)
    )
    kept = reading.execute(
        sa.select(subject_balances.c.subject, tallies.c.events, tallies.c.digest)
        .join(tallies, tallies.c.id == subject_balances.c.tally_id)
        .where(subject_balances.c.account_id == account_id)
        .order_by(subject_balances.c.subject)
    )
    texts: dict[tuple[tuple[int, int], ...], str] = {}

    def recomputed() -> Iterator[tuple[bytes, bool, str]]:
        for subject, group in groupby(charged, key=lambda each: bytes(each[0])):
            counts = tuple((number, n) for _, number, n in group)
            if counts not in texts:
                events = [
                    e for number, n in counts if number in known for e in accounting.repeat(known[number].events, n)
                ]
                texts[counts] = events_to_text(events)
            yield subject, True, texts[counts]

    n_subjects = wrong = 0
    # The next charge finds a tally by its digest, so a tally under another's digest would be charged too little.
    theirs = ((bytes(name), False, events if digest_of(events) == digest else "") for name, events, digest in kept)
    for _, both in groupby(merge(recomputed(), theirs, key=itemgetter(0)), key=itemgetter(0)):
        found = {is_ours: text for _, is_ours, text in both}
        n_subjects += True in found
        wrong += found.get(True) != found.get(False)
    return n_subjects, wrong
