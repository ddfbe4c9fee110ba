"""Five hundred odd files as tables: a measured column changes nothing of which rows are read, or is not there."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptext.errors import ConfigError, DPTextError, HeaderError
from dptext.runs.private import Private
from dptext.synthesis.readings import PublicReader
from dptext.text.declarations import schema_of
from dptext.text.records import Fields
from odd_files import Odd, named_files, odd_files

ODD = [*odd_files(), *named_files()]
#: Columns of the odd files, and one of each kind of declaration that might read them.
SCHEMA = schema_of(["n: 0..3 by 1", "label?: 1|a|yes", "day: 2024-01..2024-12 by month"])
READER = PublicReader(columns=SCHEMA)


def read(path: Path, odd: Odd, measured: tuple[str, ...]) -> tuple[list[str], list[dict[str, Any]]] | DPTextError:
    """Texts and measured values of the rows that are read, or the error."""
    reading: dict[str, object] = {"delimiter": odd.delimiter, "record": odd.record}
    try:
        records = [each for batch in Private(path, Fields(measured=measured), reading).batches() for each in batch]
    except DPTextError as error:
        return error
    return [each.text for each in records], [dict(each.kept) for each in records]


@pytest.mark.slow_cases("2", "3", why="other files of the same list; a quarter of each format stays in each part")
@pytest.mark.parametrize("part", range(4))
def test_no_value_of_a_column_makes_a_row_or_a_file_unreadable(part: int, tmp_path: Path) -> None:
    lacking = there = 0
    for i, odd in enumerate(ODD[part::4]):
        path = tmp_path / f"{i}" / odd.name
        path.parent.mkdir()
        path.write_bytes(odd.data)
        bare = read(path, odd, ())
        for name in ("n", "label", "absent"):
            found = read(path, odd, (name,))
            if odd.record or ".txt" in odd.name:  # plain text has no columns: its form alone says so
                assert isinstance(found, ConfigError), odd.title
                continue
            if isinstance(found, HeaderError) and not isinstance(bare, HeaderError):
                lacking += 1
                continue
            if isinstance(bare, DPTextError) or isinstance(found, DPTextError):
                said, before = (str(each).partition(" Named were")[0] for each in (found, bare))  # names
                assert (type(found), said) == (type(bare), before), odd.title
                continue
            texts, values = found
            assert texts == bare[0], odd.title
            assert all(value is None or isinstance(value, str) for row in values for value in row.values()), odd.title
            cells = READER.read(*_places(len(texts)), fields=values).columns if texts else None
            if cells is not None:
                assert cells.min() >= 0
                assert all((cells[:, k] < len(column)).all() for k, column in enumerate(SCHEMA)), odd.title
            there += 1
    assert lacking > 20
    assert there > 20


def _places(n: int) -> tuple[Any, list[str], list[None]]:
    return np.zeros(n, np.int64), ["so"] * n, [None] * n


@pytest.mark.parametrize("begun", ["text,label\nhello,a\n", "[1]\n", '\n\n"text"\n', "\ufefftext\nhello\n"])
@pytest.mark.parametrize("name", ["private.jsonl", "private.jsonl.gz"])
def test_another_format_than_the_name_says_is_refused_before_anything_is_read(
    begun: str, name: str, tmp_path: Path
) -> None:
    """All of its rows would be skipped, and an empty corpus would be charged."""
    path, data = tmp_path / name, begun.encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(HeaderError, match=r"Expected JSON Lines, as its name or --format says"):
        Private(path, Fields(), {}).check()


@pytest.mark.parametrize(
    "begun",
    [
        "",
        "\n\n",
        'what no reader reads\n{"text": "a"}\n',
        '\n {"text": "a"}\n',
        '\ufeff{"text": "a"}\n',
        '{"text": "a"\n{"text": "b"}\n',
    ],
)
def test_json_lines_are_read_whatever_a_record_holds(begun: str, tmp_path: Path) -> None:
    path = tmp_path / "private.jsonl"
    path.write_text(begun, "utf-8")
    Private(path, Fields(), {}).check()
