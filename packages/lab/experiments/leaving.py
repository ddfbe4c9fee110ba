"""The report on what leaves, beside mostlyai-qa on the same files: a CSV.

    python packages/lab/experiments/leaving.py OUT.csv --peer PYTHON [--corpora snips imdb] [--texts 2000] [--seeds 0]

`PYTHON` is an interpreter whose environment has mostlyai-qa. A corpus is cut into private texts, other real texts, a
pool and more real texts, at most `--texts` each. Rows:

- *summary, pool*: `dptext summarize` at epsilon 1 and `dptext write --writer pool`.
- *one in twenty copied*: the same with private texts in place of one in twenty of its own: what both should find.
- *original*: the private texts leave. *others*: the other real texts leave, with which private ones are compared.
- *real*: real texts that are in none of the others: as good as a corpus can be, and nothing of the private texts.

Columns of `dptext utility corpus --test --out`: *copies* of private texts and of other ones; *nearer*, the share of
texts nearer to a private text than to another one; *attack* and *of public*, AUC of the membership attack, and with
public texts in place of the corpus; *told*, AUC of telling the corpus from real texts; *found*, whether it says that
the corpus gives something away; *seconds*. Of mostlyai-qa: *ims* (identical to private, to others), *dcr* (the share
of texts nearer to a private one), *discriminator* (AUC).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from common import append_rows, corpus_rows
from summary import dptext, put

Row = dict[str, Any]
COPIED: Final = 20  # one in so many
#: Runs in the environment of mostlyai-qa. Its progress goes to stdout, too.
PEER: Final = """
import json, sys, time
import pandas as pd
from mostlyai import qa
made, private, others = (pd.read_json(path, lines=True)[["text", "label"]].astype(str) for path in sys.argv[1:4])
began = time.time()
_, found = qa.report(syn_tgt_data=made, trn_tgt_data=private, hol_tgt_data=others, report_path=sys.argv[4])
print("\\n" + json.dumps({"seconds": time.time() - began, **json.loads(found.model_dump_json())}))
"""


def parts(corpus: str, most: int, seed: int) -> list[list[Row]]:
    """Return private, other, pool and more real texts with labels, of a shuffled corpus, its distinct texts alone."""
    distinct = {row["text"]: {"text": row["text"], "label": row["label"]} for row in corpus_rows(corpus)}
    rows = [*distinct.values()]
    rows = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows)).tolist()]
    n = min(most, len(rows) // 4)
    return [rows[i * n : i * n + n] for i in range(4)]


def corpora(
    folder: Path, seed: int, private: list[Row], others: list[Row], pool: list[Row], more: list[Row]
) -> Iterator[tuple[str, Path]]:
    """Yield the name and file of each corpus that is judged."""
    labels = sorted({row["label"] for row in private})
    given = ("--label-field", "label", "--labels", ",".join(labels), "--about", len(private), "--epsilon", 1)
    dptext("summarize", folder / "private.jsonl", folder / "s.summary", "--public", folder / "pool.jsonl", *given,
           "--seed", seed)  # fmt: skip
    made = folder / "made.jsonl"
    dptext("write", folder / "s.summary", made, "--writer", "pool", "--size", len(pool), "--seed", seed)
    rows = [json.loads(line) for line in made.read_text("utf-8").splitlines()]
    own = [{"text": row["text"], "label": row["label"]} for row in rows]
    yield "summary, pool", put(folder / "pool-written.jsonl", own)
    n = len(own) // COPIED
    yield "one in twenty copied", put(folder / "copied.jsonl", [*own[n:], *private[:n]])
    yield "original", put(folder / "original.jsonl", private)
    yield "others", put(folder / "others-leave.jsonl", others)
    yield "real", put(folder / "real.jsonl", more)


def judged(folder: Path, file: Path, peer: str) -> Row:
    """Judge a corpus by both tools."""
    page = folder / f"{file.stem}.html"
    began = time.perf_counter()
    dptext("utility", "corpus", folder / "private.jsonl", file, "--public", folder / "pool.jsonl", "--test",
           folder / "others.jsonl", "--label-field", "label", "--seed", 1, "--out", page)  # fmt: skip
    seconds = time.perf_counter() - began
    ours = json.loads(page.with_suffix(".json").read_bytes())
    paths = [file, folder / "private.jsonl", folder / "others.jsonl", folder / f"{file.stem}.qa.html"]
    done = subprocess.run([peer, "-c", PEER, *paths], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    near, told = ours["leaving"], ours["rows"]["released"]["told_apart"]
    far, like = theirs["distances"], theirs["similarity"]
    return {
        "copies": "{} of {}".format(*near["copies"]["of_private"]),
        "copies of others": "{} of {}".format(*near["copies"]["of_others"]),
        "nearer": near["nearer"],
        "attack": near["membership"]["value"],
        "of public": near["membership_by_public"]["value"],
        "told": told["value"],
        "found": "; ".join(near["shown"]) or "nothing",
        "seconds": round(seconds, 1),
        "ims": far["ims_training"],
        "ims of others": far["ims_holdout"],
        "dcr": far["dcr_share"],
        "discriminator": like["discriminator_auc_training_synthetic"],
        "its seconds": round(theirs["seconds"], 1),
    }


def main() -> None:
    """Measure, and append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--corpora", nargs="+", default=["snips", "imdb"])
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    given = parser.parse_args()
    for corpus in given.corpora:
        for seed in given.seeds:
            with TemporaryDirectory() as made:
                folder = Path(made)
                found = parts(corpus, given.texts, seed)
                for name, rows in zip(("private", "others", "pool"), found[:3], strict=True):
                    put(folder / f"{name}.jsonl", rows)
                for name, file in corpora(folder, seed, *found):
                    append_rows(
                        given.out, [{"corpus": corpus, "seed": seed, "row": name, **judged(folder, file, given.peer)}]
                    )


if __name__ == "__main__":
    main()
