"""Drawing of releases: each release is drawn once. Threads share the releases; a forked child draws none."""

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dptext.errors import ConfigError, PrivacyError
from dptext.runs.streaming import require_process
from dptext.text.records import Release

Part = Sequence[Release[str]]
_DRAWN: Final = (
    "The releases of this stream were drawn already, or another thread draws them, and they are not kept. Call "
    "to_records() before iterating, or give the data as a list. To draw again is another release and costs again."
)


class Drawing:
    """The releases of a run in memory.

    Args:
        parts: iterator that draws the releases, one part at a time.
        encoded: returns the bytes of a part, for the digest of all releases.
        keep: whether releases are kept, so that they can be iterated again.

    Attributes:
        kept: the releases drawn so far; None for a stream, which keeps none.
        n: number of releases drawn so far.
        is_complete: whether all releases are drawn.
    """

    def __init__(self, parts: Iterator[Part], encoded: Callable[[Part], bytes], *, keep: bool) -> None:
        self._parts = parts
        self._encoded = encoded
        self._sha256 = hashlib.sha256()
        self._lock = threading.RLock()  # reentrant: the iterator of private texts may look at the result
        self._process = os.getpid()
        self._is_new, self._is_broken = True, False
        self.kept: list[Release[str]] | None = [] if keep else None
        self.n = 0
        self.is_complete = False

    @property
    def sha256(self) -> str:
        """The sha256 of the releases drawn so far, in hexadecimal digits."""
        return self._sha256.hexdigest()

    def keep(self) -> None:
        """Keep the releases of a stream from now on. ConfigError: some were drawn and not kept."""
        if self.kept is None:
            require_process(self._process)  # before the lock, which may be held for ever after a fork
            with self._lock:
                if self.kept is None:
                    self.begin()
                    self.kept = []

    def begin(self) -> None:
        """Claim the stream for one caller. ConfigError: another caller has claimed it, or releases were drawn."""
        require_process(self._process)
        with self._lock:
            if not self._is_new:
                raise ConfigError(_DRAWN)
            self._is_new = False

    def has(self, i: int) -> bool:
        """Return whether release `i` exists in `kept`; releases are drawn until it does or the stream ends."""
        while not self.is_complete and i >= self._n_kept:
            require_process(self._process)
            with self._lock:
                if i >= self._n_kept:
                    self.part()
        return i < self._n_kept

    def finish(self) -> None:
        """Draw all remaining releases."""
        while self.part():
            pass

    def part(self) -> Part:
        """Draw and return the next part, empty at the end. PrivacyError: an earlier draw raised an error."""
        if self.is_complete:
            return []
        require_process(self._process)
        with self._lock:
            if self.is_complete:
                return []
            if self._is_broken:
                raise PrivacyError(
                    "The drawing stopped with an error: there is no certificate, and nothing more is drawn."
                )
            self._is_new, self._is_broken = False, True  # until this part is whole
            part = next(self._parts, [])
            self._sha256.update(self._encoded(part))
            self.n += len(part)
            if self.kept is not None:
                self.kept.extend(part)
            self._is_broken, self.is_complete = False, not part
            return part

    @property
    def _n_kept(self) -> int:
        return len(self.kept or ())


class Stream(Iterator[Release[str]]):
    """The releases of a stream. Several threads may iterate; each release goes to one of them."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._lock = threading.RLock()
        self._rest: deque[Release[str]] | None = None
        self._process = os.getpid()

    def __next__(self) -> Release[str]:
        """Return the next release; errors as `Drawing.begin` and `Drawing.part`."""
        require_process(self._process)
        with self._lock:
            if self._rest is None:
                self._drawing.begin()
                self._rest = deque()
            self._rest.extend(() if self._rest else self._drawing.part())
            if not self._rest:
                raise StopIteration
            return self._rest.popleft()
