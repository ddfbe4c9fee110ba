"""Releases out: JSON Lines, CSV, Parquet and plain text, in files that only their owner can read.

A file appears at its target when it is complete. Blocks of all formats but Parquet can be appended one by one, so
that a file cut after any of them can be continued. Where a block ends follows from what is released alone.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, Protocol, assert_never

import numpy as np

from dptext.errors import ConfigError, DataError
from dptext.text.files import Target, writing
from dptext.text.formats import (
    Format,
    Scalar,
    as_string,
    file_format,
    is_compressed,
    is_scalar,
    load_pyarrow,
    safe_cell,
    string_fault,
)
from dptext.text.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD, Release, batches
from dptext.types import Singles

VECTOR_FIELD: Final = "embedding"

_BLOCK_RELEASES: Final = 1024
_BLOCK_CHARACTERS: Final = 8_000_000
_CHARACTERS_PER_NUMBER: Final = 32  # a float of a tuple takes as many bytes

APPENDABLE: Final = frozenset({Format.JSONL, Format.CSV, Format.TEXT})
"""Formats whose files may be cut after any batch and continued; a Parquet file is unreadable until it is closed."""

WITHOUT_VECTORS: Final = frozenset({Format.CSV, Format.TEXT})
TEXTS_ONLY: Final = frozenset({Format.TEXT})
"""Formats whose files hold no labels or kept fields."""


class ReleaseWriter(Protocol):
    """Writes batches of releases to an open file. Closing the writer completes the format and leaves the file open."""

    def write(self, releases: Sequence[Release[str]], /) -> None:
        """Write one batch and hand it to the operating system."""

    def close(self) -> None:
        """Write what the format needs at its end. A file without a single release becomes a valid empty one."""


def blocks(releases: Iterable[Release[str]], size: int) -> Iterator[list[Release[str]]]:
    """The releases in the blocks in which a file is written: a row group of Parquet, a member of gzip, a mark each.

    A block ends with its `size`-th release, or with the one that brings what is released in it to a public bound. So
    the shape of a file follows from its releases, and not from how long private texts were. What is left after any
    block gives the same blocks again.
    """
    return batches(releases, _length, size=size, characters=_BLOCK_CHARACTERS)


def _length(release: Release[str]) -> int:
    numbers = 0 if release.vector is None else len(release.vector)
    kept = sum(len(value) for value in release.kept.values() if isinstance(value, str))
    return len(release.output) + kept + _CHARACTERS_PER_NUMBER * numbers


def release_columns(
    format: Format, *, text: bool = True, vector: bool = False, label: bool = False, keep: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Names of the output columns: ``id``, ``text``, ``embedding``, ``label``, as far as released, and the kept fields.

    Raises:
        ConfigError: If two columns would have one name, neither text nor vectors are released, vectors are to go into
            CSV or plain text, or plain text is to hold more than texts.
    """
    if not text and not vector:
        raise ConfigError("Expected text=True or vector=True: a release without both is not worth a file.")
    if vector and format in WITHOUT_VECTORS:
        raise ConfigError(
            f"Expected format={str(format)!r} to hold vectors, which CSV and plain text do not. Write Parquet or JSON "
            "Lines."
        )
    if format in TEXTS_ONLY:
        if label or keep:
            raise ConfigError(
                "Expected no labels or kept fields: plain text holds texts only. Write JSON Lines or CSV."
            )
        return (TEXT_FIELD,)
    released = ((TEXT_FIELD, text), (VECTOR_FIELD, vector), (LABEL_FIELD, label))
    columns = (ID_FIELD, *(name for name, there in released if there), *keep)
    if len(set(columns)) < len(columns):
        raise ConfigError(
            f"Expected keep={keep!r} to name no field twice and none of the columns that are written anyway "
            f"({', '.join(columns[: len(columns) - len(keep)])}). To keep the ids, name the field of the ids."
        )
    return columns


