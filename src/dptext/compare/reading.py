"""The one reader of what a comparison stores; ConfigError where a file is not there or damaged.

An error names a key and what was expected there. It never shows what was found: a cell may hold private samples.
"""

import contextlib
import importlib.resources
import json
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from dptext.compare.stored import CELLS, EXPERIMENT, JSON_FILE, About, CellFile, MeasuredTable, Sample, TableRow
from dptext.errors import ConfigError
from dptext.text.inputs import read_whole
from dptext.types import Json

#: The table of the package.
MEASURED: Final = "measured.json"

_Model = TypeVar("_Model", bound=BaseModel)


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


def read_json(path: Path) -> Json:
    """A JSON file. Its faults are told without the parser's exception, which carries the text."""
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


def read_measured(path: Path | None) -> MeasuredTable:
    """The table of a folder of `dptext compare`, of a file of `dptext recommend --reduce`, or that of the package."""
    if path is None:
        with importlib.resources.as_file(importlib.resources.files("dptext.compare") / MEASURED) as own:
            return read_measured(own)
    if path.is_dir():
        return MeasuredTable(about=read_about(path), rows=tuple(read_table(path)))
    return _read(MeasuredTable, read_json(path), path.name)


def read_table(folder: Path) -> list[TableRow]:
    """All rows of the table in a folder; ConfigError also where it is empty."""
    found = read_json(folder / JSON_FILE)
    if not isinstance(found, list) or not found:
        raise ConfigError(
            f"Expected {JSON_FILE} in the schema of this version of dptext: a list of at least one row. Run `dptext "
            "compare` with this version."
        )
    return [_read(TableRow, item, f"row {number} of {JSON_FILE}") for number, item in enumerate(found, start=1)]


def read_about(folder: Path) -> About:
    """What stands in `experiment.json` of a folder."""
    return _read(About, read_json(folder / EXPERIMENT), EXPERIMENT)


def read_cell(folder: Path, signature: str) -> CellFile | None:
    """The finished cell of this signature; None where its file is absent or no such cell."""
    path = cell_path(folder, signature)
    if not path.is_file():
        return None
    try:
        found = _read(CellFile, read_json(path), path.name)
    except ConfigError:
        return None  # cut short by something else than a run, or edited
    return found if found.signature == signature else None


def read_private_samples(folder: Path, signature: str) -> tuple[Sample, ...]:
    """Samples of private records in the file of a cell, where they were kept."""
    data = read_json(cell_path(folder, signature))
    found = data.get("private_samples", []) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ConfigError(f"Expected the private samples of {signature}.json to be a list: run `dptext compare` again.")
    return tuple(_read(Sample, item, f"the private samples of {signature}.json") for item in found)


def cell_path(folder: Path, signature: str) -> Path:
    """Where the cell of this signature is, or will be."""
    return folder / CELLS / f"{signature}.json"
