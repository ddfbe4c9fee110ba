"""Writers of releases on open files.

Batches of all formats but Parquet can be appended one by one, so that a file cut after any of them can be continued.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Final, Protocol, cast

import numpy as np

from dptext.errors import ConfigError
from dptext.text.columns import VECTOR_FIELD, Columns, Values
from dptext.text.encoding import encode_batch
from dptext.text.formats import DELIMITED, Format, as_string
from dptext.text.parquet_rows import load_pyarrow
from dptext.text.plain_texts import PlainTexts
from dptext.text.records import Release
from dptext.types import Singles

APPENDABLE: Final = frozenset({Format.JSONL, Format.CSV, Format.TSV, Format.TEXT})
"""Formats whose files may be cut after any batch and continued; a Parquet file is unreadable until it is closed."""


_TEXTS: Final = Columns()


class ReleaseWriter(Protocol):
    """Writes batches of releases to an open file. Closing the writer completes the format and leaves the file open."""

    def write(self, releases: Sequence[Release[str]], /) -> None:
        """Write one batch and hand it to the operating system."""

    def close(self) -> None:
        """Write what the format needs at its end. A file without a single release becomes a valid empty one."""


class _AppendingWriter:
    """Writes what ``encode_batch`` makes. The file may be cut and continued after any batch."""

    def __init__(self, file: BinaryIO, format: Format, columns: Columns, *, compressed: bool, header: bool) -> None:
        columns.names(format)
        self._file = file
        self._format = format
        self._columns = columns
        self._compressed = compressed
        self._header = header

    def write(self, releases: Sequence[Release[str]], /) -> None:
        data = encode_batch(releases, self._format, self._columns, compressed=self._compressed, header=self._header)
        self._columns = self._columns.after(releases)
        self._header = False
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        if self._header:
            self.write([])


class _ParquetWriter:
    """Writes each batch as one row group. Kept fields are strings; values that were not are as JSON writes them."""

    def __init__(self, file: BinaryIO, columns: Columns) -> None:
        self._arrow, parquet = load_pyarrow()
        self._columns = columns
        self._names = columns.names(Format.PARQUET)
        vectors = self._arrow.list_(self._arrow.float32())
        always = len(self._names) - len(columns.keep) - columns.label
        self._schema = self._arrow.schema(
            [
                self._arrow.field(
                    name,
                    vectors if name == VECTOR_FIELD and columns.vector else self._arrow.string(),
                    nullable=place >= always,
                )
                for place, name in enumerate(self._names)
            ]
        )
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, releases: Sequence[Release[str]], /) -> None:
        values = map(_cells, self._columns.values(releases))
        self._columns = self._columns.after(releases)
        columns = [self._arrow.array(column, kind) for column, kind in zip(values, self._schema.types, strict=True)]
        self._writer.write_batch(self._arrow.record_batch(columns, self._schema))

    def close(self) -> None:
        self._writer.close()


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

    A file of a format in ``APPENDABLE`` may be cut later at the size that it has after any ``write``. To go on there,
    open the file for appending and give ``header=False`` unless the size is 0. A new CSV file gets its header with the
    first batch. `others` are settings of `Columns` that replace those of `columns`. ConfigError: the columns are
    impossible, Parquet is to be gzipped or continued, or `safe_csv` is set for another format than CSV.
    """
    columns = replace(columns, **others)
    require_csv(format, safe_csv=columns.safe_csv)
    if format is not Format.PARQUET:
        return _AppendingWriter(file, format, columns, compressed=compressed, header=header)
    if compressed or not header:
        raise ConfigError(
            "Expected a new Parquet file that is not gzipped: it cannot be continued. Write JSON Lines or CSV."
        )
    return _ParquetWriter(file, columns)
