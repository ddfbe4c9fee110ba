"""Workbooks of XLSX that declare what is not so, or hold what a table has no place for: refused, or read whole."""

import json
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
import kept_words
from commands import dptext
from dptext.errors import BrokenFileError, ConfigError, DataError, HeaderError
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
        sheet = made.create_sheet("Notes", 0)
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


@pytest.mark.slow_cases(
    "a hidden sheet", "a very hidden sheet", why="test_a_sheet_is_read_by_its_name has a hidden sheet"
)
@pytest.mark.parametrize("case", LOST)
def test_content_is_not_lost_without_a_word(tmp_path: Path, case: str) -> None:
    change, said = LOST[case]
    path = book(tmp_path / "a.xlsx", change)
    for act in (lambda: texts(path), lambda: texts(path, on_error="skip")):
        with pytest.raises(BrokenFileError, match=said) as caught:
            act()
        assert CANARY not in str(caught.value)
    for command in (("check", path), ("privatize", path, tmp_path / "out.csv", *kept_words.OPTIONS)):
        done = dptext(*command)
        assert done.returncode == 4
        assert CANARY not in done.stdout + done.stderr
        assert ("Notes" in done.stderr) == (command[0] == "check" and "sheet" in case)  # told to the owner alone
        assert ("record 1" in done.stderr) == ("sheet" not in case)


