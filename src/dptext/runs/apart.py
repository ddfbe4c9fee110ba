"""That a public pool is not the private corpus, whose texts would leave as they are.

Places, whole files and whole lists of texts are compared, never single texts: see decision 0017.
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

_SAME: Final = "Expected a public pool beside the private corpus: texts of the pool leave as they are."
_HASH: Final = 16  # bytes: two texts agree by a chance of 2**-128


def refuse_same(private: object, public: object) -> None:
    """ConfigError where the private corpus is the pool, or one of its files is: the same file, or byte for byte."""
    same = private is public and private is not None
    if isinstance(private, str | PathLike) and isinstance(public, str | PathLike):
        mine, pool = _path(private), _path(public)
        if mine is None or pool is None:  # far away
            same = str(private).rstrip("/") == str(public).rstrip("/")
        else:
            same = mine == pool or mine in pool.parents or any(_alike(each, pool) for each in _files(mine))
    if same:
        found = f" Found both in {str(private)!r}." if isinstance(private, str | PathLike) else ""
        raise ConfigError(_SAME + found)


def _path(where: str | PathLike[str]) -> Path | None:
    """The path of this computer that a path or a URL leads to, without links; None of another computer."""
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
    """Whether both are one file, or hold the same bytes. What cannot be read is left to whoever reads it."""
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
    """The texts of a public pool by their hashes, to tell whether a corpus has the same ones in any order."""

    rows: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Pool:
        """Of those texts that say something; how often each occurs does not count."""
        distinct = dict.fromkeys(_hashed(text) for text in texts if says_something(text))
        return cls({each: row for row, each in enumerate(distinct)})

    @property
    def size(self) -> int:
        """Bytes with a bit for each text."""
        return -(-len(self.rows) // 8)

    def refuse(self, found: Iterable[Found]) -> None:
        """ConfigError where the parts of a corpus have the texts of the pool together, and no others."""
        bits, other = 0, False
        for each in found:
            bits |= int.from_bytes(each.bits, "little")
            other |= each.other
        if self.rows and not other and bits == (1 << len(self.rows)) - 1:
            raise ConfigError(f"{_SAME} The texts of both are the same.")


NO_POOL: Final = Pool()


@dataclass(slots=True, repr=False)
class Found:
    """Which texts of a pool a part of the corpus has, and whether it has another one. Private."""

    pool: Pool
    other: bool = False
    bits: bytearray = field(default_factory=bytearray)  #: one for each text of the pool, the first lowest

    def __post_init__(self) -> None:
        self.bits = self.bits or bytearray(self.pool.size)

    def add(self, texts: Sequence[str]) -> None:
        """Look at texts of the corpus. After the first that the pool lacks, nothing is looked at."""
        if self.other or not self.pool.rows:
            return
        for text in filter(says_something, texts):
            row = self.pool.rows.get(_hashed(text))
            if row is None:
                self.other = True
                return
            self.bits[row // 8] |= 1 << row % 8

    def to_bytes(self) -> bytes:
        """As many bytes, whatever was found."""
        return bytes([self.other]) + self.bits

    @classmethod
    def from_bytes(cls, pool: Pool, data: bytes) -> Found:
        """What `to_bytes` gave."""
        return cls(pool, bool(data[0]), bytearray(data[1:]))


def _hashed(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH).digest()
