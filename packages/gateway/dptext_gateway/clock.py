"""Bounds on the current time, for a clock that may be wrong for a while.

The clock of a machine can be wrong until a time server answers. A wrong clock should delete nothing and let nothing
expire too early. So data is deleted when it has expired by the earliest possible time, and times of expiry are counted
from the latest possible time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

_STEADY: Final = 600.0  # seconds for which the clock's offset must hold to be believed
_APART: Final = 1.0  # seconds between two observations that are kept
_DOUBT: Final = 86_400.0  # seconds after a start in which the newest row counts as an observation
YOUNG_SECONDS: Final = 60.0  # seconds after a start in which nothing is deleted


class Clock:
    """The clock of a gateway, held against monotonic time and the newest row of its database.

    Args:
        newest: time of the newest row; None if there is no row.
    """

    def __init__(self, newest: float | None) -> None:
        self._start = time.monotonic()
        self._newest = None if newest is None else newest - self._start
        self._seen: deque[tuple[float, float]] = deque()  # monotonic time, and the clock's lead over it
        self._lock = threading.Lock()

    def earliest(self) -> float:
        """Return the earliest possible time, by which data has surely expired; minus infinity soon after a start."""
        now, offsets = self._offsets()
        return now + min(offsets) if now - self._start >= YOUNG_SECONDS else float("-inf")

    def latest(self) -> float:
        """Return the latest possible time, from which times of expiry are counted."""
        now, offsets = self._offsets()
        return now + max(offsets)

    def _offsets(self) -> tuple[float, list[float]]:
        """Return monotonic time, and recent leads of the clock over it."""
        with self._lock:
            now = time.monotonic()
            offsets = [time.time() - now]
            if not self._seen or now - self._seen[-1][0] >= _APART:
                self._seen.append((now, offsets[0]))
            # The last observation before that period stays: its offset held until the next one.
            while len(self._seen) > 1 and self._seen[1][0] <= now - _STEADY:
                self._seen.popleft()
            offsets += [offset for _, offset in self._seen]
        if self._newest is not None and now - self._start < _DOUBT:
            offsets.append(self._newest)
        return now, offsets
