"""Privacy budgets that outlive the run: accounts with a limit, and charges that nothing takes back.

* `requests`, `entries`: what is asked and what is kept: requests, charges, accounts, balances. Plain data.
* `spending`: what events cost at the limit of an account.
* `books`: the `Ledger`, which charges, shows and checks.
* `opening`, `charging`, `statements`, `standings`, `recomputation`: what it does inside its transactions.
* `database`: SQLite and PostgreSQL and their transactions; `locations`, `faults` and `migrations` beside it.
* `subjects`: keyed hashes, so that no name stands in the database.

Needs the extra `[ledger]`. SQLAlchemy is loaded when `dptext.ledger.books` is, and not before.
"""

from importlib.util import find_spec

from dptext.errors import needing

with needing("A ledger", "ledger"):
    for _name in ("sqlalchemy", "alembic", "psycopg"):
        if find_spec(_name) is None:
            raise ModuleNotFoundError(name=_name)
