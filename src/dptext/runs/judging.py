"""What a corpus is worth beside originals and public texts, for the owner of the originals alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from dptext._wording import NOT_PRIVATE, html_table, html_text
from dptext.embeddings.embedder import RememberingEmbedder
from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError, DataError
from dptext.estimates import Estimate
from dptext.runs.synthesized import Synthesized
from dptext.text.labels import meaning, relabelled
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.text.tables import Texts
from dptext.types import Json, jsonable
from dptext.utility.corpus_rows import RELEASED, JudgedRows, judged_rows, labelled_by, require_enough
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY

_BESIDE: Final = {RELEASED: "the corpus has", ORIGINAL: "originals", PUBLIC_ONLY: "public texts"}


@dataclass(frozen=True, slots=True)
class JudgedCorpus:
    """What a corpus is worth. It is computed from the originals: no guarantee covers it.

    Attributes:
        rows: numbers by row, such as "original", "released" and "public-only", and name, such as "accuracy".
        sentences: the verdict on training, and how the texts compare, in plain words.
        seed: the seed that gives the same numbers.
    """

    rows: Mapping[str, Mapping[str, Estimate | float]]
    sentences: tuple[str, ...]
    seed: int

    def to_dict(self) -> dict[str, Json]:
        """Return all of it as JSON-able data."""
        rows = {row: {name: jsonable(value) for name, value in own.items()} for row, own in self.rows.items()}
        return {"note": NOT_PRIVATE, "sentences": [*self.sentences], "seed": self.seed, "rows": cast("Json", rows)}

    def __str__(self) -> str:
        return "\n".join([*self.sentences, NOT_PRIVATE])

    def _repr_html_(self) -> str:
        heads = [*dict.fromkeys(name for own in self.rows.values() for name in own)]
        lines = [[row, *(_shown(own.get(name)) for name in heads)] for row, own in self.rows.items()]
        return html_text(str(self)) + html_table(["", *heads], lines)


def _shown(value: Estimate | float | None) -> str:
    if value is None:
        return "-"
    return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]" if isinstance(value, Estimate) else f"{value:.3f}"


def judge(
    private: Texts,
    corpus: Texts | Synthesized,
    public: Texts,
    *,
    text: str = "text",
    label: str | None = "label",
    public_text: str | None = None,
    names: Sequence[str] | Mapping[str, str] | None = None,
    test: Texts | None = None,
    encoder: str = "sentence",
    seed: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> JudgedCorpus:
    """Say what a corpus teaches beside its originals and public texts, as the command `dptext utility corpus` does.

    It reads the originals, and no guarantee covers what it returns: it is for their owner alone.

    Args:
        private: the originals: a data frame, rows, records, or the path of a file.
        corpus: what `dptext.write` or `dptext.synthesize` returned, or likewise a frame or a file.
        public: the pool, or other public texts. They may have labels under the name `label`; without any they are
            labelled by the names of the labels.
        text: column of the texts of the originals, of the test, and of a corpus that is no result.
        label: column of their labels; None without labels.
        public_text: column of public texts; None for the same name as `text`.
        names: the meanings of the labels in words, by label, or in the order of the summary of a result. Default:
            those of the summary.
        test: real texts that the corpus was not made from. Default: half of the originals, at random.
        encoder: as of `dptext.embeddings.encoders.load_encoder`.
        seed: of halves, classifiers and intervals; None draws one.
        on_progress: called with the number of rows done, and of all.

    Raises:
        ConfigError: fewer than 8 records of a kind, a column is lacking, or names do not belong to the labels.
        DataError: a record cannot be read.
    """
    seed = secrets.randbits(32) if seed is None else seed
    originals = as_records(private, text=text, label=label)
    held = [] if test is None else as_records(test, text=text, label=label)
    pool, made = _public(public, public_text or text, label), _made(corpus, text, label)
    require_enough(originals, pool, made, *([] if test is None else [held]))
    labels = sorted({record.label for record in originals if record.label})
    pool, made, held = (relabelled(records, labels) for records in (pool, made, held))
    meanings = _meanings(labels, corpus, names)
    embedder = RememberingEmbedder(load_encoder(encoder))
    embedder.embed([record.text for record in pool])
    told = on_progress or (lambda *_: None)
    found = judged_rows(originals, made, pool, held, meanings, embedder, seed, told)
    return JudgedCorpus(found.rows, tuple(_said(found, *labelled_by(meanings, pool))), seed)


def _public(public: Texts, text: str, label: str | None) -> list[Record]:
    """Read public texts, with their labels if they have some."""
    public = [*public] if isinstance(public, Iterator) else public  # it is read again if it has no labels
    if label is not None:
        try:
            return as_records(public, text=text, label=label)
        except (ConfigError, DataError):  # without labels; another fault comes again below
            pass
    return as_records(public, text=text)


def _made(corpus: Texts | Synthesized, text: str, label: str | None) -> list[Record]:
    if isinstance(corpus, Synthesized):
        return [Record(each.id, each.output, each.label) for each in corpus.releases]
    return as_records(corpus, text=text, label=label)


def _meanings(
    labels: Sequence[str], corpus: Texts | Synthesized, names: Sequence[str] | Mapping[str, str] | None
) -> dict[str, str]:
    """Return the meaning of each label; those of the summary by default. A label without one means itself."""
    settings = corpus.certificate.settings if isinstance(corpus, Synthesized) else {}
    known, own = (cast("list[str]", settings.get(each) or []) for each in ("labels", "names"))
    if isinstance(names, Mapping):
        known, own = [str(each) for each in names], [*names.values()]
    elif names is not None and labels:
        if not known:
            raise ConfigError(f"Expected names by label, as no summary has an order of labels: {{{labels[0]!r}: ...}}.")
        own = [*names]
        if len(own) != len(known):
            raise ConfigError(f"Expected names for each of {len(known)} labels, found {len(own)}.")
    said = dict(zip(map(meaning, known), own, strict=False))
    return {each: said.get(meaning(each), each) for each in labels}


def _said(found: JudgedRows, wordless: Sequence[str], by_words: Sequence[str]) -> list[str]:
    right = {row: _shown(own["accuracy"]) for row, own in found.rows.items() if "accuracy" in own}
    said = [*wordless] if found.worth is None else [f"Useful for training: {found.worth.answer}", *by_words]
    if not right:
        said.append("Labels are not judged: the originals have none (label=).")
    elif RELEASED in right:
        beside = [f"{what} {right[row]}" for row, what in _BESIDE.items() if row in right]
        said.append(f"Of the labels of real texts a classifier that learns from {', from '.join(beside)} right.")
    apart = _shown(found.rows[RELEASED].get("told_apart"))
    said.append(f"A classifier tells the corpus from real texts with AUC {apart}; .5 is perfect.")
    return said
