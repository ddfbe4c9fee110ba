"""Stream private texts from files and data in memory. Few records are in memory at a time, whatever the file's size.

    records = read_records("private.jsonl.gz", Fields(text="review"))

No error of this module holds texts, ids or labels of a file, or is chained to an exception that does. Readers therefore
return faults as values, and raise outside of ``except``. Errors show names of columns if each name is one short word
(`dptext.text.lines`). The first line of a CSV file without a header is shown, too, if its values are such words.
"""

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from dptext._validate import count, one_of
from dptext.errors import BrokenFileError, ConfigError, DataError, OtherFormError
from dptext.text.batches import Batch
from dptext.text.formats import DELIMITED, PACKED, Format, detect_format, file_format
from dptext.text.forms import other_form
from dptext.text.inputs import Opener, file_error, is_utf8, open_input
from dptext.text.lines import NO_RECORDS, BadHeader, Broken, Chunk
from dptext.text.markup import without_tags
from dptext.text.packed_rows import load_pyarrow
from dptext.text.plain_text import Portion
from dptext.text.record_reader import RecordReader
from dptext.text.records import TEXT_FIELD, Fields, Record
from dptext.text.row_checks import Checks, needed
from dptext.text.rows import file_chunks
from dptext.text.sheets import load_openpyxl
from dptext.text.tables import EXPECTED, Texts, table_rows

MAX_CHARACTERS: Final = 5_000_000
_LONGEST: Final = 4096  # characters of a path


class OnError(StrEnum):
    """What to do with a record that cannot be read."""

    STOP = "stop"
    SKIP = "skip"


_ALL_FIELDS: Final = Fields()
EMPTY: Final = Broken(NO_RECORDS)


def read_records(
    source: Texts,
    fields: Fields = _ALL_FIELDS,
    *,
    format: Format | None = None,
    on_error: OnError = OnError.STOP,
    on_skip: Callable[[int, str], None] | None = None,
    max_characters: int = MAX_CHARACTERS,
    empty_nulls: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    record: str | None = None,
    sheet: str | None = None,
    strip_html: bool = False,
    advice: str = "Repair it or take it out.",
    first_fields: bool = False,
) -> Generator[Record, None, None]:
    """Stream the records of a file, a data frame, a Dataset, or any iterable of rows or texts, in order.

    Files are read strictly, as UTF-8 unless another encoding is named; a byte order mark at the start is dropped. At
    most 256 KiB of lines are in memory at a time (1,024 rows of XLSX; 8,192 rows or about 1 MiB of Parquet), and more
    if one line is longer, or if long values of Parquet repeat. A line too long for a text of ``max_characters`` is not
    read whole.

    - JSON Lines: one object a line. Empty lines are allowed at the end only.
    - JSON: one array of objects, read whole (256 MiB at most).
    - CSV: comma (tab in TSV) or `delimiter`, double quotes, a header; every row has the columns of the header. Empty
      lines as in JSON Lines. There is no null: an empty field is the empty string (which cannot be an id or author).
      Ids are texts: "1.0" and "1" are different ids.
    - XLSX: the `sheet`, or the only sheet with cells, with a header. A formula is read as its last value; one without
      a value cannot be read. Empty cells are as in CSV. Merged cells are refused. Hidden or filtered rows, columns
      and sheets are read like the rest (`dptext check` counts them). Needs the extra ``dptext[files]``.
    - Parquet: pages of at most 128 MiB, dictionaries of 32 MiB, texts in plain or dictionary encoding. The whole file
      unpacks to at most 1 GiB or 1,000 times its size. Needs the extra ``dptext[files]``.
    - Plain text: `record` says whether a record is the file, a line (an empty line is an empty text), or a block of
      lines between blank lines.

    A value that cannot be read is an error where its field is named: NaN and infinity, a key that is there twice,
    bytes that are not UTF-8, an error of a spreadsheet. Other fields are not looked at, and of a measured column such a
    value is null.

    Ids are "0", "1", ... in the order of the records that could be read, unless ``fields.id`` names a field. The ids of
    a field must be unique. To check this, every id or its 16-byte hash is kept in memory (at most 60 bytes for a record
    of a file, about 100 for a record of other sources).

    Args:
        source: Path of a file; a data frame or series (pandas, polars, pyarrow); a Dataset of Hugging Face; or texts,
            rows as mappings, or ready records. Ready records pass through with their own ids, after the same checks of
            their text.
        fields: Names of the fields. Plain text has no fields, so it takes only the default.
        format: Format of the file, if its extension does not tell. The extensions ``.gz`` and ``.zst`` alone tell
            compression.
        on_error: Whether a record that cannot be read ends the reading or is skipped.
        on_skip: Called with number and reason of a skipped record. The numbers count from 1 over all records (rows
            of CSV after the header, lines of the others). They depend on private data: do not publish them.
        max_characters: Public bound on the length of a text; a longer one is an error.
        empty_nulls: Whether a null text is read as an empty one. Otherwise it is an error.
        delimiter: The character between the columns of CSV.
        encoding: Encoding of a file of lines, by a name that Python knows.
        record: The unit of plain text that is one record: "file", "line" or "block". Plain text needs it; other
            formats refuse it.
        sheet: Name of the XLSX sheet with the records, if several sheets hold cells.
        strip_html: Whether to remove tags from the texts and decode entities (`without_tags`).
        advice: The advice at the end of an error's message. Only the caller knows what its users can set.
        first_fields: Whether to raise HeaderError if the first row lacks a field, even with `on_error="skip"`.

    Yields:
        The records. The file is closed at the end, or when the generator is closed.

    Raises:
        ConfigError: If a setting is wrong or the file cannot be opened.
        DataError: If a record cannot be read: not UTF-8, malformed, a field missing or of the wrong type, a NUL
            character or a lone surrogate in a string, a text that is too long, an id used twice.
        BrokenFileError: If nothing more can be read, with any ``on_error``: damaged gzip or Parquet, CSV with broken
            quotes, a file without records. (An iterable may be empty.) HeaderError, if its header is at fault.
        MissingExtraError: If Parquet is to be read and pyarrow is not installed.
    """
    how: dict[str, Any] = dict(locals())
    if not isinstance(source, str | os.PathLike):
        count(max_characters=max_characters)
        one_of(OnError, on_error=on_error)
        if record is not None:
            raise ConfigError(f"Expected no record={record!r} with rows or texts: each of them is a record.")
        checks, stops = Checks(fields, max_characters, empty_nulls), on_error == OnError.STOP
        reading = RecordReader("the rows", checks, stops, on_skip, advice, first_fields=first_fields)
        found = reading.records(table_rows(source, needed(fields)))
        return (replace(record, text=without_tags(record.text)) for record in found) if strip_html else found
    return _records(read_batches(**how))


