"""How well public texts fit stand-ins of the private ones."""

import numpy as np
import pytest

from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.utility.corpus import ENOUGH, PoolFit, pool_fit


class Places:
    """Each text is its own place: numbers parted by blanks."""

    name, dim, digest = "places", 3, "0" * 64

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.array([[float(part) for part in text.split()] for text in texts])


def around(center: list[float], n: int, seed: int, spread: float = 0.3) -> list[str]:
    drawn = np.array(center) + spread * np.random.default_rng(seed).standard_normal((n, 3))
    return [" ".join(f"{part:.6f}" for part in row) for row in drawn]


def judged(public: object, stand_ins: object) -> PoolFit:
    return pool_fit(public, stand_ins, embedder=Places())


HERE, THERE = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]


def test_a_pool_of_the_same_domain_fits_and_another_does_not() -> None:
    found = judged(around(HERE, 300, 0), around(HERE, 150, 1))
    assert found.fits
    assert found.nearer > 0.5
    assert found.nearest.value > found.among.value
    assert found.sentences()[0] == "The public texts fit the stand-ins."
    other = judged(around(THERE, 300, 0), around(HERE, 150, 1))
    assert not other.fits
    assert other.nearer < 0.2
    assert other.sentences()[0].startswith("The public texts do not fit")
    assert "half of epsilon" in other.sentences()[-1]


def test_the_numbers_are_those_of_a_plain_loop() -> None:
    public, others = around(HERE, 40, 2), around(HERE, 300, 3)
    found = judged(public, others)
    p, q = (Places().embed(each) for each in (public, others))
    p, q = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (p, q))
    nearest = [max(float(a @ b) for b in p) for a in q]
    among = [max(float(a @ b) for j, b in enumerate(q) if j != i) for i, a in enumerate(q)]
    assert found.nearest.value == pytest.approx(np.mean(nearest), abs=1e-6)
    assert found.among.value == pytest.approx(np.mean(among), abs=1e-6)
    assert found.nearer == pytest.approx(np.mean(np.array(nearest) >= among), abs=0.01)


def test_copies_count_once_and_copies_of_public_texts_not_at_all() -> None:
    public, others = around(THERE, 300, 0), around(HERE, ENOUGH, 1)
    once = judged(public, others)
    assert judged(public, [*others, *others, *public]) == once
    assert once.stand_ins == ENOUGH
    assert "say little" not in " ".join(once.sentences())
    assert "say little" in " ".join(judged(public, others[1:]).sentences())


def test_labels_that_no_public_text_has_are_named() -> None:
    public = [Record(str(i), text, label="a") for i, text in enumerate(around(HERE, 300, 0))]
    others = [Record(str(i), text, label="ab"[i % 2]) for i, text in enumerate(around(HERE, 150, 1))]
    found = judged(public, others)
    assert found.missing == ("b",)
    assert not found.fits
    assert "labels 'b'" in " ".join(found.sentences())
    assert judged([record.text for record in public], others).missing == ()  # the public texts have none at all


def test_what_is_expected_of_one_source_follows_the_sizes() -> None:
    """A small pool of the same source has few of the nearest texts, and fits all the same."""
    found = [judged(around(HERE, 30, seed), around(HERE, 120, seed + 50)) for seed in range(8)]
    assert found[0].expected == 30 / 149
    assert np.mean([each.nearer for each in found]) == pytest.approx(30 / 149, abs=0.05)
    assert all(each.fits for each in found)


def test_too_few_are_refused() -> None:
    public = around(HERE, 5, 0)
    for few in ([], public, [*public, "9 9 9"]):
        with pytest.raises(ConfigError, match="two different stand-ins"):
            judged(public, few)
