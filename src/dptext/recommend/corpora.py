"""What was measured on the splits of packages/lab/experiments/synthesis.py.

Of corpora under one epsilon, and beside them of texts of which each has an epsilon of its own.
"""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from typing import Any, Final

from dptext.errors import ConfigError
from dptext.privacy.guarantee import Unit
from dptext.text.inputs import parse_json

#: One row for each split, way and epsilon: `rows` of corpora, `texts` of single texts.
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
        levels: all epsilons that were measured for the unit, ascending.
    """

    unit: Unit
    epsilon: float
    best: tuple[Row, ...]
    worth: tuple[Row, ...]
    levels: tuple[float, ...]


def _measured(name: str) -> list[Row]:
    data = parse_json(importlib.resources.files("dptext.recommend").joinpath(_FILE).read_bytes())
    found: list[Row] = data[name]
    return found


def texts_at(unit: Unit, epsilon: float) -> tuple[Row, ...]:
    """Return the best row of each split with an epsilon for each text; none where it is above `epsilon`, or by author.

    `gains` of a row says whether its interval (95%) lies above that of public text.
    """
    rows = [row for row in _measured("texts") if unit is Unit.DOCUMENT and row["epsilon"] <= epsilon]
    best = (
        max((row for row in rows if row["split"] == name), key=lambda row: float(row["accuracy"]))
        for name in dict.fromkeys(row["split"] for row in rows)
    )
    return tuple({**row, "gains": _low(row, "accuracy") > _high(row, "public_only")} for row in best)


def _low(row: Row, name: str) -> float:
    return float(row[name]) - float(row[f"{name}_half"])


def _high(row: Row, name: str) -> float:
    return float(row[name]) + float(row[f"{name}_half"])


def measured_at(unit: Unit, epsilon: float, delta: float = DELTA) -> MeasuredCorpora:
    """Return what was measured for a unit within these limits. ConfigError: no corpus is measured for this unit."""
    if unit not in (Unit.DOCUMENT, Unit.AUTHOR):
        raise ConfigError(f"Expected --unit document or author with --of corpus, found {unit.value}.")
    every = _measured("rows")
    by_author = unit is Unit.AUTHOR
    rows = [row for row in every if row["split"].endswith(" author") == by_author and delta >= DELTA]
    at = max((row["epsilon"] for row in rows if row["epsilon"] <= epsilon), default=0.0)
    found = [row for row in rows if row["epsilon"] == at]
    best = [
        max((row for row in found if row["split"] == name), key=lambda row: float(row["accuracy"]))
        for name in dict.fromkeys(row["split"] for row in found)
    ]
    worth = [row for row in best if row["accuracy"] > row["public_only"] + BETTER]
    return MeasuredCorpora(unit, at, tuple(best), tuple(worth), tuple(sorted({float(row["epsilon"]) for row in rows})))