@pytest.mark.slow_cases("visible", "veryHidden", why="a hidden sheet stays; test_content_is_not_lost has the others")
@pytest.mark.parametrize("state", ["visible", "hidden", "veryHidden"])
def test_a_sheet_is_read_by_its_name(tmp_path: Path, state: str) -> None:
    path = book(tmp_path / "a.xlsx", _another(state))
    assert texts(path, sheet="Sheet") == [f"text {i}" for i in range(6)]
    with pytest.raises(BrokenFileError, match="holds no records"):
        texts(path, sheet="Notes")
    with pytest.raises(BrokenFileError, match="no sheet of the name that was given"):
        texts(path, sheet=CANARY)
    with pytest.raises(ConfigError, match=r"no --sheet for .*a\.csv.*read as csv"):
        texts(tmp_path / "a.csv", sheet="Sheet")
    done = dptext("check", path)
    shown = f"These hold cells: 'Notes'{' (hidden)' * (state != 'visible')}, 'Sheet'."
    assert (done.returncode, shown in done.stderr) == (4, True)
    assert "no sheet 'None'. These hold cells" in dptext("check", path, "--sheet", "None").stderr
    told = dptext("check", path, "--sheet", "Sheet").stdout
    (measure,) = (line for line in told.splitlines() if line.startswith("  dptext summarize"))
    assert "--sheet Sheet" in measure
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a.xlsx").write_bytes(path.read_bytes())
    (tmp_path / "dptext.toml").write_text('sheet = "Sheet"\n')
    for source, out, named in (("a.xlsx", "b.csv", ()), ("many", "out", ("--output-format", "csv"))):
        # a hidden sheet is quick: one way each; the other states have both
        both = (("--sheet", "Sheet"), ())
        for options in both if state != "hidden" else both[:1] if source == "many" else both[1:]:
            done = dptext("privatize", source, out, *kept_words.OPTIONS, *named, *options, "--force", cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        found = tmp_path / out
        (part,) = [found] if found.is_file() else found.glob("*.csv")
        assert part.read_text().splitlines()[1:] == [f"{i},text {i}" for i in range(6)]


def test_public_texts_have_a_sheet_of_their_own_and_a_folder_without_workbooks_has_none(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", _another("visible"), [["text"], *([f"a public text {i}"] for i in range(6))])
    fit = ("fit", "-m", "candidates", "-s", "epsilon=4", "-s", "ranker=tfidf", "--public", path, "--out")
    assert dptext(*fit, tmp_path / "m", "--sheet", "Data", "--public-sheet", "Sheet").returncode == 0
    assert dptext(*fit, tmp_path / "n", "--sheet", "Sheet").returncode == 0
    assert "--public-sheet NAME" in dptext(*fit, tmp_path / "o").stderr
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a.csv").write_text("text\na\n")
    how = ("--model", tmp_path / "m", "--sheet", "Sheet")
    assert "no file at 'many' is a workbook" in dptext("privatize", "many", "out", *how, cwd=tmp_path).stderr


def _hidden(made: Any) -> None:
    made.active.sheet_state = "hidden"
    made.create_sheet("Cover")
    made.active = 1
    sheet = made.worksheets[0]
    sheet.row_dimensions[3].hidden = sheet.row_dimensions[5].hidden = sheet.row_dimensions[90].hidden = True
    sheet.column_dimensions.group("B", "D", hidden=True)


def _filtered(made: Any) -> None:
    made.active.auto_filter.ref = "A1:B7"
    made.active.auto_filter.add_filter_column(0, ["text 0"])
    for row_number in range(3, 8):
        made.active.row_dimensions[row_number].hidden = True


@pytest.mark.parametrize(
    ("change", "said", "counts"),
    [
        (_hidden, "the sheet, 2 rows, 1 column", (True, 2, 1)),
        (_filtered, "5 rows", (False, 5, 0)),
        (lambda _: None, "", (False, 0, 0)),
    ],
)
def test_what_is_hidden_is_read_and_counted_for_the_owner(
    tmp_path: Path, change: Callable[[Any], None], said: str, counts: tuple[bool, int, int]
) -> None:
    path = book(tmp_path / "a.xlsx", change)
    assert texts(path) == [f"text {i}" for i in range(6)]
    done = dptext("check", path)
    assert ("hidden or filtered out" in done.stdout) == bool(said)
    assert f"and read like the rest: {said}." in done.stdout or not said
    found = json.loads(dptext("check", path, "--json").stdout)["sheet"]
    assert found == {
        "name": "Sheet", "hidden": counts[0], "filled": True, "hidden_rows": counts[1], "hidden_columns": counts[2]
    }  # fmt: skip


def test_a_sheet_of_a_chart_holds_no_records(tmp_path: Path) -> None:
    def charted(made: Any) -> None:
        made.create_chartsheet("C", 0)
        made.active.print_title_rows = "1:1"
        made.worksheets[0].defined_names["far"] = openpyxl.workbook.defined_name.DefinedName(
            "far", attr_text="Sheet!A1"
        )

    assert texts(book(tmp_path / "a.xlsx", charted)) == [f"text {i}" for i in range(6)]
    made = openpyxl.Workbook()
    made.create_chartsheet("C")
    made.remove(made.worksheets[0])
    made.save(tmp_path / "b.xlsx")
    with pytest.raises(BrokenFileError, match="the workbook has no sheet with rows"):
        texts(tmp_path / "b.xlsx")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a_x000D__x000A_b", "a\r\nb"),
        ("_x0041__x0062_c_x00e9_", "Abcé"),
        ("_x005F_x000D_", "_x000D_"),
        ("_xD83D__xDE00_!", "😀!"),
        ("a_x_b _x12_ _x00G0_ _X000D_ snake_x000", "a_x_b _x12_ _x00G0_ _X000D_ snake_x000"),
    ],
)
def test_what_excel_escapes_is_the_character(tmp_path: Path, written: str, meant: str) -> None:
    path = book(tmp_path / "a.xlsx", rows=[["text", "la_x0062_el"], [written, written]])
    (found,) = dp.read_records(path, dp.Fields(label="label"))
    assert (found.text, found.label) == (meant, meant)
    inline = edited(tmp_path / "b.xlsx", lambda sheet: sheet.replace(b"</sheetData>", row(8, cell("A8", written))))
    assert texts(inline)[-1] == meant


def test_what_no_text_may_hold_is_a_bad_row_however_it_is_written(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", rows=[["text"], ["_x0000_"], ["_xD83D_"], ["b"]])
    assert texts(path, on_error="skip") == ["b"]


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
