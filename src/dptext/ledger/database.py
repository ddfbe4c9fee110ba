"""The database of a ledger, SQLite or PostgreSQL: whole transactions, one schema, and faults in plain words."""

import contextlib
import functools
import os
import re
import select
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

from dptext.errors import LedgerError
from dptext.ledger.identity import LedgerDatabase, LedgerFile
from dptext.ledger.locations import parse_location, shown_url

SQLITE_FAULTS = {
    sqlite3.SQLITE_BUSY: "is locked by another program; wait until that has ended and run the command again",
    sqlite3.SQLITE_LOCKED: "is locked by another program; wait until that has ended and run the command again",
    sqlite3.SQLITE_READONLY: "cannot be written: check the permissions of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the path and the permissions of the file and of its folder",
    sqlite3.SQLITE_PERM: "cannot be opened: check the permissions of the file and of its folder",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore a copy of it",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
}
_POSTGRESQL_FAULTS = {  # SQLSTATE, or its class
    "55P03": "is locked by another program; wait until that has ended and run the command again",
    "25006": "cannot be written: the server is read-only",
    "42501": "cannot be used: the user lacks the rights on its tables",
    "53100": "cannot be written: the disk of the server is full",
    "53300": "cannot be reached: the server has too many connections",
    "3D000": "does not exist: create the database first",
    "28": "refuses the user or the password",
    "40": "was changed by another program at the same moment; run the command again",
    "57": "was shut down by the server",
    "08": "cannot be reached",
}
_SAID = (  # by a server that speaks English; in any other language the fault is "cannot be reached"
    ("authentication failed|no password supplied|not permitted to log in|role .* does not exist|no pg_hba", "28"),
    ("permission denied for database|not currently accepting connections", "42501"),
    ("too many (clients|connections)|connection slots are reserved|remaining connection slots", "53300"),
    ("database .* does not exist", "3D000"),
)


def fault_of(error: BaseException | None) -> str:
    """Return a fault of the driver in words: the end of a sentence that begins with the ledger's name."""
    if isinstance(error, sqlite3.Error):
        try:
            return SQLITE_FAULTS.get(error.sqlite_errorcode & 0xFF) or f"cannot be used: {error.sqlite_errorname}"
        except AttributeError:  # raised by Python's module, not by SQLite
            return f"cannot be used: {type(error).__name__}"
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state is not None:
        return _POSTGRESQL_FAULTS.get(state) or _POSTGRESQL_FAULTS.get(state[:2]) or f"reports SQLSTATE {state}"
    # A failed connection has no SQLSTATE. The server describes the fault in words.
    words = str(error)
    for said, state in _SAID:
        if re.search(said, words):
            return _POSTGRESQL_FAULTS[state]
    return "cannot be reached, or the connection was lost: check that the server runs, its host and port"


WAIT_SECONDS = 30.0  #: Seconds that a charge waits for a lock.
_CONNECT_SECONDS = 10
#: The largest number of connections: one for each thread of a gateway (40 for requests, 8 for the rest).
MOST_CONNECTIONS = 48
_KEPT = 5  # idle connections that stay open
_OLDEST_SQLITE = (3, 35, 0)  # INSERT ... RETURNING
STEPS = Path(__file__).parent / "migrations"  #: The steps of the schema, for alembic.
_UPGRADE_LOCK = 0x6470_7465_7874  # number of an advisory lock of PostgreSQL: a constant that no other program uses


