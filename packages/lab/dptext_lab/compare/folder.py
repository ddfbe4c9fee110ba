"""The folder of an experiment during a run: one run at a time, of the same experiment and records.

`dptext_lab.compare.stored` describes its files. Every file appears whole or not at all, and only its owner can read it.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from dptext.errors import ConfigError
from dptext.kernels.processors import processors
from dptext.recommend.measured import EXPERIMENT, JSON_FILE, CellCounts
from dptext.recommend.tables import checked, json_bytes, read_json, read_rows
from dptext.text.files import Target, held, refuse_inputs, writing
from dptext.text.packed_rows import load_pyarrow
from dptext.types import Json
from dptext_lab.compare import stored
from dptext_lab.compare.experiment import Experiment
from dptext_lab.compare.gaps import with_gaps


def read_table(folder: Path) -> list[stored.TableRow]:
    """Read all rows of the table in a folder; ConfigError for an empty table, too."""
    return read_rows(folder, stored.TableRow)


def read_about(folder: Path) -> stored.About:
    """Read `experiment.json` of a folder."""
    return checked(stored.About, read_json(folder / EXPERIMENT), EXPERIMENT)


def read_cell(folder: Path, signature: str) -> stored.CellFile | None:
    """Read the finished cell of this signature; None if its file is absent or holds no such cell."""
    path = cell_path(folder, signature)
    if not path.is_file():
        return None
    try:
        found = checked(stored.CellFile, read_json(path), path.name)
    except ConfigError:
        return None  # truncated, though not by a run, or edited
    return found if found.signature == signature else None


def read_private_samples(folder: Path, signature: str) -> tuple[stored.Sample, ...]:
    """Read the samples of private records in the file of a cell, if they were kept."""
    data = read_json(cell_path(folder, signature))
    found = data.get("private_samples", []) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ConfigError(f"Expected the private samples of {signature}.json to be a list: run `dptext compare` again.")
    return tuple(checked(stored.Sample, item, f"the private samples of {signature}.json") for item in found)


def cell_path(folder: Path, signature: str) -> Path:
    """Return the path of the cell of this signature."""
    return folder / stored.CELLS / f"{signature}.json"


_LOCK: Final = ".lock"
_PAGE: Final = "report.html"  # of `dptext report`
_CELL: Final = re.compile(r"[0-9a-f]{64}\.json|\..*\.partial")


class ExperimentFolder:
    """The folder of one experiment, held by one run at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def held(self, inputs: Sequence[Path] = ()) -> Iterator[None]:
        """Make the folder if it is absent, and keep other runs out of it; ConfigError if another run is at work."""
        for name in (EXPERIMENT, stored.PARQUET, JSON_FILE):
            refuse_inputs(self.path / name, inputs)
        known = (self.path / EXPERIMENT).exists()
        with writing(self.path):
            if self.path.is_dir() and not known and not all(map(_is_ours, self.path.iterdir())):
                raise ConfigError(
                    f"Expected --out {str(self.path)!r} to be absent, empty, or the folder of this experiment. Choose "
                    "another folder."
                )
            (self.path / stored.CELLS).mkdir(parents=True, exist_ok=True)
        busy = f"Expected no other run to be at work in {str(self.path)!r}: wait for it, or choose another --out."
        with held(self.path / _LOCK, busy):
            for draft in [*self.path.glob(".*.partial"), *(self.path / stored.CELLS).glob(".*.partial")]:
                draft.unlink(missing_ok=True)  # left by a killed run
            yield

    def check(self, experiment: Experiment, corpora: Mapping[str, Json]) -> None:
        """Raise ConfigError, with the difference, for a folder whose cells are of another experiment or corpus."""
        if not (self.path / EXPERIMENT).exists():
            return
        before, other = read_about(self.path), "Choose another --out."
        begun = f"{str(self.path)!r} was begun with"
        if keys := _changed(before.toml, experiment.toml):
            raise ConfigError(f"Expected the experiment that {begun}: its {keys} changed since. {other}")
        if names := _changed(before.model_dump()["corpora"], corpora):
            raise ConfigError(f"Expected the corpora that {begun}: a file of {names} changed since. {other}")

    def describe(
        self, experiment: Experiment, corpora: Mapping[str, Json], *, command: str, counts: CellCounts
    ) -> None:
        """Write `experiment.json`."""
        machine = {"cores": processors(), "memory_gib": round(memory_mib() / 1024, 1)}
        data: dict[str, object] = {"name": experiment.name, "written": datetime.now(UTC).date().isoformat()}
        data |= {"version": version("dptext"), "machine": machine, "command": command}
        data |= {"toml": experiment.toml, "corpora": corpora, "cells": counts}
        write_json(self.path / EXPERIMENT, stored.About.model_validate(data).model_dump())

    def tabulate(self, signatures: Sequence[str]) -> None:
        """Write the table of all finished cells, in the order of the grid."""
        cells = (read_cell(self.path, signature) for signature in signatures)
        write_table(self.path, with_gaps([row for cell in cells if cell for row in cell.rows]))


def _is_ours(path: Path) -> bool:
    """Return whether a run left this file or folder, even if killed early or without its `experiment.json`."""
    if path.name == stored.CELLS and path.is_dir():
        return all(_CELL.fullmatch(child.name) for child in path.iterdir())
    return path.name in (_LOCK, JSON_FILE, stored.PARQUET, _PAGE) or path.name.endswith(".partial")


def memory_mib() -> int:
    """Return the memory of the machine in MiB, or of the container if that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no container, or a container without a limit ("max")
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return found >> 20


def _changed(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    return ", ".join(repr(key) for key in sorted({*before, *now}) if before.get(key) != now.get(key))


def write_json(path: Path, data: Json) -> None:
    """Write JSON so that a kill leaves the old file or the new one; ConfigError where the disk refuses."""
    Target(path, force=True).write(json_bytes(data))


def write_table(folder: Path, rows: Sequence[stored.TableRow]) -> None:
    """Write the rows as `table.parquet` and `table.json` into the folder; ConfigError where the disk refuses."""
    arrow, parquet = load_pyarrow()
    types = {name: arrow.int64() if name in stored.WHOLE_COLUMNS else arrow.string() for name in stored.COLUMNS}
    types |= {name: arrow.float64() for name in stored.NUMBER_COLUMNS}
    table = arrow.table(
        {name: arrow.array([getattr(row, name) for row in rows], types[name]) for name in stored.COLUMNS},
        schema=arrow.schema([(name, types[name]) for name in stored.COLUMNS]),
    )
    target = Target(folder / stored.PARQUET, force=True)
    with writing(target.path), target.opened() as file:
        parquet.write_table(table, file)
    write_json(folder / JSON_FILE, [row.to_dict() for row in rows])
