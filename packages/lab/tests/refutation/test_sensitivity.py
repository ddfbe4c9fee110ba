import itertools
import json
import math
import tracemalloc

import mpmath
import numpy as np
import pytest

from dptext.cli.grouped import spread
from dptext.errors import ConfigError
from dptext.privacy.curves import gaussian_delta
from dptext.sampling import clipping
from dptext.sampling.clipping import Norm
from dptext_lab.cli import sensitivity
from dptext_lab.refutation import claims, simulation
from dptext_lab.refutation.claims import (
    Claim,
    classical_limit,
    classical_sigma,
    counterexample,
    true_gaussian_epsilon,
    variance_table,
)
from dptext_lab.refutation.simulation import PUBLISHED_LAWS, Normal, Uniform, replay, simulate, violating_pairs

UNIFORM, PAPER, TIGHT = PUBLISHED_LAWS
LITERAL = Normal(math.sqrt(0.1))  # "variance 0.1 C" read literally, at C = 1

# What the authors' code prints, in %: uniform, normal sd 0.1 C.
AUTHORS = {
    1: (0, 0),
    2: (13.38, 0),
    3: (36.91, 0),
    4: (60.23, 0),
    8: (95.31, 0.02),
    10: (98.59, 0.26),
    12: (99.71, 2.12),
    16: (99.98, 27.65),
    20: (100, 74.01),
    24: (100, 96.0),
    32: (100, 99.99),
}
# Estimates from 200,000 pairs, in %: uniform, normal sd 0.1 C, normal sd sqrt(0.1) C (derivations, "Violating pairs").
ESTIMATES = {
    2: (13.57, 0, 0.264),
    3: (37.83, 0, 3.26),
    4: (59.56, 0, 13.72),
    8: (95.14, 0.0035, 85.70),
    10: (98.64, 0.19, 97.14),
    12: (99.67, 2.08, 99.52),
    16: (99.98, 27.35, 99.99),
    20: (100, 74.08, 100),
    24: (100, 96.27, 100),
}


# ------------------------------------------------------------------ the published simulation


@pytest.fixture(scope="module")
def published():
    rows = replay(range(1, 33))
    return {(row.claim.dim, row.law): row for row in rows}


def test_the_replay_gives_the_authors_numbers(published) -> None:
    for dim, (uniform, normal) in AUTHORS.items():
        assert round(100 * published[dim, UNIFORM].share.value, 6) == uniform, dim
        assert round(100 * published[dim, PAPER].share.value, 6) == normal, dim
        assert published[dim, TIGHT].share.value == 0


def test_the_replay_agrees_with_the_recipe_in_plain_numpy(published) -> None:
    # All at once and clipped by division, as it is published; ours clips otherwise and in blocks.
    generator = np.random.default_rng(123456)
    c = 10
    for dim in range(1, 13):
        draws = (
            generator.uniform(-c, c, (10_000, 2, dim)),
            generator.normal(0, 0.1 * c, (10_000, 2, dim)),
            generator.normal(0, 0.01 * c, (10_000, 2, dim)),
        )
        for law, pairs in zip(PUBLISHED_LAWS, draws, strict=True):
            clipped = pairs * np.minimum(1, c / np.linalg.norm(pairs, axis=-1, keepdims=True))
            distance = np.abs(clipped[:, 0] - clipped[:, 1]).sum(axis=-1)
            assert published[dim, law].share.value == (distance > 2 * c).mean()


def test_the_generator_is_shared_by_all_dims(published) -> None:
    alone = replay([7, 3])
    assert [row.claim.dim for row in alone] == [3, 3, 3, 7, 7, 7]
    assert all(row == published[row.claim.dim, row.law] for row in alone)
    # A replay that begins with n = 2 gives something else: the numbers would show it.
    generator = np.random.default_rng(123456)
    claim = Claim(dim=2, clip_norm=10.0)
    begun_at_2 = simulation._violations(claim, UNIFORM, pairs=10_000, generator=generator, confidence=0.95)
    assert begun_at_2.share.value != published[2, UNIFORM].share.value


