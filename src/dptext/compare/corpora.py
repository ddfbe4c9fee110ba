"""The three parts of a corpus: public, private and test, disjoint as texts, the same for the same plan and seed.

Records are read, chosen by `where`, and freed of texts that were there before (equal but for case and blanks): a text
that is public needs no privacy, and a test text that a classifier has seen tests nothing. Parts with a share are cut
from one random order of the common source. Then documents become sentences where the plan says so, texts are cut to
`max_tokens`, what an earlier part has is left out, and the limits are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from dptext.compare.experiment import PARTS, CorpusPlan, Source
from dptext.errors import ConfigError
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record, require_labels
from dptext.text.samples import sample_records
from dptext.text.tokens import cut, detokenize, sentences, tokenize
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class Corpus:
    """The records of a corpus, by part. Its `repr` shows none.

    Attributes:
        name: in the table.
        public, private, test: disjoint.
        labels: the public label set; empty where there are no labels.
        authors: whether records name their authors.
    """

    name: str
    public: tuple[Record, ...] = field(repr=False)
    private: tuple[Record, ...] = field(repr=False)
    test: tuple[Record, ...] = field(repr=False)
    labels: tuple[str, ...]
    authors: bool

    def parts(self) -> dict[str, tuple[Record, ...]]:
        """The records by the name of their part."""
        return {"public": self.public, "private": self.private, "test": self.test}

    def described(self) -> dict[str, Json]:
        """Number and digest of the records of each part, as JSON-able data."""
        return {part: {"records": len(found), "digest": _digest(found)} for part, found in self.parts().items()}


def load_corpus(plan: CorpusPlan, *, seed: int) -> Corpus:
    """Read, choose, split and cut.

    Args:
        plan: of the corpus.
        seed: of splits and limits.

    Raises:
        ConfigError: a part that is empty, or a label that is not in the set.
        DataError: a record cannot be read, and the plan does not leave such records out.
    """
    rng = np.random.default_rng(seed)
    whole = [] if plan.common is None else _shuffled(_distinct(_read(plan, plan.common), set()), rng)
    ends = np.cumsum([plan.shares.get(part, 0.0) for part in PARTS])
    parts: dict[str, list[Record]] = {}
    known: set[str] = set()
    for part, end in zip(PARTS, ends.tolist(), strict=True):
        if part in plan.shares:
            begin = end - plan.shares[part]
            given = whole[round(begin * len(whole)) : round(end * len(whole))]
            limit = 0 if plan.common is None else round(plan.common.limit * plan.shares[part])
        else:
            given = _shuffled(_read(plan, plan.sources[part]), rng)
            limit = plan.sources[part].limit
        found = _distinct(_shortened(_pieces(plan, given), plan.max_tokens), known)
        parts[part] = found[:limit] if limit else found
        known |= {_key(record.text) for record in parts[part]}
        if not parts[part]:
            raise ConfigError(
                f"Expected records in the part {part!r} of [corpora.{plan.name}], found none: look at its path, where "
                "and limit; texts that an earlier part has are left out."
            )
    numbered = {
        part: tuple(replace(record, id=str(i)) for i, record in enumerate(found)) for part, found in parts.items()
    }
    labels = _labels(plan, numbered)
    return Corpus(plan.name, numbered["public"], numbered["private"], numbered["test"], labels, bool(plan.author))


def _read(plan: CorpusPlan, source: Source) -> list[Record]:
    if source.sample:
        found: Iterable[Record] = sample_records(source.sample)
        if source.where:
            raise ConfigError(f"Expected no where in [corpora.{plan.name}] with sample: its texts have no fields.")
        return [
            replace(r, label=r.label if plan.label else None, author=r.author if plan.author else None) for r in found
        ]
    fields = Fields(text=plan.text, label=plan.label, author=plan.author, keep=tuple(source.where))
    advice = f'Repair it, or skip such records: on_error = "skip" in [corpora.{plan.name}].'
    read = read_records(source.path, fields, on_error=plan.on_error, advice=advice)
    chosen = (record for record in read if _matches(record.kept, source.where))
    return [replace(record, kept={}) for record in chosen]


def _matches(kept: Mapping[str, object], where: Mapping[str, Sequence[Json]]) -> bool:
    return all(kept[name] in values for name, values in where.items())


def _shuffled(records: Sequence[Record], rng: np.random.Generator) -> list[Record]:
    return [records[i] for i in rng.permutation(len(records)).tolist()]


def _distinct(records: Iterable[Record], known: Set[str]) -> list[Record]:
    """Records whose text is new and not known, the first of equals. Blank texts are left out."""
    found: dict[str, Record] = {}
    for record in records:
        key = _key(record.text)
        if key and key not in known:
            found.setdefault(key, record)
    return list(found.values())


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


def _pieces(plan: CorpusPlan, records: Iterable[Record]) -> Iterator[Record]:
    """The documents, or their sentences."""
    for record in records:
        texts = [record.text] if plan.pieces == "documents" else sentences(record.text)
        for text in texts:
            yield replace(record, text=text)


def _shortened(records: Iterable[Record], most: int) -> Iterator[Record]:
    """Records of at most so many tokens; 0 is no bound. Those that are short enough stay as they are."""
    for record in records:
        lines = tokenize(record.text) if most else []
        long = sum(map(len, lines)) > most
        yield replace(record, text=detokenize(cut(lines, most))) if long else record


def _labels(plan: CorpusPlan, parts: Mapping[str, Sequence[Record]]) -> tuple[str, ...]:
    if plan.labels is None:
        return ()
    found = plan.labels or tuple(sorted({record.label for record in parts["public"] if record.label is not None}))
    if len(found) < 2:
        raise ConfigError(
            f"Expected at least two labels in the public part of [corpora.{plan.name}], found {len(found)}: name the "
            "field of the label, or leave it out."
        )
    for part, records in parts.items():
        require_labels(records, found, part)
    return found


def _digest(records: Sequence[Record]) -> str:
    """sha256 of the records in their order, with labels and authors."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps([record.text, record.label, record.author]).encode() + b"\n")
    return digest.hexdigest()
