"""The word mechanisms draw what they state: distances, exact probabilities, metric ratios, no verbatim escape."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dptext.embeddings.vector_files import load_word_vectors
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.guarantee import Basis, Unit
from dptext.sampling.exponential import TruncatedExponential
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from vectors import WORDS, sentences


def spec(vectors: Path, **changes) -> WordMetric:
    return WordMetric(**{"epsilon": 3.0, "vectors": str(vectors), "n_words": 300, **changes})


def outputs(mechanism, text: str, n: int, seed: int = 0) -> list[str]:
    return [release.output for release in mechanism.privatize([Record(str(i), text) for i in range(n)], seeded(seed))]


def word_counts(mechanism, word: int, n: int) -> np.ndarray:
    """How often each word of the vocabulary comes out for n times the same word."""
    released = Counter(outputs(mechanism, " ".join([WORDS[word]] * n), 1, seed=word)[0].split())
    return np.array([released[v] for v in WORDS])


def test_unknown_words_are_never_released(vectors: Path) -> None:
    text = "Zebra 4711 McX! \u4e16\u754c \U0001f600 o'neill\nNaN <br/> BABABA"
    for noise in ("multivariate", "mahalanobis", "tem"):
        for output in outputs(spec(vectors, noise=noise, epsilon=30.0).fit(), text, 50):
            words = output.split()
            assert set(words) <= set(WORDS)
            assert len(words) == sum(map(len, tokenize(text)))
            assert output.count("\n") == 1


def test_unknown_words_are_indistinguishable(vectors: Path) -> None:
    mechanism = spec(vectors).fit()
    assert outputs(mechanism, "zebra", 200) == outputs(mechanism, "4711", 200)


def test_unknown_words_stand_for_the_mean_of_all_vectors(vectors: Path) -> None:
    public = load_word_vectors(str(vectors), 300).vectors.astype(float)
    nearest = WORDS[int(np.linalg.norm(public - public.mean(axis=0), axis=1).argmin())]
    assert outputs(spec(vectors, epsilon=1e4).fit(), "zebra", 20) == [nearest] * 20
    # TEM finds no word within gamma of it, and draws from the whole vocabulary
    assert len(set(outputs(spec(vectors, noise="tem", epsilon=1e4).fit(), "zebra", 200))) > 50


def test_capitals_are_looked_up_in_lower_case(vectors: Path) -> None:
    mechanism = spec(vectors, epsilon=500.0).fit()
    assert outputs(mechanism, "Bababa COCOCO", 5) == ["bababa cococo"] * 5


def test_texts_are_cut_to_the_public_length(vectors: Path) -> None:
    mechanism = spec(vectors, max_tokens=3).fit()
    assert all(len(output.split()) == 3 for output in outputs(mechanism, "bababa " * 10, 20))


@pytest.mark.parametrize("noise", ["multivariate", "mahalanobis"])
def test_noise_has_the_stated_distribution(vectors: Path, noise: str) -> None:
    """The noise is replayed from the same seed, so the nearest word to vector + noise must be the output."""
    from dptext.sampling.float_noise import MetricNoise

    fitted = spec(vectors, noise=noise).fit()
    public = load_word_vectors(str(vectors), 300).vectors.astype(float)
    n = 400
    got = outputs(fitted, "bababa", n, seed=5)
    adder = MetricNoise(3.0, 6, 1000.0)
    root = np.eye(6) if noise == "multivariate" else fitted._root
    if noise == "mahalanobis":
        covariance = np.cov(public, rowvar=False)
        wanted = 0.2 * covariance * 6 / np.trace(covariance) + 0.8 * np.eye(6)
        assert np.allclose(root @ root, wanted, atol=1e-5)
    for i in range(n):
        z = seeded(5).at(i).rows([1], lambda source, rows: adder.draw(rows, source))
        y = adder.add(public[:1] @ np.linalg.inv(root), z) @ root
        nearest = WORDS[int(np.linalg.norm(public - y, axis=1).argmin())]
        assert got[i] == nearest
    radii = np.linalg.norm(adder.draw(20_000, seeded(6)), axis=1)
    assert stats.kstest(radii, stats.gamma(6, scale=1 / 3).cdf).pvalue > 1e-4
    assert stats.kstest(radii, stats.gamma(6, scale=1 / 2).cdf).pvalue < 1e-4


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_tem_draws_its_exact_distribution(vectors: Path, epsilon: float) -> None:
    fitted = spec(vectors, noise="tem", epsilon=epsilon).fit()
    public = load_word_vectors(str(vectors), 300).vectors.astype(float)
    distances = np.linalg.norm(public - public[7], axis=1)[None, :]
    choice = TruncatedExponential(epsilon, TruncatedExponential.threshold_for(epsilon, 300, 0.001), 300)
    n = 20_000
    counts = word_counts(fitted, 7, n)
    for factor, fits in ((1, True), (2 / 3, False), (3 / 2, False)):
        wrong = TruncatedExponential(epsilon * factor, choice.threshold, 300)
        expected = wrong.distribution(distances)[0] * n
        enough = expected >= 5
        observed, wanted = (
            np.append(counts[enough], counts[~enough].sum()),
            np.append(expected[enough], expected[~enough].sum()),
        )
        wanted = np.maximum(wanted, 1e-9)
        assert (stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4) == fits


@pytest.mark.slow_cases("multivariate", why="the noise itself is compared with the stated distribution")
@pytest.mark.parametrize("noise", ["multivariate", "tem"])
def test_outputs_of_two_words_obey_the_metric_bound(vectors: Path, noise: str) -> None:
    """Frequencies of each output word for two inputs: ratio at most e^(epsilon d), within 5 standard errors."""
    epsilon, n = 1.5, 20_000
    fitted = spec(vectors, noise=noise, epsilon=epsilon).fit()
    public = load_word_vectors(str(vectors), 300).vectors.astype(float)
    distances = np.linalg.norm(public[:10] - public[0], axis=1)
    near = int(np.argsort(distances)[1])
    a, b = (word_counts(fitted, word, n) for word in (0, near))
    bound = math.exp(epsilon * distances[near])
    assert bound < 15
    assert (a <= bound * b + 5 * np.sqrt(a + bound**2 * b + bound)).all()
    assert (b <= bound * a + 5 * np.sqrt(b + bound**2 * a + bound)).all()
    # the planted fault: noise for epsilon 8 would break the bound of epsilon 1.5
    loud = spec(vectors, noise=noise, epsilon=8.0).fit()
    c, d = (word_counts(loud, word, n) for word in (0, near))
    assert (c > bound * d + 5 * np.sqrt(c + bound**2 * d + bound)).any()


def test_guarantees_by_unit(vectors: Path) -> None:
    token = spec(vectors).guarantee()
    assert (token.unit, token.epsilon, token.basis) == (Unit.TOKEN, 3.0, Basis.CONDITIONAL)
    assert token.metric == f"Euclidean distance of word vectors ({vectors}, first 300 words)"
    assert 0 < token.delta < 1e-6
    assert token.reveals == ("the number of tokens", "the line structure")
    assert spec(vectors, noise="tem").guarantee().delta == 0
    for unit in (Unit.DOCUMENT, Unit.SENTENCE, Unit.AUTHOR):
        with pytest.raises(IncomparableError, match="diameter"):
            spec(vectors).guarantee(unit)
        with pytest.raises(IncomparableError, match="diameter"):
            spec(vectors).calibrate(5.0, unit=unit)
    document = spec(vectors, noise="tem", max_tokens=10, diameter=20.0).guarantee(Unit.DOCUMENT)
    assert document.epsilon == pytest.approx(600, rel=1e-9)
    assert document.metric is None
    calibrated = spec(vectors, noise="tem", max_tokens=10, diameter=20.0).calibrate(5.0, unit=Unit.DOCUMENT)
    assert 5.0 * (1 - 1e-6) <= calibrated.guarantee(Unit.DOCUMENT).epsilon <= 5.0
    assert spec(vectors).calibrate(7.0).epsilon == 7.0


def test_calibrating_a_document_refuses_what_the_slack_forbids(vectors: Path) -> None:
    long = spec(vectors, max_tokens=10, diameter=20.0)
    with pytest.raises(ConfigError, match="slack"):
        long.calibrate(5.0, unit=Unit.DOCUMENT, delta=1e-30)
    with pytest.raises(ConfigError, match="slack"):
        spec(vectors, max_tokens=10**8, diameter=20.0).calibrate(5.0, unit=Unit.DOCUMENT)
    assert long.calibrate(5.0, unit=Unit.DOCUMENT, delta=1e-3).guarantee(Unit.DOCUMENT, 1e-3).epsilon <= 5.0


def test_metrics_of_other_vectors_do_not_mix() -> None:
    one = WordMetric(epsilon=1.0, noise="mahalanobis", n_words=100).guarantee()
    for other in ({"n_words": 101}, {"mahalanobis_lambda": 0.20000001}, {"vectors": "x.txt"}):
        changed = WordMetric(**{"epsilon": 1.0, "noise": "mahalanobis", "n_words": 100, **other}).guarantee()
        with pytest.raises(IncomparableError):
            one.require_comparable(changed)


def test_a_diameter_that_is_too_small_is_refused(vectors: Path) -> None:
    for noise in ("multivariate", "mahalanobis", "tem"):
        with pytest.raises(ConfigError, match="largest distance of two words"):
            spec(vectors, noise=noise, max_tokens=5, diameter=3.0).fit()


def test_larger_epsilon_returns_more_words(vectors: Path) -> None:
    shares = [spec(vectors, epsilon=epsilon).fit().unchanged_share() for epsilon in (0.5, 5.0, 50.0)]
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert shares[2] > 0.9
    assert 0 <= spec(vectors).fit().unchanged_share_of_vocabulary() <= 1


@pytest.mark.slow  # test_noise_has_the_stated_distribution sees another scale
def test_glove_returns_as_many_words_as_measured() -> None:
    """As in derivations, "Word noise"."""
    for epsilon, share in ((6.0, 0.12), (10.0, 0.52), (15.0, 0.86), (30.0, 0.995)):
        assert WordMetric(epsilon=epsilon).fit().unchanged_share() == pytest.approx(share, abs=0.02)


def test_secure_runs_differ(vectors: Path) -> None:
    mechanism = spec(vectors, epsilon=1.0).fit()
    record = [Record("0", " ".join(sentences(5)))]
    assert mechanism.privatize(record, secure())[0].output != mechanism.privatize(record, secure())[0].output
