import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dptext.errors import ConfigError
from dptext.privacy import accounting
from dptext.privacy.curves import gaussian_delta
from dptext.privacy.events import GaussianEvent, MetricEvent, PureEvent, TopKEvent, ZcdpEvent
from dptext.sampling import caps, clipping, float_noise, grid_noise, privunit
from dptext.sampling.clipping import Norm
from dptext.sampling.randomness import seeded

vectors = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 6)),
    elements=st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf]),
)


@given(vectors, st.floats(1e-3, 1e3), st.sampled_from(Norm))
def test_clipping_never_leaves_the_ball(rows, clip_norm, norm) -> None:
    clipped = clipping.clip(rows, clip_norm, norm=norm)
    assert np.isfinite(clipped).all()
    order = 1 if norm is Norm.L1 else 2
    assert (np.linalg.norm(clipped, order, axis=1) <= clip_norm).all()
    assert not clipped[~np.isfinite(rows).all(axis=1)].any()


@pytest.mark.parametrize("norm", Norm)
def test_no_rounding_leaves_the_ball(norm: Norm) -> None:
    power = 1 if norm is Norm.L1 else 2
    for row in clipping.clip(np.random.default_rng(1).normal(size=(50, 100)), 1.0, norm=norm).tolist():
        assert sum(abs(Fraction(value)) ** power for value in row) <= 1


def test_clipping_keeps_directions_and_short_vectors() -> None:
    rows = np.array([[3.0, 4.0], [0.1, -0.2]])
    clipped = clipping.clip(rows, 1.0)
    assert clipped[0] == pytest.approx([0.6, 0.8])
    assert clipped[1].tolist() == [0.1, -0.2]


def test_clipping_of_tiny_and_huge_vectors() -> None:
    for size, clip_norm in ((1e-165, 1e-100), (1e-90, 1e-100), (1e120, 1e100), (1e149, 1e-100)):
        clipped = clipping.clip(np.full((1, 2), size), clip_norm)
        assert np.abs(clipped).max() <= clip_norm
    with pytest.raises(ConfigError, match="clip_norm"):
        clipping.clip(np.ones((1, 2)), 1e-200)


def test_rounding_to_the_grid_is_counted() -> None:
    for dim in (1, 7, 100):
        l1 = clipping.sensitivity(1.0, dim=dim, clipped=Norm.L1, measured=Norm.L1, grid=0.1)
        l2 = clipping.sensitivity(1.0, dim=dim, clipped=Norm.L2, measured=Norm.L2, grid=0.1)
        assert 2 + dim * 0.1 <= l1 <= 2 + dim * 0.1 * 1.001
        assert 2 + math.sqrt(dim) * 0.1 <= l2 <= 2 + math.sqrt(dim) * 0.1 * 1.001


@pytest.mark.parametrize("n", [1, 2, 16, 256])
def test_sensitivities_are_attained_and_not_exceeded(n: int) -> None:
    c = 2.0
    assert clipping.sensitivity(c, dim=n, clipped=Norm.L1, measured=Norm.L1) == pytest.approx(2 * c)
    assert clipping.sensitivity(c, dim=n, clipped=Norm.L2, measured=Norm.L2) == pytest.approx(2 * c)
    diagonal = np.full(n, c / math.sqrt(n))
    attained = np.abs(diagonal - -diagonal).sum()
    assert clipping.sensitivity(c, dim=n, clipped=Norm.L2, measured=Norm.L1) == pytest.approx(attained)
    assert clipping.sensitivity(c, dim=n, clipped=Norm.L2, measured=Norm.L1) >= attained


def test_the_published_sensitivity_is_refuted_by_two_vectors() -> None:
    """n = 2: (2C/3, 2C/3) against its negative has L1 distance 8C/3 > 2C (Habernal 2021)."""
    c = 1.0
    one = np.array([[2 * c / 3, 2 * c / 3]])
    assert np.array_equal(clipping.clip(one, c), one)
    assert np.abs(one - -one).sum() == pytest.approx(8 * c / 3)
    assert np.abs(one - -one).sum() < clipping.sensitivity(c, dim=2, clipped=Norm.L2, measured=Norm.L1)


