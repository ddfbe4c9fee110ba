"""Refusal of a public pool that is the private corpus: texts of the pool leave as they are.

The comparison is of paths, whole files and whole lists of texts, never of single texts: see decision 0017.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from os import PathLike
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from dptext.errors import ConfigError
from dptext.synthesis.space import says_something
from dptext.text.files import sha256_of

_SAME: Final = "Expected a public pool other than the private corpus: texts of the pool leave as they are."
_HASH: Final = 16  # bytes: two texts have the same hash with a chance of 2**-128


def refuse_same(private: object, public: object) -> None:
    """Raise ConfigError if the private corpus or one of its files is the pool: the same file, or the same bytes."""
    same = private is public and private is not None
    if isinstance(private, str | PathLike) and isinstance(public, str | PathLike):
        mine, pool = _path(private), _path(public)
        if mine is None or pool is None:  # on another computer
            same = str(private).rstrip("/") == str(public).rstrip("/")
        else:
            same = mine == pool or mine in pool.parents or any(_alike(each, pool) for each in _files(mine))
    if same:
        found = f" Found both in {str(private)!r}." if isinstance(private, str | PathLike) else ""
        raise ConfigError(_SAME + found)


def _path(where: str | PathLike[str]) -> Path | None:
    """Return the local path of a path or URL, with links resolved; None for a URL of another computer."""
    parts = urlsplit(str(where))
    if "://" not in str(where):
        return Path(where).resolve()
    if parts.scheme not in ("file", "local"):
        return None
    return Path(unquote(parts.netloc.removeprefix("localhost") + parts.path)).resolve()


def _files(where: Path) -> Iterator[Path]:
    if where.is_dir():
        yield from (each for each in where.rglob("*") if each.is_file())
    elif where.exists():
        yield where
    else:
        yield from map(Path, glob(str(where), recursive=True))  # noqa: PTH207  # a pattern may be absolute


def _alike(one: Path, other: Path) -> bool:
    """Return whether both paths are one file or hold the same bytes. An unreadable file gives False, no error."""
    try:
        if not (one.is_file() and other.is_file()):
            return False
        size = one.stat().st_size
        return one.samefile(other) or (
            bool(size) and size == other.stat().st_size and sha256_of(one) == sha256_of(other)
        )
    except OSError:
        return False


@dataclass(frozen=True, slots=True, repr=False)
class Pool:
    """The hashes of a public pool's texts, to tell whether a corpus has the same texts in any order."""

    rows: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Pool:
        """Return the pool of the distinct texts that say something."""
        distinct = dict.fromkeys(_hashed(text) for text in texts if says_something(text))
        return cls({each: row for row, each in enumerate(distinct)})

    @property
    def size(self) -> int:
        """The number of bytes that hold one bit per text."""
        return -(-len(self.rows) // 8)

    def refuse(self, found: Iterable[Found]) -> None:
        """Raise ConfigError if the parts of a corpus together have every text of the pool and no other text."""
        bits, other = 0, False
        for each in found:
            bits |= int.from_bytes(each.bits, "little")
            other |= each.other
        if self.rows and not other and bits == (1 << len(self.rows)) - 1:
            raise ConfigError(f"{_SAME} The texts of both are the same.")


NO_POOL: Final = Pool()


@dataclass(slots=True, repr=False)
class Found:
    """The texts of a pool that a part of the corpus has, and whether the part has any other text. Private."""

    pool: Pool
    other: bool = False
    bits: bytearray = field(default_factory=bytearray)  #: one bit per text of the pool, the lowest for the first

    def __post_init__(self) -> None:
        self.bits = self.bits or bytearray(self.pool.size)

    def add(self, texts: Sequence[str]) -> None:
        """Look up texts of the corpus in the pool. The first text that the pool lacks ends the look-ups for good."""
        if self.other or not self.pool.rows:
            return
        for text in filter(says_something, texts):
            row = self.pool.rows.get(_hashed(text))
            if row is None:
                self.other = True
                return
            self.bits[row // 8] |= 1 << row % 8

    def to_bytes(self) -> bytes:
        """Return the findings as bytes. Their number depends on the pool alone."""
        return bytes([self.other]) + self.bits

    @classmethod
    def from_bytes(cls, pool: Pool, data: bytes) -> Found:
        """Return the findings that `to_bytes` wrote."""
        return cls(pool, bool(data[0]), bytearray(data[1:]))


def _hashed(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH).digest()
