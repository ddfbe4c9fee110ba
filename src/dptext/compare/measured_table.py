"""The table that recommendations are read off; that of the package was measured by `dptext compare`, then `reduced`."""

import importlib.resources
from pathlib import Path
from typing import Final

from dptext.compare.reading import read_about, read_reduced, read_table
from dptext.compare.recommend import FIDELITY, LABEL_KEPT, TASKS
from dptext.compare.stored import REFUTED, MeasuredTable
from dptext.errors import ConfigError

#: The table of the package, and how it is made anew.
MEASURED: Final = "measured.json"
MADE_BY: Final = "dptext compare EXPERIMENT.toml --out DIR; dptext recommend --table DIR --reduce FILE"

_METRICS: Final = (
    FIDELITY,
    LABEL_KEPT,
    "classification.accuracy_true_labels",
    *(metric for metrics, _ in TASKS.values() for metric in metrics),
)


def reduced(table: MeasuredTable) -> MeasuredTable:
    """What recommendations read of a table, with no digest of private records; ConfigError for an unfinished grid."""
    if left := table.about.cells.left:
        raise ConfigError(
            f"Expected a finished grid, found {left} cells that are not done: run `dptext compare` again."
        )
    kept = [row for row in table.rows if row.metric in _METRICS or row.failed or row.metric.endswith(REFUTED)]
    return table.model_copy(update={"rows": tuple(kept)})


def read_measured(path: Path | None) -> MeasuredTable:
    """The table of a folder of `dptext compare`, of a file of `dptext recommend --reduce`, or that of the package."""
    if path is None:
        with importlib.resources.as_file(importlib.resources.files("dptext.compare") / MEASURED) as own:
            return read_reduced(own)
    if path.is_dir():
        return MeasuredTable(about=read_about(path), rows=tuple(read_table(path)))
    return read_reduced(path)
