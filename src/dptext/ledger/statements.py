"""The SQL statements about accounts and charges, each inside the transaction of its caller."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dptext.errors import ConfigError, LedgerError, PrivacyError
from dptext.ledger.entries import UNITS, Account, Charge
from dptext.ledger.requests import Request, Terms, canonical, digest_of, terms_from_text
from dptext.ledger.schema import accounts, balances, charges, requests, settlements
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.privacy.names import COMPARED, look_alike, normal_form

AnyRow = sa.Row[Any]  # columns are checked by the tests against both databases
_ROWS_AT_ONCE = 1000
_ACCOUNT = (
    sa.select(accounts, *(each for each in balances.c if each.name != "account_id"))
    .join(balances, balances.c.account_id == accounts.c.id)
    .where(accounts.c.name == sa.bindparam("name"))
)

_ACCOUNT_WITH_CHARGE = (
    _ACCOUNT.add_columns(charges.c.id.label("previous_id"), requests.c.id.label("request_id"))
    .outerjoin(charges, sa.and_(charges.c.account_id == accounts.c.id, charges.c.key == sa.bindparam("key")))
    .outerjoin(requests, requests.c.digest == sa.bindparam("digest"))
)
# Only the balance changes. A transaction that waited for the lock reads the balance that the one before wrote.
_LOCKED_ACCOUNT = _ACCOUNT_WITH_CHARGE.with_for_update(of=balances)
#: Charges with their requests and the releases that they paid for.
CHARGES = (
    sa.select(charges, requests.c.digest, requests.c.request, settlements.c.release)
    .join(requests, requests.c.id == charges.c.request_id)
    .outerjoin(settlements, settlements.c.charge_id == charges.c.id)
)
# Made once: building a statement costs more than running it.
_INSERTS: dict[str, type[postgresql.Insert] | type[sqlite.Insert]] = {
    "postgresql": postgresql.Insert,
    "sqlite": sqlite.Insert,
}
_CHARGE_COLUMNS = ("account_id", "key", "request_id", "everyone", "subjects_digest", "subjects", "at")
_MOVED_COLUMNS = ("events", "terms", "charges", "subjects")
_ADD_CHARGE = {
    dialect: insert(charges)
    .values({name: sa.bindparam(f"new_{name}") for name in _CHARGE_COLUMNS})
    .on_conflict_do_nothing()
    .returning(charges.c.id)
    for dialect, insert in _INSERTS.items()
}

_MOVE_BALANCE = (
    sa.update(balances)
    .where(balances.c.account_id == sa.bindparam("account"))
    .values({name: sa.bindparam(f"moved_{name}") for name in _MOVED_COLUMNS})
)
_ADDED = sa.select(_ADD_CHARGE["postgresql"].cte("added").c.id)
_ADD_AND_MOVE = _MOVE_BALANCE.where(sa.exists(_ADDED)).returning(_ADDED.scalar_subquery())


def account(connection: sa.Connection, name: str) -> AnyRow:
    """Return the account and its balance. ConfigError: there is no account of this name."""
    return _found(connection.execute(_ACCOUNT, {"name": name}).one_or_none(), name)


def all_accounts(connection: sa.Connection) -> Iterable[AnyRow]:
    """All accounts, by name."""
    return connection.execute(sa.select(accounts).order_by(accounts.c.name))


def locked_account(connection: sa.Connection, name: str, *, key: str = "", digest: str = "") -> AnyRow:
    """Return the account and its balance, locked until the transaction ends, with two columns for a charge.

    `previous_id` is the charge under this key, if there was one when the statement began. `request_id` is the request
    with this digest. Errors: see `account`.
    """
    chosen = _LOCKED_ACCOUNT if connection.dialect.name == "postgresql" else _ACCOUNT_WITH_CHARGE
    return _found(connection.execute(chosen, {"name": name, "key": key, "digest": digest}).one_or_none(), name)


def _found(row: AnyRow | None, name: str) -> AnyRow:
    if row is None:
        raise ConfigError(f"There is no account {name!r} in this ledger: see `dptext budget show`, or open it.")
    return row


def write_account(connection: sa.Connection, account: Account, key_check: bytes | None) -> None:
    """Write an account with an empty balance. ConfigError: its name or dataset is taken, in normal form."""
    if connection.dialect.name == "postgresql":
        # Two openings of one name at once: the second waits, and then sees the first.
        connection.execute(sa.text("LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE"))
    name, dataset, limit = account.name, account.dataset, account.limit
    for there in connection.execute(sa.select(accounts)):
        if normal_form(there.name) == normal_form(name):
            raise ConfigError(
                f"Expected the name of a new account, found {name!r}, which is there already"
                f"{'' if there.name == name else f' as {there.name!r}: names are {COMPARED}'}."
            )
        if normal_form(there.dataset) == normal_form(dataset):
            raise ConfigError(
                f"Expected one account for a dataset: {there.name!r} is that of {there.dataset!r} already, per "
                f"{there.unit}. A second one would hide what the first has spent"
                f"{'' if there.dataset == dataset else f'; names are {COMPARED}'}."
            )
        for what, found, theirs in (("name", name, there.name), ("dataset", dataset, there.dataset)):
            if look_alike(found, theirs):
                raise ConfigError(
                    f"Expected a {what} that can be told from others, found {found!a}, which looks like {theirs!a} of "
                    f"account {there.name!r}."
                )
    made = connection.execute(
        sa.insert(accounts).values(
            name=name,
            dataset=dataset,
            unit=limit.unit.value,
            relation=limit.relation.value,
            epsilon=limit.epsilon,
            delta=limit.delta,
            key_check=key_check,
            opened=account.opened,
        )
    )
    key = made.inserted_primary_key
    if key is None:
        raise LedgerError("The database did not number a row.")
    nothing = {"events": "[]", "terms": canonical(Terms().to_dict()), "charges": 0, "subjects": 0}
    connection.execute(sa.insert(balances).values(account_id=int(key[0]), **nothing))


def to_account(row: AnyRow) -> Account:
    """Return the account of a row. LedgerError: dptext did not write this row."""
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


def charge(connection: sa.Connection, account_id: int, key: str) -> AnyRow | None:
    """The charge of the account with this idempotency key, if there is one."""
    return connection.execute(CHARGES.where(charges.c.account_id == account_id, charges.c.key == key)).one_or_none()


def charge_numbered(connection: sa.Connection, number: int) -> AnyRow | None:
    """The charge of this number with the `name` of its account, if there is one."""
    chosen = CHARGES.add_columns(accounts.c.name).join(accounts, accounts.c.id == charges.c.account_id)
    return connection.execute(chosen.where(charges.c.id == number)).one_or_none()


def numbers_of(connection: sa.Connection, account_id: int, *, last: int | None) -> tuple[int, int]:
    """Return the number before an account's first charge, or before its `last` newest, and the newest number."""
    numbers = sa.select(charges.c.id).where(charges.c.account_id == account_id).order_by(charges.c.id.desc()).limit(1)
    newest = connection.execute(numbers).scalar_one_or_none() or 0
    before = None if last is None else connection.execute(numbers.offset(last)).scalar_one_or_none()
    return before or 0, newest


