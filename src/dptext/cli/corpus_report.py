"""The report of `dptext utility corpus --out`: what a corpus is worth and what attacks show, as a page and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from dptext._wording import NOT_PRIVATE
from dptext.cli.answers import interval, short
from dptext.cli.corpus_tables import explained, is_of_columns, table_of_means
from dptext.cli.utility import cell
from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.synthesis.pool import fit_topics, stop_words
from dptext.text.files import Target
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext.types import Json, jsonable
from dptext.utility.corpus_page import PageTable, Shares, corpus_page
from dptext.utility.group_means import GroupMeans
from dptext.utility.leaving import Leaving
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY
from dptext.utility.worth import CorpusWorth

Numbers = Mapping[str, Mapping[str, Estimate | float]]
#: Upper ends of the lengths in words, and their names.
_LENGTHS: Final = (5, 10, 20, 40, 80, 160, 320)
_TOPICS: Final = 12
_WORDS: Final = 8
_MOST_NAMES: Final = 30  # labels on the page
_READABLE: Final = 0.9  # AUC from which texts are told from real ones at a glance
_NO_GUARANTEE: Final = (
    "These numbers are measurements, not guarantees: another attack may show more. What is guaranteed stands in the "
    "certificate beside the corpus."
)


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """Everything that the page shows.

    Attributes:
        released: the row of the corpus.
        parts: records by row: original, the corpus, public-only.
        rows: numbers by row.
        labels: the set of labels; empty without labels.
        leaves: what attacks show; None without records that the corpus was not made from.
        copied: share of the corpus' texts that are public texts, word for word.
        copies: number of private texts, and no public ones, that stand in the corpus word for word, and of all of them.
        worth: what the corpus teaches beside public texts; None without labels.
        notes: what the verdict on training leaves out.
        of_columns: sentences on columns; none without columns.
        means: means of numbers by values of other columns.
    """

    released: str
    parts: Mapping[str, Sequence[Record]]
    rows: Numbers
    labels: Sequence[str]
    leaves: Leaving | None
    copied: float
    seed: int
    copies: tuple[int, int] = (0, 0)
    worth: CorpusWorth | None = None
    notes: Sequence[str] = ()
    of_columns: Sequence[str] = ()
    means: Sequence[GroupMeans] = ()

    def headline(self) -> list[str]:
        """Return the answers in words."""
        return [" ".join([self._training(), *self.notes]), self._reading(), self._leaving()]

    def _training(self) -> str:
        made = self.rows[self.released].get("accuracy")
        if not isinstance(made, Estimate):
            return "Useful for training: not measured, as no labels are named or the corpus has none (--label-field)."
        if self.worth is None:
            return (
                f"Useful for training: a classifier has {interval(made)} right; public texts have no labels to compare."
            )
        return f"Useful for training: {self.worth.answer}"

    def _reading(self) -> str:
        apart = self.rows[self.released].get("told_apart")
        if self.copied == 1:
            return "For reading: yes, each text is a public text, word for word."
        if not isinstance(apart, Estimate):
            return "For reading: not measured."
        answer = "no" if apart.low > _READABLE else "look at some of them"
        auc = f"AUC {interval(apart)} (.5 is perfect)"
        return f"For reading: {answer}. A classifier tells its texts from real ones with {auc}."

    def _leaving(self) -> str:
        if self.leaves is None:
            n, of = self.copies
            said = f"Copies of private texts: {n:,} of {of:,} that are no public text, without a control."
            return f"{said} Attacks: not measured. Give --test, real texts that the corpus was not made from."
        found = self.leaves
        said = f"Copies of private texts: {found.copies.sentence.partition(': ')[2]}"
        if found.shown:
            said += f". Private texts are told from the control by: {', '.join(found.shown)}."
            if found.apart_by_public:
                auc = interval(found.membership_by_public)
                return (
                    f"{said} Public texts alone tell the two apart, too (AUC {auc}): the control is of another source. "
                    "Take one of the same source."
                )
            return f"{said} Either it is of another source, or the corpus tells of them: a smaller epsilon tells less."
        if found.differ:
            return f"{said}. The control is nearer to the corpus than private texts: it is not of the same source."
        return f"{said}. No attack tells {found.texts:,} private texts from a control of as many."

    def shares(self, embedder: Embedder) -> list[Shares]:
        """Return labels, lengths and topics of all rows."""
        texts = {row: [record.text for record in records] for row, records in self.parts.items()}
        found = []
        if self.labels:
            counts = {row: Counter(record.label for record in records) for row, records in self.parts.items()}
            names = sorted(self.labels, key=lambda name: -counts[ORIGINAL][name])[:_MOST_NAMES]
            rows = {row: _parts([own[name] for name in names], sum(own[name] for name in self.labels))
                    for row, own in counts.items()}  # fmt: skip
            found.append(Shares("Labels", tuple(names), {row: own for row, own in rows.items() if any(own)}))
        ends = [0, *_LENGTHS]
        names = [f"{low + 1} to {high}" for low, high in zip(ends, _LENGTHS, strict=False)]
        lengths = {
            row: np.bincount(
                np.searchsorted(_LENGTHS, [len(text.split()) for text in own]), minlength=len(ends)
            ).tolist()
            for row, own in texts.items()
        }
        names.append(f"over {_LENGTHS[-1]}")
        some = [i for i in range(len(names)) if any(own[i] for own in lengths.values())]
        rows = {row: _parts([own[i] for i in some], len(texts[row])) for row, own in lengths.items()}
        found.append(Shares("Lengths in words", tuple(names[i] for i in some), rows))
        return found + self._topics(texts, embedder)

    def _topics(self, texts: Mapping[str, Sequence[str]], embedder: Embedder) -> list[Shares]:
        pool = [*dict.fromkeys(texts[PUBLIC_ONLY])]
        space = embed_distinct((text for own in texts.values() for text in own), embedder)
        try:
            topics = fit_topics(pool, space.at(pool), min(_TOPICS, len(pool) // 10), seed=self.seed)
        except ConfigError:  # too few public texts
            return []
        rows = {row: np.bincount(topics.nearest(space.at(own)), minlength=len(topics.described)) / len(own)
                for row, own in texts.items()}  # fmt: skip
        order = np.argsort(-rows[ORIGINAL], kind="stable")
        names = [", ".join(topics.described[i][0][:4]) for i in order.tolist()]
        shown = {row: tuple(own[order].tolist()) for row, own in rows.items()}
        return [Shares("Topics of public texts", tuple(names), shown)]

    def words(self) -> list[Shares]:
        """Return, by label, the words that it has more often than the others, in originals or in the corpus."""
        silent = stop_words()
        both = {row: [(record.label, _words(record.text) - silent) for record in self.parts[row]]
                for row in (ORIGINAL, self.released)}  # fmt: skip
        found = []
        for label in sorted(self.labels)[:_MOST_NAMES]:
            own = {row: _telling(texts, label) for row, texts in both.items()}
            names = tuple(dict.fromkeys(word for _, telling in own.values() for word in telling))
            rows = {row: tuple(shares.get(name, 0.0) for name in names) for row, (shares, _) in own.items()}
            found.append(Shares(f"Words of {label}: share of its texts", names, rows))
        return [each for each in found if each.names]

    def attacks(self) -> list[PageTable]:
        """Return what attacks show, beside their controls."""
        found = self.leaves
        if found is None:
            return []
        nearer = "all are equally near" if found.nearer is None else short(found.nearer)
        lines = [
            ["share of the corpus nearer to them", nearer, ".5 if nothing leaves"],
            ["median distance to the corpus", short(found.distance), short(found.distance_of_others)],
            ["AUC of a membership attack", interval(found.membership),
             f"{interval(found.membership_by_public)}, by public texts alone"],
        ]  # fmt: skip
        if found.attribute is not None and found.attribute_of_others is not None:
            guessed = (interval(each) for each in (found.attribute, found.attribute_of_others))
            lines.append(["label that is guessed right", *guessed])
        for each in (found.copies, *found.replayed):
            own, other = (f"{n:,} of {of:,}" for n, of in (each.of_private, each.of_others))
            lines.append([f"{each.kind} that the corpus has, and no public text", own, other])
        said = (
            f"{found.texts:,} private texts beside as many real ones that the corpus was not made from (the control)."
        )
        return [PageTable("What attacks show", ("", "private texts", "control"), lines, said)]

    def numbers(self) -> list[PageTable]:
        """Return the tables of all numbers, one of them of columns, and what each row is."""
        said = (
            "accuracy, macro_f1: of a classifier that learns from the row, on real texts. told_apart: AUC of one that "
            "tells the row from real texts (.5 is perfect). precision: share of the row among real texts; recall: of "
            "real texts in the row. frechet: distance to real texts; topics_tv, mix_l1: of topics and labels, to "
            "private ones. own_label: share of public texts with their own label."
        )
        of_columns = [*filter(is_of_columns, self._heads())]
        tables = [self._table("All numbers", [head for head in self._heads() if head not in of_columns], said)]
        heads, lines = table_of_means(self.means)
        if lines:
            said = "Of the numbers of the rows themselves; - where fewer than five rows have a number."
            tables.insert(0, PageTable("Columns: means", heads, lines, said))
        if of_columns:
            tables.insert(0, self._table("Columns", of_columns, " ".join(self.of_columns)))
        return [*tables, PageTable("The rows", ("", "what it is"), explained(self.rows))]

    def _heads(self) -> list[str]:
        heads = dict.fromkeys(head for found in self.rows.values() for head in found)
        return sorted(heads, key=lambda head: head not in ("accuracy", "macro_f1"))

    def _table(self, title: str, heads: Sequence[str], said: str) -> PageTable:
        there = {row: found for row, found in self.rows.items() if any(head in found for head in heads)}
        lines = [[row, *(cell(found.get(head), interval) for head in heads)] for row, found in there.items()]
        return PageTable(title, ("interval at 95%", *heads), lines, said)

    def written(self, page: Path, embedder: Embedder, notes: Sequence[str], *, force: bool) -> list[str]:
        """Write the page, and the same as JSON beside it, for their owner alone. Return the headline for the screen."""
        shares, words = self.shares(embedder), self.words()
        parts: list[Shares | PageTable] = [*shares, *words, *self.attacks(), *self.numbers()]
        text = corpus_page("What a corpus is worth", [NOT_PRIVATE, *self.headline()], parts, [*notes, _NO_GUARANTEE])
        data: dict[str, Json] = {
            "note": NOT_PRIVATE, "headline": [*self.headline()], "public_texts": self.copied,
            "rows": {row: {head: jsonable(value) for head, value in found.items()} for row, found in self.rows.items()},
            "shares": _listed(shares), "words": _listed(words),
            "gap_closed": None if self.worth is None else self.worth.closed.to_dict(),
            "worth": None if self.worth is None else self.worth.to_dict(),
            "means": [each.to_dict() for each in self.means],
            "copies": [*self.copies], "leaving": None if self.leaves is None else self.leaves.to_dict(),
        }  # fmt: skip
        for path, content in ((page, text), (beside(page), json.dumps(data, indent=2))):
            Target(path, force).write(content.encode())
        return [*self.headline(), f"Written: {page} and {beside(page)}, which you alone can read.", ""]


def beside(page: Path) -> Path:
    """Return the path of the JSON beside a page."""
    return page.with_suffix(".json")


def _listed(found: Sequence[Shares]) -> dict[str, Json]:
    return {each.title: {"names": [*each.names], **{row: [*own] for row, own in each.rows.items()}} for each in found}


def _parts(counts: Sequence[int], whole: int) -> tuple[float, ...]:
    return tuple(count / max(1, whole) for count in counts)


def _words(text: str) -> set[str]:
    return {word.lower() for line in tokenize(text) for word in line if word.isalpha() and len(word) > 2}


def _telling(texts: Sequence[tuple[str | None, set[str]]], label: str) -> tuple[dict[str, float], list[str]]:
    """Return the share of the label's texts with each word, and the words most above their share in other texts."""
    own, others = Counter[str](), Counter[str]()
    for name, words in texts:
        (own if name == label else others).update(words)
    n = sum(name == label for name, _ in texts)
    shares = {word: count / n for word, count in own.items()}
    lift = {word: share - others[word] / max(1, len(texts) - n) for word, share in shares.items() if own[word] > 1}
    return shares, sorted(lift, key=lambda word: (-lift[word], word))[:_WORDS]
