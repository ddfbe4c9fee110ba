"""The statements behind `Ledger.charge`, each inside the transaction of its caller.

Subjects are handled in sets: their hashes go through a temporary table, and the few different standings that subjects
have (`tallies`) are worked out once each. So memory and the number of statements do not grow with the subjects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from dptext.errors import ConfigError, DataError, LedgerError, PrivacyError
from dptext.ledger.entries import (
    UNITS,
    Account,
    Charge,
    Request,
    Terms,
    canonical,
    digest_of,
    events_from_text,
    events_to_text,
    require_within,
    terms_from_text,
)
from dptext.ledger.schema import (
    Number,
    accounts,
    balances,
    charged_subjects,
    charges,
    requests,
    settlements,
    subject_balances,
    tallies,
)
from dptext.privacy.events import Event
from dptext.privacy.guarantee import Guarantee, Relation, Unit

AnyRow = sa.Row[Any]  # columns are checked by the tests against both databases

_ROWS_AT_ONCE = 1000

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
    sa.Column("before", Number, primary_key=True, autoincrement=False),
    sa.Column("after", Number, nullable=False),
    prefixes=["TEMPORARY"],
)

_ACCOUNT = (
    sa.select(accounts, balances.c.events, balances.c.terms, balances.c.charges, balances.c.subjects)
    .join(balances, balances.c.account_id == accounts.c.id)
    .where(accounts.c.name == sa.bindparam("name"))
)
_ACCOUNT_WITH_CHARGE = (
    _ACCOUNT.add_columns(charges.c.id.label("previous_id"), requests.c.id.label("request_id"))
    .outerjoin(charges, sa.and_(charges.c.account_id == accounts.c.id, charges.c.key == sa.bindparam("key")))
    .outerjoin(requests, requests.c.digest == sa.bindparam("digest"))
)
# Only the balance changes. A transaction that waited for it gets it as the one before has left it.
_LOCKED_ACCOUNT = _ACCOUNT_WITH_CHARGE.with_for_update(of=balances)

#: Charges with what was asked and what they paid for.
CHARGES = (
    sa.select(charges, requests.c.digest, requests.c.request, settlements.c.release)
    .join(requests, requests.c.id == charges.c.request_id)
    .outerjoin(settlements, settlements.c.charge_id == charges.c.id)
)

# Made once: building a statement costs more than running it.
_CHARGE_COLUMNS = ("account_id", "key", "request_id", "everyone", "subjects_digest", "subjects", "at")
_ADD_CHARGE = {
    dialect: insert(charges)
    .values({name: sa.bindparam(f"new_{name}") for name in _CHARGE_COLUMNS})
    .on_conflict_do_nothing()
    .returning(charges.c.id)
    for dialect, insert in (("postgresql", postgresql.insert), ("sqlite", sqlite.insert))
}
_MOVE_BALANCE = (
    sa.update(balances)
    .where(balances.c.account_id == sa.bindparam("account"))
    .values({name: sa.bindparam(f"moved_{name}") for name in ("events", "terms", "charges", "subjects")})
)
_ADDED = _ADD_CHARGE["postgresql"].cte("added")
_ADD_AND_MOVE = _MOVE_BALANCE.where(sa.exists(sa.select(_ADDED.c.id))).returning(
    sa.select(_ADDED.c.id).scalar_subquery()
)

# Jumps from one value of the index to the next, instead of reading a row for each subject.
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


def inserted(made: sa.CursorResult[Any]) -> int:
    """The number of the row that was just inserted."""
    key = made.inserted_primary_key
    if key is None:
        raise LedgerError("The database did not number a row.")
    return int(key[0])


# --------------------------------------------------------------------------------------------------- accounts


def account(connection: sa.Connection, name: str) -> AnyRow:
    """The account and its balance.

    Raises:
        ConfigError: there is no such account.
    """
    return _found(connection.execute(_ACCOUNT, {"name": name}).one_or_none(), name)


def locked_account(connection: sa.Connection, name: str, *, key: str = "", digest: str = "") -> AnyRow:
    """The same, held until the transaction ends; in one statement with what a charge needs to know.

    Returns:
        The row, with `previous_id`, the charge under this key if there was one when the statement began, and
        `request_id`, the request with this digest.

    Raises:
        ConfigError: there is no such account.
    """
    chosen = _LOCKED_ACCOUNT if connection.dialect.name == "postgresql" else _ACCOUNT_WITH_CHARGE
    return _found(connection.execute(chosen, {"name": name, "key": key, "digest": digest}).one_or_none(), name)


def _found(row: AnyRow | None, name: str) -> AnyRow:
    if row is None:
        raise ConfigError(f"There is no account {name!r} in this ledger: see `dptext budget show`, or open it.")
    return row


def to_account(row: AnyRow) -> Account:
    """The account of a row.

    Raises:
        LedgerError: dptext did not write it so.
    """
    try:
        limit = Guarantee(row.epsilon, row.delta, Unit(row.unit), Relation(row.relation))
    except ValueError:
        limit = None
    if limit is None or limit.unit not in UNITS:
        raise LedgerError(
            f"Account {row.name!r} of the ledger is damaged: its limit is none that dptext writes. Restore a copy of "
            "the ledger. Nothing is released."
        )
    return Account(row.name, row.dataset, limit, row.key_check is not None, row.opened)


# ---------------------------------------------------------------------------------------------------- charges


def charge(connection: sa.Connection, account_id: int, key: str) -> AnyRow | None:
    """The charge with this idempotency key, if there is one."""
    return connection.execute(CHARGES.where(charges.c.account_id == account_id, charges.c.key == key)).one_or_none()


def to_charge(row: AnyRow, account: str) -> Charge:
    """The charge of a row of `CHARGES`.

    Raises:
        ConfigError: it was written by a newer dptext.
    """
    request = Request.from_text(row.request)
    return Charge(row.id, account, row.key, request, row.subjects, row.at, row.release, row.subjects_digest)


def same_charge(
    previous: AnyRow | None, account: Account, request: Request, received: tuple[str, int] | None
) -> Charge:
    """The charge that is there already, if it was for the same.

    Raises:
        PrivacyError: it was for something else.
    """
    if previous is None:
        raise LedgerError("The ledger lost a charge that was there a moment ago: nothing is released.")
    asked = (request_digest(request), received is None, received and received[0])
    if asked != (previous.digest, previous.everyone, previous.subjects_digest):
        raise PrivacyError(
            f"Expected charge key {previous.key!r} of account {account.name!r} to be new, or to come with the same "
            "request again: it paid for another run. Nothing is charged and nothing is released."
        )
    return to_charge(previous, account.name)


def request_digest(request: Request) -> str:
    """sha256 of the request's text."""
    return _written(request)[1]


