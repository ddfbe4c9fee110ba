"""A canary in or out of the corpus of a summary: no block tells it better than is stated, nor a sum of two."""

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.privacy.events import ZcdpEvent
from dptext.sampling.randomness import seeded
from dptext.synthesis.adding import summed
from dptext.synthesis.agreement import Known
from dptext.synthesis.blocks import COUNTS
from dptext.synthesis.summary import FittedSummary, Summary
from dptext.synthesis.sums import STEPS, Draws, PrivateSum
from summarized import CASES, PRIVATE, canaries, clean, fitted_summary, measured, records_with

RUNS = 400
MANY = 10_000  # releases at once, in the cells that the canary moves


@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_every_block_moves_within_what_is_stated(unit: str, relation: str) -> None:
    """The worst canary uses most of what is paid for, and each block its share."""
    fitted = fitted_summary(unit, relation)
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
    assert all(farthest[name] > 0 for name in fitted.spec.blocks)


def scores(fitted: FittedSummary, total: np.ndarray, move: np.ndarray, seed: int) -> np.ndarray:
    """What the noisy sums of many runs say of a canary that moves them so. Cells that stay say nothing."""
    cells = np.flatnonzero(move)
    noise = fitted.spec.noise().draw(RUNS * cells.size, seeded(seed)).reshape(RUNS, -1)
    return np.asarray((total[cells] + noise) @ move[cells] / np.linalg.norm(move))


def told_apart(fitted: FittedSummary, inside: list[dp.Record], outside: list[dp.Record]) -> tuple[float, float]:
    """mu by which the canary is told, and its standard error."""
    there, without = clean(fitted, inside), clean(fitted, outside)
    move = (there - without).astype(np.float64)
    first, second = (scores(fitted, total, move, seed) for seed, total in enumerate((there, without)))
    mu = (first.mean() - second.mean()) / math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    return float(mu), math.sqrt(2 / RUNS + mu**2 / (4 * RUNS))


@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_a_canary_is_told_no_better_than_is_stated(unit: str, relation: str) -> None:
    fitted, stuffed = fitted_summary(unit, relation), unit == "author"
    *_, (one, other) = canaries(relation)
    mu, error = told_apart(fitted, records_with(*one, stuffed=stuffed), records_with(*other, stuffed=stuffed))
    assert 0 < mu <= math.sqrt(2 * fitted.spec.rho) + 4 * error