@dataclass(frozen=True, slots=True)
class _Columns:
    """What of a release is written, and how.

    `dim` is the length of the vectors, 0 as long as none is known; `safe_csv` keeps spreadsheets from computing.
    """

    text: bool
    vector: bool
    label: bool
    keep: tuple[str, ...]
    dim: int = 0
    safe_csv: bool = False

    def names(self, format: Format) -> tuple[str, ...]:
        return release_columns(format, text=self.text, vector=self.vector, label=self.label, keep=self.keep)

    def after(self, releases: Sequence[Release[str]]) -> _Columns:
        """The same where these releases, which were written, are in the file."""
        return replace(self, dim=len(releases[0].vector or ())) if releases else self

    def rows(self, releases: Sequence[Release[str]]) -> list[list[Scalar | Singles]]:
        """The values of each release in the order of the columns; all vectors are as long as the first."""
        rows = []
        dim = self.dim
        for number, release in enumerate(releases, start=1):
            rows.append(self._row(release, f"Release {number} of the batch", dim))
            dim = dim or len(release.vector or ())
        return rows

    def _row(self, release: Release[str], where: str, dim: int) -> list[Scalar | Singles]:
        """The values of one release.

        A release that does not fit the columns stops the writing: to leave a value out, or a column, would be a silent
        change of what was released.
        """
        if set(release.kept) != set(self.keep):
            raise ConfigError(
                f"{where} has other kept fields than keep={self.keep!r}. Write the fields that the records keep."
            )
        if release.label is not None and not self.label:
            raise ConfigError(f"{where} has a label, and label=False says that labels are not written.")
        if release.output != "" and not self.text:
            raise ConfigError(f"{where} has a text, and text=False says that texts are not written.")
        if release.vector is not None and not self.vector:
            raise ConfigError(f"{where} has a vector, and vector=False says that vectors are not written.")
        if release.vector is None and self.vector:
            raise ConfigError(f"{where} has no vector, and vector=True says that vectors are written.")
        values: list[Scalar | Singles] = [release.id, *((release.output,) if self.text else ())]
        strings = len(values)
        if release.vector is not None:
            values.append(_vector(release.vector, where, dim))
        values += [*((release.label,) if self.label else ()), *(release.kept[name] for name in self.keep)]
        for column, value in enumerate(values):
            if self.vector and column == strings:
                continue  # the vector
            wrong_type = not is_scalar(value) or (column < strings and not isinstance(value, str))
            if wrong_type or (isinstance(value, str) and string_fault(value) is not None):
                raise DataError(
                    f"{where} cannot be written: value {column + 1} is not text in UTF-8 or a plain number."
                )
        return values


def _vector(vector: tuple[float, ...], where: str, dim: int) -> Singles:
    """The vector as a file holds it."""
    # Looked at before numpy sees it, whose errors quote what is no number.
    if not isinstance(vector, tuple) or not vector or not all(isinstance(number, float) for number in vector):
        raise DataError(f"{where} cannot be written: its vector is not a tuple of floats.")
    if dim not in (0, len(vector)):
        raise DataError(f"{where} cannot be written: its vector has another length than the first.")
    with np.errstate(over="ignore"):
        found = np.array(vector, np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"{where} cannot be written: its vector is not finite, or not in float32.")
    return found


def _decimals(vector: Singles) -> list[float]:
    """Numbers whose shortest decimals, as JSON writes them, are the shortest that tell the float32."""
    found = np.array([float(str(number)) for number in vector])
    # Readers take them for float64 first. Rounded twice, a few (7.038531e-26) would become a neighbour.
    faithful: list[float] = np.where(found.astype(np.float32) == vector, found, vector).tolist()
    return faithful


