"""The table that recommendations are read off.

The one that comes with the package was measured by `dptext compare` and cut down by `reduced`.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dptext.compare.reading import read_json, read_rows
from dptext.compare.recommend import FIDELITY, TASKS
from dptext.compare.stored import EXPERIMENT, JSON_FILE, REFUTED
from dptext.errors import ConfigError
from dptext.types import Json

#: The table of the package, and how it is made anew.
MEASURED: Final = "measured.json"
MADE_BY: Final = "dptext compare EXPERIMENT.toml --out DIR; dptext recommend --table DIR --reduce FILE"

_METRICS: Final = (
    FIDELITY,
    "classification.accuracy_true_labels",
    *(metric for metrics, _ in TASKS.values() for metric in metrics),
)


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table that recommendations are read off.

    Attributes:
        about: where it comes from: name, date, version, command.
        rows: its rows.
    """

    about: Mapping[str, Json]
    rows: tuple[Mapping[str, Json], ...]


def unfinished(about: Mapping[str, Json]) -> int:
    """How many cells of the grid are not done yet."""
    cells = about.get("cells")
    counts = {key: value for key, value in cells.items() if isinstance(value, int)} if isinstance(cells, dict) else {}
    return max(0, counts.get("total", 0) - counts.get("done", 0) - counts.get("failed", 0))


def reduced(experiment: Mapping[str, Json], rows: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    """What recommendations read of a table, small enough to go with the package. No digest of private records is in it.

    Args:
        experiment: `experiment.json` of the folder.
        rows: its table.

    Raises:
        ConfigError: the grid is not finished, or a row lacks a column.
    """
    if left := unfinished(experiment):
        raise ConfigError(
            f"Expected a finished grid, found {left} cells that are not done: run `dptext compare` again."
        )
    about: dict[str, Json] = {
        key: experiment.get(key) for key in ("name", "written", "version", "machine", "command", "cells")
    }
    kept: list[Json] = [
        row.model_dump()
        for row in read_rows(rows, "the table")
        if row.metric in _METRICS or row.failed or row.metric.endswith(REFUTED)
    ]
    return {"about": about, "rows": kept}


def read_measured(path: Path | None) -> MeasuredTable:
    """The table of a folder of `dptext compare`, of a file that `reduced` made, or the one of the package.

    Raises:
        ConfigError: there is none, or it is something else.
    """
    if path is None:
        text = importlib.resources.files("dptext.compare").joinpath(MEASURED).read_text("utf-8")
        return _table(json.loads(text), {}, "the measured table of the package")
    if path.is_dir():
        about = read_json(path / EXPERIMENT)
        return _table(read_json(path / JSON_FILE), about if isinstance(about, dict) else {}, str(path))
    return _table(read_json(path), {}, str(path))


def _table(data: Json, about: Mapping[str, Json], name: str) -> MeasuredTable:
    if isinstance(data, dict) and isinstance(data.get("about"), dict):
        found = data["about"]
        about = found if isinstance(found, dict) else {}
        data = data.get("rows")
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise ConfigError(f"Expected {name} to be a table that `dptext compare` wrote.")
    return MeasuredTable(about, tuple(row for row in data if isinstance(row, dict)))
