"""Means of a skewed number by groups, in private rows and in written ones, by how its bins are declared.

    python packages/lab/experiments/table_means.py OUT.csv            # 3 minutes of a busy core
    python packages/lab/experiments/table_means.py docs/results/tables/table_means.csv --tables

2,500 rows with a priority and an amount, which is exponential with a mean of 20, 60, 145 or 300 by priority, through
`dptext summarize --pairs priority+amount` and `dptext write --size 2500 --drop-other`; epsilon 1, delta 1e-5, add or
remove one.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from summary import DELTA, dptext

from dptext.text.samples import sample_records

SIZE: Final = 2_500
PRIORITIES: Final = {"low": (20, 0.4), "normal": (60, 0.34), "high": (145, 0.2), "urgent": (300, 0.06)}
BINS: Final = {
    "equal, by 100": "0.00..500.00 by 100",
    "growing, to 500": "0.00..500.00 by 10,25,50,100,250",
    "growing, to 1,000, as `check` proposes": "0.00..1000.00 by 10,20,50,100,200,500",
    "equal, by 500, to 2,000": "0.00..2000.00 by 500",
}
SHARES: Final = {"usual": (), "columns=.6": ("--shares", "columns=.6")}


def rows_of(seed: int) -> list[dict[str, object]]:
    """Return the private rows."""
    rng, found = np.random.default_rng(seed), list[dict[str, object]]()
    drawn = rng.choice(list(PRIORITIES), SIZE, p=[share for _, share in PRIORITIES.values()]).tolist()
    for each, priority in zip(sample_records(SIZE, seed=seed), drawn, strict=True):
        amount = round(float(rng.exponential(PRIORITIES[priority][0])), 2)
        found.append({"text": each.text, "priority": priority, "amount": amount})
    return found


def means_of(rows: list[dict[str, object]]) -> dict[str, float]:
    """Return the mean amount of each priority."""
    found: dict[str, list[float]] = {name: [] for name in PRIORITIES}
    for row in rows:
        if row["amount"] is not None:
            found[str(row["priority"])].append(float(str(row["amount"])))
    return {name: round(fmean(own), 2) for name, own in found.items()}


def found_by(seed: int) -> list[dict[str, object]]:
    """Return the means of a seed: of the private rows, and of written rows by bins and shares."""
    rows = rows_of(seed)
    found = [{"seed": seed, "bins": "private rows", "shares": "", **means_of(rows)}]
    with TemporaryDirectory() as name:
        folder = Path(name)
        private, pool = folder / "in.jsonl", folder / "pool.jsonl"
        private.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        texts = sample_records(400, seed=100 + seed)
        pool.write_text("".join(json.dumps({"text": each.text}) + "\n" for each in texts), "utf-8")
        for i, ((bins, declared), (shares, more)) in enumerate(itertools.product(BINS.items(), SHARES.items())):
            summary, out = folder / f"{i}.summary", folder / f"{i}.jsonl"
            dptext(
                "summarize", private, summary, "--public", pool, "--column", f"priority: {'|'.join(PRIORITIES)}",
                "--column", f"amount: {declared}", "--pairs", "priority+amount", "--text-field", "text", *more,
                "--set", "encoder=glove", "--about", SIZE, "--epsilon", 1, "--delta", DELTA, "--seed", seed,
            )  # fmt: skip
            dptext("write", summary, out, "--size", SIZE, "--drop-other", "--seed", seed)
            made = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
            found.append({"seed": seed, "bins": bins, "shares": shares, **means_of(made)})
    return found


def table(rows: list[dict[str, str]]) -> str:
    """Return the table of the page: the mean of each seed."""
    lines = [
        f"| bins | shares | {' | '.join(PRIORITIES)} |", "|---|---|" + "--:|" * len(PRIORITIES),
    ]  # fmt: skip
    for bins, shares in dict.fromkeys((row["bins"], row["shares"]) for row in rows):
        own = [row for row in rows if (row["bins"], row["shares"]) == (bins, shares)]
        cells = (", ".join(f"{float(row[name]):.0f}" for row in own) for name in PRIORITIES)
        lines.append(f"| {bins} | {shares} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the table of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if not given.tables:
        with given.out.open("w", newline="", encoding="utf-8") as file:
            write = csv.DictWriter(file, ["seed", "bins", "shares", *PRIORITIES], lineterminator="\n")
            write.writeheader()
            for seed in given.seeds:
                write.writerows(found_by(seed))
                file.flush()
    with given.out.open(newline="", encoding="utf-8") as file:
        print(table(list(csv.DictReader(file))))


if __name__ == "__main__":
    main()
