"""Rows of the sheet of an XLSX file that holds the records, or their faults.

Nothing that a workbook declares is believed: not the extent of a sheet, nor the order of its rows. What a reader of one
table cannot show is refused: cells of other sheets, hidden ones among them, merged cells, formulas without a value.
"""

import io
import itertools
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, time, timedelta
from typing import Any, Final
from xml.parsers import expat

from dptext._wording import plural
from dptext.errors import needing
from dptext.text.formats import written
from dptext.text.lines import Bad, BadHeader, Broken, Chunk, Row, no_column

_CHUNK: Final = 1024
_FAILED: Final[Any] = object()
_MOST_ROWS: Final = 2**20  # of a sheet of Excel
_MOST_COLUMNS: Final = 2**14
_MOST_WHOLE: Final = 2**28  # bytes of the texts that sheets share, which are read whole
_LEAST_LARGE: Final = 2**27  # bytes that any workbook may unpack to,
_MOST_TIMES: Final = 100  # or as many times its size, where that is more
_MOST_BETWEEN: Final = 2**27  # bytes of a row
_BLOCK: Final = 2**16
_DAMAGED: Final = Broken("the XLSX data is truncated or damaged")
_LARGE: Final = Broken("the XLSX data unpacks to more than is read: write CSV")
_NO_VALUE: Final = Bad("a formula has no value: open the workbook in a spreadsheet program and save it there")
_ERROR: Final = Bad("a cell holds an error of the spreadsheet")


def load_openpyxl() -> Any:
    """The module openpyxl, loaded when first needed."""
    with needing("XLSX", "files"):
        import openpyxl  # noqa: PLC0415
    return openpyxl


def xlsx_chunks(raw: io.BufferedReader, names: Sequence[str]) -> Iterator[Chunk]:
    """The rows of the only sheet with cells, streamed; nothing follows a `Broken`.

    A formula is its last value, and an empty cell the empty text, as in CSV. A text that the spreadsheet took for a
    number is read as that number is written.
    """
    openpyxl = load_openpyxl()
    if not raw.peek(1):
        return
    found = _quiet(lambda: _sheet(openpyxl, raw))
    if isinstance(found, Broken) or found is _FAILED:
        yield [found if isinstance(found, Broken) else Broken("the file is not XLSX, or it is damaged")]
        return
    sheet, n_rows = found
    rows = _rows(sheet, n_rows)
    first = next(rows, {})
    if isinstance(first, Broken):
        yield [first]
        return
    header = [written(_value(first.get(column))) for column in range(1, max(first, default=0) + 1)]
    for name in names:
        if header.count(name) != 1:
            yield [BadHeader(f"the sheet has {no_column(name, names, header)}", name, next(rows, None) is not None)]
            return
    records = _records(rows, header, names)
    yield from iter(lambda: list(itertools.islice(records, _CHUNK)), [])


def _quiet(call: Callable[[], Any]) -> Any:
    """The answer of openpyxl, without the warnings and messages in which it quotes cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        # zipfile, XML and openpyxl raise what they like, and it may quote a cell: none may pass with its message.
        except Exception:  # noqa: BLE001
            return _FAILED


def _sheet(openpyxl: Any, raw: io.BufferedReader) -> tuple[Any, int] | Broken:
    """The only sheet with cells, the first where none has any, and how many rows it has; or why there is none."""
    size = raw.seek(0, io.SEEK_END)
    with zipfile.ZipFile(raw) as archive:
        # Python reads no more of a member than this, whatever it unpacks to.
        parts = [(each.filename, each.file_size) for each in archive.infolist()]
    sheets = sum(size for name, size in parts if name.startswith("xl/worksheets/"))
    whole = sum(size for _, size in parts) - sheets
    if sheets > max(_LEAST_LARGE, _MOST_TIMES * size) or whole > _MOST_WHOLE:
        return _LARGE
    book = openpyxl.load_workbook(raw, read_only=True, data_only=True)
    full = [sheet for sheet in book.worksheets if _look(sheet, whole=False).cells]
    if len(full) > 1:
        hidden = sum(sheet.sheet_state != "visible" for sheet in full)
        also = f", {hidden} of them hidden" if hidden else ""
        return Broken(
            f"{len(full)} sheets of the workbook hold cells{also}, and the records are rows of one: delete the others, "
            "or save the one as CSV"
        )
    sheet = full[0] if full else book.worksheets[0]
    look = _look(sheet, whole=True)
    if look.merged:
        return Broken("cells of the sheet are merged, of which one alone holds their content: part them")
    return sheet, look.rows


class _Look:
    """What a sheet holds, by its XML alone: rows, merged cells, and whether any cell is filled."""

    def __init__(self) -> None:
        self.rows = 0
        self.merged = self.cells = False

    def start(self, name: str, _: object) -> None:
        match name.rpartition(" ")[2]:
            case "row":
                self.rows += 1
            case "mergeCell":
                self.merged = True
            case "v" | "is" | "f":
                self.cells = True


def _look(sheet: Any, *, whole: bool) -> _Look:
    """Look at a sheet to its end, or to its first cell that is filled."""
    found, parser = _Look(), expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = found.start
    with sheet._get_source() as source:  # noqa: SLF001  (openpyxl believes the extent that a sheet declares)
        while (whole or not found.cells) and (block := source.read(_BLOCK)):
            parser.Parse(block)
        if whole:
            parser.Parse(b"", True)  # noqa: FBT003  (by position: the XML ends here)
    return found


class _Bounded:
    """A stream of which so many bytes are read until `left` is set anew."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.left = _MOST_BETWEEN

    def read(self, size: int) -> bytes:
        block: bytes = self.source.read(size)
        self.left -= len(block)
        if self.left < 0:
            raise ValueError
        return block


