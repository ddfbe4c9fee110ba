"""Whether public texts have a field of labels: their files are read no further than it is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dptext.cli.options import Layout
from dptext.errors import BrokenFileError, ConfigError, DataError

ROW = {"text": "a", "label": "b"}


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("record", [None, "line", "file"])
def test_plain_text_has_no_label(tmp_path: Path, record: str | None) -> None:
    path = tmp_path / "pool.txt"
    path.write_text("a\nb\n", "utf-8")
    layout = Layout(public_record=record)
    assert layout.public_label(path, "label") is None
    if record is not None:
        assert layout.read_public(path)


def test_a_file_is_asked_only_if_no_option_names_its_label(tmp_path: Path) -> None:
    path = written(tmp_path / "pool.jsonl", {"text": "a"}, ROW)
    assert Layout().public_label(path, "label") == "label"
    assert Layout().public_label(path, "topic") is None
    assert Layout().public_label(path, None) is None
    assert Layout(public_label_field="other").public_label(tmp_path / "none", "label") == "label"


def test_any_file_of_a_folder_may_have_it(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", {"text": "a"})
    assert Layout().public_label(tmp_path, "label") is None
    written(tmp_path / "b.jsonl", ROW)
    assert Layout().public_label(tmp_path, "label") == "label"


def test_a_folder_without_a_record_is_no_pool(tmp_path: Path) -> None:
    """It was read as a pool of no texts."""
    for name in ("a.jsonl", "b.jsonl"):
        written(tmp_path / name)
    with pytest.raises(BrokenFileError, match="holds no records"):
        Layout().read_public(tmp_path)


def test_a_workbook_names_its_sheets(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("Two")):
        sheet.append(["text", "label"])
        sheet.append(["a", "b"])
    book.save(path := tmp_path / "pool.xlsx")
    with pytest.raises(DataError, match="'Two'"):
        Layout().public_label(path, "label")
    assert Layout(public_sheet="Two").public_label(path, "label") == "label"


def test_errors_name_the_options_that_were_given(tmp_path: Path) -> None:
    path = written(tmp_path / "pool.jsonl", ROW)
    with pytest.raises(ConfigError, match="Expected --record 'foo'"):
        Layout(record="foo").public_label(path, "label")
