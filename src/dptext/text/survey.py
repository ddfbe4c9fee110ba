"""Survey the contents of a file before it is used, for `dptext check`.

No value is kept. Hashes tell which values are equal. If the language of the texts is asked for, the beginnings of the
first values are kept until they are judged. The numbers and the language are computed from private text.
"""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dptext.errors import BrokenFileError, HeaderError
from dptext.text import formats
from dptext.text.csv_rows import DELIMITERS
from dptext.text.formats import DELIMITED, PACKED, Format, file_format, spelled
from dptext.text.inputs import beginning, detected, open_input
from dptext.text.labels import n_known
from dptext.text.languages import MOST_CHARACTERS, MainLanguage, Spaced, main_language
from dptext.text.lines import Bad, BadFile, BadHeader, Broken, are_names, missing_field, remedy, rows_of
from dptext.text.reading import EMPTY, MAX_CHARACTERS, require_layout
from dptext.text.record_reader import REPEATED
from dptext.text.records import Fields, Record
from dptext.text.row_checks import Checks, key_of
from dptext.text.rows import file_chunks
from dptext.text.sheets import Sheet, overview, several_sheets
from dptext.text.surveyed import SHORT, Column, Fault, text_fault

_BEGINNING: Final = 2**16  # bytes
_MOST_LABELS: Final = 50
_NO_FIELD: Final = "\0"  # the name of no field


def _lacking(name: str, record: int, found: Sequence[str]) -> Fault | None:
    return None if name in found else (record, missing_field(name, [name], found))


