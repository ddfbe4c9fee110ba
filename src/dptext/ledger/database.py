"""SQLite and PostgreSQL as a ledger needs them: whole transactions, one schema, and faults said in plain words.

A ledger lies in a file, at `sqlite:///PATH`, or at `postgresql+psycopg://USER@HOST/DATABASE`. The password of a URL is
never shown; PGPASSWORD or ~/.pgpass is a better place for it. Anything else is refused and not shown, because it may
hold a password, which a file of that name would tell.
"""

import contextlib
import functools
import os
import re
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

from dptext.errors import ConfigError, DPTextError, LedgerError
from dptext.ledger.identity import LedgerFile
from dptext.ledger.requests import UNREADABLE

_QUERY = {"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "target_session_attrs"}
_NO_LOCATION = (
    "Expected --ledger to be a file, sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE, found something else; "
    "it may hold a password and is not shown. A file whose name holds one of : = @ is written ./NAME. "
    "A password belongs into PGPASSWORD or ~/.pgpass."
)
#: No path may hold these: user:password@, PASSWORD=...
_CREDENTIALS = re.compile(r":.*@|(passw(or)?d|pwd|secret)\s*=", re.IGNORECASE | re.DOTALL)
#: No file name may begin so, unless as ./NAME: scheme:, user:password, KEY=VALUE, user/password@host, //host.
_ADDRESS = re.compile(r"[^/]*[:=@]|//|(?!/|\.\.?/).*@", re.DOTALL)
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


def parse_location(location: str | Path) -> tuple[Path | None, sa.URL]:
    """A path and its URL for SQLite, or None and that of PostgreSQL; ConfigError for all else, which it hides."""
    text = str(location)
    if "://" not in text:
        if isinstance(location, str) and _ADDRESS.match(text):
            raise ConfigError(_NO_LOCATION)
        return _file(text), sa.URL.create("sqlite")
    scheme = text.partition("://")[0]
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        url = None
    if url is not None and scheme in ("sqlite", "sqlite+pysqlite"):
        if url == sa.URL.create(url.drivername, database=url.database):  # neither user nor host, and no settings
            return _file(url.database or ""), url
    elif url is not None and scheme in ("postgresql", "postgresql+psycopg"):
        if unknown := set(url.query) - _QUERY:
            raise ConfigError(
                f"Expected nothing behind the ? of the URL but {', '.join(sorted(_QUERY))}; found "
                f"{len(unknown)} other settings. A password belongs into PGPASSWORD or ~/.pgpass."
            )
        named = (url.username or "", url.database or "", (url.host or "").replace(":", ""))  # ::1 is a host
        if any(re.search(r"[@:=\s]", part) for part in named):
            raise ConfigError(
                "Expected user, host and database of the URL without : = @ and white space; an @ of the password is "
                "written %40. The URL is not shown, as it may hold one."
            )
        return None, url.set(drivername="postgresql+psycopg")
    raise ConfigError(_NO_LOCATION)


def _file(text: str) -> Path:
    path = Path(text)
    if not text.strip() or text == ":memory:" or not path.name:
        raise ConfigError("Expected a ledger that outlives the run: a file, or a URL of PostgreSQL.")
    if _CREDENTIALS.search(text) or "\0" in text:
        raise ConfigError(_NO_LOCATION)
    return path


def shown_url(url: sa.URL) -> str:
    """The parts of a URL that cannot hold a password."""
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"{url.drivername}://{user}{url.host or ''}{port}/{url.database or ''}"


def fault_of(error: BaseException | None) -> str:
    """What a fault of the driver means: the end of a sentence that begins with the ledger's name."""
    if isinstance(error, sqlite3.Error):
        try:
            return SQLITE_FAULTS.get(error.sqlite_errorcode & 0xFF) or f"cannot be used: {error.sqlite_errorname}"
        except AttributeError:  # raised by Python's module, not by SQLite
            return f"cannot be used: {type(error).__name__}"
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state is not None:
        return _POSTGRESQL_FAULTS.get(state) or _POSTGRESQL_FAULTS.get(state[:2]) or f"reports SQLSTATE {state}"
    # Until there is a connection there is no SQLSTATE. The server says what is wrong in words.
    words = str(error)
    for said, state in _SAID:
        if re.search(said, words):
            return _POSTGRESQL_FAULTS[state]
    return "cannot be reached, or the connection was lost: check that the server runs, its host and port"


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
        self._file = LedgerFile(self.path) if self.path else None
        self._engine = self._sqlite(self._file) if self._file else self._postgresql()
        # Nothing that the engine holds may refer to this object, so that its connections close as soon as it is gone.
        weakref.finalize(self, _close, self._engine, os.getpid()).atexit = False

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    def close(self) -> None:
        """Close the connections; the next use opens new ones, to whatever lies there then."""
        self._engine.dispose()
        self._checked = False
        if self._file:
            self._file.forget()

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
            with self._engine.connect().execution_options(**options) as connection:
                with connection.begin():
                    if self._file:
                        self._file.require_same()
                    yield connection
                    if self._file:
                        self._file.require_same_within()
                    done = True  # a failure from here on happens while the transaction is made final
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
