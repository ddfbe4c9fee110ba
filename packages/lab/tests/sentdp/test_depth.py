"""Depths against the definition, their sensitivity, and what a faulty one would do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dptext.errors import ConfigError
from dptext.sampling.exponential import Exponential, PermuteAndFlip
from dptext_lab.sentdp.depth import STATISTICS, ProjectedCandidates, Statistic

RNG = np.random.default_rng(20)


def by_definition(sentences: np.ndarray, candidates: np.ndarray, statistic: Statistic) -> np.ndarray:
    """Algorithm 1, word by word."""
    k = len(sentences)
    found = []
    for candidate in candidates:
        counts = [sum(1 for s in sentences if s[j] >= candidate[j]) for j in range(candidates.shape[1])]
        depths = [min(h, k - h) for h in counts]
        found.append({"lowest": min, "algorithm_1": max, "mean": sum}[statistic](depths))
    return np.array(found)


def random_documents(number: int, *, ties: bool) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Projections of sentences, sizes and candidates; with ties they are small integers."""
    sizes = RNG.integers(0, 9, number).tolist()
    p, m = int(RNG.integers(1, 6)), int(RNG.integers(1, 40))
    draw = (lambda n: RNG.integers(-2, 3, (n, p))) if ties else (lambda n: RNG.normal(size=(n, p)))
    return draw(sum(sizes)).astype(np.float32), sizes, draw(m).astype(np.float32)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("ties", [True, False])
def test_the_definition(statistic: Statistic, ties: bool) -> None:
    for _ in range(12):
        sentences, sizes, candidates = random_documents(7, ties=ties)
        found = ProjectedCandidates(candidates).depths(sentences, sizes, statistic, threads=2)
        assert found.shape == (7, len(candidates))
        ends = np.cumsum([0, *sizes])
        for row, (start, stop) in enumerate(itertools.pairwise(ends)):
            assert found[row].tolist() == by_definition(sentences[start:stop], candidates, statistic).tolist()


def test_many_sentences_and_candidates() -> None:
    sentences, candidates = RNG.normal(size=(1001, 3)).astype(np.float32), RNG.normal(size=(300, 3)).astype(np.float32)
    found = ProjectedCandidates(candidates).depths(sentences, [1000, 1], "lowest")
    h = (sentences[:1000, None] >= candidates).sum(axis=0)
    assert (found[0] == np.minimum(h, 1000 - h).min(axis=1)).all()
    assert not found[1].any()  # one sentence is never deep


@pytest.mark.slow_cases("131072", why="a smaller and a larger document stay")
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("size", [65_536, 131_072, 140_001])
def test_no_document_is_too_long(statistic: Statistic, size: int) -> None:
    """Beyond 131,071 sentences a depth does not fit into 16 bits."""
    sentences, candidates = RNG.normal(size=(size + 3, 2)), 0.3 * RNG.normal(size=(5, 2))
    candidates[0] = 0.0
    sentences, candidates = sentences.astype(np.float32), candidates.astype(np.float32)
    found = ProjectedCandidates(candidates).depths(sentences, [size, 3], statistic)
    h = (sentences[:size, None] >= candidates).sum(axis=0)
    expected = {"lowest": np.min, "algorithm_1": np.max, "mean": np.sum}[statistic](np.minimum(h, size - h), axis=1)
    assert (found[0] == expected).all()
    assert found[0, 0] > 0.45 * size
    assert (found[1] == by_definition(sentences[size:], candidates, statistic)).all()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_any_number_of_threads_finds_the_same(statistic: Statistic) -> None:
    sentences, sizes, candidates = random_documents(150, ties=True)
    ready = ProjectedCandidates(candidates)
    one, *others = (ready.depths(sentences, sizes, statistic, threads=threads) for threads in (1, 2, 7, 200))
    assert all((one == other).all() for other in others)


def largest_change(statistic: Statistic, *, added: bool, number: int) -> tuple[float, float]:
    """Largest fall and rise of a depth over random documents with ties, where one sentence is replaced or added."""
    falls = rises = 0.0
    for _ in range(number):
        k, p = int(RNG.integers(1, 9)), int(RNG.integers(1, 5))
        one, other = RNG.integers(-2, 3, (2, k, p)).astype(np.float32)
        other[1:] = one[1:]
        if added:
            one = one[1:]
        candidates = ProjectedCandidates(RNG.integers(-2, 3, (30, p)).astype(np.float32))
        before, after = candidates.depths(np.concatenate([one, other]), [len(one), k], statistic)
        change = (after - before) / (p if statistic == "mean" else 1)
        falls, rises = max(falls, -change.min()), max(rises, change.max())
    return falls, rises


