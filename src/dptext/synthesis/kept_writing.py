"""What a writer has written so far, in a file, so that a run that was stopped goes on where it was.

The file holds what was written from noisy numbers and public text alone. Its first line names the run. Each other line
is a finished task of a desk, or one answer of a server.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np

from dptext.errors import ConfigError
from dptext.synthesis.by_length import More
from dptext.synthesis.word_targets import Shift, Texts
from dptext.text.files import open_private, write_private
from dptext.types import Floats, Json

_MARK: Final = "dptext write"  # by which a file is known as one of these


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
    """The finished tasks of a run, and answers of servers. The file is made when the first of them is kept.

    Attributes:
        done: finished tasks by label, number of texts (0 for a shift) and seed.
        answers: texts by the seed of what was asked, and their place.
        requests, tokens: requests to a server, and tokens read and written there, when the last answer was kept.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path, self.head = path, head
        self.done: dict[tuple[int, int, int], Any] = {}
        self.answers: dict[tuple[int, int], str] = {}
        self.requests = self.tokens = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"KeptWriting({len(self.done)} tasks, {len(self.answers)} answers)"

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.head["seed"])

    @classmethod
    def begin(cls, path: Path, run: Mapping[str, Json], seed: int, *, replace: bool = False) -> Self:
        """Return what the file holds of this run. A run that begins has this `seed`.

        `replace` removes what another run kept. ConfigError: the file is of another run, or none of these files.
        """
        new = cls(path, {"kept by": _MARK, "run": json.loads(json.dumps(dict(run))), "seed": seed})
        if not path.exists():
            return new
        data = path.read_bytes() if path.is_file() else b""
        first, *rest = data[: data.rfind(b"\n") + 1].splitlines() or [b""]
        try:
            head = json.loads(first)
        except ValueError:
            head = None
        if not (
            isinstance(head, dict) and head.get("kept by") == _MARK and "run" in head and type(head.get("seed")) is int
        ):
            raise ConfigError(f"Expected {path.name} to be free for what is written, found another file: move it away.")
        if head["run"] != new.head["run"]:
            if replace:
                path.unlink()
                return new
            raise ConfigError(
                f"Expected {path.name} to hold what this run wrote before, found another run's: give the same summary, "
                "writer and settings to go on with it, or --force (force=True in Python) to begin anew."
            )
        found = cls(path, head)
        with open_private(path) as file:
            file.truncate(data.rfind(b"\n") + 1)  # the last line may be cut off
        try:
            for line in rest:
                found._add(json.loads(line))
        except (ValueError, LookupError, TypeError) as error:
            if replace:
                path.unlink()
                return new
            raise ConfigError(
                f"Expected whole lines in {path.name}, found a damaged one: give --force (force=True in Python) to "
                "begin anew."
            ) from error
        return found

    def _add(self, line: Mapping[str, Any]) -> None:
        if "answer" in line:
            self.answers[line["seed"], line["place"]] = line["answer"]
            self.requests = max(self.requests, line["requests"])
            self.tokens = max(self.tokens, line["tokens"])
        else:
            self.done[line["label"], line["n"], line["seed"]] = line

    def require(self, weights: str) -> None:
        """Raise ConfigError if another model wrote what is kept. `weights` is sha256 of the model's weights."""
        if self.head.setdefault("weights", weights) != weights:
            raise ConfigError(
                f"Expected the model that wrote what {self.path.name} holds, found another one: its weights have "
                "another sha256. Give that model, or remove the file to begin anew."
            )

    def keep(self, line: Mapping[str, Json]) -> None:
        """Add a line. Several threads may call this."""
        with self._lock:
            if not self.path.exists():
                write_private(self.path, f"{json.dumps(self.head)}\n".encode())
            with open_private(self.path) as file:
                file.seek(0, os.SEEK_END)
                file.write(f"{json.dumps(dict(line))}\n".encode())

    def keep_answer(self, seed: int, place: int, text: str, *, requests: int, tokens: int) -> None:
        """Add the answer of a server, with the requests and tokens of the run so far."""
        self.answers[seed, place] = text
        self.keep({"seed": seed, "place": place, "answer": text, "requests": requests, "tokens": tokens})


class KeptDesk:
    """A desk that keeps what it has written, and asks for what is missing alone.

    `more` hears of texts that were kept. `drafted` is the number of drafts behind a shift.
    """

    def __init__(self, desk: WritingDesk, kept: KeptWriting, more: More, drafted: int) -> None:
        self._desk, self._kept, self._more, self._drafted = desk, kept, more, drafted

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
                self._more(self._drafted)
                yield label, (values.reshape(task["shape"]), task["likely"], task["tokens"])
                continue
            _, found = next(new)
            shift, likely, tokens = found
            packed = base64.b64encode(zlib.compress(np.asarray(shift, np.float64).tobytes())).decode()
            key = {"label": label, "n": 0, "seed": seed}
            self._kept.keep({**key, "shift": packed, "shape": [*shift.shape], "likely": likely, "tokens": tokens})
            yield label, found

    def texts(self, tasks: Iterable[tuple[int, int, int]], shifts: Mapping[int, Floats]) -> Iterator[tuple[int, Texts]]:
        """Yield label and texts for each label with its number and seed, in the order of the tasks."""
        given = [*tasks]
        new = self._desk.texts([key for key in given if key not in self._kept.done], shifts)
        for label, n, seed in given:
            if task := self._kept.done.get((label, n, seed)):
                self._more(n)
                yield label, (task["texts"], task["likely"], task["tokens"])
                continue
            _, found = next(new)
            texts, likely, tokens = found
            if texts:  # a task without a text is tried again
                key = {"label": label, "n": n, "seed": seed}
                self._kept.keep({**key, "texts": [*texts], "likely": likely, "tokens": tokens})
            yield label, found
