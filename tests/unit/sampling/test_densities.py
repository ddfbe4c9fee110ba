"""The densities that white-box audits read: they sum to one, never exceed epsilon, and attain it."""

import math

import numpy as np
import pytest

from dptext.errors import ConfigError
from dptext.mechanism import VectorNoise
from dptext.privacy.curves import gaussian_delta
from dptext.sampling import clipping, float_noise, grid_noise, privunit
from dptext.sampling.clipping import Norm
from dptext.sampling.randomness import seeded
from dptext.types import Floats
from dptext_lab.adept import published_noise as published


def every(dim: int) -> list[VectorNoise]:
    return [
        grid_noise.GridLaplace(4.0, dim, 1.5),
        grid_noise.GridLaplace(4.0, dim, 1.5, Norm.L1),
        grid_noise.GridGaussian(2.0, dim, 1.5),
        float_noise.L2Laplace(4.0, dim, 1.5),
        float_noise.Gaussian(4.0, 1e-5, dim, 1.5),
        float_noise.MetricNoise(3.0, dim, 10.0),
        privunit.PrivUnit(4.0, dim, 1.5),
        privunit.PrivUnitSphere(4.0, dim),
        published.PublishedLaplace(4.0, dim, 1.5),
        published.ClassicalGaussian(4.0, 1e-5, dim, 1.5),
    ]


def name(mechanism: VectorNoise) -> str:
    return type(mechanism).__name__


def same(row: Floats, rows: int) -> Floats:
    return np.broadcast_to(np.asarray(row, float), (rows, len(row)))


@pytest.mark.parametrize("mechanism", every(5), ids=name)
def test_every_noise_is_a_vector_noise(mechanism: VectorNoise) -> None:
    assert isinstance(mechanism, VectorNoise)
    odd = np.array([[0.3] * 5, [0.0] * 5, [math.nan] * 5, [math.inf] * 5, [1e200] * 5, [1e-200] * 5, [9.0] * 5])
    released = mechanism.release(odd, seeded(0))
    densities = mechanism.log_density(released, odd)
    assert densities.shape == (7,)
    assert np.isfinite(densities).all()
    # a row's density is its own, whatever stands beside it
    order = [4, 2, 6, 0]
    assert mechanism.log_density(released[order], odd[order]) == pytest.approx(densities[order], rel=1e-12)
    assert mechanism.log_density(released[:0], odd[:0]).shape == (0,)
    # what the release does to odd vectors, the density does too: what is not finite becomes the zero vector
    zero = mechanism.log_density(released, np.zeros_like(odd))
    assert mechanism.log_density(released, np.full_like(odd, math.nan)) == pytest.approx(zero)
    with pytest.raises(ConfigError, match="Expected released vectors of shape"):
        mechanism.log_density(released[:3], odd)
    with pytest.raises(ConfigError, match="Expected vectors of shape"):
        mechanism.log_density(released[:, :3], odd[:, :3])


# ------------------------------------------------------------------------------ total mass


@pytest.mark.slow_cases(
    "<lambda>2-2", "<lambda>5-2", "<lambda>6-2", why="L2-Laplace and the published noises stay in one dimension"
)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(
    ("make", "scale"),
    [
        (lambda n: grid_noise.GridLaplace(4.0, n, 1.5), lambda m: m.scale),
        (lambda n: grid_noise.GridGaussian(2.0, n, 1.5), lambda m: m.sigma),
        (lambda n: float_noise.L2Laplace(4.0, n, 1.5), lambda m: m.scale),
        (lambda n: float_noise.Gaussian(4.0, 1e-5, n, 1.5), lambda m: m.sigma),
        (lambda n: float_noise.MetricNoise(3.0, n, 10.0), lambda m: 1 / m.epsilon),
        (lambda n: published.PublishedLaplace(4.0, n, 1.5), lambda m: m.scale),
        (lambda n: published.ClassicalGaussian(4.0, 1e-5, n, 1.5), lambda m: m.sigma),
    ],
)
def test_additive_noise_sums_to_one(make, scale, dim: int) -> None:
    """A lattice sum over 25 scales to either side; on a grid each of its points has one probability a cell."""
    mechanism = make(dim)
    step = scale(mechanism) / 12
    axis = (np.arange(-300, 300) + 0.25) * step
    points = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)
    on_grid = isinstance(mechanism, grid_noise.GridLaplace | grid_noise.GridGaussian)
    cell = (step / mechanism.grid if on_grid else step) ** dim
    x = np.array([0.4, -0.9])[:dim]
    total = np.exp(mechanism.log_density(points, same(x, len(points)))).sum() * cell
    assert total == pytest.approx(1, abs=2e-3)
    assert np.exp(mechanism.log_density(points, same(x, len(points)) / 2)).sum() * cell == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 64])
