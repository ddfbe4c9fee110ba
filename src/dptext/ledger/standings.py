"""Standings and charges: a charge is weighed against the limit and written in full or not at all, in one transaction.

Events charged to everyone in an account: the recent events are in its balance, the earlier events in a row of their
own. A charge rewrites the recent events alone, so it does not slow with the number of different events. When the recent
events are many, they are folded into the earlier events. The balance keeps the sha256 of the earlier events, so that an
edit of them is refused.

Subjects are handled in sets. Their hashes go through a temporary table, and the few different standings that subjects
have (`tallies`) are computed once each. So memory and the number of statements do not grow with the subjects.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from dptext._wording import plural
from dptext.errors import BudgetExceededError, DataError, LedgerError
from dptext.ledger import statements
from dptext.ledger.entries import Account, Charge, after_charge, fits, keep_sums, known_sums, require_within, sums_of
from dptext.ledger.requests import DAMAGED, Request, digest_of, entries, events_from_text, with_events
from dptext.ledger.schema import Natural, balances, charged_subjects, earlier_events, subject_balances, tallies
from dptext.ledger.statements import AnyRow, insert_into, once
from dptext.privacy.composition import Sums
from dptext.privacy.events import Event

_ROWS_AT_ONCE = 1000
MOST_RECENT = 32  # run lengths; a row of PostgreSQL with so many is not yet compressed
_incoming = sa.Table(
    "incoming_subjects",
    sa.MetaData(),
    sa.Column("subject", sa.LargeBinary, primary_key=True),
    sa.Column("units", sa.Integer, nullable=False),
    prefixes=["TEMPORARY"],
)

_moves = sa.Table(
    "subject_moves",
    sa.MetaData(),
    sa.Column("before", Natural, primary_key=True, autoincrement=False),
    sa.Column("after", Natural, nullable=False),
    prefixes=["TEMPORARY"],
)

# The query jumps from one value of the index to the next, so that it does not read a row for each subject.
_DISTINCT_TALLIES = sa.text(
    """
    WITH RECURSIVE found (tally_id) AS (
      SELECT MIN(tally_id) FROM subject_balances WHERE account_id = :account
      UNION ALL
      SELECT (SELECT MIN(s.tally_id) FROM subject_balances s WHERE s.account_id = :account AND s.tally_id > f.tally_id)
      FROM found f WHERE f.tally_id IS NOT NULL
    )
    SELECT t.events FROM found f JOIN tallies t ON t.id = f.tally_id
    """
).columns(tallies.c.events)


#: The digest of the hashes of subjects in their order, and the hashes, one for each unit.
Subjects = tuple[str, Iterable[bytes]]


def write_whole(
    connection: sa.Connection, account: str, request: Request, key: str, at: str, subjects: Subjects | None
) -> Charge:
    """Charge a run, or return the charge that the key has already for the same run.

    The connection is in a writing transaction. Without subjects everyone in the account is charged. Errors: see
    `Ledger.charge`.
    """
    row = statements.locked_account(connection, account, key=key, digest=statements.written(request)[1])
    found = statements.to_account(row)
    found.require_same_meaning(request)
    received = None
    if subjects is not None:
        received = subjects[0], _receive(connection, subjects[1], request.units_per_subject)
    number, affected = None, list[_Standing]()
    if row.previous_id is None:
        try:
            events = row.events
            if received is None:
                events = weigh_everyone(connection, row, found, request)
            else:
                affected = _weigh_subjects(connection, row, found, request)
        except BudgetExceededError:
            if statements.charge(connection, row.id, key) is None:
                raise
        else:
            request_id = row.request_id or statements.new_request_id(connection, request)
            new = sum(each.subjects for each in affected if each.tally_id is None)
            charge = key, request_id, received is None, *(received or (None, None)), at
            balance = events, statements.merged(row.terms, request.terms), row.charges + 1, row.subjects + new
            number = statements.write_charge(connection, row.id, charge, balance)
    if number is None:  # the charge was there before, or was written while this one waited for the lock
        return statements.same_charge(statements.charge(connection, row.id, key), found, request, received)
    _fold(connection, row, events)
    if affected:
        _move_subjects(connection, row, number, affected)
    return Charge(number, account, key, request, received and received[1], at, None, received and received[0])


def whole(connection: sa.Connection, row: AnyRow, recent: str) -> str:
    """Return all events charged to everyone, as text, from the account's row. LedgerError: they are damaged."""
    return with_events(_earlier(connection, row), events_from_text(recent))


def _earlier(connection: sa.Connection, row: AnyRow) -> str:
    chosen = sa.select(earlier_events.c.events).where(earlier_events.c.account_id == row.id)
    text = connection.execute(chosen).scalar_one_or_none()
    if (None if text is None else digest_of(text)) != row.earlier:
        raise LedgerError(DAMAGED)
    return text or "[]"


def _earlier_sums(connection: sa.Connection, row: AnyRow) -> Sums | None:
    """Return the sums of the earlier events, which are read only if their digest is new to this process."""
    if row.earlier is None:
        return Sums()
    return known_sums(row.earlier, lambda: _earlier(connection, row))


def _fold(connection: sa.Connection, row: AnyRow, recent: str) -> None:
    """Move the recent events of a balance, which is locked, to the earlier events if they have become many."""
    if len(entries(recent)) <= MOST_RECENT:
        return
    text = whole(connection, row, recent)
    digest = digest_of(text)
    keep_sums(digest, [_earlier_sums(connection, row), sums_of(recent)])
    adding = insert_into(connection)(earlier_events)
    adding = adding.on_conflict_do_update(index_elements=["account_id"], set_={"events": adding.excluded.events})
    connection.execute(adding, {"account_id": row.id, "events": text})
    connection.execute(sa.update(balances).where(balances.c.account_id == row.id).values(events="[]", earlier=digest))


