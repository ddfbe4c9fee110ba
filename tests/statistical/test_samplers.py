"""Goodness of fit: every sampler passes at its own scale and fails at 2/3 and 3/2 of it.

Each test draws with a fixed seed (so that it cannot flicker) and compares by a chi-square or Kolmogorov-Smirnov
test at a false-alarm rate of 1e-4. The seeds were not chosen: a wrong scale fails with any.
"""

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dptext.mechanism import VectorNoise
from dptext.sampling import caps, clipping, discrete, float_noise, grid_noise, privunit, randomness
from dptext.sampling.randomness import Randomness, seeded
from dptext.types import Floats, Integers, UInt64s
from dptext_lab.adept import published_noise as published

FALSE_ALARM = 1e-4
N = ALL = 60_000


@pytest.fixture(autouse=True, params=[20_000, pytest.param(ALL, marks=pytest.mark.slow)])
def draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the draws sees a wrong scale; `make test-all` takes them all, too."""
    monkeypatch.setattr(f"{__name__}.N", request.param)


def fits_discrete(draws: Integers, log_weight: Callable[[Floats], Floats]) -> bool:
    """Chi-square of integers against weights e^log_weight(x), tails pooled."""
    reach = int(np.abs(draws).max()) * 2 + 10
    support = np.arange(-reach, reach + 1)
    weights = np.exp(log_weight(support.astype(float)))
    expected = weights / weights.sum() * len(draws)
    observed = np.bincount(draws + reach, minlength=len(support))
    edges = np.flatnonzero(expected >= 20)
    low, high = edges[0], edges[-1]
    pooled = lambda v: np.concatenate([[v[: low + 1].sum()], v[low + 1 : high], [v[high:].sum()]])  # noqa: E731
    return stats.chisquare(pooled(observed), pooled(expected)).pvalue > FALSE_ALARM


def fits_continuous(draws: Floats, cdf: Callable[[Floats], Floats]) -> bool:
    return stats.kstest(draws, cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [1, 3, 40])
def test_discrete_laplace(scale: int) -> None:
    draws = discrete.discrete_laplace(scale, N, seeded(1))
    assert fits_discrete(draws, lambda x: -np.abs(x) / scale)
    for wrong in (2 / 3, 3 / 2):
        assert not fits_discrete(draws, lambda x, wrong=wrong: -np.abs(x) / (scale * wrong))


@pytest.mark.parametrize("sigma", [1, 2, 30])
def test_discrete_gaussian(sigma: int) -> None:
    draws = discrete.discrete_gaussian(sigma, N, seeded(2))
    assert fits_discrete(draws, lambda x: -(x**2) / (2 * sigma**2))
    for wrong in (2 / 3, 3 / 2):
        assert not fits_discrete(draws, lambda x, wrong=wrong: -(x**2) / (2 * (sigma * wrong) ** 2))


@pytest.mark.parametrize("scale", [1 << 20, (1 << 39) + 7])
def test_discrete_laplace_on_fine_grids(scale: int) -> None:
    draws = discrete.discrete_laplace(scale, N, seeded(3)) / scale
    assert fits_continuous(draws, stats.laplace.cdf)
    assert not fits_continuous(draws * 1.5, stats.laplace.cdf)
    assert not fits_continuous(draws / 1.5, stats.laplace.cdf)


def test_discrete_gaussian_on_a_fine_grid() -> None:
    draws = discrete.discrete_gaussian(1 << 20, N, seeded(4)) / (1 << 20)
    assert fits_continuous(draws, stats.norm.cdf)
    assert not fits_continuous(draws * 1.5, stats.norm.cdf)
    assert not fits_continuous(draws / 1.5, stats.norm.cdf)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 64, 1000])
def test_uniform_below(bound: int) -> None:
    draws = discrete.uniform_below(bound, N, seeded(5))
    assert draws.max() < bound
    counts = np.bincount(draws.astype(np.int64), minlength=bound)
    assert bound == 1 or stats.chisquare(counts).pvalue > FALSE_ALARM


def test_uniform_below_a_bound_that_must_reject() -> None:
    bound = 3 << 61  # a quarter of all 64-bit words is refused
    draws = discrete.uniform_below(bound, N, seeded(6))
    assert int(draws.max()) < bound
    assert fits_continuous(draws.astype(float) / bound, stats.uniform.cdf)
    assert not fits_continuous((draws % np.uint64(1 << 62)).astype(float) / bound, stats.uniform.cdf)


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 5), (1, 3), (1, 1), (999, 1000)])
def test_bernoulli_exp(numerator: int, denominator: int) -> None:
    hits = discrete.bernoulli_exp(np.full(N, numerator, np.uint64), denominator, seeded(7)).sum()
    assert stats.binomtest(int(hits), N, math.exp(-numerator / denominator)).pvalue > FALSE_ALARM
    for factor in (2 / 3, 3 / 2) if numerator else ():
        assert stats.binomtest(int(hits), N, math.exp(-factor * numerator / denominator)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("later", [7_592, 8_191, 8_192, 20_000])
def test_numbers_of_a_stream_are_those_of_a_buffer_that_was_computed_at_once(later: int) -> None:
    def drawn(*sizes: int) -> list[int]:
        source = seeded(5)
        return [value for size in (*sizes, later, 100) for value in source.uint64(size).tolist()]

    at_once = drawn(600)
    assert len({*at_once}) == 700 + later
    for sizes in ((1, 599), (300, 300), (512, 88), (512, 0, 1, 87)):
        assert drawn(*sizes) == at_once
    if later >= 8_192:  # more than a buffer, which goes on behind it
        few = seeded(5)
        first, many, rest = (few.uint64(size).tolist() for size in (100, later, 500))
        assert first + rest + many == at_once[:-100]


def test_the_short_way_of_one_draws_what_the_long_way_draws() -> None:
    for seed in range(20):
        one, other = seeded(seed), seeded(seed)
        short = discrete._bernoulli_exp_minus_one(97, one)
        assert (short == discrete.bernoulli_exp(np.ones(97, np.uint64), 1, other)).all()
        assert one.uint64(1) == other.uint64(1)


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0, 2.75])
def test_bernoulli_exp_minus(exponent: float) -> None:
    hits = discrete.bernoulli_exp_minus(exponent, N, seeded(8)).sum()
    assert stats.binomtest(int(hits), N, math.exp(-exponent)).pvalue > FALSE_ALARM
    for factor in (2 / 3, 3 / 2) if exponent else ():
        assert stats.binomtest(int(hits), N, math.exp(-factor * exponent)).pvalue < FALSE_ALARM


def test_bernoulli_of_a_vanishing_probability_is_false_not_an_error() -> None:
    assert not discrete.bernoulli_exp_minus(900.0, 1000, seeded(9)).any()


def test_weighted_choice_and_its_wide_form() -> None:
    weights = np.array([[1, 0, 3, 6]], np.uint64).repeat(N, 0)
    wide = np.zeros((3, N, 4), np.uint64)
    wide[2] = weights << np.uint64(36)
    for draws in (discrete.weighted_choice(weights, seeded(10)), discrete.wide_choice(wide, seeded(11))):
        counts = np.bincount(draws, minlength=4)
        assert counts[1] == 0
        assert stats.chisquare(counts[[0, 2, 3]], np.array([1, 3, 6]) * N / 10).pvalue > FALSE_ALARM
        assert stats.chisquare(counts[[0, 2, 3]], np.array([2, 3, 5]) * N / 10).pvalue < FALSE_ALARM


def test_wide_choice_minds_its_low_limbs() -> None:
    """Two weights 2^80 and 2^80 + 2^79: the difference is in the second limb's carries."""
    wide = np.zeros((3, N, 2), np.uint64)
    wide[2] = [1, 1]
    wide[1, :, 1] = 1 << 39
    counts = np.bincount(discrete.wide_choice(wide, seeded(12)), minlength=2)
    assert stats.chisquare(counts, np.array([2, 3]) * N / 5).pvalue > FALSE_ALARM


