"""How much each key may ask, and how much may lie in the spool."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from dptext.service.problems import Problem
from dptext.service.settings import Settings
from dptext.service.store import JOBS, KEPT, Store


@dataclass(slots=True)
class Rates:
    """How much each key may ask in a minute: a bucket that refills. It forgets at a restart."""

    requests: int
    size: int
    _left: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, who: str, size: int, *, requests: int = 0) -> None:
        """Take so many bytes and requests; a Problem that says how long to wait."""
        with self._lock:
            now = time.monotonic()
            before, calls, left = self._left.get(who, (now, float(self.requests), float(self.size)))
            share = (now - before) / 60
            calls = min(self.requests, calls + share * self.requests)
            left = min(self.size, left + share * self.size)
            # What is larger than a whole bucket may pass when the bucket is full.
            enough = calls >= requests and left >= min(size, self.size)
            self._left[who] = (now, calls - requests, left - size) if enough else (now, calls, left)
        if not enough:
            wait = math.ceil(60 * max((requests - calls) / self.requests, (size - left) / self.size))
            raise Problem(429, "rate", "This key has asked too much in this minute.", retry_after=max(1, wait))


class Space:
    """The bytes in the spool: of jobs, as they were last measured, and of uploads under way."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._jobs: Counter[str] = Counter()
        self._uploads: Counter[str] = Counter()

    def measure(self) -> None:
        """Look at what lies there."""
        kept = sa.select(JOBS.c.id, JOBS.c.prefix).where(JOBS.c.state.in_(KEPT))
        owners = {row.id: row.prefix for row in self._store.rows(kept)}
        found: Counter[str] = Counter()
        for folder in self._settings.spool.glob("job-*"):
            found[owners.get(folder.name.split("-")[1], "")] += _size(folder)
        self._jobs = found

    def take(self, who: str, size: int) -> None:
        """Take so many bytes for an upload; a Problem where the spool, or what the key may have of it, is full."""
        if self._jobs.total() + self._uploads.total() + size > self._settings.spool_bytes:
            raise Problem(503, "spool-full", "There is no room for files now.", retry_after=60)
        self.require(who, size)
        self._uploads[who] += size

    def require(self, who: str, size: int = 0) -> None:
        """A Problem where a key has more than it may, or would with so many bytes."""
        most = self._settings.spool_bytes_of_key
        if self._jobs[who] + self._uploads[who] + size > most:
            raise Problem(413, "quota", f"Expected at most {most:,} bytes in files of this key that have not expired.")

    def free(self, who: str, size: int) -> None:
        """An upload is over: it is a job, which was measured since, or it is gone."""
        self._uploads[who] -= size


def _size(folder: Path) -> int:
    """Bytes of the files in a folder, which may be vanishing."""
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0
