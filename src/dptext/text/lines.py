"""Lines of a stream, and faults as values. A fault shows names of columns only if they look like names.

Readers return faults as values (`Bad`, `Broken`), because exceptions of parsers carry the text that was read:
``json.JSONDecodeError`` the whole document, ``UnicodeDecodeError`` the bytes.
"""

import gzip
import io
import itertools
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BLOCK_BYTES: Final = 2**18  #: Bytes that are read at once, fewer than in the longest line that can hold a record
_BOM: Final = b"\xef\xbb\xbf"
_NAME: Final = re.compile(r"[^\W\d_][\w.-]*")  # one word: a short text has several
_LONGEST: Final = 32
_USUAL: Final = frozenset({"text", "texts", "review", "comment", "message", "content", "body", "document", "sentence"})


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that cannot be read. The next record can be read.

    As a value of a row it is a cell that cannot be read. Such a row is a record if no needed column has one: of a
    measured column it is null.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The fault of a source from here on: neither this record nor any record after it can be read."""

    reason: str


@dataclass(frozen=True, slots=True)
class BadFile(Broken):
    """No record can be read, because the file is not one table."""


@dataclass(frozen=True, slots=True)
class BadHeader(Broken):
    """No record can be read, because the header lacks the column of this name or has it several times."""

    column: str = ""
    rows: bool = True  #: True if any row follows


@dataclass(frozen=True, slots=True)
class OtherFile(Broken):
    """No record can be read, because the file is of another kind than its name says."""


NO_RECORDS: Final = "the file holds no records"
LONE_RETURNS: Final = "its lines end in carriage returns alone, as on old Macs: save it with line feeds"


RawLine = bytes | Bad | Broken
Row = Mapping[str, object] | Bad | Broken
#: A table holds rows as columns of one length, by name. A chunk is a table, or a list of rows.
Table = dict[str, Sequence[object]]
Chunk = Table | list[Row]


def rows_of(chunk: Chunk) -> Iterable[Row]:
    """Yield the rows of a chunk, one by one."""
    if isinstance(chunk, list):
        return chunk
    return (dict(zip(chunk, values, strict=True)) for values in zip(*chunk.values(), strict=True))


def blocks_of(stream: io.BufferedIOBase, limit: int) -> Iterator[RawLine]:
    """Yield a stream in blocks of whole lines with their ends, without a byte order mark. Nothing follows a `Broken`.

    A block holds the bytes of one read up to the last line end. A line of more than `limit` bytes is dropped, and so is
    a line of `limit` bytes without an end.
    """
    first = True
    for block in _cut(stream, limit):
        found = block.removeprefix(_BOM) if first and isinstance(block, bytes) else block
        first = False
        if found:
            yield found


def lines_of(blocks: Iterable[RawLine]) -> Iterator[RawLine]:
    """Yield the single lines of blocks, with their ends."""
    for block in blocks:
        if isinstance(block, bytes):
            yield from io.BytesIO(block)  # unlike `splitlines`, this ends no line at a lone carriage return
        else:
            yield block


def _cut(stream: io.BufferedIOBase, limit: int) -> Iterator[RawLine]:
    open_line: list[bytes] = []  # the line whose end is not read yet, unless it is over the limit
    size, too_long = 0, Bad(f"the line is longer than {limit} bytes")
    while piece := _read(stream):
        if isinstance(piece, Broken):
            yield piece
            return
        end = piece.find(b"\n") + 1
        if size + (end or len(piece)) > limit:
            open_line.clear()
            if end:
                yield too_long
                piece = piece[end:]
                size, end = 0, piece.find(b"\n") + 1
        if end:
            last = piece.rfind(b"\n") + 1
            yield b"".join((*open_line, piece[:last]))
            piece = piece[last:]
            open_line.clear()
            size = 0
        size += len(piece)
        if size <= limit:
            open_line.append(piece)
    if size >= limit:
        yield too_long
    elif open_line:
        yield b"".join(open_line)


def _read(stream: io.BufferedIOBase) -> bytes | Broken:
    """Return the bytes that the stream has at hand, so that a pipe is read as it is written. No bytes mean the end."""
    try:
        return stream.read1(BLOCK_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return Broken(f"the {getattr(stream, 'packing', 'gzip')} data is truncated or damaged")
    except OSError as error:
        return Broken(f"the file cannot be read on ({error.strerror})")
    except UnicodeError:
        return Broken("the file is not in the encoding that was named")


def are_names(found: Sequence[str]) -> bool:
    """Return whether all strings look like names of columns: short single words, no numbers, none twice.

    The first line of a CSV file without a header is private text. The first name may be empty, because pandas writes
    the name of the index so. A single string may well be a short text, so it must be a usual name.
    """
    if len(found) == 1:
        return found[0].lower() in _USUAL
    rest = found[1:] if found and not found[0] else found
    return (
        bool(found)
        and len(set(found)) == len(found)
        and all(len(name) <= _LONGEST and _NAME.fullmatch(_bare(name)) is not None for name in rest)
    )


def _bare(name: str) -> str:
    """Return the name without combining marks, which no pattern matches as letters."""
    return name if name.isascii() else "".join(each for each in name if unicodedata.category(each)[0] != "M")


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names for a message, or a phrase in their place if they do not look like names."""
    if not are_names(names):
        return "names that do not look like those of columns and are not shown"
    shown = ", ".join(map(repr, itertools.islice(names, most)))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def headless(names: Sequence[str]) -> "list[Chunk]":
    """Return the fault of a file of no bytes if its format has a header: the header lacks the columns.

    Where texts alone are needed, such a file holds no records, and has no fault.
    """
    return [[BadHeader(NO_RECORDS, rows=False)]] if len(names) > 1 else []


class Needed(list[str]):
    """The names of needed columns, the text's first, with the options and arguments that ask for each."""

    def __init__(self, names: Iterable[str], asked: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(names)
        self.asked = asked


#: The options that name a field beside that of the text.
OTHER_OPTIONS: Final = "--label-field, --id-field, --author-field, --subject-field or --keep"


def no_column(name: str, names: Sequence[str], found: Sequence[str]) -> str:
    """Return a message that a file lacks the column `name`, or has several, with the columns found and the option.

    The field of the text is the first of `names`.
    """
    if (n := list(found).count(name)) > 1:
        return f"{n} columns {name!r}: rename all but one"
    return f"no column {name!r}, found {listed(found)}: {remedy(name, names)}, or add a header"


def missing_field(name: str, names: Sequence[str], found: Iterable[object]) -> str:
    """Return a message that a row lacks the field `name`. The arguments are those of `no_column`."""
    there = listed(list(map(str, found)))
    return f"the field {name!r} is missing (name another if no record has it: found {there}; {remedy(name, names)})"


def remedy(name: str, names: Sequence[str]) -> str:
    """Return the options and arguments that name the field: those that `Needed` names ask for it with.

    The first of other names is the text's field.
    """
    others = (OTHER_OPTIONS, "label=, id=, author= or keep=")
    options, arguments = ("--text-field", "text=") if name == names[0] else others
    if isinstance(names, Needed):
        options, arguments = names.asked[name]
    return f"name it with {options} on the command line, {arguments} in Python"
