"""Where an unfinished run stands: a folder beside the target, readable by its owner only, until the run ends.

It holds the key of the run's hashes, so that the hashes of private records in it mean nothing once it is deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from dptext.batch.work import HASHED, Surveyed, most_common
from dptext.errors import ConfigError
from dptext.text.files import create_private, held, writing

_HEX: Final = re.compile("[0-9a-f]{64}")
_COUNT: Final = 8  # bytes
_LOCK: Final = "lock"
_STATE: Final = "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """What is needed to go on.

    Attributes:
        key: of the hashes, hexadecimal.
        token: of the run: where its parts lie.
        settings: sha256 of the run's settings and of the names of its input.
        charge_key: idempotency key of the charge, where a ledger pays.
        force: whether a data set that is there may be replaced.
        certificate, manifest: as text, once all parts are there.
    """

    key: str
    token: str
    settings: str
    charge_key: str = ""
    force: bool = False
    certificate: str = ""
    manifest: str = ""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder of an unfinished run."""

    path: Path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The folder, made where there is none; ConfigError while another run has it."""
        with writing(self.path):
            self.path.mkdir(mode=0o700, exist_ok=True)
        with held(self.path / _LOCK, f"Another run is writing here at this moment: {self.path}."):
            yield

    @property
    def begun(self) -> bool:
        """Whether there is a run to go on with."""
        return (self.path / _STATE).exists()

    def save(self, state: State) -> None:
        """Write the state; a kill leaves the old one or the new one."""
        self._write(self.path / _STATE, json.dumps(asdict(state)).encode())

    def load(self) -> State | None:
        """The state that was saved, or None; ConfigError where it is something else."""
        path = self.path / _STATE
        if not self.begun:
            return None
        try:
            state = State(**json.loads(path.read_text("utf-8")))
            if not all(map(_HEX.fullmatch, (state.key, state.settings))) or not state.token.isalnum():
                raise ValueError
        except (OSError, ValueError, TypeError, RecursionError):
            raise ConfigError(f"{path} cannot be read as the state of a run. Begin anew with --force.") from None
        return state

    def keep(self, number: int, found: Surveyed) -> None:
        """Write down what was found in a shard, last its number of records: without it the shard is surveyed again."""
        self._write(self.path / f"{number}.ids", found.ids)
        self._write(self.path / f"{number}.authors", found.authors)
        self._write(self.path / f"{number}.hashes", found.records.to_bytes(_COUNT, "big") + found.hashes)

    def records(self, number: int) -> int | None:
        """How many records a shard has, if it was surveyed."""
        path = self.path / f"{number}.hashes"
        if not path.exists():
            return None
        with path.open("rb") as file:
            return int.from_bytes(file.read(_COUNT), "big")

    def hashes(self, number: int) -> bytes:
        """The hashes of the blocks of a shard that was surveyed."""
        return (self.path / f"{number}.hashes").read_bytes()[_COUNT:]

    def most(self, what: str, n: int) -> int:
        """How often the id or the author comes that comes most in the first `n` shards, by "ids" or "authors"."""
        paths = [self.path / f"{number}.{what}" for number in range(n)]
        return most_common([np.memmap(path, HASHED, "r") for path in paths if path.stat().st_size])

    def clear(self) -> None:
        """Delete all but the lock, last the state: what a kill leaves can be gone on with."""
        for path in sorted(self.path.iterdir(), key=lambda path: path.name == _STATE):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()

    def delete(self) -> None:
        """Delete all of it."""
        self.clear()
        (self.path / _LOCK).unlink(missing_ok=True)
        self.path.rmdir()

    def _write(self, path: Path, data: bytes) -> None:
        draft = path.with_name(path.name + ".new")
        with writing(path):
            draft.unlink(missing_ok=True)
            with create_private(draft) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
