"""The file of a job: how many rows it has, whether its run can go on, and words about it that hold no name in it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict
from pathlib import Path
from typing import Final

from dptext.errors import DPTextError
from dptext.runs.plan import State, state_path
from dptext.service.jobs import Wish
from dptext.text.formats import Format
from dptext.text.packed_rows import load_pyarrow
from dptext.text.writers import APPENDABLE

_LOOK: Final = "Name its columns: text_field, label_field and so on; on the page, Column of the text."


def without_names(said: str, wish: Wish) -> str:
    """A message without what the file has in quotes: names of fields may be a text, where a header is missing."""
    kept = re.split("[:,;]? (?:found|but one that holds|[(]name another) ", said)[0]
    asked = {name for name in (wish.model, *asdict(wish.fields).values()) if isinstance(name, str)}
    if '"' in kept or not set(re.findall("'([^']*)'", kept)) <= asked:
        kept = "the file cannot be read as asked"
    return said if kept == said else f"{kept}. {_LOOK}"


def rows_of(parquet: Path) -> int:
    """How many a Parquet file says that it has; 0 where it cannot be read, which is said when it is read."""
    arrow, reading = load_pyarrow()
    with contextlib.suppress(arrow.ArrowException, OSError, ValueError, MemoryError):
        found = reading.read_metadata(parquet)
        return sum(found.row_group(each).num_rows for each in range(found.num_row_groups))
    return 0


def can_go_on(out: Path, kind: Format) -> bool:
    """Whether an unfinished run lies there that can be gone on with; else it begins anew, under the same charge."""
    with contextlib.suppress(DPTextError):
        state = State.load(state_path(out))
        return kind in APPENDABLE or bool(state.certificate)
    return False