def test_the_order_of_the_draws_matters(published, monkeypatch) -> None:
    monkeypatch.setattr(simulation, "PUBLISHED_LAWS", (PAPER, UNIFORM, TIGHT))
    swapped = {(row.claim.dim, row.law): row.share.value for row in replay(range(1, 9))}
    assert any(swapped[dim, UNIFORM] != published[dim, UNIFORM].share.value for dim in (2, 3, 4, 8))


@pytest.mark.slow
def test_the_whole_replay() -> None:
    share = {(row.claim.dim, row.law): 100 * row.share.value for row in replay()}
    assert len(share) == 3 * 255
    for dim in (64, 128):
        assert (share[dim, UNIFORM], share[dim, PAPER], share[dim, TIGHT]) == (100, 100, 0)
    assert [round(share[dim, TIGHT], 6) for dim in (160, 192, 224)] == [3.95, 92.24, 100]


@pytest.mark.slow  # test_all_pairs_of_few_vectors clips in each norm
def test_after_l1_clipping_no_pair_violates() -> None:
    assert all(row.share.value == 0 and not row.claim.refuted for row in replay(range(1, 25), clipped=Norm.L1))
    for dim in (1, 3, 64, 300):
        assert simulate(Claim(dim=dim, clipped=Norm.L1), Normal(50.0), pairs=3000).share.value == 0


def test_progress_of_the_replay_rises_to_its_end() -> None:
    seen: list[tuple[int, int]] = []
    replay([2, 5], on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 15), (3, 15), (6, 15), (10, 15), (15, 15)]


def too_far(found: float, percent: float, pairs: int) -> bool:
    """Whether a share cannot be that of the table: beyond 4.5 standard errors of both, and its rounding."""
    p = min(max(percent / 100, 5e-5), 1 - 5e-5)
    error = 4.5 * math.sqrt(p * (1 - p) * (1 / 200_000 + 1 / pairs))
    return abs(found - percent / 100) > error + 5e-5


@pytest.mark.slow  # the replay of the authors' numbers stays
@pytest.mark.parametrize("clip_norm", [1.0, 10.0])
def test_fresh_estimates_agree_with_the_table(clip_norm) -> None:
    pairs = 20_000
    for dim, row in ESTIMATES.items():
        for law, percent in zip((UNIFORM, PAPER, LITERAL), row, strict=True):
            found = simulate(Claim(dim=dim, clip_norm=clip_norm), law, pairs=pairs, seed=5).share
            assert not too_far(found.value, percent, pairs), (dim, law)
            assert found.low <= found.value <= found.high
            assert found.high - found.low < 0.015


class HalfUniform(Uniform):
    """Coordinates in (0, C): a wrong reading of "uniform within (-C, C)"."""

    def draw(self, rows, claim, *, generator):
        return generator.uniform(0.0, claim.clip_norm, (rows, claim.dim))


@pytest.mark.parametrize(
    ("wrong", "laws"),
    [
        ({"clipped": None}, (UNIFORM, PAPER)),
        ({"clipped": Norm.L1}, (UNIFORM, PAPER)),
        ({"measured": Norm.L2}, (UNIFORM, PAPER)),
        ({"multiple": 2 * math.sqrt(2)}, (UNIFORM, PAPER)),
        ({}, (UNIFORM, TIGHT)),
        ({}, (UNIFORM, LITERAL)),
        ({}, (HalfUniform(), PAPER)),
    ],
)
def test_a_wrong_reading_disagrees_with_the_table(wrong, laws) -> None:
    pairs = 20_000
    disagreements = [
        too_far(simulate(Claim(dim=dim, **wrong), law, pairs=pairs).share.value, percent, pairs)
        for dim in (3, 20)
        for law, percent in zip(laws, ESTIMATES[dim][:2], strict=True)
    ]
    assert any(disagreements)


def test_simulations_repeat_and_seeds_differ() -> None:
    claim = Claim(dim=18)
    first = simulate(claim, PAPER, pairs=5000, seed=1)
    assert first == simulate(claim, PAPER, pairs=5000, seed=1)
    assert first != simulate(claim, PAPER, pairs=5000, seed=2)


