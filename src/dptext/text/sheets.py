"""Rows of the sheet of an XLSX file that holds the records, or their faults.

Declarations of a workbook, such as the extent of a sheet or the order of its rows, are not trusted. Contents that do
not fit one table are refused: several sheets with cells if none is named, merged cells, formulas without a value.
Hidden or filtered rows, columns and sheets are read like others; `overview` counts them for the owner.
"""

import contextlib
import io
import itertools
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any, Final
from xml.etree import ElementTree as ET
from xml.parsers import expat

from dptext._wording import plural
from dptext.errors import needing
from dptext.text.formats import written
from dptext.text.lines import Bad, BadFile, BadHeader, Broken, Chunk, Row, headless, no_column

_CHUNK: Final = 1024
_FAILED: Final[Any] = object()
_MOST_ROWS: Final = 2**20  # most rows of a sheet of Excel
_MOST_COLUMNS: Final = 2**14
SHARED_BYTES: Final = 2**28  # most bytes of the texts that sheets share, which are read whole
UNPACKED_BYTES: Final = 2**27  # bytes that any workbook may unpack to
UNPACKED_TIMES: Final = 100  # a workbook may also unpack to this many times its size, if this is more
MOST_ROW_BYTES: Final = 2**27  # most bytes of a row
_BLOCK: Final = 2**16
_TRUE: Final = ("1", "true")
_ESCAPE: Final = re.compile("_x([0-9A-Fa-f]{4})_")
_SHOWN: Final = "`dptext check` shows their names"
_DAMAGED: Final = Broken("the XLSX data is truncated or damaged")
_LARGE: Final = Broken("the XLSX data unpacks to more than is read: write CSV")
_NO_VALUE: Final = Bad("a formula has no value: open the workbook in a spreadsheet program and save it there")
_ERROR: Final = Bad("a cell holds an error of the spreadsheet")
_ODD: Final = Bad("a cell holds another value than its type says")


def load_openpyxl() -> Any:
    """Return the module openpyxl, which is loaded when first needed."""
    with needing("XLSX", "dptext[files]"):
        import openpyxl.reader.excel  # noqa: PLC0415
    return openpyxl


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of a workbook: its name, which may be private, whether it is hidden, and whether it holds cells.

    `hidden_rows` and `hidden_columns` count the hidden rows and columns that have cells.
    """

    name: str
    hidden: bool
    filled: bool
    hidden_rows: int
    hidden_columns: int


@dataclass(frozen=True, slots=True)
class Workbook:
    """The sheets of a workbook, without sheets of charts."""

    sheets: tuple[Sheet, ...]

    @property
    def filled(self) -> list[Sheet]:
        """The sheets that hold cells."""
        return [each for each in self.sheets if each.filled]

    def read(self, named: str | None) -> Sheet | None:
        """Return the sheet `named`, or else the only sheet with cells. None if there is no such sheet."""
        found = self.filled if named is None else [each for each in self.sheets if each.name == named]
        return found[0] if len(found) == 1 else None


def xlsx_chunks(raw: io.BufferedReader, names: Sequence[str], sheet: str | None = None) -> Iterator[Chunk]:
    """Stream the rows of the sheet named `sheet`, or of the only sheet with cells. Nothing follows a `Broken`.

    A formula is read as its last value, an empty cell as the empty text, as in CSV. A text that the spreadsheet took
    for a number is read as this number is written.
    """
    openpyxl = load_openpyxl()
    if not raw.peek(1):
        yield from headless(names)
        return
    found = _quiet(lambda: _sheet(openpyxl, raw, sheet))
    if isinstance(found, Broken) or found is _FAILED:
        yield [found if isinstance(found, Broken) else Broken("the file is not XLSX, or it is damaged")]
        return
    rows = _rows(*found)
    first = next(rows, {})
    if isinstance(first, Broken):
        yield [first]
        return
    header = [_named(first.get(column)) for column in range(1, max(first, default=0) + 1)]
    for name in names:
        if header.count(name) != 1:
            yield [BadHeader(f"the sheet has {no_column(name, names, header)}", name, next(rows, None) is not None)]
            return
    records = _records(rows, header, names)
    yield from iter(lambda: list(itertools.islice(records, _CHUNK)), [])


def _quiet(call: Callable[[], Any]) -> Any:
    """Return the result of a call of openpyxl. Its warnings and messages, which quote cells, are suppressed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        # zipfile, XML and openpyxl raise many kinds of errors, whose messages may quote a cell. No message may pass.
        except Exception:  # noqa: BLE001
            return _FAILED


