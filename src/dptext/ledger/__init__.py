"""Privacy budgets that outlive the run: accounts with a limit, and charges that nothing takes back.

* `entries`: what is written and read: requests, charges, accounts, balances. Plain data.
* `books`: the `Ledger`, which charges, shows and checks.
* `database`: SQLite and PostgreSQL, their transactions and their faults in plain words; `migrations` beside it.
* `subjects`: keyed hashes, so that no name stands in the database.

Needs the extra `[ledger]`. SQLAlchemy is loaded when `dptext.ledger.books` is, and not before.
"""

from importlib.util import find_spec

from dptext.errors import MissingExtraError

if any(find_spec(name) is None for name in ("sqlalchemy", "alembic", "psycopg")):
    raise MissingExtraError("A ledger needs optional packages: pip install 'dptext[ledger]'")
