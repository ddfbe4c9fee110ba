"""The rows of `dptext utility corpus`: a corpus, originals, public texts, and what each row is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dptext.cli.answers import interval
from dptext.cli.utility import cell
from dptext.embeddings.embedder import Embedder
from dptext.estimates import Estimate
from dptext.sampling.bootstrap import bootstrap_mean
from dptext.text.labels import in_words
from dptext.text.records import Record
from dptext.text.schema import DeclaredColumn, ListedColumn
from dptext.types import Floats
from dptext.utility.classification import Classifier, best_zero_shot, evaluate, train_tfidf
from dptext.utility.columns import cells_of, columns_kept, independent
from dptext.utility.corpus import corpus_kept
from dptext.utility.gap import beside_draws, closed_gap, difference, right_answers
from dptext.utility.group_means import GroupMeans, furthest_means, means_by_group
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY
from dptext.utility.worth import CorpusWorth

RELEASED: Final = "released"
INDEPENDENT: Final = "independent"  # originals, each column in another order
MIXED: Final = "public, same mix"  # public texts with the mix of labels that the corpus has
FREQUENT: Final = "most frequent label"  # always the label that most originals have
AS_MANY, AS_MANY_PUBLIC = "as many originals", "as many public"  # as texts of the corpus, where these are fewer
AS_MANY_MIXED: Final = "as many, same mix"  # as many public texts, with the mix of labels that the corpus has
FROM_TEXT, EACH = " from text", " tv"
_MEANS: Final[Mapping[str, str]] = {
    ORIGINAL: "the private texts themselves: what can be learnt at most",
    RELEASED: "the corpus that is judged",
    PUBLIC_ONLY: "all public texts, with their labels or, without any, labelled by the names of the labels",
    MIXED: "the largest set of public texts that has the mix of labels of the corpus",
    AS_MANY_MIXED: "as many public texts as the corpus has, in its mix of labels: the mean of some draws",
    AS_MANY: "as many private texts as the corpus has, one draw",
    AS_MANY_PUBLIC: "as many public texts as the corpus has, in the mix of the pool, drawn at random",
    INDEPENDENT: "private rows, each column in another order: no column tells of another",
    FREQUENT: "the label that most private texts have, said of every text: no text is needed",
}
_DRAWS: Final = 8  # of as many public texts: one may be lucky
Pair = tuple[str, str]  # a text and its label
_ONE_DRAW: Final = 2_000  # texts of a corpus from which one draw has little luck


class _Taught:
    """What classifiers that learn from each row answer to the same real texts, and the numbers of the rows."""

    def __init__(self, real: Sequence[Record], names: Mapping[str, str], embedder: Embedder, seed: int) -> None:
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
        return train_tfidf([text for text, _ in known], [label for _, label in known], seed=self._seed)

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
    taught = _Taught(real, names, embedder, seed)
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


def is_of_columns(head: str) -> bool:
    """Whether a number is of columns."""
    return head in ("columns_tv", "pairs_tv") or head.endswith((FROM_TEXT, EACH))


def explained(rows: Mapping[str, Mapping[str, Estimate | float]]) -> list[tuple[str, str]]:
    """Return each row with what it is, in a few words."""
    own, fewer = (rows.get(row, {}).get("accuracy") for row in (ORIGINAL, AS_MANY))
    chance = ""
    if isinstance(own, Estimate) and isinstance(fewer, Estimate) and own.value < fewer.value <= own.high:
        chance = "; it stands above original by the luck of the draw, within the interval"
    found = {**_MEANS, AS_MANY: _MEANS[AS_MANY] + chance}
    if "accuracy" not in rows.get(PUBLIC_ONLY, {}):
        found[PUBLIC_ONLY] = "all public texts, without labels"
    return [(row, found[row]) for row in rows]


def as_many(records: Sequence[Record], made: Sequence[Record], seed: int) -> Sequence[Record]:
    """Return as many of the records as were made, at random; none if there are no more of them."""
    if len(records) <= len(made):
        return []
    chosen = np.random.default_rng(seed).choice(len(records), len(made), replace=False)
    return [records[i] for i in chosen.tolist()]


def compared(
    rows: dict[str, dict[str, Estimate | float]],
    schema: Sequence[DeclaredColumn],
    label_field: str | None,
    labels: Sequence[str],
    parts: Mapping[str, Sequence[Record]],
    real: Sequence[Record],
    seed: int,
    together: Sequence[set[str]] | None,
) -> tuple[list[str], list[GroupMeans]]:
    """Add the numbers of columns to `rows`. Return sentences on them, and means of numbers; none without columns.

    `together` are the pairs of columns that a summary measured; None if the corpus has no summary.
    """
    if not schema:
        return [], []
    labelled = label_field and labels and any(each.label for each in parts[RELEASED])
    own: list[DeclaredColumn] = [ListedColumn(label_field or "", False, tuple(labels))] if labelled else []
    columns, name = [*own, *schema], label_field or ""
    held = cells_of(real, columns, label=name)
    true = AS_MANY if AS_MANY in parts else ORIGINAL  # few rows are far from others by chance
    for row in (ORIGINAL, AS_MANY, RELEASED):
        if row not in parts:
            continue
        cells, texts = cells_of(parts[row], columns, label=name), [each.text for each in parts[row]]
        kept = columns_kept(cells, held, columns, texts=texts, real_records=real, seed=seed)
        rows[row] |= dict(kept.cells())
        if row == true:
            rows[INDEPENDENT] = dict(columns_kept(independent(cells, seed), held, columns).cells())
    one, two = ({row: rows[row].get(head) for row in rows} for head in ("columns_tv", "pairs_tv"))
    made, chance = cell(one[RELEASED], interval), cell(one[true], interval)
    of = f"{len(parts[true]):,} private rows"
    said = [f"A column is {made} from that of real rows on average (total variation), and {chance} in {of}."]
    if two[RELEASED] is not None:
        said.append(
            f"Two columns together are {cell(two[RELEASED], interval)} from real ones, {cell(two[true], interval)} in "
            f"{of}, and {cell(two[INDEPENDENT], interval)} in as many without relations."
        )
    shown = {row: parts[row] for row in (RELEASED, ORIGINAL, AS_MANY) if row in parts}
    means = means_by_group(shown, columns, label=name)
    known = means if together is None else [each for each in means if {each.number, each.by} in together]
    said += filter(None, [furthest_means(known or means, RELEASED, ORIGINAL, AS_MANY if AS_MANY in shown else "")])
    if means and not known:
        said.append("The summary measured no number together with such a column (--pairs).")
    return said, means


def table_of_means(means: Sequence[GroupMeans]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the heads and the lines of a table of means; no lines without means."""
    heads = ("mean of", "by", "value", *(means[0].rows if means else ()))
    return heads, [line for each in means for line in each.lines()]
