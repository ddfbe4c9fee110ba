"""A small experiment for tests: texts of made-up words, a label and an author each, and faults planted in workers."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from vectors import WORDS

CANARY = "zqxcanaryxv"
LABELS = ("red", "green")

#: Put before everything that a worker imports: the rate of random_replacement chooses the fault.
FAULTS = """
import os, signal, time
from dptext_lab.baselines import words as module

kept = module.RandomReplacementMechanism.privatize

def privatize(self, records, randomness):
    rate = self.spec.rate
    if rate == 0.1:
        raise ValueError(records[0].text)
    if rate == 0.2:
        os.kill(os.getpid(), signal.SIGKILL)
    if rate == 0.3:
        bytearray(5 << 30)  # there is as much, but not for this worker
    if rate == 0.4 and os.environ.get("HANG"):
        with open(os.environ["HANG"], "w") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
    return kept(self, records, randomness)

module.RandomReplacementMechanism.privatize = privatize

from dptext.mechanisms.words.word_by_word import WordChoiceMechanism
from dptext.text.records import Release

honest = WordChoiceMechanism.privatize

def verbatim(self, records, randomness):
    if self.spec.epsilon == 0.0625:
        return [Release(record.id, record.text) for record in records]
    return honest(self, records, randomness)

WordChoiceMechanism.privatize = verbatim
"""


def write_texts(path: Path, n: int = 120) -> Path:
    rng = np.random.default_rng(3)
    lines = []
    for i in range(n):
        words = [*rng.choice(WORDS[100:], 4), *rng.choice(WORDS[(i % 2) * 40 : (i % 2) * 40 + 8], 3), f"{CANARY}{i}"]
        row = {"body": " ".join(words), "class": LABELS[i % 2], "who": f"writer {i % 3}", "split": "ab"[i % 4 == 3]}
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def experiment(texts: Path, vectors: Path, **changes: Any) -> dict[str, Any]:
    """As parsed TOML: no labels, fidelity only, one mechanism."""
    corpus = {"path": str(texts), "text": "body"} | changes.pop("corpus", {})
    return {
        "name": "small",
        "seed": 1,
        "utilities": ["fidelity"],
        "settings": {"embedder": str(vectors)},
        "corpora": {"made": corpus},
        "mechanisms": [replacement(vectors)],
    } | changes


def replacement(vectors: Path, **changes: Any) -> dict[str, Any]:
    own = {"vectors": str(vectors), "n_words": 300, "rate": 1.0} | changes.pop("set", {})
    return {"name": "replaced", "kind": "random_replacement", "set": own} | changes


def words(vectors: Path, **changes: Any) -> dict[str, Any]:
    own = {"vectors": str(vectors), "n_words": 300, "noise": "tem"} | changes.pop("set", {})
    return {"name": "words", "kind": "word_metric", "set": own} | changes


def as_toml(data: dict[str, Any]) -> str:
    """Nested tables inline: enough for tests."""
    return "\n".join(f"{key} = {_toml(value)}" for key, value in data.items()) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def plant(folder: Path) -> str:
    """A folder for PYTHONPATH in which the faults lie."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(FAULTS, "utf-8")
    return str(folder)