def test_memory_does_not_grow_with_the_pairs() -> None:
    tracemalloc.start()
    simulate(Claim(dim=512), PAPER, pairs=5000)  # 40 MB of vectors
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Claim(dim=0),
        lambda: Claim(dim=2, clip_norm=0.0),
        lambda: Claim(dim=2, multiple=math.nan),
        lambda: Claim(dim=2).true_epsilon(0.0),
        lambda: Normal(0.0),
        lambda: simulate(Claim(dim=2), UNIFORM, pairs=0),
        lambda: simulate(Claim(dim=2), UNIFORM, pairs=10**9 + 1),
        lambda: simulate(Claim(dim=2), UNIFORM, seed=-1),
        lambda: simulate(Claim(dim=2), UNIFORM, pairs=10, confidence=1.0),
        lambda: replay([]),
        lambda: replay([256]),
        lambda: replay([0]),
        lambda: counterexample(0.0),
        lambda: true_gaussian_epsilon(Claim(dim=2), 1.0, delta=1e-5),
        lambda: true_gaussian_epsilon(Claim(dim=2, measured=Norm.L2), 1.0, delta=0.0),
        lambda: classical_limit(1.0),
        lambda: variance_table(variances=[0.0]),
    ],
)
def test_settings_out_of_range_are_refused(wrong) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        wrong()


# ------------------------------------------------------------------ the formula


def worst_pair(claim: Claim) -> np.ndarray:
    """Two vectors in the clipping ball at the largest distance; without clipping, beyond the claim."""
    point = np.zeros(claim.dim)
    point[0] = claim.claimed if claim.clipped is None else claim.clip_norm
    if (claim.clipped, claim.measured) == (Norm.L2, Norm.L1):
        point = np.full(claim.dim, claim.clip_norm / math.sqrt(claim.dim))  # Habernal 2021, eq. 36
    return np.stack([point, -point])


@pytest.mark.parametrize("dim", [1, 2, 5, 64, 1024])
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("clipped", "measured"), list(itertools.product(Norm, Norm)))
def test_the_worst_pair_attains_the_sensitivity_and_nothing_exceeds_it(dim, clip_norm, clipped, measured) -> None:
    claim = Claim(dim=dim, clip_norm=clip_norm, clipped=clipped, measured=measured)
    order = 1 if measured is Norm.L1 else 2
    first, second = clipping.clip(worst_pair(claim), clip_norm, norm=clipped)
    assert np.linalg.norm(first - second, order) == pytest.approx(claim.sensitivity, rel=1e-9)
    points = clipping.clip(np.random.default_rng(3).standard_cauchy((400, dim)), clip_norm, norm=clipped)
    assert (np.linalg.norm(points[::2] - points[1::2], order, axis=1) <= claim.sensitivity).all()
    expected = math.sqrt(dim) if (clipped, measured) == (Norm.L2, Norm.L1) else 1
    assert claim.factor == pytest.approx(expected, rel=1e-9)
    assert claim.refuted == (expected > 1)
    assert claim.true_epsilon(7.0) == pytest.approx(7 * expected, rel=1e-9)
    assert claim.true_epsilon(7.0) >= 7 * expected * (1 - 1e-15)


def test_without_clipping_there_is_no_bound() -> None:
    claim = Claim(dim=3, clipped=None)
    assert math.isinf(claim.sensitivity)
    assert claim.refuted
    assert math.isinf(claim.true_epsilon(0.1))
    first, second = worst_pair(claim)
    assert np.abs(first - second).sum() > claim.claimed
    assert math.isinf(true_gaussian_epsilon(Claim(dim=3, clipped=None, measured=Norm.L2), 1.0, delta=1e-5))


def test_what_is_claimed_decides() -> None:
    assert not Claim(dim=256, multiple=32.0).refuted  # 2 sqrt(256)
    assert Claim(dim=256, multiple=32.0 * (1 - 1e-9)).refuted
    assert not Claim(dim=256, measured=Norm.L2).refuted
    assert Claim(dim=1, measured=Norm.L2, multiple=1.0).factor == pytest.approx(2)


