"""Rows of a CSV file. A row that cannot be read gives its fault instead."""

import contextlib
import csv
import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from dptext._wording import plural
from dptext.text.formats import string_fault
from dptext.text.lines import LONE_RETURNS, Bad, BadHeader, Broken, Chunk, RawLine, Row, Table, headless, no_column

DELIMITERS: Final = (",", ";", "\t", "|")  #: Common delimiters of columns


class _CsvLines:
    """The lines of a CSV file as ``csv.reader`` wants them, with a bound on the bytes of one row.

    Without the bound a quote that is never closed would swallow the rest of the file. Bytes that are not UTF-8 become
    lone surrogates, so that the quotes still pair up and only the row that holds them is bad.
    """

    def __init__(self, blocks: Iterator[RawLine], limit: int) -> None:
        self._blocks = blocks
        self._block = b""
        self._lines = io.BytesIO()
        self._fault: Bad | Broken | None = None
        self.limit = self.left = limit
        self.ended = False
        self.broken: Broken | None = None

    @property
    def block_ended(self) -> bool:
        return self._lines.tell() == len(self._block)

    @property
    def lone_returns(self) -> bool:
        """True if the block has no line feed, and no NUL, which an encoding such as UTF-16 would have."""
        return b"\n" not in self._block and b"\0" not in self._block

    def rest(self) -> bytes | None:
        """Return the unread lines of this or the next block. None for no lines, or more bytes than a row may have."""
        self._advance()
        rest = self._block[self._lines.tell() :]
        return rest if 0 < len(rest) <= self.limit else None

    def skip_rest(self) -> None:
        self._lines.seek(0, io.SEEK_END)

    def _advance(self) -> None:
        if self._fault is not None or not self.block_ended:
            return
        block = next(self._blocks, None)
        if isinstance(block, bytes):
            self._block, self._lines = block, io.BytesIO(block)
        else:
            self._fault = block

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        self._advance()
        if line := self._lines.readline():
            self.left -= len(line)
            if self.left >= 0:
                return line.decode("utf-8", "surrogateescape")
            self.broken = Broken(f"a row is longer than {self.limit} bytes, or a quote is not closed")
        elif self._fault is None:
            self.ended = True
        else:
            self.broken = Broken(self._fault.reason)
        raise StopIteration


_limits: list[int] = []
_limits_lock = threading.RLock()


@contextlib.contextmanager
def _field_limit(limit: int) -> Iterator[None]:
    """Raise the csv module's limit on the length of fields while a file is read. A process has one such limit.

    The limit never falls below its original value, so that no other reader fails. The last of our readers restores it.
    """
    with _limits_lock:
        if not _limits:
            _limits.append(csv.field_size_limit())
        _limits.append(limit)
        csv.field_size_limit(max(_limits))
    try:
        yield
    finally:
        with _limits_lock:
            _limits.remove(limit)
            csv.field_size_limit(max(_limits))
            if len(_limits) == 1:
                _limits.clear()


def csv_chunks(blocks: Iterator[RawLine], names: Sequence[str], max_line: int, delimiter: str = ",") -> Iterator[Chunk]:
    """Yield the rows of a CSV file, or their faults. Nothing follows a `Broken`.

    A block is parsed at once if it has no faults and its last row ends with it. Any other block is parsed row by row.
    """
    source = _CsvLines(blocks, max_line)
    with _field_limit(max_line):
        reader = csv.reader(source, strict=True, delimiter=delimiter)
        header = _csv_row(reader, source)
        if header is None:
            yield from headless(names)
            return
        if isinstance(header, Broken):
            yield [header]
            return
        problem = _header_fault(header, names, delimiter)
        if problem is not None:
            filled = False
            while not filled and (row := _csv_row(reader, source)) is not None:
                filled = isinstance(row, Broken) or any(map(str.strip, row))
            yield [replace(problem, rows=filled)]
            return
        blanks = 0
        while not source.ended:
            if not blanks and (table := _csv_table(source.rest(), header, delimiter)) is not None:
                source.skip_rest()
                yield table
                continue
            rows, blanks = _csv_block(reader, source, header, blanks)
            if rows:
                yield rows
                if isinstance(rows[-1], Broken):
                    return


def _csv_table(block: bytes | None, header: list[str], delimiter: str) -> Table | None:
    """Return the columns of a block of lines. None unless each row is complete and as long as the header."""
    if block is None:
        return None
    try:
        text = block.decode()
        columns = _unquoted(text, len(header), delimiter) or _quoted(text, len(header), delimiter)
    except (csv.Error, UnicodeDecodeError):
        return None
    return None if columns is None else dict(zip(header, columns, strict=True))


def _unquoted(text: str, n_columns: int, delimiter: str) -> list[list[str]] | None:
    """Return the columns of lines without quotes, else None. A list for each row would burden the garbage collector."""
    text = text.replace("\r\n", "\n").removesuffix("\n")
    lines = text.split("\n")
    if '"' in text or "\r" in text or "" in lines or {line.count(delimiter) for line in lines} != {n_columns - 1}:
        return None
    values = text.replace("\n", delimiter).split(delimiter)
    return [values[place::n_columns] for place in range(n_columns)]


def _quoted(text: str, n_columns: int, delimiter: str) -> list[tuple[str, ...]] | None:
    rows = list(csv.reader(io.StringIO(text, newline="\n"), strict=True, delimiter=delimiter))
    if not rows or set(map(len, rows)) != {n_columns}:
        return None
    return list(zip(*rows, strict=True))


def _csv_block(reader: Iterator[list[str]], source: _CsvLines, header: list[str], blanks: int) -> tuple[list[Row], int]:
    """Return the rows that begin in the block, and the empty rows at its end. `blanks` empty rows come before it."""
    rows: list[Row] = []
    while (row := _csv_row(reader, source)) is not None:
        if row == []:
            blanks += 1
        else:
            rows += [Bad("the row is empty")] * blanks
            blanks = 0
            rows.append(row if isinstance(row, Broken) else _named(row, header))
        if isinstance(row, Broken) or source.block_ended:
            break
    return rows, blanks


def _named(row: list[str], header: list[str]) -> Row:
    if len(row) == len(header):
        return dict(zip(header, row, strict=True))
    return Bad(f"the row has {plural(len(row), 'column')} and the header {len(header)}")


def _csv_row(reader: Iterator[list[str]], source: _CsvLines) -> list[str] | Broken | None:
    """Return the next row, or None at the end. `Broken` after a bad quote: the start of the next row is unknown."""
    source.left = source.limit
    row: list[str] | Broken | None = None
    try:
        row = next(reader, None)
    except csv.Error as error:
        if source.lone_returns and "new-line" in str(error):
            row = Broken(LONE_RETURNS)
        else:
            row = Broken("a quote is opened and not closed" if source.ended else "the quotes are malformed")
    return source.broken or row


def _header_fault(header: list[str], names: Sequence[str], delimiter: str) -> BadHeader | None:
    if not header:
        return BadHeader("the first line is empty and should be the header")
    if any(string_fault(name) is not None for name in header):
        return BadHeader("the header is not UTF-8 or holds a NUL character")
    for name in names:
        if header.count(name) != 1:
            others = [each for each in DELIMITERS if each != delimiter and len(header) == 1 and each in header[0]]
            if others:
                other = others[0].replace("\t", r"\t")
                return BadHeader(
                    f"the header has no column {name!r}, but one that holds '{other}', which may part columns: "
                    f"--delimiter '{other}'",
                    name,
                )
            return BadHeader(f"the header has {no_column(name, names, header)}", name)
    return None
