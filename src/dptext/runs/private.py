"""The private corpus of a synthesis: how it is read, and what no error says of it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

from dptext.errors import BrokenFileError, DataError, HeaderError
from dptext.privacy.names import seen_form
from dptext.runs.apart import NO_POOL, Found, Pool
from dptext.runs.streaming import BATCH_SIZE, split
from dptext.synthesis.space import Corpus
from dptext.text.batches import Batch
from dptext.text.reading import OnError, read_batches, read_records
from dptext.text.records import Fields, Record
from dptext.text.tables import Texts

Item = TypeVar("Item")
_UNREADABLE: Final = (
    "The private corpus cannot be read to its end, so nothing is released. What is at fault is private here: "
    "`dptext check` shows it."
)
_NO_COLUMN: Final = (
    "The header of the private corpus lacks a column that was named, or has it several times, or its first record "
    "lacks it, so nothing is released: `dptext check` shows its columns."
)


@dataclass(frozen=True, slots=True, repr=False)
class Private:
    """The private corpus and how it is read.

    Attributes:
        source: read from its beginning at each pass; what can be read once only is kept in memory.
        reading: keywords of `read_batches`, but for what is done with records that cannot be read: they add nothing.
    """

    source: Texts
    fields: Fields
    reading: dict[str, object]

    def batches(self) -> Generator[Batch, None, None]:
        """The records, in batches of a public size. No error says which record, or how many there are."""
        return untold(split(map(_named, self.found()), BATCH_SIZE))

    def found(self) -> Iterator[Batch]:
        """The records that can be read, of a file that may be empty."""
        reading: dict[str, Any] = {**self.reading, "on_error": OnError.SKIP, "first_fields": True}
        if isinstance(self.source, str | PathLike):
            return read_batches(self.source, self.fields, **reading, allow_empty=True)
        records = read_records(self.source, self.fields, **reading)
        return (Batch.of([record]) for record in records)

    def check(self) -> None:
        """Read the header and the first records of a file, before work is done for it; not of a pipe.

        ConfigError, MissingExtraError: it cannot be read as asked. BrokenFileError: it lacks a column that was named.
        """
        if not isinstance(self.source, str | PathLike):
            return
        if Path(self.source).is_fifo():
            self.found()
            return
        with closing(self.batches()) as found:
            next(found, None)

    @property
    def corpus(self) -> Corpus:
        """The records, to be read more than once."""
        return self.batches

    @property
    def nothing(self) -> Corpus:
        """No record, given by whoever reads the corpus."""
        return _nothing

    @property
    def of_records(self) -> bool:
        """Whether labels and authors stand in records, so that no column needs to be named."""
        source = self.source
        return isinstance(source, list | tuple) and all(isinstance(each, Record) for each in source[:1])

    def kept(self, pool: Pool = NO_POOL) -> Private:
        """The same, readable more than once, after it was read to its end: errors come before anything is paid.

        ConfigError: it has the texts of the pool, and no others.
        """
        own = replace(self, source=list(self.source)) if isinstance(self.source, Iterator) else self
        once = isinstance(own.source, str | PathLike) and Path(own.source).is_fifo()
        found, records = Found(pool), list[Record]()
        for batch in own.batches():
            found.add(batch.texts)
            if once:
                records += batch
        pool.refuse([found])
        return replace(own, source=records) if once else own


def _nothing() -> Generator[Batch, None, None]:
    yield from ()


def untold(found: Iterable[Item]) -> Generator[Item, None, None]:
    """The same; an error of a file becomes one that does not say where, or of how many records."""
    fault: DataError | None = None
    try:
        yield from found
    except HeaderError:
        fault = HeaderError(_NO_COLUMN)
    except DataError:
        fault = BrokenFileError(_UNREADABLE)
    if fault is not None:
        raise fault  # outside of `except`: nothing of the record is chained to it


def _named(batch: Batch) -> Batch:
    """Authors are compared as they look; what shows nothing names nobody."""
    authors = [seen_form(name or "") or None for name in batch.authors]
    return replace(batch, authors=authors)