def weigh_everyone(connection: sa.Connection, row: AnyRow, account: Account, request: Request) -> str:
    """Return the account's recent events after a charge to everyone. BudgetExceededError: a subject cannot pay."""
    own = _tally_texts(connection, row.id) if row.subjects else []
    _weigh(connection, row, ["[]", *own], account, request)
    return after_charge(row.events, request.events)


def _weigh(connection: sa.Connection, row: AnyRow, own: Sequence[str], account: Account, request: Request) -> None:
    if fits(row.events, own, request.events, account.limit, _earlier_sums(connection, row)):
        return
    for_all = events_from_text(whole(connection, row, row.events))
    require_within(account, [[*for_all, *events_from_text(text)] for text in own], request.events)


def tallies_of(connection: sa.Connection, account_id: int) -> list[tuple[Event, ...]]:
    """Return the events charged to the account's subjects by name, each distinct list once."""
    return list(map(events_from_text, _tally_texts(connection, account_id)))


def _tally_texts(connection: sa.Connection, account_id: int) -> list[str]:
    return [text for (text,) in connection.execute(_DISTINCT_TALLIES, {"account": account_id})]


def tally_of(connection: sa.Connection, account_id: int, subject: bytes) -> tuple[Event, ...]:
    """Return the events charged to one subject by name; none for a subject without charges of its own."""
    own = connection.execute(
        sa.select(tallies.c.events)
        .join(subject_balances, subject_balances.c.tally_id == tallies.c.id)
        .where(subject_balances.c.account_id == account_id, subject_balances.c.subject == subject)
    ).scalar_one_or_none()
    return events_from_text(own) if own else ()


def _receive(connection: sa.Connection, hashes: Iterable[bytes], units_per_subject: int) -> int:
    """Write the subjects of a run to a temporary table and count the different ones; DataError for too many units."""
    connection.execute(CreateTable(_incoming, if_not_exists=True))
    connection.execute(sa.delete(_incoming))
    adding = insert_into(connection)(_incoming)
    both = {"units": _incoming.c.units + adding.excluded.units}
    adding = adding.on_conflict_do_update(index_elements=["subject"], set_=both)
    remaining = iter(hashes)
    while some := list(islice(remaining, _ROWS_AT_ONCE)):
        connection.execute(adding, [{"subject": each, "units": n} for each, n in sorted(Counter(some).items())])
    counted = sa.select(sa.func.count(), sa.func.max(_incoming.c.units)).select_from(_incoming)
    n_subjects, most = connection.execute(counted).one()
    if (most or 0) > units_per_subject:
        raise DataError(
            f"Expected at most {plural(units_per_subject, 'record')} of each subject in the run, found {most} of one: "
            "nothing is charged and nothing is released."
        )
    return int(n_subjects)


@dataclass(frozen=True, slots=True)
class _Standing:
    """The subjects of a run that were charged the same events before."""

    tally_id: int | None  #: their events before the run; None if they were never charged by name
    after: str  #: their events after the run, as text
    subjects: int


def _weigh_subjects(connection: sa.Connection, row: AnyRow, account: Account, request: Request) -> list[_Standing]:
    """Return the standings of the received subjects. BudgetExceededError: a subject cannot pay."""
    mine = sa.and_(subject_balances.c.account_id == row.id, subject_balances.c.subject == _incoming.c.subject)
    found = connection.execute(
        sa.select(tallies.c.id, tallies.c.events, sa.func.count())
        .select_from(_incoming.outerjoin(subject_balances, mine).outerjoin(tallies))
        .group_by(tallies.c.id, tallies.c.events)
    ).all()
    own = [events or "[]" for _, events, _ in found]
    if own:
        _weigh(connection, row, own, account, request)
    after = (
        _Standing(tally_id, after_charge(events, request.events), int(n))
        for (tally_id, _, n), events in zip(found, own, strict=True)
    )
    return sorted(after, key=lambda each: each.after)  # two accounts write new tallies in one order: no deadlock


def _move_subjects(connection: sa.Connection, row: AnyRow, number: int, standings: Sequence[_Standing]) -> None:
    """Write the subjects that were received to the charge, and move each to its new standing."""
    received = sa.select(sa.literal(number), _incoming.c.subject)
    connection.execute(sa.insert(charged_subjects).from_select(["charge_id", "subject"], received))
    after = {each.tally_id: once(connection, tallies, digest_of(each.after), each.after) for each in standings}
    new = after.pop(None, None)
    if after:
        connection.execute(CreateTable(_moves, if_not_exists=True))
        connection.execute(sa.delete(_moves))
        connection.execute(sa.insert(_moves), [{"before": before, "after": then} for before, then in after.items()])
        # One statement, because the new tally of some subjects may be the old tally of others.
        then = sa.select(_moves.c.after).where(_moves.c.before == subject_balances.c.tally_id)
        these = subject_balances.c.account_id == row.id, subject_balances.c.subject.in_(sa.select(_incoming.c.subject))
        connection.execute(sa.update(subject_balances).where(*these).values(tally_id=then.scalar_subquery()))
    if new is not None:
        mine = sa.and_(subject_balances.c.account_id == row.id, subject_balances.c.subject == _incoming.c.subject)
        added = sa.select(sa.literal(row.id), _incoming.c.subject, sa.literal(new))
        added = added.where(sa.not_(sa.exists().where(mine)))
        connection.execute(sa.insert(subject_balances).from_select(["account_id", "subject", "tally_id"], added))
