"""What was charged to everyone in an account: recent events in its balance, earlier ones in a row of their own.

A charge rewrites the recent ones alone, so it does not slow with the number of different events. Once they are many,
they are folded into the earlier ones. The balance keeps the sha256 of those: no edit of them is believed.
"""

import sqlalchemy as sa

from dptext.errors import LedgerError
from dptext.ledger.schema import balances, earlier_events
from dptext.ledger.spending import keep_sums, known_sums, sums_of
from dptext.ledger.statements import AnyRow, insert_into
from dptext.ledger.texts import DAMAGED, digest_of, events_from_text, run_lengths, with_events
from dptext.privacy.composition import Sums

_MOST_RECENT = 32  # run lengths; a row of PostgreSQL with so many is not yet compressed


def whole(connection: sa.Connection, row: AnyRow, recent: str) -> str:
    """All that was charged to everyone, as text, from the account's row; LedgerError where it is damaged."""
    return with_events(_earlier(connection, row), events_from_text(recent))


def _earlier(connection: sa.Connection, row: AnyRow) -> str:
    chosen = sa.select(earlier_events.c.events).where(earlier_events.c.account_id == row.id)
    text = connection.execute(chosen).scalar_one_or_none()
    if (None if text is None else digest_of(text)) != row.earlier:
        raise LedgerError(DAMAGED)
    return text or "[]"


def earlier_sums(connection: sa.Connection, row: AnyRow) -> Sums | None:
    """The sums of the earlier events, which are read only where their digest is new to this process."""
    if row.earlier is None:
        return Sums()
    return known_sums(row.earlier, lambda: _earlier(connection, row))


def fold(connection: sa.Connection, row: AnyRow, recent: str) -> None:
    """Put the recent events of a balance, which is locked, among the earlier ones if they have become many."""
    if run_lengths(recent) <= _MOST_RECENT:
        return
    text = whole(connection, row, recent)
    digest = digest_of(text)
    keep_sums(digest, [earlier_sums(connection, row), sums_of(recent)])
    adding = insert_into(connection)(earlier_events)
    adding = adding.on_conflict_do_update(index_elements=["account_id"], set_={"events": adding.excluded.events})
    connection.execute(adding, {"account_id": row.id, "events": text})
    emptied = sa.update(balances).where(balances.c.account_id == row.id).values(events="[]", earlier=digest)
    connection.execute(emptied)
