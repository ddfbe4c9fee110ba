"""Tables of measurements: of the package, of a folder of `dptext compare`, or of `dptext recommend --reduce`."""

import contextlib
import importlib.resources
import json
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from dptext.errors import ConfigError
from dptext.recommend.measured import EXPERIMENT, JSON_FILE, KeptRow, MeasuredTable, Provenance
from dptext.text.inputs import read_whole
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


def checked(model: type[_Model], data: object, name: str) -> _Model:
    """Return the data as a value of the model; ConfigError, with the first fault, if they do not fit."""
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
    """Read a table: of a folder of `dptext compare`, of a file of `dptext recommend --reduce`, or of the package."""
    if path is None:
        with importlib.resources.as_file(importlib.resources.files("dptext.recommend") / MEASURED) as own:
            return read_measured(own)
    if path.is_dir():
        about = checked(Provenance, read_json(path / EXPERIMENT), EXPERIMENT)
        return MeasuredTable(about=about, rows=tuple(read_rows(path, KeptRow)))
    return checked(MeasuredTable, read_json(path), path.name)


def read_rows(folder: Path, row: type[_Model]) -> list[_Model]:
    """Read all rows of the table in a folder of `dptext compare`; ConfigError for an empty table, too."""
    found = read_json(folder / JSON_FILE)
    if not isinstance(found, list) or not found:
        raise ConfigError(
            f"Expected {JSON_FILE} in the schema of this version of dptext: a list of at least one row. Run "
            "`dptext compare` with this version."
        )
    return [checked(row, item, f"row {i} of {JSON_FILE}") for i, item in enumerate(found, start=1)]


def json_bytes(data: Json) -> bytes:
    """Encode JSON for the files of a comparison."""
    return (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
