"""Every file that the program writes is written here.

A file appears under its name when it is complete. It replaces another file only with `force`, and never an input that
the file was made from. Releases and their certificates are for sharing: their modes follow the umask. Only the owner
can read any other file that is computed from private texts.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from dptext.errors import ConfigError
from dptext.text.inputs import file_error, telling

_PRIVATE = 0o600
_SHARED = 0o666  # before the umask takes bits away
_UMASK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Target:
    """The path of a file to write, and the files that it must not replace."""

    path: Path
    force: bool = False  #: whether an existing file may be replaced
    #: the inputs of the file: files, and folders with every file in them. No input is ever replaced, even with `force`,
    #: and even if `path` is another name of an input (a symbolic or a hard link).
    inputs: tuple[Path, ...] = ()
    private: bool = True  #: whether only the owner can read the file (mode 0600). Otherwise its mode follows the umask.

    @staticmethod
    def at(path: "str | os.PathLike[str] | Target") -> "Target":
        """Return the target of a path. A target is returned unchanged."""
        return path if isinstance(path, Target) else Target(Path(path))

    def check(self) -> None:
        """Raise before the work the ConfigError that `write` would raise after it.

        ConfigError: the path is an input; something exists at the path and `force` is not set; the folder does not
        exist; or no file can be put at the path.
        """
        self._refuse()
        try_replacing(self.path)

    def _refuse(self) -> None:
        refuse_inputs(self.path, self.inputs)
        refuse_existing(self.path, force=self.force)
        with writing(self.path):
            if not stat.S_ISDIR(self.path.parent.stat().st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open a new file under a temporary name. It moves to `path` when the block ends without an error."""
        self._refuse()
        partial = _partial(self.path)
        file = create_private(partial)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            if not self.private:
                share(partial)
            publish(file, partial, self.path, force=self.force)
        finally:
            # On a full disk, closing fails as well. The temporary file is deleted in any case.
            with contextlib.suppress(OSError):
                file.close()
            partial.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete temporary files that killed runs left of this file. Files of running processes are locked and stay."""
        for each in self.path.parent.glob(f".{glob.escape(self.path.name)}.{'[0-9a-f]' * 8}.partial"):
            with contextlib.suppress(OSError), each.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                each.unlink()

    def write(self, data: bytes) -> None:
        """Write a whole file. ConfigError: as `check`, or the disk refuses."""
        with writing(self.path), self.opened() as file:
            file.write(data)


def write_first(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, unless the file exists. Of several processes at once, one writes."""
    partial = _partial(path)
    with writing(path), create_private(partial) as file:
        try:
            file.write(data)
            to_disk(file)
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)  # unlike a rename, a link never replaces a file
            sync_folder(path.parent)
        finally:
            partial.unlink()


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder under a temporary name. It moves to `path` when the block ends without an error.

    Only the owner can read the folder (mode 0700, its files 0600). After the block, it survives a loss of power. If
    `path` is a fixed folder (`is_fixed`), that folder stays and receives the contents of the new one. ConfigError: as
    `require_free`, or the block raised an OSError.
    """
    require_free(path)
    path = Path(os.path.realpath(path))
    fixed = is_fixed(path)
    partial = _partial(path / "new") if fixed else _partial(path)
    try:
        with writing(path):
            partial.mkdir(mode=0o700)
            yield partial
            for each in partial.rglob("*"):
                if each.is_file():
                    each.chmod(_PRIVATE)
                    with each.open("rb+") as file:
                        to_disk(file)
                else:
                    sync_folder(each)
            sync_folder(partial)
            if fixed:
                for each in partial.iterdir():
                    each.rename(path / each.name)
                sync_folder(path)
            else:
                partial.rename(path)  # replaces an empty folder
                sync_folder(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def writing(path: str | os.PathLike[str]) -> contextlib.AbstractContextManager[None]:
    """Turn an OSError of the block into a ConfigError that names the file at `path`."""
    return telling(path, "write")


def refuse_inputs(path: str | os.PathLike[str], inputs: Iterable[Path]) -> None:
    """Raise ConfigError if the path leads to one of these files, or to a file in one of these folders.

    Files are compared by device and inode number, so links cannot hide an input.
    """
    own = _number(Path(path))
    for given in inputs if own is not None else ():
        if any(_number(file) == own for file in _files_of(given)):
            raise ConfigError(
                f"Expected {str(path)!r} to be no input, found a file that is read, under this name or another "
                f"({str(given)!r}). Choose another path."
            )


def _number(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # no file is there
    return found.st_dev, found.st_ino


def _files_of(given: Path) -> Iterator[Path]:
    yield given
    with contextlib.suppress(OSError):  # a folder that cannot be listed cannot be read as an input either
        yield from given.rglob("*")


def refuse_existing(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise ConfigError if anything exists at the path, unless it is a file and `force` is set."""
    if not os.path.lexists(path):
        return
    if not force:
        raise ConfigError(
            f"Expected no file at {str(path)!r} yet. Choose another path or overwrite it with --force on the command "
            "line, force=True in Python."
        )
    there = Path(path)
    if there.is_dir() and not there.is_symlink():
        raise file_error(path, "write", OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not there.is_file() and not there.is_symlink():
        raise ConfigError(f"Expected {str(path)!r} to be a file, which --force overwrites. Choose another path.")


def require_free(folder: Path) -> None:
    """Raise ConfigError if anything but an empty folder exists at the path, or if no folder can be put there."""
    with writing(folder):
        free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not free:
        raise ConfigError(f"Expected {str(folder)!r} to be absent or empty. Remove it, or choose another folder.")
    own = Path(os.path.realpath(folder))
    beside = own / "new" if is_fixed(own) else own
    partial, moved = _partial(beside), _partial(beside)
    with writing(folder):
        partial.mkdir(mode=0o700)
        try_moving(partial, moved)


def is_fixed(folder: Path) -> bool:
    """Return whether no other folder can replace this folder, such as a mount point or the working directory.

    The test renames the folder onto a folder that is not empty. The system refuses that with ENOTEMPTY or EEXIST only
    if it has no other reason to refuse.
    """
    own = Path(os.path.realpath(folder))
    if not own.is_dir():
        return False
    with contextlib.suppress(FileNotFoundError):  # the working directory was deleted
        if Path.cwd().is_relative_to(own):  # replaced, it would leave this process in a folder without a name
            return True
    full = _partial(own)
    inner = full / "full"
    try:
        full.mkdir(mode=0o700)
    except OSError:
        return True  # no folder can be made beside it
    try:
        inner.mkdir(mode=0o700)
        own.rename(full)
        full.rename(own)  # for a system that replaces full folders: the folder moves back, and nothing is lost
    except OSError as error:
        return error.errno not in (errno.ENOTEMPTY, errno.EEXIST)
    finally:
        for each in (inner, full):
            with contextlib.suppress(FileNotFoundError):
                each.rmdir()
    return False


def try_moving(folder: Path, moved: Path) -> None:
    """Move an empty folder, as a full folder will be moved later, and remove it. OSError: the system refuses."""
    try:
        folder.rename(moved)
    finally:
        (moved if moved.exists() else folder).rmdir()


def try_replacing(path: Path) -> None:
    """Raise ConfigError unless `publish` can put a file at the path. An existing file stays unchanged.

    The test renames and removes an empty file beside the path. An existing file is refused if it is a mount point, if
    it is protected, or if it belongs to another user in a sticky folder, where only owners may remove their files.
    """
    first, second = _partial(path), _partial(path)
    with writing(path):
        create_private(first).close()
        try:
            first.replace(second)
        finally:
            (second if second.exists() else first).unlink()
        if not os.path.lexists(path):
            return
        there, folder = path.lstat(), path.parent.stat()
        if folder.st_mode & stat.S_ISVTX and os.geteuid() not in (0, there.st_uid, folder.st_uid):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
        except OSError as error:  # other errors do not say whether the file can be replaced
            if error.errno == errno.EPERM:
                raise
        try:
            os.link(path, second, follow_symlinks=False)
        except OSError as error:  # other errors may mean that the file system has no hard links
            if error.errno == errno.EXDEV:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from None
        else:
            second.unlink()


def create_private(path: str | os.PathLike[str]) -> BinaryIO:
    """Create a file that only its owner may read (mode 0600) and open it for writing. ConfigError: the file exists."""
    with writing(path):  # mode x follows no link
        return open(path, "xb", opener=lambda name, flags: os.open(name, flags, _PRIVATE))


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new file that only its owner may read. ConfigError: as `create_private`. OSError: the disk refuses."""
    with create_private(path) as file:
        file.write(data)


def share(path: Path) -> None:
    """Give a file that `create_private` made the mode of an ordinary new file."""
    # A process learns its umask only by setting it. A probe file would avoid this, but a kill could leave it behind.
    with _UMASK:
        mask = os.umask(0o077)  # files that other threads create meanwhile are readable by their owner alone
        os.umask(mask)
    path.chmod(_SHARED & ~mask)


def open_private(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file that `create_private` made, to continue it. ConfigError: a link to another file took its place."""
    with writing(path):
        file = os.fdopen(os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)), "r+b")
    if os.fstat(file.fileno()).st_nlink == 1:
        return file
    file.close()
    raise ConfigError(f"Expected {str(path)!r} to be a file of one name, found a link to another file: remove it.")


@contextlib.contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file, made if there is none. ConfigError, with the message `what`: another process holds the lock."""
    with writing(path):
        lock = os.open(path, os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), _PRIVATE)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(what) from None
        yield
    finally:
        os.close(lock)


def publish(file: BinaryIO, partial: Path, path: Path, *, force: bool = False) -> None:
    """Write a complete file, open at `partial`, to the disk, close it and rename it to `path`.

    Both paths lie in one folder. After the return, the file survives a loss of power. It keeps its mode. ConfigError:
    the disk refuses, or ``path`` exists.
    """
    refuse_existing(path, force=force)
    with writing(path):
        to_disk(file)
        file.close()
        partial.replace(path)
    sync_folder(path.parent)


def to_disk(file: IO[bytes]) -> None:
    """Make the contents of a file survive a loss of power. `sync_folder` does this for its name."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power, if the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal digits. The file is read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