@pytest.mark.parametrize("unit", ["document", "author"])
def test_the_canary_refutes_a_planted_defect(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that moves the sums by more than is paid for is told better than is stated."""
    fitted, stuffed = fitted_summary(unit, "add_or_remove_one"), unit == "author"
    if stuffed:  # an author's documents count as often as they are
        monkeypatch.setattr("dptext.synthesis.sums.each_clipped", lambda steps, *_: steps)
    else:  # blocks that are three times as long as is counted

        def add(self: PrivateSum, cells: np.ndarray, values: np.ndarray, _: object = None) -> None:
            np.add.at(self._total, cells, np.rint(3 * values * STEPS).astype(np.int64))

        monkeypatch.setattr(PrivateSum, "add", add)
    (one, _), *_ = canaries("add_or_remove_one")
    mu, error = told_apart(fitted, records_with(*one, stuffed=stuffed), records_with(stuffed=stuffed))
    assert mu > math.sqrt(2 * fitted.spec.rho) + 4 * error


def test_the_sum_of_two_summaries_tells_less_of_one_person() -> None:
    """The noise of the other party stays in the sum: the deviation of a number is that of both together."""
    fitted = fitted_summary("document", "add_or_remove_one")
    one, two = (measured(fitted, list(PRIVATE), Draws(seeded(seed))) for seed in (1, 2))
    both = summed(one, two, disjoint=True)
    for name, known in both.known.items():
        assert known.deviation == pytest.approx(math.sqrt(2) * one.known[name].deviation)
        assert np.allclose(known.numbers, one.known[name].numbers + two.known[name].numbers)
    assert both.spec.events(both.spec.units[0]) == one.spec.events(one.spec.units[0])
    assert len(summed(one, two, disjoint=False).spec.events(one.spec.units[0])) == 2


def moved_most(fitted: FittedSummary) -> tuple[list[dp.Record], list[dp.Record]]:
    """The corpus with the canary that moves the sum most of some, and the corpus without it."""
    stuffed, found = fitted.spec.unit == "author", []
    for pair in list(canaries(fitted.spec.relation))[::5]:
        both = [records_with(*each, stuffed=stuffed) for each in pair]
        one, other = (clean(fitted, records) for records in both)
        found.append((float(np.linalg.norm(one - other)), (both[0], both[1])))
    return max(found, key=lambda each: each[0])[1]


def releases(fitted: FittedSummary, total: np.ndarray, moves: np.ndarray, seed: int) -> Summary:
    """Many releases of a sum in steps at once, in the cells that move: the numbers of a block are `(runs, cells)`."""
    noise, source, known = fitted.spec.noise(), seeded(seed), {}
    for block in fitted.spec.layout(dim=8, width=80).blocks:
        cells = block.start + np.flatnonzero(moves[block.start : block.start + block.size])
        drawn = noise.draw(MANY * len(cells), source.at(block.start)).reshape(MANY, -1)
        known[block.name] = Known((total[cells] + drawn) / STEPS / block.part, noise.scale / block.part)
    return Summary(fitted.spec, fitted.public, known)


class Parties:
    """Two owners with settings of their own, whose corpora the canary is in or out of."""

    def __init__(self, unit: str, relation: str) -> None:
        first = fitted_summary(unit, relation, epsilon=3.0)
        second = FittedSummary(replace(first.spec, epsilon=3.5, about=900, word_share=0.5), first.public)
        self.both = first, second
        self.inside, self.outside = moved_most(first)
        self.released = functools.cache(self._released)  # each test asks for the sums without the canary

    def _released(self, i: int, inside: bool) -> Summary:
        """Many releases of one party."""
        ends = [clean(self.both[i], records) for records in (self.outside, self.inside)]
        return releases(self.both[i], ends[inside], ends[1] - ends[0], seed=2 * i + inside)

    def added(self, there: tuple[bool, bool], *, disjoint: bool) -> Summary:
        """Many sums of two releases; `there` says of which corpora the canary is a part."""
        first, second = (self.released(i, inside) for i, inside in enumerate(there))
        return summed(first, second, disjoint=disjoint)

    def told(self, there: tuple[bool, bool], *, disjoint: bool) -> tuple[float, float, float]:
        """mu by which the canary is told from what is added, its standard error, and the mu that is stated."""
        outside, inside = (self.added(each, disjoint=disjoint) for each in ((False, False), there))
        half, scores = MANY // 2, np.zeros((2, MANY - MANY // 2))
        for name, known in inside.known.items():  # the likelihood ratio, learned on one half of the runs
            pair = known.numbers, outside.known[name].numbers
            weights = (pair[0][:half].mean(axis=0) - pair[1][:half].mean(axis=0)) / known.deviation**2
            scores += np.stack([numbers[half:] @ weights for numbers in pair])
        mu = float((scores[0].mean() - scores[1].mean()) / math.sqrt(scores.var(axis=1, ddof=1).mean()))
        events = inside.spec.events(inside.spec.units[0])
        rho = math.fsum(each.rho for each in events if isinstance(each, ZcdpEvent))
        return mu, math.sqrt(2 / half + mu**2 / (4 * half)), math.sqrt(2 * rho)


@pytest.fixture(scope="module")
def parties() -> Any:
    """The parties of a unit and relation, made once."""
    kept: dict[tuple[str, str], Parties] = {}

    def found(unit: str, relation: str) -> Parties:
        return kept.setdefault((unit, relation), kept.get((unit, relation)) or Parties(unit, relation))

    return found


@pytest.mark.slow_cases(
    *("document-replace_one", "author-add_or_remove_one", "author-replace_one"),
    why="a document that is added stays; one summary has all four",
)
@pytest.mark.parametrize(("unit", "relation"), CASES)
@pytest.mark.parametrize("there", [(True, False), (False, True), (True, True)], ids=["first", "second", "both"])
def test_a_sum_of_two_parties_tells_a_person_no_better_than_is_stated(
    there: tuple[bool, bool], unit: str, relation: str, parties: Any
) -> None:
    """Who is in one corpus keeps the guarantee of one summary; who may be in both has that of both together."""
    mu, error, stated = parties(unit, relation).told(there, disjoint=not all(there))
    assert 0.4 * stated < mu <= stated + 4 * error


@pytest.mark.parametrize("unit", ["document", "author"])
def test_a_person_in_both_refutes_a_certificate_of_disjoint_corpora(unit: str, parties: Any) -> None:
    mu, error, stated = parties(unit, "add_or_remove_one").told((True, True), disjoint=True)
    assert mu > stated + 4 * error


def test_a_release_that_is_added_twice_has_more_noise_than_is_stated(parties: Any) -> None:
    """Noise that is in both does not add by squares. So a sum with one release in both is refused."""
    found = parties("document", "add_or_remove_one")
    fitted = found.both[0]
    total, inside = (clean(fitted, records) for records in (found.outside, found.inside))
    one, two = (releases(fitted, total, inside - total, seed) for seed in (1, 2))

    def ratio(whole: Summary) -> float:
        known = whole.known[COUNTS]
        return float(known.numbers.std(axis=0).mean() / known.deviation)

    assert ratio(summed(one, two, disjoint=True)) == pytest.approx(1, abs=0.03)
    with pytest.raises(ConfigError, match="one release in both"):
        summed(one, one, disjoint=True)
    renamed = replace(one, releases=("another",))
    assert ratio(summed(one, renamed, disjoint=True)) == pytest.approx(math.sqrt(2), abs=0.03)
