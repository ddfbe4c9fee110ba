"""Faults of SQLite and PostgreSQL in plain words."""

import re
import sqlite3

import psycopg

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
