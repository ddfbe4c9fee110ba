"""The scales of ADePT's noises and choices: the right one is accepted, 2/3 and 3/2 of it are rejected."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special, stats

torch = pytest.importorskip("torch")

from dptext import audits  # noqa: E402
from dptext.sampling.envelope import EnvelopeResponse, top_k_envelope  # noqa: E402
from dptext.sampling.randomness import secure  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext.text.samples import sample_records  # noqa: E402
from dptext_lab.adept.net.codebook import TextCodebook  # noqa: E402
from dptext_lab.adept.net.model import AnnotatedModel  # noqa: E402
from dptext_lab.adept.net.network import Architecture, AutoEncoder  # noqa: E402
from dptext_lab.adept.published import PublishedAdept, PublishedAdeptMechanism  # noqa: E402
from dptext_lab.adept.sound import Adept, AdeptCodebook, AdeptNoise  # noqa: E402
from dptext_lab.nets.tokens import Tokens  # noqa: E402

LABELS = ("health", "travel", "money", "leisure")
RECORDS = sample_records(60)
ROWS = 2000
SMALL_P = 1e-6
FACTORS = (2 / 3, 3 / 2)


pytestmark = pytest.mark.usefixtures("one_thread")


def network(dim: int, *, hidden: int = 8, projected: bool = True) -> AnnotatedModel:
    """Of random weights: the noise does not ask what the network has learnt."""
    tokens = Tokens.from_public([r.text for r in RECORDS], labels=LABELS, max_tokens=8, min_count=1, max_words=500)
    sizes = Architecture(len(tokens), tokens.length, dim, hidden, 8, 1.0, projected=projected)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AnnotatedModel(AutoEncoder(sizes), tokens, None)


def mechanism(noise: str, *, dim: int, epsilon: float, clip_norm: float = 1.5, delta: float = 0.0) -> AdeptNoise:
    spec = Adept(
        epsilon,
        LABELS,
        noise,
        delta=delta,
        encoder="lstm",
        latent_dim=dim,
        clip_norm=clip_norm,
        max_tokens=8,
        hidden=8,
        embedding=8,
    )
    return AdeptNoise(spec, network(dim))


def released_noise(subject: AdeptNoise | PublishedAdeptMechanism, dim: int) -> np.ndarray:
    """What is added to a latent inside the ball."""
    latents = np.tile(np.linspace(-0.2, 0.2, dim) / math.sqrt(dim), (ROWS, 1))
    return subject.release(latents, secure()) - latents


def fits(sample: np.ndarray, cdf) -> bool:
    return bool(stats.kstest(sample.ravel(), cdf).pvalue > SMALL_P)


def analytic_sigma(epsilon: float, delta: float, distance: float) -> float:
    """Balle and Wang 2018, theorem 8, solved by a root finder."""

    def excess(sigma: float) -> float:
        a, b = distance / (2 * sigma), epsilon * sigma / distance
        return math.exp(special.log_ndtr(a - b)) - math.exp(epsilon + special.log_ndtr(-a - b)) - delta

    return float(optimize.brentq(excess, 1e-3, 1e3))


# ------------------------------------------------------------------ noise on latents


@pytest.mark.parametrize(("epsilon", "dim"), [(1.0, 4), (10.0, 16)])
def test_gaussian_noise_has_the_analytic_sigma(epsilon: float, dim: int) -> None:
    found = released_noise(mechanism("gaussian", dim=dim, epsilon=epsilon, delta=1e-5), dim)
    sigma = analytic_sigma(epsilon, 1e-5, 3.0)
    assert fits(found, stats.norm(scale=sigma).cdf)
    assert not any(fits(found, stats.norm(scale=factor * sigma).cdf) for factor in FACTORS)


@pytest.mark.parametrize("noise", ["laplace_l2", "laplace_l1"])
@pytest.mark.parametrize(("epsilon", "dim"), [(1.0, 4), (10.0, 16)])
def test_laplace_noise_is_scaled_for_the_true_distance(noise: str, epsilon: float, dim: int) -> None:
    found = released_noise(mechanism(noise, dim=dim, epsilon=epsilon), dim)
    scale = 2 * 1.5 * (math.sqrt(dim) if noise == "laplace_l2" else 1) / epsilon
    assert fits(found, stats.laplace(scale=scale).cdf)
    assert not any(fits(found, stats.laplace(scale=factor * scale).cdf) for factor in FACTORS)


@pytest.mark.parametrize(("epsilon", "dim"), [(1.0, 4), (10.0, 16)])
def test_l2_laplace_noise_has_a_gamma_radius(epsilon: float, dim: int) -> None:
    found = released_noise(mechanism("l2_laplace", dim=dim, epsilon=epsilon), dim)
    radius, scale = np.linalg.norm(found, axis=1), 2 * 1.5 / epsilon
    assert fits(radius, stats.gamma(dim, scale=scale).cdf)
    assert not any(fits(radius, stats.gamma(dim, scale=factor * scale).cdf) for factor in FACTORS)
    assert fits(np.square(found[:, 0] / radius), stats.beta(0.5, (dim - 1) / 2).cdf)  # in all directions alike


@pytest.mark.parametrize(
    ("dim", "epsilon", "m", "gamma", "p"), [(31, 5.0, 0.3209, 0.3210, 0.8404), (127, 10.0, 0.2828, 0.2828, 0.9278)]
)
def test_privunit_has_the_mean_cosine_of_the_literature(
    dim: int, epsilon: float, m: float, gamma: float, p: float
) -> None:
    """derivations, "PrivUnit": (n, epsilon) -> (m, gamma, p) on the sphere of n = dim + 1 dimensions."""
    latent = np.full((ROWS, dim), 1.5 / math.sqrt(dim))

    def accepted(at: float) -> bool:
        released = mechanism("privunit", dim=dim, epsilon=at).release(latent, secure()) / 1.5
        along = released @ latent[0] / 1.5
        cosines = along / np.linalg.norm(released, axis=1)
        unbiased = abs(along.mean() - 1) < 6 * along.std() / math.sqrt(ROWS)
        # the dropped coordinate is at most a part 1 / dim of the square
        length = 1 - 1.5 / dim < np.square(released).sum(axis=1).mean() * m**2 < 1 + 1e-3
        inside = abs(float((along * m >= gamma * (1 - 1e-3)).mean()) - p) < 6 * math.sqrt(p * (1 - p) / ROWS)
        return bool(unbiased and length and inside and abs(cosines.mean() / m - 1) < 0.1)

    assert accepted(epsilon)
    assert not any(accepted(factor * epsilon) for factor in FACTORS)


@pytest.mark.slow_cases("gaussian", why="test_the_published_noise_draws_the_variance_it_is_named_after has both")
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_published_noise_has_its_variance(noise: str) -> None:
    for variance in (0.25, 1.0):
        spec = PublishedAdept(variance=variance, noise=noise, labels=LABELS, hidden=8, embedding=8, max_tokens=8)
        found = released_noise(PublishedAdeptMechanism(spec, network(16, projected=False)), 16)
        law = stats.laplace if noise == "laplace" else stats.norm
        scale = math.sqrt(variance / (2 if noise == "laplace" else 1))
        assert fits(found, law(scale=scale).cdf)
        assert not any(fits(found, law(scale=factor * scale).cdf) for factor in FACTORS)


@pytest.mark.parametrize("noise", ["laplace_l2", "laplace_l1", "gaussian", "l2_laplace", "privunit"])
def test_rows_and_coordinates_are_independent(noise: str) -> None:
    subject = mechanism(noise, dim=8, epsilon=2.0, delta=1e-5 if noise == "gaussian" else 0.0)
    found = released_noise(subject, 8)
    assert len(np.unique(found, axis=0)) == ROWS
    off = np.corrcoef(found.T)[~np.eye(8, dtype=bool)]
    assert np.abs(off).max() < 6 / math.sqrt(ROWS)
    next_row = [np.corrcoef(found[:-1, i], found[1:, i])[0, 1] for i in range(8)]
    assert np.abs(next_row).max() < 6 / math.sqrt(ROWS)


# ------------------------------------------------------------------ the codebook


@pytest.fixture(scope="module")
def codebook() -> AdeptCodebook:
    model = network(8)
    spec = Adept(
        2.0, LABELS, encoder="lstm", latent_dim=8, max_tokens=8, hidden=8, embedding=8, codebook_size=len(RECORDS)
    )
    book = TextCodebook(
        tuple(f"text {i}" for i in range(40)),
        tuple(record.label for record in RECORDS[:40]),
        model.meanings(RECORDS[:40]),
        tuple(range(40)),
    )
    return AdeptCodebook(spec, model, book, EnvelopeResponse.of(top_k_envelope(5, 40, epsilon=2.0), epsilon=2.0))


@pytest.mark.parametrize(
    "record",  # a text of known words stays
    [RECORDS[50], pytest.param(Record("0", "zebra", label="zebra"), marks=pytest.mark.slow)],
)
def test_the_frequencies_are_those_of_the_stated_distribution(codebook: AdeptCodebook, record: Record) -> None:
    n = 20_000
    released = codebook.privatize([record] * n, secure())
    counts: dict[str, int] = {}
    for release in released:
        key = f"{release.label}\x1f{release.output}"
        counts[key] = counts.get(key, 0) + 1

    def accepted(epsilon: float) -> bool:
        choice = EnvelopeResponse.of(codebook.choice.least / codebook.choice.total, epsilon=epsilon)
        other = AdeptCodebook(
            replace(codebook.spec, epsilon=epsilon), codebook.model, codebook.codebook, choice
        ).output_distribution(record)
        assert set(counts) <= set(other)
        observed = [counts.get(key, 0) for key in other]
        return bool(stats.chisquare(observed, np.array(list(other.values())) * n).pvalue > SMALL_P)

    assert accepted(2.0)
    assert not any(accepted(factor * 2.0) for factor in FACTORS)
    assert not fits_swapped(codebook, counts, n)


def fits_swapped(codebook: AdeptCodebook, counts: dict[str, int], n: int) -> bool:
    """The planted fault: the distribution of a record with another label."""
    other = codebook.output_distribution(next(r for r in RECORDS if r.label != RECORDS[50].label))
    observed = [counts.get(key, 0) for key in other]
    return bool(stats.chisquare(observed, np.array(list(other.values())) * n).pvalue > SMALL_P)


# ------------------------------------------------------------------ attacks


@pytest.mark.slow  # test_laplace_noise_is_scaled_for_the_true_distance stays
def test_the_mended_laplace_is_as_tight_as_it_claims() -> None:
    subject = mechanism("laplace_l2", dim=4, epsilon=3.0)
    corner = np.full(4, 1.5 / 2)
    claim = subject.spec.guarantee()
    report = audits.whitebox(subject, corner, -corner, claim=claim, trials=4000)
    assert not report.refutes(claim)
    assert report.defects == ()
    assert report.epsilon_lower_bound == pytest.approx(3.0, rel=0.01)
    for wrong in (2.0, 2.9):
        assert report.refutes(replace(claim, epsilon=wrong))