@given(st.integers(1, 600), st.floats(0.02, 800), st.sampled_from(Norm))
def test_the_grid_counts_what_rounding_adds(dim, epsilon, clipped) -> None:
    mechanism = grid_noise.GridLaplace(epsilon, dim, 1.5, clipped)
    needed = clipping.sensitivity(1.5, dim=dim, clipped=clipped, measured=Norm.L1, grid=mechanism.grid)
    assert mechanism.scale >= needed / epsilon
    assert mechanism.scale <= needed / epsilon * 1.001
    assert mechanism.events == (PureEvent(epsilon),)
    gaussian = grid_noise.GridGaussian(0.5, dim, 1.5)
    needed = clipping.sensitivity(1.5, dim=dim, clipped=Norm.L2, measured=Norm.L2, grid=gaussian.grid)
    assert gaussian.sigma >= needed / math.sqrt(2 * 0.5)
    assert gaussian.events == (ZcdpEvent(0.5),)


def test_outputs_lie_on_the_grid() -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    for mechanism in (
        grid_noise.GridLaplace(1.0, 4, 1.0),
        grid_noise.GridGaussian(1.0, 4, 1.0),
        float_noise.L2Laplace(1.0, 4, 1.0),
    ):
        assert on_grid(mechanism.release(x, seeded(0)), mechanism.grid)
    gaussian = float_noise.Gaussian(1.0, 1e-5, 4, 1.0)
    assert on_grid(gaussian.release(x, seeded(0)), gaussian.grid)
    assert gaussian.grid == gaussian.sigma / 64
    metric = float_noise.MetricNoise(3.0, 4, 10.0)
    assert on_grid(metric.add(x, metric.draw(50, seeded(0))), metric.grid)
    assert np.array_equal(metric.release(x, seeded(0)), metric.add(x, metric.draw(50, seeded(0))))
    ball, sphere = privunit.PrivUnit(3.0, 4, clip_norm=2.0), privunit.PrivUnitSphere(3.0, 4)
    assert on_grid(ball.release(x, seeded(0)) * ball.cap.m / 2.0, ball.grid)
    assert on_grid(sphere.release(x, seeded(0)) * sphere.cap.m, sphere.grid)


def on_grid(values: np.ndarray, grid: float) -> bool:
    steps = values / grid
    return bool(np.abs(steps - np.rint(steps)).max() < 1e-4)


VARIANCES = {  # variance: claimed, then the true epsilon at n = 32, 64, ..., 1024 (derivations, "Variances of ADePT")
    0.25: (5.66, 32.0, 45.3, 64.0, 90.5, 128, 181),
    0.5: (4.00, 22.6, 32.0, 45.3, 64.0, 90.5, 128),
    0.6: (3.65, 20.7, 29.2, 41.3, 58.4, 82.6, 117),
    0.75: (3.27, 18.5, 26.1, 37.0, 52.3, 73.9, 105),
    0.85: (3.07, 17.4, 24.5, 34.7, 49.1, 69.4, 98.2),
    1.0: (2.83, 16.0, 22.6, 32.0, 45.3, 64.0, 90.5),
}


@pytest.mark.parametrize("variance", VARIANCES)
def test_claimed_and_true_epsilon_of_published_laplace(variance: float) -> None:
    claimed, *true = VARIANCES[variance]
    b = math.sqrt(variance / 2)
    assert 2 / b == pytest.approx(claimed, abs=0.006)
    for i, epsilon in enumerate(true):
        n = 32 * 2**i
        found = clipping.sensitivity(1.0, dim=n, clipped=Norm.L2, measured=Norm.L1) / b
        assert found == pytest.approx(epsilon, rel=0.006)


@pytest.mark.parametrize(
    ("variance", "epsilon"), [(0.25, 24.38), (0.5, 15.46), (0.6, 13.76), (0.75, 11.95), (0.85, 11.06), (1.0, 10.00)]
)
@pytest.mark.parametrize("dim", [1, 64])
def test_gaussian_is_calibrated_by_the_analytic_curve(variance: float, epsilon: float, dim: int) -> None:
    """derivations, "Variances of ADePT": the epsilon of Gaussian noise of these variances at delta = 1e-5 and C = 1."""
    mechanism = float_noise.Gaussian(epsilon, 1e-5, dim, 1.0)
    assert mechanism.sigma**2 == pytest.approx(variance, rel=2e-3)
    assert float_noise.Gaussian(epsilon, 1e-5, dim, 5.0).sigma == pytest.approx(5 * mechanism.sigma, rel=1e-9)
    gaussian, slack = mechanism.events
    assert gaussian == GaussianEvent(mechanism.noise_multiplier)
    assert slack.epsilon == 0
    assert 0 < slack.delta < 1e-8
    # What accounting makes of the two is what was asked for, and no more.
    stated = accounting.epsilon(mechanism.events, 1e-5)
    assert epsilon * (1 - 1e-9) <= stated <= epsilon