def test_habernal_says_factor_6_to_32() -> None:
    assert Claim(dim=32).factor == pytest.approx(5.65685, abs=1e-5)
    assert Claim(dim=1024).factor == pytest.approx(32)


@pytest.mark.parametrize("clip_norm", [1.0, 7.5])
def test_the_counterexample_in_two_dimensions(clip_norm) -> None:
    pair, claim = counterexample(clip_norm), Claim(dim=2, clip_norm=clip_norm)
    assert np.array_equal(clipping.clip(pair, clip_norm), pair)
    distance = np.abs(pair[0] - pair[1]).sum()
    assert distance == pytest.approx(8 * clip_norm / 3)
    assert distance > claim.claimed
    # The densities themselves, where the output is the first vector.
    epsilon = 5.0
    scale = claim.claimed / epsilon
    logs = [-np.abs(pair[0] - center).sum() / scale - 2 * math.log(2 * scale) for center in pair]
    assert logs[0] - logs[1] == pytest.approx(4 / 3 * epsilon)
    assert logs[0] - logs[1] < claim.true_epsilon(epsilon)  # it is not the worst pair


# ------------------------------------------------------------------ what variances mean


# C = 1 (derivations, "Variances of ADePT"): scale, claimed epsilon, true epsilon for n = 32..1024, analytic, classical,
# rho.
VARIANCES = {
    0.25: (".354", "5.66", ("32.0", "45.3", "64.0", "90.5", "128", "181"), "24.38", "19.38", "8.00"),
    0.5: (".500", "4.00", ("22.6", "32.0", "45.3", "64.0", "90.5", "128"), "15.46", "13.70", "4.00"),
    0.6: (".548", "3.65", ("20.7", "29.2", "41.3", "58.4", "82.6", "117"), "13.76", "12.51", "3.33"),
    0.75: (".612", "3.27", ("18.5", "26.1", "37.0", "52.3", "73.9", "105"), "11.95", "11.19", "2.67"),
    0.85: (".652", "3.07", ("17.4", "24.5", "34.7", "49.1", "69.4", "98.2"), "11.05", "10.51", "2.35"),
    1.0: (".707", "2.83", ("16.0", "22.6", "32.0", "45.3", "64.0", "90.5"), "10.00", "9.69", "2.00"),
}


def printed(value: float, like: str) -> str:
    """The value with as many decimals as `like`."""
    return f"{value:.{len(like.partition('.')[2])}f}".removeprefix("0" if like.startswith(".") else "")


def test_the_table_of_variances() -> None:
    for row, (variance, oracle) in zip(variance_table([1.0]), VARIANCES.items(), strict=True):
        scale, claimed, true, analytic, classical, rho = oracle
        assert (row.clip_norm, row.variance, tuple(row.true_epsilon)) == (1.0, variance, (32, 64, 128, 256, 512, 1024))
        assert printed(row.scale, scale) == scale
        assert printed(row.claimed_epsilon, claimed) == claimed
        assert tuple(map(printed, row.true_epsilon.values(), true)) == true
        assert printed(row.gaussian_epsilon, analytic) == analytic
        assert printed(row.classical_gaussian_epsilon, classical) == classical
        assert printed(row.rho, rho) == rho
    large = variance_table([5.0])
    assert tuple(map(printed, [row.gaussian_epsilon for row in large], FIVE)) == FIVE
    assert variance_table() == (*variance_table([1.0]), *large)


FIVE = ("284", "159", "138", "115", "104", "91.8")


def exact_gaussian_epsilon(variance: float, shift: float, delta: float, start: float) -> mpmath.mpf:
    """Balle and Wang's curve solved in 30 digits."""
    with mpmath.workdps(30):
        mu = mpmath.mpf(shift) / mpmath.sqrt(mpmath.mpf(variance))

        def excess(epsilon):
            return (
                mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu) - delta
            )

        return mpmath.findroot(excess, start)


@pytest.mark.parametrize("clip_norm", [1.0, 5.0])
def test_the_gaussian_column_in_30_digits(clip_norm) -> None:
    for row in variance_table([clip_norm]):
        exact = exact_gaussian_epsilon(row.variance, 2 * clip_norm, 1e-5, row.gaussian_epsilon)
        assert exact <= row.gaussian_epsilon <= exact * (1 + 1e-9)


