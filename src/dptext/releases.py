"""Releases out: JSON Lines, CSV, Parquet and plain text, in files that only their owner can read.

A file appears at its target when it is complete. Batches of all formats but Parquet can be appended one by one, so
that a file cut after any of them can be continued.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol, assert_never

from dptext.errors import ConfigError, DataError
from dptext.formats import (
    Format,
    Scalar,
    as_string,
    file_error,
    file_format,
    is_compressed,
    is_scalar,
    load_pyarrow,
    string_fault,
)
from dptext.records import ID_FIELD, LABEL_FIELD, TEXT_FIELD, Release, batches

_WRITE_BATCH: Final = 1024
_WRITE_CHARACTERS: Final = 8_000_000

APPENDABLE: Final = frozenset({Format.JSONL, Format.CSV, Format.TEXT})
"""Formats whose files may be cut after any batch and continued; a Parquet file is unreadable until it is closed."""


class ReleaseWriter(Protocol):
    """Writes batches of releases to an open file. Closing the writer completes the format and leaves the file open."""

    def write(self, releases: Sequence[Release[str]], /) -> None:
        """Write one batch and hand it to the operating system."""

    def close(self) -> None:
        """Write what the format needs at its end. A file without a single release becomes a valid empty one."""


def release_columns(format: Format, *, label: bool = False, keep: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names of the output columns: ``id``, ``text``, ``label`` where labels are released, and the kept fields.

    Raises:
        ConfigError: If two columns would have one name, or plain text is to hold more than texts.
    """
    if format is Format.TEXT:
        if label or keep:
            raise ConfigError(
                "Expected no labels or kept fields: plain text holds texts only. Write JSON Lines or CSV."
            )
        return (TEXT_FIELD,)
    columns = (ID_FIELD, TEXT_FIELD, *((LABEL_FIELD,) if label else ()), *keep)
    if len(set(columns)) < len(columns):
        raise ConfigError(
            f"Expected keep={keep!r} to name no field twice and none of the columns that are written anyway "
            f"({', '.join(columns[: len(columns) - len(keep)])}). To keep the ids, name the field of the ids."
        )
    return columns


def _row_values(release: Release[str], number: int, *, label: bool, keep: tuple[str, ...]) -> list[Scalar]:
    """The values of one release in the order of ``release_columns``.

    A release that does not fit the columns stops the writing: to leave a value out, or a column, would be a silent
    change of what was released.
    """
    where = f"Release {number} of the batch"
    if set(release.kept) != set(keep):
        raise ConfigError(f"{where} has other kept fields than keep={keep!r}. Write the fields that the records keep.")
    if release.label is not None and not label:
        raise ConfigError(f"{where} has a label, and label=False says that labels are not written.")
    values = [release.id, release.output, *((release.label,) if label else ()), *(release.kept[name] for name in keep)]
    for column, value in enumerate(values):
        wrong_type = not is_scalar(value) or (column < 2 and not isinstance(value, str))
        if wrong_type or (isinstance(value, str) and string_fault(value) is not None):
            raise DataError(f"{where} cannot be written: value {column + 1} is not text in UTF-8 or a plain number.")
    return values


def encode_batch(
    releases: Sequence[Release[str]],
    format: Format,
    *,
    compressed: bool = False,
    header: bool = False,
    label: bool = False,
    keep: tuple[str, ...] = (),
) -> bytes:
    r"""Write a batch as bytes that may stand alone or follow those of another batch.

    Compressed batches are complete gzip members without a time stamp: files of such batches, cut after any of them,
    are valid gzip, and the same batches give the same bytes.

    - JSON Lines: one object a line.
    - CSV: RFC 4180 (``\r\n``); kept values that are not strings as JSON writes them, null as an empty field.
    - Plain text: the texts alone, in order. Line ends within a text (``\n``, ``\r``) become spaces, as one line is one
      document. Ids are not written.

    Args:
        releases: The batch.
        format: JSON Lines, CSV or plain text.
        compressed: Whether to gzip.
        header: Whether the batch begins a file. Only CSV has something to say then.
        label: Whether labels are written.
        keep: The kept fields, in the order of the columns.

    Returns:
        The bytes; none for no releases, except for the header and the gzip frame.

    Raises:
        ConfigError: If the format is Parquet, or the columns are impossible or not those of the releases.
        DataError: If a value cannot be written as UTF-8.
    """
    columns = release_columns(format, label=label, keep=keep)
    rows = [_row_values(release, number, label=label, keep=keep) for number, release in enumerate(releases, start=1)]
    match format:
        case Format.JSONL:
            text = "".join(
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False) + "\n"
                for row in rows
            )
        case Format.CSV:
            buffer = io.StringIO(newline="")
            # "\r\n", because in Python 3.11 the csv module quotes only what is part of its own line end.
            writer = csv.writer(buffer, lineterminator="\r\n")
            if header:
                writer.writerow(columns)
            writer.writerows([["" if value is None else as_string(value) for value in row] for row in rows])
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

    def __init__(
        self, file: BinaryIO, format: Format, *, compressed: bool, header: bool, label: bool, keep: tuple[str, ...]
    ) -> None:
        release_columns(format, label=label, keep=keep)
        self._file = file
        self._format = format
        self._compressed = compressed
        self._header = header
        self._label = label
        self._keep = keep

    def write(self, releases: Sequence[Release[str]], /) -> None:
        data = encode_batch(
            releases,
            self._format,
            compressed=self._compressed,
            header=self._header,
            label=self._label,
            keep=self._keep,
        )
        self._header = False
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        if self._header:
            self.write([])


