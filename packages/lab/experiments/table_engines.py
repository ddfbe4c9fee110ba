"""Rows that are written from a summary, beside rows of MOSTLY AI's engine from the same private rows: a CSV.

    python packages/lab/experiments/table_engines.py OUT.csv --peer PYTHON [ROW ...] [--rows 1000] [--epsilons 1 8]
    python packages/lab/experiments/table_engines.py OUT.csv --tables

`PYTHON` is an interpreter whose environment has mostlyai-engine. The table is the generated tickets: a topic, a
priority, an amount, a month and a text. Add or remove one row, delta 1e-5. Rows of the CSV, all by default:

- *plain*: *original*, the private rows. *independent*: each of their columns shuffled, and texts. *random*: columns
  drawn uniformly beside texts of the pool. *public-only*: the pool, each text with the values whose names are nearest.
- *dptext*: `dptext summarize --column ...` and `dptext write --writer pool`, defaults but for the encoder (distilled).
- *columns*: the tabular model of the engine, which has the whole epsilon. No text.
- *both*: this model, and the engine's own LSTM of the text, which reads topic and priority. Each has half of epsilon
  and of delta.

A model of the engine learns for at most `--epochs` epochs of columns and `--text-epochs` of texts, or until it stops
early. `--ranges` of its epsilon is for its value ranges; its noise is as small as its own accountant allows for so many
epochs. `none` runs the engine without privacy. *spent*: the largest epsilon that the engine's log names, summed.

*one* and *two*: the mean total variation of a column and of a pair from the private rows, as in `tables.py`, of rows
whose values are in their declarations. Of `--texts` rows: *usable*, the share of rows whose values are in their
declarations and whose text is not empty. Of the usable ones: `COLUMN`, the accuracy, on real rows, of a classifier of
that column from texts, as in `table_texts.py`; *copies*, the share of texts that are texts of private rows, and
*different*, the number of distinct texts. *seconds* are CPU time, user and system, and *memory* is the peak in MB, both
of the child processes that measure, train and write.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from common import append_rows
from summary import DELTA
from synthesis_tables import print_tables, table
from table_texts import LISTED, SEED, Tried, got, named, put
from tables import COLUMNS, apart, cells_of, tickets

from dptext.text.declarations import schema_of

Row = dict[str, Any]
Cost = tuple[float, float]
TABLE: Final = "tickets"
TESTED: Final = 2_000
#: Runs in the environment of the engine.
ENGINE: Final = """
import json, math, sys
from pathlib import Path
import pandas as pd
from mostlyai.engine import LanguageModel, TabularARGN
from mostlyai.engine.domain import DifferentialPrivacyConfig
from opacus.accountants.utils import get_noise_multiplier

given = json.loads(sys.argv[1])
rows = pd.DataFrame([json.loads(line) for line in open(given["private"], encoding="utf-8")])
rows = rows.assign(amount=rows["amount"].astype(float), created=pd.to_datetime(rows["created"]))
read, batch, spent, both = ["topic", "priority"], 64, [], given["row"] == "both"