def test_radial_noise_sums_to_one_in_any_dimension(dim: int) -> None:
    mechanism = float_noise.MetricNoise(2.0, dim, 10.0)
    radius = (np.arange(20_000) + 0.5) * (dim + 40) / 2.0 / 10_000
    points = np.zeros((len(radius), dim))
    points[:, 0] = radius
    log_area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    shells = mechanism.log_density(points, np.zeros_like(points)) + log_area + (dim - 1) * np.log(radius)
    assert np.exp(shells).sum() * (radius[1] - radius[0]) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow_cases("64-5.0", why="the circle stays")
@pytest.mark.slow_cases("3-4.0", "16-5.0", why="2 and 64 dimensions stay")
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 2.0), (3, 4.0), (16, 5.0), (64, 5.0)])
def test_privunit_averages_to_one_over_the_sphere(dim: int, epsilon: float) -> None:
    points = float_noise.directions(20_000, dim + 1, seeded(0))
    rng = np.random.default_rng(0)
    sphere, ball = privunit.PrivUnitSphere(epsilon, dim + 1), privunit.PrivUnit(epsilon, dim, 3.0)
    u, x = rng.normal(size=dim + 1), rng.normal(size=dim) / math.sqrt(dim)
    cells = clipping.rounded(points, sphere.grid) / sphere.cap.m
    dropped = 3.0 * clipping.rounded(points, ball.grid)[:, :dim] / ball.cap.m
    for ratios in (
        np.exp(sphere.log_density(cells, same(u, len(cells)))),
        np.exp(ball.log_density(dropped, same(x, len(cells)))),
        np.exp(ball.log_density(dropped, same(0 * x, len(cells)))),
    ):
        assert abs(ratios.mean() - 1) < 5 * ratios.std() / math.sqrt(len(ratios)) < 0.3


# ------------------------------------------------------------------------- never above epsilon


