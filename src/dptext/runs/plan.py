"""The public settings of a run from file to file, and what the run reveals besides the text."""

from __future__ import annotations  # the types of fields are read as text here

from dataclasses import dataclass, field
from typing import Any, Final

from dptext import _validate
from dptext.errors import ConfigError
from dptext.privacy.guarantee import RECORD_COUNT
from dptext.runs.certificate import READING, reading_revealed
from dptext.runs.streaming import BATCH_SIZE
from dptext.text.formats import Format
from dptext.text.reading import OnError
from dptext.text.records import Fields

_READING: Final = ("delimiter", "encoding", "record", "sheet", "empty_nulls", "strip_html")


@dataclass(frozen=True, slots=True)
class Plan:
    """Public settings of a run from file to file.

    Attributes:
        fields: names of the input fields; `reveals` lists the kept fields.
        input_format, output_format: formats of input and output; None infers the format from the file extension.
        on_error: treatment of a record that cannot be read.
        delta: the delta at which guarantees are stated.
        max_per_author: maximum of records per author, as in `privatize`.
        batch_size: records that are computed together; also the most records in a block of the output (a row group of
            Parquet, a member of gzip) and between two marks to resume from. A whole block is in memory.
        without_guarantee: say that a mechanism of basis NONE is meant, as in `privatize`.
        force: overwrite an existing output, throw away an unfinished run.
        resume: go on with an unfinished run.
        safe_csv: put an apostrophe before every text of a CSV output that a spreadsheet would take for a formula.
        delimiter, encoding, record, sheet, empty_nulls, strip_html: settings of the reader, as in `read_records`.
    """

    fields: Fields = field(default_factory=Fields)
    input_format: Format | None = None
    output_format: Format | None = None
    on_error: OnError = OnError.STOP
    delta: float = 0.0
    max_per_author: int | None = None
    batch_size: int = BATCH_SIZE
    without_guarantee: bool = False
    force: bool = False
    resume: bool = False
    safe_csv: bool = False
    delimiter: str | None = None
    encoding: str | None = None
    record: str | None = None
    sheet: str | None = None
    empty_nulls: bool = False
    strip_html: bool = False

    def __post_init__(self) -> None:
        _validate.count(batch_size=self.batch_size)
        _validate.probability(delta=self.delta)
        if self.max_per_author is not None:
            _validate.count(max_per_author=self.max_per_author)
            if self.fields.author is None:
                raise ConfigError("Expected the name of the author field with max_per_author: --author-field NAME.")

    @property
    def reading(self) -> dict[str, Any]:
        """The settings of the reader, as keywords of `read_batches`."""
        return {name: getattr(self, name) for name in _READING}

    @property
    def stated(self) -> tuple[str, ...]:
        """The changes to texts as they are read, by their names in `READING`, for the certificate."""
        return tuple(name for name in READING if self.reading[name])

    @property
    def reveals(self) -> tuple[str, ...]:
        """The facts and fields that leave besides the text."""
        skipped = ("the number of skipped records",) if self.on_error is OnError.SKIP else ()
        return (*reveals_of(self.fields), *skipped, *reading_revealed(self.stated))


def reveals_of(fields: Fields) -> tuple[str, ...]:
    """Return what leaves of rows with these fields besides the text: the record count, ids and kept fields."""
    ids = () if fields.id is None else (f"the ids (field {fields.id!r})",)
    return (RECORD_COUNT, *ids, *(f"the field {name!r}" for name in fields.keep))
