"""A finished cell as data for its file: its rows, its certificate and samples. No text stands in a row."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from dptext.compare.cell_run import Outcome
from dptext.compare.cells import Cell
from dptext.compare.released import Measurement
from dptext.compare.stored import TableRow
from dptext.types import Json


def cell_data(
    cell: Cell, outcome: Outcome | str, *, signature: str, seconds: float, peak_mib: float
) -> dict[str, Json]:
    """A finished cell; of one that failed, a single row with the reason.

    Args:
        cell: of the grid.
        outcome: of the cell; or why it failed.
        signature: of the cell.
        seconds: that it took.
        peak_mib: of the process that ran it.
    """
    row: dict[str, Json] = {
        "corpus": cell.corpus,
        "row": cell.row,
        "kind": cell.kind,
        "settings": json.dumps({key: value for key, value in cell.settings.items() if key != "kind"}),
        "trial": cell.trial,
        "unit": cell.unit,
        "relation": "",
        "epsilon": None,
        "delta": None,
        "metric_privacy": None,
        "basis": "",
        "document_epsilon": None,
        "seconds": seconds,
        "peak_mib": peak_mib,
        "signature": signature,
        "error": None,
    }
    data: dict[str, Json] = {"signature": signature, "cell": cell.to_dict(), "certificate": None, "samples": []}
    if isinstance(outcome, str):
        failed = _row({**row, "error": outcome}, Measurement("", None))
        return {**data, "rows": [failed], "refuted": [], "error": outcome}
    if outcome.guarantee is None:
        row |= {"document_epsilon": outcome.document, "epsilon": outcome.document, "delta": outcome.document}
    else:
        found = outcome.guarantee
        finite = math.isfinite(found.epsilon)
        row |= {
            "unit": str(found.unit),
            "relation": str(found.relation),
            "epsilon": found.epsilon if finite else None,
            "delta": found.delta if finite else None,
            "metric_privacy": found.metric,
            "basis": str(found.basis),
            "document_epsilon": outcome.document,
        }
        data["certificate"] = {**found.to_dict(), "explain": found.explain()}
    data["samples"] = _pairs(outcome.samples)
    if outcome.private_samples:
        data["private_samples"] = _pairs(outcome.private_samples)
    refuted: list[Json] = [*outcome.refuted]
    return {**data, "rows": [_row(row, number) for number in outcome.numbers], "refuted": refuted, "error": None}


def _row(shared: dict[str, Json], number: Measurement) -> dict[str, Json]:
    return TableRow.model_validate({**shared, **asdict(number)}).to_dict()


def _pairs(samples: Sequence[tuple[str, str]]) -> list[Json]:
    return [{"original": original, "released": released} for original, released in samples]
