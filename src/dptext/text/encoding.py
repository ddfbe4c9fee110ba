"""Batches of releases as bytes that can be appended one by one: JSON Lines, CSV and plain text."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import assert_never, cast

import numpy as np

from dptext.errors import ConfigError
from dptext.text.columns import Columns, Values
from dptext.text.formats import Format, as_string, safe_cell
from dptext.text.records import Release
from dptext.types import Singles

_TEXTS = Columns()
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def encode_batch(
    releases: Sequence[Release[str]],
    format: Format,
    columns: Columns = _TEXTS,
    *,
    compressed: bool = False,
    header: bool = False,
) -> bytes:
    r"""A batch as bytes that may stand alone or follow those of another batch; with `header` it begins a file.

    A compressed batch is a complete gzip member without a time stamp. So a file of such batches, cut after any of them,
    is valid gzip, and the same batches give the same bytes. Without a release there are no bytes but those of the
    header and the gzip frame.

    - JSON Lines: one object a line. A vector is a list of the shortest decimals that tell its numbers in float32.
    - CSV: RFC 4180 (``\r\n``); TSV has tabs for commas. Kept values that are not strings are as JSON writes them, and
      null is an empty field. A spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula;
      see `Columns.safe_csv`.
    - Plain text: the texts alone, in order. One line is one document, so line ends within a text (``\n``, ``\r``)
      become spaces. Ids are not written.

    ConfigError: the format is Parquet, or the columns are impossible or not those of the releases. DataError: a value
    cannot be written as UTF-8, or a vector is not finite or not as long as the first.
    """
    names = columns.names(format)
    values = columns.values(releases)
    match format:
        case Format.JSONL:
            text = _json_lines(names, values)
        case Format.CSV | Format.TSV:
            cell = safe_cell if columns.safe_csv else as_string
            text = _csv(names if header else (), values, cell, "," if format is Format.CSV else "\t")
        case Format.TEXT:
            texts = cast("Sequence[str]", values[1])
            text = "".join(line.replace("\r\n", " ").replace("\n", " ").replace("\r", " ") + "\n" for line in texts)
        case Format.PARQUET | Format.JSON | Format.XLSX:
            raise ConfigError("Expected a format that can be appended to. Parquet is written by open_writer.")
        case _:
            assert_never(format)
    data = text.encode()
    return gzip.compress(data, mtime=0) if compressed else data


def _json_lines(names: Sequence[str], values: Sequence[Values]) -> str:
    keys = [_JSON.encode(name).replace("%", "%%") for name in names]
    line = "{" + ", ".join(f"{key}: %s" for key in keys) + "}\n"
    return "".join(map(line.__mod__, zip(*map(_json_values, values), strict=True)))


def _json_values(column: Values) -> list[str]:
    if set(map(type, column)) == {str}:
        return list(map(encode_basestring, cast("Sequence[str]", column)))
    return [_JSON.encode(_decimals(value) if isinstance(value, np.ndarray) else value) for value in column]


def _csv(header: Sequence[str], values: Sequence[Values], cell: Callable[[object], str], delimiter: str) -> str:
    buffer = io.StringIO(newline="")
    # "\r\n", because in Python 3.11 the csv module quotes only what is part of its own line end.
    writer = csv.writer(buffer, lineterminator="\r\n", delimiter=delimiter)
    if header:
        writer.writerow(map(cell, header))
    writer.writerows(zip(*(_csv_values(column, cell) for column in values), strict=True))
    return buffer.getvalue()


def _csv_values(column: Values, cell: Callable[[object], str]) -> Values:
    if cell is as_string and set(map(type, column)) == {str}:
        return column
    return ["" if value is None else cell(value) for value in column]


def _decimals(vector: Singles) -> list[float]:
    """The numbers as JSON should write them: with the fewest decimals that tell the float32."""
    found = np.array([float(str(number)) for number in vector])
    # Readers round to float64 first, then to float32. That would turn a few numbers (7.038531e-26) into a neighbour.
    faithful: list[float] = np.where(found.astype(np.float32) == vector, found, vector).tolist()
    return faithful
