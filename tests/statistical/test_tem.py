"""TEM draws its distribution, by trials, by shells and by both; planted faults in either are seen."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dptext.embeddings.vectors import WordVectors
from dptext.errors import PrivacyError
from dptext.mechanisms.words import vocabulary
from dptext.mechanisms.words.vocabulary import WordDraws, WordPoints
from dptext.sampling.exponential import SHELLS, TruncatedExponential
from dptext.sampling.randomness import seeded

N = 20_000


@pytest.fixture(scope="module")
def words() -> WordPoints:
    """400 words, some in one place, around two centres: weights from 1 to those beyond gamma."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 4)) + np.repeat([[0.0], [3.0]], 200, axis=0)
    points[100:110] = points[0]
    given = WordVectors([f"w{i}" for i in range(400)], points.astype(np.float32), name="test")
    exact = given.vectors.astype(np.float64)
    return WordPoints(given, exact, exact.mean(axis=0), None)


def draws_of(words: WordPoints, epsilon: float, rounds: int | None = None) -> WordDraws:
    threshold = TruncatedExponential.threshold_for(epsilon, 400, 0.1)
    draws = WordDraws(words, TruncatedExponential(epsilon, threshold, 400))
    if rounds is not None:
        object.__setattr__(draws, "rounds", rounds)
    return draws


def fits(draws: WordDraws, index: int, seed: int, stated: TruncatedExponential | None = None) -> bool:
    """Chi-square of N draws for one word against the stated distribution."""
    drawn = draws.draw(np.full(N, index), seeded(seed))
    distances = np.linalg.norm(draws.words.at(np.array([index])) - draws.words.points, axis=1)
    expected = (stated or draws.choice).distribution(distances[None])[0] * N
    counts = np.bincount(drawn, minlength=400)
    rare = expected < 5
    counts, expected = (np.append(each[~rare], each[rare].sum()) for each in (counts, expected))
    return bool(stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-4)


#: epsilon and rounds: by trials alone, by both, by shells alone.
WAYS = [(0.05, 12), (0.05, 0), (1.0, 12), (1.0, 1), (1.0, 0), (4.0, 3), (4.0, 0), (50.0, 0)]


@pytest.mark.slow_cases("1.0-0", "1.0-1", "4.0-0", why="other rounds at the same epsilons stay")
@pytest.mark.parametrize(("epsilon", "rounds"), WAYS)
def test_each_way_draws_the_stated_distribution(words: WordPoints, epsilon: float, rounds: int) -> None:
    draws = draws_of(words, epsilon, rounds)
    for index in (0, 399, -1):
        assert fits(draws, index, seed=1)
    if epsilon in (1.0, 4.0):
        for factor in (2 / 3, 3 / 2):
            wrong = replace(draws.choice, epsilon=epsilon * factor, threshold=draws.choice.threshold / factor)
            assert not fits(draws, 0, 1, wrong)


def test_a_batch_of_several_words_draws_for_each_its_own(words: WordPoints) -> None:
    draws = draws_of(words, 1.0, 1)
    indices = np.tile([5, 300, 5, -1], N // 2)
    drawn = draws.draw(indices, seeded(2))
    for index in (5, 300, -1):
        distances = np.linalg.norm(words.at(np.array([index])) - words.points, axis=1)
        expected = draws.choice.distribution(distances[None])[0] * (indices == index).sum()
        counts = np.bincount(drawn[indices == index], minlength=400)
        rare = expected < 5
        counts, expected = (np.append(each[~rare], each[rare].sum()) for each in (counts, expected))
        assert stats.chisquare(counts, expected).pvalue > 1e-4
    # tokens of one word that stand side by side are independent
    same = (drawn.reshape(-1, 4)[:, 0] == drawn.reshape(-1, 4)[:, 2]).mean()
    chances = draws.choice.distribution(np.linalg.norm(words.points[5] - words.points, axis=1)[None])[0]
    assert same == pytest.approx(float(np.square(chances).sum()), abs=0.01)


@pytest.mark.slow  # the frequencies of each way are compared with the stated ones
def test_the_whole_vocabulary_drawn_from_at_once_agrees(words: WordPoints) -> None:
    """The straightforward draw, by the integer weights of all words, has the same frequencies."""
    draws = draws_of(words, 1.0)
    distances = np.linalg.norm(words.points[3] - words.points, axis=1)
    plain = draws.choice.choose(np.tile(distances, (N, 1)), seeded(3))
    ours = draws.draw(np.full(N, 3), seeded(4))
    table = np.stack([np.bincount(each, minlength=400) for each in (plain, ours)])
    often = table.sum(axis=0) >= 10
    table = np.column_stack([table[:, often], table[:, ~often].sum(axis=1)])
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize("rounds", [12, 0])
def test_keeping_every_proposal_is_seen(words: WordPoints, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TruncatedExponential, "keep", lambda self, distances, *_: np.ones(distances.shape, bool))
    assert not fits(draws_of(words, 1.0, rounds), 0, seed=1)


def test_shells_that_are_proposed_by_their_size_alone_are_seen(
    words: WordPoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flat(counts: np.ndarray) -> np.ndarray:
        limbs = np.zeros((3, *counts.shape), np.uint64)
        limbs[2] = counts
        return limbs

    monkeypatch.setattr(vocabulary, "proposal_weights", flat)
    assert not fits(draws_of(words, 1.0, 0), 0, seed=1)


def test_a_first_member_instead_of_any_is_seen(words: WordPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "uniform_below_each", lambda bounds, source: np.zeros_like(bounds))
    assert not fits(draws_of(words, 1.0, 0), 0, seed=1)


def test_a_word_beside_the_kept_one_is_seen(words: WordPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    original = TruncatedExponential.keep
    monkeypatch.setattr(TruncatedExponential, "keep", lambda *arguments: np.roll(original(*arguments), 1))
    assert not fits(draws_of(words, 1.0, 12), 0, seed=1)


def test_a_word_in_no_shell_is_refused(words: WordPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a distance that is not a number became a number beyond the shells."""
    sound = TruncatedExponential.shells

    def beyond(choice: TruncatedExponential, least: np.ndarray) -> np.ndarray:
        found = sound(choice, least)
        found[0, 3] = 255
        return found

    draws = draws_of(words, 2.0, rounds=0)
    assert (draws.draw(np.arange(4), seeded(0)) >= 0).all()
    monkeypatch.setattr(TruncatedExponential, "shells", beyond)
    with pytest.raises(PrivacyError, match="not a number"):
        draws.draw(np.arange(4), seeded(0))


def test_no_weight_is_beyond_the_last_shell() -> None:
    largest = TruncatedExponential(1.0, 70.0, 2)
    assert int(largest.shells(np.array([[1e6]], np.float32))[0, 0]) == 50 < SHELLS
