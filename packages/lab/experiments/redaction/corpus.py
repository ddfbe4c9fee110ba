"""Sentences of two kinds for the redaction experiments: public ones, those that train attackers, those attacked.

Nothing is shared between the three: no text, and no document (no film in the case of reviews).
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dptext.text.records import Record
from dptext.text.tokens import sentences, tokenize
from dptext_lab.redaction.trait import SetSplit

sys.path.append(str(Path(__file__).parents[1]))
from common import corpus_rows

Pair = Literal["cancer", "imdb"]
SEED = 80
#: Of the sentences of cancer_sentences, in words; reviews are cut the same way.
LEAST_WORDS, MOST_WORDS = 6, 60
#: Sentences of one review at most.
OF_A_REVIEW = 4
#: The two sources of abstracts name their classes differently.
TOPICS = {"neoplasms": "C04", "digestive": "C06", "nervous": "C10", "cardiovascular": "C14", "general": "C23"}

Sides = tuple[tuple[Record, ...], tuple[Record, ...]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences of the sensitive kind and of the safe one; `author` is the document, `label` the kind.

    Attributes:
        public: what the redactor, the spaces and the models learn from.
        training: what attackers learn from, as many of each kind.
        attacked: what is measured and attacked, as many of each kind.
        abstracts: public abstracts with their topics; of none of them is a sentence in `training` or `attacked`.
        topics: of every abstract, by its id.
    """

    public: Sides
    training: Sides
    attacked: Sides
    abstracts: tuple[Record, ...]
    topics: dict[str, str]

    @property
    def originals(self) -> frozenset[str]:
        """What is redacted, as it was."""
        return frozenset(record.text for sides in (self.training, self.attacked) for side in sides for record in side)

    @property
    def split(self) -> SetSplit:
        """What attackers learn from, and what they attack."""
        return SetSplit(self.training, self.attacked)


def medical(kind: str) -> dict[str, list[Record]]:
    """Sentences of one kind by split."""
    found: dict[str, list[Record]] = {"train": [], "test": []}
    for row in corpus_rows("medical_abstracts", "cancer_sentences"):
        if row["label"] == kind:
            found[row["split"]].append(Record(row["id"], row["text"], label=kind, author=row["doc"]))
    return found


def reviews(wanted: int) -> dict[str, list[Record]]:
    """Sentences of film reviews by split, of so many reviews each."""
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "test": []}
    for row in corpus_rows("imdb"):
        rows[row["split"]].append(row)
    rng = np.random.default_rng([SEED, 1])
    found: dict[str, list[Record]] = {}
    films = {row["movie"] for row in rows["test"]}
    for name, reviewed in rows.items():
        apart = [row for row in reviewed if name == "test" or row["movie"] not in films]
        found[name] = []
        for i in rng.permutation(len(apart))[:wanted].tolist():
            cut = [s for s in sentences(apart[i]["text"]) if LEAST_WORDS <= len(s.split()) <= MOST_WORDS]
            for j in rng.permutation(len(cut))[:OF_A_REVIEW].tolist():
                number = f"imdb-{apart[i]['id']}#{j}"
                found[name].append(Record(number, cut[j], label="other", author=apart[i]["movie"]))
    return found


def read_pair(pair: Pair, *, public: int, training: int, attacked: int) -> Corpus:
    """Draw both kinds; of the training split half of the documents are public, the others train attackers."""
    wanted = public + training + attacked
    other = {"cancer": lambda: medical("other"), "imdb": lambda: reviews(wanted)}[pair]()
    rng = np.random.default_rng([SEED, 2])
    seen: set[tuple[str, ...]] = set()
    parts: dict[str, list[tuple[Record, ...]]] = {"public": [], "training": [], "attacked": []}
    for rows in (medical("cancer"), other):
        known = [record for record in rows["train"] if is_public(str(record.author))]
        rest = [record for record in rows["train"] if not is_public(str(record.author))]
        for name, records, n in (
            ("attacked", rows["test"], attacked),
            ("training", rest, training),
            ("public", known, public),
        ):
            parts[name].append(drawn(records, n, seen, rng))
    sides = {name: (found[0], found[1]) for name, found in parts.items()}
    for name in ("attacked", "training"):
        if len(sides[name][0]) != len(sides[name][1]):
            sys.exit(f"Expected as many {name} sentences of each kind: ask for fewer.")
    held = {row["doc"] for row in corpus_rows("medical_abstracts", "cancer_sentences") if row["split"] == "test"}
    topics: dict[str, str] = {}
    abstracts: list[Record] = []
    for row in corpus_rows("medical_abstracts", "medical_abstracts"):
        topics[row["id"]] = TOPICS.get(row["label"], row["label"])
        if row["id"] not in held and is_public(row["id"]):
            abstracts.append(Record(row["id"], row["text"], label=topics[row["id"]]))
    return Corpus(sides["public"], sides["training"], sides["attacked"], tuple(abstracts), topics)


def is_public(document: str) -> bool:
    """Whether a document of the training split is public: half of them are, whatever else is drawn."""
    return hashlib.blake2b(document.encode(), digest_size=1).digest()[0] % 2 == 0


def drawn(
    records: list[Record], wanted: int, seen: set[tuple[str, ...]], rng: np.random.Generator
) -> tuple[Record, ...]:
    """So many records at most, none whose tokens were seen in any case."""
    found: list[Record] = []
    for i in rng.permutation(len(records)).tolist():
        key = tuple(token.casefold() for line in tokenize(records[i].text) for token in line)
        if len(found) < wanted and key not in seen:
            seen.add(key)
            found.append(records[i])
    return tuple(found)
