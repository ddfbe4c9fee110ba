"""The state folder of an unfinished run, and the place where its data set appears.

A data set appears in a new folder at once, by one renaming. In a fixed folder, such as a mount point, or under a prefix
of an object store, it appears by its manifest, which comes last. The state of a run is a folder that its owner alone
can read, and that is deleted at the end of the run. The folder holds the key of the run's hashes. Without the key,
hashes of private records tell nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from dptext.batch.shards import Shard, as_path, file_system, is_remote
from dptext.batch.targets import Folder, Objects, Target, filled
from dptext.errors import ConfigError
from dptext.runs.certificate import MANIFEST, Manifest, certificate_path
from dptext.runs.states import STATE, WITHIN, FolderState, run_folder
from dptext.text.files import held, is_fixed, refuse_existing, share, try_moving, writing

_HEX: Final = re.compile("[0-9a-f]{64}")
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder of an unfinished run."""

    path: Path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make and lock the state folder. ConfigError: another run holds the lock."""
        with writing(self.path):
            self.path.mkdir(mode=0o700, exist_ok=True)
        with held(self.path / _LOCK, f"Another run is writing here at this moment: {self.path}."):
            yield

    @property
    def begun(self) -> bool:
        """True if the folder has the state of a run, which can be resumed."""
        return (self.path / STATE).exists()

    def save(self, state: FolderState) -> None:
        """Write the state. A kill leaves the old or the new state."""
        state.save(self.path / STATE)

    def load(self) -> FolderState | None:
        """Return the saved state, or None. ConfigError: the file holds no state."""
        return FolderState.load(self.path / STATE) if self.begun else None

    def clear(self) -> None:
        """Delete all files but the lock. The state is deleted last, so that a killed run can be resumed."""
        for path in sorted(self.path.iterdir(), key=lambda path: path.name == STATE):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()

    def delete(self) -> None:
        """Delete the folder with all files."""
        self.clear()
        (self.path / _LOCK).unlink(missing_ok=True)
        self.path.rmdir()


_CLAIM: Final = "unfinished.json"  # file in an object store with the token of the run that is writing there
_CERTIFICATE: Final = certificate_path(Path(MANIFEST)).name
_REPLACED: Final = "replaced"
_WHOLE: Final = "whole"  # folder of a data set that is being moved into a fixed folder
_TIMES: Final = "when each file was written, which an object store shows: it follows from how long the texts are"


def place_at(where: str, options: Mapping[str, Any]) -> Place:
    """Return the place of a path or URL. ConfigError: it is empty."""
    where = as_path(where)
    if not where:
        raise ConfigError("Expected the path or URL of a new folder, found an empty one.")
    # Links are followed: a folder cannot replace a link, but can replace the link's target.
    return ObjectStore(where.rstrip("/"), options) if is_remote(where) else Disk(Path(os.path.realpath(where)))


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder. Its parts lie in the run's hidden folder until all are written, and then get one time of writing.

    The hidden folder of a fixed folder lies within that folder.
    """

    path: Path

    @property
    def reveals(self) -> tuple[str, ...]:
        """Facts that the place itself reveals."""
        return ()

    def default_state(self) -> Path:
        """Return the default path of a run's state folder, from which parts can be renamed into place."""
        beside = run_folder(self.path)
        within = self.path / WITHIN
        return within if within.exists() or (not beside.exists() and is_fixed(self.path)) else beside

    @property
    def is_complete(self) -> bool:
        """Whether a data set lies here."""
        return (self.path / MANIFEST).is_file()

    def check(self, shards: Sequence[Shard], *, force: bool, resume: bool) -> None:
        """Raise ConfigError for a place that cannot be written, or that is taken and may not be replaced."""
        own = self.path.resolve()
        for shard in shards:
            read = Path(shard.where).resolve()
            if not is_remote(shard.where) and own in (read, *read.parents):
                raise ConfigError(f"Expected {str(self.path)!r} to hold no file of the input. Choose another folder.")
        if not self.path.parent.is_dir():
            raise ConfigError(f"Expected a folder for {str(self.path)!r}: there is no {str(self.path.parent)!r}.")
        if self._is_free() or resume:
            return
        if self.path.is_dir() and not self.is_complete:  # such as a volume with its lost+found
            raise ConfigError(
                f"Expected {str(self.path)!r} to be empty, or a data set of dptext. Name a folder within it, as "
                f"{str(self.path / 'released')!r}."
            )
        if not force and self.is_complete:
            raise ConfigError(
                f"Expected no data set at {str(self.path)!r} yet: the run that wrote it is complete. Choose another "
                "folder, or replace it with --force (force=True in Python)."
            )
        if not force:
            refuse_existing(self.path)
        if not self.is_complete:
            raise ConfigError(f"Expected {str(self.path)!r} to be a data set of dptext, which --force replaces.")

    def _is_free(self) -> bool:
        return not self.path.exists() or (self.path.is_dir() and not _in(self.path))

    def parts(self, token: str, state: Path) -> Target:
        """Return the target of the run's parts."""
        return Folder(state / token)

    def named(self, part: str, token: str) -> str:
        """Return the name of a part in the manifest."""
        return part

    def claim(self, token: str, *, force: bool) -> None:
        """Do nothing: the parts lie in the state folder, which is locked, and `publish` replaces nothing unasked."""

    def forget(self, token: str, state: Path) -> None:
        """Delete the parts of a run that is given up."""
        target = Folder(state / token)
        target.sweep()
        for name in target.names():
            target.delete(name)

    def try_publishing(self, folder: Path) -> None:
        """Raise ConfigError if parts in this state folder cannot be moved to the place."""
        trial = folder / "trial"
        with writing(self.path):
            trial.mkdir(mode=0o700, exist_ok=True)
            beside = self.path.parent / f".{self.path.name}.trial"
            try_moving(trial, self.path / f"{WITHIN}.trial" if is_fixed(self.path) else beside)

    def publish(self, state: FolderState, folder: Path) -> None:
        """Make the data set visible. After a kill between two steps, call this again."""
        made, whole = folder / state.token, folder / _WHOLE
        if whole.is_dir():
            self._fill(whole)
            return
        if not made.is_dir():  # a kill came after the renaming
            there = self.path / MANIFEST
            if not there.is_file() or there.read_text("utf-8") != state.manifest:
                raise ConfigError(f"{made} is gone: nothing is released. {state.anew}")
            return
        with writing(self.path):
            target = Folder(made)
            target.sweep()
            for name, text in ((_CERTIFICATE, state.certificate), (MANIFEST, state.manifest)):
                target.delete(name)
                target.publish(name, filled(text.encode()))
            Manifest.read(made / MANIFEST).check(made)
            now = (made / MANIFEST).stat().st_mtime
            for path in sorted(made.rglob("*"), reverse=True):
                if path.is_dir():
                    path.chmod(0o755)
                else:
                    share(path)
                os.utime(path, (now, now))  # the time of writing depends on the lengths of texts
            made.chmod(0o755)
            if not self._is_free() and not state.force:
                refuse_existing(self.path)
            replaced = folder / _REPLACED
            if not is_fixed(self.path):
                if not self._is_free():
                    self.path.rename(replaced)
                made.rename(self.path)  # it replaces an empty folder only
                return
            replaced.mkdir(mode=0o700, exist_ok=True)
            for each in _in(self.path):
                each.rename(replaced / each.name)
            made.rename(whole)
            self._fill(whole)

    def _fill(self, whole: Path) -> None:
        """Move all files of a data set into the fixed folder. The manifest, which makes it a data set, comes last."""
        with writing(self.path):
            for each in reversed(_in(whole)):
                refuse_existing(self.path / each.name)
                each.rename(self.path / each.name)
            whole.rmdir()


