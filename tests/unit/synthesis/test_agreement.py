"""Wholes and parts of noisy numbers agree: by naive solvers, and intervals hold what they say."""

import numpy as np
import pytest
from scipy.optimize import nnls

from dptext.synthesis.agreement import Known, Shown, least_squares, nearest_cells, not_negative
from dptext.synthesis.report import Topics

RNG = np.random.default_rng(4)


def naive(cells: Known, counted: Known | None) -> tuple[np.ndarray, np.ndarray]:
    """Least squares over all cells as unknowns, and their covariance, by one dense system."""
    labels, topics = cells.numbers.shape
    design, seen = [np.eye(labels * topics) / cells.deviation], [cells.numbers.ravel() / cells.deviation]
    if counted is not None:
        design.append(np.kron(np.eye(labels), np.ones((1, topics))) / counted.deviation)
        seen.append(counted.numbers / counted.deviation)
    whole = np.concatenate(design)
    return np.linalg.lstsq(whole, np.concatenate(seen), rcond=None)[0], np.linalg.inv(whole.T @ whole)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (3, 6)])
@pytest.mark.parametrize("own", [None, 0.3, 9.0])
def test_numbers_and_deviations_are_those_of_a_dense_system(shape: tuple[int, int], own: float | None) -> None:
    cells = Known(RNG.normal(20, 9, shape), 2.5)
    counted = None if own is None else Known(RNG.normal(20 * shape[1], 9, shape[0]), own)
    found, (expected, covariance) = least_squares(cells, counted), naive(cells, counted)
    assert np.allclose(found.cells.numbers, expected.reshape(shape))
    sums = np.eye(expected.size).reshape(*shape, -1)
    for known, part in (
        (found.cells, sums.reshape(-1, expected.size)),
        (found.by_label, sums.sum(axis=1)),
        (found.by_topic, sums.sum(axis=0)),
        (found.whole, sums.sum(axis=(0, 1))[None]),
    ):
        assert np.allclose(known.numbers.ravel(), part @ expected)
        assert np.allclose(known.deviation, np.sqrt(np.diag(part @ covariance @ part.T)))


def test_what_is_not_negative_is_nearest_by_a_general_solver() -> None:
    sums = np.concatenate([np.kron(np.eye(3), np.ones(4)), np.kron(np.ones(3), np.eye(4))])
    heavy = 1e4  # wrong sums cost so much more than distance that they are right to 1e-6
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cells, true = rng.normal(1, 6, (3, 4)), rng.gamma(0.5, 8, (3, 4))
        rows, columns = true.sum(axis=1), true.sum(axis=0)
        found = nearest_cells(cells, rows, columns)
        assert (found >= 0).all()
        assert np.allclose(found.sum(axis=1), rows)
        assert np.allclose(found.sum(axis=0), columns, atol=1e-5)
        best, _ = nnls(
            np.concatenate([np.eye(12), heavy * sums]), np.concatenate([cells.ravel(), heavy * rows, heavy * columns])
        )
        assert np.allclose(sums @ best, [*rows, *columns], atol=1e-5)
        assert np.allclose(found.ravel(), best, atol=1e-4)


def add_up(found: Shown) -> bool:
    return (
        min(known.min() for known in (found.cells, found.by_label, found.by_topic, found.whole)) >= 0
        and np.allclose(found.cells.sum(axis=1), found.by_label, atol=1e-4)
        and np.allclose(found.cells.sum(axis=0), found.by_topic, atol=1e-4)
        and np.allclose(found.cells.sum(), found.whole, atol=1e-4)
    )


def test_wholes_and_parts_agree_whatever_the_noise() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        true = rng.gamma(0.2, 30, (1 + seed % 5, 2 + seed))
        cells = Known(rng.normal(true, 25.0), 25.0)
        counted = Known(rng.normal(true.sum(axis=1), 4.0), 4.0) if seed % 2 else None
        assert add_up(not_negative(least_squares(cells, counted)))
    assert add_up(not_negative(least_squares(Known(np.full((2, 3), -50.0), 9.0))))  # nothing but noise
    assert add_up(not_negative(least_squares(Known(np.zeros((2, 3)), 0.0))))


def report(rng: np.random.Generator, true: np.ndarray, scale: float) -> Topics:
    topics = tuple(((f"word{i}",), ()) for i in range(true.shape[1]))
    counted = rng.normal(true.sum(axis=1), scale / 3), scale / 3
    labels = tuple(map(str, range(len(true))))
    return Topics.of(labels, rng.normal(true, scale), scale, topics, "document", None, counted)


def test_intervals_hold_the_numbers_without_noise_and_the_whole_gains_nothing_by_its_empty_cells() -> None:
    rng = np.random.default_rng(8)
    true = np.zeros((5, 30))
    true[:, :4] = rng.gamma(2, 40, (5, 4))
    held: dict[str, list[bool]] = {}
    off = []
    for _ in range(200):
        shown = report(rng, true, 20.0).estimates
        off.append(shown.whole.numbers[0] - true.sum())
        wanted = {"cells": true, "by_label": true.sum(axis=1), "by_topic": true.sum(axis=0), "whole": true.sum()[None]}
        for name, exact in wanted.items():
            known = getattr(shown, name)
            held.setdefault(name, []).extend(((known.low <= exact) & (exact <= known.high)).ravel().tolist())
            assert ((known.low <= known.numbers) & (known.numbers <= known.high)).all()
    assert all(np.mean(each) > 0.94 for each in held.values()), {name: np.mean(each) for name, each in held.items()}
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(len(off))


def test_no_interval_says_that_there_is_surely_nothing() -> None:
    """A number far below 0 had the interval 0 to 0, as its own upper end is below 0."""
    numbers = np.array([[-60.0], [-12.0], [-0.5], [0.0], [400.0]])
    found = Topics.of([*"abcde"], numbers, 10.0, (), "document", None).estimates
    half = found.by_label.width * 10.0
    assert found.by_label.high.tolist() == pytest.approx([half, half, half, half, 400 + half])
    assert found.by_label.low[:4].tolist() == [0, 0, 0, 0]
    assert found.by_label.shown(0) == "0 (0 to 20)"
    whole = Topics.of(["a"], numbers[:1], 10.0, (), "document", None).estimates.whole
    assert whole.shown(0) == "0 (0 to 20)"


@pytest.mark.parametrize(("labels", "topics"), [(4, 64), (40, 1)])
def test_intervals_of_the_largest_hold_in_95_of_those_shown(labels: int, topics: int) -> None:
    """Intervals of 95% held in 80% of the 8 largest of 64 topics, and in 87% of the 8 largest of 40 labels."""
    rng, held = np.random.default_rng(0), {"all": list[float](), "largest": list[float]()}
    for _ in range(100):
        true = rng.multinomial(1_500, np.full(labels * topics, 1 / (labels * topics))).reshape(labels, topics)
        numbers = true + rng.normal(0, 12.0, true.shape)
        found = Topics.of([*"abcd"] if topics > 1 else [*map(str, range(40))], numbers, 12.0, (), "document", None)
        known = found.estimates.by_topic if topics > 1 else found.estimates.by_label
        cells = true.sum(axis=0 if topics > 1 else 1)
        places, wide = known.largest(8)
        for name, each in (("all", known), ("largest", wide)):
            held[name].append(np.mean([each.low[i] <= cells[i] <= each.high[i] for i in places]))
    assert np.mean(held["all"]) < 0.92
    assert np.mean(held["largest"]) > 0.94
    assert known.largest(len(known.numbers))[1] is known