def charges_of(connection: sa.Connection, account_id: int, after: int, newest: int) -> Sequence[AnyRow]:
    """Return the first page of an account's charges after a number. LedgerError: there are none."""
    chosen = CHARGES.where(charges.c.account_id == account_id, charges.c.id > after, charges.c.id <= newest)
    found = connection.execute(chosen.order_by(charges.c.id).limit(_ROWS_AT_ONCE)).all()
    if not found:
        raise LedgerError("The ledger lost a charge that was there a moment ago.")
    return found


def settle(connection: sa.Connection, number: int, release: str, at: str) -> None:
    """Record the release that a charge paid for."""
    connection.execute(sa.insert(settlements).values(charge_id=number, release=release, at=at))


def to_charge(row: AnyRow, account: str) -> Charge:
    """Return the charge of a row of `CHARGES`. ConfigError: a newer dptext wrote it."""
    request = Request.from_text(row.request)
    return Charge(row.id, account, row.key, request, row.subjects, row.at, row.release, row.subjects_digest)


def same_charge(
    previous: AnyRow | None, account: Account, request: Request, received: tuple[str, int] | None
) -> Charge:
    """Return the charge that exists already. PrivacyError: the charge was for another run."""
    if previous is None:
        raise LedgerError("The ledger lost a charge that was there a moment ago: nothing is released.")
    asked = (written(request)[1], received is None, received and received[0])
    if asked != (previous.digest, previous.everyone, previous.subjects_digest):
        raise PrivacyError(
            f"Expected charge key {previous.key!r} of account {account.name!r} to be new, or to come with the same "
            "request again: it paid for another run. Nothing is charged and nothing is released."
        )
    return to_charge(previous, account.name)


