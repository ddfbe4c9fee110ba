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
    """Raise ConfigError if the pool is the private corpus, or a file of it, as `are_same` tells."""
    if are_same(private, public):
        paths = isinstance(private, str | PathLike) and isinstance(public, str | PathLike)
        found = f" Found the same in {str(private)!r} and {str(public)!r}." if paths else ""
        raise ConfigError(_SAME + found)


def are_same(private: object, public: object) -> bool:
    """Return whether public texts are the private corpus, or a file of it: the object, a file, or the bytes of one.

    Both may be a file, or a folder with all files in it; the private corpus may be a pattern of names. Of two folders
    the bytes of all private files have to be in the pool: a file may hold a single text, which others wrote, too.
    """
    same = private is public and private is not None
    if isinstance(private, str | PathLike) and isinstance(public, str | PathLike):
        mine, pool = _path(private), _path(public)
        if mine is None or pool is None:  # on another computer
            same = str(private).rstrip("/") == str(public).rstrip("/")
        else:
            same = mine == pool or mine in pool.parents or pool in mine.parents or _share(mine, pool)
    return same


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


def _share(mine: Path, pool: Path) -> bool:
    """Return whether a file is in both places, or is copied from one to the other. Empty files are no copies."""
    public: dict[int, list[Path]] = {}
    for each in _files(pool):
        public.setdefault(_size(each), []).append(each)
    private = [(each, public.get(_size(each), [])) for each in _files(mine)]
    if any(_one_file(own, other) for own, others in private for other in others):
        return True
    filled = [(own, others) for own, others in private if _size(own) > 0]
    copied = (any(_alike(own, other) for other in others) for own, others in filled)
    return bool(filled) and (all(copied) if pool.is_dir() else any(copied))


def _size(path: Path) -> int:
    """Return the number of bytes; -1 for what is no file or cannot be looked at."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1


def _one_file(one: Path, other: Path) -> bool:
    """Return whether both paths are one file. An unreadable path gives False, no error."""
    try:
        return one.is_file() and one.samefile(other)
    except OSError:
        return False


def _alike(one: Path, other: Path) -> bool:
    """Return whether both files, of one size, hold the same bytes. An unreadable file gives False, no error."""
    try:
        return sha256_of(one) == sha256_of(other)
    except OSError:
        return False