@pytest.mark.slow_cases("5.0-2", "50.0-2", "0.5-1", why="each epsilon and each dimension stays")
@pytest.mark.slow_cases("50.0-64", why="an epsilon of 5 stays, and fewer dimensions")
@pytest.mark.slow_cases("0.5-64", "5.0-64", why="64 dimensions stay at epsilon 50")
@pytest.mark.parametrize("dim", [1, 2, 64, pytest.param(256, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 50.0])
def test_no_loss_exceeds_epsilon(dim: int, epsilon: float) -> None:
    rng = np.random.default_rng(dim)
    c, rows = 2.0, 200
    mechanisms: list[VectorNoise] = [
        grid_noise.GridLaplace(epsilon, dim, c),
        grid_noise.GridLaplace(epsilon, dim, c, Norm.L1),
        float_noise.L2Laplace(epsilon, dim, c),
        *([privunit.PrivUnit(epsilon, dim, c)] if dim > 2 or epsilon < 10 else []),
        *([privunit.PrivUnitSphere(epsilon, max(dim, 2))] if dim > 2 or epsilon < 10 else []),
    ]
    for mechanism in mechanisms:
        n = getattr(mechanism, "dim", dim)
        corner, axis = np.full(n, c / math.sqrt(n)), np.eye(n)[0] * c
        random = [rng.normal(size=n) * c / math.sqrt(n) * size for size in (0.3, 1.0, 2.0)]
        inputs = [corner, -corner, axis, -axis, np.zeros(n), *random]
        wild = rng.normal(size=(rows, n)) * rng.choice([1e-3, 1.0, 100.0], size=(rows, 1))
        outputs = [*(mechanism.release(same(x, rows), seeded(3)) for x in inputs), wild, np.array([*inputs] * 50)]
        for released in outputs:
            logs = np.array([mechanism.log_density(released, same(x, len(released))) for x in inputs])
            assert np.isfinite(logs).all()
            assert (logs.max(axis=0) - logs.min(axis=0)).max() <= epsilon + 1e-9


@pytest.mark.parametrize("dim", [1, 2, 64, 700])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 50.0])
def test_epsilon_is_attained(dim: int, epsilon: float) -> None:
    """By antipodal latents; a thousandth is lost where the grid's rounding is counted but does not happen."""
    corner = np.full((1, dim), 3.0 / math.sqrt(dim))
    spike = 3.0 * np.eye(dim)[:1]
    for mechanism, x in (
        (grid_noise.GridLaplace(epsilon, dim, 3.0), corner),
        (grid_noise.GridLaplace(epsilon, dim, 3.0, Norm.L1), spike),
        (float_noise.L2Laplace(epsilon, dim, 3.0), corner),
    ):
        for far in (x, 10 * x):
            loss = mechanism.log_density(far, x) - mechanism.log_density(far, -x)
            assert epsilon * 0.999 <= loss[0] <= epsilon + 1e-9
    if dim < 4 and epsilon > 10:
        return  # the density of PrivUnit is refused there
    sphere, ball = privunit.PrivUnitSphere(epsilon, dim + 1), privunit.PrivUnit(epsilon, dim, 3.0)
    u = np.eye(dim + 1)[:1]
    loss = sphere.log_density(u / sphere.cap.m, u) - sphere.log_density(u / sphere.cap.m, -u)
    assert loss[0] == pytest.approx(epsilon, abs=1e-6)
    centre = corner / ball.cap.m
    loss = ball.log_density(centre, corner) - ball.log_density(centre, -corner)
    assert loss[0] == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 50.0), (4, 100.0), (16, 200.0), (32, 500.0)])
def test_no_density_is_stated_for_caps_below_the_grid(dim: int, epsilon: float) -> None:
    x = np.ones((1, dim))
    for mechanism in (privunit.PrivUnitSphere(epsilon, dim), privunit.PrivUnit(epsilon, dim)):
        released = mechanism.release(x, seeded(0))
        with pytest.raises(ConfigError, match="cells of the grid"):
            mechanism.log_density(released, x)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 20.0), (8, 50.0), (16, 100.0), (64, 300.0), (256, 500.0)])
def test_a_density_is_stated_for_all_usual_settings(dim: int, epsilon: float) -> None:
    u = float_noise.directions(20, dim, seeded(0))
    for mechanism in (privunit.PrivUnitSphere(epsilon, dim), privunit.PrivUnit(epsilon, dim)):
        released = mechanism.release(u, seeded(1))
        loss = mechanism.log_density(released, u) - mechanism.log_density(released, -u)
        assert (loss <= epsilon).all()
        assert np.median(loss) > 0.9 * epsilon


@pytest.mark.parametrize("dim", [1, 2, 64, 256])
def test_metric_noise_keeps_to_the_distance(dim: int) -> None:
    mechanism = float_noise.MetricNoise(7.0, dim, 10.0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 500, dim))
    distance = np.linalg.norm(x - y, axis=1)
    for released in (mechanism.release(x, seeded(1)), mechanism.release(y, seeded(1)), rng.normal(size=x.shape) * 50):
        loss = mechanism.log_density(released, x) - mechanism.log_density(released, y)
        assert (np.abs(loss) <= 7 * distance * (1 + 1e-12) + 1e-9).all()
    beyond = x + (x - y)
    loss = mechanism.log_density(beyond, x) - mechanism.log_density(beyond, y)
    assert loss == pytest.approx(7 * distance)


# ---------------------------------------------------------------------------- against naive


