"""Workbooks of XLSX that declare what is not so, or hold what a table has no place for: refused, or read whole."""

import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from commands import dptext
from dptext.errors import BrokenFileError, DataError, HeaderError
from dptext.text import sheets

openpyxl = pytest.importorskip("openpyxl")
CANARY = "ZEBRA-CANARY-4711"
SHEET = "xl/worksheets/sheet1.xml"
ROWS = [["text", "label"], *([f"text {i}", "x"] for i in range(6))]


def cell(place: str, text: str) -> bytes:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'.encode()


def row(number: int, *cells: bytes) -> bytes:
    return f'<row r="{number}">'.encode() + b"".join(cells) + b"</row></sheetData>"


def book(path: Path, change: Callable[[Any], object] = lambda _: None, rows: list[list[Any]] = ROWS) -> Path:
    made = openpyxl.Workbook()
    for each in rows:
        made.active.append(each)
    change(made)
    made.save(path)
    return path


def edited(path: Path, edit: Callable[[bytes], bytes], name: str = SHEET) -> Path:
    plain = book(path.with_name("plain.xlsx"))
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.namelist():
            new.writestr(each, edit(old.read(each)) if each == name else old.read(each))
    return path


def texts(path: Path, **how: Any) -> list[str]:
    return [record.text for record in dp.read_records(path, **how)]


@pytest.mark.parametrize("extent", ["A1:B3", "A1", "C9:D12", "A1:XFD1048576", None])
def test_the_extent_that_a_sheet_declares_is_not_believed(tmp_path: Path, extent: str | None) -> None:
    declared = b"" if extent is None else f'<dimension ref="{extent}"/>'.encode()
    path = edited(tmp_path / "a.xlsx", lambda sheet: re.sub(rb"<dimension [^>]*/>", declared, sheet))
    began = time.process_time()
    assert texts(path) == [f"text {i}" for i in range(6)]
    assert time.process_time() - began < 5


def test_a_far_cell_without_content_takes_no_time(tmp_path: Path) -> None:
    def far(made: Any) -> None:
        made.active["XFD1048576"].font = openpyxl.styles.Font(bold=True)

    path = book(tmp_path / "far.xlsx", far)
    began = time.process_time()
    assert texts(path) == [f"text {i}" for i in range(6)]
    assert dptext("check", path).returncode == 0
    assert time.process_time() - began < 5


def test_one_sheet_with_cells_is_read_wherever_it_is(tmp_path: Path) -> None:
    def before(made: Any) -> None:
        made.create_sheet("Cover", 0).sheet_state = "hidden"

    assert len(texts(book(tmp_path / "a.xlsx", before))) == 6


def _another(state: str) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        sheet = made.create_sheet(CANARY, 0)
        sheet.append(["text", CANARY])
        sheet.sheet_state = state
        made.active = 1

    return change


#: Content that would be lost, and what is said.
LOST: dict[str, tuple[Callable[[Any], object], str]] = {
    "another sheet": (_another("visible"), "2 sheets of the workbook hold cells, and the records"),
    "a hidden sheet": (_another("hidden"), "2 sheets of the workbook hold cells, 1 of them hidden"),
    "a very hidden sheet": (_another("veryHidden"), "1 of them hidden"),
    "merged cells": (lambda made: made.active.merge_cells("A3:A5"), "cells of the sheet are merged"),
}


@pytest.mark.parametrize("case", LOST)
def test_content_is_not_lost_without_a_word(tmp_path: Path, case: str) -> None:
    change, said = LOST[case]
    path = book(tmp_path / "a.xlsx", change)
    for act in (lambda: texts(path), lambda: texts(path, on_error="skip")):
        with pytest.raises(BrokenFileError, match=said) as caught:
            act()
        assert CANARY not in str(caught.value)
    redaction = ("-m", "random_redaction", "-s", "level=0", "--without-guarantee")
    for command in (("check", path), ("privatize", path, tmp_path / "out.csv", *redaction)):
        done = dptext(*command)
        assert done.returncode == 4
        assert CANARY not in done.stdout + done.stderr


