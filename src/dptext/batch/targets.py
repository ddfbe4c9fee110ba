"""The targets of parts, with an operation that succeeds once: one of several attempts at a part becomes visible.

In a folder an attempt is a file with a random name that its owner alone can read. A hard link, which never replaces a
file, publishes it. On an object store an attempt is a conditional put. Attempts that lose are deleted.
"""

import contextlib
import hashlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from dptext.batch.shards import file_system
from dptext.errors import ConfigError
from dptext.text.files import create_private, sha256_of, writing
from dptext.text.inputs import telling

_PROBES: Final = 8
_BLOCK: Final = 1 << 20
_LONGEST_KEY: Final = 1024  # bytes of a name in S3 and in Google's store
PARTIAL: Final = ".partial"
Write = Callable[[BinaryIO], object]


def filled(data: bytes) -> Write:
    """Return a function that writes these bytes into a file."""
    return lambda file: file.write(data)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this computer, or of a network file system that has hard links."""

    path: Path

    def publish(self, name: str, write: Write) -> str:
        """Write a file and make it visible. If a file of this name is visible already, the new file is deleted.

        Returns the sha256 of the visible file. ConfigError: the disk or the store refuses.
        """
        final = self.path / name
        partial = final.with_name(f".{secrets.token_hex(16)}{PARTIAL}")  # a longer form of `name` could be too long
        with writing(final):
            file = create_private(partial)  # makes no folder: a worker may outlive its run, whose folder is deleted
            try:
                with file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                digest = sha256_of(partial)
                try:
                    os.link(partial, final)
                except FileExistsError:
                    digest = sha256_of(final)
            finally:
                partial.unlink(missing_ok=True)
        return digest

    def prepare(self, names: Iterable[str]) -> None:
        """Make the folders of files with these names."""
        with writing(self.path):
            for folder in {self.path, *((self.path / name).parent for name in names)}:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def try_names(self, names: Iterable[str]) -> None:
        """Raise ConfigError for names that the file system refuses or takes for equal. No trial file is left."""
        with writing(self.path), tempfile.TemporaryDirectory(prefix=".", dir=self.path) as folder:
            for name in names:
                path = Path(folder, name)
                with writing(name):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.mkdir()

    def sha256(self, name: str) -> str | None:
        """Return the sha256 of a visible file, or None if there is no such file."""
        path = self.path / name
        return sha256_of(path) if path.is_file() else None

    def names(self) -> list[str]:
        """Return the names of the visible files, without unfinished attempts."""
        files = (path for path in sorted(self.path.rglob("*")) if path.is_file() and path.suffix != PARTIAL)
        return [path.relative_to(self.path).as_posix() for path in files]

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete the attempts of workers, and the trials of drivers, that were killed."""
        for path in self.path.rglob(f".*{PARTIAL}"):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Objects:
    """A prefix of an object store, by fsspec. Its options may hold secrets and are not shown."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def _at(self, name: str = "") -> tuple[Any, str]:
        fs, root = file_system(self.url, self.options)
        fs.invalidate_cache()  # other workers write, too
        return fs, f"{root.rstrip('/')}/{name}"

    def _telling(self, name: str, verb: str = "write") -> contextlib.AbstractContextManager[None]:
        return telling(f"{self.url.rstrip('/')}/{name}", verb)

    def publish(self, name: str, write: Write) -> str:
        """Publish a file as `Folder.publish`. It is written to an unnamed temporary file, then put from memory."""
        fs, path = self._at(name)
        with tempfile.TemporaryFile() as file, self._telling(name):
            write(file)
            file.seek(0)
            data = file.read()
            try:
                fs.pipe_file(path, data, mode="create")
            except OSError:
                # Another attempt won, or the answer to this put was lost: the visible file is whole and the only one.
                visible = self.sha256(name)
                if visible is None:
                    raise
                return visible
        return hashlib.sha256(data).hexdigest()

    def prepare(self, names: Iterable[str]) -> None:
        """Do nothing: an object store has no folders."""

    def try_names(self, names: Iterable[str]) -> None:
        """Raise ConfigError for names that are too long for an object store."""
        _, prefix = self._at()
        for name in names:
            if len(f"{prefix}{name}".encode()) > _LONGEST_KEY:
                raise ConfigError(f"Expected a shorter name than {name!r}: an object store takes no longer ones.")

    def sha256(self, name: str) -> str | None:
        """Return the sha256 of a visible file, or None if there is no such file."""
        fs, path = self._at(name)
        digest = hashlib.sha256()
        with self._telling(name, "read"):
            if not fs.exists(path):
                return None
            with fs.open(path, "rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        return digest.hexdigest()

    def read(self, name: str) -> bytes:
        """Return the bytes of a small file."""
        fs, path = self._at(name)
        with self._telling(name, "read"):
            return bytes(fs.cat_file(path))

    def names(self) -> list[str]:
        """Return the names of the visible files."""
        fs, root = self._at()
        with self._telling("", "read"):
            return sorted(str(path).removeprefix(root) for path in fs.find(root))

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        fs, path = self._at(name)
        with self._telling(name), contextlib.suppress(FileNotFoundError):
            fs.rm_file(path)

    def sweep(self) -> None:
        """Delete the trials of drivers that were killed. An attempt of a worker is not visible in an object store."""
        for name in self.names():
            if name.startswith(".") and name.endswith(PARTIAL):
                self.delete(name)


Target = Folder | Objects


def probe(target: Target) -> None:
    """Raise ConfigError if a name can be published twice at the target: of many attempts at once, one must succeed."""
    name = f".probe-{secrets.token_hex(8)}{PARTIAL}"  # no part; `sweep` deletes what a kill leaves
    try:
        with ThreadPoolExecutor(_PROBES) as pool:
            seen = set(pool.map(lambda i: target.publish(name, filled(bytes([i]))), range(_PROBES)))
        seen |= {target.publish(name, filled(bytes([_PROBES]))), target.sha256(name) or ""}
    finally:
        target.delete(name)
    if len(seen) != 1:
        raise ConfigError(
            "Expected a place where a file can be created once and never be replaced: this one lets several win "
            "(hard links, or `If-None-Match: *` of an object store). Nothing was written."
        )
