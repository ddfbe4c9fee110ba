"""The surveys of input files, stored in the folder of an unfinished run.

A stored file holds the surveys of about one second, of one large input file or of hundreds of small files: to sync one
stored file for each of ten thousand input files takes minutes. Surveys that a kill loses are made again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from dptext.batch.work import HASHED, Surveyed, most_common
from dptext.errors import ConfigError
from dptext.text.files import Target
from dptext.text.inputs import parse_json, read_whole

_PAUSE: Final = 1.0  # seconds between two stored files
_SUFFIX: Final = ".survey"
_SORTED: Final = ("ids", "authors")


@dataclass(slots=True, repr=False)
class Surveys:
    """The surveys of input files, by the numbers of the files."""

    folder: Path
    records: dict[int, int] = field(default_factory=dict)  #: number of records of each file
    hashes: dict[int, bytes] = field(default_factory=dict)  #: hashes of each file's blocks, joined
    _written: list[str] = field(default_factory=list)
    _waiting: dict[int, Surveyed] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    @classmethod
    def at(cls, folder: Path) -> Surveys:
        """Return the surveys stored in this folder. ConfigError: a stored file is unreadable."""
        found = cls(folder)
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            try:
                for number, records, hashes in parse_json(read_whole(path)):
                    found.records[int(number)], found.hashes[int(number)] = int(records), bytes.fromhex(hashes)
            except (ValueError, TypeError):
                raise ConfigError(f"{path} cannot be read as part of a run. Begin anew with --force.") from None
            found._written.append(path.stem)
        return found

    def keep(self, number: int, found: Surveyed) -> None:
        """Keep the survey of a file. It is stored by the first `keep` after about a second, or by `write`."""
        self.records[number], self.hashes[number] = found.records, found.hashes
        self._waiting[number] = found
        if time.monotonic() > self._last + _PAUSE:
            self.write()

    def write(self) -> None:
        """Store the kept surveys. The numbers of records are stored last: without them a survey does not count."""
        if self._waiting:
            name = str(min(self._waiting))
            for what in _SORTED:
                if data := _merged([getattr(each, what) for each in self._waiting.values()]):
                    Target(self.folder / f"{name}.{what}", force=True).write(data)
            rows = [[number, each.records, each.hashes.hex()] for number, each in self._waiting.items()]
            Target(self.folder / f"{name}{_SUFFIX}", force=True).write(json.dumps(rows).encode())
            self._written.append(name)
            self._waiting.clear()
        self._last = time.monotonic()

    def most(self, what: str) -> int:
        """Return the count of the most frequent id ("ids") or author ("authors") in the stored surveys."""
        paths = [self.folder / f"{name}.{what}" for name in self._written]
        return most_common([np.memmap(path, HASHED, "r") for path in paths if path.exists()])


def _merged(parts: Sequence[bytes]) -> bytes:
    """Merge sorted arrays of hashes into one sorted array, as bytes."""
    full = [part for part in parts if part]
    return full[0] if len(full) == 1 else np.sort(np.frombuffer(b"".join(full), HASHED)).tobytes()
