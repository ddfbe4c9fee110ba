"""The words that each label has more often than public text, from noisy numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dptext.synthesis.agreement import WRONG, Known
from dptext.types import Floats, Json

_NAMED_WORDS: Final = 12  # of a label


@dataclass(frozen=True, slots=True)
class LabelWords:
    """The words that each label has more often than public text.

    The words are chosen by their noisy numbers. So intervals of 95% each would hold the number without noise less often
    than in 95%. If R of M words are shown, each interval has the level 1 - .05 R / M. Then the share of shown intervals
    that do not hold their number is at most 5% on average (false coverage rate; Benjamini and Yekutieli 2005).

    Attributes:
        words: word, noisy number of units with it among their marks, and expected number by public text, for at most
            `_NAMED_WORDS` words of each label, those first that exceed the expected number most.
        margin: half of the interval of each number.
    """

    words: tuple[tuple[tuple[str, float, float], ...], ...]
    margin: float

    @classmethod
    def of(
        cls, names: Sequence[str], known: Known, counts: Known, rates: Floats, texts: Floats,
        telling: NDArray[np.bool_],
    ) -> LabelWords:  # fmt: skip
        """Return the words whose numbers exceed the expected ones by more than chance gives any word.

        If none does, one is shown with a chance of 2.5% at most. The interval of a shown number does not hold 0.

        `known` has the noisy numbers `(labels, width)`, and `counts` those of units `(labels,)`. `rates`
        `(labels, width)` are those of public texts, which vary as those of so many independent `texts` `(labels,)` do.
        `telling` `(width,)` says which words can be shown.
        """
        units = np.maximum(counts.numbers, counts.deviation)[:, None]
        usual = units * rates
        gained = known.numbers - usual
        spread = _spread(known.deviation, counts.deviation, units, rates, texts[:, None])
        candidates = max(2, len(gained) * int(telling.sum()))
        beyond = gained > spread * NormalDist().inv_cdf(1 - WRONG / 2 / candidates)
        found = []
        for numbers, more, expected, shown in zip(known.numbers, gained, usual, beyond & telling, strict=True):
            order = np.argsort(-more, kind="stable")
            best = order[shown[order]][:_NAMED_WORDS]
            found.append(tuple((names[i], float(numbers[i]), float(expected[i])) for i in best))
        shown = max(1, sum(map(len, found)))
        return cls(tuple(found), NormalDist().inv_cdf(1 - WRONG / 2 * shown / candidates) * known.deviation)

    def interval(self, number: float) -> tuple[float, float]:
        """Return the interval of a number; no number of units is below 0."""
        return max(0.0, number - self.margin), max(0.0, number + self.margin)

    def shown(self, number: float) -> str:
        """Return a number with its interval."""
        low, high = self.interval(number)
        return f"{max(0.0, number):,.0f} ({low:,.0f} to {high:,.0f})"

    def to_dict(self, labels: Sequence[str]) -> dict[str, Json]:
        """Return JSON-able data."""
        each: dict[str, Json] = {
            label: [
                {"word": word, "number": round(n, 3), "interval": [round(end, 3) for end in self.interval(n)],
                 "expected": round(usual, 3)}
                for word, n, usual in own
            ]
            for label, own in zip(labels, self.words, strict=True)
        }  # fmt: skip
        return {"by_label": each, "margin": self.margin}


def _spread(of_number: float, of_units: float, units: Floats, rates: Floats, texts: Floats) -> Floats:
    """Return the deviation `(labels, width)` of number - units * rate, if private and public texts have one rate p.

    Both noises, the sampling of the private texts, n p (1 - p), and that of the public ones, n^2 p (1 - p) / m, are
    independent. p is (m rate + 1) / (m + 2), which is above 0 also for a word that no public text has.
    """
    p = (texts * rates + 1) / (texts + 2)
    sampled = p * (1 - p) * (units + units**2 / texts)
    return np.asarray(np.sqrt(of_number**2 + (rates * of_units) ** 2 + sampled))
