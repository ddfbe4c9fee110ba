"""Columns of a Parquet file, or the faults of its rows."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final

from dptext.errors import needing
from dptext.text.lines import Bad, BadHeader, Broken, Chunk, no_column
from dptext.text.parquet_pages import LARGE, UnreadableError, chunks_of, most_bytes, rows_at_once
from dptext.text.plain_texts import PlainTexts

#: Rows of a chunk at most: equal texts may take a file no bytes.
_MOST_ROWS: Final = 2**13
_BUFFER: Final = 2**20  # bytes that are read ahead of a column, which else is read whole
_FAILED: Final[Any] = object()


def load_pyarrow() -> tuple[ModuleType, ModuleType]:
    """The modules pyarrow and pyarrow.parquet, loaded when first needed."""
    with needing("Parquet", "parquet"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    return pa, pq


def values_of(column: Any) -> Sequence[object]:
    """The values of an array of pyarrow. Text takes a way that is far faster than that of other types."""
    values: list[object]
    if str(column.type) not in {"string", "large_string"}:
        values = column.to_pylist()
        return values
    found = PlainTexts.of(column)
    if found is None:
        values = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return found


def parquet_chunks(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """The rows of an open Parquet file, or their faults; nothing follows a `Broken`.

    What is in memory at once has a bound, and what all of it unpacks to.
    """
    fault = ""
    try:
        yield from _found(raw, names)
    except UnreadableError as error:
        fault = str(error)
    if fault:
        yield [Broken(fault)]


def _found(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """As `parquet_chunks`; an UnreadableError is one `Broken`."""
    arrow, parquet = load_pyarrow()
    if not raw.peek(1):
        return
    # pyarrow quotes values in its messages.
    errors = (arrow.ArrowException, OSError, ValueError, MemoryError)
    groups = chunks_of(raw)
    file = known = None
    with contextlib.suppress(*errors):
        # Without read-ahead: its threads call `raw` and outlive a failed read. A thread that calls into a Python that
        # is ending aborts the process.
        file = parquet.ParquetFile(raw, pre_buffer=False, buffer_size=_BUFFER)
        known = file.schema_arrow.names
    if file is None or known is None:
        yield [Broken("the file is not Parquet, or it is truncated or damaged")]
        return
    with file:
        for name in names:
            if known.count(name) != 1:
                yield [BadHeader(f"the file has {no_column(name, names, known)}")]
                return
        batches: Iterator[Any] = iter([_FAILED])
        rows, left = min(_MOST_ROWS, rows_at_once(raw, file.schema, groups, names)), most_bytes(raw)
        with contextlib.suppress(*errors):
            batches = file.iter_batches(rows, columns=list(names) or None, use_threads=False)
        batch = None
        while batch is not _FAILED:
            batch = _FAILED
            with contextlib.suppress(*errors):
                batch = next(batches, None)
            if batch is None:
                return
            if batch is not _FAILED and batch.num_rows:
                left -= batch.nbytes
                if left < 0:
                    raise UnreadableError(LARGE)
                yield from _chunks(batch, set(names or known), errors)
        yield [Broken("the Parquet data is truncated or damaged")]


def _chunks(batch: Any, names: set[str], errors: tuple[type[Exception], ...]) -> Iterator[Chunk]:
    """The columns of a batch; of its halves where a value of it has no match in Python, down to single rows."""
    # Times raise the other errors: outside of Python's years, finer than its microseconds, or of an unknown zone.
    found: Chunk | None = None
    with contextlib.suppress(*errors, ArithmeticError, LookupError, TypeError, ImportError):
        columns = zip(batch.schema.names, batch.columns, strict=True)
        found = {name: values_of(column) for name, column in columns if name in names}
    if found is not None:
        yield found
    elif len(batch) == 1:
        yield [Bad("a value is not UTF-8, or Python has no match for it")]
    else:
        half = len(batch) // 2
        yield from _chunks(batch.slice(0, half), names, errors)
        yield from _chunks(batch.slice(half), names, errors)
