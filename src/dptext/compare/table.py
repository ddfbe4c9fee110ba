"""Writing the tidy table, one row a cell and number, as Parquet and JSON that only their owner can read."""

import json
from collections.abc import Sequence
from pathlib import Path

from dptext.compare.stored import COLUMNS, JSON_FILE, NUMBER_COLUMNS, PARQUET, WHOLE_COLUMNS, TableRow
from dptext.text.files import Target, writing
from dptext.text.parquet_rows import load_pyarrow
from dptext.types import Json


def write_json(path: Path, data: Json) -> None:
    """Write JSON so that a kill leaves the old file or the new one; ConfigError where the disk refuses."""
    Target(path, force=True).write(json_bytes(data))


def json_bytes(data: Json) -> bytes:
    """JSON as the files of a comparison hold it."""
    return (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_table(folder: Path, rows: Sequence[TableRow]) -> None:
    """Write the rows as `table.parquet` and `table.json` into the folder; ConfigError where the disk refuses."""
    arrow, parquet = load_pyarrow()
    types = {name: arrow.int64() if name in WHOLE_COLUMNS else arrow.string() for name in COLUMNS}
    types |= {name: arrow.float64() for name in NUMBER_COLUMNS}
    table = arrow.table(
        {name: arrow.array([getattr(row, name) for row in rows], types[name]) for name in COLUMNS},
        schema=arrow.schema([(name, types[name]) for name in COLUMNS]),
    )
    target = Target(folder / PARQUET, force=True)
    with writing(target.path), target.opened() as file:
        parquet.write_table(table, file)
    write_json(folder / JSON_FILE, [row.to_dict() for row in rows])
