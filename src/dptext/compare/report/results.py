"""A folder of `dptext compare` as the page reads it. Private samples are read by a function of their own."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dptext.compare.reading import read_about, read_cell, read_private_samples, read_table
from dptext.compare.report.summary import Row
from dptext.compare.stored import EXPERIMENT, JSON_FILE, About, CellFile, KeptRow, Sample, TableRow
from dptext.errors import ConfigError
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of `dptext compare`. `cells` are found by their signature; one may be absent."""

    about: About
    rows: tuple[TableRow, ...]
    cells: Mapping[str, CellFile]


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Read what `dptext compare` wrote, private samples left out; ConfigError where it is absent or damaged."""
    base = Path(folder)
    for name in (JSON_FILE, EXPERIMENT):
        if not (base / name).is_file():
            raise ConfigError(
                f"Expected DIR={str(base)!r} to hold {name}: run `dptext compare EXPERIMENT.toml --out DIR` first."
            )
    rows = distinct(read_table(base))
    about = read_about(base)
    signatures = dict.fromkeys(row.signature for row in rows if not row.failed)
    cells = {signature: cell for signature in signatures if (cell := read_cell(base, signature)) is not None}
    return Results(about, rows, cells)


def private_samples(folder: str | os.PathLike[str], results: Results) -> dict[str, tuple[Sample, ...]]:
    """Samples of private records by signature, as far as `dptext compare --keep-private-samples` kept them."""
    found = {signature: read_private_samples(Path(folder), signature) for signature in results.cells}
    return {signature: samples for signature, samples in found.items() if samples}


def distinct(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows under names of which each stands for one spec: *label_only* has one name at several epsilons."""
    rows = tuple(rows)
    settings: dict[tuple[str, str], list[Mapping[str, Json]]] = {}
    for row in rows:
        known = settings.setdefault((row.corpus, row.row), [])
        if row.chosen not in known:
            known.append(row.chosen)
    shared = {name for (_, name), known in settings.items() if len(known) > 1}
    return tuple(
        row.model_copy(update={"row": f"{row.row} {_told_apart(row, settings[row.corpus, row.row])}"})
        if row.row in shared
        else row
        for row in rows
    )


def _told_apart(row: KeptRow, known: list[Mapping[str, Json]]) -> str:
    shown = _epsilon_shown(row.chosen)
    alone = sum(_epsilon_shown(other) == shown for other in known) == 1
    return f"epsilon={shown}" if alone and shown else f"#{known.index(row.chosen) + 1}"


def _epsilon_shown(settings: Mapping[str, Json]) -> str:
    epsilon = settings.get("epsilon")
    return f"{epsilon:g}" if isinstance(epsilon, int | float) else ""