def test_discrete_densities_are_those_of_the_samplers_definition() -> None:
    """Independent integers with weights e^(-|k| / s), e^(-k^2 / 2 s^2), written out for some rows."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1, 6)) / 3
    laplace, gaussian = grid_noise.GridLaplace(3.0, 6, 1.0), grid_noise.GridGaussian(1.0, 6, 1.0)
    for mechanism, weight in (
        (laplace, lambda k: abs(k) / (laplace.scale / laplace.grid)),
        (gaussian, lambda k: k * k / (2 * (gaussian.sigma / gaussian.grid) ** 2)),
    ):
        released = mechanism.release(x, seeded(1))
        naive = [
            -sum(
                weight(round(r / mechanism.grid) - round(v / mechanism.grid))
                for r, v in zip(released[0].tolist(), row[0].tolist(), strict=True)
            )
            for row in (x, y)
        ]
        found = [mechanism.log_density(released, row)[0] for row in (x, y)]
        assert found[0] - found[1] == pytest.approx(naive[0] - naive[1], rel=1e-9)


@pytest.mark.slow_cases("64-5.0", why="fewer dimensions stay")
@pytest.mark.slow_cases("24-6.0", why="6 and 64 dimensions stay")
@pytest.mark.parametrize(("dim", "epsilon"), [(6, 3.0), (24, 6.0), (64, 5.0)])
def test_the_lift_is_summed_over_its_signs_and_the_rounding(dim: int, epsilon: float) -> None:
    """Against the definition: all points of the cell, weighted by the sphere's area above them, on both sides."""
    mechanism = privunit.PrivUnit(epsilon, dim, 1.0)
    cap, rng = mechanism.cap, np.random.default_rng(0)
    x = rng.normal(size=dim)
    x *= 0.6 / np.linalg.norm(x)
    lift = math.sqrt(1 - x @ x)
    released = mechanism.release(same(x, 5_000), seeded(2))
    w = released * cap.m
    # the most telling outputs: near the edge of one of the two caps
    edge = np.abs(w @ x + lift * np.sqrt(np.maximum(1 - np.square(w).sum(axis=1), 0)) - cap.gamma)
    rows = np.argsort(edge)[:120:3]
    found = np.exp(mechanism.log_density(released[rows], same(x, len(rows))))
    naive = np.empty(len(rows))
    unsmoothed = np.empty(len(rows))
    p, q = cap.p, math.exp(cap.log_q)
    for i, row in enumerate(rows):
        v = w[row] + rng.uniform(-0.5, 0.5, size=(20_000, dim)) * mechanism.grid
        height_squared = 1 - np.square(v).sum(axis=1)
        height = np.sqrt(height_squared[height_squared > 0])
        along = v[height_squared > 0] @ x
        inside = ((along + lift * height > cap.gamma) * 0.5 + (along - lift * height > cap.gamma) * 0.5) / height
        share = inside.sum() / (1 / height).sum()
        naive[i] = share * p / q + (1 - share) * (1 - p) / (1 - q)
        z = math.sqrt(max(0.0, 1 - w[row] @ w[row]))
        hits = 0.5 * (w[row] @ x + lift * z > cap.gamma) + 0.5 * (w[row] @ x - lift * z > cap.gamma)
        unsmoothed[i] = hits * p / q + (1 - hits) * (1 - p) / (1 - q)
    error = np.abs(found - naive).mean() / naive.mean()
    assert error < 0.03
    assert np.abs(unsmoothed - naive).mean() / naive.mean() > 10 * error  # taking the rounded point for V errs so


# -------------------------------------------------------------------------------- Gaussian


def hockey_stick(losses: Floats, epsilon: float) -> Floats:
    return np.maximum(0.0, -np.expm1(epsilon - losses))


@pytest.mark.slow_cases("64", why="2 dimensions stay")
@pytest.mark.parametrize("dim", [2, 64])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.01), (5.0, 0.02), (30.0, 0.05)])
def test_gaussian_has_its_delta(dim: int, epsilon: float, delta: float) -> None:
    mechanism = float_noise.Gaussian(epsilon, delta, dim, 1.0)
    x = np.zeros((50_000, dim))
    x[:, 1] = 1.0
    released = mechanism.release(x, seeded(4))
    losses = mechanism.log_density(released, x) - mechanism.log_density(released, -x)
    mu = 2 / mechanism.sigma
    assert abs(losses.mean() - mu**2 / 2) < 5 * mu / math.sqrt(len(losses))
    assert losses.std() == pytest.approx(mu, rel=0.02)
    for at in (0.5 * epsilon, epsilon, 1.2 * epsilon):
        terms = hockey_stick(losses, at)
        exact = gaussian_delta(mechanism.sigma / 2, at)
        assert abs(terms.mean() - exact) < 5 * terms.std() / math.sqrt(len(terms))
    assert gaussian_delta(mechanism.sigma / 2, epsilon) == pytest.approx(delta, rel=1e-5)