@pytest.mark.parametrize("dim", [1, 64, 768, 4096])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0, 1000.0])
def test_the_delta_of_gaussian_noise_includes_the_slack(dim: int, epsilon: float) -> None:
    """The curve's delta and the slack of the sampler add up to what the event says, and no noise is wasted."""
    mechanism = float_noise.Gaussian(epsilon, 1e-5, dim, 3.0)
    distance = clipping.sensitivity(3.0, dim=dim, clipped=Norm.L2, measured=Norm.L2)
    curve = gaussian_delta(mechanism.sigma / distance, epsilon)
    slack = float_noise.slack(dim, math.sqrt(dim) * mechanism.sigma + 3.0, mechanism.grid)
    assert curve + slack <= 1e-5
    assert curve + slack == pytest.approx(1e-5, rel=1e-2)
    assert gaussian_delta(mechanism.sigma * 0.99 / distance, epsilon) + slack > 1e-5
    least = float_noise.Gaussian(epsilon, 2 * slack, dim, 3.0)
    assert least.sigma > mechanism.sigma
    with pytest.raises(ConfigError, match=r"Expected delta=.* slack"):
        float_noise.Gaussian(epsilon, slack / 2, dim, 3.0)


TABLE = [  # (epsilon, n): iid Laplace, L2-Laplace, analytic Gaussian at 1e-5, PrivUnit (derivations, "Noise on a ball")
    (10, 32, 9.05, 6.50, 5.66, 1.58),
    (10, 128, 36.2, 25.7, 11.3, 3.39),
    (10, 768, 217, 154, 27.7, 8.47),
    (50, 128, 7.24, 5.14, 3.39, 1.03),
    (100, 256, 7.24, 5.13, 3.03, 0.98),
    (500, 768, 4.34, 3.07, 2.00, 0.62),
]


@pytest.mark.slow_cases("10-128", "768", why="other dimensions and epsilons stay")
@pytest.mark.parametrize(("epsilon", "n", "laplace", "l2", "gaussian", "unit"), TABLE)
def test_root_mean_square_noise(epsilon, n, laplace, l2, gaussian, unit) -> None:
    x = np.zeros((1500, n))
    x[:, 0] = 1.0

    def rms(mechanism) -> float:
        return math.sqrt(np.square(mechanism.release(x, seeded(1)) - x).sum(axis=1).mean())

    assert rms(grid_noise.GridLaplace(epsilon, n, 1.0)) == pytest.approx(laplace, rel=0.03)
    assert rms(float_noise.L2Laplace(epsilon, n, 1.0)) == pytest.approx(l2, rel=0.03)
    assert rms(privunit.PrivUnit(epsilon, n)) == pytest.approx(unit, rel=0.03)
    multiplier = accounting.calibrate(GaussianEvent(1.0), epsilon, delta=1e-5).noise_multiplier
    assert 2 * multiplier * math.sqrt(n) == pytest.approx(gaussian, rel=0.005)
    assert rms(float_noise.Gaussian(epsilon, 1e-5, n, 1.0)) == pytest.approx(gaussian, rel=0.03)
    rho = accounting.calibrate(ZcdpEvent(1.0), epsilon, delta=1e-5).rho
    discrete = rms(grid_noise.GridGaussian(rho, n, 1.0))
    assert gaussian * 0.97 < discrete < gaussian * 1.1  # the price of a proof for the discrete sampler


@pytest.mark.parametrize(
    ("n", "epsilon", "m", "gamma", "p"),
    [(32, 5, 0.3209, 0.3210, 0.8404), (128, 10, 0.2828, 0.2828, 0.9278), (64, 1, 0.0498, 0.0500, 0.5902)],
)
def test_optimal_cap_oracles(n, epsilon, m, gamma, p) -> None:
    cap = privunit.optimal_cap(n, epsilon)
    assert cap.m == pytest.approx(m, abs=1e-4)
    assert cap.gamma == pytest.approx(gamma, abs=1e-3)
    assert cap.p == pytest.approx(p, abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 32, 768, 4096])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0, 300.0, 1000.0])
