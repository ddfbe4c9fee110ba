"""The file of a job: its records, their number, whether its run can go on, and messages without names from the file."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from dptext.errors import DPTextError
from dptext.runs.private import Private
from dptext.runs.states import FileState, state_path
from dptext.text.batches import Batch
from dptext.text.formats import Format
from dptext.text.packed_rows import load_pyarrow
from dptext.text.writers import APPENDABLE
from dptext_gateway.jobs import Wish

#: The first bytes of packed files; an XLSX is a ZIP.
_PACKED: Final = {
    "gzip (.gz)": b"\x1f\x8b",
    "ZIP": b"PK\x03\x04",
    "Zstandard (.zst)": b"\x28\xb5\x2f\xfd",
    "bzip2 (.bz2)": b"BZh91AY&SY",
    "XZ (.xz)": b"\xfd7zXZ",
}
_FIRST: Final = 16
_BLANK: Final = 1 << 16  # bytes that are looked at for the first that is not blank
_LOOK: Final = "Name its columns: text_field, label_field and so on; on the page, Column of the text."


def without_names(said: str, wish: Wish) -> str:
    """Return a message without the file's own names: if a header is missing, a name of a field may be a text."""
    kept = re.split("[:,;]? (?:found|but one that holds|[(]name another) ", said)[0]
    asked = {name for name in (wish.model, *asdict(wish.fields).values()) if isinstance(name, str)}
    if '"' in kept or not set(re.findall("'([^']*)'", kept)) <= asked:
        kept = "the file cannot be read as asked"
    return said if kept == said else f"{kept}. {_LOOK}"


def packing(source: Path) -> str | None:
    """Return how a file is packed, by its first bytes; None if it is not packed."""
    with source.open("rb") as file:
        first = file.read(_FIRST)
    return next((name for name, begin in _PACKED.items() if first.startswith(begin)), None)


def is_json_lines(source: Path) -> bool:
    """Whether the first line of a file can be an object of JSON. A CSV file that is read as JSON Lines adds nothing."""
    with source.open("rb") as file:
        first = file.read(_BLANK).removeprefix(codecs.BOM_UTF8).lstrip()
    return first[:1] in (b"", b"{") or first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def rows_of(parquet: Path) -> int:
    """Return the number of rows that a Parquet file declares; 0 if it cannot be read, which is reported later."""
    arrow, reading = load_pyarrow()
    with contextlib.suppress(arrow.ArrowException, OSError, ValueError, MemoryError):
        found = reading.read_metadata(parquet)
        return sum(found.row_group(each).num_rows for each in range(found.num_row_groups))
    return 0


def can_go_on(out: Path, kind: Format) -> bool:
    """Whether there is an unfinished run that can go on; else the run begins anew, under the same charge."""
    with contextlib.suppress(DPTextError):
        state = FileState.load(state_path(out))
        return kind in APPENDABLE or bool(state.certificate)
    return False


@dataclass(frozen=True, repr=False)
class WatchedCorpus(Private):
    """A private corpus that tells its progress, so that reading can be ended."""

    tell: Callable[[int], None] = lambda _: None

    def batches(self) -> Generator[Batch, None, None]:
        """The records, as long as the job may go on."""
        done = 0
        for batch in super().batches():
            done += len(batch)
            self.tell(done)
            yield batch
