"""The gateway on built-in texts, for a look at it: make serve.

    python packages/gateway/experiments/gateway_demo.py FOLDER
    dptext serve --models FOLDER/models --ledger FOLDER/books.db

The first time it fits a model and writes settings of a summary and of a synthesis, and books, into the folder. Each
time it ends the keys that it made before and prints new ones, which nothing else than a demonstration should do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dptext as dp
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext_gateway.keys import Keys
from dptext_gateway.settings import Secret
from dptext_gateway.store import Store

SYNTHESIS = """
kind = "prototypes"
labels = ["health", "travel", "money", "leisure"]
relation = "replace_one"
about = 2_000
encoder = "glove"
topics = 6
"""
SUMMARY = """
kind = "summary"
labels = ["health", "travel", "money", "leisure"]
relation = "replace_one"
about = 2_000
encoder = "glove"
topics = 6
"""
TABLE = f"""{SUMMARY}
[columns]
channel = "web|phone|shop"
"""
POOL = 500  # public texts: four seconds of a processor, of 2,000 it was sixteen
SCOPES = {"you": ("privatize", "jobs", "synthesize", "accounts"), "administrator": ("admin",)}


def prepare(folder: Path) -> None:
    """Models and books, unless they are there."""
    models = folder / "models"
    pool = list(dp.sample_records(POOL))
    if not (models / "requests").exists():
        print("Fitting a model of built-in texts, for the first start alone.", file=sys.stderr, flush=True)
        dp.save_model(dp.fit(dp.Candidates(epsilon=10.0), pool), models / "requests")
    for name, settings in (("inbox", SUMMARY), ("tickets", TABLE), ("synthetic", SYNTHESIS)):
        (models / name).mkdir(exist_ok=True)
        (models / name / "pool.jsonl").write_text("".join(json.dumps({"text": each.text}) + "\n" for each in pool))
        (models / name / "synthesis.toml").write_text(settings)
    if not (folder / "books.db").exists():
        limit = dp.Guarantee(100.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)
        Ledger.create(str(folder / "books.db")).open_account("demo", limit)


def fresh_keys(folder: Path) -> dict[str, str]:
    """A new key for each name; those of before are revoked."""
    keys = Keys(Store(Database(folder / "books.db")), Secret.at(folder / "books.db.gateway.key"))
    for each in keys.listed():
        if each["revoked"] is None:
            keys.revoke(str(each["prefix"]))
    return {
        name: keys.create(name, account=None if name == "administrator" else "demo", scopes=scopes)
        for name, scopes in SCOPES.items()
    }


def main(folder: Path) -> dict[str, str]:
    """Prepare, and print keys."""
    (folder / "models").mkdir(parents=True, exist_ok=True)
    prepare(folder)
    found = fresh_keys(folder)
    for name, key in found.items():
        print(f"{name}: {key}", flush=True)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
