"""Write releases as JSON Lines, CSV, Parquet or plain text, in files for sharing.

A file appears at its target when it is complete. The ends of its blocks depend on the releases alone. In all formats
but Parquet, batches are appended one by one, so that a file that is cut after any batch can be continued.
"""

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from pathlib import Path
from typing import BinaryIO, Final, assert_never, cast

import numpy as np

from dptext.errors import ConfigError
from dptext.text.batches import Kept, Releases, groups
from dptext.text.column_types import array, type_named
from dptext.text.columns import VECTOR_FIELD, Columns, Values
from dptext.text.files import Target, writing
from dptext.text.formats import DELIMITED, Format, Scalar, as_string, is_compressed, output_format, safe_cell
from dptext.text.packed_rows import PlainTexts, load_pyarrow
from dptext.text.records import Release
from dptext.types import Singles

Block = Sequence[Release[str]]
APPENDABLE: Final = frozenset({Format.JSONL, Format.CSV, Format.TSV, Format.TEXT})
"""Formats whose files may be cut after any batch and continued; a Parquet file is unreadable until it is closed."""
_TEXTS: Final = Columns()
_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def encode_batch(
    releases: Block, format: Format, columns: Columns = _TEXTS, *, compressed: bool = False, header: bool = False
) -> bytes:
    r"""Return the bytes of a batch. They may stand alone or follow those of another batch; `header` begins a file.

    A compressed batch is a complete gzip member without a time stamp. So a file of such batches that is cut after any
    batch is valid gzip, and equal batches give equal bytes. A batch without releases has only the bytes of the header
    and the gzip frame.

    - JSON Lines: one object a line. A vector is a list of the shortest decimals that identify its numbers in float32.
    - CSV: RFC 4180 (``\r\n``); TSV has tabs for commas. Kept values that are not strings are written as in JSON, and
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
            text = _json_lines(names, columns.as_json(values))
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
    # "\r\n", because the csv module of Python 3.11 quotes only characters of its own line end.
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
    """Return the numbers for JSON, with the fewest decimals that identify each float32."""
    found = np.array([float(str(number)) for number in vector])
    # Readers round to float64 first, then to float32. That would turn a few numbers (7.038531e-26) into a neighbour.
    faithful: list[float] = np.where(found.astype(np.float32) == vector, found, vector).tolist()
    return faithful


@dataclass
class _AppendingWriter:
    """A writer of the bytes of `encode_batch`. The file may be cut and continued after any batch."""

    file: BinaryIO
    format: Format
    columns: Columns
    compressed: bool
    header: bool

    def __post_init__(self) -> None:
        self.columns.names(self.format)

    def write(self, releases: Block, /) -> None:
        data = encode_batch(releases, self.format, self.columns, compressed=self.compressed, header=self.header)
        self.columns = self.columns.after(releases)
        self.header = False
        self.file.write(data)
        self.file.flush()

    def close(self) -> None:
        if self.header:
            self.write([])


class _ParquetWriter:
    """A writer that makes each batch a row group.

    Columns of ids, labels and kept fields are strings, unless they have a type. Other values are written as in JSON.
    """

    def __init__(self, file: BinaryIO, columns: Columns) -> None:
        self._arrow, parquet = load_pyarrow()
        self._columns = columns
        names = columns.names(Format.PARQUET)
        vectors = self._arrow.list_(self._arrow.float32())
        always = len(names) - len(columns.keep) - columns.label
        types = {name: type_named(kind) if isinstance(kind, str) else kind for name, kind in columns.types}
        types |= {VECTOR_FIELD: vectors} if columns.vector else {}
        kinds = (types.get(name, self._arrow.string()) for name in names)
        self._schema = self._arrow.schema(
            [self._arrow.field(*named, nullable=i >= always) for i, named in enumerate(zip(names, kinds, strict=True))]
        )
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, releases: Block, /) -> None:
        values = self._columns.values(releases)
        self._columns = self._columns.after(releases)
        typed = {name for name, _ in self._columns.types}
        columns = [
            array(column, field.type) if field.name in typed else self._arrow.array(_cells(column), field.type)
            for column, field in zip(values, self._schema, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(columns, self._schema))

    def close(self) -> None:
        self._writer.close()


ReleaseWriter = _AppendingWriter | _ParquetWriter


@contextlib.contextmanager
def completed(writer: ReleaseWriter, closing: contextlib.AbstractContextManager[None]) -> Iterator[None]:
    """Close the writer after the block, within `closing`. If the block fails, errors of closing are suppressed.

    An open writer of pyarrow would later try to complete a closed file.
    """
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # on a full disk, closing fails like the writing before
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
        raise ConfigError(f"Expected safe_csv with format 'csv', found {str(format)!r}: others have no formulas.")


def open_writer(
    file: BinaryIO, format: Format, *, compressed: bool = False, header: bool = True, columns: Columns = _TEXTS
) -> ReleaseWriter:
    """Return a writer of releases to an open binary file. The caller flushes the file to the disk and closes it.

    Its `write` takes one batch and hands it to the operating system. Its `close` completes the format: a file without a
    single release becomes a valid empty one. A file of a format in ``APPENDABLE`` may be cut later at the size that it
    has after any ``write``. To go on there, open the file for appending and give ``header=False`` unless the size is 0.
    ConfigError: the columns are impossible, Parquet is to be gzipped or continued, or `safe_csv` is set for another
    format than CSV.
    """
    require_csv(format, safe_csv=columns.safe_csv)
    if format is not Format.PARQUET:
        return _AppendingWriter(file, format, columns, compressed, header)
    if compressed or not header:
        raise ConfigError("Expected a new Parquet file, not gzipped: it cannot be continued. Write JSON Lines or CSV.")
    return _ParquetWriter(file, columns)


_BLOCK_RELEASES: Final = 1024
BLOCK_CHARACTERS: Final = 8_000_000  #: Approximate length of the releases that are written at once
_CHARACTERS_PER_NUMBER: Final = 32  # a float of a tuple takes as many bytes


def blocks(parts: Iterable[Block], size: int) -> Iterator[Block]:
    """Yield the releases in the blocks of a file: row groups of Parquet, members of gzip, checkpoints of a run.

    A block ends with its `size`-th release, or with the release that brings the block to a public length. So the shape
    of a file depends on its releases, not on the lengths of the private texts. A run that resumes after a block cuts
    the same blocks as an uninterrupted run.
    """
    lists = (part if isinstance(part, Releases) else list(part) for part in parts)
    return groups(lists, _lengths, _joined, size=size, characters=BLOCK_CHARACTERS)


def _lengths(releases: Block) -> list[int]:
    if not isinstance(releases, Releases) or not isinstance(releases.kept, Kept):
        return [_length(release) for release in releases]
    numbers = releases.shape[1] or 0
    sizes = list(map(len, releases.outputs))
    if numbers:
        sizes = [size + _CHARACTERS_PER_NUMBER * numbers for size in sizes]
    for column in releases.kept.columns.values():
        sizes = [size + _characters(value) for size, value in zip(sizes, column, strict=True)]
    return sizes


def _length(release: Release[str]) -> int:
    numbers = 0 if release.vector is None else len(release.vector)
    return len(release.output) + sum(map(_characters, release.kept.values())) + _CHARACTERS_PER_NUMBER * numbers


def _characters(value: Scalar) -> int:
    return len(value) if isinstance(value, str) else 0


def _joined(parts: Sequence[Block]) -> Block:
    columns = [part for part in parts if isinstance(part, Releases)]
    if len(columns) == len(parts) and len({part.shape for part in columns}) == 1:
        return Releases.joined(columns)
    return list(itertools.chain.from_iterable(parts))


def write_releases(
    path: str | os.PathLike[str], releases: Iterable[Release[str]], *, format: Format | None = None, force: bool = False
) -> None:
    """Write releases to a file, which appears at ``path`` only when it is complete.

    The mode of the file follows the umask; it is gzipped if ``path`` ends in ``.gz``. Columns are ``id``, ``text``,
    ``embedding`` if the first release has a vector, ``label`` if it has a label, and its kept fields; later releases
    must have the same. There is no ``text`` if the releases have vectors and only empty texts. See ``encode_batch``
    for the formats.

    ConfigError: a setting is wrong, the file exists, or it cannot be written. DataError: a release cannot be written as
    UTF-8, or its vector is not finite or not as long as the first. MissingExtraError: Parquet needs pyarrow.
    """
    target = Target(Path(path), force=force, private=False)
    kind = output_format(target.path, format)
    if kind is Format.PARQUET:
        load_pyarrow()
    # The file is opened before the first release is drawn: a folder without write access must not cost privacy.
    with target.opened() as file:
        parts = [releases] if isinstance(releases, Releases) else ([release] for release in releases)
        write_all(file, target.path, parts, kind, _columns)


def _columns(first: Block) -> Columns:
    vector = bool(first) and first[0].vector is not None
    return Columns(
        # The whole block is checked, because a single text may be empty by chance.
        text=not vector or any(release.output != "" for release in first),
        vector=vector,
        label=bool(first) and first[0].label is not None,
        keep=tuple(first[0].kept) if first else (),
    )


def write_all(
    file: BinaryIO, target: Path, parts: Iterable[Block], kind: Format, columns: Callable[[Block], Columns]
) -> None:
    """Write releases to an open file that will appear at `target`. `columns` gives the columns for the first block."""
    every = blocks(parts, _BLOCK_RELEASES)
    first = next(every, [])
    writer = open_writer(file, kind, compressed=is_compressed(target), columns=columns(first))
    with completed(writer, writing(target)):
        for batch in itertools.chain([first] if first else [], every):
            # Only the writing is inside, because an OSError from making the releases is not about this file.
            with writing(target):
                writer.write(batch)
