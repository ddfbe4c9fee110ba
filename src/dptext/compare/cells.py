"""A cell of the grid (one row of one corpus in one trial), one number of it, and what makes its numbers, signed."""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Self

from dptext.compare.experiment import Experiment
from dptext.estimates import Estimate
from dptext.text.files import sha256_of
from dptext.text.inputs import telling
from dptext.types import Json

_SCHEMA: Final = 1
_LONGEST_PATH: Final = 1000
_MOST_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of one corpus in one trial, from 0. The row is the name that is shown.

    The settings are those of the spec, `kind` among them; for references without a spec they and the unit of the stated
    guarantee are empty. It trains on "public" or "private". The fault is why it cannot be run, empty where it can.
    """

    corpus: str
    row: str
    settings: Mapping[str, Json]
    trial: int
    unit: str = ""
    delta: float = 0.0
    trains_on: str = "public"
    fault: str = ""

    @property
    def kind(self) -> str:
        """The kind of the mechanism; empty where there is none."""
        return str(self.settings.get("kind", ""))

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, for `Cell(**data)`."""
        return asdict(self)


def signature(cell: Cell, experiment: Experiment, corpus: Json) -> str:
    """sha256 over all that makes the numbers of a cell: version, settings, the files that they name, and records."""
    made: dict[str, Json] = {
        "schema": _SCHEMA,
        "version": version("dptext"),
        "records": corpus,
        "seed": experiment.seed,
        "randomness": "seeded" if experiment.seeded else "secure",
        "measures": experiment.measures(),
        "cell": cell.to_dict(),
    }
    if files := _named_files([cell.to_dict(), experiment.settings.embedder]):
        made["files"] = files
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def _named_files(data: Json) -> dict[str, Json]:
    """sha256 of every file that a value names, and of the files in a folder that one names, such as a saved model."""
    if isinstance(data, dict | list):
        values = data.values() if isinstance(data, dict) else data
        return {name: digest for value in values for name, digest in _named_files(value).items()}
    if not isinstance(data, str) or not data or len(data) > _LONGEST_PATH or "\0" in data:
        return {}
    path = Path(data)
    inside = itertools.islice(path.rglob("*"), _MOST_FILES + 1) if path.is_dir() else ()
    found = [path] if path.is_file() else [*inside]
    if len(found) > _MOST_FILES:
        return {}  # too many files for a model or vectors: a setting happens to be called like this folder
    digests: dict[str, Json] = {}
    for file in found:
        if file.is_file():
            with telling(file, "read"):
                digests[str(file)] = sha256_of(file)
    return digests


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number with its interval; None where there is none."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None

    @classmethod
    def of(cls, metric: str, found: Estimate | float | None) -> Self:
        """The measurement of an estimate, or of a number without an interval. An infinite number becomes None."""
        if isinstance(found, Estimate):
            return cls(metric, _finite(found.value), _finite(found.low), _finite(found.high), found.confidence)
        return cls(metric, None if found is None else _finite(found))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
