"""Limits on the requests of each key, and on the bytes in the spool."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from dptext_gateway.problems import Problem
from dptext_gateway.settings import Settings
from dptext_gateway.store import JOBS, KEPT, OPEN, Store

SPARE: Final = 100_000_000  # bytes of the disk that are left to the ledger and to others
NO_ROOM: Final = "There is no room for files now."


@dataclass(slots=True)
class Rates:
    """Requests and bytes of each key per minute, as token buckets. A restart fills all buckets."""

    requests: int
    size: int
    _left: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, who: str, size: int, *, requests: int = 0) -> None:
        """Take bytes and requests from a key's buckets. Problem: they are too empty; it says how long to wait."""
        with self._lock:
            now = time.monotonic()
            before, calls, left = self._left.get(who, (now, float(self.requests), float(self.size)))
            share = (now - before) / 60
            calls = min(self.requests, calls + share * self.requests)
            left = min(self.size, left + share * self.size)
            # A request larger than the whole bucket may pass when the bucket is full.
            enough = calls >= requests and left >= min(size, self.size)
            self._left[who] = (now, calls - requests, left - size) if enough else (now, calls, left)
        if not enough:
            wait = math.ceil(60 * max((requests - calls) / self.requests, (size - left) / self.size))
            raise Problem(429, "rate", "This key has asked too much in this minute.", retry_after=max(1, wait))


class Space:
    """The bytes in the spool: those of jobs, as last measured, and those of uploads under way.

    The file of an open job counts twice: the same room is reserved for its result.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._jobs: Counter[str] = Counter()
        self._uploads: Counter[str] = Counter()

    def measure(self) -> None:
        """Measure the folders of jobs in the spool."""
        kept = sa.select(JOBS.c.id, JOBS.c.prefix, JOBS.c.state).where(JOBS.c.state.in_(KEPT))
        rows = {row.id: row for row in self._store.rows(kept)}
        found: Counter[str] = Counter()
        for folder in self._settings.spool.glob("job-*"):
            row = rows.get(folder.name.split("-")[1])
            reserved = 2 * size_of(folder / "input") if row is not None and row.state in OPEN else 0
            found[row.prefix if row is not None else ""] += max(size_of(*files(folder)), reserved)
        self._jobs = found

    def take(self, who: str, size: int, *, again: bool = False) -> None:
        """Take bytes for an upload. Problem: the spool, or the key's part of it, is full.

        A file sent `again`, for a job that is there, does not count against the key's part.
        """
        self.room(2 * size)
        if not again:
            self.require(who, 2 * size)
        self._uploads[who] += 2 * size

    def uploading(self, who: str) -> bool:
        """Whether a file of a key is under way."""
        return self._uploads[who] > 0

    def room(self, size: int = 0) -> None:
        """Raise a Problem if the spool or its disk is full, or would be with `size` more bytes."""
        full = self._jobs.total() + self._uploads.total() + size > self._settings.spool_bytes
        if full or shutil.disk_usage(self._settings.spool).free < size + SPARE:
            raise Problem(503, "spool-full", NO_ROOM, retry_after=60)

    def require(self, who: str, size: int = 0) -> None:
        """Raise a Problem if a key has more than its part, or would with `size` more bytes."""
        most = self._settings.spool_bytes_of_key
        if self._jobs[who] + self._uploads[who] + size > most:
            said = f"Expected at most {most:,} bytes of this key, where a file that is not done counts twice."
            raise Problem(413, "quota", f"{said} DELETE what you have, or wait until it expires.")

    def free(self, who: str, size: int) -> None:
        """Give back the bytes of an upload that is over: it became a job, measured since, or is gone."""
        self._uploads[who] -= 2 * size


def size_of(*paths: Path) -> int:
    """Return the bytes of files; files may vanish meanwhile."""
    found = 0
    for path in paths:
        with suppress(OSError):
            found += path.stat().st_size
    return found


def files(folder: Path) -> list[Path]:
    """Return the files in a folder; the folder may vanish meanwhile."""
    with suppress(OSError):
        return list(folder.iterdir())
    return []
