"""The folder of an experiment during a run: one run at a time, of the same experiment and records.

`dptext.compare.stored` describes its files. Every file appears whole or not at all, and only its owner can read it.
"""

import contextlib
import importlib.resources
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from dptext.compare import stored
from dptext.compare.experiment import Experiment
from dptext.compare.pooled import with_gaps
from dptext.errors import ConfigError
from dptext.kernels.processors import processors
from dptext.text.files import Target, held, refuse_inputs, writing
from dptext.text.inputs import read_whole
from dptext.text.packed_rows import load_pyarrow
from dptext.types import Json

#: The table that comes with the package.
MEASURED: Final = "measured.json"

_Model = TypeVar("_Model", bound=BaseModel)


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


def read_json(path: Path) -> Json:
    """Read a JSON file. Errors do not chain the parser's exception, which carries the text."""
    data = read_whole(path)
    with contextlib.suppress(ValueError, RecursionError):
        found: Json = json.loads(data, parse_constant=_refuse_constant)
        return found
    raise ConfigError(f"Expected {path.name} to be JSON, found it damaged: remove it and run `dptext compare` again.")


def _read(model: type[_Model], data: object, name: str) -> _Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, fault["loc"]))
    said = f"{where}: {fault['msg'].removeprefix('Value error, ')}" if where else fault["msg"]
    raise ConfigError(
        f"Expected {name} in the schema of this version of dptext ({said}). Either a row lacks a column or a value is "
        "of another kind, or the file is of another version: run `dptext compare` with this one."
    )


def read_measured(path: Path | None) -> stored.MeasuredTable:
    """Read a table: of a folder of `dptext compare`, of a file of `dptext recommend --reduce`, or of the package."""
    if path is None:
        with importlib.resources.as_file(importlib.resources.files("dptext.compare") / MEASURED) as own:
            return read_measured(own)
    if path.is_dir():
        return stored.MeasuredTable(about=read_about(path), rows=tuple(read_table(path)))
    return _read(stored.MeasuredTable, read_json(path), path.name)


def read_table(folder: Path) -> list[stored.TableRow]:
    """Read all rows of the table in a folder; ConfigError for an empty table, too."""
    found = read_json(folder / stored.JSON_FILE)
    if not isinstance(found, list) or not found:
        raise ConfigError(
            f"Expected {stored.JSON_FILE} in the schema of this version of dptext: a list of at least one row. Run "
            "`dptext compare` with this version."
        )
    return [_read(stored.TableRow, item, f"row {i} of {stored.JSON_FILE}") for i, item in enumerate(found, start=1)]


def read_about(folder: Path) -> stored.About:
    """Read `experiment.json` of a folder."""
    return _read(stored.About, read_json(folder / stored.EXPERIMENT), stored.EXPERIMENT)


def read_cell(folder: Path, signature: str) -> stored.CellFile | None:
    """Read the finished cell of this signature; None if its file is absent or holds no such cell."""
    path = cell_path(folder, signature)
    if not path.is_file():
        return None
    try:
        found = _read(stored.CellFile, read_json(path), path.name)
    except ConfigError:
        return None  # truncated, though not by a run, or edited
    return found if found.signature == signature else None


def read_private_samples(folder: Path, signature: str) -> tuple[stored.Sample, ...]:
    """Read the samples of private records in the file of a cell, if they were kept."""
    data = read_json(cell_path(folder, signature))
    found = data.get("private_samples", []) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ConfigError(f"Expected the private samples of {signature}.json to be a list: run `dptext compare` again.")
    return tuple(_read(stored.Sample, item, f"the private samples of {signature}.json") for item in found)


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
        for name in (stored.EXPERIMENT, stored.PARQUET, stored.JSON_FILE):
            refuse_inputs(self.path / name, inputs)
        known = (self.path / stored.EXPERIMENT).exists()
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
        if not (self.path / stored.EXPERIMENT).exists():
            return
        before, other = read_about(self.path), "Choose another --out."
        begun = f"{str(self.path)!r} was begun with"
        if keys := _changed(before.toml, experiment.toml):
            raise ConfigError(f"Expected the experiment that {begun}: its {keys} changed since. {other}")
        if names := _changed(before.model_dump()["corpora"], corpora):
            raise ConfigError(f"Expected the corpora that {begun}: a file of {names} changed since. {other}")

    def describe(
        self, experiment: Experiment, corpora: Mapping[str, Json], *, command: str, counts: stored.CellCounts
    ) -> None:
        """Write `experiment.json`."""
        machine = {"cores": processors(), "memory_gib": round(memory_mib() / 1024, 1)}
        data: dict[str, object] = {"name": experiment.name, "written": datetime.now(UTC).date().isoformat()}
        data |= {"version": version("dptext"), "machine": machine, "command": command}
        data |= {"toml": experiment.toml, "corpora": corpora, "cells": counts}
        write_json(self.path / stored.EXPERIMENT, stored.About.model_validate(data).model_dump())

    def tabulate(self, signatures: Sequence[str]) -> None:
        """Write the table of all finished cells, in the order of the grid."""
        cells = (read_cell(self.path, signature) for signature in signatures)
        write_table(self.path, with_gaps([row for cell in cells if cell for row in cell.rows]))


def _is_ours(path: Path) -> bool:
    """Return whether a run left this file or folder, even if killed early or without its `experiment.json`."""
    if path.name == stored.CELLS and path.is_dir():
        return all(_CELL.fullmatch(child.name) for child in path.iterdir())
    return path.name in (_LOCK, stored.JSON_FILE, stored.PARQUET, _PAGE) or path.name.endswith(".partial")


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


def json_bytes(data: Json) -> bytes:
    """Encode JSON for the files of a comparison."""
    return (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


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
    write_json(folder / stored.JSON_FILE, [row.to_dict() for row in rows])