class Database:
    """The database of a ledger. It opens no connection before its first use.

    Args:
        location: a file, or the address of a PostgreSQL database.
        wait: seconds to wait for a lock or for a connection.
        most: connections at once.

    Threads can share the object, and a forked child uses it over connections of its own. It cannot be copied. Every
    method raises LedgerError if the database cannot be used.
    """

    def __init__(self, location: str | Path, *, wait: float = WAIT_SECONDS, most: int = MOST_CONNECTIONS) -> None:
        self.path, self._url = parse_location(location)
        self.name = str(self.path) if self.path else shown_url(self._url)
        self._wait = wait
        kept = min(_KEPT, most)
        self._pool = {"poolclass": QueuePool, "pool_size": kept, "max_overflow": most - kept, "pool_timeout": wait}
        self._checked = False
        self._file, self._server = LedgerFile(self.path) if self.path else None, LedgerDatabase(self.name)
        self._engine = self._sqlite(self._file) if self._file else self._postgresql(self._server)
        # Nothing in the engine may refer to this object: its connections close as soon as the object is gone.
        weakref.finalize(self, self._engine.dispose).atexit = False
        _databases[id(self)] = self

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    def close(self) -> None:
        """Close the connections; the next use opens new ones, to whatever lies there then."""
        self._engine.dispose()
        self._checked = False
        (self._file or self._server).forget()

    def __reduce__(self) -> str:
        raise TypeError("A ledger cannot be copied or sent to another process: open it there, by its location.")

    def before_fork(self) -> None:
        """Close idle connections: SQLite in a child would take the locks of this process for its own."""
        if self._file:
            self._engine.dispose()

    def after_fork(self) -> None:
        """Leave the parent's connections to the parent; this process opens its own."""
        _inherited.append(self._engine.pool)
        self._engine.dispose(close=False)
        if self._file:
            self._file.inherit()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Begin a writing transaction: the only one in SQLite; in PostgreSQL it locks the rows that it will change."""
        with self._transaction(read=False) as connection:
            self._require_schema(connection)
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Begin a reading transaction, which sees one moment of the ledger."""
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
            with self._engine.connect().execution_options(**options) as connection:
                with connection.begin():
                    if self._file:
                        self._file.require_same()
                    yield connection
                    if self._file:
                        self._file.require_same_within()
                    done = True  # a failure from here on happens during the commit
                if self._file:
                    self._file.require_same(unsure=not read)

    @contextlib.contextmanager
    def _plainly(self, unsure: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Turn a fault of the driver into a LedgerError without the driver's message, which may hold secrets."""
        problem = ""
        try:
            yield
        except (exc.DBAPIError, psycopg.Error, sqlite3.Error) as error:
            problem = fault_of(error.orig if isinstance(error, exc.DBAPIError) else error)
        except UnicodeDecodeError:  # raised by sqlite3 if even its error message is damaged
            problem = SQLITE_FAULTS[sqlite3.SQLITE_CORRUPT]
        except exc.TimeoutError:  # the pool has no free connection
            problem = "has too many users at this moment; try again"
        except exc.SQLAlchemyError as error:
            problem = f"cannot be used: {type(error).__name__}"
        if problem:
            raise LedgerError(f"The ledger {self.name} {problem}. Nothing is released.", unsure=unsure()) from None

    def create(self) -> None:
        """Make the newest schema if there is no ledger yet. An existing ledger does not change."""
        if self._file:
            self._file.make()
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
                    # In this mode readers and a writer do not wait for each other. The file keeps the mode. If several
                    # processes make one ledger, this fails for all but the last, which sets the mode.
                    connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
        except LedgerError:
            self.close()
            raise

    def upgrade(self) -> bool:
        """Bring an older ledger to the newest schema in one transaction. Return False if it had this schema already."""
        with self._transaction(read=False) as connection:
            self._lock_schema(connection)
            found = self._known_revision(connection)
            if found == _revisions(STEPS)[0]:
                return False
            self._migrate(connection)
        return True

    def _lock_schema(self, connection: sa.Connection) -> None:
        if not self.path:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))

    def _migrate(self, connection: sa.Connection) -> None:
        config = _alembic(STEPS)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
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
        if found not in _revisions(STEPS):
            raise LedgerError(
                f"Expected the ledger {self.name} to have the schema {_revisions(STEPS)[0]}, found {found}: use the "
                "version of dptext that wrote it. Nothing is released."
            )
        return found

    def _require_schema(self, connection: sa.Connection) -> None:
        if self._checked:
            return
        found = self._known_revision(connection)
        if found != _revisions(STEPS)[0]:
            raise LedgerError(
                f"The ledger {self.name} has the older schema {found}: run `dptext budget upgrade` first."
            )
        self._checked = True

    def _sqlite(self, file: LedgerFile) -> sa.Engine:
        wait = self._wait
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise LedgerError(
                f"Expected SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer, found {sqlite3.sqlite_version}: "
                "use a newer build of Python, or PostgreSQL."
            )

        def connect() -> sqlite3.Connection:
            file.require_there()
            # Python's sqlite3 must not begin transactions by itself: isolation_level=None.
            where = f"file:{quote(os.fsencode(file.path))}?mode=rw"
            return sqlite3.connect(where, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)

        engine = sa.create_engine("sqlite+pysqlite://", creator=connect, hide_parameters=True, **self._pool)

        @event.listens_for(engine, "connect")
        def set_up(connection: sqlite3.Connection, _: object) -> None:
            connection.execute("PRAGMA synchronous=FULL")  # a charge survives a power cut
            connection.execute("PRAGMA foreign_keys=ON")
            file.opened(id(connection))

        @event.listens_for(engine, "close")
        def closing(connection: sqlite3.Connection, _: object) -> None:
            file.closing(id(connection))

        @event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            reads = connection.get_execution_options().get("dptext_read", True)
            connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def _postgresql(self, server: LedgerDatabase) -> sa.Engine:
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
            server.opened(connection)
            connection.commit()

        @event.listens_for(engine, "checkout")
        def look(connection: psycopg.Connection, *_: object) -> None:
            # A server that ended the connection has left a last message in the socket. A query would cost a round trip.
            waiting = select.poll()
            waiting.register(connection.fileno(), select.POLLIN)
            if waiting.poll(0):
                raise exc.DisconnectionError  # the pool opens another

        return engine


_databases: weakref.WeakValueDictionary[int, Database] = weakref.WeakValueDictionary()
_inherited: list[sa.Pool] = []  # kept: garbage collection of a connection would close it


def _each(do: Callable[[Database], None]) -> None:
    for reference in _databases.valuerefs():  # a list, because threads make others meanwhile
        if (database := reference()) is not None:
            do(database)


os.register_at_fork(before=lambda: _each(Database.before_fork), after_in_child=lambda: _each(Database.after_fork))


def _alembic(steps: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(steps).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@functools.cache  # alembic compiles each step anew
def _revisions(steps: Path) -> tuple[str, ...]:
    """The revisions of the schema, the newest first."""
    found = tuple(script.revision for script in ScriptDirectory.from_config(_alembic(steps)).walk_revisions())
    if not found:
        raise LedgerError("The steps of the ledger's schema are missing from this installation of dptext.")
    return found
