"""A trigram model of annotated utterances with absolute discounting: what an attacker can think of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

START, STOP = "<s>", "</s>"
_DISCOUNT = 0.5

Utterance = tuple[str, ...]


class Trigrams:
    """P(word | two words before it), interpolated with that given one word, with none, and with all words alike.

    An utterance is a tuple of words, the first of which may be its label.
    """

    def __init__(self, utterances: Iterable[Utterance]) -> None:
        self._counts: list[dict[Utterance, Counter[str]]] = [defaultdict(Counter) for _ in range(3)]
        vocabulary = {STOP}
        for words in utterances:
            padded = (START, START, *words, STOP)
            vocabulary.update(words)
            for i in range(2, len(padded)):
                for order in range(3):
                    self._counts[order][padded[i - order : i]][padded[i]] += 1
        self._words = sorted(vocabulary)
        self._drawn: dict[Utterance, tuple[list[str], np.ndarray, float]] = {}

    def probability(self, word: str, before: Sequence[str]) -> float:
        """P(word | the last two of the words before it)."""
        chance = 1.0 / len(self._words)
        padded = (START, START, *before)
        for order in range(3):
            counts = self._counts[order].get(padded[len(padded) - order :])
            if counts is None:
                break
            total = counts.total()
            chance = max(counts[word] - _DISCOUNT, 0.0) / total + _DISCOUNT * len(counts) / total * chance
        return chance

    def log_probability(self, words: Utterance) -> float:
        """The log probability of the whole utterance with its end."""
        ended = (*words, STOP)
        return float(sum(np.log(self.probability(word, ended[:i])) for i, word in enumerate(ended)))

    def generate(self, rng: np.random.Generator, *, longest: int) -> Utterance | None:
        """One utterance; None where it got longer than that, or has fewer than two words."""
        words: list[str] = []
        while len(words) <= longest:
            word = self._next((START, START, *words)[-2:], rng)
            if word == STOP:
                return tuple(words) if len(words) > 1 else None
            words.append(word)
        return None

    def _next(self, context: Utterance, rng: np.random.Generator) -> str:
        for order in (2, 1, 0):
            key = context[2 - order :]
            if key not in self._drawn:
                counts = self._counts[order].get(key, Counter())
                total = counts.total()
                heights = np.cumsum([count - _DISCOUNT for count in counts.values()]) / max(total, 1)
                self._drawn[key] = (list(counts), heights, float(heights[-1]) if total else 0.0)
            words, heights, kept = self._drawn[key]
            draw = rng.random()
            if draw < kept:
                return words[int(np.searchsorted(heights, draw, side="right"))]
        return self._words[int(rng.integers(len(self._words)))]


def generate_distinct(model: Trigrams, count: int, *, longest: int, seed: int, attempts: int = 20) -> list[Utterance]:
    """So many different utterances in the order in which they were drawn, or what `attempts` tries for each gave."""
    rng = np.random.default_rng(seed)
    found: dict[Utterance, None] = {}
    for _ in range(attempts * count):
        words = model.generate(rng, longest=longest)
        if words is not None:
            found.setdefault(words)
            if len(found) == count:
                break
    return list(found)
