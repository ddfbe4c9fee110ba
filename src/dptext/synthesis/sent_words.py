"""Which words of the noisy numbers a server may be sent for a label, said before anything is asked.

What is sent depends on what drafts have. Here public rates stand in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from dptext.synthesis.from_drafts import LEAST, SURE, least_rates, moved
from dptext.synthesis.judging import believed
from dptext.synthesis.word_targets import WordTargets

_BIASES: Final = 5  # that are shown
_KEYS: Final = 5  # that are shown


@dataclass(frozen=True, slots=True, repr=False)
class SentWords:
    """Words that may be sent for a label.

    Attributes:
        name: the label's.
        shifts: words and their shifts, the largest first, either sign.
        keys: words that surpass the noise, beside public rates, the strongest first.
        width: the largest number of words that get a shift.
        most_keys: the largest number of words that may be key words, whatever drafts have.
    """

    name: str
    shifts: tuple[tuple[str, float], ...]
    keys: tuple[str, ...]
    width: int
    most_keys: int

    @classmethod
    def of(cls, by: WordTargets, label: int, drafts: int) -> Self:
        """Return the words of a label, with so many drafts to come."""
        numbers, n, usual, noise = by.numbers[label], float(by.units[label]), by.usual[label], by.deviations[label]
        words, wanted = by.lexicon.words, believed(numbers, n, usual, noise)
        shifts = moved(wanted, usual)
        strongest = [i for i in np.argsort(-np.abs(shifts), kind="stable").tolist() if abs(shifts[i]) >= LEAST]
        over = numbers - n * usual > SURE * noise
        keys = [i for i in np.argsort(usual - wanted, kind="stable").tolist() if over[i]]
        most = int((numbers - n * least_rates(usual, drafts) > SURE * noise).sum())
        named = tuple((words[i], float(shifts[i])) for i in strongest)
        return cls(by.names[label], named, tuple(words[i] for i in keys), len(words), most)

    def told(self, temperature: float, *, biases: bool, keys: bool) -> str:
        """Return a line with examples, and with how many more there may be. Biases are shifts times temperature."""
        parts = []
        if biases:
            shown = [f"{word} {shift * temperature:+.1f}" for word, shift in self.shifts[:_BIASES]]
            parts.append(_listed(shown, self.width))
        if keys:
            said = _listed(self.keys[:_KEYS], self.most_keys)
            parts.append(f"key words {said}" if biases else said)
        return f"{self.name}: {'; '.join(parts)}"


def _listed(shown: Sequence[str], most: int) -> str:
    """Return the examples, and the largest number of others."""
    more = most - len(shown)
    if not shown:
        return f"at most {most:,}" if most else "none, as none surpasses the noise"
    return f"{', '.join(shown)}{f', and at most {more:,} more' if more > 0 else ''}"
