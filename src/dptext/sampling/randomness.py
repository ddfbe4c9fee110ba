"""The only source of random bits: `secure()` for releases, `seeded(int)` for experiments.

Both read a ChaCha20 keystream (pyca/cryptography) as unsigned 64-bit integers, from which `discrete` draws.

A mechanism draws for a whole batch through `Randomness.rows`. In a *seeded* run each record has its own stream, so that
outputs do not depend on batch size, order of batches or resuming.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from dptext.errors import ConfigError
from dptext.types import UInt64s

_BUFFER_BYTES = 1 << 16
_FIRST_BYTES = 1 << 12  # of a stream's first buffer are computed first: the stream of one record seldom needs more
_REKEY_BYTES = 1 << 36  # far below the 2^38 bytes after which ChaCha20's 32-bit block counter repeats

T = TypeVar("T", bound=np.generic)

_forks = 0  # number of forks that led to this process, because the operating system reuses process ids
_renewing = threading.Lock()


def _count_fork() -> None:
    global _forks, _renewing  # noqa: PLW0603
    _forks += 1
    _renewing = threading.Lock()


os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    return os.getpid(), _forks


class Randomness:
    """A stream of uniform unsigned 64-bit integers. `secure()` and `seeded(int)` make streams."""

    __slots__ = (
        "_ahead",
        "_buffer",
        "_encryptor",
        "_epoch",
        "_left",
        "_lock",
        "_position",
        "_process",
        "_purpose",
        "_seed",
        "_used",
    )

    def __init__(self, seed: bytes | None, position: int = 0, purpose: str = "stream") -> None:
        self._seed = seed
        self._position = position
        self._purpose = purpose
        self._lock = threading.Lock()
        self._epoch = -1
        self._process = _process()
        self._rekey()

    @property
    def is_secure(self) -> bool:
        """Whether the operating system keys the bits. A seeded stream voids every guarantee."""
        return self._seed is None

    @property
    def fingerprint(self) -> str:
        """The word "secure", or a digest that identifies the seed. A short seed can be guessed from the digest."""
        return "secure" if self._seed is None else hashlib.sha256(b"fingerprint" + self._seed).hexdigest()

    def __repr__(self) -> str:
        return "secure()" if self.is_secure else "seeded(...)"

    def __reduce__(self) -> str:
        # A copy would repeat the noise of the original, so copy, deepcopy and pickling are refused.
        raise TypeError("A Randomness cannot be copied or serialised: two copies would draw the same noise.")

    def _rekey(self) -> None:
        self._epoch += 1
        if self._seed is None:
            key, nonce = os.urandom(32), os.urandom(12)
        else:
            key = self._seed
            nonce = hashlib.sha256(f"{self._purpose}:{self._position}:{self._epoch}".encode()).digest()[:12]
        self._encryptor = Cipher(algorithms.ChaCha20(key, b"\0\0\0\0" + nonce), mode=None).encryptor()
        self._buffer: UInt64s = np.empty(0, np.uint64)
        self._left = 0
        self._ahead = 0  # bytes of the buffer that are not computed yet, which come before all others of the stream
        self._used = 0

    def _renew(self) -> None:
        """Renew key and lock in a forked child: it would repeat the parent's noise, or wait for the parent's thread."""
        with _renewing:
            if self._process != _process():
                self._lock = threading.Lock()
                if self.is_secure:
                    self._rekey()
                self._process = _process()

    def _use(self, n_bytes: int) -> None:
        self._used += n_bytes
        if self._used > _REKEY_BYTES:
            self._rekey()
            self._used = n_bytes

    def _keystream(self, n_bytes: int) -> UInt64s:
        return np.frombuffer(self._encryptor.update(bytes(n_bytes)), "<u8")

    def _append(self, n_bytes: int) -> None:
        """Compute more of what is ahead in the buffer."""
        rest = self._buffer[len(self._buffer) - self._left :]
        self._buffer = np.concatenate([rest, self._keystream(n_bytes)])
        self._left = len(self._buffer)
        self._ahead -= n_bytes

    def uint64(self, size: int) -> UInt64s:
        """`size` independent uniform integers in [0, 2^64)."""
        if self._process != _process():
            self._renew()
        with self._lock:
            if self._ahead and self._left < size:
                self._append(self._ahead)
            if 8 * size >= _BUFFER_BYTES:
                self._use(8 * size)
                return self._keystream(8 * size)
            if self._left < size:
                first = not self._used and 8 * size <= _FIRST_BYTES
                rest = self._buffer[len(self._buffer) - self._left :]
                self._use(_BUFFER_BYTES)
                self._buffer, self._left, self._ahead = rest, len(rest), _BUFFER_BYTES
                self._append(_FIRST_BYTES if first else _BUFFER_BYTES)
            start = len(self._buffer) - self._left
            self._left -= size
            return self._buffer[start : start + size]

    def at(self, position: int) -> Randomness:
        """The randomness for a batch whose first record has this position in the whole input."""
        return self if self._seed is None else Randomness(self._seed, position)

    def rows(self, sizes: Sequence[int], draw: Callable[[Randomness, int], NDArray[T]]) -> NDArray[T]:
        """Draw `sizes[i]` rows for record i of a batch with `draw(randomness, n_rows)`, stacked in order.

        Secure: one vectorized draw. Seeded: one stream per record.
        """
        if self._seed is None:
            return draw(self, int(sum(sizes)))
        streams = (self._record(i) for i in range(len(sizes)))
        return np.concatenate([draw(s, int(n)) for s, n in zip(streams, sizes, strict=True)] or [draw(self, 0)])

    def each(self, first: int, n: int) -> list[tuple[Randomness, int]]:
        """Streams for `n` records from `first` on, with the number of records of each: all if secure, 1 if seeded."""
        return [(self, n)] if self._seed is None else [(self._record(i), 1) for i in range(first, first + n)]

    def blocks(self, sizes: Sequence[int], limit: int) -> Iterator[tuple[Randomness, int]]:
        """Yield streams with numbers of rows, at most `limit`, to process a batch in blocks.

        Secure: the whole batch is cut every `limit` rows. Seeded: the rows of each record are cut on their own.
        """
        runs = [(self, int(sum(sizes)))] if self._seed is None else [(self._record(i), n) for i, n in enumerate(sizes)]
        for stream, rows in runs:
            for start in range(0, rows, limit):
                yield stream, min(limit, rows - start)

    def _record(self, i: int) -> Randomness:
        return Randomness(self._seed, self._position + i, "record")


def secure() -> Randomness:
    """Make a stream of fresh bits keyed by the operating system, for every real release."""
    return Randomness(None)


def seeded(seed: int) -> Randomness:
    """Make a stream that the seed determines, for experiments: anybody who knows the seed can remove the noise."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"Expected seed={seed!r} to be an integer >= 0.")
    return Randomness(hashlib.sha256(f"dptext:{seed}".encode()).digest())
