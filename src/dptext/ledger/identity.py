"""The identity of a ledger's file or database: proof that its name still leads to the ledger that was opened.

SQLite goes on with an open file whose name is gone or means another file. Charges to such a file would be in no ledger.
A server closes the connections to a dropped database; a new database of the same name lacks the charges.
"""

import os
from pathlib import Path

import psycopg

from dptext.errors import LedgerError, LedgerGoneError

_BESIDE = ("-wal", "-shm")  # SQLite removes both with the last connection of all processes, and not before


class LedgerFile:
    """The files of a ledger in SQLite, known by device and inode from their first use on.

    Attributes:
        path: the place of the ledger, which does not change if the process changes its working directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._known: dict[str, tuple[int, int]] = {}
        self._connections: set[int] = set()
        self._is_shared = False

    def forget(self) -> None:
        """Forget the known file: the next use takes the file that has the name then."""
        self._known.clear()
        self._connections.clear()

    def inherit(self) -> None:
        """Keep in a forked child the files that the parent knew. Open connections were in use by a parent's thread."""
        self._is_shared = bool(self._connections)
        for connection in tuple(self._connections):
            self.closing(connection)

    def require_there(self) -> None:
        """Raise LedgerError if there is no file or this process may not use it; LedgerGoneError: another file."""
        if self._is_shared:
            raise LedgerError(
                f"Expected no other thread to use the ledger {self.path} at the moment when this process was forked, "
                "as SQLite takes its locks for those of this process. Nothing is released. Fork before threads use "
                "the ledger, or start the process by spawn and open the ledger there."
            )
        self.require_same()
        if _identity(str(self.path)) is None:
            raise LedgerError(f"There is no ledger {self.path}: make one with `dptext budget open`.")

    def make(self) -> None:
        """Make an empty file, readable by its owner alone, if there is none. LedgerError: it cannot be made."""
        if _identity(str(self.path)) is not None:
            return
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass  # another process was faster
        except OSError as error:
            raise LedgerError(f"The ledger {self.path} cannot be made: {error.strerror}.") from None

    def opened(self, connection: int) -> None:
        """Remember the file of a new connection."""
        self._connections.add(connection)
        self._learn("")

    def closing(self, connection: int) -> None:
        """Forget the files that SQLite removes with the last connection."""
        self._connections.discard(connection)
        if not self._connections:
            for suffix in _BESIDE:
                self._known.pop(suffix, None)

    def require_same(self, *, unsure: bool = False) -> None:
        """Raise LedgerGoneError if a file is gone, or if another file has its name."""
        place = self._place
        for suffix, known in list(self._known.items()):
            found = _identity(place + suffix)
            if found != known:
                raise LedgerGoneError(
                    f"Expected {self.path}{suffix} to be the file of the ledger that was opened, found "
                    f"{'none' if found is None else 'another'} of this name. Nothing is released. Bring the file back, "
                    "or restore a copy of the ledger, and restart the programs that use it.",
                    unsure=unsure,
                )

    def require_same_within(self) -> None:
        """Do `require_same` within a transaction, which holds the files, and remember files that are new."""
        self.require_same()
        for suffix in _BESIDE:
            self._learn(suffix)

    def _learn(self, suffix: str) -> None:
        if suffix not in self._known and (found := _identity(self._place + suffix)) is not None:
            self._known.setdefault(suffix, found)  # another thread may have been faster

    @property
    def _place(self) -> str:
        """The path of the file itself: SQLite puts its other files beside the target of a link."""
        path = str(self.path)
        return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114 (each charge asks several times)


class LedgerDatabase:
    """The database of a ledger in PostgreSQL, known by its OID and the server's identifier from its first use on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: tuple[object, ...] | None = None

    def forget(self) -> None:
        """Forget the known database: the next use takes the database that has the name then."""
        self._known = None

    def opened(self, connection: psycopg.Connection) -> None:
        """Raise LedgerGoneError if a new connection leads to another database."""
        found = connection.execute(
            "SELECT oid, has_function_privilege('pg_control_system()', 'EXECUTE') FROM pg_database "
            "WHERE datname = current_database()"
        ).fetchone()
        if found and found[1]:
            found += connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone() or ()
        self._known = self._known or found
        if found != self._known:
            raise LedgerGoneError(
                f"Expected {self._name} to be the database of the ledger that was opened, found another of this name. "
                "Nothing is released. Restart the programs that use it, once the right ledger is there."
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 (each charge asks several times)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LedgerError(f"The ledger cannot be opened: {error.strerror}.") from None
    return found.st_dev, found.st_ino
