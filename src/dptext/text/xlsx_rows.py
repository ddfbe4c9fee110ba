"""Rows of the first sheet of an XLSX file, or their faults."""

import io
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from dptext._wording import plural
from dptext.errors import needing
from dptext.text.formats import as_scalar, as_string
from dptext.text.lines import Bad, BadHeader, Broken, Chunk, Row, no_column

_CHUNK: Final = 1024
_FAILED: Final[Any] = object()


def load_openpyxl() -> Any:
    """The module openpyxl, loaded when first needed."""
    with needing("XLSX", "files"):
        import openpyxl  # noqa: PLC0415
    return openpyxl


def xlsx_chunks(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """The rows of the first sheet, streamed; nothing follows a `Broken`.

    A formula is its last value, and an empty cell the empty text, as in CSV. A text that the spreadsheet took for a
    number is read as that number is written.
    """
    openpyxl = load_openpyxl()
    if not raw.peek(1):
        return
    rows = _quiet(
        lambda: iter(
            openpyxl.load_workbook(raw, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        )
    )
    first = _FAILED if rows is _FAILED else _quiet(lambda: next(rows, ()))
    if first is _FAILED:
        yield [Broken("the file is not XLSX, or it is damaged")]
        return
    header = [as_string(_cell(name)) for name in _trimmed(first)]
    for name in names:
        if header.count(name) != 1:
            yield [BadHeader(f"the first sheet has {no_column(name, names, header)}")]
            return
    found = _rows(rows, header, names[0] if names else None)
    yield from iter(lambda: list(itertools.islice(found, _CHUNK)), [])


def _quiet(call: Callable[[], Any]) -> Any:
    """The answer of openpyxl, without the warnings and messages in which it quotes cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        # zipfile, XML and openpyxl raise what they like, and it may quote a cell: none may pass with its message.
        except Exception:  # noqa: BLE001
            return _FAILED


def _rows(rows: Iterator[Sequence[object]], header: list[str], text: str | None) -> Iterator[Row]:
    blanks = 0
    while (row := _quiet(lambda: next(rows, None))) is not None:
        if row is _FAILED:
            yield Broken("the XLSX data is truncated or damaged")
            return
        if not _trimmed(row):
            blanks += 1
            continue
        yield from [Bad("the row is empty")] * blanks
        blanks = 0
        yield _named(row, header, text)


def _named(row: Sequence[object], header: list[str], text: str | None) -> Row:
    cells = list(map(_cell, _trimmed(row)))
    if len(cells) > len(header):
        return Bad(f"the row has {plural(len(cells), 'column')} and the header {len(header)}")
    named = dict(zip(header, cells + [""] * (len(header) - len(cells)), strict=True))
    if text is not None:
        named[text] = as_string(named[text])
    return named


def _trimmed(row: Sequence[object]) -> Sequence[object]:
    full = [place for place, cell in enumerate(row, start=1) if cell not in (None, "")]
    return row[: full[-1]] if full else ()


def _cell(value: object) -> Any:
    found = "" if value is None else as_scalar(value)
    return found if isinstance(found, str | int | float) else str(found)  # a duration