def test_cap_against_high_precision(n, epsilon) -> None:
    """q and the exact epsilon of the cap, in 60 digits, over the whole range of dimensions and epsilons."""
    cap = privunit.optimal_cap(n, epsilon)
    with mpmath.workdps(60):
        a, x = mpmath.mpf(n - 1) / 2, mpmath.e ** mpmath.mpf(cap.log_x)
        log_q = mpmath.log(mpmath.betainc(a, 0.5, 0, x, regularized=True) / 2)
        assert abs(cap.log_q - log_q) < 1e-9 * max(1, abs(log_q))
        true = mpmath.mpf(cap.log_odds) - log_q + mpmath.log(1 - mpmath.e**log_q)
        assert true <= epsilon
        assert true >= epsilon - 1e-8
    assert 0 < cap.m <= 1
    # no other cap is better: a step to either side gives no larger m
    assert cap.m >= naive_m(n, epsilon, cap.gamma * 0.99) - 1e-12
    assert cap.m >= naive_m(n, epsilon, min(cap.gamma * 1.01, 1 - 1e-12)) - 1e-12


def naive_m(n: int, epsilon: float, gamma: float) -> float:
    with mpmath.workdps(40):
        g, e = mpmath.mpf(gamma), mpmath.e ** mpmath.mpf(epsilon)
        q = mpmath.betainc(mpmath.mpf(n - 1) / 2, 0.5, 0, 1 - g * g, regularized=True) / 2
        c = mpmath.gamma(mpmath.mpf(n) / 2) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(mpmath.mpf(n - 1) / 2))
        p = 1 / (1 + (1 - q) / (q * e))
        return float(c * (1 - g * g) ** (mpmath.mpf(n - 1) / 2) / (n - 1) * (p / q - (1 - p) / (1 - q)))


@pytest.mark.parametrize("n", [2, 3, 17, 256, 1401, 1513, 2001, 4096])
def test_polar_angles_are_as_accurate_as_the_slack_says(n: int) -> None:
    """Cosine and sine within 2^-44 of 40 digits, inside and outside the cap, tails included."""
    cap = privunit.optimal_cap(n, 5.0)
    w = np.array([1e-300, 1e-30, 1e-12, 1e-3, 0.3, 0.7, 1 - 1e-9])
    a = mpmath.mpf(n - 1) / 2
    for inside, half in ((True, 0.9), (False, 0.1), (False, 0.99)):
        cosine, sine = caps.angles(np.full(7, half), w, np.full(7, inside), cap, n)
        q = math.exp(cap.log_q)
        far = not inside and half < 0.5 / (1 - q)
        for i, u in enumerate(map(mpmath.mpf, w.tolist())):
            with mpmath.workdps(40):
                exact_q = mpmath.mpf(q)
                share = 2 * exact_q * u if inside else u if far else 2 * exact_q + (1 - 2 * exact_q) * u
                # one Newton step from the float angle to the exact one, in the angle itself (the density is sin^(n-2))
                angle = mpmath.atan2(mpmath.mpf(float(sine[i])), mpmath.mpf(abs(float(cosine[i]))))
                found = mpmath.betainc(a, 0.5, 0, mpmath.sin(angle) ** 2, regularized=True)
                density = 2 * mpmath.sin(angle) ** (n - 2) / mpmath.beta(a, 0.5)
                assert abs((found - share) / density) < 2.0**-44
        assert np.abs(cosine**2 + sine**2 - 1).max() < 1e-14
        assert (cosine < 0).all() == far


def test_the_far_pole_can_be_reached() -> None:
    """The usual recipe (cosine = 1 - 2 Beta^-1(w), w up to 1 - 2^-53) stops short of it; then no epsilon holds."""
    n, epsilon = 64, 60.0
    cap = privunit.optimal_cap(n, epsilon)
    assert cap.log_q < -53 * math.log(2) / 2
    cosine, _ = caps.angles(np.array([0.1]), np.array([1e-200]), np.array([False]), cap, n)
    assert cosine[0] < -0.999999
    from scipy.special import betaincinv

    usual = 1 - 2 * betaincinv((n - 1) / 2, (n - 1) / 2, 1 - 2.0**-53)
    assert usual > -0.9  # the opposite vector's cap starts at -gamma and goes to -1


