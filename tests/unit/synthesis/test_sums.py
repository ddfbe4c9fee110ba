"""Sums of whole numbers: lengths, clipping, sensitivity by search, one release, and the noise."""

import copy
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dptext.errors import ConfigError, PrivacyError
from dptext.privacy import accounting
from dptext.privacy.events import ZcdpEvent
from dptext.privacy.guarantee import Relation
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum, clipped, each_clipped
from dptext.synthesis.votes import TopicReport

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
NONE = Noise(math.inf, ADD)
BOTH = ((ADD, 1), (REPLACE, 2))  # a relation, and the weight of the square of a coordinate that may be negative


def clean(
    vectors: np.ndarray,
    *,
    authors: list[str | None] | None = None,
    relation: Relation = ADD,
    signed: int | None = None,
) -> np.ndarray:
    """The sum of vectors without noise, in steps; all coordinates may be negative unless `signed` says how many."""
    first = vectors.shape[1] if signed is None else signed
    found = PrivateSum(vectors.shape[1], Noise(math.inf, relation), by_author=authors is not None, signed=first)
    cells = np.tile(np.arange(vectors.shape[1]), (len(vectors), 1))
    found.add(cells, vectors, authors)
    return np.rint(found.release(Draws(secure())) * STEPS).astype(np.int64)


@given(arrays(np.float64, (1, 5), elements=st.floats(-1, 1)))
def test_a_vector_adds_no_more_than_its_length_and_none_that_is_longer(vector: np.ndarray) -> None:
    added = clean(vector)
    squared = int((added**2).sum())
    assert squared <= STEPS**2
    if np.linalg.norm(vector) <= 1:
        assert np.abs(added - vector[0] * STEPS).max() < 1  # towards 0 by less than a step
        assert (np.abs(added) <= np.abs(vector[0]) * STEPS).all()