def encode_batch(
    releases: Sequence[Release[str]],
    format: Format,
    *,
    compressed: bool = False,
    header: bool = False,
    text: bool = True,
    vector: bool = False,
    label: bool = False,
    keep: tuple[str, ...] = (),
) -> bytes:
    r"""Write a batch as bytes that may stand alone or follow those of another batch.

    Compressed batches are complete gzip members without a time stamp: files of such batches, cut after any of them,
    are valid gzip, and the same batches give the same bytes.

    - JSON Lines: one object a line; a vector is a list of the shortest decimals that tell its numbers in float32.
    - CSV: RFC 4180 (``\r\n``); kept values that are not strings as JSON writes them, null as an empty field. A text
      that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a spreadsheet; see ``open_writer(safe_csv=True)``.
    - Plain text: the texts alone, in order. Line ends within a text (``\n``, ``\r``) become spaces, as one line is one
      document. Ids are not written.

    Args:
        releases: The batch.
        format: JSON Lines, CSV or plain text.
        compressed: Whether to gzip.
        header: Whether the batch begins a file. Only CSV has something to say then.
        text: Whether texts are written.
        vector: Whether vectors are written.
        label: Whether labels are written.
        keep: The kept fields, in the order of the columns.

    Returns:
        The bytes; none for no releases, except for the header and the gzip frame.

    Raises:
        ConfigError: If the format is Parquet, or the columns are impossible or not those of the releases.
        DataError: If a value cannot be written as UTF-8, or a vector is not finite or not as long as the first.
    """
    columns = _Columns(text=text, vector=vector, label=label, keep=keep)
    return _encoded(releases, format, columns, compressed=compressed, header=header)


def _encoded(
    releases: Sequence[Release[str]], format: Format, columns: _Columns, *, compressed: bool, header: bool
) -> bytes:
    names = columns.names(format)
    rows = columns.rows(releases)
    match format:
        case Format.JSONL:
            lines = ([_decimals(value) if isinstance(value, np.ndarray) else value for value in row] for row in rows)
            text = "".join(
                json.dumps(dict(zip(names, line, strict=True)), ensure_ascii=False, allow_nan=False) + "\n"
                for line in lines
            )
        case Format.CSV:
            buffer = io.StringIO(newline="")
            # "\r\n", because in Python 3.11 the csv module quotes only what is part of its own line end.
            writer = csv.writer(buffer, lineterminator="\r\n")
            cell = safe_cell if columns.safe_csv else as_string
            if header:
                writer.writerow(map(cell, names))
            writer.writerows([["" if value is None else cell(value) for value in row] for row in rows])
            text = buffer.getvalue()
        case Format.TEXT:
            texts = (release.output for release in releases)
            text = "".join(line.replace("\r\n", " ").replace("\n", " ").replace("\r", " ") + "\n" for line in texts)
        case Format.PARQUET:
            raise ConfigError("Expected a format that can be appended to. Parquet is written by open_writer.")
        case _:
            assert_never(format)
    data = text.encode()
    return gzip.compress(data, mtime=0) if compressed else data


class _AppendingWriter:
    """Writes what ``encode_batch`` makes; the size of the file after any batch is a place to cut and continue."""

    def __init__(self, file: BinaryIO, format: Format, columns: _Columns, *, compressed: bool, header: bool) -> None:
        columns.names(format)
        self._file = file
        self._format = format
        self._columns = columns
        self._compressed = compressed
        self._header = header

    def write(self, releases: Sequence[Release[str]], /) -> None:
        data = _encoded(releases, self._format, self._columns, compressed=self._compressed, header=self._header)
        self._columns = self._columns.after(releases)
        self._header = False
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        if self._header:
            self.write([])


