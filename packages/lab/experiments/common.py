"""What several experiments need: the corpora, JSON that is whole or absent, and an embedder with a memory.

A script of a folder below finds this module after `sys.path.append(str(Path(__file__).parents[1]))`.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np

from dptext import Fields, Record, read_records
from dptext.types import Floats, Singles


def data_folder() -> Path:
    """The folder of the corpora: DPTEXT_DATA, or ../shared/data beside the checkout."""
    return Path(os.environ.get("DPTEXT_DATA") or "../shared/data")


def corpus_file(name: str, file: str = "") -> Path:
    """A file of a corpus, by default the one of its name; ends the script with 2 where it is absent."""
    path = data_folder() / name / f"{file or name}.jsonl.gz"
    if not path.is_file():
        print(f"Expected the corpus {path}: set DPTEXT_DATA to the folder of the corpora.", file=sys.stderr)
        raise SystemExit(2)
    return path


def corpus_rows(name: str, file: str = "") -> Iterator[dict[str, Any]]:
    """The rows of a file of a corpus."""
    with gzip.open(corpus_file(name, file), "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def utterances(corpus: str) -> list[Record]:
    """The distinct texts of a corpus with their labels, in the order of the file."""
    distinct: dict[str, Record] = {}
    for record in read_records(corpus_file(corpus), Fields(text="text", label="label")):
        distinct.setdefault(record.text, record)
    return list(distinct.values())


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows to a CSV, and print them, as soon as each is measured."""
    with path.open("a", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            writer = writer or csv.DictWriter(file, list(row), lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(row, flush=True)


def write_json(path: Path, found: Any) -> None:
    """Write the file whole or not at all, also when the script is killed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    draft.replace(path)


class Remembering:
    """An embedder that embeds each text once. For public corpora only: it keeps texts and vectors in memory.

    Args:
        load: loads the embedder, when it is first needed.
        name, dim: of the embedder.
    """

    def __init__(self, load: Callable[[], Any], name: str = "all-MiniLM-L6-v2", dim: int = 384) -> None:
        self._load, self.name, self.dim = load, name, dim
        self._inner: Any = None
        self._known: dict[str, Singles] = {}

    @property
    def inner(self) -> Any:
        """The embedder itself."""
        if self._inner is None:
            self._inner = self._load()
        return self._inner

    @property
    def digest(self) -> str:
        """The digest of the embedder, if it has one: mechanisms ask for that of a sentence encoder."""
        return str(self.inner.digest)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors `(n_texts, dim)`."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, np.asarray(self.inner.embed(new), np.float32), strict=True))
        return np.asarray([self._known[text] for text in texts], np.float64).reshape(len(texts), self.dim)

    def forget(self, but: AbstractSet[str]) -> None:
        """Forget all vectors but those of some texts."""
        self._known = {text: vector for text, vector in self._known.items() if text in but}