@pytest.mark.parametrize("odd", [[math.nan, 0.0], [math.inf, 0.0], [1e300, 0.0], [1.0, 1.0], [-1.0, 0.0001]])
def test_what_is_longer_or_not_finite_adds_nothing(odd: list[float]) -> None:
    assert not clean(np.array([odd])).any()
    assert clean(np.array([odd, [0.5, 0.5]])).tolist() == [STEPS // 2, STEPS // 2]


def test_an_author_of_many_records_adds_one_vector() -> None:
    vectors = np.array([[0.6, 0.8], [0.6, 0.8], [0.8, -0.6], [1.0, 0.0]])
    one = clean(vectors, authors=["a", "a", "a", None])
    assert int((one**2).sum()) <= STEPS**2
    summed = vectors[:3].sum(axis=0)
    np.testing.assert_allclose(one / STEPS, summed / np.linalg.norm(summed), atol=2 / STEPS)
    assert clean(vectors, authors=["a", "b", "c", "d"]).tolist() == clean(vectors).tolist()


def weighed(steps: np.ndarray, weights: list[int]) -> int:
    """The squared length of whole steps, exactly, with a weight for each square."""
    return sum(weight * int(each) ** 2 for weight, each in zip(weights, steps, strict=True))


@pytest.mark.parametrize(("relation", "weight"), BOTH)
@given(vector=arrays(np.float64, (1, 5), elements=st.floats(-1, 1)), signed=st.integers(0, 5))
def test_a_vector_of_signed_and_unsigned_cells_is_added_whole_or_not_at_all(
    relation: Relation, weight: int, vector: np.ndarray, signed: int
) -> None:
    added, weights = clean(vector, relation=relation, signed=signed), [weight] * signed + [1] * (5 - signed)
    assert weighed(added, weights) <= STEPS**2
    assert (added[signed:] >= 0).all()
    whole = np.trunc(vector[0] * STEPS).astype(np.int64)
    kept = weighed(whole, weights) <= STEPS**2 and (whole[signed:] >= 0).all()
    assert added.tolist() == (whole.tolist() if kept else [0] * 5)


#: Lengths near the limit, those whose squares fit into 64 bits, and those whose squares do not.
NUMBERS = st.one_of(*(st.integers(-most, most) for most in (STEPS, 10**9, 10**12)))


@given(arrays(np.int64, 4, elements=NUMBERS), st.integers(0, 4))
def test_clipping_whole_numbers(steps: np.ndarray, signed: int) -> None:
    for _, weight in BOTH:
        weights = [weight] * signed + [1] * (4 - signed)
        found = clipped(steps, np.array(weights))
        assert weighed(found, weights) <= STEPS**2
        assert all(a * b >= 0 and abs(a) <= abs(b) for a, b in zip(found.tolist(), steps.tolist(), strict=True))
        if weighed(steps, weights) <= STEPS**2:
            assert found.tolist() == steps.tolist()
            continue
        # One factor for all, whose divisor is rounded up, toward 0: each is within two steps of its part of the vector.
        factor = STEPS / math.sqrt(weighed(steps, weights))
        assert np.abs(found - steps * factor).max() < 2
        assert math.sqrt(weighed(found, weights)) > STEPS - 2 * math.sqrt(sum(weights))


@given(st.lists(st.tuples(arrays(np.int64, st.integers(1, 4), elements=NUMBERS), st.integers(0, 4)), min_size=1))
@example([(np.array([STEPS]), 0), (np.array([STEPS + 1]), 0), (np.array([3 * STEPS, 4 * STEPS]), 0)])
def test_vectors_in_a_row_are_clipped_as_each_is(vectors: list[tuple[np.ndarray, int]]) -> None:
    steps = np.concatenate([each for each, _ in vectors])
    weights = np.concatenate([np.where(np.arange(len(each)) < signed, 2, 1) for each, signed in vectors])
    starts = np.cumsum([0, *(len(each) for each, _ in vectors[:-1])])
    wanted = [clipped(*each) for each in zip(np.split(steps, starts[1:]), np.split(weights, starts[1:]), strict=True)]
    assert each_clipped(steps, weights, starts).tolist() == np.concatenate(wanted).tolist()


def test_thousands_of_authors_add_up_whatever_order_they_come_in() -> None:
    rng = np.random.default_rng(0)
    number = rng.integers(0, 10_000, 6_000)
    cells = rng.permuted(np.tile(np.arange(5), (len(number), 1)), axis=1)[:, :2]
    values = rng.uniform(0, 0.7, cells.shape)
    found = PrivateSum(5, NONE, by_author=True)
    for part in np.array_split(np.arange(len(number)), 40):
        found.add(cells[part], values[part], [f"a{each}" for each in number[part]])
    own = np.zeros((10_000, 5), np.int64)
    np.add.at(own, (number[:, None], cells), np.trunc(values * STEPS).astype(np.int64))
    wanted = sum(clipped(each, np.ones(5, np.int64)) for each in own)
    assert (found.release(Draws(secure())) * STEPS).tolist() == np.asarray(wanted).tolist()


@given(
    st.lists(st.tuples(st.sampled_from([None, "", "a", "b", "c"]), st.permutations(range(6))), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_an_authors_vectors_add_up_whatever_calls_they_come_in(
    rows: list[tuple[str | None, list[int]]], size: int
) -> None:
    values = np.linspace(0.1, 0.4, 3)
    found = PrivateSum(6, NONE, by_author=True)
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        found.add(np.array([cells[:3] for _, cells in part]), np.tile(values, (len(part), 1)), [who for who, _ in part])
    wanted = np.zeros(6, np.int64)
    for author in "abc":
        own = np.zeros(6, np.int64)
        for cells in (cells for who, cells in rows if who == author):
            own[cells[:3]] += np.trunc(values * STEPS).astype(np.int64)
        wanted += clipped(own, np.ones(6, np.int64))
    assert (found.release(Draws(secure())) * STEPS).tolist() == wanted.tolist()


@pytest.mark.parametrize("authors", [None, [], ["a"], ["a", "b", "c"]])
def test_each_vector_has_an_author_or_none(authors: list[str | None] | None) -> None:
    found = PrivateSum(2, NONE, by_author=True)
    with pytest.raises(ConfigError, match="an author, or None, for each vector"):
        found.add(np.array([[0], [1]]), np.ones((2, 1)), authors)


def unit_vectors(signed: int, weight: int, n: int) -> np.ndarray:
    """Vectors of 4 coordinates whose weighted length is 1: those of one or two coordinates, and random ones."""
    rng = np.random.default_rng(0)
    axes = np.concatenate([np.eye(4), -np.eye(4)])
    pairs = [a + b for a in axes for b in axes if not (a * b).any()]
    found = np.concatenate([axes, pairs, rng.standard_normal((n, 4))])
    found[:, signed:] = np.abs(found[:, signed:])
    weights = np.array([weight] * signed + [1] * (4 - signed))
    return np.asarray(found / np.sqrt((weights * found**2).sum(axis=1, keepdims=True)))


def furthest(vectors: np.ndarray, *, relation: Relation, signed: int) -> tuple[float, float]:
    """The largest length that one vector adds to a sum, and the largest distance of two, in lengths of 1."""
    added = np.stack([clean(row[None], relation=relation, signed=signed) for row in vectors]) / STEPS
    apart = np.sqrt(np.square(added[:, None] - added[None]).sum(axis=2))
    return float(np.sqrt(np.square(added).sum(axis=1)).max()), float(apart.max())


@pytest.mark.parametrize("signed", range(5))
def test_no_two_vectors_are_further_apart_than_the_sensitivity(signed: int) -> None:
    """A search among extremes and random vectors; a sensitivity that is a thousandth smaller is found out."""
    reach, noise = math.sqrt(2), Noise(0.5, REPLACE)  # sigma is the sensitivity
    _, apart = furthest(unit_vectors(signed, 2, 60), relation=REPLACE, signed=signed)
    assert reach * 0.999 < apart <= reach
    assert reach * STEPS <= noise.sensitivity <= noise.sigma <= reach * STEPS + 1
    longest, _ = furthest(unit_vectors(signed, 1, 60), relation=ADD, signed=signed)
    assert 0.999 < longest <= 1
    assert STEPS <= Noise(0.5, ADD).sigma <= STEPS + 1


@pytest.mark.parametrize("signed", range(1, 5))
def test_a_sum_that_ignores_the_weight_of_signs_is_found(signed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two opposite vectors of plain length 1 are 2 apart: the same search must see it."""
    plain = unit_vectors(signed, 1, 60)
    assert furthest(plain, relation=REPLACE, signed=signed)[1] <= math.sqrt(2)
    monkeypatch.setattr(Noise, "sign_weight", 1)
    assert furthest(plain, relation=REPLACE, signed=signed)[1] > 1.99


def test_an_author_is_clipped_by_the_weighted_length() -> None:
    """The same two texts, by an author of many: a cell that may be negative counts twice where authors are replaced."""
    vectors = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    for relation, weight in BOTH:
        one = clean(vectors, authors=["a"] * 3, relation=relation, signed=1)
        assert STEPS**2 * 0.999 < weighed(one, [weight, 1]) <= STEPS**2
        assert one[0] == one[1] > 0  # one factor for all cells


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_noise_costs_what_the_spec_says(epsilon: float, relation: str) -> None:
    spec = TopicReport(epsilon=epsilon, relation=relation, delta=1e-6)
    noise = spec.noise()
    sensitivity = STEPS * (1 if relation == "add_or_remove_one" else math.sqrt(2))
    assert (sensitivity / noise.sigma) ** 2 / 2 <= spec.rho
    assert (sensitivity / (noise.sigma - 1)) ** 2 / 2 > spec.rho * (1 - 1e-9)
    # zCDP by the plain conversion (Bun and Steinke 2016) is a looser bound, so the tight one must be below it.
    plain = spec.rho + 2 * math.sqrt(spec.rho * math.log(1 / spec.delta))
    assert accounting.epsilon(spec.events(spec.units[0]), spec.delta) <= epsilon <= plain
    assert spec.noise(0.25).sigma == pytest.approx(2 * noise.sigma, rel=1e-3)


def test_a_sum_leaves_once_and_is_never_shown_or_copied() -> None:
    found = PrivateSum(2, NONE)
    found.add(np.array([[0, 1]]), np.array([[0.25, 0.5]]))
    assert "0" not in repr(found).replace("PrivateSum", "")
    with pytest.raises(TypeError, match="private sums"):
        copy.deepcopy(found)
    assert found.release(Draws(secure())).tolist() == [0.25, 0.5]
    with pytest.raises(PrivacyError, match="released before"):
        found.release(Draws(secure()))


def test_cells_are_checked() -> None:
    found = PrivateSum(2, NONE)
    with pytest.raises(PrivacyError, match="a cell twice"):
        found.add(np.array([[1, 1]]), np.array([[0.9, 0.9]]))
    for cells in ([[0, 2]], [[-1, 0]]):
        with pytest.raises(ConfigError, match="cells below 2"):
            found.add(np.array(cells), np.array([[0.1, 0.1]]))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("signed", [0, 1, 2])
def test_a_negative_coordinate_counts_only_where_it_was_paid_for(signed: int, relation: Relation) -> None:
    """Unsigned parts of two vectors are at most sqrt(2) apart, which a negative coordinate would break."""
    found = PrivateSum(2, Noise(math.inf, relation), signed=signed)
    found.add(np.array([[0, 1], [0, 1]]), np.array([[0.5, -0.5], [0.25, 0.25]]))
    assert found.release(Draws(secure())).tolist() == ([0.75, -0.25] if signed == 2 else [0.25, 0.25])
    found = PrivateSum(2, Noise(math.inf, relation), signed=signed)
    found.add(np.array([[1, 0]]), np.array([[0.5, -0.5]]))  # a row may name its cells in any order
    assert found.release(Draws(secure())).tolist() == ([-0.5, 0.5] if signed else [0, 0])


def test_the_number_of_signed_cells_is_one_of_the_cells() -> None:
    for signed in (-1, 3):
        with pytest.raises(ConfigError, match="signed"):
            PrivateSum(2, NONE, signed=signed)


def test_noise_is_refused_where_it_cannot_be_drawn() -> None:
    for rho in (0.0, -1.0, math.nan, 1e-9):
        with pytest.raises(ConfigError, match="rho"):
            Noise(rho, ADD)
    with pytest.raises(ConfigError, match="relation"):
        Noise(1.0, Relation.REPLACE_SPECIAL)


@pytest.mark.parametrize("scale", [1.0, 0.9, 1.1])
def test_the_right_scale_of_noise_is_accepted_and_a_wrong_one_rejected(scale: float) -> None:
    noise = Noise(0.1, ADD)
    drawn = noise.draw(20_000, seeded(1)) * scale
    apart = abs(float(np.mean(drawn**2)) / noise.sigma**2 - 1) / math.sqrt(2 / drawn.size)
    assert (apart < 4) == (scale == 1.0)


def test_settings_that_cannot_be_used() -> None:
    labels = ("a", "b")
    for wrong in (
        {"epsilon": 0.0}, {"delta": 0.0}, {"delta": 0.5}, {"unit": "word"}, {"relation": "replace_special"},
        {"about": 0}, {"size": -1}, {"topics": 1}, {"labels": ("a",)}, {"names": ("one",)}, {"topic_share": 1.0},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            Prototypes(**{"labels": labels, **wrong})  # type: ignore[arg-type]


def exact_delta(shift: tuple[int, int], sigma: int, epsilon: float) -> float:
    """delta at epsilon of two discrete Gaussians of the plane, one moved by a whole vector, by enumeration."""
    reach = 9 * sigma  # what lies beyond adds less than 1e-17
    axis = np.arange(-reach, reach + 1)
    log_p = -(axis[:, None] ** 2 + axis[None] ** 2) / (2 * sigma**2)
    log_q = -((axis[:, None] - shift[0]) ** 2 + (axis[None] - shift[1]) ** 2) / (2 * sigma**2)
    p = np.exp(log_p)
    return float(np.maximum(p - np.exp(epsilon + log_q), 0).sum() / p.sum())


@pytest.mark.parametrize("rho", [0.02, 0.5, 3.0])
def test_every_pair_of_neighbours_on_a_coarse_grid_keeps_the_promise(
    rho: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of a quarter: all differences of vectors of the plane. Half of the noise breaks the promise."""
    monkeypatch.setattr("dptext.synthesis.sums.STEPS", 4)
    every = [(x, y) for x in range(-4, 5) for y in range(-4, 5)]
    for relation, signed in ((ADD, 2), (REPLACE, 0), (REPLACE, 1), (REPLACE, 2)):
        noise = Noise(rho, relation)
        # What the sum itself keeps of every vector of the grid, rather than what this test takes for its bound.
        kept = [clean(np.array([each]) / 4, relation=relation, signed=signed) for each in every]
        units = sorted({(x, y) for x, y in np.rint(np.array(kept) / STEPS * 4).astype(int).tolist()})
        moves = units if relation is ADD else [(a - c, b - d) for a, b in units for c, d in units]
        furthest = max(moves, key=lambda move: move[0] ** 2 + move[1] ** 2)
        for delta in (1e-6, 1e-3):
            epsilon = accounting.epsilon([ZcdpEvent(rho)], delta)
            shapes = {tuple(sorted(map(abs, move))) for move in moves}  # the noise is the same in every octant
            assert max(exact_delta(move, noise.sigma, epsilon) for move in shapes) <= delta
            if rho < 1:
                assert exact_delta(furthest, max(1, noise.sigma // 2), epsilon) > delta
