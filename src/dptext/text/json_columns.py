"""Columns of JSON Lines as pyarrow reads them, where it would see exactly what our own reader sees.

pyarrow reads more than valid JSON Lines: NaN, several objects a line, an object on several lines, text that is not
UTF-8. It skips empty lines, and tells no missing field from null. A block with anything of that kind is left to our own
reader, which knows what is wrong with which line.
"""

import contextlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np

from dptext.text.lines import Table
from dptext.text.parquet_rows import values_of

#: Smaller blocks are not worth loading pyarrow.
_WORTH: Final = 2**17
#: Half of the brackets that a line for pyarrow may have: it recurses, and 10,000 levels ended the whole process.
_APART: Final = 1_000
#: Types of other fields: the rest may hold NaN, integers of too many digits, or depth that our own reader refuses.
_HARMLESS: Final = ("string", "bool", "int64", "null", "timestamp[s]", "timestamp[ns]")


def json_columns(block: bytes, names: Sequence[str]) -> Table | None:
    """The columns of these names in whole lines, all of text; None without pyarrow, or where our reader has to look."""
    n_lines = _objects(block) if len(block) >= _WORTH else 0
    if not n_lines or not _shallow(block):
        return None
    with contextlib.suppress(ImportError):
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
        from pyarrow import json  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415

        with contextlib.suppress(pa.ArrowException, ValueError):
            block.decode()
            return _whole(_parsed(pa, json, block, names), n_lines, names)
    return None


def _whole(table: Any, n_lines: int, names: Sequence[str]) -> Table | None:
    others = (str(field.type) for field in table.schema if field.name not in names)
    nulls = sum(table.column(name).null_count for name in names)
    if nulls or table.num_rows != n_lines or not all(kind in _HARMLESS for kind in others):
        return None
    return {name: values_of(table.column(name).combine_chunks()) for name in names}


def _objects(block: bytes) -> int:
    """The number of lines, if each begins and ends with a brace; else 0.

    Between a closing and an opening brace, JSON needs a comma within a value. So each line end is then one between
    objects, and the lines hold one object each if there are as many objects as lines.
    """
    end = len(block) - block.endswith(b"\n")
    inner = block.count(b"\n", 0, end)
    braced = block.startswith(b"{") and block.endswith(b"}", 0, end) and block.count(b"}\n{") == inner
    return inner + 1 if braced else 0


def _shallow(block: bytes) -> bool:
    """Whether no line has so many brackets, those in texts among them, that it could be too deep for pyarrow."""
    read = np.frombuffer(block, np.uint8)
    some = np.flatnonzero(read | 32 == 123)[::_APART]  # [ and {; two of these stand in a line with 2 _APART of them
    line = np.searchsorted(np.flatnonzero(read == 10), some)
    return not (line[1:] == line[:-1]).any()


def _parsed(pa: ModuleType, json: ModuleType, block: bytes, names: Sequence[str]) -> Any:
    return json.read_json(
        pa.BufferReader(block),
        # Without threads: one that calls into a Python that is ending aborts the process.
        read_options=json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in names])),
    )
