"""TEM's draws by proposals, as fractions: whichever way a word is proposed, it comes with the stated probability."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dptext.embeddings.vectors import WordVectors
from dptext.errors import PrivacyError
from dptext.mechanisms.words.vocabulary import WordDraws, WordPoints, frequent_words, spread_words
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.sampling import exponential
from dptext.sampling.exponential import SHELLS, TruncatedExponential, proposal_weights
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record

CLOSE = Fraction(1, 2**40)


def draws_of(points: np.ndarray, epsilon: float, beta: float = 0.001) -> WordDraws:
    """Draws among words w0, w1, ... at these points."""
    given = WordVectors([f"w{i}" for i in range(len(points))], np.asarray(points, np.float32), name="test")
    exact = given.vectors.astype(np.float64)
    threshold = TruncatedExponential.threshold_for(epsilon, len(points), beta)
    choice = TruncatedExponential(epsilon, threshold, len(points))
    return WordDraws(WordPoints(given, exact, exact.mean(axis=0), None), choice)


def whole(limbs: np.ndarray) -> list[int]:
    """Integers given as limbs of 40 bits."""
    return [sum(int(limb) << (40 * i) for i, limb in enumerate(column)) for column in limbs.reshape(len(limbs), -1).T]


def distances_of(draws: WordDraws, index: int) -> np.ndarray:
    return np.linalg.norm(draws.words.at(np.array([index])) - draws.words.points, axis=1)


def chances(draws: WordDraws, index: int, shells: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[Fraction]:
    """The probability of each word for proposals by these shells: of being proposed, times that of being kept."""
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(exponential, "wide_bernoulli", lambda limbs, source: seen.append(limbs))
        draws.choice.keep(distances_of(draws, index), shells, secure())
    kept = [Fraction(weight, 2**119) for weight in whole(seen[0])]
    assert max(kept) <= 1
    counts = np.bincount(shells, minlength=SHELLS)
    shell = whole(proposal_weights(counts[None]))
    together = [Fraction(shell[k], int(counts[k])) * keep for k, keep in zip(shells.tolist(), kept, strict=True)]
    return [each / sum(together) for each in together]


def vocabularies() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    clusters = rng.normal(size=(8, 5)).repeat(4, 0) * 3 + rng.normal(size=(32, 5)) * 0.3
    return {
        "two words": np.array([[0.0, 0.0], [1.5, 0.0]]),
        "one place": np.full((5, 2), 7.0),
        "ties": np.eye(6),
        "doubles": np.repeat(rng.normal(size=(4, 3)), 3, axis=0),
        "clusters": clusters,
        "clusters far from zero": clusters + 300,
        "an outlier": np.vstack([clusters * 1e-3, np.full((1, 5), 400.0)])[::-1],
        "close by": clusters * 1e-4,
    }


@pytest.mark.slow_cases("1e-06", "6.0", why="smaller and larger epsilons stay, and two between them")
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 0.05, 1.0, 6.0, 50.0])
@pytest.mark.parametrize("name", vocabularies())
def test_both_ways_have_the_same_stated_distribution(
    name: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = draws_of(vocabularies()[name], epsilon)
    n_words = len(draws.words.points)
    for index in range(-1, min(n_words, 6)):
        shells = draws.choice.shells(draws._least_distances(np.array([index])))[0].astype(np.int64)
        by_shells = chances(draws, index, shells, monkeypatch)
        assert by_shells == chances(draws, index, np.zeros(n_words, np.int64), monkeypatch)
        stated = draws.choice.distribution(distances_of(draws, index)[None])[0].tolist()
        assert all(abs(Fraction(a) / b - 1) < CLOSE for a, b in zip(stated, by_shells, strict=True))
        drawn = draws.draw(np.full(20, index), secure())
        assert ((drawn >= 0) & (drawn < n_words)).all()


def test_a_gamma_below_all_distances_draws_the_own_word_or_any(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = draws_of(np.eye(6), 50.0)
    assert draws.choice.threshold < 1
    shells = draws.choice.shells(draws._least_distances(np.array([2])))[0].astype(np.int64)
    own, *others = np.unique(shells).tolist()
    assert (own, len(others)) == (0, 1)
    found = chances(draws, 2, shells, monkeypatch)
    assert len(set(found)) == 2
    assert found[2] > Fraction(99, 100)
    # the stand-in is as far from all words: they are alike
    assert len(set(draws.choice.shells(draws._least_distances(np.array([-1])))[0].tolist())) == 1


@pytest.mark.parametrize("dim", [1, 3, 50, 1024])
@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_shells_bound_the_weights_and_lie_close_to_them(dim: int, offset: float) -> None:
    """`keep` refuses a word whose weight is above the bound of its shell."""
    rng = np.random.default_rng(dim)
    points = offset + rng.normal(size=(400, dim)) * np.exp(rng.normal(size=(400, 1)))
    points[:50] = points[50:100] + rng.normal(size=(50, dim)) * 1e-3
    draws = draws_of(points, 12.0)
    indices = np.arange(-1, 30)
    least = draws._least_distances(indices)
    exact = np.linalg.norm(draws.words.at(indices)[:, None] - draws.words.points, axis=2)
    shells = draws.choice.shells(least).astype(np.int64)
    kept = draws.choice.keep(exact, shells, seeded(0))
    assert kept.mean() > 0.5
    weights = 2.0**shells * np.exp(-12 / 2 * np.minimum(exact, draws.choice.threshold))
    assert weights.max() < 1 + 1e-9
    assert np.quantile(weights, 0.01) > 0.49
    # the planted fault: a shell too high
    with pytest.raises(PrivacyError, match="below those of their shell"):
        draws.choice.keep(exact, shells + 1, seeded(0))


def test_distances_that_are_not_finite_are_refused() -> None:
    choice = TruncatedExponential(1.0, 5.0, 4)
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(PrivacyError, match="finite"):
            choice.keep(np.array([0.0, wrong]), np.zeros(2, np.int64), secure())


def test_trials_are_taken_where_most_succeed() -> None:
    """How many there are is public: it follows from the vocabulary and the settings."""
    points = np.random.default_rng(0).normal(size=(2000, 8))
    rounds = [draws_of(points, epsilon).rounds for epsilon in (1e-6, 0.05, 1.0, 20.0, 50.0)]
    assert rounds == [4, 4, 4, 0, 0]
    assert draws_of(points[:100], 0.05).rounds == 0  # so few words are looked at faster than they are tried


def test_equal_words_of_a_draw_share_their_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = draws_of(np.random.default_rng(0).normal(size=(500, 4)), 20.0)
    assert draws.rounds == 0
    looked = []
    original = TruncatedExponential.shells
    monkeypatch.setattr(
        TruncatedExponential, "shells", lambda self, least: looked.append(len(least)) or original(self, least)
    )
    drawn = draws.draw(np.array([7, 3, 7, -1, 7, 3] * 200), seeded(1)).reshape(-1, 6)
    assert sum(looked) == 3
    own = (drawn == [7, 3, 7, -1, 7, 3]).mean(axis=0)
    assert (own[[0, 1, 2, 4, 5]] > 0.1).all()


def test_one_token_no_token_and_many_give_valid_words(vectors: Path) -> None:
    for epsilon in (0.01, 3.0):
        mechanism = WordMetric(epsilon=epsilon, noise="tem", vectors=str(vectors), n_words=300).fit()
        texts = ["", "bababa", "bababa " * 5000, "zebra " * 5000]
        records = [Record(str(i), each) for i, each in enumerate(texts)]
        for source in (secure(), seeded(0)):
            lengths = [len(release.output.split()) for release in mechanism.privatize(records, source)]
            assert lengths == [0, 1, 5000, 5000]


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 20.0])
def test_the_measured_chance_of_the_own_word_is_the_exact_one(epsilon: float) -> None:
    for name, points in vocabularies().items():
        if name == "an outlier":
            continue  # float32 tells words apart by their distance from the mean
        draws = draws_of(points, epsilon)
        exact = [draws.choice.distribution(distances_of(draws, i)[None])[0, i] for i in range(len(points))]
        assert draws.chances_of_own(np.arange(len(points))) == pytest.approx(np.array(exact), rel=1e-3)


def test_a_large_vocabulary_is_measured_on_fewer_words() -> None:
    """So that `explain` takes no longer. Up to 50,000 words, the default, the sample is what it was."""
    for n_words, running, spread in ((2, 4000, 2), (300, 4000, 300), (50_000, 4000, 2000), (400_000, 1000, 100)):
        assert (len(frequent_words(n_words)), len(spread_words(n_words))) == (running, spread)
        assert frequent_words(n_words).max() == min(n_words, 200) - 1
        assert len(set(spread_words(n_words).tolist())) == spread
        assert spread_words(n_words)[[0, -1]].tolist() == [0, n_words - 1]
