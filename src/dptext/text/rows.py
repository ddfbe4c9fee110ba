"""Rows of a file in any format, or their faults, many at a time."""

import io
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, assert_never

from dptext.text.charsets import Transcoded, is_utf8, unzip
from dptext.text.csv_rows import csv_chunks
from dptext.text.formats import Format
from dptext.text.inputs import open_input
from dptext.text.json_columns import json_columns
from dptext.text.lines import Bad, Broken, Chunk, RawLine, Row, blocks_of, lines_of
from dptext.text.parquet_rows import parquet_chunks
from dptext.text.records import TEXT_FIELD
from dptext.text.xlsx_rows import xlsx_chunks

Opener = Callable[[Path], io.BufferedReader]
MAX_JSON: Final = 2**28
"""Bytes of the longest JSON array, which is read whole."""


def file_chunks(
    path: Path,
    kind: Format,
    names: Sequence[str],
    *,
    max_line: int,
    delimiter: str | None = None,
    encoding: str | None = None,
    opener: Opener = open_input,
) -> Generator[Chunk, None, None]:
    """The rows of a file, or their faults, in chunks of at least one; nothing follows a `Broken`.

    The fields that are needed are `names`, the text first; none for all. A line, or row of CSV, above `max_line` bytes
    is not read whole. Columns are parted by a comma in CSV, a tab in TSV, unless a delimiter is named.
    """
    with opener(path) as raw:
        if kind is Format.PARQUET:
            yield from parquet_chunks(raw, names)
            return
        if kind is Format.XLSX:
            yield from xlsx_chunks(raw, names)
            return
        unzipped: io.BufferedIOBase = unzip(path, raw)
        if not is_utf8(encoding):
            unzipped = Transcoded(unzipped, encoding or "")
        blocks = blocks_of(unzipped, max_line)
        match kind:
            case Format.JSONL:
                yield from _json_chunks(blocks, names)
            case Format.CSV | Format.TSV:
                yield from csv_chunks(blocks, names, max_line, delimiter or ("," if kind is Format.CSV else "\t"))
            case Format.TEXT:
                name = names[0] if names else TEXT_FIELD
                yield from ([_text_row(line, name) for line in lines_of([block])] for block in blocks)
            case Format.JSON:
                yield from filter(None, [_json_array(blocks)])
            case _:
                assert_never(kind)


def _text_row(line: RawLine, name: str) -> Row:
    if not isinstance(line, bytes):
        return line
    if line.endswith(b"\n"):
        line = line[:-1].removesuffix(b"\r")
    try:
        return {name: line.decode()}
    except UnicodeDecodeError:
        return Bad("the line is not UTF-8")


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
            rows.append(_json_row(line))
        if rows:
            yield rows


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # Of a repeated key Python keeps the last and others the first: two readers would see two texts.
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError
    return row


def _no_constant(_: str) -> None:
    raise ValueError


_JSON: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _json_row(line: RawLine) -> Row:
    if not isinstance(line, bytes):
        return line
    try:
        value: object = _JSON.decode(line.decode())
    except UnicodeDecodeError:
        return Bad("the line is not UTF-8")
    except (ValueError, RecursionError):
        # Also a number of too many digits, a key given twice, NaN, nesting that is too deep.
        return Bad("the line is not valid JSON")
    return value if isinstance(value, dict) else Bad("the line is not a JSON object")


def _json_array(blocks: Iterator[RawLine]) -> list[Row]:
    """The rows of an array of objects, which is read whole: nobody knows where the next begins after a fault."""
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
    try:
        found: object = _JSON.decode(b"".join(read).decode())
    except UnicodeDecodeError:
        return [Broken("the file is not UTF-8")]
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        return [Broken("the file is no valid JSON array (where each line is an object, name it with --format jsonl)")]
    return [row if isinstance(row, dict) else Bad("the item is not a JSON object") for row in found]