class _ParquetWriter:
    """Writes each batch as one row group; kept fields are strings, in JSON where they were none."""

    def __init__(self, file: BinaryIO, columns: _Columns) -> None:
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
        rows = self._columns.rows(releases)
        self._columns = self._columns.after(releases)
        columns = {name: [_cell(row[place]) for row in rows] for place, name in enumerate(self._names)}
        self._writer.write_table(self._arrow.Table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _cell(value: Scalar | Singles) -> str | Singles | None:
    return value if value is None or isinstance(value, np.ndarray) else as_string(value)


def require_csv(format: Format, *, safe_csv: bool) -> None:
    """Raise ConfigError if cells are to be kept from spreadsheets in a format that has none."""
    if safe_csv and format is not Format.CSV:
        raise ConfigError(
            f"Expected safe_csv with format 'csv', found {str(format)!r}: other formats have no formulas."
        )


def open_writer(
    file: BinaryIO,
    format: Format,
    *,
    compressed: bool = False,
    header: bool = True,
    text: bool = True,
    vector: bool = False,
    dim: int = 0,
    label: bool = False,
    keep: tuple[str, ...] = (),
    safe_csv: bool = False,
) -> ReleaseWriter:
    """A writer of releases on an open binary file.

    After each ``write`` to a format in ``APPENDABLE``, the size of the file is a place where the file may be cut later;
    to go on there, open the file for appending and give ``header=False`` unless the size is 0.

    Args:
        file: Where to write. The caller flushes it to the disk and closes it.
        format: The format.
        compressed: Whether each batch is gzipped (not for Parquet, which compresses by itself).
        header: Whether the file is new: then CSV gets its header with the first batch.
        text: Whether texts are written.
        vector: Whether vectors are written: not to CSV and plain text.
        dim: Length of the vectors that the file holds already, 0 where it holds none.
        label: Whether labels are written.
        keep: The kept fields, in the order of the columns.
        safe_csv: Whether texts that a spreadsheet would take for formulas get an apostrophe before them; CSV only.

    Raises:
        ConfigError: If the columns are impossible, Parquet is to be gzipped or continued, or `safe_csv` is set for
            another format than CSV.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    require_csv(format, safe_csv=safe_csv)
    columns = _Columns(text=text, vector=vector, dim=dim, label=label, keep=keep, safe_csv=safe_csv)
    if format is not Format.PARQUET:
        return _AppendingWriter(file, format, columns, compressed=compressed, header=header)
    if compressed or not header:
        raise ConfigError(
            "Expected a new Parquet file that is not gzipped: it cannot be continued. Write JSON Lines or CSV."
        )
    return _ParquetWriter(file, columns)


def write_releases(
    path: str | os.PathLike[str], releases: Iterable[Release[str]], *, format: Format | None = None, force: bool = False
) -> None:
    """Write releases to a file, which appears at ``path`` only when it is complete.

    The file has mode 0600. Columns are ``id``, ``text``, ``embedding`` if the first release has a vector, ``label`` if
    it has a label, and its kept fields; later releases must have the same. There is no ``text`` where vectors come with
    empty texts only, as from a mechanism that releases vectors alone. See ``encode_batch`` for the formats.

    Args:
        path: Where to write; gzipped if it ends in ``.gz``.
        releases: The releases, written in their order, in batches.
        format: The format, where the extension does not tell.
        force: Whether an existing file may be overwritten.

    Raises:
        ConfigError: If a setting is wrong, the file exists, or it cannot be written.
        DataError: If a release cannot be written as UTF-8, or its vector is not finite or not as long as the first.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    target = Target(Path(path), force=force)
    kind = file_format(target.path, format)
    if kind is Format.PARQUET:
        load_pyarrow()
    # Opened before the first release is drawn: a folder that cannot be written to must not cost privacy.
    with target.opened() as file:
        _write_all(file, target.path, releases, kind)


def _write_all(file: BinaryIO, target: Path, releases: Iterable[Release[str]], kind: Format) -> None:
    every = blocks(releases, _BLOCK_RELEASES)
    first = next(every, [])
    vector = bool(first) and first[0].vector is not None
    writer = open_writer(
        file,
        kind,
        compressed=is_compressed(target),
        # The whole batch, as a single text may be empty by chance.
        text=not vector or any(release.output != "" for release in first),
        vector=vector,
        label=bool(first) and first[0].label is not None,
        keep=tuple(first[0].kept) if first else (),
    )
    with contextlib.ExitStack() as failing:
        # Where the writing fails, pyarrow would try to complete the file after it is closed; nobody reads that.
        failing.callback(_close_quietly, writer)
        for batch in itertools.chain([first] if first else [], every):
            # Only our own writing is watched: an OSError of whoever makes the releases is not about this file.
            with writing(target):
                writer.write(batch)
        failing.pop_all()
    with writing(target):
        writer.close()


def _close_quietly(writer: ReleaseWriter) -> None:
    with contextlib.suppress(OSError):
        writer.close()
