"""Rows of a CSV file, or their faults."""

from __future__ import annotations

import contextlib
import csv
import itertools
import threading
from collections.abc import Iterator, Sequence

from dptext.text.formats import string_fault
from dptext.text.lines import Bad, Broken, RawLine, Row


class _CsvLines:
    """The lines of a CSV file as ``csv.reader`` wants them, with a bound on the bytes of one row.

    Without the bound a quote that is never closed would swallow the rest of the file. Bytes that are not UTF-8 become
    lone surrogates, so that the quotes still pair up and only the row that holds them is bad.
    """

    def __init__(self, lines: Iterator[RawLine], limit: int) -> None:
        self._lines = lines
        self._limit = limit
        self.left = limit
        self.ended = False
        self.broken: Broken | None = None

    def next_row(self) -> None:
        self.left = self._limit

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if isinstance(line, bytes):
            self.left -= len(line)
            if self.left >= 0:
                return line.decode("utf-8", "surrogateescape")
            line = Broken(f"a row is longer than {self._limit} bytes, or a quote is not closed")
        if line is None:
            self.ended = True
        else:
            self.broken = Broken(line.reason)
        raise StopIteration


_limits: list[int] = []
_limits_lock = threading.RLock()


@contextlib.contextmanager
def _field_limit(limit: int) -> Iterator[None]:
    """Raise the csv module's limit on the length of fields while a file is read.

    The limit is one number per process. It is only ever raised, so that nobody else's reading fails, and the last of
    our readers puts it back.
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


def csv_rows(lines: Iterator[RawLine], names: Sequence[str], max_line: int) -> Iterator[Row]:
    """The rows of a CSV file, or their faults; nothing follows a `Broken`."""
    source = _CsvLines(lines, max_line)
    with _field_limit(max_line):
        reader = csv.reader(source, strict=True)
        header = _csv_row(reader, source)
        if header is None or isinstance(header, Broken):
            if header is not None:
                yield header
            return
        problem = _header_fault(header, names)
        if problem is not None:
            yield problem
            return
        blanks = 0
        while (row := _csv_row(reader, source)) is not None:
            if row == []:
                blanks += 1
                continue
            yield from itertools.repeat(Bad("the row is empty"), blanks)
            blanks = 0
            if isinstance(row, Broken):
                yield row
                return
            if len(row) == len(header):
                yield dict(zip(header, row, strict=True))
            else:
                yield Bad(f"the row has {len(row)} columns and the header {len(header)}")


def _csv_row(reader: Iterator[list[str]], source: _CsvLines) -> list[str] | Broken | None:
    """The next row, or None at the end. After a broken quote nobody knows where the next row begins."""
    source.next_row()
    row = None
    reason = None
    try:
        row = next(reader, None)
    except csv.Error:
        reason = "a quote is opened and not closed" if source.ended else "the quotes are malformed"
    if source.broken is not None:
        return source.broken
    return row if reason is None else Broken(reason)


def _header_fault(header: list[str], names: Sequence[str]) -> Broken | None:
    # The header may be a row of private text, so a message may hold the names that the caller gave and no others.
    if not header:
        return Broken("the first line is empty and should be the header")
    if any(string_fault(name) is not None for name in header):
        return Broken("the header is not UTF-8 or holds a NUL character")
    for name in names:
        if header.count(name) != 1:
            return Broken(f"the header has no column {name!r} or several (or there is no header)")
    return None
