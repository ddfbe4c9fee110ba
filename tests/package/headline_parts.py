"""One small part for each door: a noise, a ranker, a classifier, an audit, and two commands."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from dptext.cli import options
from dptext.mechanisms.candidates.rankers import LoadedModel, ModelRanker
from dptext.sampling.grid_noise import GridLaplace
from dptext.text.files import create_private

File = Annotated[Path, options.file_argument(metavar="HEADLINES", help="One headline a line.")]


def headlines(*, path: File) -> int:
    """Say how many different lines a file holds."""
    print(f"{len(set(path.read_text('utf-8').splitlines()))} headlines")
    return 0


def repeats(*, path: File) -> int:
    """Exit with 1 if a line occurs twice."""
    return int(repeated(path.read_text("utf-8").splitlines()) > 0)


def repeated(texts: Sequence[str]) -> int:
    """The number of different texts that occur more than once."""
    return sum(times > 1 for times in Counter(texts).values())


def halved(epsilon: float, delta: float, dim: int, clip_norm: float) -> GridLaplace:
    """Laplace noise with half of epsilon."""
    return GridLaplace(epsilon / 2, dim, clip_norm)


def _lengths(folder: Path, device: str) -> LoadedModel:
    longest = int((folder / "longest.txt").read_text("utf-8"))

    def read(texts: Sequence[str]) -> np.ndarray:
        share = np.array([min(len(text) / longest, 1.0) for text in texts])
        return np.stack([share, 1 - share], axis=1)

    def save(to: Path) -> None:
        with create_private(to / "longest.txt") as file:
            file.write(str(longest).encode())

    return LoadedModel(read, save, 2, "of lengths", {"longest": hashlib.sha256(str(longest).encode()).hexdigest()})


#: Texts of a like length are like texts. The model is the length that counts as the longest.
LENGTHS = ModelRanker(_lengths, lambda device: ("the longest length is public",))


@dataclass(frozen=True)
class Majority:
    """The shares of the labels, whatever a text says."""

    labels: tuple[str, ...]
    shares: tuple[float, ...]

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        return np.tile(self.shares, (len(texts), 1))


def train_majority(texts: Sequence[str], labels: Sequence[str], *, seed: int) -> Majority:
    known = sorted(set(labels))
    return Majority(tuple(known), tuple(list(labels).count(label) / len(labels) for label in known))