def _in(folder: Path) -> list[Path]:
    """Return the paths in a folder except the state of a run, with the manifest first."""
    found = (each for each in folder.iterdir() if not each.name.startswith(WITHIN))
    return sorted(found, key=lambda each: (each.name != MANIFEST, each.name != _CERTIFICATE, each.name))


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A prefix of an object store. The parts of a run lie under its token. Only parts in the manifest count."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def reveals(self) -> tuple[str, ...]:
        """Facts that the place itself reveals: the times of writing."""
        return (_TIMES,)

    @property
    def _whole(self) -> Objects:
        return Objects(self.url, self.options)

    def default_state(self) -> Path:
        """Return the default path of a run's state folder, in the current folder."""
        return Path(f".{PurePosixPath(self.url).name}.run")

    @property
    def is_complete(self) -> bool:
        """Whether a data set lies here."""
        return MANIFEST in self._whole.names()

    def check(self, shards: Sequence[Shard], *, force: bool, resume: bool) -> None:
        """Raise ConfigError for a place that holds input files, or that is taken and may not be replaced."""
        fs, root = file_system(self.url, self.options)
        own = f"{fs.unstrip_protocol(root).rstrip('/')}/"
        for shard in shards:
            if shard.where.startswith(own):
                raise ConfigError(f"Expected {self.url!r} to hold no file of the input. Choose another prefix.")
        if not force and not resume and self.is_complete:
            raise ConfigError(
                f"Expected no data set at {self.url} yet: the run that wrote it is complete. Replace it with --force."
            )

    def parts(self, token: str, state: Path) -> Target:
        """Return the target of the run's parts, under the token of the run."""
        return Objects(f"{self.url}/{token}", self.options)

    def named(self, part: str, token: str) -> str:
        """Return the name of a part in the manifest."""
        return f"{token}/{part}"

    def claim(self, token: str, *, force: bool) -> None:
        """Claim the place for one of two runs on two computers. `force` deletes the claim and parts of the other run.

        ConfigError: another run has claimed the place.
        """
        whole, data = self._whole, json.dumps({"token": token}).encode()
        if force and whole.sha256(_CLAIM) is not None:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self.forget(str(json.loads(whole.read(_CLAIM))["token"]), Path())
            whole.delete(_CLAIM)
        if whole.publish(_CLAIM, filled(data)) != hashlib.sha256(data).hexdigest():
            raise ConfigError(f"An unfinished run of another computer lies at {self.url}: --force throws it away.")

    def try_publishing(self, folder: Path) -> None:
        """Do nothing: `claim` publishes a file, and so tries publishing already."""

    def forget(self, token: str, state: Path) -> None:
        """Delete the parts and the claim of a run that is given up."""
        target = self.parts(token, state)
        for name in target.names():
            target.delete(name)
        self._whole.delete(_CLAIM)

    def publish(self, state: FolderState, folder: Path) -> None:
        """Make the data set visible. After a kill between two steps, call this again.

        ConfigError: another data set has appeared at the URL.
        """
        whole = self._whole
        self.parts(state.token, folder).sweep()
        if state.force and whole.sha256(MANIFEST) not in (None, hashlib.sha256(state.manifest.encode()).hexdigest()):
            older = json.loads(whole.read(MANIFEST))
            for name in (MANIFEST, _CERTIFICATE, *(str(part["name"]) for part in older["parts"])):
                whole.delete(name)
        for name, text in ((_CERTIFICATE, state.certificate), (MANIFEST, state.manifest)):
            data = text.encode()
            if whole.publish(name, filled(data)) != hashlib.sha256(data).hexdigest():
                raise ConfigError(f"Another data set has appeared at {self.url}: nothing of this one counts.")
        whole.delete(_CLAIM)


Place = Disk | ObjectStore
