"""Privacy budgets that outlive the run: accounts with a limit, and charges that nothing takes back.

`requests` and `entries` are plain data with what they cost at a limit, `books` has the `Ledger`, and `subjects` hashes
names, so that none stands in the `database`.

Needs the extra `[ledger]`. SQLAlchemy is loaded when `dptext.ledger.books` is, and not before.
"""

from importlib.util import find_spec

from dptext.errors import needing

with needing("A ledger", "ledger"):
    for _name in ("sqlalchemy", "alembic", "psycopg"):
        if find_spec(_name) is None:
            raise ModuleNotFoundError(name=_name)
