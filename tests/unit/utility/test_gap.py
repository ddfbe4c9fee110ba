"""The share of the gap that a corpus closes, with its interval over real texts."""

from __future__ import annotations

import numpy as np
import pytest

from dptext import Record
from dptext.errors import ConfigError
from dptext.utility.classification import train_tfidf
from dptext.utility.gap import FEWEST, beside_draws, closed_gap, difference, right_answers

N = 400


def answers(*shares: float, n: int = N, seed: int = 0) -> list[np.ndarray]:
    """Right answers that belong together: an easy text is answered by all."""
    ease = np.random.default_rng(seed).random(n)
    return [ease < share for share in shares]


def test_a_share_has_an_interval() -> None:
    found = closed_gap(*answers(0.9, 0.8, 0.6))
    assert found.closed is not None
    assert 0 < found.closed.low < found.closed.value < found.closed.high < 1
    assert found.to_dict()["texts"] == N
    assert "not over the noise" in str(found.to_dict()["intervals"])


def test_texts_are_resampled_together() -> None:
    """The classifiers err on the same texts, so that the paired interval is narrower than one of strangers."""
    own, made, public = answers(0.9, 0.8, 0.6)
    apart = np.random.default_rng(1).permutation(N)
    paired, strange = closed_gap(own, made, public), closed_gap(own, made[apart], public)
    assert paired.closed is not None and strange.closed is not None  # noqa: PT018
    assert paired.closed.high - paired.closed.low < 0.7 * (strange.closed.high - strange.closed.low)


def test_an_interval_may_hold_0() -> None:
    own, _, public = answers(0.9, 0.6, 0.6)
    made = public.copy()
    made[:3] = ~made[:3]
    found = closed_gap(own, made, public)
    assert found.closed is not None
    assert found.closed.low <= 0 <= found.closed.high


def test_without_a_gap_there_is_no_share() -> None:
    found = closed_gap(*answers(0.805, 0.9, 0.8))
    assert found.closed is None
    assert found.more.low > 0  # more than public texts by itself


def test_few_texts_show_nothing_and_equal_answers_are_not_certain() -> None:
    assert closed_gap(*answers(0.9, 0.8, 0.2, n=FEWEST - 1)).closed is None
    same = closed_gap(*answers(0.9, 0.9, 0.6)).closed
    assert same is not None
    assert same.low < 1 < same.high
    with pytest.raises(ConfigError, match="as many"):
        closed_gap(*answers(0.9, 0.8), np.zeros(3, bool))


@pytest.mark.slow_cases("0.3", why="a share near the other end stays")
@pytest.mark.parametrize("share", [0.3, 0.75])
def test_the_interval_covers_the_share_about_as_often_as_it_says(share: float) -> None:
    held = 0
    for seed in range(60):
        found = closed_gap(*answers(0.9, 0.6 + 0.3 * share, 0.6, n=200, seed=seed), seed=seed).closed
        assert found is not None
        held += found.low <= share <= found.high
    assert held >= 51  # 95% of 60 are 57; fewer than 51 have a probability below 1 in 1,000


def test_right_answers_are_those_of_texts_with_a_label() -> None:
    trained = train_tfidf(["red rose", "blue sea", "red apple", "blue sky"], ["r", "b", "r", "b"])
    real = [Record("0", "red", "r"), Record("1", "blue", "r"), Record("2", "blue"), Record("3", "blue", "b")]
    assert right_answers(trained, real).tolist() == [True, False, True]
    assert right_answers(train_tfidf([], []), real).tolist() == [False] * 3


def test_a_draw_among_draws_is_seldom_shown_to_differ() -> None:
    """Classifiers of small draws differ by luck. Whoever compares with their mean alone takes that luck for a fact."""
    shown = {"draws": 0, "mean": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ease = rng.random(N)
        made, *draws = ((ease < share) for share in 0.75 + 0.04 * rng.standard_normal(9))
        found = {
            "draws": beside_draws(made, draws, seed=seed),
            "mean": difference(made, np.mean(draws, axis=0), seed=seed),
        }
        for name, each in found.items():
            shown[name] += each.low > 0 or each.high < 0
    assert shown["draws"] <= 6
    assert shown["mean"] >= 16


def test_a_row_far_from_all_draws_is_shown_to_differ() -> None:
    made, *draws = answers(0.9, 0.7, 0.72, 0.74)
    found = beside_draws(made, draws)
    assert 0 < found.low < found.value < found.high
    assert found.value == pytest.approx(np.mean([made.mean() - each.mean() for each in draws]))
    assert beside_draws(made, draws[:1]) == difference(made, draws[0])
    with pytest.raises(ConfigError, match="at least one draw"):
        beside_draws(made, [])