def test_classical_gaussian_is_refuted_by_its_own_density() -> None:
    sound, false = float_noise.Gaussian(50.0, 1e-5, 8, 1.0), published.ClassicalGaussian(50.0, 1e-5, 8, 1.0)
    x = np.tile(np.eye(8)[0], (20_000, 1))
    for mechanism, low, high in ((false, 0.5, 1.0), (sound, 0.0, 1e-3)):
        released = mechanism.release(x, seeded(5))
        losses = mechanism.log_density(released, x) - mechanism.log_density(released, -x)
        assert low <= hockey_stick(losses, 50.0).mean() <= high


# ------------------------------------------------------------------------------- published


@pytest.mark.parametrize("dim", [1, 2, 16, 64, 255, 1024])
def test_published_laplace_reaches_the_root_of_the_dimension(dim: int) -> None:
    mechanism = published.PublishedLaplace(5.0, dim, 2.0)
    corner = np.full((1, dim), 2.0 / math.sqrt(dim))
    loss = mechanism.log_density(corner, corner) - mechanism.log_density(corner, -corner)
    assert loss[0] == pytest.approx(5 * math.sqrt(dim), rel=1e-4)
    assert loss[0] <= mechanism.true_epsilon
    assert mechanism.true_epsilon == pytest.approx(5 * math.sqrt(dim), rel=1e-3)
    assert mechanism.claimed.epsilon == 5.0
    rng = np.random.default_rng(0)
    x, y, released = rng.normal(size=(3, 300, dim)) * 3
    losses = mechanism.log_density(released, x) - mechanism.log_density(released, y)
    assert np.abs(losses).max() <= mechanism.true_epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta", "true"),
    [(100.0, 1e-5, 300.1), (8.42, 1e-5, 8.42), (7.46, 1e-3, 7.46), (8.78, 1e-6, 8.78), (9.62, 1e-9, 9.62)],
)
def test_where_the_classical_formula_fails(epsilon: float, delta: float, true: float) -> None:
    """derivations, "Classical Gaussian": the claimed epsilons from which on the formula gives too little noise."""
    mechanism = published.ClassicalGaussian(epsilon, delta, 16, 3.0)
    assert mechanism.true_epsilon == pytest.approx(true, rel=1e-3)
    if epsilon < 10:
        for factor in (0.99, 1.01):
            claimed = factor * epsilon
            assert (published.ClassicalGaussian(claimed, delta, 16, 3.0).true_epsilon > claimed) == (factor > 1)
    assert (
        float_noise.Gaussian(100.0, 1e-5, 16, 3.0).sigma > 1.5 * published.ClassicalGaussian(100.0, 1e-5, 16, 3.0).sigma
    )


def test_false_claims_are_no_events() -> None:
    for mechanism in (published.PublishedLaplace(5.0, 4, 1.0), published.ClassicalGaussian(50.0, 1e-5, 4, 1.0)):
        assert mechanism.events[0].kind == "none"
        assert "2021" in mechanism.events[0].reason or "2014" in mechanism.events[0].reason
    assert published.PublishedLaplace(4.0, 4, 1.0).scale == 0.5
    assert published.ClassicalGaussian(10.0, 1e-5, 4, 1.0).sigma == pytest.approx(0.2 * math.sqrt(2 * math.log(1.25e5)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: published.PublishedLaplace(0.0, 4, 1.0),
        lambda: published.PublishedLaplace(1.0, 0, 1.0),
        lambda: published.PublishedLaplace(1.0, 4, -1.0),
        lambda: published.ClassicalGaussian(1.0, 0.0, 4, 1.0),
        lambda: published.ClassicalGaussian(1.0, 1.5, 4, 1.0),
        lambda: published.PublishedLaplace(1.0, 4, 1.0).release(np.zeros((2, 3)), seeded(0)),
    ],
)
def test_bad_settings_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        make()
