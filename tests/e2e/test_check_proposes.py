"""What `dptext check` proposes: for many files, with the fields that were named, and without loss of a column."""

from __future__ import annotations

import csv
import json
import random
import shlex
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

import dptext as dp
from commands import dptext

COLUMNS: Final = ("ticket", "product", "priority", "date", "amount", "body", "team")
FAST: Final = ("--set", "encoder=glove", "--set", "words=8")


def tickets(n: int, seed: int) -> list[dict[str, str]]:
    drawn = random.Random(seed)
    return [
        {
            "ticket": f"T-{seed}{i:04d}",
            "product": drawn.choice(("app", "mail", "web")),
            "priority": drawn.choice(("low", "high")),
            "date": str(date(2026, 1, 1) + timedelta(days=drawn.randrange(300))),
            "amount": f"{10 + i * 1.37:.2f}",  # all different, as amounts of a small table are
            "body": record.text,
            "team": str(record.label),
        }
        for i, record in enumerate(dp.sample_records(n, seed=seed))
    ]


def written(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def ran(folder: Path, *given: object, code: int = 0) -> str:
    done = dptext(*given, cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def commands(shown: str, **given: str) -> list[list[str]]:
    """The commands that are proposed, with what the user has to fill in."""
    lines = [line for line in shown.splitlines() if line.startswith("  dptext ")]
    return [[given.get(part, part) for part in shlex.split(line)[1:]] for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("checked")
    rows = tickets(240, 1)
    written(found / "private.csv", rows)
    written(found / "public.csv", tickets(200, 2))
    written(found / "many" / "a.csv", rows[:100])
    written(found / "many" / "deep" / "b.csv", rows[100:200])
    (found / "many" / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[200:]), "utf-8")
    (found / "many" / "none.csv").write_text("nothing\n", "utf-8")  # writers of folders leave such files
    return found


def test_what_is_proposed_of_a_table_keeps_the_name_of_each_column(folder: Path) -> None:
    shown = ran(folder, "check", "private.csv", "--label-field", "team")
    declared = [shlex.split(line)[1] for line in shown.splitlines() if line.startswith("  --column ")]
    assert [line.partition(":")[0] for line in declared] == ["ticket", "product", "priority", "date", "amount"]
    assert "ticket: id" in declared
    assert "amount: 0.00..350.00 by 50.00" in declared  # an amount is no id, also where no two are alike
    teach, measure, write = commands(shown, PUBLIC="public.csv", N="240", **{"A,B": "health,travel,money,leisure"})
    assert "What a corpus could teach lies between" in ran(folder, *teach, "--encoder", "glove")
    assert measure[measure.index("--label-field") + 1] == "team"
    columns = [part for line in declared for part in ("--column", line)]
    ran(folder, *measure, *columns, *FAST)
    ran(folder, *write)
    with (folder / "private.written.csv").open(newline="", encoding="utf-8") as file:
        assert sorted(next(csv.reader(file))) == sorted(COLUMNS)


def test_public_labels_that_are_given_stand_in_the_command(folder: Path) -> None:
    given = ("--label-field", "team", "--label", "health", "--label", "a kind")
    _, measure, _ = commands(ran(folder, "check", "private.csv", *given))
    assert measure[measure.index("--labels") + 1] == "health,a kind"
    assert "--with" not in measure
    shown = ran(folder, "check", "private.csv")
    plain, _ = commands(shown)
    assert (
        "'product', 'priority', 'team' could hold labels: pass --label-field product --labels A,B in place of" in shown
    )
    assert "--labels" not in plain
    assert plain[plain.index("--with") + 1] == "topics"


def test_words_come_before_numbers_among_possible_labels_and_no_days(tmp_path: Path) -> None:
    values = {"day": [f"2026-05-{i % 3 + 1:02d}" for i in range(12)], "stars": [str(i % 4) for i in range(12)]}
    values |= {"topic": [("app", "mail")[i % 2] for i in range(12)], "text": [f"it is so {i}" for i in range(12)]}
    written(tmp_path / "in.csv", [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)])
    assert "\n'topic', 'stars' could hold labels: pass --label-field topic " in ran(tmp_path, "check", "in.csv")


def test_repeated_texts_are_to_be_decided(tmp_path: Path) -> None:
    rows = [{"text": f"so it is {i % 9}", "user_id": f"u{i % 4}", "n_words": 7 * (i % 8)} for i in range(12)]
    written(tmp_path / "in.csv", rows)  # numbers of words name nobody
    shown = ran(tmp_path, "check", "in.csv")
    assert shown.splitlines()[0].endswith(" To decide: 3 texts repeated (see Again).")
    assert "\nAgain  guarantees per document assume that no document stands in two records: " in shown
    assert "\nWho    'user_id' may name authors" in shown
    written(tmp_path / "in.csv", rows[:9])
    shown = ran(tmp_path, "check", "in.csv")
    assert "repeated (see Again)" not in shown
    assert "\nAgain" not in shown


@pytest.mark.parametrize("place", ["many", "many/", "{}/many"])
def test_a_folder_is_counted_as_one_file_of_the_same_rows_is(place: str, folder: Path) -> None:
    one, many = (
        json.loads(ran(folder, "check", path, "--label-field", "team", "--json"))
        for path in ("private.csv", place.format(folder.as_uri()))
    )
    assert (one.pop("files"), many.pop("files")) == (1, 4)
    assert one.pop("language")["code"] == many.pop("language")["code"] == "en"
    assert many == one


def test_the_commands_for_a_folder_work(folder: Path) -> None:
    shown = ran(folder, "check", "many")
    assert "\nFile   4 files of csv, jsonl, parted by comma, utf-8; a record is a row\n" in shown
    assert "dptext init" not in shown  # init takes one file
    measure, write = commands(shown, PUBLIC="public.csv", N="240")
    ran(folder, *measure, *FAST)
    ran(folder, *write)
    assert (folder / "many.written.csv").is_file()


def test_a_glob_is_quoted_and_its_summary_has_a_name_without_signs(folder: Path) -> None:
    shown = ran(folder, "check", "many/*.csv")
    assert "  dptext summarize 'many/*.csv' corpus.summary " in shown
    assert shown.startswith("many/*.csv holds 100 rows that can be read; ")
    assert "found none" in ran(folder, "check", "none/*.csv", code=2)


def test_files_of_several_forms_and_a_broken_one_are_named(folder: Path, tmp_path: Path) -> None:
    written(tmp_path / "two" / "a.csv", tickets(20, 3))
    written(tmp_path / "two" / "b.csv", tickets(20, 4), ";")
    (tmp_path / "two" / "c.jsonl").write_text(json.dumps(tickets(1, 5)[0]) + "\n{\n", "utf-8")
    shown = ran(tmp_path, "check", "two")
    assert "parted by comma or semicolon" in shown
    assert "Commands take one --delimiter and one --encoding for all files" in shown
    assert "(first: record 2 of two/c.jsonl: the line is not valid JSON; --on-error skip)" in shown
    said = ran(tmp_path, "check", "two", "--label-field", "tim", code=4)
    assert said.startswith("dptext: two/a.csv, record 1: the header has no column 'tim'")


def test_a_saved_data_set_and_a_folder_of_plain_texts_are_taken_as_summarize_takes_them(tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")
    rows = [{"body": each["body"], "kind": i % 2} for i, each in enumerate(tickets(40, 1))]
    features = datasets.Features(body=datasets.Value("string"), kind=datasets.ClassLabel(names=["good", "bad"]))
    datasets.Dataset.from_list(rows, features=features).save_to_disk(tmp_path / "saved")
    shown = ran(tmp_path, "check", "saved", "--label-field", "kind", "--label", "good", "--label", "bad")
    assert "40 of 40 records have one of the 2 public labels in the field 'kind'." in shown
    assert "File   arrow, as datasets saves it; a record is a row" in shown
    assert json.loads(ran(tmp_path, "check", "saved", "--json"))["format"] == "arrow"
    assert "no column 'tim'" in ran(tmp_path, "check", "saved", "--label-field", "tim", code=4)
    for i in range(3):
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / f"{i}.txt").write_text(f"a note\n\nnumber {i}\n", "utf-8")
    assert "\nFile   3 files of text, utf-8; a record is a file\n" in ran(tmp_path, "check", "notes")
    assert "holds 6 rows" in ran(tmp_path, "check", "notes", "--record", "block")
