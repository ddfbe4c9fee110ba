"""Is a canary in the corpus of a summary? Thousands of noisy sums with it and without it: a CSV, a row an attack.

    python packages/lab/experiments/summary_attack.py OUT.csv [plain] [table]

The corpus and the canaries are those of `synthesis_attack.py`: 40 texts of SNIPS by 8 authors, a pool of 500, GloVe,
and 240 texts under two labels each, with their points and the opposite ones. An author who is a canary has 50 copies of
one text. The summary has 7 labels, 32 directions, 16 topics, 5 marks, and a list of words without drafts; delta 1e-5.
Rows *table: ...* are of a summary that measures also three bins of lengths, the columns priority and amount, pairs of
label and priority, priority and amount, amount and topics; and texts follow the priority. A canary has values, too.

The attacker knows everything but whether the canary is there.

- Rows named by a block, and *all blocks*: of all canaries, or pairs where one takes the place of another, the one that
  moves these numbers most. The attacker takes the likelihood ratio of all numbers that move, in 20,000 releases with
  the canary and 20,000 without.
- Rows *sum*: `Summary.plus` of two parties. The second has 4/3 of the epsilon, and half of its rho for words. The
  canary is in the first corpus or the second, which are stated as disjoint; or in both, which are not. Of tables both
  alone.
- Rows *what leaves*: 1,000 and 1,000 runs of the writer `pool`, judged as in `synthesis_attack.py`. Of tables, the
  attacker counts also rows with the canary's values: each, each two, all. Rows are rounded, which is nearest to sums.

Some rows have a planted *fault*: a tenth of the noise (of each block of columns, too), no noise, an author whose blocks
are clipped each alone, or a record that counts twice in a pair. What leaves has faults in one case alone.

The script ends with 1 if a row refutes what is stated: its mu is above by more than four standard errors, or a lower
bound on epsilon is that holds for all rows together with 95%. It does, too, if a planted fault is not seen.

Columns: *share* of rho of the block; *moved*, the mu of the best attack as a part of *stated_mu*; the measured *mu*
with its 95% interval; *epsilon_shown*, a lower bound on epsilon with 95%. The stated mu of a block of a document is the
mu of all blocks times the root of the share. One factor scales all blocks of an author, so that one block can take more
than its share: the stated mu of a block of an author is that of all blocks.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import append_rows
from synthesis_attack import (
    LEAVING,
    RUNS,
    SHARED,
    Arrays,
    Known,
    bound,
    candidates,
    corpus,
    farthest,
    labels_of,
    reading,
    seen,
    told_apart,
    unit_of,
)

import dptext as dp
from dptext.privacy.accounting import epsilon
from dptext.privacy.events import Event, ZcdpEvent
from dptext.privacy.guarantee import Unit
from dptext.sampling.randomness import seeded
from dptext.synthesis import agreement
from dptext.synthesis.adding import summed
from dptext.synthesis.blocks import SumBlock, SumLayout
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.readings import Reading
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, Noise, clipped

FIELDS = (
    "row", "fault", "unit", "relation", "epsilon", "delta", "canaries", "share", "moved", "stated_mu", "runs", "mu",
    "mu_low", "mu_high", "stated_epsilon", "epsilon_shown",
)  # fmt: skip
SETTINGS: dict[str, Any] = SHARED | {"topics": 16, "marks": 5, "drafts": 0}
TABLE: dict[str, Any] = SETTINGS | {
    "lengths": (6, 10), "columns": ("priority: low|normal|high", "amount?: 0..100 by 10"),
    "pairs": ("label+priority", "priority+amount", "amount+topics"), "text_follows": ("priority",),
    "column_share": 0.25,
}  # fmt: skip
WAYS = {"plain": SETTINGS, "table": TABLE}
TENTH, CLEAN, ALONE = "a tenth of the noise", "clean sums", "an author's blocks clipped each alone"
TWICE = "a record that counts twice"
AT_ONCE = 100  # sums whose noise is drawn together
ROWS = 300  # at most, in which chance must refute nothing


class Remembered(Lexicon):
    """A list of words that reads each text once: the writer reads the pool in every run."""

    @functools.cache  # noqa: B019 (it lives as long as the script)
    def known(self, text: str) -> set[int]:
        """The places of the words of a text."""
        return Lexicon.known(self, text)


class Clean(Draws):
    """Draws that keep the sum, in steps, and add no noise."""

    def noisy(self, clean: Arrays, noise: Noise) -> Arrays:
        """The sum itself."""
        self.clean = clean.copy()
        return clean.astype(np.float64)


def clean(fitted: FittedSummary, *parts: Reading) -> Arrays:
    """The sum of a corpus without noise, in steps."""
    draws = Clean(seeded(0))
    fitted.measure(Known(parts), draws)
    return draws.clean


def layout_of(fitted: FittedSummary) -> SumLayout:
    """The blocks of its sum."""
    return fitted.spec.layout(dim=fitted.pool.space.dim, width=len(fitted.public.lexicon))


@dataclass(frozen=True)
class Party:
    """An owner with settings, and by what the canary moves the sum of the corpus, in steps `(cells,)`."""

    fitted: FittedSummary
    move: Arrays

    def releases(self, cells: Arrays, seed: int, *, there: bool, runs: int, noise: Noise | None) -> Summary:
        """Many releases of the sum, in some cells alone: the numbers of a block are `(runs, cells)`."""
        stated, known = self.fitted.spec.noise(), {}
        drawn = (noise or stated).draw(runs * len(cells), seeded(seed)).reshape(runs, -1)
        for block in layout_of(self.fitted).blocks:
            own = (cells >= block.start) & (cells < block.start + block.size)
            sums = drawn[:, own] + there * self.move[cells[own]]
            known[block.name] = agreement.Known(sums / STEPS / block.part, stated.scale / block.part)
        return Summary(self.fitted.spec, self.fitted.public, known)


def attack(
    parties: Sequence[Party],
    there: Sequence[bool],
    seed: int,
    *,
    events: Sequence[Event] = (),
    noise: Noise | None = None,
) -> dict[str, Any]:
    """The columns of an attack on one release, or on the sum of two; `there` says in which corpora the canary may be.

    `events` are what is stated, if not that of the whole release, and `noise` is that of a fault.
    """
    cells, spec = np.flatnonzero(np.any([party.move for party in parties], axis=0)), parties[0].fitted.spec

    def released(*, canary: bool, **how: Any) -> Summary:
        found = [
            party.releases(cells, 4 * seed + 2 * i + canary, there=canary and inside, **how)
            for i, (party, inside) in enumerate(zip(parties, there, strict=True))
        ]
        return found[0] if len(found) == 1 else summed(found[0], found[1], disjoint=not all(there))

    outside, inside = (released(canary=canary, runs=RUNS, noise=noise) for canary in (False, True))
    moved = released(canary=True, runs=1, noise=replace(spec.noise(), rho=math.inf)).known
    weights = {name: each.numbers[0] / each.deviation**2 for name, each in moved.items()}
    scores = [sum(known.numbers @ weights[name] for name, known in each.known.items()) for each in (outside, inside)]
    events = events or inside.spec.events(Unit(spec.unit))
    reach = math.sqrt(sum(each.numbers[0] @ weights[name] for name, each in moved.items()))
    stated = math.sqrt(2 * math.fsum(each.rho for each in events))
    return {
        "moved": reach / stated, "stated_mu": stated, "runs": RUNS, **told_apart(scores[1], scores[0]),
        "stated_epsilon": epsilon(events, spec.delta),
        **shown(scores[1][:, None], scores[0][:, None], spec.delta),
    }  # fmt: skip


def shown(inside: Arrays, outside: Arrays, delta: float) -> dict[str, float]:
    """The lower bound on epsilon of a row, and *surely*, that which holds for all rows together, each with 95%."""
    return {
        "epsilon_shown": bound(inside, outside, delta), "surely": bound(inside, outside, delta, tests=ROWS)
    }  # fmt: skip


def within(block: SumBlock, move: Arrays) -> Arrays:
    """What a move moves of one block."""
    places = np.arange(len(move))
    return np.where((places >= block.start) & (places < block.start + block.size), move, 0)


def apart(moves: Arrays, pair: Sequence[int]) -> Arrays:
    """By what the sum moves if the first unit is added, or takes the place of the second."""
    return moves[pair[0]] - sum(moves[i] for i in pair[1:])


def alone(fitted: FittedSummary, unit: Reading) -> Arrays:
    """By what an author moves the sum whose blocks are clipped each alone, which nothing pays for."""
    layout, total = layout_of(fitted), clean(FittedSummary(replace(fitted.spec, unit="document"), fitted.public), unit)
    for block in layout.blocks:
        own = slice(block.start, block.start + block.size)
        weight = fitted.spec.noise().sign_weight if block.start < layout.signed else 1
        total[own] = clipped(total[own], np.full(block.size, weight))
    return total


def written(fitted: FittedSummary, summary: Summary, units: Sequence[Reading], seed: int) -> list[float]:
    """What leaves that tells of these canaries: what `seen` says, and the numbers of their label and words."""
    left = FromPool().write(summary, seeded(seed))
    told, report = seen(fitted, left, units), left.report
    for unit in units:
        label, words = int(unit.labels[0]), {fitted.public.lexicon.words[i] for i in unit.marks[0] if i >= 0}
        shown = [number for word, number, _ in report.words.words[label] if word in words]
        told += [float(report.by_label[0][label]), len(shown), sum(shown)]
        told += agreeing(left, fitted.spec.labels[label], unit.columns[0]) if left.cells else []
    return told


def agreeing(left: Synthetic, label: str, cells: Arrays) -> list[float]:
    """Numbers of written rows that have the label and cells of a canary `(columns,)`: each, each two, and all."""
    same = np.column_stack([[each == label for each in left.labels], np.asarray(left.cells) == cells])
    two = [same[:, [i, j]].all(axis=1).sum() for i, j in itertools.combinations(range(same.shape[1]), 2)]
    return [float(each) for each in (*same.sum(axis=0), *two, same.all(axis=1).sum())]


def leaving(
    fitted: FittedSummary, others: Reading, units: Sequence[Reading], seed: int, noise: Noise
) -> dict[str, Any]:
    """The columns of an attack on what leaves by the writer `pool`, with this noise."""
    spec, layout, told = fitted.spec, layout_of(fitted), []
    for there in (False, True):
        total, source = clean(fitted, others, *(units[:1] if there else units[1:])), seeded(2 * seed + there)
        found = []
        for number in range(LEAVING):
            if number % AT_ONCE == 0:
                drawn = noise.draw(AT_ONCE * len(total), source).reshape(AT_ONCE, -1)
            known = layout.known((total + drawn[number % AT_ONCE]) / STEPS, spec.noise().scale)
            summary = Summary(spec, fitted.public, known, rounded=bool(spec.columns))
            found.append(written(fitted, summary, units, 2 * number + there))
        told.append(np.array(found))
    return {"runs": LEAVING, "stated_epsilon": spec.epsilon, **shown(told[1], told[0], spec.delta)}


def values(n: int) -> list[Mapping[str, object]]:
    """Values of the columns of a table: listed ones and others, numbers and null."""
    return [
        {"priority": ("low", "normal", "high", "none")[i % 4], "amount": None if i % 11 == 10 else 10 * (i % 11)}
        for i in range(n)
    ]


def by_block(
    fitted: FittedSummary, found: Sequence[Reading], moves: Arrays, number: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """The rows of single blocks, and of faults in columns. An author who counts twice is clipped, which is no fault."""
    spec, noise = fitted.spec, fitted.spec.noise()
    for block in layout_of(fitted).blocks:
        own = moves[:, block.start : block.start + block.size]
        pair = farthest(own.astype(np.float64), spec.relation)
        party, share = Party(fitted, within(block, apart(moves, pair))), spec.block_shares[block.name]
        events = (ZcdpEvent(spec.rho * share),) if spec.unit == "document" else ()
        row = {"row": block.name, "share": share}
        yield {**row, **attack([party], [True], next(number), events=events)}
        if block.marginal is None:
            continue
        less = replace(noise, rho=100 * noise.rho)
        yield {**row, "fault": TENTH, **attack([party], [True], next(number), events=events, noise=less)}
        if spec.unit == "document" and spec.axes.topic in block.marginal.axes:
            twice = np.array([clean(fitted, *[unit_of(found[i], spec, "canary")] * 2) for i in pair])
            party = Party(fitted, within(block, apart(twice, range(len(pair)))))
            yield {**row, "fault": TWICE, **attack([party], [True], next(number), events=events)}


def attacks(
    fitted: FittedSummary, private: Sequence[dp.Record], texts: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of one guarantee."""
    spec, found, number = fitted.spec, candidates(fitted, texts, values(len(texts))), itertools.count(100 * seed)
    moves = np.array([clean(fitted, unit_of(each, spec, "canary")) for each in found])
    yield from by_block(fitted, found, moves, number)
    pair = farthest(moves.astype(np.float64), spec.relation)
    units = [unit_of(found[i], spec, name) for i, name in zip(pair, ("canary", "other"), strict=False)]
    party = Party(fitted, apart(moves, pair))
    yield {"row": "all blocks", **attack([party], [True], next(number))}
    second = FittedSummary(replace(spec, epsilon=4 / 3 * spec.epsilon, word_share=0.5), fitted.public)
    other = Party(second, apart(np.array([clean(second, unit) for unit in units]), range(len(units))))
    corpora = {} if spec.columns else {"first": (True, False), "second": (False, True)}
    for name, there in {**corpora, "both": (True, True)}.items():
        yield {"row": f"sum, canary in {name}", **attack([party, other], there, next(number))}
    noise = spec.noise()
    faults = {TENTH: replace(noise, rho=100 * noise.rho), CLEAN: replace(noise, rho=math.inf)}
    yield {"row": "all blocks", "fault": TENTH, **attack([party], [True], next(number), noise=faults[TENTH])}
    if spec.unit == "author":
        move = apart(np.array([alone(fitted, unit) for unit in units]), range(len(units)))
        yield {"row": "all blocks", "fault": ALONE, **attack([Party(fitted, move)], [True], next(number))}
    if (spec.unit, spec.relation, spec.epsilon) != ("document", "add_or_remove_one", 1):
        faults = {}  # thousands of runs take minutes
        if spec.columns:
            return
    others = [replace(each, kept=own) for each, own in zip(private, values(len(private)), strict=True)]
    for fault, drawn in {"": noise, **faults}.items():
        row = leaving(fitted, reading(fitted, others), units, next(number), drawn)
        yield {"row": "what leaves, pool", "fault": fault, **row}


