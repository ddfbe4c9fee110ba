"""The tidy table, one row a cell and number: Parquet and JSON, readable by their owner only until they are shared."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dptext.compare.rows import COLUMNS
from dptext.errors import ConfigError
from dptext.text.files import Target, writing
from dptext.text.formats import string_fault
from dptext.text.inputs import parse_json, read_whole
from dptext.text.parquet_rows import load_pyarrow
from dptext.types import Json

PARQUET: Final = "table.parquet"
JSON_FILE: Final = "table.json"

_WHOLE: Final = ("trial",)
_NUMBERS: Final = (
    "epsilon", "delta", "document_epsilon", "value", "low", "high", "confidence", "seconds", "peak_mib",
)  # fmt: skip

_LARGEST_WHOLE: Final = 2**53

Row = Mapping[str, Json]


def write_json(path: Path, data: Json) -> None:
    """Write JSON so that a kill leaves the old file or the new one.

    Raises:
        ConfigError: the disk refuses.
    """
    Target(path, force=True).write(json_bytes(data))


def json_bytes(data: Json) -> bytes:
    """JSON as the files of a comparison hold it."""
    return (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Json:
    """What `write_json` wrote.

    Raises:
        ConfigError: there is no such file, or it holds something else.
    """
    try:
        found: Json = parse_json(read_whole(path))
    except ConfigError:
        raise
    except ValueError:
        raise ConfigError(f"{path} is not a JSON file: it was cut short or edited. Remove it and run again.") from None
    return found


def is_row(found: Json) -> bool:
    """Whether it is a row that `write_table` can write: every column is there, with a value of its type."""
    if not isinstance(found, dict) or not found.keys() >= set(COLUMNS):
        return False
    return all(_fits(name, found[name]) for name in COLUMNS)


def _fits(name: str, value: Json) -> bool:
    if isinstance(value, bool):
        return False
    if name in _WHOLE:
        return isinstance(value, int) and abs(value) <= _LARGEST_WHOLE
    if value is None:
        return True
    if name in _NUMBERS:
        whole = isinstance(value, int) and abs(value) <= _LARGEST_WHOLE  # Parquet holds it exactly, too
        return whole or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, str) and string_fault(value) is None


def write_table(folder: Path, rows: Sequence[Row]) -> None:
    """Write the rows as `table.parquet` and `table.json` into the folder.

    Raises:
        ConfigError: the disk refuses.
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = load_pyarrow()
    types = {name: arrow.int64() if name in _WHOLE else arrow.string() for name in COLUMNS}
    types |= {name: arrow.float64() for name in _NUMBERS}
    table = arrow.table(
        {name: arrow.array([row[name] for row in rows], types[name]) for name in COLUMNS},
        schema=arrow.schema([(name, types[name]) for name in COLUMNS]),
    )
    target = Target(folder / PARQUET, force=True)
    with writing(target.path), target.opened() as file:
        parquet.write_table(table, file)
    write_json(folder / JSON_FILE, [dict(row) for row in rows])