def test_epsilon_scales_as_c_for_laplace_noise_and_clipping_in_l1_needs_no_root() -> None:
    small, large = variance_table([1.0]), variance_table([5.0])
    for one, five in zip(small, large, strict=True):
        assert [*five.true_epsilon.values()] == pytest.approx([5 * each for each in one.true_epsilon.values()])
    for row in variance_table(clipped=Norm.L1):
        assert [*row.true_epsilon.values()] == pytest.approx([row.claimed_epsilon] * 6)
    for row in variance_table(clipped=None):
        assert all(map(math.isinf, (*row.true_epsilon.values(), row.gaussian_epsilon, row.rho)))


def test_where_the_classical_formula_fails() -> None:
    # derivations, "Classical Gaussian"
    for delta, limit in ((1e-3, 7.46), (1e-5, 8.42), (1e-6, 8.78), (1e-9, 9.62)):
        found = classical_limit(delta)
        assert round(found, 2) == limit
        sigma = classical_sigma(1.0, delta, sensitivity=1.0)
        excess = [gaussian_delta(sigma / epsilon, epsilon) > delta for epsilon in np.linspace(0.1, 60, 600)]
        assert excess == sorted(excess)  # its sign changes once
        assert excess.index(True) == np.searchsorted(np.linspace(0.1, 60, 600), found)
    euclidean = Claim(dim=256, measured=Norm.L2)
    assert round(true_gaussian_epsilon(euclidean, 100.0, delta=1e-5)) == 300
    assert true_gaussian_epsilon(euclidean, 8.41, delta=1e-5) < 8.41
    assert true_gaussian_epsilon(euclidean, 8.43, delta=1e-5) > 8.43
    assert claims.classical_epsilon(classical_sigma(3.0, 1e-5, sensitivity=2.0), 1e-5, sensitivity=2.0) == 3.0
    # nominal 50 has delta .586 at epsilon 50
    assert gaussian_delta(classical_sigma(50.0, 1e-5, sensitivity=1.0), 50.0) == pytest.approx(0.586, abs=5e-4)


# ------------------------------------------------------------------ real vectors


def naive_share(latents, claim) -> float:
    points = latents if claim.clipped is None else clipping.clip(latents, claim.clip_norm, norm=claim.clipped)
    order = 1 if claim.measured is Norm.L1 else 2
    hits = [np.linalg.norm(a - b, order) > claim.claimed for a, b in itertools.combinations(points, 2)]
    return sum(hits) / len(hits)


@pytest.mark.parametrize("clipped", [Norm.L1, Norm.L2, None])
@pytest.mark.parametrize("measured", list(Norm))
def test_all_pairs_of_few_vectors(clipped, measured) -> None:
    latents = np.random.default_rng(8).normal(0, 0.35, (60, 6))
    claim = Claim(dim=6, clipped=clipped, measured=measured, multiple=1.3)
    share = violating_pairs(latents, claim)
    assert share.value == share.low == share.high == naive_share(latents, claim)
    if clipped is not Norm.L1:
        assert 0 < share.value < 1
    assert violating_pairs(latents.astype(np.float32), claim).value == pytest.approx(share.value, abs=0.01)


def test_blocks_count_each_pair_once(monkeypatch) -> None:
    latents = np.random.default_rng(8).normal(0, 0.35, (61, 6))
    claim = Claim(dim=6, multiple=1.3)
    whole = violating_pairs(latents, claim)
    monkeypatch.setattr(simulation, "NUMBERS_AT_ONCE", 61 * 7)
    assert violating_pairs(latents, claim) == whole
    monkeypatch.setattr(simulation, "NUMBERS_AT_ONCE", 1)
    assert violating_pairs(latents, claim) == whole


