"""Where a ledger lies: a file name, `sqlite:///PATH`, or `postgresql+psycopg://USER@HOST/DATABASE`.

The password of a URL is never shown; PGPASSWORD or ~/.pgpass is a better place for it. Anything else is refused and
not shown, because it may hold a password, which a file of that name would tell. And the faults of SQLite and PostgreSQL
in plain words.
"""

import re
import sqlite3
from pathlib import Path

import psycopg
import sqlalchemy as sa
from sqlalchemy import exc

from dptext.errors import ConfigError

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
