"""Columns of public texts that leave with them: `--carry` of `synthesize`, and of `fit` for `candidates`."""

from __future__ import annotations

import csv
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

import dptext as dp
from commands import dptext, in_turn
from dptext import sample_records
from dptext.errors import ConfigError, DataError

LABELS: Final = ("--labels", "health,travel,money,leisure", "--label-field", "topic")
SMALL: Final = ("--encoder", "glove", "--set", "words=8", "--set", "topics=4", "--epsilon", "2", "--text-field", "body")
CHOSEN: Final = ("--mechanism", "candidates", "--set", "ranker=tfidf", "--epsilon", "4", "--text-field", "body")


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private corpus without slots, and a pool that has them."""
    found = tmp_path_factory.mktemp("carried")
    private = [{"body": r.text, "topic": r.label, "product": "kettle"} for r in sample_records(300, seed=1)]
    pool = [
        {"body": r.text, "topic": r.label, "slots": f"O {i}", "stars": i % 5 or None}
        for i, r in enumerate(sample_records(150, seed=2))
    ]
    lines(found / "private.jsonl", private)
    lines(found / "pool.jsonl", pool)
    return found


def slots(folder: Path) -> dict[str, str]:
    """The slots of each text of the pool; the first where a text stands twice."""
    rows = [json.loads(line) for line in (folder / "pool.jsonl").read_text("utf-8").splitlines()]
    return {row["body"]: row["slots"] for row in reversed(rows)}


def ran(folder: Path, *given: object) -> str:
    """Run a command, and return what it printed."""
    (done,) = in_turn(tuple(map(str, given)), cwd=folder)
    assert done.returncode == 0, (given, done.stderr)
    return str(done.stdout)


def read(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


@pytest.mark.parametrize("way", ["prototypes", "votes"])
def test_slots_leave_with_a_corpus(folder: Path, way: str) -> None:
    labels = LABELS if way == "prototypes" else ()
    out = f"{way}.csv"
    ran(
        folder, "synthesize", "private.jsonl", out, "--public", "pool.jsonl", "-m", way, *labels, *SMALL,
        "--carry", "slots,stars",
    )  # fmt: skip
    rows, own = read(folder / out), slots(folder)
    assert len(rows) > 30
    assert [*rows[0]] == ["id", "body", *(["topic"] if labels else []), "slots", "stars"]
    assert all(row["slots"] == own[row["body"]] for row in rows)
    assert {row["stars"] for row in rows} == {"", "1", "2", "3", "4"}
    ran(folder, "explain", out)  # the certificate is of the file as it is


def test_slots_leave_with_a_corpus_in_python(folder: Path) -> None:
    made = dp.synthesize(
        folder / "private.jsonl", folder / "pool.jsonl", kind="votes", text="body", carry=["slots"], encoder="glove",
        words=8, topics=4,
    )  # fmt: skip
    own = slots(folder)
    assert all(each.kept == {"slots": own[each.output]} for each in made.releases)
    assert [*made.to_dict()] == ["id", "body", "slots"]
    made.write(folder / "python.jsonl")
    ran(folder, "explain", "python.jsonl")


@pytest.mark.slow_cases("many", why="a file stays; a folder has the same layout, and tests/unit/batch has its workers")
@pytest.mark.parametrize("source", ["private.jsonl", "many"])
def test_slots_leave_with_candidates(folder: Path, source: str) -> None:
    """Also from a folder, whose workers load the model; and beside a public field of the private records."""
    if source == "many" and not (folder / source).exists():
        (folder / source).mkdir()
        rows = (folder / "private.jsonl").read_text("utf-8").splitlines(keepends=True)
        for i in range(2):
            (folder / source / f"{i}.jsonl").write_text("".join(rows[i::2]), "utf-8")
    model, out = f"model-{source}", f"candidates-{source}"
    ran(folder, "fit", *CHOSEN, "--public", "pool.jsonl", "--carry", "slots,stars", "--out", model)
    target = f"{out}.csv" if source == "private.jsonl" else out
    ran(folder, "privatize", source, target, "--model", model, "--text-field", "body", "--keep", "product")
    if source == "many":
        found = [
            json.loads(line)
            for file in (folder / out).rglob("*.jsonl")
            for line in file.read_text("utf-8").splitlines()
        ]
    else:
        found = read(folder / target)
        assert [*found[0]] == ["id", "body", "product", "slots", "stars"]
    own = slots(folder)
    assert len(found) == 300
    assert all((row["slots"], row["product"]) == (own[row["body"]], "kettle") for row in found)
    assert len({row["slots"] for row in found}) > 20
    ran(folder, "explain", target)


def test_types_of_the_private_file_are_not_those_of_public_columns(folder: Path) -> None:
    """A private column of the same name and of another type does not end a run that was charged."""
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa  # an extra

    rows = [json.loads(line) for line in (folder / "private.jsonl").read_text("utf-8").splitlines()]
    own = {"body": [row["body"] for row in rows], "slots": [*range(len(rows))], "stars": ["none"] * len(rows)}
    pq.write_table(pa.table(own), folder / "typed.parquet")
    ran(folder, "fit", *CHOSEN, "--public", "pool.jsonl", "--carry", "slots,stars", "--out", "typed-model")
    ran(folder, "privatize", "typed.parquet", "typed-out.parquet", "--model", "typed-model", "--text-field", "body")
    found, known = pq.read_table(folder / "typed-out.parquet").to_pylist(), slots(folder)
    assert all(row["slots"] == known[row["body"]] for row in found)
    assert {row["stars"] for row in found} == {None, 1, 2, 3, 4}


def test_numbers_leave_as_numbers_in_parquet(folder: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    ran(folder, "synthesize", "private.jsonl", "votes.parquet", "--public", "pool.jsonl", "-m", "votes", *SMALL,
        "--carry", "slots,stars")  # fmt: skip
    table = pq.read_table(folder / "votes.parquet")
    assert [str(each) for each in table.schema.types] == ["string", "string", "string", "int64"]
    assert {*table.column("stars").to_pylist()} == {None, 1, 2, 3, 4}


def test_candidates_choose_as_they_do_without_columns(folder: Path) -> None:
    """What is carried is joined after the choice: text, guarantee and digest are those without it."""
    pool = [
        dp.Record(str(i), row.text, row.label, kept={"slots": f"O {i}"})
        for i, row in enumerate(sample_records(80, seed=5))
    ]
    private = [row.text for row in sample_records(40, seed=6)]
    bare = dp.Candidates(epsilon=3, ranker="tfidf")
    plain, carrying = bare.fit(public=pool, seed=1), dp.Candidates(epsilon=3, ranker="tfidf", carry=("slots",))
    fitted = carrying.fit(public=pool, seed=1)
    drawn = [dp.privatize(private, each, randomness=dp.randomness.seeded(7)).to_records() for each in (plain, fitted)]
    assert [each.output for each in drawn[0]] == [each.output for each in drawn[1]]
    assert plain.spec.guarantee() == fitted.spec.guarantee()
    assert {tuple(each.kept) for each in drawn[1]} == {("slots",)}
    with pytest.raises(ConfigError, match="keep slots"):
        carrying.fit(public=[dp.Record("0", "a"), dp.Record("1", "b")])


def test_what_cannot_be_carried_is_refused_before_anything_is_charged(folder: Path) -> None:
    corpus = ("synthesize", "private.jsonl", "no.csv", "--public", "pool.jsonl", *SMALL)
    fit = ("fit", "--public", "pool.jsonl", "--text-field", "body", "--out", "no")
    ran(folder, "fit", *CHOSEN, "--public", "pool.jsonl", "--carry", "slots", "--out", "taken")
    cases = {
        (*corpus, *LABELS, "--carry", "weight"): "name it with --carry on the command line, carry= in Python",
        (*corpus, *LABELS, "--carry", "topic"): "topic",
        (*corpus, *LABELS, "--carry", "slots,slots"): "slots",
        (*corpus, "-m", "topics", "--carry", "slots"): "releases no such texts",
        (*fit, "--mechanism", "candidates", "--epsilon", "4", "--set", "ranker=tfidf", "--carry", "weight"): "'weight'",
        (*fit, "--mechanism", "erae", "--carry", "slots"): "'carry'",
        (*fit, *CHOSEN[:-2], "--carry", "id"): "found 'id' in --carry, which `privatize` writes",
        (*fit, *CHOSEN[:-2], "--carry", "slots,body"): "found 'body' in --carry",
        ("privatize", "private.jsonl", "no.csv", "--model", "taken", "--text-field", "slots"): "slots",
        ("privatize", "pool.jsonl", "no.csv", "--model", "taken", "--text-field", "body", "--keep", "slots"): "slots",
    }
    for (given, said), done in zip(cases.items(), in_turn(*cases, cwd=folder), strict=True):
        assert done.returncode in (2, 4), (given, done.stderr)
        assert said in done.stderr, (given, done.stderr)
        assert not (folder / "no.csv").exists()


@pytest.mark.parametrize("command", ["summarize", "synthesize"])
def test_labels_leave_in_the_type_of_public_ones(folder: Path, command: str) -> None:
    """The private file says nothing: its types may follow the value of one record."""
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa  # an extra

    rows = sample_records(200, seed=1)
    stars = {label: i + 1 for i, label in enumerate(sorted({each.label or "" for each in rows}))}
    own = {"body": [each.text for each in rows], "stars": [stars[each.label or ""] for each in rows]}
    pq.write_table(pa.table(own), folder / "stars.parquet")
    texts = [each.text for each in sample_records(150, seed=2)]
    pq.write_table(pa.table({"body": texts, "stars": [i % 4 + 1 for i in range(150)]}), folder / "typed.parquet")
    given = ("--label-field", "stars", "--labels", "1,2,3,4", *SMALL, "--force")
    rows_of = [{"body": text, "stars": i % 4 + 1} for i, text in enumerate(texts)]
    lines(folder / "typed-pool.jsonl", rows_of)
    lines(folder / "texts.jsonl", [{**row, "stars": str(row["stars"])} for row in rows_of])
    for pool, wanted in (("typed.parquet", int), ("typed-pool.jsonl", int), ("texts.jsonl", str)):
        out = f"typed.{'summary' if command == 'summarize' else 'jsonl'}"
        ran(folder, command, "stars.parquet", out, "--public", pool, *given)
        if command == "summarize":
            ran(folder, "write", out, "typed.jsonl", "--label-field", "stars", "--text-field", "body", "--force")
        found = [json.loads(line) for line in (folder / "typed.jsonl").read_text("utf-8").splitlines()]
        assert {type(row["stars"]) for row in found} == {wanted}


TYPED: Final[dict[str, tuple[str, Any]]] = {
    "day": ("date32", [dt.date(2024, 5, 1 + i % 28) if i % 7 else None for i in range(150)]),
    "at": ("timestamp[us]", [dt.datetime(2024, 5, 1, 8, i % 60) for i in range(150)]),
    "price": ("decimal128", [Decimal("1.50") * i for i in range(150)]),
    "small": ("int8", [i % 5 for i in range(150)]),
    "kind": ("dictionary", ["a", None, "b"] * 50),
    "yes": ("bool", [True, False] * 75),
}


def typed_pool() -> Any:
    """A public table that declares types."""
    pa = pytest.importorskip("pyarrow")
    kinds = {
        "day": pa.date32(), "at": pa.timestamp("us"), "price": pa.decimal128(7, 2), "small": pa.int8(),
        "kind": pa.dictionary(pa.int32(), pa.string()), "yes": pa.bool_(),
    }  # fmt: skip
    texts = {"body": [row.text for row in sample_records(150, seed=2)]}
    return pa.table(texts | {name: pa.array(own, kinds[name]) for name, (_, own) in TYPED.items()})


def carried_types(path: Path) -> dict[str, str]:
    """The types of the carried columns of a Parquet file."""
    import pyarrow.parquet as pq  # an extra

    schema = pq.read_schema(path)
    return {name: str(schema.field(name).type) for name in TYPED}


def test_carried_columns_leave_with_the_types_of_the_public_file(folder: Path) -> None:
    """By each command that takes `--carry`: in Parquet, and as the same values in JSON Lines."""
    pq = pytest.importorskip("pyarrow.parquet")
    pool, carry = typed_pool(), ("--carry", ",".join(TYPED))
    pq.write_table(pool, folder / "pool.parquet")
    known = {row["body"]: row for row in reversed(pool.to_pylist())}
    public, own = ("--public", "pool.parquet"), ("--text-field", "body", "--force")
    ran(folder, "synthesize", "private.jsonl", "a.parquet", *public, "-m", "votes", *SMALL, *carry, "--force")
    ran(folder, "summarize", "private.jsonl", "a.summary", *public, *SMALL, "--force")
    ran(folder, "write", "a.summary", "b.parquet", *public, "--writer", "pool", *own, *carry)
    ran(folder, "fit", *CHOSEN, *public, *carry, "--out", "dated")
    for out in ("c.parquet", "c.jsonl"):
        ran(folder, "privatize", "private.jsonl", out, "--model", "dated", *own)
    wanted = {name: str(pool.schema.field(name).type) for name in TYPED}
    for out in ("a.parquet", "b.parquet", "c.parquet"):
        assert carried_types(folder / out) == wanted, out
        rows = pq.read_table(folder / out).to_pylist()
        assert all(row[name] == known[row["body"]][name] for row in rows for name in TYPED), out
    row = json.loads((folder / "c.jsonl").read_text("utf-8").splitlines()[0])
    assert (row["small"], row["yes"]) == tuple(known[row["body"]][name] for name in ("small", "yes"))
    assert row["at"] == known[row["body"]]["at"].isoformat()


@pytest.mark.parametrize("source", ["arrow", "pandas", "polars", "rows"])
def test_carried_columns_of_frames_leave_with_their_types(folder: Path, source: str) -> None:
    """What has a schema says the types; of objects of Python, the values of the whole public table do."""
    pool = typed_pool()
    given = {
        "arrow": lambda: pool, "pandas": pool.to_pandas, "rows": pool.to_pylist,
        "polars": lambda: pytest.importorskip("polars").from_arrow(pool),
    }[source]()  # fmt: skip
    carry = ("day", "at", "small", "yes")
    fitted = dp.fit(dp.Candidates(epsilon=4, ranker="tfidf", carry=carry), given, text="body")
    texts = [row.text for row in sample_records(30, seed=1)]
    found = dp.privatize(texts, fitted)
    found.write(folder / f"{source}.parquet")
    import pyarrow.parquet as pq  # an extra

    schema = pq.read_schema(folder / f"{source}.parquet")
    wanted = {
        "day": "date32[day]",
        "at": "timestamp[us]",
        "small": "int64" if source == "rows" else "int8",
        "yes": "bool",
    }
    assert {name: str(schema.field(name).type) for name in carry} == wanted
    assert str(found.to_pandas()["at"].dtype).startswith("datetime64")
    assert all(type(each) in (dt.date, type(None)) for each in found.to_pandas()["day"])
    features = found.to_dataset().features
    assert (features["day"].dtype, features["small"].dtype) == ("date32", wanted["small"])
    dp.save_model(fitted, folder / f"model-{source}")
    assert dp.load_model(folder / f"model-{source}").spec == fitted.spec


def test_a_corpus_as_frames_has_the_types_of_the_pool(folder: Path) -> None:
    made = dp.synthesize(
        texts_of(folder), typed_pool(), kind="votes", text="body", carry=[*TYPED], encoder="glove", words=8, topics=4
    )
    pandas = made.to_pandas()
    assert {name: str(pandas[name].dtype) for name in ("small", "kind", "yes")} == {
        "small": "int8", "kind": "category", "yes": "bool"
    }  # fmt: skip
    assert str(made.to_polars()["day"].dtype) == "Date"
    assert made.to_dataset().features["price"].dtype == "decimal128(7, 2)"
    assert [*made.to_dataset().features] == [*made.to_dict()]


def texts_of(folder: Path) -> list[dict[str, Any]]:
    """The private rows."""
    return [json.loads(line) for line in (folder / "private.jsonl").read_text("utf-8").splitlines()]


def test_types_of_settings_are_checked_when_they_are_fitted(folder: Path) -> None:
    pool = [{"text": row.text, "day": "soon"} for row in sample_records(40, seed=2)]
    for types in (("date",), ("int64", "bool"), "int64"):
        with pytest.raises(ConfigError, match="type"):
            dp.Candidates(epsilon=3, ranker="tfidf", carry=("day",), carry_types=types)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="not of its column's type"):
        dp.fit(dp.Candidates(epsilon=3, ranker="tfidf", carry=("day",), carry_types=("date32[day]",)), pool)


def test_columns_of_a_folder_of_public_files_leave(tmp_path: Path) -> None:
    """The types of their values are found before anything is drawn."""
    records = dp.sample_records(220, seed=1)
    (tmp_path / "pool").mkdir()
    for name, part in (
        ("in.jsonl", records[:100]),
        ("pool/a.jsonl", records[100:160]),
        ("pool/b.jsonl", records[160:]),
    ):
        rows = [{"text": each.text, "label": each.label, "n": i, "slots": "O O"} for i, each in enumerate(part)]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("--public", "pool", "--label-field", "label", "--labels", "health,travel", "--about", 100, "--encoder",
             "glove", "--epsilon", 2)  # fmt: skip
    for command in (
        ("synthesize", "in.jsonl", "a.jsonl", *given, "--set", "size=9", "--carry", "n,slots"),
        ("summarize", "in.jsonl", "b.summary", *given),
        ("write", "b.summary", "b.jsonl", "--writer", "pool", "--public", "pool", "--carry", "n,slots"),
        ("fit", "--mechanism", "candidates", "--epsilon", 8, "--set", "ranker=tfidf", "--public", "pool", "--carry",
         "n,slots", "--out", "m"),
        ("privatize", "in.jsonl", "c.jsonl", "--model", "m"),
    ):  # fmt: skip
        done = dptext(*map(str, command), cwd=tmp_path)
        assert done.returncode == 0, (command[0], done.stderr)
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert rows
        assert all(type(row["n"]) is int and row["slots"] == "O O" for row in rows)
    (tmp_path / "pool" / "in.jsonl").write_bytes((tmp_path / "in.jsonl").read_bytes())
    for command in (("synthesize", "in.jsonl", "d.jsonl"), ("summarize", "in.jsonl", "d.summary")):
        refused = dptext(*map(str, (*command, *given)), cwd=tmp_path)
        assert refused.returncode == 2
        assert "public pool other than the private corpus" in refused.stderr
