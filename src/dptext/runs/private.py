"""The private corpus of a synthesis: its reading, and errors that tell nothing about its records."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

from dptext.errors import BrokenFileError, DataError, HeaderError, OtherFormError
from dptext.privacy.names import seen_form
from dptext.runs.streaming import split
from dptext.synthesis.readings import Corpus
from dptext.text.batches import Batch
from dptext.text.reading import OnError, read_batches, read_records
from dptext.text.records import Fields, Record
from dptext.text.tables import Texts

Item = TypeVar("Item")
#: Texts that are read together: arrays of so many still fit into the processor's cache, and vectors that all texts are
#: compared with are fetched once for them.
READ_TOGETHER: Final = 1_024
_UNREADABLE: Final = (
    "The private corpus cannot be read to its end, so nothing is released. What is at fault is private here: "
    "`dptext check` shows it."
)
_OTHER_FORM: Final = (
    "A file of the private corpus is in another format than its name says, so nothing is released: `dptext check` "
    "shows which."
)
_NO_COLUMN: Final = (
    "The header of the private corpus lacks a column that was named, or has it several times, or the first record of "
    "a file lacks it, so nothing is released: `dptext check` shows columns. Unless named with --text-field on the "
    "command line, text= in Python, the column of the texts is 'text'. Columns of a table are named by --column."
)


@dataclass(frozen=True, slots=True, repr=False)
class Private:
    """The private corpus and the settings of its reader.

    Attributes:
        source: the texts, read from the beginning in each pass; `kept` holds an iterator or a pipe in memory.
        fields: names of the columns.
        reading: keywords of `read_batches` except `on_error`: records that cannot be read are always skipped.
    """

    source: Texts
    fields: Fields
    reading: dict[str, object]

    def batches(self) -> Generator[Batch, None, None]:
        """Yield the records in batches of a public size. No error tells a record or the number of records."""
        return untold(split(map(_named, self.found()), READ_TOGETHER), self.fields)

    def found(self) -> Iterator[Batch]:
        """Return an iterator of the readable records, in batches. A file may be empty."""
        reading: dict[str, Any] = {**self.reading, "on_error": OnError.SKIP, "first_fields": True}
        if isinstance(self.source, str | PathLike):
            return read_batches(self.source, self.fields, **reading, allow_empty=True)
        records = read_records(self.source, self.fields, **reading)
        return (Batch.of([record]) for record in records)

    def check(self) -> None:
        """Read the header and the first records of a file, before costly work begins. A pipe is not read.

        ConfigError, MissingExtraError: the file cannot be read with these settings. BrokenFileError: the file lacks a
        named column.
        """
        if not isinstance(self.source, str | PathLike):
            return
        if Path(self.source).is_fifo():
            self.found()
            return
        with closing(self.batches()) as found:
            next(found, None)

    @property
    def forms(self) -> tuple[str, ...]:
        """The formats of the files of a corpus of several formats; empty for one file."""
        return ()

    @property
    def corpus(self) -> Corpus:
        """The records as a corpus, which can be read more than once."""
        return self.batches

    @property
    def nothing(self) -> Corpus:
        """An empty corpus from the same reader, for a rehearsal."""
        return _nothing

    @property
    def of_records(self) -> bool:
        """True if the source is a list or tuple of `Record`, whose labels and authors need no column names."""
        source = self.source
        return isinstance(source, list | tuple) and all(isinstance(each, Record) for each in source[:1])

    def kept(self) -> Private:
        """Read the corpus to its end and return it as readable more than once. Errors so come before the charge."""
        own = replace(self, source=list(self.source)) if isinstance(self.source, Iterator) else self
        found = untold(own.found(), own.fields)
        if isinstance(own.source, str | PathLike) and Path(own.source).is_fifo():
            return replace(own, source=[record for batch in found for record in batch], reading={})  # as they were read
        for _ in found:
            pass
        return own


def _nothing() -> Generator[Batch, None, None]:
    yield from ()


def untold(found: Iterable[Item], fields: Fields | None = None) -> Generator[Item, None, None]:
    """Yield the items; replace a DataError by an error that tells neither the place nor the number of records.

    An error about the format of a file names formats alone, not the file.

    An error of a header names all of the `fields`, which the caller named, and not the one that is lacking: which keys
    the first record has is private.
    """
    fault: DataError | None = None
    try:
        yield from found
    except OtherFormError as error:
        fault = OtherFormError(f"{_OTHER_FORM} {error.said}")
    except HeaderError:
        fault = HeaderError(_NO_COLUMN if fields is None else f"{_NO_COLUMN} {_named_by(fields)}")
    except DataError:
        fault = BrokenFileError(_UNREADABLE)
    if fault is not None:
        raise fault  # outside of `except`, so that no error with parts of a record is chained to it


def _named_by(fields: Fields) -> str:
    """Return a sentence with the columns that the caller named, and how."""
    named = ", ".join(f"{name!r} by {options}" for name, (options, _) in fields.asked.items())
    arguments = ", ".join(argument for _, argument in fields.asked.values())
    return f"Named were {named} on the command line, {arguments} in Python."


def _named(batch: Batch) -> Batch:
    """Return the batch with author names in the form that is compared, as they look; None for an invisible name."""
    authors = [seen_form(name or "") or None for name in batch.authors]
    return replace(batch, authors=authors)