def overview(raw: io.BufferedReader) -> Workbook | None:
    """Return the sheets of a workbook, for its owner. None if the workbook cannot be read."""
    openpyxl = load_openpyxl()

    def look() -> Workbook | None:
        book = _book(openpyxl, raw)
        if isinstance(book, Broken):
            return None
        looks = [(each, _look(each, whole=True)) for each in book.worksheets]
        sheets = [
            Sheet(str(each.title), each.sheet_state != "visible", found.cells, found.hidden, len(found.hidden_columns))
            for each, found in looks
        ]
        return Workbook(tuple(sheets))

    found = _quiet(look) if raw.peek(1) else None
    return found if isinstance(found, Workbook) else None


def _book(openpyxl: Any, raw: io.BufferedReader) -> Any:
    """Return the workbook, with only its sheets, styles and shared texts read, or the reason why it is not read."""
    size = raw.seek(0, io.SEEK_END)
    with zipfile.ZipFile(raw) as archive:
        # Python reads no more of a member than its declared size, whatever the member unpacks to.
        parts = [(each.filename, each.file_size) for each in archive.infolist()]
    sheets = sum(size for name, size in parts if name.startswith("xl/worksheets/"))
    whole = sum(size for _, size in parts) - sheets
    if sheets > max(UNPACKED_BYTES, UNPACKED_TIMES * size) or whole > SHARED_BYTES:
        return _LARGE
    reader = openpyxl.reader.excel.ExcelReader(raw, read_only=True, data_only=True, keep_links=False)
    reader.read_chartsheet = lambda *_: None  # a chart sheet has no cells, and without a chart openpyxl fails
    plain = reader.read_workbook

    def read_workbook() -> None:
        plain()
        reader.parser.assign_names = lambda: None  # of ranges, by the places of sheets, those of charts among them

    reader.read_workbook = read_workbook
    reader.read()
    return reader.wb


def _sheet(openpyxl: Any, raw: io.BufferedReader, named: str | None) -> tuple[Any, int] | Broken:
    """Return the sheet of this name, or the only sheet with cells, and its number of rows; or the reason for neither.

    If no name is given and no sheet has cells, the first sheet is returned.
    """
    book = _book(openpyxl, raw)
    if isinstance(book, Broken):
        return book
    if named is not None:
        full = [sheet for sheet in book.worksheets if sheet.title == named]
        if not full:
            return BadFile(f"the workbook has no sheet of the name that was given ({_SHOWN})")
    else:
        full = [sheet for sheet in book.worksheets if _look(sheet, whole=False).cells]
    if len(full) > 1:
        hidden = sum(sheet.sheet_state != "visible" for sheet in full)
        return BadFile(f"{several_sheets(len(full), hidden)} ({_SHOWN})")
    if not book.worksheets:
        return BadFile("the workbook has no sheet with rows")
    sheet = full[0] if full else book.worksheets[0]
    look = _look(sheet, whole=True)
    if look.merged:
        return Broken("cells of the sheet are merged, of which one alone holds their content: part them")
    return sheet, look.rows


def several_sheets(n: int, n_hidden: int) -> str:
    """Return the message that several sheets may hold the records, with what to do."""
    also = f", {n_hidden} of them hidden" if n_hidden else ""
    return (
        f"{n} sheets of the workbook hold cells{also}, and the records are rows of one: name it with --sheet NAME on "
        "the command line, sheet= in Python, or delete the others"
    )


