"""A cheap mechanism, and inputs of many files for it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import dptext as dp
from dptext.mechanism import Mechanism

LABELS = ("health", "travel")


@cache
def mechanism() -> Mechanism[str]:
    """Releases public texts by noisy labels: nothing is read but the label."""
    public = [dp.Record(str(i), f"a public text {i}", LABELS[i % 2]) for i in range(20)]
    return dp.fit(dp.LabelOnly(epsilon=2.0, labels=LABELS), public)


def rows(n: int, first: int = 0) -> list[dict[str, Any]]:
    """So many records, each with an id, an author, a label and a text of its own."""
    return [
        {"id": f"r{i}", "who": f"u{i % 7}", "label": LABELS[i % 2], "text": f"secret {i} " + "x" * (i % 40)}
        for i in range(first, first + n)
    ]


def shards(folder: Path, *sizes: int) -> Path:
    """A folder of JSON Lines files of these sizes."""
    folder.mkdir()
    first = 0
    for number, n in enumerate(sizes):
        (folder / f"s{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(n, first)))
        first += n
    return folder


def plan(**more: Any) -> dp.Plan:
    """Read ids and labels."""
    return dp.Plan(**{"fields": dp.Fields(id="id", label="label"), **more})


def here(**more: Any) -> dp.DatasetPlan:
    """Small parts, made in this process."""
    return dp.DatasetPlan(**{"part_size": 100, "workers": dp.Workers(n=1), **more})


def ids(folder: Path) -> list[str]:
    """The ids that are visible, in the order of the parts."""
    parts = json.loads((folder / "manifest.json").read_text())["parts"]
    found = []
    for part in parts:
        records = list(dp.read_records(folder / part["name"], dp.Fields(id="id")))
        assert len(records) == part["records"]
        found += [record.id for record in records]
    return found
