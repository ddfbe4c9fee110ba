"""What was found in the files of the input, kept in the folder of an unfinished run.

A file of it holds what was found in a second, of one large file of the input or of hundreds of small ones: to bring
each of ten thousand to the disk by itself takes minutes. What a kill loses of it is surveyed again.
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

_PAUSE: Final = 1.0  # seconds
_SUFFIX: Final = ".survey"
_SORTED: Final = ("ids", "authors")


@dataclass(slots=True, repr=False)
class Surveys:
    """The numbers of the files that were surveyed, each with its records and the hashes of its blocks."""

    folder: Path
    records: dict[int, int] = field(default_factory=dict)
    hashes: dict[int, bytes] = field(default_factory=dict)
    _written: list[str] = field(default_factory=list)
    _waiting: dict[int, Surveyed] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    @classmethod
    def at(cls, folder: Path) -> Surveys:
        """What was written down in this folder; ConfigError where it is something else."""
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
        """Keep what was found in a file; it is written down within about a second, or by `write`."""
        self.records[number], self.hashes[number] = found.records, found.hashes
        self._waiting[number] = found
        if time.monotonic() > self._last + _PAUSE:
            self.write()

    def write(self) -> None:
        """Write down what was kept, last the numbers of records: without them it does not count."""
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
        """How often the id or the author comes that comes most in what was written, by "ids" or "authors"."""
        paths = [self.folder / f"{name}.{what}" for name in self._written]
        return most_common([np.memmap(path, HASHED, "r") for path in paths if path.exists()])


def _merged(parts: Sequence[bytes]) -> bytes:
    """Hashes in order, of several parts that each are."""
    full = [part for part in parts if part]
    return full[0] if len(full) == 1 else np.sort(np.frombuffer(b"".join(full), HASHED)).tobytes()
