"""Every small table: by how much one unit moves the sum of all blocks, enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dptext.privacy.guarantee import Relation
from dptext.synthesis.blocks import COUNTS, POINTS, TOPICS, SumLayout
from dptext.synthesis.marginals import Axes, marginal_shares
from dptext.synthesis.readings import Reading
from dptext.synthesis.sums import STEPS, Noise, PrivateSum
from dptext.text.declarations import schema_of

AXES = Axes.of(("a", "b"), schema_of(["size: s|l", "stars?: 1..2 by 1"]), topics=2)
MARGINALS = AXES.named([*AXES.pairs])
RELATIONS = [Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE]
Row = tuple[int, int, int, int]
#: Each document that there is: its label, its cells of both columns, and its topic.
DOCUMENTS = [*itertools.product(range(2), range(AXES.sizes[1]), range(AXES.sizes[2]), range(2))]
TELLING = np.array([[1.0, 0.0], [-1.0, 0.0]])  # the point of a text of each topic


def layout_of(relation: Relation) -> SumLayout:
    shares = {POINTS: 0.3, COUNTS: 0.1, TOPICS: 0.1}
    columns = {name: 0.5 * share for name, share in marginal_shares(MARGINALS).items()}
    widths = {POINTS: 2, COUNTS: 1, TOPICS: 2}
    return SumLayout.of(widths, {**shares, **columns}, Noise(1.0, relation), rows=2, marks=0, marginals=MARGINALS)


def read(rows: list[Row], authors: list[str | None]) -> Reading:
    labels, size, stars, topic = np.array(rows, np.int64).reshape(-1, 4).T
    n = len(rows)
    return Reading(
        labels, TELLING[topic], np.zeros(n), np.zeros((n, 0), np.int64), authors, np.zeros(n, np.int64),
        np.column_stack([size, stars]),
    )  # fmt: skip


def topic_of(points: np.ndarray) -> np.ndarray:
    return (points[:, 0] < 0).astype(np.int64)


def clean(
    rows: list[tuple[int, int, int, int]], relation: Relation, authors: list[str | None] | None = None
) -> np.ndarray:
    """The sum of a table in whole steps."""
    layout = layout_of(relation)
    summed = PrivateSum(layout.cells, Noise(1.0, relation), by_author=authors is not None, signed=layout.signed)
    cells, values = layout.vectors(read(rows, authors or [None] * len(rows)), topic_of)
    summed.add(cells, values, authors)
    return summed._clean()


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_document_of_any_table_moves_the_sum_further_than_the_noise_is_for(relation: Relation) -> None:
    """All tables of at most two rows, and each neighbour; the furthest are as far as is paid for, about."""
    assert [name for name in AXES.pairs if "topics" in name] == ["size+topics", "stars+topics"]
    alone = {row: clean([row], relation) for row in DOCUMENTS}
    for one, other in itertools.combinations_with_replacement(DOCUMENTS, 2):  # so neighbours differ by `alone`
        np.testing.assert_array_equal(clean([one, other], relation), alone[one] + alone[other])
    if relation is Relation.ADD_OR_REMOVE_ONE:
        moved = [np.linalg.norm(own) for own in alone.values()]
    else:
        moved = [np.linalg.norm(one - other) for one, other in itertools.combinations(alone.values(), 2)]
    most = Noise(1.0, relation).sensitivity
    assert max(moved) <= most
    assert max(moved) > most * (
        0.999 if relation is Relation.ADD_OR_REMOVE_ONE else 0.94
    )  # opposite points share a label


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_author_of_any_three_documents_moves_the_sum_further(relation: Relation) -> None:
    authors = [
        clean([*rows], relation, ["x"] * len(rows))
        for n in (1, 2, 3)
        for rows in itertools.combinations_with_replacement(DOCUMENTS[::3], n)
    ]
    own, most = np.stack(authors), Noise(1.0, relation).sensitivity
    if relation is Relation.ADD_OR_REMOVE_ONE:
        assert 0.999 * most < np.linalg.norm(own, axis=1).max() <= most
        return
    squares = np.square(own).sum(axis=1)
    apart = squares[:, None] + squares - 2 * own @ own.T
    assert math.sqrt(apart.max()) <= most
    assert math.sqrt(apart.max()) > 0.94 * most


def test_a_cell_that_counts_twice_would_be_seen() -> None:
    """The enumeration finds a block that nobody paid for."""
    relation, row = Relation.ADD_OR_REMOVE_ONE, DOCUMENTS[0]
    layout = layout_of(relation)
    cells, values = layout.vectors(read([row], [None]), topic_of)
    free = layout.blocks[-1]
    values[0, -1] = math.sqrt(free.part**2 + 0.01)
    steps = np.trunc(values[0] * STEPS)
    assert np.linalg.norm(steps) > STEPS
    summed = PrivateSum(layout.cells, Noise(1.0, relation), signed=layout.signed)
    summed.add(cells, values)
    assert not summed._clean().any()  # fails closed


def test_the_numbers_are_counts_of_the_rows_topics_among_them() -> None:
    rows = [DOCUMENTS[i] for i in np.random.default_rng(3).integers(0, len(DOCUMENTS), 300)]
    layout = layout_of(Relation.ADD_OR_REMOVE_ONE)
    known = layout.known(clean(rows, Relation.ADD_OR_REMOVE_ONE) / STEPS, 1.0)
    for each in MARGINALS:
        expected = np.zeros(each.shape)
        for row in rows:
            expected[tuple(row[axis] for axis in each.axes)] += 1
        np.testing.assert_allclose(known[each.name].numbers.reshape(each.shape), expected, atol=1e-9)
