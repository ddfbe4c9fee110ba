"""Writing by choices of tokens among public options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from dptext.language.writing import by_temperature, write
from dptext.sampling.randomness import seeded


def test_a_temperature_is_the_root_of_a_chance() -> None:
    """At temperature 1/2 chances are squared, and the least likely token is no option."""
    public = np.log([0.5, 0.25, 0.2, 0.05])
    drawn = by_temperature(0.5, 3, 2, seeded(1))(np.tile(public, (20_000, 1)), [])
    squared = np.array([0.25, 0.0625, 0.04, 0.0])
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 20_000, squared / squared.sum(), atol=0.02)


class Endless:
    """A model that says nothing. It has room for as many tokens as it was asked for."""

    def __init__(self) -> None:
        self.room: list[int] = []

    def contexts(self, prompts: Sequence[Sequence[int]], *, more: int) -> Self:
        self.room = [more] * len(prompts)
        return self

    def log_probabilities(self, texts: Any) -> Any:
        return np.zeros((len(texts), 3))

    def append(self, tokens: Any, texts: Any) -> None:
        for text in texts:
            self.room[text] -= 1


def test_a_text_that_does_not_end_has_the_largest_number_of_tokens_and_no_more() -> None:
    model: Any = Endless()
    texts = write(model, [[5]] * 3, lambda public, _: np.ones(len(public), np.int64), end=0, most=4)
    assert texts == [[1] * 4] * 3
    assert model.room == [0] * 3