@pytest.mark.parametrize("statistic", STATISTICS)
def test_sensitivity(statistic: Statistic) -> None:
    """One replaced sentence changes a depth by 1 at most, both ways; one added never takes any."""
    assert largest_change(statistic, added=False, number=300) == (1.0, 1.0)
    falls, rises = largest_change(statistic, added=True, number=300)
    assert (max(falls, 0.0), rises) == (0.0, 1.0)


@pytest.mark.slow_cases("choice1", why="the exponential mechanism stays")
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("choice", [Exponential(2.0), PermuteAndFlip(2.0)])
def test_log_ratios_of_random_neighbours(statistic: Statistic, choice: Exponential | PermuteAndFlip) -> None:
    """3,000 random pairs in all: the log ratio of no candidate exceeds epsilon, and some come close to it."""
    worst = 0.0
    for _ in range(500):
        k, p, m = int(RNG.integers(1, 7)), int(RNG.integers(1, 4)), int(RNG.integers(2, 12))
        one = RNG.integers(-1, 2, (k, p)).astype(np.float32)
        other = one.copy()
        other[0] = RNG.integers(-1, 2, p)
        candidates = ProjectedCandidates(RNG.integers(-1, 2, (m, p)).astype(np.float32))
        depths = candidates.depths(np.concatenate([one, other]), [k, k], statistic) / (p if statistic == "mean" else 1)
        first, second = choice.distribution(depths)
        worst = max(worst, float(np.abs(np.log(first / second)).max()))
    assert worst <= 2.0
    assert worst > 0.8


@pytest.mark.parametrize("choice", [Exponential(2.0, 0.5), PermuteAndFlip(2.0, 0.5)])
def test_twice_the_weight_for_adding_one(choice: Exponential | PermuteAndFlip) -> None:
    """A depth only grows with one sentence more: e^(epsilon * depth) is then epsilon-DP, and not for replacing one.

    Permute-and-flip is the largest utility plus exponential noise: what a candidate's noise must exceed moves by 1 at
    most where all utilities rise by 0 to 1.
    """
    added = replaced = 0.0
    for _ in range(300):
        k, p, m = int(RNG.integers(1, 7)), int(RNG.integers(1, 4)), int(RNG.integers(2, 12))
        one = RNG.integers(-1, 2, (k, p)).astype(np.float32)
        other = one.copy()
        other[0] = RNG.integers(-1, 2, p)
        candidates = ProjectedCandidates(RNG.integers(-1, 2, (m, p)).astype(np.float32))
        depths = candidates.depths(np.concatenate([one, one[1:], other]), [k, k - 1, k], "lowest")
        whole, fewer, another = np.log(choice.distribution(depths.astype(np.float64)))
        added, replaced = max(added, np.abs(whole - fewer).max()), max(replaced, np.abs(whole - another).max())
    assert added <= 2.0 < replaced


def test_table_1_of_the_paper() -> None:
    """Where so many of 5,000 candidates lie so deep and all others not at all, one of them is chosen with .95."""
    for epsilon, deep, depth, expected in ((3, 55, 5, 0.953), (6, 25, 3, 0.976), (10, 5, 2, 0.957), (23, 1, 1, 0.952)):
        depths = np.zeros((1, 5000))
        depths[0, :deep] = depth
        chance = float(Exponential(float(epsilon)).distribution(depths)[0, :deep].sum())
        assert chance == pytest.approx(expected, abs=5e-4)
        weight = deep * math.exp(epsilon * depth / 2)
        assert chance == pytest.approx(weight / (weight + 5000 - deep), rel=1e-6)


def test_refusals() -> None:
    candidates = ProjectedCandidates(np.zeros((3, 2), np.float32))
    with pytest.raises(ConfigError, match="2 directions"):
        candidates.depths(np.zeros((4, 3), np.float32), [4], "lowest")
    for sizes in ([3], [5, -1]):
        with pytest.raises(ConfigError, match="sum to the number") as caught:
            candidates.depths(np.zeros((4, 2), np.float32), sizes, "lowest")
        assert not any(digit in str(caught.value) for digit in "345")  # a number of sentences may be private
    with pytest.raises(ConfigError, match="finite"):
        candidates.depths(np.full((1, 2), np.nan, np.float32), [1], "lowest")
    with pytest.raises(ConfigError, match="statistic"):
        candidates.depths(np.zeros((0, 2), np.float32), [], "median")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="candidates"):
        ProjectedCandidates(np.zeros((0, 2), np.float32))
    assert candidates.depths(np.zeros((0, 2), np.float32), [0, 0], "mean").tolist() == [[0] * 3] * 2