def test_many_vectors_are_sampled() -> None:
    latents = np.random.default_rng(8).normal(0, 0.35, (300, 6))
    claim = Claim(dim=6, multiple=1.3)
    exact = violating_pairs(latents, claim, max_pairs=300 * 299 // 2)
    misses = 0
    for seed in range(40):
        drawn = violating_pairs(latents, claim, max_pairs=4000, seed=seed)
        assert drawn.low < drawn.value < drawn.high
        misses += not drawn.low <= exact.value <= drawn.high
    assert exact.low == exact.high
    assert misses <= 6  # 2 of 40 are expected
    assert violating_pairs(latents, claim, max_pairs=4000) == violating_pairs(latents, claim, max_pairs=4000, seed=0)


def test_no_vector_is_paired_with_itself() -> None:
    # Three vectors, all pairs violate: a pair of a vector with itself would not.
    latents = np.eye(3) * 50
    assert violating_pairs(latents, Claim(dim=3, clipped=None), max_pairs=2).value == 1
    assert violating_pairs(latents, Claim(dim=3, clipped=None)).value == 1


def test_a_distance_equal_to_the_claim_is_no_violation() -> None:
    latents = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert violating_pairs(latents, Claim(dim=2, clipped=None)).value == 0
    assert violating_pairs(latents, Claim(dim=2, clipped=None, multiple=1.999)).value == 1
    assert violating_pairs(latents * 9, Claim(dim=2)).value == 0
    worst = worst_pair(Claim(dim=2))
    assert violating_pairs(worst, Claim(dim=2)).value == 1
    assert violating_pairs(worst, Claim(dim=2, multiple=2 * math.sqrt(2))).value == 0


def test_vectors_that_are_not_finite_count_as_zero() -> None:
    latents = np.array([[math.nan, 1.0], [math.inf, 0.0], [0.7, 0.7]])
    zeroed = np.array([[0.0, 0.0], [0.0, 0.0], [0.7, 0.7]])
    for clipped in (Norm.L2, Norm.L1, None):
        claim = Claim(dim=2, clipped=clipped, multiple=0.9)
        assert violating_pairs(latents, claim) == violating_pairs(zeroed, claim)
    assert violating_pairs(latents, Claim(dim=2, multiple=0.9)).value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "latents",
    [np.zeros(4), np.zeros((1, 4)), np.zeros((5, 3)), np.zeros((5, 0)), np.zeros((2, 2, 4)), np.zeros((5, 4), int)],
)
def test_latents_of_another_shape_or_type_are_refused(latents) -> None:
    with pytest.raises(ConfigError, match="Expected latents"):
        violating_pairs(latents, Claim(dim=4))


def test_bad_numbers_of_pairs_are_refused() -> None:
    for wrong in ({"max_pairs": 0}, {"max_pairs": 2 * 10**9}, {"seed": -1}):
        with pytest.raises(ConfigError, match="Expected"):
            violating_pairs(np.zeros((3, 4)), Claim(dim=4), **wrong)


# ------------------------------------------------------------------ the command


def command(**options) -> int:
    defaults = {
        "clip": "l2",
        "norm": "l1",
        "clip_norm": None,
        "claimed": 2.0,
        "dims": None,
        "pairs": None,
        "law_sd": None,
        "seed": None,
        "epsilon": None,
        "delta": None,
        "latents": None,
        "variances": False,
        "figure": None,
        "as_json": False,
    }
    return spread(sensitivity.sensitivity)(**(defaults | options))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"dims": "1:4"}, 1),
        ({"dims": "1"}, 0),
        ({"dims": "2:4", "clip": "l1"}, 0),
        ({"dims": "2:4", "norm": "l2"}, 0),
        ({"dims": "2", "clip": "none"}, 1),
        ({"dims": "2", "clip": "none", "norm": "l2"}, 1),
        ({"dims": "4", "claimed": 4.0}, 0),
        ({"dims": "4", "claimed": 3.999, "pairs": 10}, 1),  # no pair of ten shows it, the formula does
        ({"variances": True}, 1),
        ({"variances": True, "clip": "l1"}, 0),
        ({"variances": True, "dims": "1"}, 0),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_exit_code_says_whether_the_claim_is_refuted(options, code, as_json, capsys) -> None:
    assert command(**options, as_json=as_json) == code
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["refuted"] is bool(code)
    else:
        said = "The claimed sensitivity is refuted" if code else "Nothing refutes the claimed sensitivity"
        assert out.startswith(said)