class _ParquetWriter:
    """Writes each batch as one row group; kept fields are strings, in JSON where they were none."""

    def __init__(self, file: BinaryIO, *, label: bool, keep: tuple[str, ...]) -> None:
        self._arrow, parquet = load_pyarrow()
        self._columns = release_columns(Format.PARQUET, label=label, keep=keep)
        self._label = label
        self._keep = keep
        self._schema = self._arrow.schema(
            [
                self._arrow.field(name, self._arrow.string(), nullable=place > 1)
                for place, name in enumerate(self._columns)
            ]
        )
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, releases: Sequence[Release[str]], /) -> None:
        rows = [
            _row_values(release, number, label=self._label, keep=self._keep)
            for number, release in enumerate(releases, start=1)
        ]
        columns = {
            name: [None if row[place] is None else as_string(row[place]) for row in rows]
            for place, name in enumerate(self._columns)
        }
        self._writer.write_table(self._arrow.Table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def open_writer(
    file: BinaryIO,
    format: Format,
    *,
    compressed: bool = False,
    header: bool = True,
    label: bool = False,
    keep: tuple[str, ...] = (),
) -> ReleaseWriter:
    """A writer of releases on an open binary file.

    After each ``write`` to a format in ``APPENDABLE``, the size of the file is a place where the file may be cut later;
    to go on there, open the file for appending and give ``header=False`` unless the size is 0.

    Args:
        file: Where to write. The caller flushes it to the disk and closes it.
        format: The format.
        compressed: Whether each batch is gzipped (not for Parquet, which compresses by itself).
        header: Whether the file is new: then CSV gets its header with the first batch.
        label: Whether labels are written.
        keep: The kept fields, in the order of the columns.

    Raises:
        ConfigError: If the columns are impossible, or Parquet is to be gzipped or continued.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    if format is not Format.PARQUET:
        return _AppendingWriter(file, format, compressed=compressed, header=header, label=label, keep=keep)
    if compressed or not header:
        raise ConfigError(
            "Expected a new Parquet file that is not gzipped: it cannot be continued. Write JSON Lines or CSV."
        )
    return _ParquetWriter(file, label=label, keep=keep)


def refuse_existing(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise ConfigError if there is something at the path already and nobody said that it may go."""
    if not force and os.path.lexists(path):
        raise ConfigError(f"Expected no file at {str(path)!r} yet. Choose another path or overwrite it with --force.")


def create_private(path: str | os.PathLike[str]) -> BinaryIO:
    """Create a file that only its owner may read (mode 0600) and open it for writing.

    Raises:
        ConfigError: If the file exists already or cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o600), "wb")
    except OSError as error:
        problem = file_error(path, "write", error)
    raise problem


def publish(
    file: BinaryIO, partial: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False
) -> None:
    """Put a complete file in its place: write it to the disk, close it, rename it.

    After this returns, the file survives a loss of power. It keeps mode 0600.

    Args:
        file: The open file.
        partial: Where it lies, in the folder of ``path``.
        path: Where it shall lie.
        force: Whether a file that is there may be overwritten.

    Raises:
        ConfigError: If the disk refuses, or ``path`` exists.
    """
    refuse_existing(path, force=force)
    try:
        file.flush()
        os.fsync(file.fileno())
        file.close()
        Path(partial).replace(path)
    except OSError as error:
        problem = file_error(path, "write", error)
    else:
        _sync_folder(Path(path).parent)
        return
    raise problem


def _sync_folder(folder: Path) -> None:
    # Some file systems cannot sync a folder. The file itself is safe by then.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_releases(
    path: str | os.PathLike[str], releases: Iterable[Release[str]], *, format: Format | None = None, force: bool = False
) -> None:
    """Write releases to a file, which appears at ``path`` only when it is complete.

    The file has mode 0600. Columns are ``id``, ``text``, ``label`` if the first release has a label, and the kept
    fields of the first release; later releases must have the same. See ``encode_batch`` for the formats.

    Args:
        path: Where to write; gzipped if it ends in ``.gz``.
        releases: The releases, written in their order, in batches.
        format: The format, where the extension does not tell.
        force: Whether an existing file may be overwritten.

    Raises:
        ConfigError: If a setting is wrong, the file exists, or it cannot be written.
        DataError: If a release cannot be written as UTF-8.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    target = Path(path)
    kind = file_format(target, format)
    refuse_existing(target, force=force)
    if kind is Format.PARQUET:
        load_pyarrow()
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    # Before the first release is drawn: a folder that cannot be written to must not cost privacy.
    file = create_private(partial)
    try:
        _write_all(file, target, releases, kind)
        publish(file, partial, target, force=force)
    finally:
        # On a full disk, closing fails as well; the file is thrown away in any case.
        with contextlib.suppress(OSError):
            file.close()
        partial.unlink(missing_ok=True)


def _write_all(file: BinaryIO, target: Path, releases: Iterable[Release[str]], kind: Format) -> None:
    every = batches(releases, lambda release: len(release.output), size=_WRITE_BATCH, characters=_WRITE_CHARACTERS)
    first = next(every, [])
    writer = open_writer(
        file,
        kind,
        compressed=is_compressed(target),
        label=bool(first) and first[0].label is not None,
        keep=tuple(first[0].kept) if first else (),
    )
    with contextlib.ExitStack() as failing:
        # Where the writing fails, pyarrow would try to complete the file after it is closed; nobody reads that.
        failing.callback(_close_quietly, writer)
        for batch in itertools.chain([first] if first else [], every):
            # Only our own writing is watched: an OSError of whoever makes the releases is not about this file.
            with _writing(target):
                writer.write(batch)
        failing.pop_all()
    with _writing(target):
        writer.close()


def _close_quietly(writer: ReleaseWriter) -> None:
    with contextlib.suppress(OSError):
        writer.close()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = file_error(path, "write", error)
    else:
        return
    raise problem