def test_a_formula_without_a_value_and_an_error_are_bad_rows(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", rows=[["text", "n"], ["=A1", 1], ["b", "=1+1"], ["c", 3]])
    with pytest.raises(DataError, match="record 1: a formula has no value: open the workbook"):
        texts(path)
    assert texts(path, on_error="skip") == ["b", "c"]
    fields = dp.Fields(keep=("n",))
    assert [each.text for each in dp.read_records(path, fields, on_error="skip")] == ["c"]  # type: ignore[arg-type]
    values = (
        b'<c r="A8" t="str"><f>A2</f><v>seen</v></c>',
        b'<c r="A9" t="str"><f>A2</f><v></v></c><c r="B9"><v>1</v></c>',
    )
    error = b'<c r="A10" t="e"><f>A2</f><v>#N/A</v></c>'
    both = row(8, values[0])[:-12] + row(9, values[1])[:-12] + row(10, error)
    path = edited(tmp_path / "b.xlsx", lambda sheet: sheet.replace(b"</sheetData>", both))
    assert texts(path, on_error="skip")[6:] == ["seen", ""]
    with pytest.raises(DataError, match="record 9: a cell holds an error of the spreadsheet"):
        texts(path)


#: Rows that are not where they should be, at the end of a sheet of seven.
MISPLACED = {
    "a row twice": row(7, cell("A7", CANARY)),
    "a row before": row(2, cell("A2", CANARY)),
    "a cell twice": row(8, cell("A8", CANARY), cell("A8", CANARY)),
    "a row too far": row(10**12, cell("A8", CANARY)),
    "a column too far": row(8, cell("ZZZ8", CANARY)),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_rows_that_have_no_place_of_their_own_are_damage(tmp_path: Path, case: str) -> None:
    path = edited(tmp_path / "a.xlsx", lambda sheet: sheet.replace(b"</sheetData>", MISPLACED[case]))
    with pytest.raises(BrokenFileError, match="truncated or damaged") as caught:
        texts(path, on_error="skip")
    assert CANARY not in str(caught.value)


def test_a_sheet_that_the_library_does_not_understand_is_not_an_empty_one(tmp_path: Path) -> None:
    main, strict = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main", b"http://purl.oclc.org/ooxml/main"
    path = edited(tmp_path / "a.xlsx", lambda sheet: sheet.replace(main, strict))
    with pytest.raises(BrokenFileError, match="truncated or damaged"):
        texts(path)
    path = edited(tmp_path / "b.xlsx", lambda sheet: sheet[:-20])
    with pytest.raises(BrokenFileError, match="it is damaged"):
        texts(path)


def test_an_empty_workbook_lacks_the_column(tmp_path: Path) -> None:
    with pytest.raises(HeaderError, match="the sheet has no column 'text'"):
        texts(book(tmp_path / "a.xlsx", rows=[]))


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = row(8, cell("A8", "x" * 3_000_000))
    path = edited(tmp_path / "a.xlsx", lambda sheet: sheet.replace(b"</sheetData>", long))
    assert len(texts(path)[-1]) == 3_000_000
    monkeypatch.setattr(sheets, "MOST_ROW_BYTES", 1_000_000)
    with pytest.raises(BrokenFileError, match="truncated or damaged"):
        texts(path)
    monkeypatch.setattr(sheets, "UNPACKED_BYTES", 2_000_000)
    monkeypatch.setattr(sheets, "UNPACKED_TIMES", 1)
    with pytest.raises(BrokenFileError, match="unpacks to more than is read"):
        texts(path)
    monkeypatch.setattr(sheets, "SHARED_BYTES", 100)
    with pytest.raises(BrokenFileError, match="unpacks to more than is read"):
        texts(book(tmp_path / "b.xlsx"))