def read_rows(
    rows: Sequence[object],
    fields: Fields = _ALL_FIELDS,
    *,
    empty_nulls: bool = False,
    advice: str = "Repair it or take it out.",
) -> Generator[Batch, None, None]:
    """Stream the records of rows in memory as columns. Arguments, records and errors are as `read_records`'."""
    checks = Checks(fields, MAX_CHARACTERS, empty_nulls)
    return RecordReader("the rows", checks, stops=True, on_skip=None, advice=advice).row_batches(rows)


def as_records(
    texts: Texts,
    *,
    text: str = TEXT_FIELD,
    label: str | None = None,
    id: str | None = None,
    author: str | None = None,
    keep: tuple[str, ...] = (),
    empty_nulls: bool = False,
) -> list[Record]:
    """Return the records of any source of `read_records`. Arguments name columns. Ready records are unchanged."""
    fields = Fields(text=text, label=label, id=id, author=author, keep=keep)
    return list(read_records(texts, fields, empty_nulls=empty_nulls))


@contextlib.contextmanager
def of_public_files(text: str = "text") -> Iterator[None]:
    """Make the errors of a block that reads public texts name the options and arguments for these.

    `text` is the argument of Python that names their column.
    """
    try:
        yield
    except (ConfigError, DataError) as error:
        said = re.sub("--(text-field|label-field|record|sheet)", r"--public-\1", str(error))
        said = re.sub(r"--keep(?![-\w])", "--carry", said).replace("keep=", "carry=")
        error.args = (re.sub(r"\btext=(?= in Python|,)", f"{text}=", said),)
        raise


def read_released(path: Path, fields: Fields) -> Generator[Record, None, None]:
    """Yield the texts of a file that `writers` wrote, as `read_records` does. Plain text has one text on each line."""
    return read_records(path, fields, record=Portion.LINE if detect_format(path) is Format.TEXT else None)


