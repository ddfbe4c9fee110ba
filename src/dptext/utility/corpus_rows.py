"""The rows of a judged corpus: what a classifier learns from it, from originals, and from public texts."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext.embeddings.embedder import Embedder
from dptext.embeddings.tfidf import has_word
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.text.labels import in_words
from dptext.text.records import Record
from dptext.types import Floats
from dptext.utility.classification import Classifier, best_zero_shot, evaluate, train_tfidf
from dptext.utility.corpus import corpus_kept
from dptext.utility.gap import beside_draws, closed_gap, difference, right_answers
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY
from dptext.utility.terms import CountedTerms
from dptext.utility.worth import CorpusWorth

RELEASED: Final = "released"
INDEPENDENT: Final = "independent"  # originals, each column in another order
MIXED: Final = "public, same mix"  # public texts with the mix of labels that the corpus has
FREQUENT: Final = "most frequent label"  # always the label that most originals have
AS_MANY, AS_MANY_PUBLIC = "as many originals", "as many public"  # as texts of the corpus, where these are fewer
AS_MANY_MIXED: Final = "as many, same mix"  # as many public texts, with the mix of labels that the corpus has
WORDLESS: Final = (
    "These labels say nothing in words, so public texts cannot be labelled: say what they mean with --names (names= in "
    "Python), or give public texts their labels."
)
_FEW_LABELS: Final = 4  # labels that a sentence names
_LEAST: Final = 8  # records of a row
_DRAWS: Final = 8  # of as many public texts: one may be lucky
Pair = tuple[str, str]  # a text and its label
_ONE_DRAW: Final = 2_000  # texts of a corpus from which one draw has little luck


class _Taught:
    """What classifiers that learn from each row answer to the same real texts, and the numbers of the rows."""

    def __init__(
        self, parts: Iterable[Sequence[Record]], real: Sequence[Record], names: Mapping[str, str], embedder: Embedder,
        seed: int,
    ) -> None:  # fmt: skip
        self._texts = [*real, *itertools.chain.from_iterable(parts)]
        self._real, self._names, self._embedder, self._seed = real, names, embedder, seed
        self.rows: dict[str, dict[str, Estimate | float]] = {}
        self.answered: dict[str, Floats] = {}
        self.draws: dict[str, list[Floats]] = {}  # the answers of rows of which there are several
        self.learnt: dict[str, str] = {}  # numbers of texts by row, in words

    def teach(self, row: str, known: Sequence[Pair]) -> None:
        """Let a classifier learn a row."""
        trained = self._trained(known)
        found = evaluate(trained, self._real, seed=self._seed)
        self.rows.setdefault(row, {}).update({"accuracy": found.accuracy, "macro_f1": found.macro_f1})
        self.answered[row] = right_answers(trained, self._real).astype(np.float64)
        self.learnt.setdefault(row, f"{len(known):,}")

    def _trained(self, known: Sequence[Pair]) -> Classifier:
        texts, labels = [text for text, _ in known], [label for _, label in known]
        return train_tfidf(texts, labels, seed=self._seed, terms=self._terms)

    @functools.cached_property
    def _terms(self) -> CountedTerms | None:
        """The terms of all texts; None if they have no word."""
        texts = [record.text for record in self._texts]
        return CountedTerms(texts) if has_word(texts) else None

    def teach_draws(self, row: str, draws: Sequence[Sequence[Pair]]) -> None:
        """Let a classifier learn each draw. The row has the mean of their answers."""
        self.draws[row] = [right_answers(self._trained(known), self._real).astype(np.float64) for known in draws]
        self.learnt.setdefault(row, f"{len(draws[0]):,}")
        self.answered[row] = np.mean(self.draws[row], axis=0)
        self.rows[row] = {"accuracy": bootstrap_mean(self.answered[row], seed=self._seed, bounds=(0.0, 1.0))}

    def known(self, row: str, records: Sequence[Record]) -> list[Pair]:
        """Return the texts of a row that have a label, and the label.

        Public texts without any of the labels get them as anybody could give them: by the names of the labels. Names
        that say nothing in words label none.
        """
        public = row in (PUBLIC_ONLY, AS_MANY_PUBLIC)
        pairs = [
            (each.text, each.label) for each in records if each.label and (not public or each.label in self._names)
        ]
        if public and not pairs and in_words(self._names.values()):
            texts, given = best_zero_shot([each.text for each in records], self._names, self._embedder, self._real)
            pairs = [*zip(texts, given, strict=True)]
            self.learnt[row] = f"{len(records):,}"  # some of them get none
        return pairs


def measured(
    parts: Mapping[str, Sequence[Record]],
    private: Sequence[Record],
    real: Sequence[Record],
    names: Mapping[str, str],
    embedder: Embedder,
    seed: int,
    on_row: Callable[[int, int], None],
) -> tuple[dict[str, dict[str, Estimate | float]], CorpusWorth | None]:
    """Return the numbers of each row, and what the corpus is worth, if all rows have labels.

    `names` are the meanings of labels; none without labels. `on_row` is called with the number of rows done and of all.
    """
    taught = _Taught(parts.values(), real, names, embedder, seed)
    mix = Counter(record.label for record in parts[RELEASED] if record.label)
    for i, (row, records) in enumerate(parts.items()):
        on_row(i, len(parts))
        texts, given = [each.text for each in records], [each.label for each in records]
        kept = corpus_kept(
            texts, given, private=private, real=real, pool=parts[PUBLIC_ONLY], labels=[*names], embedder=embedder,
            seed=seed,
        )  # fmt: skip
        taught.rows[row] = {**taught.rows.get(row, {}), **dict(kept.cells())}
        known = taught.known(row, records) if names and row not in taught.draws else []
        if known:
            taught.teach(row, known)
        if known and row == PUBLIC_ONLY and mix:
            _teach_mixed(taught, known, mix, seed)
    on_row(len(parts), len(parts))
    judged = [record.label for record in real if record.label]
    common = Counter(record.label for record in parts[ORIGINAL] if record.label).most_common(1)
    if names and judged and common:
        taught.answered[FREQUENT] = np.array([label == common[0][0] for label in judged], np.float64)
        taught.rows[FREQUENT] = {"accuracy": float(taught.answered[FREQUENT].mean())}
    return taught.rows, _worth(taught, seed)


def _teach_mixed(taught: _Taught, known: Sequence[Pair], mix: Mapping[str, int], seed: int) -> None:
    """Add the rows of public texts in the mix of labels of the corpus: all that there are, and as many."""
    there, size = Counter(label for _, label in known), sum(mix.values())
    times = min(there[label] / n for label, n in mix.items())
    mixed = _in_mix(known, {label: int(times * n) for label, n in mix.items()}, seed)
    if len({label for _, label in mixed}) > 1:
        taught.teach(MIXED, mixed)
    if size >= len(known):
        return
    seeds = range(seed, seed + (_DRAWS if size <= _ONE_DRAW else 1))
    if times >= 1:
        taught.teach_draws(AS_MANY_MIXED, [_in_mix(known, mix, each) for each in seeds])
    else:  # too few of a label: the mix stays that of the pool
        drawn = (np.random.default_rng(each).permutation(len(known))[:size].tolist() for each in seeds)
        taught.teach_draws(AS_MANY_PUBLIC, [[known[i] for i in each] for each in drawn])


def _worth(taught: _Taught, seed: int) -> CorpusWorth | None:
    found = taught.answered
    if not found.keys() >= {ORIGINAL, RELEASED, PUBLIC_ONLY, FREQUENT}:
        return None
    public = max((row for row in (PUBLIC_ONLY, MIXED) if row in found), key=lambda row: float(found[row].mean()))
    many = next((row for row in (AS_MANY_MIXED, AS_MANY_PUBLIC) if row in taught.draws), None)
    own, made, least = found[ORIGINAL], found[RELEASED], found[FREQUENT]
    n = taught.learnt[public]
    return CorpusWorth(
        closed_gap(own, made, found[public], seed=seed),
        f"all {n} public texts" if public == PUBLIC_ONLY else f"the {n} public texts that make up its mix of labels",
        None if many is None else beside_draws(made, taught.draws[many], seed=seed),
        "as many public texts of the same mix"
        if many == AS_MANY_MIXED
        else "as many public texts in the mix of all of them",
        difference(made, least, seed=seed),
        difference(own, least, seed=seed),
    )


def _in_mix(known: Sequence[Pair], wanted: Mapping[str, int], seed: int) -> list[Pair]:
    """Return as many texts of each label as are wanted, at random."""
    left, found = dict(wanted), list[Pair]()
    for i in np.random.default_rng(seed).permutation(len(known)).tolist():
        if left.get(label := known[i][1], 0):
            left[label] -= 1
            found.append(known[i])
    return found


def as_many(records: Sequence[Record], made: Sequence[Record], seed: int) -> Sequence[Record]:
    """Return as many of the records as were made, at random; none if there are no more of them."""
    if len(records) <= len(made):
        return []
    chosen = np.random.default_rng(seed).choice(len(records), len(made), replace=False)
    return [records[i] for i in chosen.tolist()]


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """A corpus beside originals and public texts.

    Attributes:
        parts: the records of the rows original, released and public-only.
        fewer: as many records as the corpus has, of originals and of public texts, where there are more.
        real: the real records that all rows are tried on.
        rows: numbers by row and name.
        worth: what the corpus teaches beside public texts; None where not all rows have labels.
    """

    parts: Mapping[str, Sequence[Record]] = field(repr=False)
    fewer: Mapping[str, Sequence[Record]] = field(repr=False)
    real: Sequence[Record] = field(repr=False)
    rows: dict[str, dict[str, Estimate | float]]
    worth: CorpusWorth | None


def judged_rows(
    private: Sequence[Record],
    made: Sequence[Record],
    pool: Sequence[Record],
    held: Sequence[Record],
    names: Mapping[str, str],
    embedder: Embedder,
    seed: int,
    on_row: Callable[[int, int], None],
) -> JudgedRows:
    """Judge a corpus `made` of `private` records on `held` ones, or without these on half of the private ones.

    `pool` are public records; `names` are the meanings of the labels. Other arguments as `measured`.
    """
    order = [private[i] for i in np.random.default_rng(seed).permutation(len(private)).tolist()]
    own, real = (private, held) if held else (order[: len(order) // 2], order[len(order) // 2 :])
    parts = {ORIGINAL: own, RELEASED: made, PUBLIC_ONLY: pool}
    both = {AS_MANY: as_many(own, made, seed), AS_MANY_PUBLIC: as_many(pool, made, seed)}
    fewer = {row: records for row, records in both.items() if records}
    rows, worth = measured({**parts, **fewer}, private, real, names, embedder, seed, on_row)
    return JudgedRows(parts, fewer, real, rows, worth)


def require_enough(*parts: Sequence[Record]) -> None:
    """Raise ConfigError for a part of too few records to judge."""
    if min(map(len, parts)) < _LEAST:
        raise ConfigError(f"Expected at least {_LEAST} records in each file.")


def labelled_by(meanings: Mapping[str, str], pool: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Say of public texts without labels that no words label them, or which did. Plainer ones may do better."""
    if not meanings or any(record.label in meanings for record in pool):
        return [], []
    if not in_words(meanings.values()):
        return [WORDLESS], []
    own = all(label == said for label, said in meanings.items())
    each = [repr(said) if own else f"{label!r} by {said!r}" for label, said in meanings.items()][:_FEW_LABELS]
    shown = ", ".join(each) + ", ..." * (len(meanings) > _FEW_LABELS)
    if not own:
        return [], [f"Public texts were labelled {shown}."]
    plainer = "--names LABEL=MEANING,... in plain words may make them stronger"
    return [], [f"Public texts were labelled by the words {shown}: {plainer}."]
