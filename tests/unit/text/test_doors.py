"""Odd files of all formats: `check`, `privatize` and `synthesize` read the same records, with one word for a fault."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from doors import HEADS, Said, doors, table, unlike
from odd_files import Odd, odd_files


def _differing(files: Sequence[Odd], folder: Path) -> dict[str, list[str]]:
    found = {odd.title: unlike(*doors(odd, folder)) for odd in files}
    return {name: said for name, said in found.items() if said}


def test_some_odd_files_are_read_alike(tmp_path: Path) -> None:
    assert _differing(odd_files()[::11], tmp_path) == {}


@pytest.mark.slow
def test_all_odd_files_are_read_alike(tmp_path: Path) -> None:
    files = odd_files()
    assert len({odd.title for odd in files}) == len(files) > 300
    assert _differing(files, tmp_path) == {}


def test_a_row_of_the_table_says_what_each_door_said() -> None:
    ((name, *row),) = table([odd for odd in odd_files() if odd.name == "text number.jsonl"])
    reason = "record 3: the field 'text' is not a string but of type int"
    assert name == "text number.jsonl"
    assert dict(zip(HEADS[1:], row, strict=True)) == {
        "records": "4",
        "refused": "1",
        "first refusal": reason,
        "check": "reads 4",
        "privatize": "reads 4",
        "synthesize": "reads 4",
        "unlike": "",
    }


READ, BAD = Said(4, mark="a"), Said(3, 1, "record 2: so", "a")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((READ, READ, READ, ""), []),
        ((Said(5), READ, READ, ""), ["the number of records"]),
        ((READ, READ, Said(4, mark="b"), ""), ["the texts"]),
        ((READ, READ, Said(refused="no"), ""), ["the texts"]),
        ((READ, READ, READ, "no"), ["whether all can be read"]),
        ((Said(3, 1, "record 2: la"), BAD, Said(3, mark="a"), "2: so"), ["what is wrong with a record"]),
        ((BAD, BAD, Said(3, mark="a"), "2: la"), ["what is wrong with the first"]),
        ((Said(refused="so"), Said(refused="la"), Said(refused="no"), "la"), ["the words of a refusal"]),
        ((Said(refused="la"), Said(refused="la"), READ, "la"), ["whether it is refused"]),
    ],
)
def test_what_is_unlike_is_found(said: tuple[Said, Said, Said, str], found: list[str]) -> None:
    assert unlike(*said) == found