def rows(asked: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of all guarantees of the summaries that are asked for."""
    given, private, texts = corpus()
    cases = [*itertools.product((1.0, 4.0), ("document", "author"), ("add_or_remove_one", "replace_one"))]
    for way, (name, settings) in enumerate(WAYS.items()):
        if name not in asked:
            continue
        measured = settings | {"labels": labels_of(given)}
        public = SummarySpec(**measured).fit(public=given, seed=0).public
        public = replace(public, lexicon=Remembered(public.lexicon.words, public.lexicon.most))
        for seed, (stated, unit, relation) in enumerate(cases, way * len(cases)):
            spec = SummarySpec(epsilon=stated, unit=unit, relation=relation, **measured)
            about = {"unit": unit, "relation": relation, "epsilon": stated, "delta": spec.delta}
            for row in attacks(FittedSummary(spec, public), private, texts, seed):
                whole = dict.fromkeys(FIELDS, "") | about | {"canaries": 4 * len(texts)} | row
                whole["row"] = f"table: {row['row']}" if settings is TABLE else row["row"]
                yield {key: f"{each:.4g}" if isinstance(each, float) else each for key, each in whole.items()}


def wrong(row: Mapping[str, Any]) -> str:
    """What is wrong with a row: it refutes what is stated, or does not see a planted fault. Empty if nothing is."""
    mu, low, high, stated = (float(row[name] or 0) for name in ("mu", "mu_low", "mu_high", "stated_mu"))
    epsilons = (float(row[name]) for name in ("epsilon_shown", "surely", "stated_epsilon"))
    one, surely, epsilon_stated = epsilons
    if row["fault"]:
        return "" if low > stated or one > epsilon_stated else "the planted fault is not seen"
    beyond = mu - 4 * (high - low) / (2 * 1.96) > stated or surely > epsilon_stated
    return "what is stated is refuted" if beyond else ""


def main() -> int:
    """Write the rows as they are found. Return 1 if something is wrong with one."""
    faults = list[str]()

    def kept() -> Iterator[dict[str, Any]]:
        for row in rows(sys.argv[2:] or [*WAYS]):
            if said := wrong(row):
                faults.append(": ".join([", ".join(row[name] for name in FIELDS[:5]), said]))
            yield {name: row[name] for name in FIELDS}

    append_rows(Path(sys.argv[1]), kept())
    for said in faults:
        print(said, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
