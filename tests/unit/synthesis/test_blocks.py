"""The vector of blocks that a unit adds: shares, lengths, places of cells, and the way back to numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.privacy.guarantee import Relation
from dptext.synthesis import blocks
from dptext.synthesis.blocks import COUNTS, LENGTHS, POINTS, TOPICS, UNLIKE, WORDS, SumLayout
from dptext.synthesis.marginals import Marginal
from dptext.synthesis.readings import Reading
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.sums import STEPS, Noise, PrivateSum

ROWS, DIM, N_TOPICS, N_LENGTHS, WIDTH, MARKS, CELLS = 3, 4, 5, 4, 9, 3, 2
WIDTHS = {POINTS: DIM, COUNTS: 1, TOPICS: N_TOPICS, LENGTHS: N_LENGTHS, WORDS: WIDTH, UNLIKE: 1}
WIDTHS |= {"points where": DIM, "words where": WIDTH}
WHERE = Marginal("columns where", (1,), (CELLS,))  # a column that texts follow
ALL = {POINTS: 0.3, COUNTS: 0.1, TOPICS: 0.05, LENGTHS: 0.04, WORDS: 0.3, UNLIKE: 0.01}
ALL |= {"points where": 0.1, "words where": 0.1}
RELATIONS = (Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE)


def layout_of(shares: dict[str, float], relation: Relation) -> SumLayout:
    """The layout of the blocks that have a share."""
    widths = {name: WIDTHS[name] for name in shares}
    return SumLayout.of(widths, shares, Noise(math.inf, relation), rows=ROWS, marks=MARKS, followed=[WHERE])


def topics(points: np.ndarray) -> np.ndarray:
    """A topic of each point: any function of the point alone."""
    return np.asarray((np.abs(points).sum(axis=1) * 7).astype(np.int64) % N_TOPICS)


def reading(seed: int, n: int) -> Reading:
    """Random records, some with points on the unit sphere, and with 0 to `MARKS` marks."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n, DIM))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    points /= np.where(rng.random((n, 1)) < 0.7, lengths * (1 + 2.0**-40), np.maximum(lengths, 1) * 2)
    marks = np.full((n, MARKS), -1, np.int64)
    for row in marks:
        own = rng.choice(WIDTH, rng.integers(0, MARKS + 1), replace=False)
        row[: len(own)] = np.sort(own)
    unlike = rng.integers(0, 2, n).astype(np.float64)
    return Reading(
        rng.integers(0, ROWS, n),
        points,
        unlike,
        marks,
        [None] * n,
        rng.integers(0, N_LENGTHS, n),
        rng.integers(0, CELLS, (n, 1)),
    )


def squares(layout: SumLayout, read: Reading, relation: Relation) -> list[int]:
    """The weighted squared length of each vector in whole steps, as `PrivateSum` checks it."""
    cells, values = layout.vectors(read, topics)
    weights = np.where(cells < layout.signed, Noise(1.0, relation).sign_weight, 1)
    return [int(each) for each in (weights * np.trunc(values * STEPS).astype(np.int64) ** 2).sum(axis=1)]


shares_of = st.lists(st.floats(0.001, 1.0), min_size=8, max_size=8).flatmap(
    lambda parts: st.sets(st.sampled_from(sorted(WIDTHS)), min_size=1).map(
        lambda names: {
            name: part / sum(part for name, part in zip(sorted(WIDTHS), parts, strict=True) if name in names)
            for name, part in zip(sorted(WIDTHS), parts, strict=True)
            if name in names
        }
    )
)


@pytest.mark.parametrize("relation", RELATIONS)
@given(shares=shares_of, seed=st.integers(0, 2**32 - 1))
def test_a_vector_of_any_blocks_is_no_longer_than_a_unit(
    relation: Relation, shares: dict[str, float], seed: int
) -> None:
    layout = layout_of(shares, relation)
    assert sum(round(share, 12) for share in shares.values()) == pytest.approx(1)
    most = 0.0
    for block in layout.blocks:
        times = MARKS if block.kind == WORDS else 1
        weight = Noise(1.0, relation).sign_weight if block.kind == POINTS else 1
        assert weight * times * block.part**2 <= shares[block.name]
        most += weight * times * block.part**2
    assert most <= 1
    assert max(squares(layout, reading(seed, 12), relation)) <= STEPS**2


def marked(read: Reading, rows: np.ndarray) -> np.ndarray:
    """The numbers of texts with each word, by rows of texts."""
    return np.array([[(row & (read.marks == word).any(axis=1)).sum() for word in range(WIDTH)] for row in rows])


