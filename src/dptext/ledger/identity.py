"""Which file a ledger in SQLite lies in: the one that was opened, and not whatever has its name now.

SQLite goes on with an open file whose name is gone or means another file. Charges to it would be in no books.
"""

import os
from pathlib import Path

from dptext.errors import LedgerError, LedgerGoneError

_BESIDE = ("-wal", "-shm")  # SQLite removes both with the last connection of all processes, and not before


class LedgerFile:
    """The files of a ledger in SQLite, known by device and inode from their first use on.

    Attributes:
        path: where the ledger lies, whatever folder the process works in later.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._known: dict[str, tuple[int, int]] = {}
        self._connections: set[int] = set()

    def forget(self) -> None:
        """Take whatever file has the name at the next use."""
        self._known.clear()
        self._connections.clear()

    def require_there(self) -> None:
        """LedgerError where there is no file; LedgerGoneError where there was another."""
        self.require_same()
        if _identity(str(self.path)) is None:
            raise LedgerError(f"There is no ledger {self.path}: make one with `dptext budget open`.")

    def make(self) -> None:
        """An empty file, readable by its owner alone, where there is none; LedgerError where none can be made."""
        if _identity(str(self.path)) is not None:
            return
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass  # another process was faster
        except OSError as error:
            raise LedgerError(f"The ledger {self.path} cannot be made: {error.strerror}.") from None

    def opened(self, connection: int) -> None:
        """Know the file that a new connection has read."""
        self._connections.add(connection)
        self._learn("")

    def closing(self, connection: int) -> None:
        """Know no longer what SQLite removes with the last connection."""
        self._connections.discard(connection)
        if not self._connections:
            for suffix in _BESIDE:
                self._known.pop(suffix, None)

    def require_same(self, *, unsure: bool = False) -> None:
        """Raise LedgerGoneError where a file is gone, or another one has its name."""
        for suffix, known in list(self._known.items()):
            found = _identity(self._place(suffix))
            if found != known:
                raise LedgerGoneError(
                    f"Expected {self.path}{suffix} to be the file of the ledger that was opened, found "
                    f"{'none' if found is None else 'another'} of this name. Nothing is released. Bring the file back, "
                    "or restore a copy of the ledger, and start again what uses it.",
                    unsure=unsure,
                )

    def require_same_within(self) -> None:
        """As `require_same`, within a transaction: while it holds the files, those that are new become known."""
        self.require_same()
        for suffix in _BESIDE:
            self._learn(suffix)

    def _learn(self, suffix: str) -> None:
        found = _identity(self._place(suffix))
        if found is not None:
            self._known.setdefault(suffix, found)

    def _place(self, suffix: str) -> str:
        return os.path.realpath(self.path) + suffix  # SQLite puts its other files beside the one that a link leads to


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 (each charge asks several times)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LedgerError(f"The ledger cannot be opened: {error.strerror}.") from None
    return found.st_dev, found.st_ino
