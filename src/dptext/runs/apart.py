"""Refusal of a public pool that is the private corpus: texts of the pool leave as they are.

The comparison is of paths, of the bytes of whole files, and of objects in memory, before any text is read. Texts are
not compared: a refusal would be an answer without noise, which one record can change (decision 0017).
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob
from os import PathLike
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from dptext.errors import ConfigError
from dptext.text.files import sha256_of

_SAME: Final = "Expected a public pool other than the private corpus: texts of the pool leave as they are."


def refuse_same(private: object, public: object) -> None:
    """Raise ConfigError if the pool is the same object, or the file or the bytes of a file, as the private corpus."""
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
