"""What a corpus keeps of another, on clouds whose distances are known, and defects that must be seen."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Floats
from dptext.utility.classification import best_zero_shot, zero_shot
from dptext.utility.corpus import corpus_kept, covered, frechet_distance, told_apart, topic_distance

RNG = np.random.default_rng(5)


def gaussian(mean: Sequence[float], deviations: Sequence[float], turn: Floats, n: int = 400) -> Floats:
    """Rows whose sample mean and covariance are exactly these."""
    rows = RNG.normal(size=(n, len(mean)))
    rows -= rows.mean(axis=0)
    rows = rows @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(rows.T)))).T
    return (rows * deviations + mean) @ turn


def holds(distance: Callable[[Floats, Floats], float]) -> bool:
    """Whether a distance is the closed form of Gaussians with one set of axes: |m - n|^2 + sum (s - t)^2."""
    turn = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    one = gaussian([0, 1, 2], [1, 2, 3], turn)
    other = gaussian([1, 1, 0], [2, 2, 0.5], turn)
    return bool(np.isclose(distance(one, other), 5 + 1 + 0 + 6.25)) and abs(distance(one, one)) < 1e-9


def test_frechet_distance_of_two_gaussians() -> None:
    assert holds(frechet_distance)
    line = gaussian([0], [1], np.eye(1))
    assert frechet_distance(line, line + 2) == pytest.approx(4)


@pytest.mark.parametrize(
    "fault",
    [
        lambda a, b: float(np.square(a.mean(0) - b.mean(0)).sum()),  # means alone
        lambda a, b: float(np.sqrt(frechet_distance(a, b))),  # not squared
        lambda a, b: float(
            np.square(a.mean(0) - b.mean(0)).sum() + np.trace(np.cov(a.T) + np.cov(b.T) - 2 * np.cov(a.T) @ np.cov(b.T))
        ),  # no root
    ],
)
def test_a_wrong_frechet_distance_is_seen(fault: Callable[[Floats, Floats], float]) -> None:
    assert not holds(fault)


def test_clouds_cover_what_is_within_their_balls() -> None:
    cloud = np.arange(6.0)[:, None]  # of 0 the third neighbour is 3: the ball ends at -3
    assert covered(np.array([[-3.0], [2.5]]), cloud).value == 1
    assert covered(np.array([[-3.01], [8.01]]), cloud).value == 0
    far, near = RNG.normal(size=(200, 4)), RNG.normal(size=(200, 4))
    assert covered(far + 50, near).value == covered(near, far + 50).value == 0
    assert covered(far, near).value > 0.8
    part = near[near[:, 0] > 0]  # half of the cloud: all of it is real, and half of the real is missing
    assert covered(part, near).value == 1
    assert covered(near, part).value < 0.8
    with pytest.raises(ConfigError, match="at least 4 points"):
        covered(far, near[:3])


def test_equal_clouds_cannot_be_told_apart_and_others_can() -> None:
    one, other = RNG.normal(size=(600, 5)), RNG.normal(size=(600, 5))
    same = told_apart(one, other)
    assert same.low < 0.5 < same.high
    assert told_apart(one + 4, other).low > 0.95
    with pytest.raises(ConfigError, match="two sets"):
        told_apart(one, other[:, :3])


def test_a_text_that_leaves_many_times_is_not_learnt_by_heart() -> None:
    few, other = RNG.normal(size=(40, 60)), RNG.normal(size=(400, 60))
    assert told_apart(np.repeat(few, 10, axis=0), other).value < 0.8  # in both halves it would be told for sure: 1.0


def test_topics_of_two_clusters() -> None:
    left, right = RNG.normal(size=(200, 2)) / 50, RNG.normal(size=(200, 2)) / 50 + 3
    pool = np.concatenate([left[:10], right[:10]])
    many, even = np.concatenate([left[:90], right[:10]]), np.concatenate([left[:50], right[:50]])
    assert topic_distance(many, even, pool) == pytest.approx(0.4)
    assert topic_distance(many, many, pool) == 0


class Letters:
    """Embeds a text by how often it has each of eight letters."""

    name, dim = "letters", 8

    def embed(self, texts: Sequence[str]) -> Floats:
        counts = np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], np.float64)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


def records(n: int, first: str) -> list[Record]:
    """Texts of letters, half of them of a and b, the others of c and d, with the label of each."""
    found = []
    for i in range(n):
        label, letters = ("low", "ab") if i % 2 else ("high", "cd")
        words = ["".join(RNG.choice([*letters, "g", "h"], 4)) for _ in range(5)]
        found.append(Record(str(i), " ".join([first * 2, letters[0], *words]), label))
    return found


def test_what_a_corpus_keeps() -> None:
    private, real, pool = records(120, "e"), records(120, "e"), records(160, "e")
    sides = {"private": private, "real": real, "pool": pool, "labels": ("low", "high"), "embedder": Letters()}
    texts = [record.text for record in pool]
    fine = corpus_kept(texts, [record.label for record in pool], **sides)
    assert fine.own_label == 1
    assert fine.mix_l1 == pytest.approx(0)
    wrong = corpus_kept(texts, ["low"] * len(texts), **sides)
    assert wrong.own_label == pytest.approx(0.5)
    assert wrong.mix_l1 == pytest.approx(1)
    other = corpus_kept([record.text for record in records(160, "f")], [None] * 160, **sides)
    assert other.mix_l1 is other.own_label is None
    assert other.told_apart.low > fine.told_apart.high
    assert other.frechet > 2 * fine.frechet
    one = corpus_kept([texts[0]] * 50, ["high"] * 50, **sides)
    assert one.told_apart is None or one.told_apart.low > 0.5  # a single text may lie in one half alone
    assert set(fine.to_dict()) == {name for name, _ in fine.cells()}


def test_names_label_public_texts() -> None:
    found = records(60, "e")
    names = {"low": "a b ab", "high": "c d cd"}
    texts, labels = zero_shot([record.text for record in found], names, Letters(), rounds=0)
    assert texts == [record.text for record in found]
    assert np.mean([label == record.label for label, record in zip(labels, found, strict=True)]) > 0.9
    surest, given = zero_shot(texts, names, Letters())
    assert len(surest) == len(given) <= 40
    assert len(best_zero_shot(texts, names, Letters(), found)[0]) in (len(texts), len(surest))
