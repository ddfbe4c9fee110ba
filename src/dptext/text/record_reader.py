"""Rows into records, and faults into errors or skips: the numbers of records, and the ids that were used before.

No error of this module holds a text, id or label; see `dptext.text.reading`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from dptext.errors import BrokenFileError, DataError, HeaderError, OtherFormError
from dptext.text.batches import Batch
from dptext.text.inputs import advice_on_encoding
from dptext.text.lines import LONE_RETURNS, Bad, BadFile, BadHeader, Broken, Chunk, OtherFile, missing_field, rows_of
from dptext.text.packed_rows import kinds
from dptext.text.records import Record
from dptext.text.row_checks import Checks, Ids, batch_of, key_of, needed

_NO_MORE: Final = "Nothing from here on can be read."
_ROWS: Final = 1024  # in a part that is checked in columns
_CHARACTERS: Final = 2**20
REPEATED: Final = Bad("its id was used before")
#: The place in a batch before which something is refused, the number of records to take out there (1 for a repeated id,
#: else 0), and the reason.
_Fault = tuple[int, int, Bad | Broken]


@dataclass(slots=True)
class RecordReader:
    """The reader of the rows of one source.

    Attributes:
        name: name of the source in errors.
        check: the check of each row.
        stops: whether a fault raises DataError; otherwise `on_skip` gets its number and reason, and reading goes on.
        on_skip: called with the number and the reason of a skipped record.
        advice: the end of the message of a DataError.
        read: number of rows that were read.
        good: number of records among them.
        unnamed: the file, if its encoding was not named.
        first_fields: whether a first row that lacks a field raises HeaderError.
    """

    name: str
    check: Checks
    stops: bool
    on_skip: Callable[[int, str], None] | None
    advice: str
    read: int = 0
    good: int = 0
    unnamed: Path | None = None
    first_fields: bool = False

    def batches(self, chunks: Iterable[Chunk]) -> Generator[Batch, None, None]:
        """Yield the records of the chunks. The records before a fault are a batch of their own."""
        fields, most = self.check.fields, self.check.max_characters
        ids = Ids()
        for chunk in chunks:
            faults: list[_Fault] = []
            whole: Sequence[bool] | None = None
            batch = batch_of(chunk, fields, first=self.good, max_characters=most)
            self.first_fields &= batch is None  # a whole batch has all fields
            if batch is not None and fields.id is not None:
                whole = _which_whole(_column(chunk, fields.id))
            if batch is None:
                records: list[Record] = []
                values: list[object] = []
                for row in rows_of(chunk):
                    self._look_at(row)
                    found = self.check.record(row, default_id=str(self.good + len(records)))
                    if isinstance(found, Record):
                        records.append(found)
                        values += [row[fields.id]] if fields.id is not None and isinstance(row, Mapping) else []
                    else:
                        faults.append((len(records), 0, found))
                batch, whole = Batch.of(records), _which_whole(values)
            batch = batch if whole is None else replace(batch, whole=whole)
            if fields.id is not None and len(batch):
                faults += [(place, 1, REPEATED) for place in np.flatnonzero(~ids.fresh(batch.ids)).tolist()]
                faults.sort(key=itemgetter(0, 1))
            start = 0
            for place, taken, fault in faults:
                if start < place:
                    yield self._counted(batch[start:place])
                start = place + taken
                self.read += 1
                self._refuse(fault)
            if start < len(batch):
                yield self._counted(batch[start:] if start else batch)

    def records(self, rows: Iterable[object]) -> Generator[Record, None, None]:
        """Yield the records of the rows, one at a time."""
        return self._records(rows, set())

    def row_batches(self, rows: Sequence[object]) -> Generator[Batch, None, None]:
        """Yield the records of rows in memory. Parts that are sound are checked in columns, others row by row."""
        seen = set[str | bytes]()
        for part in _parts(rows, needed(self.check.fields)):
            batch = batch_of(part, self.check.fields, first=self.good, max_characters=self.check.max_characters)
            keys = set[str | bytes]() if batch is None or self.check.fields.id is None else set(map(key_of, batch.ids))
            if batch is None or (self.check.fields.id is not None and len(keys) < len(batch)) or keys & seen:
                yield from (Batch.of([record]) for record in self._records(part, seen))
                continue
            seen |= keys
            self.first_fields = False  # a whole batch has all fields
            yield self._counted(batch)

    def _records(self, rows: Iterable[object], seen: set[str | bytes]) -> Generator[Record, None, None]:
        """Yield the records of the rows. `seen` has the keys of the ids before them, and gets theirs."""
        for row in rows:
            self.read += 1
            self._look_at(row)
            found = self.check.record(row, default_id=str(self.good))
            if isinstance(found, Record) and self.check.fields.id is not None:
                key = key_of(found.id)
                found = REPEATED if key in seen else found
                seen.add(key)
            if isinstance(found, Record):
                self.good += 1
                yield found
            else:
                self._refuse(found)

    def _look_at(self, row: object) -> None:
        """Refuse the first row with names if it lacks a field and `first_fields` is set."""
        if not self.first_fields or not isinstance(row, Mapping):
            return
        self.first_fields = False
        names = needed(self.check.fields)
        missing = next((name for name in names if name not in row), None)
        if missing is not None:
            raise HeaderError(f"{self.name}, the first record: {missing_field(missing, names, row)}.")

    def _counted(self, batch: Batch) -> Batch:
        self.read += len(batch)
        self.good += len(batch)
        return batch

    def _refuse(self, fault: Bad | Broken) -> None:
        place = self.name if isinstance(fault, BadFile) else f"{self.name}, record {self.read}"
        if isinstance(fault, OtherFile):
            raise OtherFormError(f"{fault.reason}. {_NO_MORE}", place)
        where = f"{place}: {fault.reason}."
        # UTF-16 that is read as UTF-8 has NULs, and quotes that are not closed.
        odd = isinstance(fault, Broken) or "UTF-8" in fault.reason or "NUL" in fault.reason
        odd = odd and LONE_RETURNS not in fault.reason
        if self.unnamed is not None and odd and (isinstance(fault, Broken) or self.stops):
            where += advice_on_encoding(self.unnamed)
        if isinstance(fault, Broken):
            kind = HeaderError if isinstance(fault, BadHeader) else BrokenFileError
            raise kind(f"{where} {_NO_MORE}")
        if self.stops:
            raise DataError(f"{where} {self.advice}")
        if self.on_skip is not None:
            self.on_skip(self.read, fault.reason)


def _parts(rows: Sequence[Any], names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield rows in parts of at most `_ROWS`. A row whose named strings bring a part to `_CHARACTERS` ends it."""
    part, characters = list[Any](), 0
    for row in rows:
        part.append(row)
        values = map(row.get, names) if type(row) is dict else ()
        characters += sum(len(value) for value in values if isinstance(value, str))
        if len(part) == _ROWS or characters >= _CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part


def _column(chunk: Chunk, name: str) -> Sequence[object]:
    """Return the values of one column of a chunk without faults."""
    if isinstance(chunk, dict):
        return chunk[name]
    return [row[name] for row in chunk if isinstance(row, Mapping)]


def _which_whole(ids: Sequence[object]) -> Sequence[bool] | None:
    """Mark the ids that are numbers. None if no id is a number."""
    types = kinds(ids)
    return [isinstance(each, int | float) for each in ids] if types & {int, float} else None