@lru_cache(maxsize=256)
def _written(request: Request) -> tuple[str, str]:
    """The request's text and its digest, made together: 3 and 3.0 make equal requests of different text."""
    text = request.to_text()
    return text, digest_of(text)


def request_id(connection: sa.Connection, request: Request) -> int:
    """The number of the request's text, which is kept once."""
    text, digest = _written(request)
    return _once(connection, requests, digest, request=text)


def _once(connection: sa.Connection, table: sa.Table, digest: str, **values: str) -> int:
    chosen = sa.select(table.c.id).where(table.c.digest == digest)
    found = connection.execute(chosen).scalar_one_or_none()
    if found is None:
        # Another account's charge may write the same at this moment.
        connection.execute(_insert(connection)(table).values(digest=digest, **values).on_conflict_do_nothing())
        found = connection.execute(chosen).scalar_one()
    return int(found)


def _insert(connection: sa.Connection) -> type[postgresql.Insert] | type[sqlite.Insert]:
    return postgresql.Insert if connection.dialect.name == "postgresql" else sqlite.Insert


def write_charge(
    connection: sa.Connection,
    row: AnyRow,
    *,
    key: str,
    request_id: int,
    terms: Terms,
    at: str,
    received: tuple[str, int] | None,
    events: str,
    new_subjects: int,
) -> int | None:
    """Write a charge, with the balance after it, and give its number; None where there is one with this key.

    Args:
        connection: of a transaction.
        row: the account, locked.
        key: idempotency key.
        request_id: number of the request.
        terms: of the request.
        at: when, UTC.
        received: digest of the subjects' hashes and how many they are; None for everyone.
        events: of everyone in the account, after the charge.
        new_subjects: how many of the subjects were never charged before.
    """
    digest, n_subjects = received or (None, None)
    charge_values = (row.id, key, request_id, received is None, digest, n_subjects, at)
    values = {f"new_{name}": value for name, value in zip(_CHARGE_COLUMNS, charge_values, strict=True)}
    values |= {
        "account": row.id,
        "moved_events": events,
        "moved_terms": _merged(row.terms, terms),
        "moved_charges": row.charges + 1,
        "moved_subjects": row.subjects + new_subjects,
    }
    if connection.dialect.name == "postgresql":  # in one statement: each is a journey to the server
        number = connection.execute(_ADD_AND_MOVE, values).scalar_one_or_none()
    else:
        number = connection.execute(_ADD_CHARGE["sqlite"], values).scalar_one_or_none()
        if number is not None:
            connection.execute(_MOVE_BALANCE, values)
    return None if number is None else int(number)


@lru_cache(maxsize=256)
def _merged(text: str, terms: Terms) -> str:
    return canonical((terms_from_text(text) | terms).to_dict())


