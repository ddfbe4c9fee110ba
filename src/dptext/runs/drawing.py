"""Releases as they are drawn: each once, whoever asks. Threads share them, a forked child draws none of them."""

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
        parts: draws them, some at a time.
        encoded: the bytes of a part, for the digest of all.
        keep: whether they are kept, so that they can be iterated again.

    Attributes:
        kept: those that are drawn; None of a stream.
        n: how many are drawn.
        is_complete: whether all are.
    """

    def __init__(self, parts: Iterator[Part], encoded: Callable[[Part], bytes], *, keep: bool) -> None:
        self._parts = parts
        self._encoded = encoded
        self._sha256 = hashlib.sha256()
        self._lock = threading.RLock()  # the texts may come from code that looks at the result
        self._process = os.getpid()
        self._is_new, self._is_broken = True, False
        self.kept: list[Release[str]] | None = [] if keep else None
        self.n = 0
        self.is_complete = False

    @property
    def sha256(self) -> str:
        """The digest of what is drawn."""
        return self._sha256.hexdigest()

    def keep(self) -> None:
        """Keep the releases of a stream; ConfigError where some were drawn and not kept."""
        if self.kept is None:
            require_process(self._process)  # before the lock, which a thread of the parent may have held
            with self._lock:
                if self.kept is None:
                    self.begin()
                    self.kept = []

    def begin(self) -> None:
        """Take a stream, which one caller can; ConfigError for the others."""
        require_process(self._process)
        with self._lock:
            if not self._is_new:
                raise ConfigError(_DRAWN)
            self._is_new = False

    def has(self, i: int) -> bool:
        """Whether there is a kept release of this number, drawn now if it was not."""
        while not self.is_complete and i >= self._n_kept:
            require_process(self._process)
            with self._lock:
                if i >= self._n_kept:
                    self.part()
        return i < self._n_kept

    def finish(self) -> None:
        """Draw the rest."""
        while self.part():
            pass

    def part(self) -> Part:
        """The next releases, none at the end; PrivacyError after an error."""
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
    """The releases of a stream, each given to one of the threads that ask."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._lock = threading.RLock()
        self._rest: deque[Release[str]] | None = None
        self._process = os.getpid()

    def __next__(self) -> Release[str]:
        """The next release; errors as `Drawing.begin` and `Drawing.part`."""
        require_process(self._process)
        with self._lock:
            if self._rest is None:
                self._drawing.begin()
                self._rest = deque()
            self._rest.extend(() if self._rest else self._drawing.part())
            if not self._rest:
                raise StopIteration
            return self._rest.popleft()
