"""Lists of labels, names and shares: in an option, or in a file with one member in each line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dptext.cli.corpus_options import listed
from dptext.errors import ConfigError
from dptext.runs.specs import read_toml


@pytest.mark.parametrize(
    "data",
    ["Grüße\nbills\n", "\ufeffGrüße\r\nbills\r\n", "Grüße\rbills", "  Grüße \n bills\n\n \n", "Grüße\nbills\n\r\n\r\n"],
)
def test_a_list_is_read_from_a_file_however_its_lines_end(data: str, tmp_path: Path) -> None:
    """Excel writes a mark of UTF-8 first, and editors empty lines at the end."""
    path = tmp_path / "labels.txt"
    path.write_bytes(data.encode())
    assert listed(f"@{path}", "--labels") == ["Grüße", "bills"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            "one\nGrüße\n".encode("latin-1"),
            "--labels @{} to be in UTF-8, found other bytes in line 2: save it as UTF-8.",
        ),
        ("one".encode("utf-16"), "--labels @{} to be in UTF-8, found other bytes in line 1"),
        (b"one\n\ntwo\n", "found an empty name in line 2 of {}."),
        (b"\n \n", "--labels @{} to have a name in each line, found none."),
        (b"", "--labels @{} to have a name in each line, found none."),
    ],
)
def test_a_file_that_holds_no_list_is_refused_by_name_and_line(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as refused:
        listed(f"@{path}", "--labels")
    assert said.format(path) in str(refused.value)


def test_an_empty_member_of_an_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"found an empty name\.$"):
        listed("a,,b", "--labels")


def test_settings_of_an_editor_that_marks_utf8_are_read(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_bytes(b"\xef\xbb\xbfepsilon = 2.0\n")
    assert read_toml(path) == {"epsilon": 2.0}
