"""Read the columns of a Parquet file, or the faults of its rows. Check that every format can hold a column.

`PlainTexts` are such strings in Arrow's layout.
"""

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, TypeGuard, cast, overload

import numpy as np

from dptext.errors import needing
from dptext.text.formats import Scalar, is_scalar, shortest, string_fault
from dptext.text.lines import Bad, BadHeader, Broken, Chunk, headless, no_column
from dptext.text.parquet_pages import LARGE, chunks_of, most_bytes, rows_at_once
from dptext.text.thrift import UnreadableError
from dptext.types import Int32s, Integers, UInt8s

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


class PlainTexts(Sequence[str]):
    """Strings that every format can hold. They are immutable, so they are checked once, when they are read.

    The first access to a string converts all of them to strings of Python, which are kept.
    """

    __slots__ = ("_array", "_ascii", "_made")

    def __init__(self, array: Any, made: list[str] | None = None, *, ascii: bool = False) -> None:
        self._array = array
        self._made = made
        self._ascii = ascii

    @classmethod
    def of(cls, array: Any) -> "PlainTexts | None":
        """Return the strings of a pyarrow array. None: a value is null or has a NUL. ArrowInvalid: one is not UTF-8."""
        found = cls(array)
        data, _ = found.utf8()
        if array.null_count or not data.min(initial=1):
            return None
        found._ascii = bool(data.max(initial=0) < 128)
        if not found._ascii:
            array.validate(full=True)
        return found

    def utf8(self) -> tuple[UInt8s, Int32s | Integers]:
        """Return all strings in UTF-8, joined, and offsets `(n + 1,)`: the first string's begin, then every end.

        The first offset need not be 0.
        """
        _, offsets, data = self._array.buffers()
        if not len(self):
            return np.zeros(0, np.uint8), np.zeros(1, np.int64)
        kind: Any = np.int32 if str(self._array.type) == "string" else np.int64
        ends = np.frombuffer(offsets, kind, len(self) + 1, self._array.offset * kind().itemsize)
        return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], ends

    def sizes(self) -> Int32s | Integers:
        """The number of bytes of each string."""
        return np.diff(self.utf8()[1])

    def lengths(self) -> list[int]:
        """The number of characters of each string."""
        return self.sizes().tolist() if self._ascii else list(map(len, self.strings()))

    def strings(self) -> list[str]:
        """Return the strings of Python, which are made at the first call."""
        if self._made is None:
            self._made = self._array.to_pylist()  # by `to_numpy` pyarrow would import pandas, which takes .4 seconds
        return self._made

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if not isinstance(at, slice) or at.step is not None:
            return self.strings()[at]
        start, stop, _ = at.indices(len(self))
        part = self._array.slice(start, max(0, stop - start))
        return PlainTexts(part, self._made and self._made[at], ascii=self._ascii)

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings())

    def __arrow_array__(self, type: Any = None) -> Any:
        """Return the pyarrow array. pyarrow calls this method."""
        return self._array if type in {None, self._array.type} else self._array.cast(type)


def kinds(column: Sequence[object]) -> set[type]:
    """The types of the values."""
    return {str} if isinstance(column, PlainTexts) else set(map(type, column))


def plain_texts(column: Sequence[object]) -> TypeGuard[Sequence[str]]:
    """Return whether all values are strings that every format can hold."""
    if isinstance(column, PlainTexts):
        return True
    # The joined string has a fault if and only if a single string has one: no string completes the fault of another.
    return set(map(type, column)) <= {str} and string_fault("".join(cast("Sequence[str]", column))) is None


def plain_scalars(column: Sequence[object]) -> TypeGuard[Sequence[Scalar]]:
    """Return whether every format can hold all values. Subclasses of the scalar types give False: they are doubtful."""
    found = kinds(column)
    if found == {str}:
        return plain_texts(column)
    return (
        found <= _SCALARS
        and (found <= {str, bool, type(None)} or all(map(is_scalar, column)))
        and plain_texts([value for value in column if isinstance(value, str)])
    )


#: Errors for values that Python cannot hold: text that is not UTF-8; a time outside of Python's years, finer than a
#: microsecond, or of an unknown zone.
UNMATCHED: Final = (ValueError, ArithmeticError, LookupError, TypeError, ImportError, NotImplementedError)
NO_MATCH: Final = Bad("a value is not UTF-8, or Python has no match for it")
CHUNK_ROWS: Final = 2**13  #: Most rows of a chunk. Repeated texts may take no bytes in a file.
_BUFFER: Final = 2**20  # bytes of a column that are read ahead; without a buffer, the column is read whole
_FAILED: Final[Any] = object()
_SHORT_FLOATS: Final = ("float", "halffloat")


