"""Privacy budgets that outlive the run: accounts with a limit, and charges that nothing takes back.

`requests` and `entries` are plain data, with its cost at a limit. `books` has the `Ledger`. `subjects` hashes names, so
that the `database` holds no name.

The package needs the extra `[ledger]`. SQLAlchemy is loaded with `dptext.ledger.books`, and not before.
"""

from importlib.util import find_spec

from dptext.errors import needing

with needing("A ledger", "dptext[ledger]"):
    for _name in ("sqlalchemy", "alembic", "psycopg"):
        if find_spec(_name) is None:
            raise ModuleNotFoundError(name=_name)
