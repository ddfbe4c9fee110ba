"""What time it is at the earliest and at the latest, where a clock may be wrong for a while.

A clock that is set wrong, as one is between the start of a machine and its first answer of a time server, should delete
nothing, and should let nothing end too early. So what is deleted for good has expired by the earliest time, and what is
kept is kept from the latest time on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

_STEADY: Final = 600.0  # seconds for which a clock must say a time
_APART: Final = 1.0  # seconds between two looks at it that are kept
_DOUBT: Final = 86_400.0  # seconds for which one that differs from the newest row is doubted
YOUNG_SECONDS: Final = 60.0  # seconds after a start in which nothing is deleted


class Clock:
    """The clock of a gateway, held against monotonic time and the newest row of its database.

    Args:
        newest: when the newest row was written; None where there is none.
    """

    def __init__(self, newest: float | None) -> None:
        self._start = time.monotonic()
        self._newest = None if newest is None else newest - self._start
        self._seen: deque[tuple[float, float]] = deque()  # when, and how far the clock was ahead of monotonic time
        self._lock = threading.Lock()

    def earliest(self) -> float:
        """The time by which something has surely expired; the beginning of time soon after a start."""
        now, offsets = self._offsets()
        return now + min(offsets) if now - self._start >= YOUNG_SECONDS else float("-inf")

    def latest(self) -> float:
        """The time from which something is kept."""
        now, offsets = self._offsets()
        return now + max(offsets)

    def _offsets(self) -> tuple[float, list[float]]:
        """Monotonic time, and how far the clock was ahead of it since a while."""
        with self._lock:
            now = time.monotonic()
            offsets = [time.time() - now]
            if not self._seen or now - self._seen[-1][0] >= _APART:
                self._seen.append((now, offsets[0]))
            # The last one before that while stays: the clock has said so since then.
            while len(self._seen) > 1 and self._seen[1][0] <= now - _STEADY:
                self._seen.popleft()
            offsets += [offset for _, offset in self._seen]
        if self._newest is not None and now - self._start < _DOUBT:
            offsets.append(self._newest)
        return now, offsets
