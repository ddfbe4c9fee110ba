"""Rows from noisy numbers: exact numbers are kept, noise makes no relation, and drawn rows have the model's shares."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dptext.sampling.randomness import seeded
from dptext.synthesis.agreement import Known
from dptext.synthesis.column_numbers import column_numbers, on_simplex, one_way
from dptext.synthesis.marginals import Axes, marginal_shares
from dptext.synthesis.rows import Edge, RowModel
from dptext.text.declarations import schema_of

N = 20_000
AXES = Axes.of(("a", "b"), schema_of(["x: 1|2|3", "y?: 0..4 by 1", "z: p|q"]))
SIZES = AXES.sizes


def table(seed: int, *, related: bool) -> np.ndarray:
    """Rows of label, x, y and z: x follows the label, y follows x, and z nothing; or none follows anything."""
    rng = np.random.default_rng(seed)
    label = rng.choice(2, N, p=[0.7, 0.3])
    x = rng.choice(3, N, p=[0.2, 0.5, 0.3])
    y = rng.integers(0, 6, N)
    if related:
        x = np.where(rng.random(N) < 0.8, label * 2, x)
        y = np.where(rng.random(N) < 0.7, x + 1, y)
    return np.stack([label, x, y, rng.integers(0, 2, N)], axis=1)


def known_of(rows: np.ndarray, scale: float, seed: int = 0, pairs: tuple[str, ...] | None = None) -> tuple:
    """The marginals, and their numbers with noise of this deviation at all of the share."""
    marginals = AXES.named([*AXES.pairs] if pairs is None else pairs)
    shares, rng, found = marginal_shares(marginals), np.random.default_rng(seed), {}
    for each in marginals:
        deviation = scale / math.sqrt(shares[each.name])
        numbers = np.bincount(each.cells(rows), minlength=each.size) + rng.normal(0, deviation, each.size)
        found[each.name] = Known(numbers[None], deviation)
    return marginals, found


def model_of(rows: np.ndarray, scale: float, seed: int = 0) -> RowModel:
    marginals, known = known_of(rows, scale, seed)
    return RowModel.of(AXES, marginals, known, Known(np.bincount(rows[:, 0], minlength=2), scale))


def apart(one: np.ndarray, other: np.ndarray, axes: tuple[int, ...]) -> float:
    """Total variation of two tables of rows in these axes."""
    shape = tuple(SIZES[axis] for axis in axes)
    both = [
        np.bincount(AXES.marginal(*axes).cells(rows), minlength=math.prod(shape)) / len(rows) for rows in (one, other)
    ]
    return float(np.abs(both[0] - both[1]).sum() / 2)


def test_rows_of_numbers_without_noise_have_their_shares_by_one_column_and_by_two() -> None:
    rows = table(1, related=True)
    model = model_of(rows, 1e-3)
    assert set(model.followed) == {("label", "x"), ("x", "y")} | {pair for pair in model.followed if "z" in pair}
    drawn = np.column_stack([rows[:, 0], replace(model, rounded=True).rows(rows[:, 0], seeded(2))])
    for axis in range(4):
        assert apart(rows, drawn, (axis,)) < 0.002
    for axes in ((0, 1), (1, 2)):
        assert apart(rows, drawn, axes) < 0.004
    assert apart(rows, drawn, (0, 2)) < 0.02  # by x alone


UNEVEN = [
    np.array(each) for each in ([0.7, 0.3], [0.2, 0.5, 0.3, 0.0], [0.1, 0.2, 0.3, 0.2, 0.1, 0.0, 0.1], [0.5, 0.5])
]


@pytest.mark.parametrize("constant", [(), (1,), (1, 2, 3)])
@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_noise_makes_no_relation(constant: tuple[int, ...], scale: float) -> None:
    """Any of the unrelated pairs is used in about 5% of summaries, also of constant columns; wrong noise shows many."""
    shares = [np.resize(each, size) / np.resize(each, size).sum() for each, size in zip(UNEVEN, SIZES, strict=True)]
    shares = [np.eye(len(own))[0] if axis in constant else own for axis, own in enumerate(shares)]
    marginals, rng, runs = AXES.named([*AXES.pairs]), np.random.default_rng(len(constant)), 200
    part, used, wrongly = marginal_shares(marginals), 0, 0
    for _ in range(runs):
        known = {}
        for each in marginals:
            exact = N * math.prod(np.ix_(*(shares[axis] for axis in each.axes)))
            deviation = scale / math.sqrt(part[each.name])
            known[each.name] = Known((exact + rng.normal(0, deviation, each.shape)).reshape(1, -1), deviation)
        labels = Known(N * shares[0] + rng.normal(0, scale, 2), scale)
        used += bool(RowModel.of(AXES, marginals, known, labels).edges)
        wrong = {name: Known(each.numbers, each.deviation / 1.5) for name, each in known.items()}
        wrongly += bool(RowModel.of(AXES, marginals, wrong, labels).edges)
    slack = 3 * math.sqrt(0.05 * 0.95 * runs)
    assert used <= 0.05 * runs + slack < wrongly


@pytest.mark.parametrize("rounded", [False, True])
def test_drawn_rows_have_the_shares_of_the_model(rounded: bool) -> None:
    rows = table(3, related=True)
    model = model_of(rows, 20.0)
    labels = np.repeat([0, 1], [7_000, 3_000])
    drawn = replace(model, rounded=rounded).rows(labels, seeded(5))
    assert drawn.shape == (10_000, 3)
    edge = next(edge for edge in model.edges if edge.child == 1)
    for label, n in ((0, 7_000), (1, 3_000)):
        found = np.bincount(drawn[labels == label, 0], minlength=4)
        expected = edge.shares[label] * n
        slack = np.full(4, 1.0) if rounded else 5 * np.sqrt(expected * (1 - edge.shares[label])) + 1e-9
        assert (np.abs(found - expected) <= slack).all()


def test_seeded_rows_are_the_same_and_others_differ() -> None:
    model, labels = model_of(table(3, related=True), 20.0), np.zeros(500, np.int64)
    assert np.array_equal(model.rows(labels, seeded(1)), model.rows(labels, seeded(1)))
    assert not np.array_equal(model.rows(labels, seeded(1)), model.rows(labels, seeded(2)))


def test_without_other_every_value_is_listed_or_null() -> None:
    rows = table(4, related=True)
    rows[::3, 1] = 3  # not listed
    model = model_of(rows, 5.0)
    labels = rows[:5_000, 0]
    assert (model.rows(labels, seeded(1))[:, 0] == 3).mean() > 0.2
    drawn = model.without_other().rows(labels, seeded(1))
    assert (drawn[:, 0] < 3).all()
    assert (drawn[:, 1] == 5).any()  # null stays, as y may be null
    assert (drawn[:, 2] < 2).all()
    never = replace(model, shares=(model.shares[0], np.array([0.0, 0, 0, 1]), *model.shares[2:]), edges=())
    drawn = never.without_other().rows(labels, seeded(1))[:, 0]  # no listed value was seen, so each is as likely
    assert np.bincount(drawn, minlength=4) / len(labels) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.03)
    apart = replace(model, shares=(*model.shares[:3], np.eye(3)[2]), edges=(Edge(1, 3, np.tile(np.eye(3)[2], (4, 1))),))
    assert apart.without_other().shares[1] == pytest.approx([*model.shares[1][:3] / model.shares[1][:3].sum(), 0])


def test_a_column_is_the_weighted_mean_of_all_that_is_measured_of_it() -> None:
    rows = table(5, related=True)
    truth = np.bincount(rows[:, 1], minlength=4)
    errors: dict[int, list[float]] = {0: [], 6: []}
    for seed, n in itertools.product(range(200), errors):
        marginals, known = known_of(rows, 30.0, seed, tuple(AXES.pairs)[:n])
        found = one_way(1, marginals, known)
        errors[n] += ((found.numbers - truth) / found.deviation).tolist()
    for own in errors.values():
        assert abs(np.mean(own)) < 4 / math.sqrt(len(own))
        assert np.std(own) == pytest.approx(1, abs=0.1)


def test_reported_columns_are_not_negative_and_add_up_to_the_whole() -> None:
    marginals, known = known_of(table(6, related=False), 3_000.0)
    for column in column_numbers(AXES, marginals, known):
        found = column.estimates(12_345.0)
        assert found.numbers.min() >= 0
        assert found.numbers.sum() == pytest.approx(12_345)
        assert (found.low <= found.numbers).all()
        assert (found.numbers <= found.high).all()
    assert [column.in_order for column in column_numbers(AXES, marginals, known)] == [False, True, False]


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_shares_are_nearer_than_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = rng.normal(0, 1, 7)
    found = on_simplex(given)
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0
    for other in rng.dirichlet(np.ones(7), 300):
        assert np.square(found - given).sum() <= np.square(other - given).sum() + 1e-12


@pytest.mark.parametrize("n", [40, 80, 200, 1_000])
def test_rounded_rows_have_the_shares_of_a_column_that_follows_one_with_many_cells(n: int) -> None:
    """One or two rows of each parent's cell: what one cell lacks, the next ones get."""
    axes = Axes.of((), schema_of(["day: 1..40 by 1", "flag: yes|no"]))
    days, flags = np.full(41, 1 / 40), np.array([0.1, 0.9, 0.0])
    days[-1] = 0.0
    model = RowModel(axes, (np.ones(1), days, flags), (Edge(1, 2, np.tile(flags, (41, 1))),), rounded=True)
    found = model.rows(np.zeros(n, np.int64), seeded(1))
    assert abs((found[:, 1] == 0).sum() - n / 10) <= 1
    assert np.ptp(np.bincount(found[:, 0], minlength=40)[:40]) <= 1


def test_without_other_a_parent_is_as_likely_as_its_children_s_listed_values_make_it() -> None:
    axes = Axes.of((), schema_of(["x: a|b", "y: c|d"]))
    of_y = np.array([[0.5, 0.5, 0.0], [0.1, 0.1, 0.8], [1 / 3, 1 / 3, 1 / 3]])
    model = RowModel(axes, (np.ones(1), np.array([0.5, 0.5, 0.0]), np.array([0.3, 0.3, 0.4])), (Edge(1, 2, of_y),))
    shares = model.without_other().shares[1]
    np.testing.assert_allclose(shares, [1 / 1.2, 0.2 / 1.2, 0.0])
