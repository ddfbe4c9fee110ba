"""The files of a survey: their names, delimiters, encodings and headers."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dptext.errors import OtherFormError
from dptext.text.csv_rows import DELIMITERS
from dptext.text.formats import DELIMITED, PACKED, Format, file_format
from dptext.text.forms import other_form
from dptext.text.inputs import Opener, beginning, detected, open_input
from dptext.text.lines import BadHeader, Chunk
from dptext.text.reading import MAX_CHARACTERS, require_layout
from dptext.text.records import Fields
from dptext.text.row_checks import Checks
from dptext.text.rows import file_chunks

_BEGINNING: Final = 2**16  # bytes


@dataclass(frozen=True, slots=True)
class SurveyPart:
    """A file whose rows are counted, and how they are read."""

    name: str  #: name of the file for messages; its format, delimiter and encoding follow (None if lines have several)
    format: Format
    delimiter: str | None
    encoding: str | None
    #: called with the needed columns, none of which stands for all: returns the rows, or their faults
    chunks: Callable[[Sequence[str]], Generator[Chunk, None, None]] = field(repr=False)
    saved: bool = False  #: whether it is a file of a data set that `datasets` saved, which is Arrow

    @property
    def kind(self) -> str:
        """What the file is, in words."""
        return "arrow, as datasets saves it" if self.saved else str(self.format)


def part_of(
    path: Path,
    *,
    format: Format | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    record: str | None = None,
    sheet: str | None = None,
    opener: Opener = open_input,
) -> SurveyPart:
    """Return a file for a survey, with its delimiter and encoding guessed where they are None.

    OtherFormError: the file is in another format than its name or `format` says.
    """
    kind = file_format(path, format)
    require_layout(path, kind, delimiter, encoding, record, sheet)
    encoding = encoding if kind in PACKED else encoding or detected(path, opener)
    if (said := other_form(path, kind, encoding, opener)) is not None:
        raise OtherFormError(said, str(path))
    delimiter = delimiter or ("\t" if kind is Format.TSV else None)
    if kind is Format.CSV and delimiter is None:
        first = beginning(path, encoding, _BEGINNING, opener)
        delimiter = max(DELIMITERS, key=lambda each: _columns(first, each))  # a comma if no delimiter gives columns
    limit = Checks(Fields(), MAX_CHARACTERS).max_line
    how: dict[str, Any] = {"max_line": limit, "delimiter": delimiter, "encoding": encoding, "record": record}
    how |= {"sheet": sheet, "opener": opener}
    return SurveyPart(str(path), kind, delimiter, encoding, lambda names: file_chunks(path, kind, names, **how))


def has_column(part: SurveyPart, name: str) -> bool:
    """Return whether a row of a file has a column. Nothing after the chunk of the first such row is read."""
    with closing(part.chunks([])) as chunks:
        return any(
            any(isinstance(row, Mapping) and name in row for row in chunk) if isinstance(chunk, list) else name in chunk
            for chunk in chunks
        )


def header_fault(part: SurveyPart, names: Sequence[str]) -> BadHeader | None:
    """Return the fault of a file's header if these columns are needed; None if it has each once."""
    with closing(part.chunks(names)) as chunks:
        rows = next(chunks, [])
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], BadHeader) else None


def doubled_names(part: SurveyPart, names: Sequence[str]) -> frozenset[str]:
    """Return the names, of these of a file's first row, that several columns share."""
    left, doubled = [*names] if part.format in DELIMITED | PACKED else [], set[str]()
    while left and (fault := header_fault(part, left)) is not None and fault.column in left:
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
