"""Writers of releases on open files.

Batches of all formats but Parquet can be appended one by one, so that a file cut after any of them can be continued.
"""

import contextlib
import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from json.encoder import encode_basestring
from typing import Any, BinaryIO, Final, assert_never, cast

import numpy as np

from dptext.errors import ConfigError
from dptext.text.columns import VECTOR_FIELD, Columns, Values
from dptext.text.formats import DELIMITED, Format, PlainTexts, as_string, safe_cell
from dptext.text.packed_rows import load_pyarrow
from dptext.text.records import Release
from dptext.types import Singles

APPENDABLE: Final = frozenset({Format.JSONL, Format.CSV, Format.TSV, Format.TEXT})
"""Formats whose files may be cut after any batch and continued; a Parquet file is unreadable until it is closed."""
_TEXTS: Final = Columns()
_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


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


@dataclass
class _AppendingWriter:
    """Writes what `encode_batch` makes. The file may be cut and continued after any batch."""

    file: BinaryIO
    format: Format
    columns: Columns
    compressed: bool
    header: bool

    def __post_init__(self) -> None:
        self.columns.names(self.format)

    def write(self, releases: Sequence[Release[str]], /) -> None:
        data = encode_batch(releases, self.format, self.columns, compressed=self.compressed, header=self.header)
        self.columns = self.columns.after(releases)
        self.header = False
        self.file.write(data)
        self.file.flush()

    def close(self) -> None:
        if self.header:
            self.write([])


class _ParquetWriter:
    """Writes each batch as one row group. Kept fields are strings; values that were not are as JSON writes them."""

    def __init__(self, file: BinaryIO, columns: Columns) -> None:
        self._arrow, parquet = load_pyarrow()
        self._columns = columns
        names = columns.names(Format.PARQUET)
        vectors = self._arrow.list_(self._arrow.float32())
        always = len(names) - len(columns.keep) - columns.label
        kinds = (vectors if name == VECTOR_FIELD and columns.vector else self._arrow.string() for name in names)
        self._schema = self._arrow.schema(
            [self._arrow.field(*named, nullable=i >= always) for i, named in enumerate(zip(names, kinds, strict=True))]
        )
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, releases: Sequence[Release[str]], /) -> None:
        values = map(_cells, self._columns.values(releases))
        self._columns = self._columns.after(releases)
        columns = [self._arrow.array(column, kind) for column, kind in zip(values, self._schema.types, strict=True)]
        self._writer.write_batch(self._arrow.record_batch(columns, self._schema))

    def close(self) -> None:
        self._writer.close()


ReleaseWriter = _AppendingWriter | _ParquetWriter


@contextlib.contextmanager
def completed(writer: ReleaseWriter, closing: contextlib.AbstractContextManager[None]) -> Iterator[None]:
    """Close the writer after the block: within `closing`, or, where the block fails, without a word.

    Left open, a writer of pyarrow would later try to complete a file that is closed.
    """
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # on a full disk closing fails as the writing did
            writer.close()
        raise
    with closing:
        writer.close()


def _cells(column: Values) -> Sequence[str | Singles | None]:
    if isinstance(column, PlainTexts) or set(map(type, column)) <= {str, type(None), np.ndarray}:
        return cast("Sequence[str | Singles | None]", column)
    return [value if value is None else as_string(value) for value in column]


def require_csv(format: Format, *, safe_csv: bool) -> None:
    """Raise ConfigError if safe cells are asked for in a format without formulas."""
    if safe_csv and format not in DELIMITED:
        raise ConfigError(
            f"Expected safe_csv with format 'csv', found {str(format)!r}: other formats have no formulas."
        )


def open_writer(
    file: BinaryIO,
    format: Format,
    *,
    compressed: bool = False,
    header: bool = True,
    columns: Columns = _TEXTS,
    **others: Any,
) -> ReleaseWriter:
    """A writer of releases on an open binary file, which the caller flushes to the disk and closes.

    Its `write` takes one batch and hands it to the operating system. Its `close` completes the format: a file without a
    single release becomes a valid empty one.

    A file of a format in ``APPENDABLE`` may be cut later at the size that it has after any ``write``. To go on there,
    open the file for appending and give ``header=False`` unless the size is 0. A new CSV file gets its header with the
    first batch. `others` are settings of `Columns` that replace those of `columns`. ConfigError: the columns are
    impossible, Parquet is to be gzipped or continued, or `safe_csv` is set for another format than CSV.
    """
    columns = replace(columns, **others)
    require_csv(format, safe_csv=columns.safe_csv)
    if format is not Format.PARQUET:
        return _AppendingWriter(file, format, columns, compressed, header)
    if compressed or not header:
        raise ConfigError(
            "Expected a new Parquet file that is not gzipped: it cannot be continued. Write JSON Lines or CSV."
        )
    return _ParquetWriter(file, columns)
