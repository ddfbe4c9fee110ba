"""Locations of ledgers: in a file, at `sqlite:///PATH`, or at `postgresql+psycopg://USER@HOST/DATABASE`.

The password of a URL is never shown; PGPASSWORD or ~/.pgpass is a better place for a password. Any other location is
refused and not shown: it may hold a password, which would stand in the name of a file.
"""

import re
from pathlib import Path

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


def parse_location(location: str | Path) -> tuple[Path | None, sa.URL]:
    """Return path and URL for SQLite, or None and the URL for PostgreSQL. ConfigError, without quoting, for others."""
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
    """Return the parts of a URL that cannot hold a password."""
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"{url.drivername}://{user}{url.host or ''}{port}/{url.database or ''}"
