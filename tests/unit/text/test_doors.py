"""Odd files of all formats: `check`, `privatize` and `synthesize` read the same records, with one word for a fault."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from doors import HEADS, Said, doors, named_doors, table, unlike, unlike_named
from odd_files import Odd, named_files, odd_files


def _differing(files: Sequence[Odd], folder: Path) -> dict[str, list[str]]:
    found = {odd.title: unlike(*doors(odd, folder)) for odd in files}
    return {name: said for name, said in found.items() if said}


def test_some_odd_files_are_read_alike(tmp_path: Path) -> None:
    assert _differing(odd_files()[::44], tmp_path) == {}


@pytest.mark.slow
def test_all_odd_files_are_read_alike(tmp_path: Path) -> None:
    files = odd_files()
    assert len({odd.title for odd in files}) == len(files) > 300
    assert _differing(files, tmp_path) == {}


def _named_apart(files: Sequence[Odd], folder: Path) -> dict[str, list[str]]:
    found = {odd.title: unlike_named(*named_doors(odd, folder)) for odd in files}
    return {name: said for name, said in found.items() if said}


def test_some_ids_and_labels_are_read_alike_by_the_commands(tmp_path: Path) -> None:
    assert _named_apart(named_files()[3::32], tmp_path) == {}


@pytest.mark.slow  # test_some_ids_and_labels_are_read_alike_by_the_commands sees each 32nd
def test_all_ids_and_labels_are_read_alike_by_the_commands(tmp_path: Path) -> None:
    assert len({odd.title for odd in named_files()}) == len(named_files()) > 90
    assert _named_apart(named_files(), tmp_path) == {}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((Said(4, 1, "so"), Said(4, 1, "so"), Said(4)), []),
        ((Said(5), Said(4, 1, "so"), Said(4)), ["the number of records", "what is wrong with the first"]),
        ((Said(4), Said(4), Said(5)), ["the number of records"]),
        ((Said(refused="so"), Said(refused="so"), Said(refused="so")), []),
        ((Said(refused="so"), Said(refused="la"), Said(refused="la")), ["the words of a refusal"]),
        ((Said(4), Said(refused="la"), Said(refused="la")), ["the words of a refusal"]),
    ],
)
def test_what_the_commands_say_otherwise_is_found(said: tuple[Said, Said, Said], found: list[str]) -> None:
    assert unlike_named(*said) == found


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
