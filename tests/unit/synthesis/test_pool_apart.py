"""The pool is not the private corpus: by another name, as a copy, in another order or format, it is refused unpaid."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from dptext.batch.corpora import synthesize_dataset
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Trust
from dptext.runs.apart import Found, Pool, refuse_same
from dptext.runs.specs import synthesis_from_settings
from dptext.text.records import Fields

TEXTS = [record.text for record in dp.sample_records(60)]
SETTINGS: dict[str, Any] = {"kind": "votes", "encoder": "glove", "words": 8, "topics": 4, "dim": 8, "epsilon": 2}
LIMIT = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)


def lines(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def in_folder(pool: Path) -> str:
    folder = pool.parent / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(["another"]))
    (folder / "b.jsonl").write_bytes(pool.read_bytes())
    return str(folder)


def linked(how: Callable[[Path, Path], None]) -> Callable[[Path], str]:
    def go(pool: Path) -> str:
        other = pool.parent / "other.jsonl"
        how(pool, other)
        return str(other)

    return go


def quoted(pool: Path) -> str:
    strange = pool.parent / "a pool.jsonl"
    pool.rename(strange)
    pool.symlink_to(strange)
    return f"file://localhost{strange.parent}/a%20pool.jsonl"


PLACES: dict[str, Callable[[Path], str]] = {
    "path": str,
    "URL": lambda pool: f"file://{pool}",
    "quoted URL": quoted,
    "symbolic link": linked(lambda pool, other: other.symlink_to(pool)),
    "hard link": linked(os.link),
    "copy": linked(lambda pool, other: other.write_bytes(pool.read_bytes()) and None),
    "folder": lambda pool: str(pool.parent),
    "folder with a copy": in_folder,
    "glob": lambda pool: f"{pool.parent}/*.jsonl",
    "URL of a folder": lambda pool: f"file://{pool.parent}/",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_place_of_the_pool_by_another_name_is_refused(place: str, tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    pool.write_bytes(lines(TEXTS))
    with pytest.raises(ConfigError, match="public pool other than the private corpus"):
        refuse_same(PLACES[place](pool), pool)
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "private.jsonl").write_bytes(lines(["another", *TEXTS[1:]]))
    for fine in (str(other), f"file://{other}/private.jsonl", other / "private.jsonl", f"{other}/*", "s3://bucket/in"):
        refuse_same(fine, pool)
    with pytest.raises(ConfigError, match="public pool other than the private corpus"):
        refuse_same("s3://bucket/in/", "s3://bucket/in")


def of(name: str) -> Any:
    """The pool as something else."""
    mixed = random.Random(0).sample(TEXTS, len(TEXTS))
    match name:
        case "list":
            return list(TEXTS)
        case "records":
            return [dp.Record(f"x{i}", text, "label") for i, text in enumerate(TEXTS)]
        case "rows":
            return [{"text": text, "more": 1} for text in mixed]
        case "iterator":
            return iter(mixed)
        case "repeated":
            return [*mixed, *TEXTS[:9], "", "\u200b"]
        case "series":
            return pytest.importorskip("pandas").DataFrame({"text": TEXTS})["text"]
        case "arrow":
            return pytest.importorskip("pyarrow").table({"text": mixed})
        case _:
            return pytest.importorskip("datasets").Dataset.from_dict({"text": mixed})


@pytest.mark.parametrize("name", ["list", "records", "rows", "iterator", "repeated", "series", "arrow", "Dataset"])
def test_the_texts_of_the_pool_are_refused_in_memory(name: str, tmp_path: Path) -> None:
    books = dp.Ledger.create(tmp_path / "books.db")
    books.open_account("all", LIMIT)
    with pytest.raises(ConfigError, match="texts of both are the same"):
        dp.synthesize(of(name), TEXTS, **SETTINGS, payment=dp.Payment(books, "all"))
    assert not list(books.log("all"))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl.gz", "a.json", "folder"])
def test_the_texts_of_the_pool_are_refused_in_files(name: str, tmp_path: Path) -> None:
    """A folder is read by workers, each of whom sees a part."""
    books = dp.Ledger.create(tmp_path / "books.db")
    books.open_account("all", LIMIT)
    payment, path = dp.Payment(books, "all"), tmp_path / name
    mixed = random.Random(0).sample(TEXTS, len(TEXTS))
    if name == "folder":
        path.mkdir()
        for i in range(3):
            (path / f"{i}.jsonl").write_bytes(lines(mixed[i::3]))
        fitted = synthesis_from_settings(SETTINGS).fit(public=[dp.Record("", text) for text in TEXTS])
        plan, workers = dp.Plan(Fields()), dp.Workers(n=1)
        with pytest.raises(ConfigError, match="texts of both are the same"):
            synthesize_dataset(path, fitted, plan=plan, workers=workers, payment=payment)
        (path / "3.jsonl").write_bytes(lines(["another"]))
        synthesize_dataset(path, fitted, plan=plan, workers=workers, payment=payment)
        assert len(list(books.log("all"))) == 1
        return
    held = {
        "a.csv": "text\n" + "".join('"' + text.replace('"', '""') + '"\n' for text in mixed),
        "a.json": json.dumps([{"text": text} for text in mixed]),
    }
    path.write_bytes(gzip.compress(lines(mixed)) if name.endswith("gz") else held[name].encode())
    with pytest.raises(ConfigError, match="texts of both are the same"):
        dp.synthesize(path, TEXTS, **SETTINGS, payment=payment)
    assert not list(books.log("all"))


def test_single_texts_are_not_compared() -> None:
    """A refusal by one text would tell that somebody wrote it."""
    for private in (TEXTS[1:], [*TEXTS, "another"], TEXTS[:1], []):
        assert dp.synthesize(private, TEXTS, **SETTINGS).releases


def test_what_a_worker_finds_has_one_length() -> None:
    pool = Pool.of(TEXTS)
    sizes = set()
    for texts in ([], TEXTS[:1], TEXTS, ["another"]):
        found = Found(pool)
        found.add(texts)
        sizes.add(len(found.to_bytes()))
        again = Found.from_bytes(pool, found.to_bytes())
        assert (again.other, again.bits) == (found.other, found.bits)
    assert len(sizes) == 1
