"""Rows of a Parquet file, or their faults."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final

from dptext.errors import needing
from dptext.text.column_names import no_column
from dptext.text.formats import PlainTexts
from dptext.text.lines import Bad, Broken, Chunk, Row

_PARQUET_BATCH: Final = 1024
_FAILED: Final[Any] = object()


def load_pyarrow() -> tuple[ModuleType, ModuleType]:
    """The modules pyarrow and pyarrow.parquet, loaded when first needed."""
    with needing("Parquet", "parquet"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    return pa, pq


def values_of(column: Any) -> Sequence[object]:
    """The values of a column of pyarrow. Text takes a way that is ten times as fast as that of other types."""
    if str(column.type) not in {"string", "large_string"}:
        values: list[object] = column.to_pylist()
        return values
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    # pyarrow has decoded the text as strict UTF-8, so nothing but a NUL can be wrong with it.
    return found if column.null_count or "\x00" in "".join(found) else PlainTexts(found)


def parquet_chunks(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """The rows of an open Parquet file, or their faults; nothing follows a `Broken`."""
    arrow, parquet = load_pyarrow()
    if not raw.peek(1):
        return
    # pyarrow quotes values in its messages.
    errors = (arrow.ArrowException, OSError, ValueError)
    file = known = None
    with contextlib.suppress(*errors):
        # Without read-ahead: its threads call `raw` and outlive a failed read. A thread that calls into a Python that
        # is ending aborts the process.
        file = parquet.ParquetFile(raw, pre_buffer=False)
        known = file.schema_arrow.names
    if file is None or known is None:
        yield [Broken("the file is not Parquet, or it is truncated or damaged")]
        return
    with file:
        for name in names:
            if known.count(name) != 1:
                yield [Broken(f"the file has {no_column(name, names, known)}")]
                return
        batches = None
        with contextlib.suppress(*errors):
            batches = file.iter_batches(batch_size=_PARQUET_BATCH, columns=list(names) or None, use_threads=False)
        while batches is not None:
            batch = _FAILED
            with contextlib.suppress(*errors):
                batch = next(batches, None)
            if batch is None:
                return
            if batch is _FAILED:
                break
            if batch.num_rows:
                yield _chunk(batch, names or known, errors)
        yield [Broken("the Parquet data is truncated or damaged")]


def _chunk(batch: Any, names: Sequence[str], errors: tuple[type[Exception], ...]) -> Chunk:
    """The columns of a batch, or its rows where a value of it has no match in Python."""
    # Times raise the other errors: outside of Python's years, finer than its microseconds, or of an unknown zone.
    unmatched: tuple[type[Exception], ...] = (*errors, ArithmeticError, LookupError, TypeError, ImportError)
    with contextlib.suppress(*unmatched):
        return {name: values_of(batch.column(name)) for name in names}
    return [_parquet_row(batch, place, unmatched) for place in range(batch.num_rows)]


def _parquet_row(batch: Any, place: int, unmatched: tuple[type[Exception], ...]) -> Row:
    try:
        row: dict[str, object] = batch.slice(place, 1).to_pylist()[0]
    except unmatched:
        return Bad("a value is not UTF-8, or Python has no match for it")
    return row
