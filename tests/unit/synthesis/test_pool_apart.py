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


@pytest.mark.parametrize("place", ["a file of it", "a copy", "a link", "a folder with a link", "a folder", "within"])
def test_a_folder_of_public_files_that_has_private_ones_is_refused(place: str, tmp_path: Path) -> None:
    """Each text of the folder would leave as it is."""
    pool, own = tmp_path / "pool", tmp_path / "in"
    for folder in (pool / "more", own, tmp_path / "copies"):
        folder.mkdir(parents=True)
    (pool / "a.jsonl").write_bytes(lines(["another"]))
    (pool / "more" / "b.jsonl").write_bytes(lines(TEXTS))
    (tmp_path / "copies" / "copy.jsonl").write_bytes(lines(TEXTS))
    (tmp_path / "copies" / "empty.jsonl").write_bytes(b"")
    (tmp_path / "link.jsonl").symlink_to(pool / "more" / "b.jsonl")
    (own / "other.jsonl").write_bytes(lines(TEXTS[1:]))
    (own / "linked.jsonl").hardlink_to(pool / "a.jsonl")
    private = {
        "a file of it": pool / "more" / "b.jsonl", "a copy": tmp_path / "copies" / "copy.jsonl",
        "a link": tmp_path / "link.jsonl", "a folder with a link": own, "a folder": tmp_path / "copies",
        "within": pool / "more",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="public pool other than the private corpus"):
        refuse_same(private[place], pool)


def test_a_text_that_stands_in_both_folders_refuses_nothing(tmp_path: Path) -> None:
    """Others wrote it, too. A refusal would say that the private folder has it, without noise."""
    for name, texts in (("pool", ["thanks", "public"]), ("in", ["thanks", "private"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "empty.txt").write_text("")
        for i, text in enumerate(texts):
            (tmp_path / name / f"{name}{i}.txt").write_text(text)
    refuse_same(tmp_path / "in", tmp_path / "pool")
    refuse_same(f"{tmp_path}/in/*.txt", tmp_path / "pool")


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