@dataclass(slots=True)
class Survey:
    """The contents of a file, in numbers and names."""

    path: Path  #: path of the file; its format, delimiter and encoding follow (None if lines have several encodings)
    format: Format
    delimiter: str | None
    encoding: str | None
    record: str | None = None  #: the portion of plain text that is one record
    columns: dict[str, Column] = field(default_factory=dict)  #: columns by name
    doubled: frozenset[str] = frozenset()  #: names that several columns share; no option can name these
    rows: int = 0  #: the number of rows that can be read; `bad` counts those that cannot
    bad: int = 0
    fault: str = ""  #: the reason for the first row that cannot be read
    text: str | None = None  #: the column that seems to hold the texts
    sheet: Sheet | None = None  #: the sheet of a workbook that is read
    labelled: int | None = None  #: the number of rows with a label of the public set; None without a field of labels
    language: MainLanguage | None = None  #: the language of most texts; None if it is not sure, or was not asked for
    _texts: dict[str, Spaced] | None = field(default=None, repr=False)  # beginnings of values, while they are read
    _first: tuple[int, tuple[str, ...]] | None = None  # number and names of the first row

    @property
    def named(self) -> bool:
        """True if the names of the columns look like names, so that they may be shown."""
        return (
            are_names(list(self.columns))
            and not self.doubled
            and not any(column.named for column in self.columns.values())
        )

    @property
    def texts(self) -> Column:
        """The column of the texts. It is empty if the file has none."""
        return self.columns.get(self.text or "", Column())

    @property
    def duplicates(self) -> int:
        """The number of texts, without empty ones, that repeat an earlier text."""
        column = self.texts
        if column.distinct is None:
            return 0
        return column.rows - column.nulls - column.empties - (column.distinct - bool(column.empties))

    def add(self, row: Mapping[str, object], record: int) -> None:
        """Count a row, which is the record with the number `record`."""
        self.rows += 1
        self._first = self._first or (record, tuple(row))
        for name, value in row.items():
            if name not in self.columns:
                self.columns[name] = Column(fault=_lacking(name, *self._first))
            self.columns[name].add(name, value, record, written=self.format is Format.XLSX)
            if self._texts is not None and isinstance(value, str):
                self._texts.setdefault(name, Spaced()).add(value[:MOST_CHARACTERS])
        for name in self.columns.keys() - row if len(row) < len(self.columns) else ():
            self.columns[name].fault = self.columns[name].fault or _lacking(name, record, tuple(row))

    def judge(self) -> None:
        """Set the language of the texts, and forget their beginnings."""
        self.language = main_language((self._texts or {}).get(self.text or "", Spaced()).texts)
        self._texts = None

    def settle(self, unread: Fault | None) -> None:
        """Move rows whose text is unfit from `rows` to `bad`. `unread` is the first unreadable row, with the reason."""
        column = self.columns.get(self.text or "")
        unfit: Fault | None = None
        if column is not None:
            lost, unfit = self.rows - column.rows + column.unfit, column.fault
        elif self.text is not None and self._first is not None:  # it was named
            lost, unfit = self.rows, _lacking(self.text, *self._first)
        else:
            lost = 0
        self.rows, self.bad = self.rows - lost, self.bad + lost
        faults = [each for each in (unread, unfit) if each is not None]
        if faults:
            self.fault = "record {}: {}".format(*min(faults))

    def proposed(self) -> list[str]:
        """Declarations of the columns beside the texts, for the owner alone: they name private values."""
        lines = (
            each.proposal.line(name, unique=each.unique and not each.proposal.dates)
            for name, each in self.columns.items()
            if self.named and name != self.text and name not in self.doubled
        )
        return [line for line in lines if line]

    def could_be(self, name: str) -> str:
        """Return what a column may hold: texts, ids, labels or authors, or nothing of these."""
        column = self.columns[name]
        if name == self.text:
            return "text"
        if name in self.doubled:
            return "several columns"
        if column.unique:
            return "id" if column.largest <= 2 * SHORT and not column.nameless else ""
        if column.distinct is not None and 1 < column.distinct <= min(_MOST_LABELS, column.rows // 2):
            return "" if column.unlabelled else "label"
        short = column.strings and column.mean <= SHORT and column.distinct != 1
        return "author" if short and not column.nameless else ""


def survey(
    path: Path,
    *,
    format: Format | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    text: str | None = None,
    record: str | None = None,
    id: str | None = None,
    label: str | None = None,
    labels: Sequence[str] = (),
    sheet: str | None = None,
    language: bool = False,
) -> Survey:
    """Read a file once, and count its contents. Settings that are None are guessed.

    Labels are counted if `label` names their field. With `language` the language of the first texts is judged.
    If `id` or `label` names a field, a row whose id or label is unfit counts as a row that cannot be read, as for the
    readers of records.

    Memory grows with the number of different values of long or unique columns (about 60 bytes each). BrokenFileError:
    the file cannot be read to its end, or holds no record.
    """
    kind = file_format(path, format)
    require_layout(path, kind, delimiter, encoding, record, sheet)
    encoding = encoding if kind in PACKED else encoding or detected(path)
    delimiter = delimiter or ("\t" if kind is Format.TSV else None)
    if kind is Format.CSV and delimiter is None:
        first = beginning(path, encoding, _BEGINNING)
        delimiter = max(DELIMITERS, key=lambda each: _columns(first, each))  # a comma if no delimiter gives columns
    found = Survey(path, kind, delimiter, encoding, record, _texts={} if language else None)
    if kind is Format.XLSX:
        found.sheet = _sheet(path, sheet)
    limit = Checks(Fields(), MAX_CHARACTERS).max_line
    how: dict[str, Any] = {"max_line": limit, "delimiter": delimiter, "encoding": encoding, "record": record}
    how["sheet"] = sheet
    wanted = [name for name in (text, id, label) if name is not None]
    if wanted:
        _require_columns(found, text or _NO_FIELD, wanted, how)
    named = _NamedFields(Fields(text or _NO_FIELD, id, label), text is not None, kind is Format.XLSX)
    unread: Fault | None = None
    with closing(file_chunks(path, kind, [], **how)) as chunks:
        for number, row in enumerate(itertools.chain.from_iterable(map(rows_of, chunks)), start=1):
            if isinstance(row, Broken):
                place = path if isinstance(row, BadFile) else f"{path}, record {number}"
                raise BrokenFileError(f"{place}: {row.reason}.")
            if isinstance(row, Bad):
                found.bad += 1
                unread = unread or (number, row.reason)
                continue
            if (reason := named.fault(row)) is not None:
                found.bad += 1
                unread = unread or (number, reason)
                continue
            found.add(row, number)
            if label is not None and named.readable:
                value = spelled(row.get(label))
                found.labelled = (found.labelled or 0) + n_known([value if isinstance(value, str) else None], labels)
    if not found.rows + found.bad:
        raise BrokenFileError(f"{path}, record 1: {EMPTY.reason}.")
    if label is not None:
        found.labelled = found.labelled or 0
    longest = {
        name: column.mean for name, column in found.columns.items() if column.strings and name not in (id, label)
    }
    found.text = text if text is not None else max(longest, key=longest.__getitem__, default=None)
    found.doubled = _doubled(found, how)
    if found.text in found.doubled:
        _require_columns(found, found.text, [found.text], how)
    found.settle(unread)
    if language:
        found.judge()
    if not found.columns or (text is not None and text not in found.columns):
        raise BrokenFileError(f"{path}: no record can be read ({found.fault}).")
    return found


def _sheet(path: Path, named: str | None) -> Sheet | None:
    """Return the sheet to read. BrokenFileError: no sheet fits; the message names the sheets with cells.

    Only the owner of the file sees these names. None if the workbook cannot be read: the reader reports the reason.
    """
    with open_input(path) as raw:
        book = overview(raw)
    if book is None or (found := book.read(named)) is not None:
        return found if book is not None else None
    shown = ", ".join(f"{each.name!r}{' (hidden)' * each.hidden}" for each in book.filled)
    if named is not None:
        raise BrokenFileError(f"{path}: the workbook has no sheet {named!r}. These hold cells: {shown or 'none'}.")
    if not shown:
        return None
    hidden = sum(each.hidden for each in book.filled)
    raise BrokenFileError(f"{path}: {several_sheets(len(book.filled), hidden)}. These hold cells: {shown}.")


@dataclass(slots=True)
class _NamedFields:
    """The check of a row by the fields that were named. Its text is checked as a value of a column."""

    fields: Fields
    text: bool  #: True if the field of the texts was named; `written`: True if other values are turned into texts
    written: bool
    readable: bool = True  #: False if the last row cannot be a record; its text counts if the text field is named
    _ids: set[str | bytes] = field(default_factory=set)

    def fault(self, row: Mapping[str, object]) -> str | None:
        """Return the reason why a row, its text aside, cannot be a record. None if it can, or if no field is named."""
        fields = self.fields
        others = [name for name in (fields.id, fields.label) if name is not None]
        if not others:
            return None
        name = fields.text
        self.readable = not self.text or (name in row and text_fault(name, self._read(row[name])) is None)
        if not self.readable:
            return None
        if missing := [each for each in others if each not in row]:
            return missing_field(missing[0], [name, *others], row)
        found = Checks(fields, MAX_CHARACTERS).record({**row, name: ""}, default_id="")
        if not isinstance(found, Record):
            return found.reason
        if fields.id is None:
            return None
        key = key_of(found.id)
        repeated = key in self._ids
        self._ids.add(key)
        return REPEATED.reason if repeated else None

    def _read(self, value: object) -> object:
        return formats.written(value) if self.written else value


def _header_fault(found: Survey, names: Sequence[str], how: dict[str, Any]) -> BadHeader | None:
    with closing(file_chunks(found.path, found.format, names, **how)) as chunks:
        rows = next(chunks, [])
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], BadHeader) else None


