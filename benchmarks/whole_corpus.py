"""How long a synthesis takes against its encoder, and how much memory more.

    python benchmarks/whole_corpus.py [TEXTS [ENCODER [FILE WAY [OUT.csv]]]]

Each way reads a file of so many texts (8,000 built-in ones) with the encoder ("sentence", or "glove"), two rounds in
turn. Its processor time is divided by what its encoder takes of it, as the same work of the encoder takes up to twice
as long from one minute to the next where a computer is shared. So that the encoder does no more than it must, its
texts are counted. Exits 1 where a way takes more than 1.1 times as long as its encoder, where the encoder reads a text
more often than it must, or a batch of texts in parts.
With FILE, of JSON Lines with "text", one way is measured once, as memory can be in a fresh process alone; the last
5,000 texts are the pool. A row is added to OUT.csv.
"""

from __future__ import annotations

import csv
import json
import math
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
from dptext.runs.private import READ_TOGETHER, Private
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.synthesizing import run
from dptext.text.records import Fields

LABELS = ["health", "travel", "money", "leisure"]
MOST, ROUNDS = 1.1, 2
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


class Watched:
    """The processor time of an encoder, and the number of texts of each of its calls, since the last `begin`."""

    def __init__(self, kind: Any) -> None:
        self.begin()
        inner = kind.embed

        def embed(encoder: Any, texts: list[str]) -> Any:
            began = time.process_time()
            found = inner(encoder, texts)
            self.seconds += time.process_time() - began
            self.read.append(len(texts))
            return found

        kind.embed = embed

    def begin(self) -> None:
        self.seconds, self.read = 0.0, list[int]()

    def too_often(self, texts: int, passes: int) -> tuple[float, float]:
        """Texts, and calls, of those that as many passes need; but for one text, which is read before the charge."""
        read = sorted(self.read)[1:] if 1 in self.read else self.read
        return sum(read) / (texts * passes), len(read) / (passes * math.ceil(texts / READ_TOGETHER))


def main() -> int:
    """Print a row a way."""
    texts = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000
    encoder = sys.argv[2] if len(sys.argv) > 2 else "sentence"
    rounds = 1 if len(sys.argv) > 3 else ROUNDS
    ways = {name: WAYS[name] for name in WAYS if rounds > 1 or name == sys.argv[4]}
    if rounds == 1:
        rows = [json.loads(line) for line in Path(sys.argv[3]).read_text("utf-8").splitlines()]
        pool = [row["text"] for row in rows[-5_000:]]
    else:
        rows = [{"text": each.text, "label": each.label, "author": each.author} for each in dp.sample_records(texts)]
        pool = [each.text for each in dp.sample_records(2_000, seed=1)]
    encoding, table = Watched(type(load_encoder(encoder))), Rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "private.jsonl")
        with path.open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"author": f"a{i % 5000}", "label": LABELS[i % 4], **rows[i]}) + "\n" for i in range(texts)
            )
        del rows
        fields = Fields(label="label", author="author")
        fitted = {
            name: synthesis_from_settings({**way, "encoder": encoder, "about": texts}).fit(public=pool)
            for name, way in ways.items()
        }
        before = peak()
        whole: dict[str, list[float]] = {name: [] for name in fitted}
        of_encoder: dict[str, list[float]] = {name: [] for name in fitted}
        more, often = dict.fromkeys(fitted, 0.0), list[tuple[float, float]]()
        for _ in range(rounds):
            for name, synthesis in fitted.items():
                encoding.begin()
                whole[name].append(spent(partial(run, Private(path, fields, {}), synthesis)))
                of_encoder[name].append(encoding.seconds)
                often.append(encoding.too_often(texts, 2 if name.startswith("votes") else 1))
                more[name] = peak() - before
        for name in fitted:
            what = f"{name}, {texts:,} texts"
            ratios = paired(whole[name], of_encoder[name])
            table.add(what, "of its encoder's time", ratios, most=MOST)
            table.note(what, "seconds", whole[name])
            table.note(what, "MiB more at most", [more[name]])
            if len(sys.argv) > 5:
                kept(Path(sys.argv[5]), way=name, encoder=encoder, texts=texts, seconds=round(whole[name][0], 1),
                     encoder_seconds=round(of_encoder[name][0], 1), mib=round(more[name]))  # fmt: skip
        for what, found in zip(("texts", "calls"), zip(*often, strict=True), strict=True):
            bound = 1 if rounds > 1 else None  # long texts come in smaller batches
            table.add(
                f"all ways: {what} of the encoder", "of those that it must have, at most", [max(found)], most=bound
            )
    return table.code


if __name__ == "__main__":
    sys.exit(main())
