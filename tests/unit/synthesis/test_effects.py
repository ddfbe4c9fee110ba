"""What each value adds by itself: values that go together are not counted twice, and noise is not believed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dptext.synthesis.effects import LITTLE_NOISE, Effects
from dptext.types import Floats, Integers

SIZES = (3, 2, 4)
VALUES = np.array([*itertools.product(*map(range, SIZES))])
STARTS = np.cumsum([0, *SIZES])


def groups(seed: int) -> Integers:
    """Numbers of rows of all groups, in which values go together."""
    return np.maximum(1, np.random.default_rng(seed).lognormal(4, 1.5, len(VALUES))).astype(np.int64)


def means(of_groups: Floats, numbers: Integers) -> tuple[Floats, Floats]:
    """The mean of all rows, and by how much that of each value is apart from it."""
    whole = np.average(of_groups, axis=0, weights=numbers)
    found = []
    for column, size in enumerate(SIZES):
        for value in range(size):
            own = VALUES[:, column] == value
            found.append(np.average(of_groups[own], axis=0, weights=numbers[own]) - whole)
    return whole, np.array(found)


def added(seed: int) -> tuple[Floats, Integers]:
    """The means of groups of rows whose values add up, and the numbers of rows."""
    true = np.random.default_rng(seed + 100).standard_normal((sum(SIZES), 5))
    return true[VALUES + STARTS[:-1]].sum(axis=1), groups(seed)


@pytest.mark.parametrize("seed", range(5))
def test_means_by_one_value_give_the_means_of_groups_back(seed: int) -> None:
    of_groups, numbers = added(seed)
    whole, apart = means(of_groups, numbers)
    found = Effects.of(VALUES, numbers, SIZES)
    exact = whole + found.added(found.alone(apart, 1e-9), VALUES)
    np.testing.assert_allclose(exact, of_groups, atol=1e-4)
    # Departures that are added as they are count twice what two columns share.
    naive = whole + found.added(apart, VALUES)
    assert np.abs(naive - of_groups).max() > 0.3
    near = whole + found.added(found.alone(apart, LITTLE_NOISE), VALUES)
    assert np.square(near - of_groups).mean() < np.square(naive - of_groups).mean()


def test_a_value_that_follows_another_one_adds_nothing_by_itself() -> None:
    numbers = np.array([80, 10, 20, 90])
    values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    of_groups = np.array([[1.0], [1.0], [-1.0], [-1.0]])  # by the first column alone
    found = Effects.of(values, numbers, (2, 2))
    whole = np.average(of_groups[:, 0], weights=numbers)
    apart = [
        [np.average(of_groups[own, 0], weights=numbers[own]) - whole]
        for own in (values[:, 0] == 0, values[:, 0] == 1, values[:, 1] == 0, values[:, 1] == 1)
    ]
    assert apart[2][0] > 0.2  # the second column follows the first
    first, second, third, fourth = found.alone(np.array(apart), 1e-9)[:, 0]
    assert first - second == pytest.approx(2, abs=1e-3)
    assert third - fourth == pytest.approx(0, abs=1e-3)


def test_noise_is_not_believed() -> None:
    """Posterior means are nearer to the truth than departures that are believed, and noise alone gives nothing."""
    errors, alone = [], []
    for seed in range(30):
        of_groups, numbers = added(seed)
        whole, apart = means(of_groups, numbers)
        noise = np.random.default_rng(seed).normal(0, 1.0, apart.shape)
        found = Effects.of(VALUES, numbers, SIZES)
        errors.append([
            np.square(whole + found.added(found.alone(apart + noise, level), VALUES) - of_groups).mean()
            for level in (1.0, 1e-6)
        ])  # fmt: skip
        alone.append(np.square(found.alone(noise, 1.0, 1e-6)).max())
    assert np.mean(errors, axis=0)[0] < np.mean(errors, axis=0)[1] / 2
    assert max(alone) < 1e-3


def test_a_value_without_rows_adds_what_its_own_mean_says() -> None:
    numbers = groups(1) * (VALUES[:, 2] != 3)
    found = Effects.of(VALUES[numbers > 0], numbers[numbers > 0], SIZES)
    assert np.isfinite(found.alone(np.ones((sum(SIZES), 2)), np.full((sum(SIZES), 2), 0.5))).all()
    np.testing.assert_allclose(np.diag(found.together), 1.0)
    assert found.together[-1, :3].sum() == pytest.approx(1)
    assert found.together[-1, -4:].tolist() == [0, 0, 0, 1]  # no row has two values of a column


def test_one_noise_for_all_is_solved_at_once_with_the_same_result() -> None:
    of_groups, numbers = added(4)
    _, apart = means(of_groups, numbers)
    found = Effects.of(VALUES, numbers, SIZES)
    each = found.alone(apart, np.full_like(apart, LITTLE_NOISE), np.ones_like(apart))
    np.testing.assert_allclose(found.alone(apart, LITTLE_NOISE), each, atol=1e-12)