def test_uniform_open_reaches_its_tail() -> None:
    class Low(Randomness):
        """A stream whose first words are tiny: one in 2^64 draws looks like this."""

        def __init__(self) -> None:
            super().__init__(None)
            self.words = iter([0, 5, 1 << 63, 0, 7, 0, 9999])

        def uint64(self, size: int) -> UInt64s:
            return np.array([next(self.words) for _ in range(size)], np.uint64)

    values = discrete.uniform_open(3, Low())
    assert values[2] == 0.5
    assert 0 < values[0] < 2.0**-120  # words 0, 0, 0, then 9999: refined until it has digits
    assert values[1] == pytest.approx((5 + 7 / 2**64) * 2.0**-64, rel=1e-12)


@pytest.mark.slow  # test_discrete_laplace and test_discrete_gaussian hold the same samplers to their formulas
def test_opendp_agrees() -> None:
    """opendp's samplers are the oracle: two-sample tests at the same scale, and at a wrong one."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=30.0)([0] * 20_000))
    ours = discrete.discrete_laplace(30, 20_000, seeded(13))
    assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM
    assert stats.ks_2samp(discrete.discrete_laplace(45, 20_000, seeded(13)), theirs).pvalue < FALSE_ALARM
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=30.0)([0] * 20_000))
    ours = discrete.discrete_gaussian(30, 20_000, seeded(14))
    assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM
    assert stats.ks_2samp(discrete.discrete_gaussian(20, 20_000, seeded(14)), theirs).pvalue < FALSE_ALARM


# ------------------------------------------------------------------------------- vectors


def test_directions_are_uniform() -> None:
    points = float_noise.directions(N, 5, seeded(15))
    # a coordinate t of a uniform point of the sphere in R^5 has (t + 1) / 2 ~ Beta(2, 2)
    for j in range(5):
        assert fits_continuous((points[:, j] + 1) / 2, stats.beta(2, 2).cdf)
    assert not fits_continuous((points[:, 0] + 1) / 2, stats.beta(3, 3).cdf)


@pytest.mark.parametrize("dim", [1, 2, 50])
def test_radial_laplace_radius_is_gamma(dim: int) -> None:
    radius = np.linalg.norm(float_noise.radial_laplace(N, dim, 0.25, seeded(16)), axis=1)
    assert fits_continuous(radius, stats.gamma(dim, scale=0.25).cdf)
    assert not fits_continuous(radius * 1.5, stats.gamma(dim, scale=0.25).cdf)
    assert not fits_continuous(radius / 1.5, stats.gamma(dim, scale=0.25).cdf)


def test_l2_laplace_has_its_radius() -> None:
    mechanism = float_noise.L2Laplace(epsilon=3.0, dim=4, clip_norm=1.0)
    x = np.tile([0.5, 0.0, -0.5, 0.1], (N // 2, 1))
    radius = np.linalg.norm(mechanism.release(x, seeded(20)) - x, axis=1)
    assert fits_continuous(radius, stats.gamma(4, scale=2 / 3).cdf)
    assert not fits_continuous(radius * 1.5, stats.gamma(4, scale=2 / 3).cdf)
    assert not fits_continuous(radius / 1.5, stats.gamma(4, scale=2 / 3).cdf)


def test_metric_noise_has_its_radius() -> None:
    radius = np.linalg.norm(float_noise.MetricNoise(6.0, 50, 10.0).draw(N // 4, seeded(21)), axis=1)
    assert fits_continuous(radius, stats.gamma(50, scale=1 / 6).cdf)
    for wrong in (4.0, 9.0):
        assert not fits_continuous(radius, stats.gamma(50, scale=1 / wrong).cdf)


def test_coordinate_laplace_has_its_scale() -> None:
    draws = grid_noise.coordinate_laplace(N // 3, 3, 6.0, seeded(22)).ravel() / math.sqrt(3.0)
    assert fits_continuous(draws, stats.laplace.cdf)
    assert not fits_continuous(draws * 1.5, stats.laplace.cdf)
    assert not fits_continuous(draws / 1.5, stats.laplace.cdf)


def test_grid_laplace_has_its_scale() -> None:
    mechanism = grid_noise.GridLaplace(epsilon=2.0, dim=3, clip_norm=1.0)
    x = np.tile([0.5, 0.0, -0.5], (20_000, 1))
    draws = (mechanism.release(x, seeded(17)) - x) / (2 * math.sqrt(3) / 2.0)
    assert fits_continuous(draws.ravel(), stats.laplace.cdf)
    assert not fits_continuous(draws.ravel() * 1.5, stats.laplace.cdf)
    assert not fits_continuous(draws.ravel() * math.sqrt(3), stats.laplace.cdf)  # the published, wrong sensitivity


def test_grid_gaussian_has_its_scale() -> None:
    mechanism = grid_noise.GridGaussian(rho=2.0, dim=3, clip_norm=1.0)
    x = np.tile([0.5, 0.0, -0.5], (20_000, 1))
    draws = mechanism.release(x, seeded(18)) - x
    assert fits_continuous(draws.ravel(), stats.norm(scale=1.0).cdf)  # 2C / sqrt(2 rho)
    assert not fits_continuous(draws.ravel() * 1.5, stats.norm.cdf)
    assert not fits_continuous(draws.ravel() / 1.5, stats.norm.cdf)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (3, 4.0), (16, 5.0), (64, 40.0)])
def test_privunit_draws_its_density(dim: int, epsilon: float) -> None:
    cap, a = privunit.optimal_cap(dim, epsilon), (dim - 1) / 2
    x = float_noise.directions(N // 2, dim, seeded(18))
    points = caps.around(x, cap, seeded(19))
    assert np.abs(np.linalg.norm(points, axis=1) - 1).max() < 1e-12
    cosine = (points * x).sum(axis=1)
    q = math.exp(cap.log_q)

    def cdf(t: Floats, p: float = cap.p) -> Floats:
        above = stats.beta(a, a).sf((np.asarray(t) + 1) / 2)  # accurate in the small cap
        outside = (1 - np.maximum(above, q)) / (1 - q)
        return (1 - p) * outside + p * (1 - np.minimum(above, q) / q)

    hits = int((cosine > cap.gamma).sum())
    assert fits_continuous(cosine, cdf)
    assert stats.binomtest(hits, len(x), cap.p).pvalue > FALSE_ALARM
    for factor in (2 / 3, 3 / 2):  # the odds of another epsilon
        p = 1 / (1 + math.exp(-(cap.log_odds + (factor - 1) * epsilon)))
        assert stats.binomtest(hits, len(x), p).pvalue < FALSE_ALARM


# ------------------------------------------------------------------------ declared densities

Release = Callable[[Floats, Randomness], Floats]


def fits_density(
    mechanism: VectorNoise,
    release: Release,
    first: Floats,
    second: Floats,
    runs: int | None = None,
) -> bool:
    """Whether the odds of the first latent, given an output, are those of the declared density.

    A fair coin picks the latent of each run; given the outputs the coins are independent with probability
    sigmoid(difference of the log densities). Chi-square over 30 bins of that difference.
    """
    coins = discrete.uniform_below(2, runs or N, seeded(30)) == 1
    released = release(np.where(coins[:, None], first, second), seeded(31))
    rows = np.broadcast_to(first, released.shape), np.broadcast_to(second, released.shape)
    losses = mechanism.log_density(released, rows[0]) - mechanism.log_density(released, rows[1])
    probability = expit(losses)
    statistic, bins = 0.0, 0
    for part in np.array_split(np.argsort(losses, kind="stable"), 30):
        variance = (probability[part] * expit(-losses[part])).sum()
        excess = (coins[part] - probability[part]).sum()
        if variance > 5:
            statistic, bins = statistic + excess**2 / variance, bins + 1
        elif stats.poisson.sf(abs(excess) - 1, variance) < FALSE_ALARM / 30:
            return False
    return bins == 0 or stats.chi2.sf(statistic, bins) > FALSE_ALARM


def two_latents(dim: int, distance: float) -> Floats:
    rng = np.random.default_rng(0)
    first, towards = rng.normal(size=(2, dim))
    first *= 0.7 / np.linalg.norm(first)
    return np.array([first, first + towards * distance / np.linalg.norm(towards)])


@pytest.mark.slow_cases("3", "32", why="in one dimension all stay; the radius in many has tests of its own")
@pytest.mark.parametrize("dim", [1, 3, 32])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: grid_noise.GridLaplace(4.0, n, 2.0),
        lambda n: grid_noise.GridGaussian(2.0, n, 2.0),
        lambda n: float_noise.L2Laplace(2.0 * math.sqrt(n), n, 2.0),
        lambda n: float_noise.Gaussian(4.0, 1e-4, n, 2.0),
        lambda n: float_noise.MetricNoise(2.0 * math.sqrt(n), n, 2.0),
        lambda n: published.PublishedLaplace(4.0, n, 2.0),
        lambda n: published.ClassicalGaussian(4.0, 1e-4, n, 2.0),
    ],
)
def test_additive_noise_draws_its_density(make, dim: int) -> None:
    mechanism = make(dim)
    first, second = two_latents(dim, 1.2)

    def scaled(factor: float) -> Release:
        return lambda x, source: x + factor * (mechanism.release(x, source) - x)

    assert fits_density(mechanism, mechanism.release, first, second)
    for wrong in (2 / 3, 3 / 2):
        assert not fits_density(mechanism, scaled(wrong), first, second, ALL)  # fewer do not see it in 32 dimensions
    # Pass-through, on nearer latents: where the declared odds are 1 to a million, coins that are always guessed fit.
    assert not fits_density(mechanism, lambda x, source: x, *two_latents(dim, 0.3))


@pytest.mark.slow_cases("16-4.0", "64-10.0", why="2 dimensions stay")
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 3.0), (16, 4.0), (64, 10.0)])
def test_privunit_draws_its_declared_density(dim: int, epsilon: float) -> None:
    """At epsilon 10 an output tells nothing of the coin or nearly all: there wrong odds need millions of runs."""
    first, second = two_latents(dim, 0.5)
    sphere, ball = privunit.PrivUnitSphere(epsilon, dim), privunit.PrivUnit(epsilon, dim, 2.0)

    def drawn(mechanism: privunit.PrivUnitSphere | privunit.PrivUnit, factor: float) -> Release:
        """The mechanism's own steps, with the odds of epsilon / factor in the same cap."""
        odds = mechanism.cap.log_odds + (1 / factor - 1) * epsilon
        cap = replace(mechanism.cap, log_odds=odds, p=float(expit(odds)))

        def release(x: Floats, source: Randomness) -> Floats:
            if isinstance(mechanism, privunit.PrivUnitSphere):
                return clipping.rounded(caps.around(clipping.unit(x), cap, source), mechanism.grid) / cap.m
            inner, last = mechanism._lifted(x)
            sign = discrete.uniform_below(2, len(x), source) * 2.0 - 1
            points = caps.around(np.column_stack([inner, sign * last]), cap, source)
            return clipping.rounded(points, mechanism.grid)[:, :-1] / cap.m * mechanism.clip_norm

        return release

    for mechanism in (sphere, ball):
        assert fits_density(mechanism, mechanism.release, first, second)
        assert fits_density(mechanism, drawn(mechanism, 1.0), first, second, N // 2)
        for factor in (2 / 3, 3 / 2) if epsilon <= 5 else ():
            assert not fits_density(mechanism, drawn(mechanism, factor), first, second, ALL // 2)


@pytest.mark.slow  # another fault is noticed by test_privunit_draws_its_declared_density
def test_a_density_that_forgets_the_rounding_of_privunit_is_noticed() -> None:
    """The rounded point taken for the drawn one: some V seem to lie outside their cap."""

    class Naive(privunit.PrivUnit):
        def log_density(self, released: Floats, vectors: Floats) -> Floats:
            inner, last = self._lifted(vectors)
            points = released * self.cap.m / self.clip_norm
            height = np.sqrt(np.maximum(0.0, 1 - np.square(points).sum(axis=1)))
            along = (points * inner).sum(axis=1)
            sides = [(along + side * last * height > self.cap.gamma) * 0.5 for side in (1, -1)]
            return privunit.log_density_given(sides[0] + sides[1], self.cap)

    first, second = two_latents(64, 0.5)
    naive = Naive(5.0, 64, 2.0)
    assert fits_density(privunit.PrivUnit(5.0, 64, 2.0), naive.release, first, second)
    assert not fits_density(naive, naive.release, first, second)


# ---------------------------------------------------------------------------- the streams


def test_secure_streams_differ_and_cannot_be_copied() -> None:
    one, other = randomness.secure(), randomness.secure()
    assert (one.uint64(8) != other.uint64(8)).any()
    assert (one.uint64(8) != one.uint64(8)).any()
    for forge in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="same noise"):
            forge(one)
    assert one.is_secure
    assert repr(one) == "secure()"


def test_a_forked_child_draws_other_bits() -> None:
    """Also where another thread was drawing at that moment, and in the child of a child that drew nothing."""
    import os
    import signal

    stream = randomness.secure()
    stream.uint64(4)
    read, write = os.pipe()
    with stream._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            grandchild = os.fork()
            os.write(write, stream.uint64(4).tobytes())
            if grandchild:
                os.waitpid(grandchild, 0)
            os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64), np.uint64)
    assert len(set(theirs.tolist()) | set(stream.uint64(8).tolist())) == 16