@pytest.mark.parametrize("relation", RELATIONS)
@given(shares=shares_of, seed=st.integers(0, 2**32 - 1))
def test_numbers_come_back_as_they_were(relation: Relation, shares: dict[str, float], seed: int) -> None:
    """Without noise counts are exact, and a sum of points is within a step a text and cell."""
    layout, read, n = layout_of(shares, relation), reading(seed, 12), 12
    total = np.zeros(layout.cells)
    cells, values = layout.vectors(read, topics)
    assert all(len(set(row)) == len(row) for row in cells.tolist())
    assert 0 <= cells.min() <= cells.max() < layout.cells
    np.add.at(total, cells, np.trunc(values * STEPS) / STEPS)
    known = layout.known(total, 0.25)
    assert set(known) == set(shares)
    by_label, by_cell = (np.arange(n)[:, None] == of for n, of in ((ROWS, read.labels), (CELLS, read.columns[:, 0])))
    where = topics(read.points)
    expected = {
        COUNTS: by_label.sum(axis=1)[:, None],
        LENGTHS: np.array([[(row & (read.lengths == each)).sum() for each in range(N_LENGTHS)] for row in by_label]),
        TOPICS: np.array([[(row & (where == topic)).sum() for topic in range(N_TOPICS)] for row in by_label]),
        WORDS: marked(read, by_label),
        "words where": marked(read, by_cell),
        "points where": by_cell @ read.points,
        UNLIKE: np.array([[read.unlike.sum()]]),
        POINTS: by_label @ read.points,
    }
    for block in layout.blocks:
        found = known[block.name]
        assert found.deviation == 0.25 / block.part
        slack = n / STEPS / block.part if block.kind == POINTS else 1e-9
        np.testing.assert_allclose(found.numbers, expected[block.name], atol=slack)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_text_that_has_all_uses_its_whole_length(relation: Relation) -> None:
    """The parts give nothing away: a share that is not used would be noise for nothing."""
    point = np.full((1, DIM), 1 / math.sqrt(DIM)) / (1 + 2.0**-40)
    full = Reading(np.array([1]), point, np.ones(1), np.array([[0, 4, 8]]), [None], np.array([2]), np.array([[1]]))
    (squared,) = squares(layout_of(ALL, relation), full, relation)
    assert STEPS**2 * 0.999 < squared <= STEPS**2


def added(layout: SumLayout, relation: Relation, read: Reading) -> np.ndarray:
    """What `PrivateSum` takes of the vectors, in steps."""
    summed = PrivateSum(layout.cells, Noise(math.inf, relation), signed=layout.signed)
    summed.add(*layout.vectors(read, topics))
    return summed._clean()


def require_all_counted(relation: Relation) -> None:
    """Each text is in the count of its label, so none was left out for being longer than a unit."""
    for seed in range(20):
        read = reading(seed, 30)
        layout = layout_of(ALL, relation)
        counts = layout.known(added(layout, relation, read) / STEPS, 1.0)[COUNTS].numbers[:, 0]
        np.testing.assert_allclose(counts, np.bincount(read.labels, minlength=ROWS), atol=1e-9)


def twice(self: SumLayout, read: Reading, topic: Any) -> tuple[np.ndarray, np.ndarray]:
    """Each mark also counts in the row of the next label, in a cell of its own."""
    cells, values = VECTORS(self, read, topic)
    words = next(block for block in self.blocks if block.name == WORDS)
    own = (cells >= words.start) & (cells < words.start + words.size)
    other = words.start + (cells - words.start + words.width) % words.size
    free = self.cells + np.arange(cells.shape[1])  # of what is no mark
    return np.concatenate([cells, np.where(own, other, free)], 1), np.concatenate([values, np.where(own, values, 0)], 1)


VECTORS = SumLayout.vectors
OF = SumLayout.of.__func__  # type: ignore[attr-defined]


def uncounted(cls: type[SumLayout], widths: Any, shares: Any, noise: Noise, **how: Any) -> SumLayout:
    """Topics take a part that no share has."""
    return OF(cls, widths, {**shares, TOPICS: 0.5}, noise, **how)


def unweighted(length: float) -> float:
    return length * 1.5


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_text_is_left_out_for_being_longer_than_a_unit(relation: Relation) -> None:
    require_all_counted(relation)


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        (SumLayout, "vectors", twice),
        (SumLayout, "of", classmethod(uncounted)),
        (blocks, "in_steps", unweighted),
    ],
    ids=["a word counts twice", "a block that no share pays for", "parts that are too long"],
)
def test_a_vector_that_is_not_paid_for_is_seen(
    where: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a vector is left out by the sum, whose cells are made to be enough."""
    made = PrivateSum.__init__
    monkeypatch.setattr(PrivateSum, "__init__", lambda self, cells, noise, **how: made(self, cells + 64, noise, **how))
    require_all_counted(RELATIONS[0])
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises(AssertionError):
        require_all_counted(RELATIONS[0])


@pytest.mark.parametrize("labels", [(), ("a", "b", "c")])
@pytest.mark.parametrize("marks", [0, 5])
@pytest.mark.parametrize("topics", [0, 4])
@pytest.mark.parametrize("points", [True, False])
@pytest.mark.parametrize("lengths", [(), (4, 9)])
def test_the_shares_of_the_settings_add_up(
    labels: tuple[str, ...], marks: int, topics: int, points: bool, lengths: tuple[int, ...]
) -> None:
    if not (labels or marks or topics or lengths):
        return
    spec = SummarySpec(labels=labels, marks=marks, topics=topics, points=points, lengths=lengths)
    shares = spec.block_shares
    assert set(shares) == set(spec.blocks)
    assert all(share > 0 for share in shares.values())
    assert math.fsum(shares.values()) == pytest.approx(1, abs=1e-12)
    layout = spec.layout(dim=8, width=20)
    weight = {POINTS: spec.noise().sign_weight, WORDS: marks}
    assert sum(weight.get(each.name, 1) * each.part**2 for each in layout.blocks) <= 1