def weigh_everyone(connection: sa.Connection, row: AnyRow, account: Account, request: Request) -> str:
    """The account's own events after a charge to everyone.

    Raises:
        BudgetExceededError: some subject cannot pay.
    """
    everyone = events_from_text(row.events)
    own = [(), *(tallies_of(connection, row.id) if row.subjects else [])]
    require_within(account, [[*everyone, *events] for events in own], request.events)
    return events_to_text([*everyone, *request.events])


def tallies_of(connection: sa.Connection, account_id: int) -> list[tuple[Event, ...]]:
    """The different standings of the account's subjects."""
    found = connection.execute(_DISTINCT_TALLIES, {"account": account_id}).all()
    return [events_from_text(text) for (text,) in found]


# --------------------------------------------------------------------------------------------------- subjects


def receive(connection: sa.Connection, hashes: Iterable[bytes], units_per_subject: int) -> int:
    """Take the subjects of a run into a temporary table, and count the different ones.

    Raises:
        DataError: one has more units than it may have.
    """
    connection.execute(CreateTable(_incoming, if_not_exists=True))
    connection.execute(sa.delete(_incoming))
    adding = _insert(connection)(_incoming)
    adding = adding.on_conflict_do_update(
        index_elements=["subject"], set_={"units": _incoming.c.units + adding.excluded.units}
    )
    remaining = iter(hashes)
    while some := list(islice(remaining, _ROWS_AT_ONCE)):
        connection.execute(adding, [{"subject": each, "units": n} for each, n in sorted(Counter(some).items())])
    counted = sa.select(sa.func.count(), sa.func.max(_incoming.c.units)).select_from(_incoming)
    n_subjects, most = connection.execute(counted).one()
    if (most or 0) > units_per_subject:
        raise DataError(
            f"Expected at most {units_per_subject} records of each subject in the run, found {most} of one: nothing "
            "is charged and nothing is released."
        )
    return int(n_subjects)


@dataclass(frozen=True, slots=True)
class Standing:
    """Subjects of a run who have spent the same.

    Attributes:
        tally_id: what they have spent; None where they were never charged by name.
        after: what they will have spent, as text.
        subjects: how many they are.
    """

    tally_id: int | None
    after: str
    subjects: int


def weigh_subjects(connection: sa.Connection, row: AnyRow, account: Account, request: Request) -> list[Standing]:
    """What the subjects that were received have spent, and will have.

    Raises:
        BudgetExceededError: one of them cannot pay.
    """
    mine = sa.and_(subject_balances.c.account_id == row.id, subject_balances.c.subject == _incoming.c.subject)
    found = connection.execute(
        sa.select(tallies.c.id, tallies.c.events, sa.func.count())
        .select_from(_incoming.outerjoin(subject_balances, mine).outerjoin(tallies))
        .group_by(tallies.c.id, tallies.c.events)
    ).all()
    everyone = events_from_text(row.events)
    own = [events_from_text(events) if events else () for _, events, _ in found]
    if own:
        require_within(account, [[*everyone, *events] for events in own], request.events)
    after = (
        Standing(tally_id, events_to_text([*events, *request.events]), int(n))
        for (tally_id, _, n), events in zip(found, own, strict=True)
    )
    return sorted(after, key=lambda each: each.after)  # so that two accounts write new tallies in one order


def move_subjects(connection: sa.Connection, row: AnyRow, number: int, standings: Sequence[Standing]) -> None:
    """Write the subjects that were received to the charge, and move each to its new standing."""
    connection.execute(
        sa.insert(charged_subjects).from_select(
            ["charge_id", "subject"], sa.select(sa.literal(number), _incoming.c.subject)
        )
    )
    after = {
        standing.tally_id: _once(connection, tallies, digest_of(standing.after), events=standing.after)
        for standing in standings
    }
    new = after.pop(None, None)
    if after:
        connection.execute(CreateTable(_moves, if_not_exists=True))
        connection.execute(sa.delete(_moves))
        connection.execute(sa.insert(_moves), [{"before": before, "after": then} for before, then in after.items()])
        # In one statement: a standing after the charge may be another's before it.
        then = sa.select(_moves.c.after).where(_moves.c.before == subject_balances.c.tally_id)
        received = subject_balances.c.subject.in_(sa.select(_incoming.c.subject))
        connection.execute(
            sa.update(subject_balances)
            .where(subject_balances.c.account_id == row.id, received)
            .values(tally_id=then.scalar_subquery())
        )
    if new is not None:
        mine = sa.and_(subject_balances.c.account_id == row.id, subject_balances.c.subject == _incoming.c.subject)
        unseen = sa.select(sa.literal(row.id), _incoming.c.subject, sa.literal(new)).where(
            sa.not_(sa.exists().where(mine))
        )
        connection.execute(sa.insert(subject_balances).from_select(["account_id", "subject", "tally_id"], unseen))
