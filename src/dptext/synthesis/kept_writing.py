"""What a writer has written so far, in a file, so that a run that was stopped goes on where it was.

The file holds what was written from noisy numbers and public text alone. A line is one task.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from dptext.errors import ConfigError
from dptext.synthesis.word_shifts import More, Shift, Texts
from dptext.text.files import open_private, write_private
from dptext.types import Floats, Json


class WritingDesk(Protocol):
    """Who writes: this process, or others."""

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model; empty where nobody here can read them."""

    def shifts(self, tasks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Shift]]:
        """Yield label and shift for each label with its seed, in the order of the tasks."""

    def texts(self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]) -> Iterator[tuple[int, Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""


class KeptWriting:
    """The finished tasks of a run, by label, number of texts (0 for a shift) and seed.

    The file is made when the first task is kept.
    """

    def __init__(self, path: Path, head: Mapping[str, Json], done: dict[tuple[int, int, int], Any]) -> None:
        self.path, self.head, self.done = path, head, done

    def __repr__(self) -> str:
        return f"KeptWriting({len(self.done)} tasks)"

    @classmethod
    def begin(cls, path: Path, run: Mapping[str, Json], seed: int) -> tuple[Self, int]:
        """Return what the file holds of this run, and the seed of the run: that of the file, or a new `seed`.

        ConfigError: the file is of another run.
        """
        data = path.read_bytes() if path.exists() else b""
        if (whole := data.rfind(b"\n") + 1) < len(data):  # the last line was cut off
            with open_private(path) as file:
                file.truncate(whole)
        first, *rest = data[:whole].decode("utf-8").splitlines() or [""]
        try:
            head = json.loads(first)
        except ValueError:
            head = None
        if not isinstance(head, dict):
            path.unlink(missing_ok=True)
            return cls(path, {"run": dict(run), "seed": seed}, {}), seed
        if head.get("run") != json.loads(json.dumps(dict(run))):
            raise ConfigError(
                f"Expected {path.name} to hold what this run wrote before, found another run's: give the same summary, "
                "writer and settings to go on with it, or remove it."
            )
        tasks = map(json.loads, rest)
        found = {(task["label"], task["n"], task["seed"]): task for task in tasks}
        return cls(path, head, found), int(head["seed"])

    def keep(self, key: tuple[int, int, int], task: Mapping[str, Json]) -> None:
        """Add a finished task."""
        label, n, seed = key
        if not self.path.exists():
            write_private(self.path, f"{json.dumps(self.head)}\n".encode())
        line = json.dumps({"label": label, "n": n, "seed": seed, **task})
        with open_private(self.path) as file:
            file.seek(0, os.SEEK_END)
            file.write(f"{line}\n".encode())


class KeptDesk:
    """A desk that keeps what it has written, and asks for what is missing alone. `more` hears of what was kept."""

    def __init__(self, desk: WritingDesk, kept: KeptWriting, more: More) -> None:
        self._desk, self._kept, self._more = desk, kept, more

    @property
    def weights(self) -> str:
        """sha256 of the weights of the model; empty where nobody here can read them."""
        return self._desk.weights

    def shifts(self, tasks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Shift]]:
        """Yield label and shift for each label with its seed, in the order of the tasks."""
        given = [*tasks]
        done = self._kept.done
        new = self._desk.shifts([(label, seed) for label, seed in given if (label, 0, seed) not in done])
        for label, seed in given:
            if task := done.get((label, 0, seed)):
                values = np.frombuffer(zlib.decompress(base64.b64decode(task["shift"])), np.float64)
                yield label, (values.reshape(task["shape"]), task["likely"], task["tokens"])
                continue
            _, found = next(new)
            shift, likely, tokens = found
            packed = base64.b64encode(zlib.compress(np.asarray(shift, np.float64).tobytes())).decode()
            self._kept.keep(
                (label, 0, seed), {"shift": packed, "shape": [*shift.shape], "likely": likely, "tokens": tokens}
            )
            yield label, found

    def texts(self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]) -> Iterator[tuple[int, Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""
        given = [*tasks]
        new = self._desk.texts([key for key in given if key not in self._kept.done], shifts)
        for key in given:
            if task := self._kept.done.get(key):
                self._more(key[1])
                yield key[0], (task["texts"], task["likely"], task["tokens"])
                continue
            _, found = next(new)
            texts, likely, tokens = found
            self._kept.keep(key, {"texts": [*texts], "likely": likely, "tokens": tokens})
            yield key[0], found
