"""A canary in or out of the corpus of a summary: no block tells it better than is stated, nor a sum of two."""

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import dptext as dp
from dptext.sampling.randomness import seeded
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum
from dptext.text.batches import Batch

RUNS, STUFFED = 400, 60
LABELS = ("health", "travel", "money", "leisure")
POOL, PRIVATE = dp.sample_records(200, seed=2), dp.sample_records(40, seed=1)
CASES = [(unit, relation) for unit in ("document", "author") for relation in ("add_or_remove_one", "replace_one")]


class Clean(Draws):
    """Draws that keep the sum without noise, in steps."""

    clean: np.ndarray

    def noisy(self, clean: np.ndarray, noise: Noise) -> np.ndarray:
        self.clean = clean.copy()
        return super().noisy(clean, noise)


@functools.cache
def made(unit: str, relation: str) -> FittedSummary:
    spec = SummarySpec(
        labels=LABELS, encoder="glove", words=8, dim=8, about=200, topics=4, marks=3, vocabulary=80, drafts=0,
        unit=unit, relation=relation,
    )  # fmt: skip
    return spec.fit(public=POOL, seed=0)


def records_with(*canaries: dp.Record, stuffed: bool) -> list[dp.Record]:
    copies = [replace(each, id=f"{each.id} {i}") for each in canaries for i in range(STUFFED if stuffed else 1)]
    return [*PRIVATE, *copies]


def measured(fitted: FittedSummary, records: list[dp.Record], draws: Draws) -> Summary:
    def corpus() -> Iterator[Batch]:
        yield Batch.of(records)

    return fitted.measure(corpus, draws)  # type: ignore[arg-type]


def clean(fitted: FittedSummary, records: list[dp.Record]) -> np.ndarray:
    draws = Clean(seeded(0))
    measured(fitted, records, draws)
    return draws.clean


def canaries(relation: str) -> Iterator[tuple[list[dp.Record], list[dp.Record]]]:
    """Pairs of what is in the corpus and what is there instead."""
    texts = ["The doctor at the hospital says that I need help", "Change the bus to Rome", POOL[3].text, "zq zq zq"]
    each = [dp.Record(f"{text} {label}", text, label, "canary") for text in texts for label in LABELS[:3]]
    if relation == "add_or_remove_one":
        yield from (([one], []) for one in each)
        return
    yield from (([one], [other]) for one in each for other in each if one.text != other.text)


@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_every_block_moves_within_what_is_stated(unit: str, relation: str) -> None:
    """The worst canary uses most of what is paid for, and each block its share."""
    fitted = made(unit, relation)
    layout = fitted.spec.layout(dim=8, width=len(fitted.public.lexicon or ()))
    noise, farthest = fitted.spec.noise(), dict.fromkeys(fitted.spec.blocks, 0.0)
    most = 0.0

    @functools.cache
    def total(*there: dp.Record) -> np.ndarray:
        return clean(fitted, records_with(*there, stuffed=unit == "author"))

    for inside, outside in canaries(relation):
        apart = total(*inside) - total(*outside)
        most = max(most, float(np.linalg.norm(apart)))
        for block in layout.blocks:
            own = float(np.linalg.norm(apart[block.start : block.start + block.size]))
            farthest[block.name] = max(farthest[block.name], own)
    assert 0.7 * noise.sensitivity < most <= noise.sensitivity
    if unit == "document":  # an author of many texts may fill one block alone
        for block in layout.blocks:
            share = fitted.spec.block_shares[block.name]
            assert farthest[block.name] <= noise.sensitivity * math.sqrt(share) * (1 + 1e-6)
    assert all(farthest[name] > 0 for name in ("counts", "points", "words", "topics"))


def scores(fitted: FittedSummary, total: np.ndarray, move: np.ndarray, seed: int) -> np.ndarray:
    """What the noisy sums of many runs say of a canary that moves them so."""
    noise = fitted.spec.noise().draw(RUNS * total.size, seeded(seed)).reshape(RUNS, -1)
    return np.asarray((total + noise) @ move / np.linalg.norm(move))


def told_apart(fitted: FittedSummary, inside: list[dp.Record], outside: list[dp.Record]) -> tuple[float, float]:
    """mu by which the canary is told, and its standard error."""
    there, without = clean(fitted, inside), clean(fitted, outside)
    move = (there - without).astype(np.float64)
    first, second = (scores(fitted, total, move, seed) for seed, total in enumerate((there, without)))
    mu = (first.mean() - second.mean()) / math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    return float(mu), math.sqrt(2 / RUNS + mu**2 / (4 * RUNS))


@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_a_canary_is_told_no_better_than_is_stated(unit: str, relation: str) -> None:
    fitted, stuffed = made(unit, relation), unit == "author"
    *_, (one, other) = canaries(relation)
    mu, error = told_apart(fitted, records_with(*one, stuffed=stuffed), records_with(*other, stuffed=stuffed))
    assert 0 < mu <= math.sqrt(2 * fitted.spec.rho) + 4 * error


@pytest.mark.parametrize("unit", ["document", "author"])
def test_the_canary_refutes_a_planted_defect(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that moves the sums by more than is paid for is told better than is stated."""
    fitted, stuffed = made(unit, "add_or_remove_one"), unit == "author"
    if stuffed:  # an author's documents count as often as they are
        monkeypatch.setattr("dptext.synthesis.sums.clipped", lambda steps, weights: steps)
    else:  # blocks that are three times as long as is counted

        def add(self: PrivateSum, cells: np.ndarray, values: np.ndarray, _: object = None) -> None:
            np.add.at(self._total, cells, np.rint(3 * values * STEPS).astype(np.int64))

        monkeypatch.setattr(PrivateSum, "add", add)
    (one, _), *_ = canaries("add_or_remove_one")
    mu, error = told_apart(fitted, records_with(*one, stuffed=stuffed), records_with(stuffed=stuffed))
    assert mu > math.sqrt(2 * fitted.spec.rho) + 4 * error


def test_the_sum_of_two_summaries_tells_less_of_one_person() -> None:
    """The noise of the other party stays in the sum: the deviation of a number is that of both together."""
    fitted = made("document", "add_or_remove_one")
    one, two = (measured(fitted, list(PRIVATE), Draws(seeded(seed))) for seed in (1, 2))
    both = one.plus(two, disjoint=True)
    for name, known in both.known.items():
        assert known.deviation == pytest.approx(math.sqrt(2) * one.known[name].deviation)
        assert np.allclose(known.numbers, one.known[name].numbers + two.known[name].numbers)
    assert both.spec.events(both.spec.units[0]) == one.spec.events(one.spec.units[0])
    assert len(one.plus(two, disjoint=False).spec.events(one.spec.units[0])) == 2
