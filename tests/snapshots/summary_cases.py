"""The summaries that are kept, what is written from each, and what must be read back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import dptext as dp
from dptext.mechanism import settings
from dptext.registry import SYNTHESES
from dptext.runs import summarizing
from dptext.runs.summarizing import ReadSummary
from dptext.synthesis.summary import SummarySpec

LABELS = ("health", "travel", "money", "leisure")
PRIVATE, POOL = dp.sample_records(120, seed=1), dp.sample_records(40, seed=2)
_SMALL: dict[str, Any] = {"labels": LABELS, "encoder": "glove", "words": 4, "dim": 4, "about": 120, "epsilon": 8.0}
_WORDS: dict[str, Any] = {"marks": 3, "vocabulary": 40, "topics": 3}
_AS_NUMBERS = {name: i for i, name in enumerate(LABELS)}
_PLACES = ("north", "south", "east", None)
TABLE = [
    {
        "body": each.text, "kind": _AS_NUMBERS[each.label or ""], "stars": i % 6 + 1, "where": _PLACES[i % 4],
        "day": f"2024-{i % 14:02d}-01", "customer": f"c{i % 9}",
    }
    for i, each in enumerate(PRIVATE)
]  # fmt: skip
_TABLE: dict[str, Any] = {
    **_SMALL, "labels": [*_AS_NUMBERS.values()], "names": LABELS, "label": "kind", "text": "body",
    "columns": ["stars: 1..5 by 1", "where?: north|south", "day: 2024-01..2024-12 by quarter", "customer: id"],
    "pairs": ["where+stars", "kind+where"], "text_follows": ["where"],
}  # fmt: skip
#: Summaries of the pool, by name. Those "like" another are made after it.
SUMMARIES: dict[str, dict[str, Any]] = {
    "labels": {"label": "label", **_SMALL},
    "words": {"label": "label", **_SMALL, **_WORDS, "lengths": [4, 8], "drafts": 0, "names": [*map(str.upper, LABELS)]},
    "drafted": {
        "label": "label", **_SMALL, **_WORDS, "labels": LABELS[:2], "drafts": 2, "tokens": 4, "examples": 2,
        "model": "./tiny",
    },
    "table": _TABLE,
    "authors": {"author": "author", "unit": "author", "relation": "replace_one", **_SMALL, "labels": (), "topics": 3},
    "bare": {"label": "label", **_SMALL, **_WORDS, "drafts": 0, "without_pool": True},
    "distilled": {"label": "label", **_SMALL, "encoder": "distilled", "words": 0},
    "more": {"like": "labels", "label": "label", "epsilon": 4.0, "about": 60},
}  # fmt: skip
#: Sums, by name.
SUMS = {"sum": ("labels", "more")}
#: The format of the corpus that is written from each; JSON Lines of the others.
FORMATS = {"table": "parquet", "words": "csv.gz"}
#: Names of all summaries.
NAMES = (*SUMMARIES, *SUMS)
MEASURED = ("prototypes", "steering", "votes", "topics")
#: Where an unfinished synthesis was killed: a method of `Unpublished`. It had its noisy numbers, or whole files, too.
STEPS = ("keep", "publish")
UNFINISHED = (
    "synthesize", "private.jsonl", "out.jsonl", "--public", "pool.jsonl", "--label-field", "label", "--labels",
    ",".join(LABELS), "--about", "120", "--set", "encoder=glove", "--set", "words=4", "--set", "dim=4",
)  # fmt: skip


def pool_of(name: str) -> list[Any]:
    """The public texts; few for an encoder whose words are stored with their vectors."""
    few = POOL[:20] if name == "distilled" else POOL
    return [{"body": each.text, "kind": _AS_NUMBERS[each.label or ""]} for each in few] if name == "table" else few


def corpus_of(name: str) -> str:
    """The name of the file that was written from a summary."""
    return f"{name}.{FORMATS.get(name, 'jsonl')}"


def write_summaries(folder: Path) -> None:
    """Write each summary with its certificate, and a corpus from each with its own."""
    for name, given in SUMMARIES.items():
        private = TABLE if name == "table" else [replace(each, id=f"{name} {each.id}") for each in PRIVATE]
        like = {"like": folder / f"{given['like']}.summary"} if "like" in given else {"public": pool_of(name)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            dp.summarize(private, **{**given, **like}).write(folder / f"{name}.summary")
    for name, parts in SUMS.items():
        summarizing.add(*(folder / f"{each}.summary" for each in parts), disjoint=True).write(
            folder / f"{name}.summary"
        )
    for name in NAMES:
        written(folder, name).write(folder / corpus_of(name))


def written(folder: Path, name: str) -> Any:
    """A corpus from a summary of the folder, of texts of the pool."""
    public = {"public": pool_of(name)} if name == "bare" else {}
    return dp.write(folder / f"{name}.summary", writer="pool", size=6, **public)


def write_syntheses(folder: Path) -> None:
    """Write a corpus, or a report, of each synthesis that measures and writes at once."""
    folder.mkdir()
    for kind in MEASURED:
        wanted = SYNTHESES[kind].tiny()[0]
        given = {key: value for key, value in settings(wanted).items() if key != "kind"}
        made = dp.synthesize(PRIVATE, POOL, kind=kind, label="label", **given)
        assert bool(made.releases) == wanted.writes
        made.write(folder / f"{kind}.{'jsonl' if made.releases else 'json'}")


def facts(found: ReadSummary) -> dict[str, Any]:
    """What a summary says."""
    summary, certificate, sha256 = found
    return {
        "settings": settings(summary.spec),
        "guarantees": [each.to_dict() for each in certificate.guarantees],
        "sha256": sha256,
        "name of the release": summary.digest,
        "parts": [*summary.releases],
        "digests": dict(summary.public.digests),
        "texts": [len(summary.public.pool.texts), summary.public.n_texts, [*summary.public.n_drafts]],
        "numbers": {
            name: [*known.numbers.shape, known.deviation, [float(each) for each in known.numbers.ravel()[:4]]]
            for name, known in summary.known.items()
        },
        "in all": summary.report.in_all,
        "by label": [float(each) for each in summary.sizes],
    }


def without_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a summary without those that have their default, as if these came later."""
    usual = {each.name: each.default for each in fields(SummarySpec)}
    return {name: each for name, each in values.items() if name == "kind" or _plain(each) != usual[name]}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
