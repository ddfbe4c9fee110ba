"""A charge in full or not at all: weighed against the limit and written, inside one transaction."""

from collections.abc import Iterator

import sqlalchemy as sa

from dptext.errors import BudgetExceededError
from dptext.ledger import everyone, standings
from dptext.ledger import statements as rows
from dptext.ledger.entries import Charge
from dptext.ledger.requests import Request


def write_whole(
    connection: sa.Connection,
    account: str,
    request: Request,
    *,
    key: str,
    at: str,
    hashes: Iterator[bytes] | None,
    digest: str,
) -> Charge:
    """Charge a run, or find the charge that the key has already for the same run.

    The transaction writes. The hashes are of the subjects, one for each unit; None charges everyone in the account. The
    digest is of these hashes in their order; empty for everyone. The errors are those of `Ledger.charge`.
    """
    row = rows.locked_account(connection, account, key=key, digest=rows.request_digest(request))
    found = rows.to_account(row)
    found.require_same_meaning(request)
    received = None
    if hashes is not None:
        received = digest, standings.receive(connection, hashes, request.units_per_subject)
    number, affected = None, list[standings.Standing]()
    if row.previous_id is None:
        try:
            events = row.events
            if received is None:
                events = standings.weigh_everyone(connection, row, found, request)
            else:
                affected = standings.weigh_subjects(connection, row, found, request)
        except BudgetExceededError:
            if rows.charge(connection, row.id, key) is None:
                raise
        else:
            number = rows.write_charge(
                connection,
                row,
                key=key,
                request_id=row.request_id or rows.new_request_id(connection, request),
                terms=request.terms,
                at=at,
                received=received,
                events=events,
                new_subjects=sum(each.subjects for each in affected if each.tally_id is None),
            )
    if number is None:  # it was there before, or another wrote it while this one waited for the lock
        return rows.same_charge(rows.charge(connection, row.id, key), found, request, received)
    everyone.fold(connection, row, events)
    if affected:
        standings.move_subjects(connection, row, number, affected)
    return Charge(number, account, key, request, received and received[1], at, None, received and received[0])
