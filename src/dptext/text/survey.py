"""Survey the contents of a file before it is used, for `dptext check`.

Hashes tell which values are equal. While a file is read, its ids, some labels and a few different values of each column
are kept, and if the language of the texts is asked for, the beginnings of some values, until they are judged. The
numbers and the language are computed from private text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from dptext.errors import BrokenFileError, HeaderError
from dptext.text import formats
from dptext.text.formats import PACKED, Format, spelled, string_fault
from dptext.text.inputs import open_input
from dptext.text.labels import n_known
from dptext.text.languages import MOST_CHARACTERS, MainLanguage, Spaced, main_language
from dptext.text.lines import Bad, BadFile, Broken, Chunk, Needed, Row, are_names, missing_field, rows_of
from dptext.text.reading import EMPTY, MAX_CHARACTERS
from dptext.text.record_reader import REPEATED
from dptext.text.records import Fields, Record
from dptext.text.row_checks import Checks, key_of, needed
from dptext.text.sheets import Sheet, overview, several_sheets
from dptext.text.survey_parts import SurveyPart, doubled_names, header_fault, part_of
from dptext.text.surveyed import SHORT, Column, Fault, text_fault

_MOST_LABELS: Final = 50
_NO_FIELD: Final = "\0"  # the name of no field
OnRows = Callable[[int], object]  #: is called now and then, with the number of records that were read


def _lacking(name: str, record: int, found: Sequence[str]) -> Fault | None:
    return None if name in found else (record, missing_field(name, [name], found))


@dataclass(slots=True)
class Survey:
    """The contents of a file, or of many, in numbers and names."""

    path: Path  #: path of what was read
    parts: tuple[SurveyPart, ...]  #: the files
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
    _starts: list[int] = field(default_factory=list)  # number of records before each file
    _number: int = 0  # of the record that was read last
    _unread: Fault | None = None  # the first row that cannot be read

    @property
    def format(self) -> Format:
        """The format of the first file."""
        return self.parts[0].format

    @property
    def delimiter(self) -> str | None:
        """The delimiter of the files; None if they have none, or several."""
        return _shared([part.delimiter for part in self.parts if part.delimiter is not None])

    @property
    def encoding(self) -> str | None:
        """The encoding of the files; None if they have several, or none."""
        return _shared([part.encoding for part in self.parts if part.format not in PACKED])

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

    def read(self, part: SurveyPart, named: _NamedFields, labels: Sequence[str], on_rows: OnRows | None) -> None:
        """Count the rows of the next file. BrokenFileError: it cannot be read to its end."""
        before, header, label = self._number, list[str](), named.fields.label
        counts = lru_cache(_MOST_LABELS)(lambda own: n_known([own], labels))  # few labels come again and again
        self._starts.append(before)

        def told(chunk: Chunk) -> Iterable[Row]:
            if on_rows is not None and self._number:
                on_rows(self._number)
            return rows_of(chunk)

        with closing(part.chunks([])) as chunks:
            for self._number, row in enumerate(itertools.chain.from_iterable(map(told, chunks)), start=before + 1):
                if isinstance(row, Broken):
                    place = part.name if isinstance(row, BadFile) else f"{part.name}, record {self._number - before}"
                    raise BrokenFileError(f"{place}: {row.reason}.")
                reason = row.reason if isinstance(row, Bad) else named.fault(row)
                if reason is not None or isinstance(row, Bad):
                    self.bad += 1
                    self._unread = self._unread or (self._number, str(reason))
                    continue
                header = header or list(row)
                self.add(row, self._number, written=part.format is Format.XLSX)
                if label is not None and named.readable:
                    value = spelled(row.get(label))
                    own = value if isinstance(value, str) else None
                    self.labelled = (self.labelled or 0) + counts(own)
        self.doubled |= doubled_names(part, header)

    def place(self, record: int) -> str:
        """Return where the record with this number stands."""
        if len(self.parts) == 1:
            return f"record {record}"
        at = max(i for i, before in enumerate(self._starts) if before < record)
        return f"record {record - self._starts[at]} of {self.parts[at].name}"

    def add(self, row: Mapping[str, object], record: int, *, written: bool = False) -> None:
        """Count a row, which is the record with the number `record`. `written`: other values are turned into texts."""
        self.rows += 1
        self._first = self._first or (record, tuple(row))
        for name, value in row.items():
            if name not in self.columns:
                self.columns[name] = Column(fault=_lacking(name, *self._first))
            self.columns[name].add(name, value, record, written=written)
            if self._texts is not None and isinstance(value, str):
                if name not in self._texts:
                    self._texts[name] = Spaced()
                self._texts[name].add(value[:MOST_CHARACTERS])
        for name in self.columns.keys() - row if len(row) < len(self.columns) else ():
            self.columns[name].fault = self.columns[name].fault or _lacking(name, record, tuple(row))

    def judge(self) -> None:
        """Set the language of the texts, and forget their beginnings."""
        self.language = main_language((self._texts or {}).get(self.text or "", Spaced()).texts)
        self._texts = None

    def settle(self) -> None:
        """Move rows whose text is unfit from `rows` to `bad`, and name the first row that cannot be read."""
        column = self.columns.get(self.text or "")
        unfit: Fault | None = None
        if column is not None:
            lost, unfit = self.rows - column.rows + column.unfit, column.fault
        elif self.text is not None and self._first is not None:  # it was named
            lost, unfit = self.rows, _lacking(self.text, *self._first)
        else:
            lost = 0
        self.rows, self.bad = self.rows - lost, self.bad + lost
        faults = [each for each in (self._unread, unfit) if each is not None]
        if faults:
            number, reason = min(faults)
            self.fault = f"{self.place(number)}: {reason}"

    def proposed(self, without: Collection[str | None] = ()) -> list[str]:
        """Declarations of the columns beside the texts, for the owner alone: they name private values.

        The columns `without` are left out.
        """
        lines = (
            each.proposal.line(name, unique=each.unique and not each.proposal.is_measure)
            for name, each in self.columns.items()
            if self.named and name not in (self.text, *self.doubled, *without)
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
            names = column.largest <= 2 * SHORT and not column.nameless and not column.proposal.is_measure
            return "id" if names else ""
        if column.distinct is not None and 1 < column.distinct <= min(_MOST_LABELS, column.rows // 2):
            return "" if column.unlabelled or column.proposal.dates else "label"
        short = column.strings and column.mean <= SHORT and column.distinct != 1
        proposal = column.proposal
        return "author" if short and not (column.nameless or proposal.is_measure or proposal.is_number) else ""


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
    on_rows: OnRows | None = None,
) -> Survey:
    """Read a file once, and count its contents. Settings that are None are guessed.

    `on_rows` is told how many records were read. Labels are counted if `label` names their field. With `language` the
    language of the first texts is judged. If `id` or `label` names a field, a row whose id or label is unfit counts as
    a row that cannot be read, as for the readers of records.

    Memory grows with the number of different values of long or unique columns (about 60 bytes each). BrokenFileError:
    the file cannot be read to its end, or holds no record.
    """
    part = part_of(path, format=format, delimiter=delimiter, encoding=encoding, record=record, sheet=sheet)
    shown = sheet_of(path, sheet) if part.format is Format.XLSX else None
    return survey_parts(
        path, [part], text=text, record=record, id=id, label=label, labels=labels, language=language, sheet=shown,
        on_rows=on_rows,
    )  # fmt: skip


def survey_parts(
    path: Path,
    parts: Sequence[SurveyPart],
    *,
    text: str | None = None,
    record: str | None = None,
    id: str | None = None,
    label: str | None = None,
    labels: Sequence[str] = (),
    language: bool = False,
    sheet: Sheet | None = None,
    on_rows: OnRows | None = None,
) -> Survey:
    """Read files once, and count their contents together. Arguments and errors are those of `survey`.

    Of many files, one without rows may lack the columns.
    """
    found = Survey(path, tuple(parts), record, sheet=sheet, _texts={} if language else None)
    fields = Fields(text or _NO_FIELD, id, label)
    wanted = [name for name in (text, id, label) if name is not None]
    if wanted:
        _require_columns(found, wanted, fields)
    ids = set[str | bytes]()
    for part in found.parts:
        found.read(part, _NamedFields(fields, text is not None, part.format is Format.XLSX, _ids=ids), labels, on_rows)
    if not found.rows + found.bad:
        raise BrokenFileError(f"{path}, record 1: {EMPTY.reason}.")
    if label is not None:
        found.labelled = found.labelled or 0
    longest = {
        name: column.mean for name, column in found.columns.items() if column.strings and name not in (id, label)
    }
    found.text = text if text is not None else max(longest, key=longest.__getitem__, default=None)
    if found.text in found.doubled:
        _require_columns(found, [found.text], Fields(found.text))
    found.settle()
    if language:
        found.judge()
    if not found.columns or (text is not None and text not in found.columns):
        raise BrokenFileError(f"{path}: no record can be read ({found.fault}).")
    return found


def _shared(values: Sequence[str | None]) -> str | None:
    return values[0] if len({*values}) == 1 else None


def sheet_of(path: Path, named: str | None) -> Sheet | None:
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
            return missing_field(missing[0], needed(fields), row)
        values = [row[each] for each in others]
        plain = all(isinstance(each, str) and each and string_fault(each) is None for each in values)  # the usual case
        found = Record("", "") if plain else Checks(fields, MAX_CHARACTERS).record({**row, name: ""}, default_id="")
        if not isinstance(found, Record):
            return found.reason
        if fields.id is None:
            return None
        key = key_of(str(row[fields.id]) if plain else found.id)
        repeated = key in self._ids
        self._ids.add(key)
        return REPEATED.reason if repeated else None

    def _read(self, value: object) -> object:
        return formats.written(value) if self.written else value


def _require_columns(found: Survey, names: Sequence[str], fields: Fields) -> None:
    """Raise HeaderError if a header lacks a named column or has it several times, as readers of records do.

    The message names the option of the field that is lacking.
    """
    for part in found.parts:
        fault = header_fault(part, Needed(names, fields.asked))
        if fault is None or (len(found.parts) > 1 and not fault.rows):
            continue
        raise HeaderError(f"{part.name}, record 1: {fault.reason}. Nothing from here on can be read.")