def load_pyarrow() -> tuple[ModuleType, ModuleType]:
    """Return the modules pyarrow and pyarrow.parquet, which are loaded when first needed."""
    with needing("Parquet", "dptext[files]"):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    return pa, pq


def values_of(column: Any) -> Sequence[object]:
    """Return the values of a pyarrow array. Texts are converted when they are first asked for."""
    values: list[object]
    kind = str(getattr(column.type, "value_type", column.type))
    if kind in _SHORT_FLOATS and kind != str(column.type) and hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    if str(column.type) in _SHORT_FLOATS:
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        values = [shortest(each) if there else None for each, there in zip(numbers, valid, strict=True)]
    elif str(column.type) in {"string", "large_string"} and (found := PlainTexts.of(column)) is not None:
        return found
    else:
        values = column.to_pylist()
    return values


def class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of classes, by column, for columns of class numbers. Hugging Face writes them into a schema."""
    found: dict[str, list[str]] = {}
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        for name, kind in json.loads(metadata[b"huggingface"])["info"]["features"].items():
            names = kind.get("names") if isinstance(kind, dict) and kind.get("_type") == "ClassLabel" else None
            if isinstance(names, list) and all(isinstance(each, str) for each in names):
                found[name] = names
    return found


def named_classes(numbers: Sequence[object], names: Sequence[str]) -> list[object]:
    """Return the names of the classes with these numbers. -1 gives None, and what is none gives `NO_MATCH`."""
    by_number = {-1: None, **dict(enumerate(names))}
    return [
        each
        if each is None or isinstance(each, str)
        else by_number.get(each, NO_MATCH)
        if type(each) is int
        else NO_MATCH
        for each in numbers
    ]


def parquet_chunks(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """Yield the rows of an open Parquet file, or their faults. Nothing follows a `Broken`.

    The bytes in memory at once are bounded, and so are the bytes that the whole file unpacks to.
    """
    try:
        yield from _found(raw, names)
    except UnreadableError as error:  # its message holds nothing of the file
        yield [Broken(str(error))]


def _found(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """Yield the chunks of `parquet_chunks`, which turns an UnreadableError of this generator into a `Broken`."""
    arrow, parquet = load_pyarrow()
    if not raw.peek(1):
        yield from headless(names)
        return
    # pyarrow quotes values in its messages.
    errors = (arrow.ArrowException, OSError, ValueError, MemoryError)
    groups = chunks_of(raw)
    file = known = None
    classes: Mapping[str, Sequence[str]] = {}
    with contextlib.suppress(*errors):
        # Without read-ahead: its threads call `raw` and outlive a failed read. A thread that calls into a Python that
        # is ending aborts the process.
        file = parquet.ParquetFile(raw, pre_buffer=False, buffer_size=_BUFFER)
        known = file.schema_arrow.names
        classes = class_names(file.schema_arrow.metadata or {})
    if file is None or known is None:
        yield [Broken("the file is not Parquet, or it is truncated or damaged")]
        return
    with file:
        n_rows = file.metadata.num_rows
        for name in names:
            if known.count(name) != 1:
                yield [BadHeader(f"the file has {no_column(name, names, known)}", name, n_rows > 0)]
                return
        batches: Iterator[Any] = iter([_FAILED])
        rows, left = min(CHUNK_ROWS, rows_at_once(raw, file.schema, groups, names)), most_bytes(raw)
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
                yield from with_classes(batch_chunks(batch, set(names or known)), classes)
        yield [Broken("the Parquet data is truncated or damaged")]


def with_classes(chunks: Iterator[Chunk], classes: Mapping[str, Sequence[str]]) -> Iterator[Chunk]:
    """Yield the chunks with names of classes in place of their numbers."""
    for chunk in chunks:
        if not isinstance(chunk, dict) or not classes.keys() & chunk:
            yield chunk
            continue
        named = {name: named_classes(chunk[name], classes[name]) for name in classes.keys() & chunk}
        yield {name: named.get(name, column) for name, column in chunk.items()}


def batch_chunks(batch: Any, names: set[str]) -> Iterator[Chunk]:
    """Yield the columns of a pyarrow batch. `NO_MATCH` takes the place of a value that Python cannot hold."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    yield {name: _matched(column) for name, column in columns if name in names}


def _matched(column: Any) -> Sequence[object]:
    """Return the values of an array. One that Python cannot hold halves the array, down to this value."""
    arrow, _ = load_pyarrow()
    with contextlib.suppress(arrow.ArrowException, OSError, MemoryError, *UNMATCHED):
        return values_of(column)
    half = len(column) // 2
    return [*_matched(column[:half]), *_matched(column[half:])] if half else [NO_MATCH]
