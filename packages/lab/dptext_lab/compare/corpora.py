"""The three parts of a corpus: public, private and test, disjoint as texts, equal for equal plan and seed.

1. Records are read and chosen by `where`.
2. Parts with a share are cut from one random order of the common source.
3. Documents become sentences where the plan says so, and texts are cut to `max_tokens`.
4. A text that occurs earlier, in the same part or another, is left out; case and blanks make no difference. A public
   text needs no privacy, and a test text that a classifier has seen tests nothing.
5. Each part is cut to its limit.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.text.labels import relabelled
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record, require_labels
from dptext.text.samples import sample_records
from dptext.text.tokens import composed, cut, detokenize, sentences, tokenize
from dptext.types import Json
from dptext.utility.classification import best_zero_shot
from dptext_lab.compare.corpus_plans import PARTS, CorpusPlan, Source


@dataclass(frozen=True, slots=True)
class SplitCorpus:
    """The records of a corpus by part, disjoint; its `repr` shows none. `labels` is empty for a corpus without labels.

    If labels have names, the public part is labelled by them (`named`), and `pool` holds all of it with its own labels.
    """

    name: str
    public: tuple[Record, ...] = field(repr=False)
    private: tuple[Record, ...] = field(repr=False)
    test: tuple[Record, ...] = field(repr=False)
    labels: tuple[str, ...]
    authors: bool
    pool: tuple[Record, ...] = field(default=(), repr=False)

    def parts(self) -> dict[str, tuple[Record, ...]]:
        """Return the records by the name of their part."""
        return {"public": self.public, "private": self.private, "test": self.test}

    def described(self) -> dict[str, Json]:
        """Return number and digest of the records of each part, as JSON-able data."""
        return {part: {"records": len(found), "digest": _digest(found)} for part, found in self.parts().items()}


def load_corpus(name: str, plan: CorpusPlan, *, seed: int) -> SplitCorpus:
    """Read, choose, split and cut; ConfigError for an empty part or unknown label, DataError for an odd record."""
    rng = np.random.default_rng(seed)
    whole = [] if plan.common is None else _shuffled(_distinct(_read(name, plan, plan.common), set()), rng)
    shares = plan.drawn
    ends = np.cumsum([shares.get(part, 0.0) for part in PARTS])
    parts: dict[str, list[Record]] = {}
    known: set[str] = set()
    for part, end in zip(PARTS, ends.tolist(), strict=True):
        if part in shares:
            begin = end - shares[part]
            given = whole[round(begin * len(whole)) : round(end * len(whole))]
            limit = round(plan.limit * shares[part])
        else:
            given = _shuffled(_read(name, plan, plan.sources[part]), rng)
            limit = plan.sources[part].limit
        found = relabelled(_distinct(_cut(plan, given), known), plan.labels or tuple(plan.names))
        parts[part] = found[:limit] if limit else found
        known |= {_key(record.text) for record in parts[part]}
        if not parts[part]:
            raise ConfigError(
                f"Expected records in the part {part!r} of [corpora.{name}], found none: look at its path, where "
                "and limit. Texts that an earlier part has are left out."
            )
    public, private, test = (tuple(replace(r, id=str(i)) for i, r in enumerate(parts[part])) for part in PARTS)
    return SplitCorpus(name, public, private, test, _labels(name, plan, parts), bool(plan.author))


def named(corpus: SplitCorpus, names: Mapping[str, str], embedder: Embedder) -> SplitCorpus:
    """Label the public part of a corpus by the names of the labels; its own labels stay in the pool."""
    found = best_zero_shot([record.text for record in corpus.public], names, embedder, corpus.test)
    public = (Record(str(i), text, label) for i, (text, label) in enumerate(zip(*found, strict=True)))
    return replace(corpus, public=tuple(public), pool=corpus.public)


def _read(name: str, plan: CorpusPlan, source: Source) -> list[Record]:
    if source.sample:
        hidden: dict[str, Any] = {name: None for name in ("label", "author") if not getattr(plan, name)}
        return [replace(record, **hidden) for record in sample_records(source.sample)]
    fields = Fields(text=plan.text, label=plan.label or None, author=plan.author or None, keep=tuple(source.where))
    advice = f'Repair it, or skip such records: on_error = "skip" in [corpora.{name}].'
    read = read_records(source.path, fields, on_error=plan.on_error, record=plan.record, advice=advice)
    wanted = source.where.items()
    return [replace(record, kept={}) for record in read if all(record.kept[name] in some for name, some in wanted)]


def _shuffled(records: Sequence[Record], rng: np.random.Generator) -> list[Record]:
    return [records[i] for i in rng.permutation(len(records)).tolist()]


def _distinct(records: Iterable[Record], known: Set[str]) -> list[Record]:
    found: dict[str, Record] = {}
    for record in records:
        key = _key(record.text)
        if key and key not in known:
            found.setdefault(key, record)
    return list(found.values())


def _key(text: str) -> str:
    return " ".join(composed(text).casefold().split())


def _cut(plan: CorpusPlan, records: Iterable[Record]) -> Iterator[Record]:
    """Yield the documents or their sentences, cut to `max_tokens`; 0 cuts none. A short text keeps its blanks."""
    for record in records:
        for text in [record.text] if plan.pieces == "documents" else sentences(record.text):
            lines = tokenize(text) if plan.max_tokens else []
            long = sum(map(len, lines)) > plan.max_tokens
            yield replace(record, text=detokenize(cut(lines, plan.max_tokens)) if long else text)


def _labels(name: str, plan: CorpusPlan, parts: Mapping[str, Sequence[Record]]) -> tuple[str, ...]:
    if not plan.label:
        return ()
    given = {record.label for record in parts["public"] if record.label is not None}
    found = plan.labels or tuple(plan.names) or tuple(sorted(given))
    if len(found) < 2:
        raise ConfigError(
            f"Expected at least two labels in the public part of [corpora.{name}], found {len(found)}: name the "
            "field of the label, or leave it out."
        )
    for part, records in parts.items():
        require_labels(records, found, part)
    return found


def _digest(records: Sequence[Record]) -> str:
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps([record.text, record.label, record.author]).encode() + b"\n")
    return digest.hexdigest()