def _require_columns(found: Survey, text: str, names: Sequence[str], how: dict[str, Any]) -> None:
    """Raise HeaderError if the header lacks a named column or has it several times, as readers of records do.

    `text` is the field of the texts: the message names the option of the field that is lacking.
    """
    if (fault := _header_fault(found, names, how)) is not None:
        reason = fault.reason
        if fault.column != text:
            reason = reason.replace(remedy(fault.column, (fault.column,)), remedy(fault.column, (text,)))
        raise HeaderError(f"{found.path}, record 1: {reason}. Nothing from here on can be read.")


def _doubled(found: Survey, how: dict[str, Any]) -> frozenset[str]:
    """Return the names that several columns share."""
    left, doubled = list(found.columns) if found.format in DELIMITED | PACKED else [], set[str]()
    while left and (fault := _header_fault(found, left, how)) is not None and fault.column in left:
        doubled.add(fault.column)
        left.remove(fault.column)
    return frozenset(doubled)


def _columns(text: str, delimiter: str) -> int:
    """Return the number of columns that the delimiter gives; 0 if it divides no header, or divides few rows alike.

    A single column is no sign of the delimiter. One row that is cut or too long is no sign against the delimiter.
    """
    try:
        sizes = [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error:  # NULs
        return 0
    found = Counter(sizes[:-1] or sizes)  # the last row may be cut
    (size, n), *_ = found.most_common(1) or [(0, 0)]
    alike = n >= (0.5 if sizes and sizes[0] == size else 0.9) * found.total()
    return size if size > 1 and alike else 0
