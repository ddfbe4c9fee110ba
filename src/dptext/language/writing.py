"""Writing with a language model: tokens are drawn by exact choices among options that public text determines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.language.reading import LanguageModel, Tokens
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import draw_by_weight, softmax
from dptext.types import Floats, Integers

#: The length in tokens of a run that comes once in a long text.
RUN: Final = 5
_TEXTS_AT_ONCE: Final = 64
#: A choice of the next token of texts, from log-probabilities `(rows, vocabulary)` and each row's tokens so far.
Choose = Callable[[Floats, Sequence[Tokens]], Integers]
#: Called with the number of texts written so far. Texts in the making count as the part of their steps that is done.
OnWritten = Callable[[int], None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Drafts:
    """Texts that a model wrote with a shift.

    Attributes:
        texts: their tokens.
        expected: how often a text is expected to have each token, `(size,)`.
        likely: sum of the log-probabilities, without shift, of all drawn tokens.
        drawn: number of drawn tokens, ends of texts among them.
    """

    texts: list[list[int]]
    expected: Floats
    likely: float
    drawn: int


def options_of(public: Floats, n: int, end: int) -> Integers:
    """The tokens that may be chosen in each row, `(rows, n)` in their order: the end, and the most likely others."""
    return np.stack([_options(row, n, end) for row in public])


def _options(row: Floats, n: int, end: int) -> Integers:
    # The n largest of the maxima of blocks are n tokens, so no token below the last of them is an option. To sort the
    # few hundred others takes a tenth of the time of a partition of the whole vocabulary.
    width = max(1, len(row) // (4 * n))
    blocks = np.sort(row[: len(row) // width * width].reshape(-1, width).max(axis=1))
    there = np.flatnonzero(row >= blocks[-n] if len(blocks) >= n else np.full(len(row), fill_value=True))
    others = there[there != end]
    best = others[np.argsort(-row[others], kind="stable")[: n - 1]]
    return np.sort(np.append(best, end))


class Shifted:
    """Draw in proportion to p^(1 / temperature) e^shift among the most likely options. Draws protect no private input.

    Tokens that are already in a text get no positive shift. `expected` `(size,)` is the expected number of occurrences
    of each token, summed over the steps. `drawn` is the number of drawn tokens, and `likely` the sum of their
    log-probabilities without shift. No text ends before it has `least` tokens, and with a `least` no run of `RUN`
    tokens comes twice in a text: a small model that may not end repeats itself.
    """

    __slots__ = ("_end", "_least", "_options", "_shift", "_source", "_temperature", "drawn", "expected", "likely")

    def __init__(
        self, temperature: float, options: int, end: int, source: Randomness, shift: Floats, *, least: int = 0
    ) -> None:
        self._least = least
        self._temperature, self._options, self._end = temperature, options, end
        self._source, self._shift = source, shift
        self.expected = np.zeros(len(shift))
        self.likely, self.drawn = 0.0, 0

    def __call__(self, public: Floats, texts: Sequence[Tokens]) -> Integers:
        """The next token of each text."""
        moved = public / self._temperature + self._shift
        for row, text in zip(moved, texts, strict=True):
            known = list(text)
            row[known] -= np.maximum(self._shift[known], 0.0)
            if self._least:
                row[repeating(known)] = -np.inf
            if len(known) < self._least:
                row[self._end] = -np.inf
        there = options_of(moved, self._options, self._end)
        weights = np.take_along_axis(moved, there, axis=1)
        np.add.at(self.expected, there, softmax(weights))
        found = np.asarray(there[np.arange(len(there)), draw_by_weight(weights, self._source)])
        self.likely += float(public[np.arange(len(there)), found].sum())
        self.drawn += len(there)
        return found


def repeating(text: Sequence[int]) -> list[int]:
    """Return the tokens that would end a run of `RUN` tokens that the text has already."""
    n, last = RUN - 1, list(text[-(RUN - 1) :])
    if len(text) < RUN:
        return []
    return [text[i + n] for i in range(len(text) - n) if list(text[i : i + n]) == last]


def by_temperature(temperature: float, options: int, end: int, source: Randomness) -> Choose:
    """Draw in proportion to p^(1 / temperature) among the most likely options. Draws protect no private input."""

    def choose(public: Floats, _: Sequence[Tokens]) -> Integers:
        there = options_of(public, options, end)
        drawn = draw_by_weight(np.take_along_axis(public, there, axis=1) / temperature, source)
        return np.asarray(there[np.arange(len(there)), drawn])

    return choose


def write(
    model: LanguageModel,
    prompts: Sequence[Tokens],
    choose: Choose,
    *,
    end: int,
    most: int,
    on_progress: OnWritten | None = None,
) -> list[list[int]]:
    """Continue each prompt up to `end`, by at most `most` tokens. ConfigError: a prompt is empty or too long."""
    written: list[list[int]] = []
    for start in range(0, len(prompts), _TEXTS_AT_ONCE):
        part = prompts[start : start + _TEXTS_AT_ONCE]
        contexts, found = model.contexts(part, more=most), [list[int]() for _ in part]
        going = np.arange(len(part))
        for step in range(most):
            chosen = choose(contexts.log_probabilities(going), [found[i] for i in going])
            going, chosen = going[chosen != end], chosen[chosen != end]
            for i, token in zip(going.tolist(), chosen.tolist(), strict=True):
                found[i].append(token)
            if not len(going):
                break
            contexts.append(chosen, going)
            if on_progress is not None:
                on_progress(start + len(part) * step // most)
        written += found
        if on_progress is not None:
            on_progress(len(written))
    return written
