"""Cells of a CSV file that a spreadsheet would compute."""

import csv
from pathlib import Path

import pytest

from dptext.errors import ConfigError
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.states import run_settings
from dptext.sampling.randomness import secure
from dptext.text.records import Fields
from kept_words import KeptWords

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\uff1d1"]
PLAIN = ["1", " =1", "a=b", "'=1", "", "x\n=1"]


def released(folder: Path, name: str, **plan: object) -> list[list[str]]:
    source = folder / "in.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "name", "kept"])
        rows.writerows([[text, text, text] for text in (*FORMULAS, *PLAIN) if text.strip()])
    fields = Fields(id="name", keep=("kept",))
    mechanism = KeptWords().fit()
    privatize_file(source, folder / name, mechanism, plan=Plan(fields=fields, without_guarantee=True, **plan))
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def begins_a_formula(cell: str) -> bool:
    return cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\uff1d")


def test_no_cell_begins_a_formula(tmp_path: Path) -> None:
    bare = released(tmp_path, "bare.csv")
    assert sum(map(begins_a_formula, (cell for row in bare for cell in row))) >= 3 * len(FORMULAS) - 2
    safe = released(tmp_path, "safe.csv", safe_csv=True)
    assert not any(begins_a_formula(cell) for row in safe for cell in row)
    # Ids and kept fields as well as texts; and nothing else is changed.
    expected = [[f"'{cell}" if begins_a_formula(cell) else cell for cell in row] for row in bare]
    assert safe == expected


def test_numbers_are_no_formulas(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a", "n": -5}\n{"text": "b", "n": "-5"}\n', "utf-8")
    plan = Plan(fields=Fields(keep=("n",)), without_guarantee=True, safe_csv=True)
    privatize_file(source, tmp_path / "out.csv", KeptWords().fit(), plan=plan)
    rows = list(csv.reader((tmp_path / "out.csv").read_text("utf-8").splitlines()))
    assert [row[-1] for row in rows[1:]] == ["-5", "'-5"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.txt", "out.parquet"])
def test_other_formats_have_no_formulas(tmp_path: Path, name: str) -> None:
    source = tmp_path / "in.txt"
    source.write_text("=1\n", "utf-8")
    with pytest.raises(ConfigError, match="Expected safe_csv with format 'csv'"):
        privatize_file(source, tmp_path / name, KeptWords().fit(), plan=Plan(without_guarantee=True, safe_csv=True))
    assert not (tmp_path / name).exists()


def test_the_setting_belongs_to_the_run() -> None:
    """A run that began without it is not gone on with, nor the other way round."""
    mechanism, fields = KeptWords().fit(), Fields()
    bare, safe = (
        run_settings(mechanism.spec, mechanism.digests, Plan(fields=fields, safe_csv=safe_csv), secure(), None)
        for safe_csv in (False, True)
    )
    assert bare != safe