_Cells = dict[int, Any]  # by their columns, from 1


def _rows(sheet: Any, n_rows: int) -> Iterator[_Cells | Broken]:
    """The filled cells of each row from the first to the last that is there; nothing follows a `Broken`."""
    with sheet._get_source() as source:  # noqa: SLF001
        bounded = _Bounded(source)
        parsed = _quiet(lambda: _parsed(sheet, bounded))
        last = 0
        for _ in range(n_rows):
            bounded.left = _MOST_BETWEEN
            found = _FAILED if parsed is _FAILED else _quiet(lambda: next(parsed))
            if found is _FAILED:
                yield _DAMAGED
                return
            number, cells = found
            filled = {cell["column"]: cell for cell in cells if cell["value"] not in (None, "") or cell["formula"]}
            n_filled = sum(cell["column"] in filled for cell in cells)
            if not last < number <= _MOST_ROWS or n_filled > len(filled) or max(filled, default=0) > _MOST_COLUMNS:
                yield _DAMAGED  # two cells, or rows, have one place
                return
            yield from itertools.repeat({}, number - last - 1)
            yield filled
            last = number


def _parsed(sheet: Any, source: _Bounded) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The rows of openpyxl's parser, whose cells say whether they hold a formula without a value."""
    from openpyxl.worksheet._reader import FORMULA_TAG, VALUE_TAG, WorkSheetParser  # noqa: PLC0415 (an extra)

    book = sheet.parent
    parser = WorkSheetParser(
        source,
        sheet._shared_strings,  # noqa: SLF001
        data_only=True,
        epoch=book.epoch,
        date_formats=book._date_formats,  # noqa: SLF001
        timedelta_formats=book._timedelta_formats,  # noqa: SLF001
    )
    plain = parser.parse_cell

    def parse_cell(element: Any) -> dict[str, Any]:
        cell: dict[str, Any] = plain(element)
        # A value that is the empty text is there, as text.
        there = cell["value"] is not None or (element.get("t") == "str" and element.find(VALUE_TAG) is not None)
        return {**cell, "formula": not there and element.find(FORMULA_TAG) is not None}

    parser.parse_cell = parse_cell
    return parser.parse()  # type: ignore[no-any-return]  # untyped


def _records(rows: Iterator[_Cells | Broken], header: list[str], names: Sequence[str]) -> Iterator[Row]:
    blanks = 0
    read = [column for column, name in enumerate(header, start=1) if not names or name in names]
    for row in rows:
        if isinstance(row, Broken):
            yield row
            return
        if not row:
            blanks += 1
            continue
        yield from itertools.repeat(Bad("the row is empty"), blanks)
        blanks = 0
        cells = [row[column] for column in read if column in row]
        if max(row) > len(header):
            yield Bad(f"the row has {plural(max(row), 'column')} and the header {len(header)}")
        elif any(cell["formula"] for cell in cells):
            yield _NO_VALUE
        elif any(cell["data_type"] == "e" for cell in cells):
            yield _ERROR
        else:
            named = {header[column - 1]: _value(row.get(column)) for column in read}
            yield {**named, names[0]: written(named[names[0]])} if names else named


def _value(cell: Any) -> Any:
    value = "" if cell is None or cell["value"] is None else cell["value"]
    # A duration is no value of a record in any format, as each has another spelling for it; as a text it may be read.
    return value if isinstance(value, str | int | float | date | time | timedelta) else str(value)