class _Look:
    """The contents of a sheet by its XML alone: rows, merged cells, filled cells, and hidden rows and columns."""

    def __init__(self) -> None:
        self.rows = self.hidden = self._place = 0
        self.merged = self.cells = self._in_hidden = False
        self.hidden_columns = set[int]()
        self._ranges: list[range] = []  # hidden columns, which precede the rows in the XML

    def start(self, name: str, values: Mapping[str, str]) -> None:
        match name.rpartition(" ")[2]:
            case "row":
                self.rows += 1
                self._place, self._in_hidden = 0, values.get("hidden") in _TRUE
            case "c" if self._ranges:
                self._place = _column(values["r"]) if "r" in values else self._place + 1
            case "col" if values.get("hidden") in _TRUE:
                self._ranges.append(range(int(values["min"]), int(values["max"]) + 1))
            case "mergeCell":
                self.merged = True
            case "v" | "is" | "f":
                self.cells = True
                self.hidden += self._in_hidden
                self._in_hidden = False  # each row is counted once
                if any(self._place in each for each in self._ranges):
                    self.hidden_columns.add(self._place)


def _column(place: str) -> int:
    """Return the number of the column of a cell such as AB7. Columns count from 1."""
    number = 0
    for letter in place.rstrip("0123456789"):
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _look(sheet: Any, *, whole: bool) -> _Look:
    """Parse a sheet, to its end if `whole`, else up to a block with a filled cell."""
    found, parser = _Look(), expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = found.start
    with sheet._get_source() as source:  # noqa: SLF001  (openpyxl believes the extent that a sheet declares)
        while (whole or not found.cells) and (block := source.read(_BLOCK)):
            parser.Parse(block)
        if whole:
            parser.Parse(b"", True)  # noqa: FBT003  (by position: the XML ends here)
    return found


class _Bounded:
    """A stream that gives at most `left` bytes until `left` is reset. ValueError: more bytes are read."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.left = MOST_ROW_BYTES

    def read(self, size: int) -> bytes:
        block: bytes = self.source.read(size)
        self.left -= len(block)
        if self.left < 0:
            raise ValueError
        return block


_Cells = dict[int, Any]  # cells by column, from 1


def _rows(sheet: Any, n_rows: int) -> Iterator[_Cells | Broken]:
    """Yield the filled cells of each row from the first to the last existing row. Nothing follows a `Broken`."""
    with sheet._get_source() as source:  # noqa: SLF001
        bounded = _Bounded(source)
        parsed = _quiet(lambda: _parsed(sheet, bounded))
        last = 0
        for _ in range(n_rows):
            bounded.left = MOST_ROW_BYTES
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
    """Yield the rows of openpyxl's parser. Cells also say whether they hold a formula without a value."""
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
        column, cell = parser.col_counter, None
        if element.get("t") != "s" or "-" not in element.findtext(VALUE_TAG, ""):  # Python would count from the end
            with contextlib.suppress(Exception):  # openpyxl raises many kinds for a value that is not of its type
                cell = plain(element)
        if cell is None:
            parser.col_counter = column
            place = {"r": where} if (where := element.get("r")) else {}
            return {**plain(ET.Element(element.tag, place)), "value": _ODD, "formula": False}
        # An empty text is a value, too.
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
        if max(row) > len(header):
            yield Bad(f"the row has {plural(max(row), 'column')} and the header {len(header)}")
        else:
            named = {header[column - 1]: _read(row.get(column)) for column in read}
            if names and not isinstance(text := named[names[0]], Bad):
                named[names[0]] = written(text)
            yield named


def _read(cell: Any) -> Any:
    """Return the value of a cell of a row, or its fault."""
    if cell is not None and cell["formula"]:
        return _NO_VALUE
    if cell is not None and cell["data_type"] == "e":
        return _ERROR
    return _value(cell)


def _named(cell: Any) -> str:
    """Return the name in a cell of the header; empty if it holds none."""
    value = _value(cell)
    return "" if isinstance(value, Bad) else written(value)


def _value(cell: Any) -> Any:
    value = "" if cell is None or cell["value"] is None else cell["value"]
    if isinstance(value, str):
        return _unescaped(value)
    # A duration is no scalar of a record, because each format spells it differently. It may be read as a text.
    return value if isinstance(value, int | float | date | time | timedelta | Bad) else str(value)


def _unescaped(text: str) -> str:
    """Decode a text of Excel, which writes characters that XML cannot hold, and look-alikes of the code, as _x000D_."""
    if "_x" not in text:
        return text
    found = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # a pair is one character