def read_batches(
    source: str | os.PathLike[str],
    fields: Fields = _ALL_FIELDS,
    *,
    format: Format | None = None,
    on_error: OnError = OnError.STOP,
    on_skip: Callable[[int, str], None] | None = None,
    max_characters: int = MAX_CHARACTERS,
    empty_nulls: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    record: str | None = None,
    sheet: str | None = None,
    strip_html: bool = False,
    advice: str = "Repair it or take it out.",
    first_fields: bool = False,
    opener: Opener | None = None,
    allow_empty: bool = False,
    one_of_many: bool = False,
) -> Generator[Batch, None, None]:
    """Stream the records of a file as columns, in batches of at least one record; the arguments are as `read_records`'.

    The ends of batches depend on how the file was read. Records before a fault are yielded before the fault is raised
    or given to `on_skip`. The file is closed at the end, or when the generator is closed. An `opener` opens a source
    that has no path in the file system; the extension of its name still tells the format. With `allow_empty`, a file
    without records gives no batch; otherwise it is an error. With `one_of_many`, a file without rows may lack the
    columns, too: writers of folders leave such parts if they found nothing.
    """
    count(max_characters=max_characters)
    one_of(OnError, on_error=on_error)
    path = Path(source)
    # A string that may be a private text is refused and not shown.
    if isinstance(source, str) and (len(source) > _LONGEST or (len(source.split()) > 1 and not path.exists())):
        raise ConfigError(f"Expected {EXPECTED}, found one string that is no path. Make a list of it: [text].")
    if opener is None:
        _refuse_many(path)
    kind = file_format(path, format)
    if kind is Format.TEXT and fields != Fields(text=fields.text):
        raise ConfigError(
            f"Expected no ids, labels, authors, subjects or kept fields for {str(path)!r}: plain text has no fields."
        )
    require_layout(path, kind, delimiter, encoding, record, sheet)
    if kind is Format.PARQUET:
        load_pyarrow()
    if kind is Format.XLSX:
        load_openpyxl()
    if opener is None:
        _require_file(path)
    checks, stops = Checks(fields, max_characters, empty_nulls), on_error == OnError.STOP
    reading = RecordReader(str(path), checks, stops, on_skip, advice, first_fields=first_fields)
    if encoding is None and kind not in PACKED and opener is None and path.is_file():  # a pipe can be read only once
        reading.unnamed = path
    # Where records are skipped, nothing else would say it.
    readable = not stops and (opener is not None or path.is_file())
    if readable and (said := other_form(path, kind, encoding, opener or open_input)) is not None:
        raise OtherFormError(said, str(path))
    how: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "record": record, "sheet": sheet}
    how |= {"max_line": reading.check.max_line, "opener": opener or open_input}
    chunks = file_chunks(path, kind, needed(fields), **how)
    found = _file_batches(chunks, reading, allow_empty, one_of_many)
    return _without_tags(found) if strip_html else found


def require_records(n: int, source: str | os.PathLike[str]) -> None:
    """Raise BrokenFileError if no record could be read. A certificate of no records would promise nothing."""
    if not n:
        raise BrokenFileError(f"{source}: no record can be read, so nothing is released.")


def require_layout(
    path: Path,
    kind: Format,
    delimiter: str | None,
    encoding: str | None,
    record: str | None,
    sheet: str | None = None,
) -> None:
    """Raise ConfigError for a delimiter, encoding or sheet that the format lacks, or plain text without a `record`."""
    if record is not None:
        one_of(Portion, record=record)
    if kind is Format.TEXT and record is None:
        raise ConfigError(
            f"Expected --record for {str(path)!r}: file, line, or block (of lines between blank ones), whichever is "
            "one record. In Python: dp.read_records(path, record='line')."
        )
    if kind is not Format.TEXT and record is not None:
        raise ConfigError(f"Expected no --record for {str(path)!r}: it is read as {kind}, whose rows are the records.")
    if delimiter is not None and kind not in DELIMITED:
        raise ConfigError(f"Expected no --delimiter for {str(path)!r}: it is read as {kind}, not csv (see --format).")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
        raise ConfigError(f"Expected --delimiter {delimiter!r} to be one character, as ';' or '\\t'.")
    if sheet is not None and kind is not Format.XLSX:
        raise ConfigError(f"Expected no --sheet for {str(path)!r}: it is read as {kind}, which has no sheets.")
    if not is_utf8(encoding) and kind in PACKED:
        raise ConfigError(f"Expected no --encoding for {str(path)!r}: {kind} has its own encoding.")


def _without_tags(batches: Generator[Batch, None, None]) -> Generator[Batch, None, None]:
    with contextlib.closing(batches):
        for each in batches:
            texts = list(map(without_tags, each.texts))
            yield replace(each, texts=texts)


def _records(batches: Generator[Batch, None, None]) -> Generator[Record, None, None]:
    with contextlib.closing(batches):
        for batch in batches:
            yield from batch


def _file_batches(
    found: Generator[Chunk, None, None], reading: RecordReader, allow_empty: bool, one_of_many: bool
) -> Generator[Batch, None, None]:
    with contextlib.closing(found) as chunks:
        empty: Chunk = [] if allow_empty else [EMPTY]
        first = next(chunks, empty)
        if (
            one_of_many
            and isinstance(first, list)
            and any(isinstance(row, BadHeader) and not row.rows for row in first)
        ):
            first = empty
        yield from reading.batches(itertools.chain([first], chunks))


def _refuse_many(path: Path) -> None:
    """Refuse a folder or a glob, whose name tells no format. The message says which command reads many files."""
    if os.path.isdir(path):  # noqa: PTH112 (False of a path that cannot be looked at)
        found, where = "a folder", "a file in it"
    elif glob.has_magic(str(path)) and not os.path.lexists(path):
        found, where = "no such file", "a file"
    else:
        return
    raise ConfigError(
        f"Expected {str(path)!r} to be one file, found {found}. Name {where}, or privatize many files at once: "
        "dptext privatize FOLDER OUT_FOLDER on the command line, dp.privatize_dataset in Python."
    )


def _require_file(path: Path) -> None:
    """Refuse a path without a readable file at the call, not at the first record."""
    try:
        path.stat()
    except (OSError, ValueError) as error:
        raise file_error(path, "read", error) from None
