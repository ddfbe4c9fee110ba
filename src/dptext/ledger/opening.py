"""Opening an account: what it may be called, what its limit may be, and that no other account hides what it spends."""

import sqlalchemy as sa

from dptext import _validate
from dptext.errors import ConfigError
from dptext.ledger import statements as rows
from dptext.ledger.entries import UNITS, Account
from dptext.ledger.requests import Terms
from dptext.ledger.schema import accounts, balances
from dptext.ledger.texts import canonical
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.privacy.names import COMPARED, normal_form

_LONGEST_NAME = 200


def require_name(**named: str) -> None:
    """Raise ConfigError unless each can stand in the books: 1 to 200 printable characters."""
    for what, value in named.items():
        if not value or len(value) > _LONGEST_NAME or not value.isprintable():
            raise ConfigError(f"Expected {what} to be 1 to {_LONGEST_NAME} printable characters.")


def require_openable(name: str, limit: Guarantee, dataset: str) -> None:
    """Refuse with ConfigError what cannot be an account, before anything is written."""
    require_name(name=name, dataset=dataset)
    if limit.unit not in UNITS or limit.metric is not None or limit.basis is Basis.NONE:
        raise ConfigError(
            f"Expected a limit per {' or '.join(UNITS)}, without metric, found {limit.unit.value}"
            f"{', metric ' + limit.metric if limit.metric else ''}."
        )
    _validate.positive(epsilon=limit.epsilon)
    if limit.delta > MAX_MEANINGFUL_DELTA:
        raise ConfigError(
            f"Expected delta={limit.delta!r} <= {MAX_MEANINGFUL_DELTA:g}: above, a limit protects nobody."
        )


def write_account(connection: sa.Connection, account: Account, key_check: bytes | None) -> None:
    """Write an account with an empty balance; ConfigError where its name or dataset is taken, in normal form."""
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
    connection.execute(
        sa.insert(balances).values(
            account_id=rows.inserted(made), events="[]", terms=canonical(Terms().to_dict()), charges=0, subjects=0
        )
    )
