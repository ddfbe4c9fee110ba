"""A table with texts in, a table with texts out: `dptext summarize --column` and `dptext write` from the shell."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptext as dp
from commands import dptext, in_turn
from dptext import sample_records
from dptext.errors import ConfigError
from dptext.runs import summarizing
from dptext.runs.summarizing import read_summary

N: Final = 400
SIZES: Final = ("small", "large")
COLUMNS: Final = (
    "--column", "size?: small|large", "--column", "paid: 0.00..99.99 by 10", "--column", "ticket: id",
    "--column", "day: 2024-01-01..2024-12-31 by quarter", "--column", "country: @countries.txt", "--pairs", "size+paid",
)  # fmt: skip
READ: Final = ("--public", "pool.jsonl", "--set", "encoder=glove", "--about", N, "--text-field", "body", "--epsilon", 8)
LABELLED: Final = ("--label-field", "topic", "--labels", "health,travel,money,leisure")
SECRET: Final = "Xanthippe"


def rows_of(n: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows with values that are listed, and with others. Large tickets are paid more."""
    rng = random.Random(seed)
    for i, each in enumerate(sample_records(n, seed=seed)):
        size = rng.choice(SIZES)
        paid = rng.uniform(60, 90) if size == "large" else rng.uniform(0, 30)
        yield {
            "ticket": f"{SECRET}-{i}", "topic": each.label, "size": size if i % 9 else None, "paid": round(paid, 2),
            "day": f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}", "country": ("Chile", "Peru", SECRET)[i % 3],
            "body": each.text,
        }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private table in four formats, a pool, and a summary of the first."""
    found = tmp_path_factory.mktemp("tables")
    rows = [*rows_of(N, 1)]
    with (found / "private.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (found / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pq.write_table(pa.Table.from_pylist(rows), found / "private.parquet")
    texts = [json.dumps({"body": each.text}) + "\n" for each in sample_records(150, seed=2)]
    (found / "pool.jsonl").write_text("".join(texts), "utf-8")
    (found / "countries.txt").write_text("Chile\nPeru\nKenya\n", "utf-8")
    ran(found, "summarize", "private.csv", "t.summary", *READ, *LABELLED, *COLUMNS, "--seed", 1)
    return found


def ran(folder: Path, *given: object) -> str:
    done = dptext(*given, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def mean_paid(rows: list[dict[str, Any]], size: str) -> float:
    own = [row["paid"] for row in rows if row["size"] == size and row["paid"] is not None]
    return sum(own) / len(own)


def test_the_same_numbers_come_of_each_format(folder: Path) -> None:
    """Seeded, so that the sums differ where a value is read differently."""
    first = read_summary(folder / "t.summary")[0]
    for name in ("private.jsonl", "private.parquet"):
        out = folder / f"{Path(name).suffix[1:]}.summary"
        ran(folder, "summarize", name, out, *READ, *LABELLED, *COLUMNS, "--seed", 1)
        found = read_summary(out)[0]
        assert {each: known.numbers.tolist() for each, known in found.known.items()} == {
            each: known.numbers.tolist() for each, known in first.known.items()
        }


def test_noisy_numbers_are_near_the_truth_and_no_private_value_is_there(folder: Path) -> None:
    found = read_summary(folder / "t.summary")[0]
    counted = {column.name: dict(zip(column.cells, column.counts, strict=True)) for column in found.report.columns}
    rows = [*rows_of(N, 1)]
    sizes = Counter("null" if row["size"] is None else row["size"] for row in rows)
    for size in (*SIZES, "null"):
        assert counted["size"][size] == pytest.approx(sizes[size], abs=40)
    assert counted["country"]["other"] == pytest.approx(N / 3, abs=40)
    for path in folder.glob("t.*"):
        assert SECRET.encode() not in path.read_bytes()


def test_rows_that_are_written_have_declared_values_and_the_relations_of_the_table(folder: Path) -> None:
    said = ran(folder, "write", "t.summary", "out.jsonl", "--writer", "pool", "--text-field", "body", "--label-field",
               "topic", "--size", 120, "--seed", 3)  # fmt: skip
    assert "Written: 120 texts to out.jsonl" in said
    rows = table(folder / "out.jsonl")
    assert [*rows[0]] == ["ticket", "body", "topic", "size", "paid", "day", "country"]
    assert all(re.fullmatch("[0-9a-f]{16}", row["ticket"]) for row in rows)
    assert {row["size"] for row in rows} <= {*SIZES, "other", None}
    assert {row["country"] for row in rows} <= {"Chile", "Peru", "Kenya", "other"}
    assert all(
        0 <= row["paid"] <= 99.99 and round(row["paid"], 2) == row["paid"] for row in rows if row["paid"] is not None
    )
    assert all(re.fullmatch(r"2024-\d\d-\d\d", row["day"]) for row in rows if row["day"] is not None)
    large, small = (mean_paid(rows, size) for size in reversed(SIZES))
    assert large > small + 20
    explained = ran(folder, "explain", "out.jsonl")
    assert "out.jsonl: 120 records, mechanism summary" in explained
    assert "Verified: the file has the bytes" in explained


def test_a_file_with_types_has_those_of_the_declarations(folder: Path) -> None:
    ran(folder, "write", "t.summary", "typed.parquet", "--writer", "pool", "--size", 100, "--rounded", "--drop-other")
    found = pq.read_table(folder / "typed.parquet")
    types = {each.name: str(each.type) for each in found.schema}
    assert types == {
        "ticket": "string", "body": "string", "topic": "string", "size": "string", "paid": "double",
        "day": "date32[day]", "country": "string",
    }  # fmt: skip
    assert "other" not in {*found["country"].to_pylist(), *found["size"].to_pylist()}
    ran(folder, "write", "t.summary", "plain.csv", "--writer", "pool", "--size", 50)
    with (folder / "plain.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["ticket", "body", "topic", "size", "paid", "day", "country"]


def test_columns_alone_need_no_label_and_take_texts_of_a_small_pool_often(folder: Path) -> None:
    said = ran(folder, "summarize", "private.csv", "alone.summary", *READ, *COLUMNS, "--text-follows", "none")
    assert "In rows that are written, beyond what noise explains: paid follows size." in said
    assert "Next: dptext summary show alone.summary; dptext write alone.summary" in said
    said = ran(folder, "write", "alone.summary", "alone.jsonl", "--size", 450)
    assert "Texts follow no column: none was measured with points or topics." in said
    assert "times on average" in said
    rows = table(folder / "alone.jsonl")
    assert len(rows) == len({row["ticket"] for row in rows}) == 450
    pool = {row["body"] for row in table(folder / "pool.jsonl")}
    assert {row["body"] for row in rows} <= pool
    mean = {size: [row["paid"] for row in rows if row["size"] == size and row["paid"] is not None] for size in SIZES}
    assert sum(mean["large"]) / len(mean["large"]) > sum(mean["small"]) / len(mean["small"]) + 20


def test_ids_of_several_rows_stand_beside_ids_of_rows(folder: Path) -> None:
    columns = ("--column", "ticket: id", "--column", "customer: id by 4", "--column", "size?: small|large")
    ran(folder, "summarize", "private.csv", "ids.summary", *READ, *columns, "--text-follows", "none")
    ran(folder, "write", "ids.summary", "ids.csv", "--size", 42)
    with (folder / "ids.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len({row["ticket"] for row in rows}) == 42
    assert sorted(Counter(row["customer"] for row in rows).values()) == [2, *[4] * 10]
    assert [row["customer"] for row in rows] != sorted(row["customer"] for row in rows)


def test_summaries_of_two_tables_add_up(folder: Path) -> None:
    ran(folder, "summarize", "private.jsonl", "like.summary", "--like", "t.summary", "--label-field", "topic",
        "--text-field", "body", "--epsilon", 2)  # fmt: skip
    ran(folder, "summary", "add", "t.summary", "like.summary", "sum.summary", "--disjoint")
    one, two, both = (read_summary(folder / f"{name}.summary")[0] for name in ("t", "like", "sum"))
    assert two.spec.pairs == one.spec.pairs
    assert both.known["columns size"].numbers == pytest.approx(
        one.known["columns size"].numbers + two.known["columns size"].numbers
    )
    ran(folder, "write", "sum.summary", "sum.jsonl", "--writer", "pool", "--size", 30)


def test_a_summary_shows_its_columns(folder: Path) -> None:
    shown = ran(folder, "summary", "show", "t.summary")
    for line in ("Column size:", "Column paid:", "Column day:", "Column country:"):
        assert line in shown
    assert len(shown.splitlines()) <= 50
    data = json.loads(ran(folder, "summary", "show", "t.summary", "--json"))
    assert [each["name"] for each in data["report"]["columns"]] == ["size", "paid", "day", "country"]
    page = (folder / "t.summary.topics.html").read_text("utf-8")
    assert "Column country" in page


def test_the_field_of_the_labels_names_them_in_pairs_and_labels_of_the_pool_are_said_to_be_unused(folder: Path) -> None:
    pool = [json.dumps({"body": each.text, "topic": each.label}) + "\n" for each in sample_records(150, seed=2)]
    (folder / "labelled.jsonl").write_text("".join(pool), "utf-8")
    given = ("summarize", "private.csv", "u.summary", "--public", "labelled.jsonl", *READ[2:])
    done = dptext(*given, *LABELLED, *COLUMNS[:-2], "--pairs", "size+topic,topic+paid", "--seed", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "150 public texts have these labels, which choose no texts" in done.stderr
    named = "Pairs of columns that are measured: label+paid, label+size. Not measured: "
    assert named in done.stdout
    assert "write u.summary u.written.csv --drop-other" in done.stdout
    assert named in " ".join(ran(folder, "summary", "show", "u.summary").split())
    assert summarizing.by_label({"pairs": ["a+b"], "columns": ["a: x|y"]}, "a")["pairs"] == ["a+b"]  # a column's own
    followed = [
        summarizing.by_label({"text_follows": each}, "a")["text_follows"] for each in (["a", "b"], ["a"], ["b"])
    ]
    assert followed == [["b"], ["none"], ["b"]]
    assert summarizing.by_label({"pairs": ["x\\+y+b", "b+x\\+y"]}, "x+y")["pairs"] == ["label+b", "b+label"]


def test_what_cannot_be_measured_or_written_is_refused_before_anything_is_read(folder: Path) -> None:
    measured = ("summarize", "private.csv", "no.summary", *READ)
    lines: dict[tuple[object, ...], str] = {
        (*measured, "--column", "size"): "to look like 'NAME: WHAT'",
        (*measured, "--column", "size: small|large", "--column", "size: 1..5"): "each column once",
        (*measured, "--column", "body: a|b"): "to be no other field",
        (*measured, *LABELLED, "--column", "topic: a|b"): "to be no other field, found that the field of",
        (*measured, "--column", "weight: 1..5"): "lacks a column that was named",
        (*measured, "--column", "size: @nowhere.txt"): "nowhere.txt",
        (*measured, "--column", "size: small|large", "--pairs", "size+weight"): "fewer than two columns",
        (*measured, *LABELLED, "--column", "label: small|large"): "no column 'label' beside labels",
        ("write", "t.summary", "no.txt", "--writer", "pool"): "no.txt",
        ("write", "t.summary", "no.jsonl", "--text-field", "paid"): "paid",
    }
    like = ("summarize", "private.csv", "no.summary", "--like", "t.summary", *LABELLED[:2], "--text-field", "body")
    lines |= {
        (*like, "--column", "x: a|b"): "Expected columns as in the summary of --like",
        ("write", "t.summary", "no.csv", "--text-field", "paid"): "a name that no column of the table has",
        ("write", "t.summary", "no.csv", "--label-field", "size"): "give --label-field NAME",
        (*measured, "--schema-from", "private.csv"): "found the private file private.csv",
        (*measured, "--schema-from", "copied.csv"): "found the private file copied.csv",
        (*measured, "--column", "size: small|large", "--text-follows", "weight"): "different columns that texts follow",
        (*measured, "--column", "size: small|large", "--text-follows", "size", "--without", "points"): "points=false",
    }
    (folder / "copied.csv").write_bytes((folder / "private.csv").read_bytes())
    before = {path.name for path in folder.iterdir()}
    for (given, said), done in zip(lines.items(), in_turn(*lines, cwd=folder), strict=True):
        assert done.returncode in (2, 4), (given, done.stderr)
        assert said in done.stderr, (given, done.stderr)
    assert {path.name for path in folder.iterdir()} == before


def test_columns_come_from_a_public_table_or_from_the_settings_file(folder: Path, tmp_path: Path) -> None:
    public = [{"body": "so", "topic": "travel", "size": "small", "paid": 0.5}, *[{"body": "no", "size": "large"}] * 2]
    (folder / "public.jsonl").write_text(
        "".join(json.dumps({**dict.fromkeys(public[0]), **row}) + "\n" for row in public)
    )
    given = ("summarize", "private.csv", "from.summary", *READ, *LABELLED, "--seed", 1, "--force")
    ran(folder, *given, "--schema-from", "public.jsonl", "--column", "paid: 0..99 by 33", "--text-follows", "none")
    found = read_summary(folder / "from.summary").summary.spec.columns  # in the order of the public table
    assert found == ("size: large|small", "paid: 0..99 by 33")
    ran(folder, *given, "--schema-from", "public.jsonl", "--column", "country: Chile|Peru", "--text-follows", "none")
    found = read_summary(folder / "from.summary").summary.spec.columns
    assert [each.partition(":")[0].rstrip("?") for each in found] == ["size", "paid", "country"]
    many = [{"body": "so", "size": "small" if i % 2 else "large", "note": f"note {i % 40}"} for i in range(300)]
    (folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in many))
    done = dptext(*given, "--schema-from", "many.jsonl", "--text-follows", "none", cwd=folder)
    assert "Of many.jsonl no declaration can be made of note: --column declares them." in done.stderr
    (tmp_path / "dptext.toml").write_text('[columns]\n"size?" = "small|large"\npaid = "0..99 by 33"\n')
    ran(folder, "--config", tmp_path / "dptext.toml", *given)
    spec = read_summary(folder / "from.summary").summary.spec
    assert spec.columns == ("size?: small|large", "paid: 0..99 by 33")
    assert spec.text_follows == ("size",)
    (tmp_path / "dptext.toml").write_text("[columns]\nsize = 3\n")
    done = dptext("--config", tmp_path / "dptext.toml", *given, cwd=folder)
    assert done.returncode == 2
    assert "[columns], which is of texts, found 'columns.size'." in done.stderr


@pytest.mark.parametrize("named", ["day size paid", "paid day size"])
def test_written_columns_are_in_the_order_of_their_declarations(named: str, folder: Path) -> None:
    """After id, text and label, which have no declaration, in each format that is written."""
    declarations = dict(zip(("size", "paid", "day"), (COLUMNS[1], COLUMNS[3], COLUMNS[7]), strict=True))
    columns = [part for name in named.split() for part in ("--column", declarations[name])]
    ran(folder, "summarize", "private.csv", "order.summary", *READ, *LABELLED, *columns, "--seed", 1, "--force")
    wanted = ["id", "body", "topic", *named.split()]
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        ran(folder, "write", "order.summary", f"order.{ending}", "--size", 9, "--force")
    for ending, sign in (("csv", ","), ("tsv", "\t")):
        assert (folder / f"order.{ending}").read_text("utf-8").splitlines()[0].split(sign) == wanted
    assert [*table(folder / "order.jsonl")[0]] == pq.read_schema(folder / "order.parquet").names == wanted
    refused = dptext("write", "order.summary", "order.xlsx", cwd=folder)
    assert refused.returncode == 2
    assert [*dp.write(folder / "order.summary", size=9).to_pandas().columns] == wanted


@pytest.mark.slow  # tests/unit/synthesis/test_text_follows.py writes in one process
def test_texts_follow_a_column_by_the_commands(folder: Path) -> None:
    measured = ("--column", "topic: health|travel|money|leisure", "--column", "size?: small|large")
    ran(folder, "summarize", "private.parquet", "f.summary", *READ, *measured, "--text-follows", "topic", "--seed", 1)
    said = ran(folder, "write", "f.summary", "f.csv", "--size", 300, "--text-field", "body", "--seed", 1)
    assert "Texts follow topic. A text that leaves does so" in said
    with (folder / "f.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 300
    topics = {each.text: each.label for each in sample_records(150, seed=2)}
    assert sum(topics[row["body"]] == row["topic"] for row in rows) > 200
    judged = ran(folder, "utility", "corpus", "private.csv", "f.csv", "--public", "pool.jsonl", "--text-field", "body",
                 "--seed", 1)  # fmt: skip
    assert "topic from text" in judged


def test_a_dry_run_says_how_columns_were_understood(folder: Path) -> None:
    said = ran(folder, "summarize", "private.csv", "no.summary", *READ, *LABELLED, *COLUMNS, "--dry-run")
    assert "Values and bins: size has 2 of them, the first is small, the last large; paid has 10 of them" in said
    assert "Pairs of columns that are measured: size+paid. Not measured: label+size, " in said


def test_values_of_a_file_are_read_in_python_and_from_a_settings_file(folder: Path) -> None:
    (folder / "spec.toml").write_text(f'[columns]\ncountry = "@{folder / "countries.txt"}"\n')
    ran(folder, "summarize", "private.csv", "spec.summary", *READ, "--spec", "spec.toml", "--text-follows", "none")
    made = dp.summarize(
        folder / "private.csv", [each.text for each in sample_records(50)], text="body", encoder="glove",
        columns={"country": f"@{folder / 'countries.txt'}"}, text_follows="none",
    )  # fmt: skip
    assert made.summary.spec.columns == read_summary(folder / "spec.summary").summary.spec.columns
    like: dict[str, Any] = {"like": folder / "spec.summary", "text": "body"}
    named = dp.summarize(folder / "private.csv", columns={"country": f"@{folder / 'countries.txt'}"}, **like)
    assert named.summary.spec.columns == made.summary.spec.columns
    (folder / "others.txt").write_text("Chile\nPeru\n")
    with pytest.raises(ConfigError, match="Expected columns as in the summary of --like"):
        dp.summarize(folder / "private.csv", columns={"country": f"@{folder / 'others.txt'}"}, **like)
    assert made.summary.spec.columns == ("country: Chile|Peru|Kenya",)


def test_columns_of_the_pool_leave_with_its_texts(folder: Path) -> None:
    """They are public: each text has its own, whatever its row says. New texts have none."""
    pool = [*table(folder / "pool.jsonl")]
    slots = {row["body"]: f"O {i}" for i, row in reversed([*enumerate(pool)])}
    lines = [
        json.dumps({**row, "slots": f"O {i}", "stars": i % 5 or None, "size": "small"}) for i, row in enumerate(pool)
    ]
    (folder / "annotated.jsonl").write_text("\n".join(lines), "utf-8")
    write = ("write", "t.summary", "--public", "annotated.jsonl", "--text-field", "body", "--force")
    ran(folder, *write[:2], "c.csv", *write[2:], "--carry", "slots,stars", "--size", 200, "--seed", 1)
    with (folder / "c.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 200
    assert all(row["slots"] == slots[row["body"]] for row in rows)
    assert {row["stars"] for row in rows} == {"", "1", "2", "3", "4"}
    assert [*rows[0]][-2:] == ["slots", "stars"]
    ran(folder, "explain", "c.csv")
    certificate = json.loads((folder / "c.csv.guarantee.json").read_text("utf-8"))
    assert certificate["derived"]["carry"] == ["slots", "stars"]
    made = dp.write(
        folder / "t.summary", public=folder / "annotated.jsonl", public_text="body", carry=("slots",), size=50, seed=1
    )
    assert all(each.kept["slots"] == slots[each.output] for each in made.releases)
    lacking = {
        ("t.summary", "no.csv", "--carry", "slots"): "found no pool",
        ("t.summary", "no.csv", *write[2:], "--carry", "size"): "under names of their own, found 'size' twice",
        ("t.summary", "no.csv", *write[2:], "--carry", "weight"): "'weight'",
        ("t.summary", "no.csv", *write[2:], "--writer", "model:here", "--carry", "slots"): "whose texts are new",
    }
    ran_all = in_turn(*(("write", *given) for given in lacking), cwd=folder)
    for (given, said), done in zip(lacking.items(), ran_all, strict=True):
        assert done.returncode in (2, 4), (given, done.stderr)
        assert said in done.stderr, (given, done.stderr)
