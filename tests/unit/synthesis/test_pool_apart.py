"""The pool is not the private corpus: by another name, or as a copied file, it is refused. Texts are not compared."""

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
from dptext.runs.apart import refuse_same
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


def test_the_same_object_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    books = dp.Ledger.create(tmp_path / "books.db")
    books.open_account("all", LIMIT)
    with pytest.raises(ConfigError, match="public pool other than the private corpus"):
        dp.synthesize(TEXTS, TEXTS, **SETTINGS, payment=dp.Payment(books, "all"))
    assert not list(books.log("all"))


def test_no_refusal_tells_which_texts_the_corpus_has(tmp_path: Path) -> None:
    """A refusal of a pool with the texts of the corpus was an answer without noise, which one record changes."""
    for private in (random.Random(0).sample(TEXTS, len(TEXTS)), TEXTS[1:]):
        assert dp.synthesize(private, TEXTS, **SETTINGS).releases
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(lines(TEXTS)))
    assert dp.synthesize(path, TEXTS, **SETTINGS).releases


def test_no_refusal_tells_which_texts_the_files_of_a_folder_have(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.jsonl").write_bytes(lines(TEXTS[i::3]))
    fitted = synthesis_from_settings(SETTINGS).fit(public=[dp.Record("", text) for text in TEXTS])
    assert synthesize_dataset(tmp_path, fitted, plan=dp.Plan(Fields()), workers=dp.Workers(n=1)).releases