@lru_cache(maxsize=256)
def written(request: Request) -> tuple[str, str]:
    """Return a request's text and its digest, made together as equal requests (3 and 3.0) have different texts."""
    text = request.to_text()
    return text, digest_of(text)


def new_request_id(connection: sa.Connection, request: Request) -> int:
    """Write the text of a request that was not there when the account was read; return its number."""
    text, digest = written(request)
    return once(connection, requests, digest, text, new=True)


def once(connection: sa.Connection, table: sa.Table, digest: str, text: str, *, new: bool = False) -> int:
    """Return the number of the row of `requests` or `tallies` with this digest; write the row if there is none."""
    find, add = _once(table, connection.dialect.name)
    # Another account's charge may write the same row at this moment. A probably new row is not looked for first.
    for statement in (find, add, find)[new:]:
        found = connection.execute(statement, {"its_digest": digest, "its_text": text}).scalar_one_or_none()
        if found is not None:
            return int(found)
    raise LedgerError("The database did not keep a row.")


@lru_cache  # building a statement costs more than running it
def _once(table: sa.Table, dialect: str) -> tuple[sa.Executable, sa.Executable]:
    insert = _INSERTS[dialect](table).values(
        {"digest": sa.bindparam("its_digest"), table.columns.keys()[-1]: sa.bindparam("its_text")}
    )
    find = sa.select(table.c.id).where(table.c.digest == sa.bindparam("its_digest"))
    return find, insert.on_conflict_do_nothing().returning(table.c.id)


def insert_into(connection: sa.Connection) -> type[postgresql.Insert] | type[sqlite.Insert]:
    """Return the database's own insert statement, which has an `on_conflict` clause."""
    return _INSERTS[connection.dialect.name]


def write_charge(
    connection: sa.Connection, account_id: int, charge: Sequence[object], balance: Sequence[object]
) -> int | None:
    """Write a charge and the balance after it. Return its number, or None if this key has a charge already.

    The account is locked. `charge` has the values of `_CHARGE_COLUMNS` without the account. `balance` has those of
    `_MOVED_COLUMNS`: the recent events of everyone, the terms, and the numbers of charges and subjects.
    """
    values = {f"new_{name}": value for name, value in zip(_CHARGE_COLUMNS, (account_id, *charge), strict=True)}
    values |= {f"moved_{name}": value for name, value in zip(_MOVED_COLUMNS, balance, strict=True)}
    values["account"] = account_id
    if connection.dialect.name == "postgresql":  # one statement, because each takes a round trip
        number = connection.execute(_ADD_AND_MOVE, values).scalar_one_or_none()
    else:
        number = connection.execute(_ADD_CHARGE["sqlite"], values).scalar_one_or_none()
        if number is not None:
            connection.execute(_MOVE_BALANCE, values)
    return None if number is None else int(number)


@lru_cache(maxsize=256)
def merged(text: str, terms: Terms) -> str:
    """Combine the terms in a text with other terms; return them as text."""
    return canonical((terms_from_text(text) | terms).to_dict())
