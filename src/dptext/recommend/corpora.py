"""What was measured of corpora under one epsilon, on the splits of packages/lab/experiments/synthesis.py."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from typing import Any, Final

from dptext.errors import ConfigError
from dptext.privacy.guarantee import Unit
from dptext.text.inputs import parse_json

#: One row for each split, way and epsilon.
_FILE: Final = "measured_synthesis.json"
DELTA: Final = 1e-5  #: Delta of the measured splits.
LEAST: Final = 0.5  #: Smallest epsilon of the measured splits.
BETTER: Final = 0.02  #: Difference of accuracies. A smaller one may be chance.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MeasuredCorpora:
    """The best way of each split, at the largest measured epsilon that is allowed.

    Attributes:
        unit, epsilon: those of the rows. Without rows, epsilon is 0.
        best: the best row of each split.
        worth: those that beat public text by more than `BETTER`.
    """

    unit: Unit
    epsilon: float
    best: tuple[Row, ...]
    worth: tuple[Row, ...]


def measured_at(unit: Unit, epsilon: float, delta: float = DELTA) -> MeasuredCorpora:
    """Return what was measured for a unit within these limits. ConfigError: no corpus is measured for this unit."""
    if unit not in (Unit.DOCUMENT, Unit.AUTHOR):
        raise ConfigError(f"Expected --unit document or author with --of corpus, found {unit.value}.")
    every = parse_json(importlib.resources.files("dptext.recommend").joinpath(_FILE).read_bytes())["rows"]
    by_author = unit is Unit.AUTHOR
    rows = [row for row in every if row["split"].endswith(" author") == by_author and delta >= DELTA]
    at = max((row["epsilon"] for row in rows if row["epsilon"] <= epsilon), default=0.0)
    found = [row for row in rows if row["epsilon"] == at]
    best = [
        max((row for row in found if row["split"] == name), key=lambda row: float(row["accuracy"]))
        for name in dict.fromkeys(row["split"] for row in found)
    ]
    worth = [row for row in best if row["accuracy"] > row["public_only"] + BETTER]
    return MeasuredCorpora(unit, at, tuple(best), tuple(worth))
