"""How long a synthesis takes against its encoder alone, and how much memory more.

    python benchmarks/whole_corpus.py [TEXTS [ENCODER [FILE WAY [OUT.csv]]]]

Each way reads a file of so many texts (4,000 built-in ones), and the encoder ("sentence", or "glove") embeds the same
texts in the same batches, once for each pass of the way; in turn, in processor time, three rounds. Exits 1 where a way
takes more than 1.1 times as long. With FILE, of JSON Lines with "text", one way is measured once, as memory can be in a
fresh process alone, and the encoder after it; the last 5,000 texts are the pool. A row is added to OUT.csv.
"""

from __future__ import annotations

import csv
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dptext as dp
from _timing import Rows, paired
from dptext.embeddings.encoders import load_encoder
from dptext.runs.private import Private
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.streaming import BATCH_SIZE
from dptext.runs.synthesizing import run
from dptext.text.records import Fields

LABELS = ["health", "travel", "money", "leisure"]
MOST, ROUNDS = 1.1, 3
#: A summary has all blocks. Public drafts are written when it is fitted, which is not timed.
MORE: dict[str, dict[str, Any]] = {"summary": {"marks": 5, "drafts": 0}}
#: Each way, by document and by author.
WAYS: dict[str, dict[str, Any]] = {
    f"{kind}, {unit}": {"kind": kind, "unit": unit, "labels": LABELS, "topics": 64, **MORE.get(kind, {})}
    for kind in ("prototypes", "votes", "topics", "summary")
    for unit in ("document", "author")
}


def peak() -> float:
    """The most memory that the process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def spent(method: Callable[[], object]) -> float:
    """Processor seconds."""
    began = time.process_time()
    method()
    return time.process_time() - began


def kept(path: Path, **row: object) -> None:
    """Add a row to a table of such rows."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def main() -> int:
    """Print a row a way."""
    texts = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    encoder = sys.argv[2] if len(sys.argv) > 2 else "sentence"
    rounds = 1 if len(sys.argv) > 3 else ROUNDS
    ways = {name: WAYS[name] for name in WAYS if rounds > 1 or name == sys.argv[4]}
    if rounds == 1:
        rows = [json.loads(line) for line in Path(sys.argv[3]).read_text("utf-8").splitlines()]
        pool = [row["text"] for row in rows[-5_000:]]
    else:
        rows = [{"text": each.text, "label": each.label, "author": each.author} for each in dp.sample_records(texts)]
        pool = [each.text for each in dp.sample_records(2_000, seed=1)]
    reader, table = load_encoder(encoder), Rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "private.jsonl")
        with path.open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"author": f"a{i % 5000}", "label": LABELS[i % 4], **rows[i]}) + "\n" for i in range(texts)
            )
        listed = [row["text"] for row in rows[:texts]]
        del rows

        def embed() -> None:
            for i in range(0, texts, BATCH_SIZE):
                reader.embed(listed[i : i + BATCH_SIZE])

        fields = Fields(label="label", author="author")
        fitted = {
            name: synthesis_from_settings({**way, "encoder": encoder, "about": texts}).fit(public=pool)
            for name, way in ways.items()
        }
        before = peak()
        whole: dict[str, list[float]] = {name: [] for name in fitted}
        alone: dict[str, list[float]] = {name: [] for name in fitted}
        more = dict.fromkeys(fitted, 0.0)
        for kind in dict.fromkeys(name.partition(",")[0] for name in fitted):
            units = [name for name in fitted if name.startswith(kind)]
            for _ in range(rounds):
                for i, name in enumerate(units):  # the encoder is between the two that it stands beside
                    whole[name].append(spent(partial(run, Private(path, fields, {}), fitted[name])))
                    more[name] = peak() - before
                    if i == 0:
                        embedding = (2 if kind == "votes" else 1) * spent(embed)
                    alone[name].append(embedding)
        for name in fitted:
            what = f"{name}, {texts:,} texts"
            table.add(what, "of the time of its encoder alone", paired(whole[name], alone[name]), most=MOST)
            table.note(what, "seconds", whole[name])
            table.note(what, "MiB more at most", [more[name]])
            if len(sys.argv) > 5:
                kept(Path(sys.argv[5]), way=name, encoder=encoder, texts=texts, seconds=round(whole[name][0], 1),
                     encoder_seconds=round(alone[name][0], 1), mib=round(more[name]))  # fmt: skip
    return table.code


if __name__ == "__main__":
    sys.exit(main())