def test_the_command_prints_the_authors_numbers(capsys) -> None:
    assert command(dims="1:16", epsilon=5.0, details=True) == 1
    shown = capsys.readouterr()
    assert "13.38 [12.71, 14.07]" in shown.out
    assert "27.65 [26.77, 28.54]" in shown.out
    assert "laplace for 5" in shown.out
    assert "a run meant for epsilon = 5 had 6.667" in shown.out
    assert "Replaying" in shown.err
    assert "Replaying" not in shown.out


def test_the_json_of_a_simulation(capsys) -> None:
    command(dims="2,16", epsilon=5.0, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data["claim"] == {"clip": "l2", "norm": "l1", "clip_norm": 10.0, "claimed": 20.0}
    assert (data["recipe"], data["pairs"], data["seed"]) == ("published", 10_000, 123456)
    first, second = data["rows"]
    assert (first["dim"], second["dim"]) == (2, 16)
    assert first["violating"]["uniform in (-C, C)"]["value"] == 0.1338
    assert second["factor"] == pytest.approx(4)
    assert second["true_epsilon"]["laplace"] == pytest.approx(20)
    command(dims="2", clip="none", epsilon=5.0, as_json=True)
    assert json.loads(capsys.readouterr().out)["rows"][0]["true_epsilon"] == {"laplace": "inf"}


def test_any_setting_of_its_own_makes_a_fresh_simulation(capsys) -> None:
    for options in ({"pairs": 50}, {"law_sd": 0.3}, {"seed": 1}, {"clip_norm": 1.0}):
        command(dims="2", **options, as_json=True)
        shown = capsys.readouterr()
        data = json.loads(shown.out)
        assert data["recipe"] == "fresh"
        assert "fresh" in shown.err
        laws = list(data["rows"][0]["violating"])
        assert laws[1:] == (["normal, sd 0.3 C"] if "law_sd" in options else ["normal, sd 0.1 C", "normal, sd 0.01 C"])
    command(dims="300", pairs=10)
    command(dims="2", clip_norm=10.0)
    assert "Replaying" in capsys.readouterr().err


def test_gaussian_noise_by_the_classical_formula(capsys) -> None:
    assert command(dims="8", norm="l2", pairs=10, epsilon=100.0, as_json=True) == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["true_epsilon"]["l2_laplace"] == pytest.approx(100)
    assert row["true_epsilon"]["classical_gaussian"] == pytest.approx(300.14, abs=0.01)
    command(dims="8", norm="l2", pairs=10, epsilon=100.0)
    assert "wrong above epsilon = 8.42" in capsys.readouterr().out
    command(dims="8", norm="l2", pairs=10, epsilon=5.0)
    assert "wrong above" not in capsys.readouterr().out


def test_latents_from_a_file(tmp_path, capsys) -> None:
    path = tmp_path / "latents.npy"
    latents = np.random.default_rng(2).normal(size=(50, 16))
    np.save(path, latents)
    assert command(latents=path, clip_norm=2.0, as_json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["latents"], data["pairs"], data["all_pairs"], data["dim"]) == (50, 1225, True, 16)
    assert data["violating"]["value"] == naive_share(latents, Claim(dim=16, clip_norm=2.0))
    assert command(latents=path, clip_norm=2.0, clip="l1") == 0
    assert "all 1,225 pairs" in capsys.readouterr().out
    assert command(latents=path, clip_norm=2.0, pairs=200) == 1
    assert "200 of 1,225 pairs" in capsys.readouterr().out
    np.save(path, latents / 1e3)
    assert command(latents=path, clip_norm=2.0) == 1  # these pairs keep the claim, which is false all the same
    assert "0.00\n" in capsys.readouterr().out
    latents[3] = math.nan
    np.save(path, latents)
    command(latents=path, clip_norm=2.0)
    assert "1 of 50 latents are not finite" in capsys.readouterr().err


def test_files_that_are_no_arrays_of_floats_are_refused(tmp_path) -> None:
    good = tmp_path / "good.npy"
    np.save(good, np.zeros((4, 3)))
    raw = good.read_bytes()
    files = {
        "text.npy": b"my private text",
        "empty.npy": b"",
        "short.npy": raw[:-9],
        "header.npy": raw.replace(b"'<f8'", b"'<qz'"),
        "quote.npy": raw.replace(b"(4, 3)", b"(4,'3)"),
        "brace.npy": raw.replace(b"}", b" "),
        "huge.npy": raw.replace(b"(4, 3), }       ", b"(9999999999,3),}"),
        "endless.npy": raw.replace(b"(4, 3), }" + 20 * b" ", b"(9999999999999999999999, 3)}".ljust(29)),
        "boolean.npy": raw.replace(b"(4, 3), }   ", b"(True, 3), }"),
    }
    np.save(tmp_path / "objects.npy", np.array([None, {}]), allow_pickle=True)
    assert all(raw != data for data in files.values())
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in (*files, "objects.npy"):
        with pytest.raises(ConfigError, match=r"to be a \.npy file of floats") as caught:
            command(latents=tmp_path / name, clip_norm=1.0)
        assert "private" not in str(caught.value)
    with pytest.raises(ConfigError, match="Cannot read"):
        command(latents=tmp_path / "absent.npy", clip_norm=1.0)
    for array in (np.zeros((4, 3), int), np.zeros(4), np.zeros((4, 0)), np.float64(1.0), np.array([["a"], ["b"]])):
        np.save(good, array)
        with pytest.raises(ConfigError, match="Expected latents of"):
            command(latents=good, clip_norm=1.0)


def test_the_variances_on_paper(capsys) -> None:
    command(variances=True, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert len(data["rows"]) == 12
    assert data["rows"][0]["true_epsilon"]["1024"] == pytest.approx(181.02, abs=0.01)
    command(variances=True, clip_norm=5.0, dims="256", as_json=True)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["clip_norm"] for row in rows] == [5.0] * 6
    command(variances=True, clip="none", as_json=True)
    assert json.loads(capsys.readouterr().out)["rows"][0]["gaussian_epsilon"] == "inf"
    command(variances=True)
    assert "284.39" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        {"clip": "l3"},
        {"norm": "none"},
        {"dims": ""},
        {"dims": "3:2"},
        {"dims": "0"},
        {"dims": "1:2:3"},
        {"dims": "-1"},
        {"dims": "1,,2"},
        {"dims": "²"},
        {"dims": "9" * 5000},
        {"dims": "1:99999999"},
        {"epsilon": 0.0},
        {"pairs": 0},
        {"law_sd": -1.0},
        {"claimed": 0.0},
        {"clip_norm": math.inf},
        {"variances": True, "pairs": 5},
        {"variances": True, "norm": "l2"},
        {"variances": True, "claimed": 3.0},
        {"variances": True, "delta": 0.0},
        {"latents": "x.npy"},
        {"latents": "x.npy", "clip_norm": 1.0, "dims": "2"},
    ],
)
def test_options_that_cannot_be_used(options) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        command(**options)


def test_lists_of_dims() -> None:
    assert sensitivity._dims("1:3, 2,64") == (1, 2, 3, 64)


def test_a_figure_of_the_simulation(tmp_path, capsys) -> None:
    path = tmp_path / "violations.svg"
    assert command(dims="1:6", figure=path) == 1
    assert path.read_text("utf-8").startswith("<?xml")
    shown = capsys.readouterr()
    assert str(path) in shown.err
    assert str(path) not in shown.out


def test_of_many_dims_a_selection_is_shown_and_all_are_in_the_json(capsys) -> None:
    for details, wanted in ((False, [1, 2, 4, 8, 16, 30]), (True, [1, 2, 3, 4, 8, 10, 12, 16, 20, 24, 30])):
        command(dims="1:30", pairs=20, details=details)
        lines = capsys.readouterr().out.splitlines()
        shown = [int(line.split()[0]) for line in lines if line.split() and line.split()[0].isdecimal()]
        assert shown == wanted
    command(dims="1:30", pairs=20, as_json=True)
    assert [row["dim"] for row in json.loads(capsys.readouterr().out)["rows"]] == list(range(1, 31))