def settings(name, epochs, physical):
    found = {"random_state": given["seed"], "workspace_dir": str(Path(given["folder"], name)), "device": "cpu",
             "max_epochs": epochs, "verbose": 1}
    if given["epsilon"]:
        parts, training = 2 if both else 1, round(.8 * len(rows))
        epsilon, delta = given["epsilon"] / parts, given["delta"] / parts
        ranges = given["ranges"] * epsilon
        noise = get_noise_multiplier(
            target_epsilon=epsilon - ranges, target_delta=delta, sample_rate=1 / math.ceil(training / batch),
            steps=epochs * (training // batch) + 1, accountant="rdp")
        private = DifferentialPrivacyConfig(
            max_epsilon=epsilon, delta=delta, noise_multiplier=noise, value_protection_epsilon=ranges)
        found |= {"differential_privacy": private, "batch_size": physical,
                  "gradient_accumulation_steps": batch // physical}
    return found

def told(name):
    log = pd.read_csv(next(Path(given["folder"], name).rglob("progress-messages.csv")))
    print(name, log.to_dict("records"), flush=True)
    spent.append({"epochs": int(log["epoch"].max()), "epsilon": float(log["dp_eps"].max()) if given["epsilon"] else 0})

tabular = TabularARGN(**settings("tabular", given["epochs"], batch)).fit(rows.drop(columns="text"))
told("tabular")
made = tabular.sample(n_samples=len(rows)).reset_index(drop=True)
made["created"] = pd.to_datetime(made["created"]).dt.strftime("%Y-%m-%d")
found = made.astype(object).where(made.notna(), None).to_dict("records")
if both:
    keyed, asked = rows.assign(key=range(len(rows))), made.head(given["texts"]).assign(key=range(given["texts"]))
    language = LanguageModel(
        tgt_encoding_types={"text": "LANGUAGE_TEXT"}, tgt_context_key="key", ctx_data=keyed[["key", *read]],
        ctx_primary_key="key", ctx_encoding_types=dict.fromkeys(read, "LANGUAGE_CATEGORICAL"),
        **settings("text", given["text_epochs"], 8)).fit(keyed[["key", "text"]])
    told("text")
    texts = language.sample(ctx_data=asked[["key", *read]])
    for key, text in zip(texts["key"], texts["text"]):
        found[int(key)]["text"] = None if pd.isna(text) else str(text)
Path(given["out"]).write_text("".join(json.dumps(row) + "\\n" for row in found), encoding="utf-8")
Path(given["told"]).write_text(json.dumps(spent))
"""


def rows_of(size: int) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the pool, private rows and rows to be tried; all values are texts."""
    pool = size * 3 // 5
    found = [{key: str(value) for key, value in row.items()} for row in tickets(pool + size + TESTED)]
    random.Random(SEED).shuffle(found)  # noqa: S311
    return found[:pool], found[pool : pool + size], found[pool + size :]


def run(log: Path, *arguments: object) -> Cost:
    """Run a command on one thread, and return its CPU seconds and its peak memory in MB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w", encoding="utf-8") as file:
        child = subprocess.Popen([*map(str, arguments)], stdout=file, stderr=subprocess.STDOUT, env=environment)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it once more
    if child.returncode:
        raise SystemExit(log.read_text("utf-8")[-4_000:])
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1_024


class Judge:
    """What is measured of rows."""

    def __init__(self, private: list[Row], test: list[Row], texts: int) -> None:
        self.tried, self.truth, self.texts = Tried(TABLE, test), cells_of(TABLE, private), texts
        self.known = {row["text"] for row in private}

    def row(self, rows: list[Row]) -> Row:
        """Return the measures of rows."""
        cells = cells_of(TABLE, rows)
        listed = np.array([column.unlisted for column in schema_of(COLUMNS[TABLE])])
        declared = np.all(cells < listed, axis=1)
        found = {"written": len(rows), **(apart(TABLE, self.truth, cells[declared]) if declared.any() else {})}
        asked = [i for i, row in enumerate(rows) if "text" in row]
        if not asked:
            return {**found, "usable": round(float(declared.mean()), 4)}
        asked = random.Random(SEED).sample(asked, min(self.texts, len(asked)))  # noqa: S311
        kept = [rows[i] for i in asked if declared[i] and (rows[i]["text"] or "").strip()]
        found["usable"] = round(len(kept) / len(asked), 4)
        if not kept:
            return found
        texts = [row["text"] for row in kept]
        return {
            **found, **{column: self.tried.by_text(kept, column) for column in LISTED[TABLE]},
            "copies": round(sum(text in self.known for text in texts) / len(texts), 4), "different": len(set(texts)),
        }  # fmt: skip


def plain(pool: list[Row], private: list[Row], judge: Judge) -> Iterator[Row]:
    """Yield the rows that no run writes."""
    rng = random.Random(SEED)  # noqa: S311
    yield {"row": "original", **judge.row(private)}
    shuffled = {column: rng.sample([row[column] for row in private], len(private)) for column in private[0]}
    yield {
        "row": "independent",
        **judge.row([dict(zip(shuffled, values, strict=True)) for values in zip(*shuffled.values(), strict=True)]),
    }
    uniform = [{"amount": rng.uniform(0, 500), "created": f"{rng.randint(2024, 2026)}-{rng.randint(1, 12):02}"}
               for _ in pool]  # fmt: skip
    drawn = [{column: rng.choice(values) for column, values in LISTED[TABLE].items()} for _ in pool]
    texts = [{"text": row["text"]} for row in pool]
    yield {"row": "random", **judge.row([a | b | c for a, b, c in zip(texts, uniform, drawn, strict=True)])}
    near = named(TABLE, pool)
    yield {"row": "public-only", **judge.row([a | b for a, b in zip(near, uniform, strict=True)])}


def ours(folder: Path, epsilon: float, seed: int, about: int) -> tuple[list[Row], Cost]:
    """Return the rows that are written from a summary, and their cost."""
    declared = [part for column in COLUMNS[TABLE] for part in ("--column", column)]
    summary, out, command = folder / "rows.summary", folder / "ours.jsonl", (sys.executable, "-m", "dptext")
    measured = run(
        folder / "summarize.log", *command, "summarize", folder / "private.jsonl", summary, "--public",
        folder / "pool.jsonl", *declared, "--set", "encoder=distilled", "--epsilon", epsilon, "--delta", DELTA,
        "--about", about, "--seed", seed, "--force",
    )  # fmt: skip
    written = run(
        folder / "write.log", *command, "write", summary, out, "--writer", "pool", "--seed", seed, "--force"
    )  # fmt: skip
    return got(out), (measured[0] + written[0], max(measured[1], written[1]))


def engine(folder: Path, given: argparse.Namespace, row: str, epsilon: float, seed: int) -> tuple[list[Row], Row, Cost]:
    """Return the rows of the engine, what it says that it spent, and its cost."""
    own, out, told = folder / f"{row} {epsilon} {seed}", folder / "engine.jsonl", folder / "told.json"
    asked = {
        "private": str(folder / "private.jsonl"), "out": str(out), "told": str(told), "folder": str(own),
        "row": row, "seed": seed, "epsilon": epsilon, "delta": DELTA, "texts": given.texts,
        "epochs": given.epochs, "text_epochs": given.text_epochs, "ranges": given.ranges,
    }  # fmt: skip
    cost = run(folder / "engine.log", given.peer, "-c", ENGINE, json.dumps(asked))
    parts = json.loads(told.read_bytes())
    spent = round(sum(part["epsilon"] for part in parts), 2) if epsilon else ""
    known = {"spent": spent, "ranges": given.ranges if epsilon else ""}
    return got(out), {**known, "epochs": " and ".join(str(part["epochs"]) for part in parts)}, cost


def measured(given: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Yield the rows of the CSV."""
    pool, private, test = rows_of(given.rows)
    judge = Judge(private, test, given.texts)
    if "plain" in given.which:
        yield from plain(pool, private, judge)
    put(folder / "private.jsonl", private)
    put(folder / "pool.jsonl", [{"text": row["text"]} for row in pool])
    for seed, epsilon in itertools.product(given.seeds, given.epsilons):
        head = {"epsilon": epsilon or "none", "seed": seed}
        if epsilon and "dptext" in given.which:
            rows, (seconds, memory) = ours(folder, epsilon, seed, len(private))
            yield {**head, "row": "dptext", "spent": epsilon, **judge.row(rows),
                   "seconds": round(seconds, 1), "memory": round(memory)}  # fmt: skip
        for row in ("columns", "both"):
            if row in given.which:
                rows, spent, (seconds, memory) = engine(folder, given, row, epsilon, seed)
                yield {**head, "row": f"engine, {row}", **spent, **judge.row(rows),
                       "seconds": round(seconds, 1), "memory": round(memory)}  # fmt: skip


def tables(rows: Sequence[dict[str, str]]) -> str:
    """Return the table of all rows."""
    shown = [column for column in rows[0] if column != "unit"]
    return table(" | ".join(shown), [[row[column] for column in shown] for row in rows])


def main() -> None:
    """Measure, and append the rows; or print the table of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("which", nargs="*", default=["plain", "dptext", "columns", "both"])
    parser.add_argument("--peer")
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--epsilons", type=lambda text: float(text.replace("none", "0")), nargs="+", default=[1, 8, 0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--text-epochs", type=int, default=2)
    parser.add_argument("--ranges", type=float, default=0.1)
    parser.add_argument("--tables", dest="shown", action="store_true")
    given = parser.parse_args()
    if given.shown:
        print_tables(given.out, tables)
        return
    if not given.peer:
        parser.error("--peer is missing: an interpreter whose environment has mostlyai-engine")
    columns = ("row", "epsilon", "spent", "ranges", "unit", "rows", "seed", "epochs", "written", "usable", "one", "two",
               *LISTED[TABLE], "copies", "different", "seconds", "memory")  # fmt: skip

    def every() -> Iterator[Row]:
        with TemporaryDirectory() as folder:
            for row in measured(given, Path(folder)):
                known = {"unit": "row", "rows": given.rows, **row}
                yield {column: known.get(column, "") for column in columns}

    append_rows(given.out, every())


if __name__ == "__main__":
    main()
