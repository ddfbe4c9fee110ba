"""SQLite and PostgreSQL as a ledger needs them: whole transactions, one schema, and faults said in plain words."""

import contextlib
import functools
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, exc
from sqlalchemy.pool import QueuePool

from dptext.errors import DPTextError, LedgerError
from dptext.ledger.locations import SQLITE_FAULTS, fault_of, parse_location, shown_url
from dptext.ledger.requests import UNREADABLE

WAIT_SECONDS = 30.0  #: How long a charge waits for others to end theirs
_CONNECT_SECONDS = 10
_KEPT = 5  # connections, and so many in all: one for each thread of a gateway (40 answer, 8 do the rest)
_MOST = 48
_OLDEST_SQLITE = (3, 35, 0)  # INSERT ... RETURNING
_UPGRADE_LOCK = 0x6470_7465_7874  # names an advisory lock of PostgreSQL; any constant that others do not use


def _close(engine: sa.Engine, process: int) -> None:
    """Close the connections of an engine, but in the process that opened them: a fork shares their sockets."""
    engine.dispose(close=os.getpid() == process)


class Database:
    """Where the books lie. It opens nothing until it is used, and waits so many seconds for a lock.

    Each process needs one of its own. Every method raises LedgerError where the database cannot be used.
    """

    def __init__(self, location: str | Path, *, wait: float = WAIT_SECONDS) -> None:
        self.path, self._url = parse_location(location)
        self.name = str(self.path) if self.path else shown_url(self._url)
        self._wait = wait
        self._pool = {"poolclass": QueuePool, "pool_size": _KEPT, "max_overflow": _MOST - _KEPT, "pool_timeout": wait}
        self._checked = False
        self._engine = self._sqlite() if self.path else self._postgresql()
        # Nothing that the engine holds may refer to this object, so that its connections close as soon as it is gone.
        weakref.finalize(self, _close, self._engine, os.getpid()).atexit = False

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self._engine.dispose()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes: the only one in SQLite; in PostgreSQL it locks the rows that it will change."""
        with self._transaction(read=False) as connection:
            self._require_schema(connection)
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one moment of the books."""
        with self._transaction(read=True) as connection:
            self._require_schema(connection)
            yield connection

    @contextlib.contextmanager
    def _transaction(self, *, read: bool) -> Iterator[sa.Connection]:
        done = False
        with self._plainly(lambda: done and not read):
            options = {"dptext_read": read}
            if read and not self.path:
                options["isolation_level"] = "REPEATABLE READ"  # type: ignore[assignment]  # names and flags
            with self._engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection
                done = True  # a failure from here on happens while the transaction is made final

    @contextlib.contextmanager
    def _plainly(self, unsure: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Turn a fault of the driver into a LedgerError without the driver's message, which may hold secrets."""
        problem = ""
        try:
            yield
        except (exc.DBAPIError, psycopg.Error, sqlite3.Error) as error:
            problem = fault_of(error.orig if isinstance(error, exc.DBAPIError) else error)
        except UnicodeDecodeError:  # of sqlite3, whose message is damaged like the file
            problem = SQLITE_FAULTS[sqlite3.SQLITE_CORRUPT]
        except exc.TimeoutError:  # of the pool
            problem = "has too many users at this moment; try again"
        except exc.SQLAlchemyError as error:
            problem = f"cannot be used: {type(error).__name__}"
        if problem:
            raise LedgerError(f"The ledger {self.name} {problem}. Nothing is released.", unsure=unsure()) from None

    def create(self) -> None:
        """Make the newest schema where there is none yet; an existing ledger stays as it is."""
        if self.path and not _there(self.path):
            try:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                pass  # another process was faster
            except OSError as error:
                raise LedgerError(f"The ledger {self.path} cannot be made: {error.strerror}.") from None
        try:
            with self._transaction(read=False) as connection:
                self._lock_schema(connection)
                if self._revision(connection) is None:
                    if sa.inspect(connection).get_table_names():
                        raise LedgerError(f"The database {self.name} holds other tables: give the ledger its own.")
                    self._migrate(connection)
            if self.path:
                failing = contextlib.suppress(sqlite3.OperationalError)
                with self._plainly(), self._engine.connect() as connection, failing:
                    # So that readers and a writer do not wait for each other; the file keeps it. Where several
                    # processes make one ledger this fails for all but the last, which sets it.
                    connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
        except LedgerError:
            self.close()
            raise

    def upgrade(self) -> bool:
        """Bring an older ledger to the newest schema in one transaction, and say whether there was anything to do."""
        with self._transaction(read=False) as connection:
            self._lock_schema(connection)
            found = self._known_revision(connection)
            if found == _revisions()[0]:
                return False
            self._migrate(connection)
        return True

    def _lock_schema(self, connection: sa.Connection) -> None:
        if not self.path:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))

    def _migrate(self, connection: sa.Connection) -> None:
        config = _alembic()
        config.attributes["connection"] = connection
        fault = f"The ledger {self.name} holds a charge that dptext did not write: restore a copy of it."
        try:
            command.upgrade(config, "head")
        except DPTextError:
            raise
        except UNREADABLE:
            raise LedgerError(fault) from None
        self._checked = False

    def _revision(self, connection: sa.Connection) -> str | None:
        found = MigrationContext.configure(connection).get_current_heads()
        if len(found) > 1 or not all(isinstance(each, str) for each in found):
            raise LedgerError(f"The ledger {self.name} is damaged: it does not say of which schema it is.")
        return found[0] if found else None

    def _known_revision(self, connection: sa.Connection) -> str:
        found = self._revision(connection)
        if found is None:
            raise LedgerError(f"There is no ledger in {self.name}: make one with `dptext budget open`.")
        if found not in _revisions():
            raise LedgerError(
                f"The ledger {self.name} was written by a newer dptext (schema {found}): update dptext. "
                "Nothing is released."
            )
        return found

    def _require_schema(self, connection: sa.Connection) -> None:
        if self._checked:
            return
        found = self._known_revision(connection)
        if found != _revisions()[0]:
            raise LedgerError(
                f"The ledger {self.name} has the older schema {found}: run `dptext budget upgrade` first."
            )
        self._checked = True

    def _sqlite(self) -> sa.Engine:
        path, wait = self.path, self._wait
        assert path is not None  # noqa: S101  # mypy cannot see that _sqlite is called for paths only
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise LedgerError(
                f"Expected SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer, found {sqlite3.sqlite_version}: "
                "use a newer build of Python, or PostgreSQL."
            )

        def connect() -> sqlite3.Connection:
            if not _there(path):
                raise LedgerError(f"There is no ledger {path}: make one with `dptext budget open`.")
            # Python's sqlite3 must not begin transactions by itself: isolation_level=None.
            where = f"file:{quote(os.fsencode(path.absolute()))}?mode=rw"
            return sqlite3.connect(where, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)

        engine = sa.create_engine("sqlite+pysqlite://", creator=connect, hide_parameters=True, **self._pool)

        @event.listens_for(engine, "connect")
        def set_up(connection: sqlite3.Connection, _: object) -> None:
            connection.execute("PRAGMA synchronous=FULL")  # a charge survives a power cut
            connection.execute("PRAGMA foreign_keys=ON")

        @event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            reads = connection.get_execution_options().get("dptext_read", True)
            connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def _postgresql(self) -> sa.Engine:
        engine = sa.create_engine(
            self._url,
            connect_args={
                "connect_timeout": _CONNECT_SECONDS,
                "application_name": "dptext",
                "options": f"-c synchronous_commit=on -c lock_timeout={max(1, round(self._wait * 1000))}",
            },
            hide_parameters=True,
            **self._pool,
            isolation_level="READ COMMITTED",  # whatever the server's default, because `statements` relies on it
        )

        @event.listens_for(engine, "connect")
        def set_up(connection: psycopg.Connection, _: object) -> None:
            # Long texts of events are compressed whenever they are written, which the server's own method does slowly.
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config(name, 'lz4', false) FROM pg_settings "
                    "WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)"
                )
            connection.commit()

        return engine


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise LedgerError(f"The ledger cannot be opened: {error.strerror}.") from None


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@functools.cache  # alembic compiles each step anew
def _revisions() -> tuple[str, ...]:
    """The revisions of the schema, the newest first."""
    found = tuple(script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions())
    if not found:
        raise LedgerError("The steps of the ledger's schema are missing from this installation of dptext.")
    return found
