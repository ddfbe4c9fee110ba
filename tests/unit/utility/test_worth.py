"""The verdict on a corpus beside all public texts, as many of them, and the most frequent label."""

from __future__ import annotations

import numpy as np
import pytest

from dptext.utility.gap import FEWEST, closed_gap, difference
from dptext.utility.worth import CorpusWorth, other_mix

N = 400


def judged(
    own: float, made: float, public: float, many: float | None = None, least: float = 0.3, n: int = N
) -> CorpusWorth:
    """A corpus with these accuracies, of classifiers that err on the same texts."""
    ease = np.random.default_rng(0).random(n)
    right = {name: ease < share for name, share in
             {"own": own, "made": made, "public": public, "many": many or 0, "least": least}.items()}  # fmt: skip
    return CorpusWorth(
        closed_gap(right["own"], right["made"], right["public"]),
        "all 900 public texts",
        None if many is None else difference(right["made"], right["many"]),
        "as many public texts of the same mix",
        difference(right["made"], right["least"]),
        difference(right["own"], right["least"]),
    )


@pytest.mark.parametrize(
    ("many", "public", "word", "said"),
    [
        (0.6, 0.7, "yes", "more than as many public texts of the same mix, and more than all 900 public texts."),
        (0.6, 0.8, "in part", "more than as many public texts of the same mix, but is not shown to teach more than"),
        (0.6, 0.89, "in part", "but less than all 900 public texts: more texts may help (write --size)."),
        (0.8, 0.7, "not shown", "more than all 900 public texts, but is not shown to teach more than as many"),
        (0.8, 0.8, "not shown", "not shown to teach more than as many public texts of the same mix, nor more than all"),
        (0.8, 0.89, "no", "teaches less than all 900 public texts: take the public texts."),
        (0.9, 0.7, "no", "more than all 900 public texts, but less than as many public texts of the same mix"),
        (0.9, 0.8, "no", "less than as many public texts of the same mix: take the public texts."),
        (0.9, 0.89, "no", "and less than all 900 public texts: take the public texts."),
        (None, 0.7, "yes", "The corpus teaches more than all 900 public texts."),
        (None, 0.8, "not shown", "not shown to teach more than all 900 public texts."),
        (None, 0.89, "no", "less than all 900 public texts: take the public texts."),
    ],
)
def test_the_verdict_names_what_it_rests_on(many: float | None, public: float, word: str, said: str) -> None:
    found = judged(0.95, 0.8, public, many)
    assert found.verdict()[0] == word
    assert said in found.sentence
    assert found.answer.startswith(f"{word}. {found.sentence}")
    assert ("beside draws of as many" in found.answer) == (many is not None)
    assert f"over the {N} real texts that were judged, not over the noise" in found.answer
    assert ("of the gap from there to originals is closed" in found.answer) == (public == 0.7)
    assert found.to_dict()["verdict"] == word


def test_the_most_frequent_label_takes_a_yes_away() -> None:
    """Where a corpus says one label of all texts, it is above bad public texts and teaches nothing."""
    found = judged(0.95, 0.8, 0.5, 0.5, least=0.8)
    assert found.verdict()[0] == "not shown"
    assert "not shown to teach more than the most frequent label alone" in found.sentence


def test_originals_that_teach_nothing_judge_nothing() -> None:
    found = judged(0.8, 0.8, 0.5, 0.5, least=0.8)
    assert found.verdict()[0] == "not shown"
    assert "nothing can be judged" in found.sentence
    worse = judged(0.5, 0.5, 0.7, 0.7, least=0.5)  # public texts teach what originals do not
    assert worse.verdict()[0] == "no"
    assert "take the public texts. Originals, too, are not" in worse.sentence


def test_few_texts_and_no_gap_are_no_yes() -> None:
    few = judged(0.9, 0.8, 0.2, 0.2, least=0.1, n=FEWEST - 1)
    assert few.verdict()[0] == "not shown"
    assert f"give {FEWEST} or more" in few.sentence
    flat = judged(0.805, 0.9, 0.8, 0.6)
    assert flat.closed.closed is None
    assert flat.verdict()[0] == "yes", "a corpus of another mix may teach more than its originals"
    assert "there is no gap to close" in flat.sentence


def test_another_mix_is_said_beyond_chance_only() -> None:
    own = ["a"] * 200 + ["b"] * 100 + [None] * 50
    assert other_mix(own, ["a"] * 100 + ["b"] * 50) is None
    apart = other_mix(own, ["a"] * 20 + ["b"] * 180)
    assert apart is not None
    assert apart[0] == pytest.approx(2 / 3 - 0.1)
    assert apart[1] in ("a", "b")
    assert other_mix(own, ["a", "b", "b", "b"]) is None  # so few may have any mix
    assert other_mix(own, ["a"] * 100 + ["c"] * 100) == (pytest.approx(0.5), "c")
    assert other_mix(own, []) is other_mix([], []) is other_mix([None], [None]) is None
