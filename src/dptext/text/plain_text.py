"""Records of plain text: whole files, lines, or blocks of lines. The user names the portion; it is never guessed.

The unit of a guarantee is a record. If people wrote notes of several lines, and each line counts as a record, then less
is protected than the guarantee seems to say.
"""

import itertools
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, assert_never

from dptext.text.formats import Format
from dptext.text.lines import LONE_RETURNS, Bad, Broken, Chunk, RawLine, Row, lines_of


class Portion(StrEnum):
    """The portion of a plain text that is one record."""

    FILE = "file"
    LINE = "line"
    BLOCK = "block"


_NOUNS: Final = {
    Portion.FILE: "a file",
    Portion.LINE: "a line of a file",
    Portion.BLOCK: "a block of lines between blank ones",
}


def a_record(portion: str | None, forms: Sequence[str] = ()) -> str:
    """Return what a record is, such as "a line of a file"; without a portion of plain text a row.

    `forms` are those of files of several forms: "of plain text a file, of csv and jsonl a row".
    """
    found = _NOUNS[Portion(portion)] if portion else "a row"
    rows = [form for form in forms if form != Format.TEXT]
    if not rows:
        return found
    return f"{f'of plain text {found}, ' if portion else ''}of {' and '.join(rows)} a row"


def said_record(portion: str, forms: Sequence[str] = ()) -> str:
    """Return the sentences of a certificate on what a record was; `forms` are those of files of several forms."""
    if forms:
        return (
            f"Files of {len(forms)} forms were read; that there were some of each is taken for public. A record was "
            f"{a_record(portion, forms)}."
        )
    return f"{'Of plain text, a' if portion else 'A'} record was {a_record(portion)}."


def text_chunks(blocks: Iterator[RawLine], name: str, portion: Portion, limit: int) -> Iterator[Chunk]:
    """Yield the records of a plain text, with the text in the field `name`. Nothing follows a `Broken`.

    If a record is a file, reading stops beyond `limit` bytes. Line ends within a text become line feeds. The last line
    end is no part of the text.
    """
    if portion is not Portion.FILE:
        first = next(blocks, b"")
        if isinstance(first, bytes) and b"\n" not in first and b"\r" in first.rstrip():
            yield [Broken(LONE_RETURNS)]
            return
        blocks = itertools.chain([first] if first else [], blocks)
    match portion:
        case Portion.LINE:
            yield from ([_row(line, name, "line") for line in lines_of([block])] for block in blocks)
        case Portion.FILE:
            yield [_row(_whole(blocks, limit), name, "file")]
        case Portion.BLOCK:
            yield from _blocks(blocks, name, limit)
        case _:
            assert_never(portion)


def _row(found: RawLine, name: str, what: str) -> Row:
    if not isinstance(found, bytes):
        return found
    try:
        return {name: found.decode().replace("\r\n", "\n").removesuffix("\n")}
    except UnicodeDecodeError:
        return Bad(f"the {what} is not UTF-8")


def _whole(blocks: Iterator[RawLine], limit: int) -> RawLine:
    read = bytearray()
    for block in blocks:
        if isinstance(block, Broken):
            return block
        if not isinstance(block, bytes) or len(read) + len(block) > limit:
            return Bad(f"the file is longer than {limit} bytes")
        read += block
    return bytes(read)


def _blocks(blocks: Iterator[RawLine], name: str, limit: int) -> Iterator[Chunk]:
    block, long = bytearray(), False

    def ended() -> list[Row]:
        nonlocal block, long
        found: RawLine = Bad(f"the block is longer than {limit} bytes") if long else bytes(block)
        block, long = bytearray(), False
        return [_row(found, name, "block")] if found else []

    for read in blocks:
        rows: list[Row] = []
        for line in lines_of([read]):
            if isinstance(line, Broken):
                yield [*rows, line]
                return
            if isinstance(line, bytes) and not line.strip():
                rows += ended()
            elif long or not isinstance(line, bytes) or len(block) + len(line) > limit:
                block, long = bytearray(), True
            else:
                block += line
        if rows:
            yield rows
    if last := ended():
        yield last