def test_a_process_with_the_number_of_an_earlier_one_draws_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    read, write = os.pipe()
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a container, whose numbers begin anew
    numbered = randomness.secure()
    numbered.uint64(4)
    child = os.fork()
    if child == 0:
        os.write(write, numbered.uint64(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert (np.frombuffer(os.read(read, 32), np.uint64) != numbered.uint64(4)).all()


def test_seeded_streams_repeat_and_keep_records_apart() -> None:
    assert (seeded(1).uint64(5) == seeded(1).uint64(5)).all()
    assert (seeded(1).uint64(5) != seeded(2).uint64(5)).any()
    assert not seeded(1).is_secure
    assert seeded(1).fingerprint != seeded(2).fingerprint
    draw = lambda source, n: source.uint64(n)  # noqa: E731
    whole = seeded(3).rows([2, 0, 3, 1], draw)
    parts = np.concatenate([seeded(3).rows([2, 0], draw), seeded(3).at(2).rows([3, 1], draw)])
    assert (whole == parts).all()
    assert len(set(whole.tolist())) == 6
    assert (seeded(3).uint64(2) != whole[:2]).all()  # the direct stream is not record 0's
    assert randomness.secure().rows([2, 3], draw).shape == (5,)
    assert seeded(3).rows([], draw).shape == (0,)


def test_small_and_large_draws_share_no_words() -> None:
    stream = seeded(4)
    words = np.concatenate([stream.uint64(n) for n in (1, 5, 9000, 3, 8191, 20_000, 7)])
    assert len(set(words.tolist())) == len(words)