@pytest.mark.slow_cases("0.5", "4.0", why="epsilon 60 stays")
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 60.0])
def test_privunit_is_unbiased_in_the_ball(epsilon) -> None:
    x = np.tile([0.3, -0.5, 0.1], (60_000, 1))
    mechanism = privunit.PrivUnit(epsilon, 3, clip_norm=2.0)
    released = mechanism.release(x, seeded(3))
    error = 5 * released.std(axis=0) / math.sqrt(len(x)) + mechanism.grid
    assert (np.abs(released.mean(axis=0) - x[0]) < error).all()
    longer = mechanism.release(x * 100, seeded(3))
    assert np.isfinite(longer).all()


def test_float_samplers_state_a_small_slack() -> None:
    for dim in (2, 50, 768, 4096):
        for epsilon in (0.1, 10.0, 500.0):
            assert 0 < float_noise.L2Laplace(epsilon, dim, 1.0).events[0].delta < 1e-5
            assert 0 < privunit.PrivUnit(min(epsilon, 500.0), min(dim, 4095)).events[0].delta < 1e-5
    assert float_noise.MetricNoise(10.0, 50, 32.0).event("d") == MetricEvent(
        10.0, "d", float_noise.MetricNoise(10.0, 50, 32.0).event("d").delta
    )
    assert float_noise.MetricNoise(10.0, 50, 32.0).event("d").delta < 1e-8


def test_codebook_is_exact_and_finds_its_neighbours() -> None:
    book = privunit.Codebook.drawn(12.0, dim=8, size=4096, source=seeded(0))
    assert isinstance(book.event, TopKEvent)
    assert accounting.epsilon([book.event]) == 12.0
    x = np.random.default_rng(0).normal(size=(500, 8))
    chosen = book.points[book.choose(x, seeded(1))]
    cosine = (chosen * clipping.unit(x)).sum(axis=1).mean()
    assert cosine == pytest.approx(privunit.optimal_cap(8, 12.0).m, abs=0.03)  # tends to PrivUnit's
    odd = np.array([[math.nan] * 8, [0.0] * 8, [1e308] * 8])
    assert book.choose(odd, seeded(1)).shape == (3,)


def test_coordinate_laplace_has_its_variance() -> None:
    draws = grid_noise.coordinate_laplace(20_000, 3, 6.0, seeded(0))
    assert draws.var() == pytest.approx(6.0, rel=0.05)


@pytest.mark.parametrize(
    "make",
    [
        lambda: grid_noise.GridLaplace(0.0, 3, 1.0),
        lambda: grid_noise.GridLaplace(1.0, 0, 1.0),
        lambda: grid_noise.GridGaussian(1e-12, 4096, 1.0),
        lambda: float_noise.L2Laplace(1.0, 5000, 1.0),
        lambda: float_noise.Gaussian(1.0, 1e-5, 5000, 1.0),
        lambda: float_noise.Gaussian(0.0, 1e-5, 3, 1.0),
        lambda: float_noise.Gaussian(1.0, 0.0, 3, 1.0),
        lambda: float_noise.Gaussian(1.0, 1.1, 3, 1.0),
        lambda: float_noise.Gaussian(1.0, 1e-13, 3, 1.0),
        lambda: privunit.PrivUnitSphere(1.0, 1),
        lambda: privunit.PrivUnitSphere(1e-3, 3),
        lambda: privunit.PrivUnitSphere(1.0, 5).release(np.ones((2, 4)), seeded(0)),
        lambda: privunit.PrivUnitSphere(1.0, 2.5),  # type: ignore[arg-type]
        lambda: privunit.PrivUnit(2000.0, 3),
        lambda: privunit.Codebook(1.0, np.zeros((1, 3))),
        lambda: grid_noise.GridLaplace(1.0, 3, 1.0).release(np.zeros((2, 4)), seeded(0)),
        lambda: clipping.clip(np.zeros((2, 2)), -1.0),
    ],
)
def test_bad_settings_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        make()
