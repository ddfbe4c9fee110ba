"""Rows of a file in any format, or their faults, many at a time.

pyarrow reads a block of JSON Lines if it gives exactly the rows of our own reader (`dptext.text.json_rows`). pyarrow
accepts more than valid JSON Lines: several objects on a line, an object on several lines, text that is not UTF-8. It
skips empty lines, and does not distinguish a missing field from null. Our own reader reads every block with such a
line, and says what is wrong with which line.
"""

import contextlib
import io
import itertools
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, assert_never

import numpy as np

from dptext.text.csv_rows import csv_chunks
from dptext.text.formats import Format
from dptext.text.inputs import Opener, Transcoded, is_utf8, open_input, unzip
from dptext.text.json_rows import json_array, json_row
from dptext.text.kinds import BEGINNING, other_kind
from dptext.text.lines import Bad, Broken, Chunk, OtherFile, RawLine, Row, Table, blocks_of, lines_of
from dptext.text.packed_rows import parquet_chunks, values_of
from dptext.text.plain_text import Portion, text_chunks
from dptext.text.records import TEXT_FIELD
from dptext.text.sheets import xlsx_chunks

MAX_JSON: Final = 2**28  #: Bytes of the longest JSON array. An array is read whole.


def file_chunks(
    path: Path,
    kind: Format,
    names: Sequence[str],
    *,
    max_line: int,
    delimiter: str | None = None,
    encoding: str | None = None,
    record: str | None = None,
    sheet: str | None = None,
    opener: Opener = open_input,
) -> Generator[Chunk, None, None]:
    """Yield the rows of a file, or their faults, in chunks of at least one row. Nothing follows a `Broken`.

    `names` are the needed fields, the text first; no names mean all fields. A line, or row of CSV, above `max_line`
    bytes is not read whole. The delimiter is a comma in CSV and a tab in TSV, unless `delimiter` is given. `record` is
    the portion of plain text that is one record; see `require_layout`. `sheet` names a sheet of XLSX if several hold
    cells.
    """
    with opener(path) as raw:
        first = b""
        with contextlib.suppress(OSError):  # the reader will meet the same error
            first = raw.peek(BEGINNING)[:BEGINNING]
        if (said := other_kind(path, kind, first)) is not None:
            yield [OtherFile(f"the file {said}")]
            return
        if kind is Format.PARQUET:
            yield from parquet_chunks(raw, names)
            return
        if kind is Format.XLSX:
            yield from xlsx_chunks(raw, names, sheet)
            return
        unzipped: io.BufferedIOBase = unzip(path, raw)
        if not is_utf8(encoding):
            unzipped = Transcoded(unzipped, encoding or "")
        blocks = blocks_of(unzipped, max_line)
        if unzipped is not raw:
            block = next(blocks, b"")
            if isinstance(block, bytes) and (said := other_kind(Path(), kind, block[:BEGINNING])) is not None:
                yield [OtherFile(f"what is packed in the file {said}")]
                return
            blocks = itertools.chain([block] if block else [], blocks)
        match kind:
            case Format.JSONL:
                yield from _json_chunks(blocks, names)
            case Format.CSV | Format.TSV:
                yield from csv_chunks(blocks, names, max_line, delimiter or ("," if kind is Format.CSV else "\t"))
            case Format.TEXT:
                name = names[0] if names else TEXT_FIELD
                yield from text_chunks(blocks, name, Portion(record or ""), max_line)
            case Format.JSON:
                yield from filter(None, [_json_array(blocks)])
            case _:
                assert_never(kind)


def _json_chunks(blocks: Iterator[RawLine], names: Sequence[str]) -> Iterator[Chunk]:
    blanks = 0
    for block in blocks:
        table = json_columns(block, names) if isinstance(block, bytes) and names and not blanks else None
        if table is not None:
            yield table
            continue
        rows: list[Row] = []
        for line in lines_of([block]):
            if isinstance(line, bytes) and not line.strip():
                blanks += 1
                continue
            rows += [Bad("the line is empty")] * blanks
            blanks = 0
            rows.append(json_row(line) if isinstance(line, bytes) else line)
        if rows:
            yield rows


def _json_array(blocks: Iterator[RawLine]) -> list[Row]:
    """Return the rows of an array of objects. It is read whole: after a fault, the next object's start is unknown."""
    read: list[bytes] = []
    size = 0
    for block in blocks:
        size += len(block) if isinstance(block, bytes) else 0
        if not isinstance(block, bytes) or size > MAX_JSON:
            reason = f"a JSON array is read whole, and this one has more than {MAX_JSON} bytes: write JSON Lines"
            return [Broken(block.reason if isinstance(block, Broken) else reason)]
        read.append(block)
    if not read:
        return []
    return json_array(b"".join(read))


PYARROW_BYTES: Final = 2**17  #: Smallest block that is worth loading pyarrow
#: Half of the brackets that a line for pyarrow may have. pyarrow recurses: 10,000 levels ended the whole process.
_APART: Final = 1_000
#: Types of other fields that pyarrow may read. Of further types it may read what our own reader refuses.
_HARMLESS: Final = ("string", "bool", "int64", "null", "timestamp[s]", "timestamp[ns]")


def json_columns(block: bytes, names: Sequence[str]) -> Table | None:
    """Return the columns `names` of whole lines, if all hold text. None: no pyarrow, or our own reader has to read."""
    n_lines = _objects(block) if len(block) >= PYARROW_BYTES else 0
    if not n_lines or not _shallow(block):
        return None
    with contextlib.suppress(ImportError):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
        from pyarrow import json  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415

        with contextlib.suppress(pa.ArrowException, ValueError):
            block.decode()
            table = _parsed(pa, json, block, names)
            others = (str(field.type) for field in table.schema if field.name not in names)
            nulls = sum(table.column(name).null_count for name in names)
            if not nulls and table.num_rows == n_lines and all(kind in _HARMLESS for kind in others):
                return {name: values_of(table.column(name).combine_chunks()) for name in names}
    return None


def _objects(block: bytes) -> int:
    """Return the number of lines if each begins and ends with a brace, else 0.

    Within a value, JSON needs a comma between a closing and an opening brace. So each line end lies between objects,
    and if there are as many objects as lines, each line holds one object.
    """
    end = len(block) - block.endswith(b"\n")
    inner = block.count(b"\n", 0, end)
    braced = block.startswith(b"{") and block.endswith(b"}", 0, end) and block.count(b"}\n{") == inner
    return inner + 1 if braced else 0


def _shallow(block: bytes) -> bool:
    """Return whether no line can be too deep for pyarrow, by its number of brackets. Brackets in texts count, too."""
    read = np.frombuffer(block, np.uint8)
    some = np.flatnonzero(read | 32 == 123)[::_APART]  # every _APART-th [ or {, twice in a line of 2 _APART
    line = np.searchsorted(np.flatnonzero(read == 10), some)
    return not (line[1:] == line[:-1]).any()


def _parsed(pa: ModuleType, json: ModuleType, block: bytes, names: Sequence[str]) -> Any:
    return json.read_json(
        pa.BufferReader(block),
        # No threads: a thread that calls into an ending Python aborts the process.
        read_options=json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in names])),
    )
