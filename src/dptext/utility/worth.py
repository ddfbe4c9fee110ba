"""Whether a corpus is worth sharing for training: what it teaches beside public texts, all of them and as many.

A small corpus loses to a large pool by its size, and one of another mix of labels by its mix. So a *yes* needs three
comparisons over the same real texts: with all public texts, with as many of them in the mix of labels of the corpus,
and with the most frequent label, which needs no text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.estimates import Estimate
from dptext.types import Json, jsonable
from dptext.utility.gap import COVERS, FEWEST, ClosedGap

_APART: Final = 0.1  # total variation of two mixes of labels that is said
_CHANCE: Final = 0.01

_MORE: Final = "more texts may help (write --size)."
#: What to say of a corpus beside as many public texts, and beside all of them: 1 if it is better, -1 if it is worse.
_VERDICTS: Final[Mapping[tuple[int, int], tuple[str, str]]] = {
    (1, 1): ("yes", "The corpus teaches more than {many}, and more than {all}."),
    (1, 0): (
        "in part",
        "The corpus teaches more than {many}, but is not shown to teach more than {all}: " + _MORE,
    ),
    (1, -1): (
        "in part",
        "The corpus teaches more than {many}, but less than {all}: " + _MORE,
    ),
    (0, 1): ("not shown", "The corpus teaches more than {all}, but is not shown to teach more than {many}."),
    (0, 0): ("not shown", "The corpus is not shown to teach more than {many}, nor more than {all}."),
    (0, -1): (
        "no",
        "The corpus is not shown to teach more than {many}, and teaches less than {all}: take the public texts.",
    ),
    (-1, 1): ("no", "The corpus teaches more than {all}, but less than {many}: take these."),
    (-1, 0): ("no", "The corpus teaches less than {many}: take the public texts."),
    (-1, -1): ("no", "The corpus teaches less than {many}, and less than {all}: take the public texts."),
}
_ALONE: Final[Mapping[int, tuple[str, str]]] = {
    1: ("yes", "The corpus teaches more than {all}."),
    0: ("not shown", "The corpus is not shown to teach more than {all}."),
    -1: ("no", "The corpus teaches less than {all}: take the public texts."),
}


@dataclass(frozen=True, slots=True)
class CorpusWorth:
    """What a classifier learns from a corpus, and without it. All intervals are over the same real texts.

    Attributes:
        closed: beside `public`, the better of all public texts and those of them in the mix of the corpus.
        public: these public texts in words.
        beside_many: accuracy by the corpus less that by draws of as many public texts; None if there are not more.
        many: as many public texts in words.
        above: accuracy by the corpus less that of the most frequent label.
        learnt: accuracy by originals less that of the most frequent label.
    """

    closed: ClosedGap
    public: str
    beside_many: Estimate | None
    many: str
    above: Estimate
    learnt: Estimate

    def verdict(self) -> tuple[str, str]:
        """Return the verdict in a word (yes, no, in part, not shown) and in sentences."""
        beside_all = _state(self.closed.more)
        if self.closed.texts < FEWEST and beside_all >= 0:
            return "not shown", f"{self.closed.texts} real texts are too few: give {FEWEST} or more with labels."
        beside = None if self.beside_many is None else _state(self.beside_many)
        word, said = _ALONE[beside_all] if beside is None else _VERDICTS[beside, beside_all]
        said = said.format(many=self.many, all=self.public)
        if _state(self.learnt) <= 0 and word != "no":
            word = "not shown"
            said = (
                "Originals are not shown to teach more than the most frequent label, so nothing can be judged by them."
            )
        elif _state(self.above) <= 0 and word != "no":
            word, said = "not shown", f"{said} It is not shown to teach more than the most frequent label alone."
        elif _state(self.learnt) <= 0:
            said += " Originals, too, are not shown to teach more than the most frequent label."
        elif beside_all >= 0 and self.closed.closed is None and word != "no":
            said += f" Originals are not shown to teach more than {self.public}, so there is no gap to close."
        return word, said

    @property
    def sentence(self) -> str:
        """The verdict in sentences, without numbers."""
        return self.verdict()[1]

    @property
    def answer(self) -> str:
        """The verdict in a word and in sentences, with the numbers that it rests on."""
        word, said = self.verdict()
        points = [] if self.beside_many is None else [f"{in_points(self.beside_many)} beside draws of {self.many}"]
        points.append(f"{in_points(self.closed.more)} beside {self.public}")
        there = f"(intervals at 95% {COVERS.format(f'{self.closed.texts:,} ')})"
        closed = self.closed.closed
        shown = closed is not None and closed.low > 0
        share = (
            "" if closed is None or not shown else f" {_percent(closed)} of the gap from there to originals is closed."
        )
        return f"{word}. {said} In points of accuracy: {' and '.join(points)} {there}.{share}"

    def to_dict(self) -> dict[str, Json]:
        """Return the verdict and its numbers as JSON-able data."""
        word, said = self.verdict()
        named = {"beside_as_many": self.beside_many, "above_most_frequent": self.above, "originals_above": self.learnt}
        return {
            "verdict": word,
            "sentence": said,
            "public": self.public,
            "as_many": self.many,
            **{name: jsonable(own) for name, own in named.items()},
        }


def other_mix(labels: Sequence[str | None], others: Sequence[str | None]) -> tuple[float, str] | None:
    """Return how far apart two mixes of labels are, as total variation, and the label that differs most.

    None if they are near, or differ by no more than chance explains (chi-squared, 1%). Records without a label are left
    out.
    """
    counts = [Counter(filter(None, side)) for side in (labels, others)]
    names = sorted({*counts[0], *counts[1]})
    table = np.array([[side[name] for name in names] for side in counts], np.float64)
    if len(names) < 2 or not table.sum(axis=1).all():
        return None
    shares = table / table.sum(axis=1, keepdims=True)
    apart = np.abs(shares[0] - shares[1])
    from scipy.stats import chi2_contingency  # noqa: PLC0415 (slow to load)

    if apart.sum() / 2 <= _APART or chi2_contingency(table).pvalue > _CHANCE:
        return None
    return float(apart.sum() / 2), names[int(apart.argmax())]


def _state(found: Estimate) -> int:
    return int(found.low > 0) - int(found.high < 0)


def _percent(found: Estimate) -> str:
    return f"{found.value:.0%} [{found.low:.0%}, {found.high:.0%}]"


def in_points(found: Estimate) -> str:
    """Return a difference of two shares with its interval, in points."""
    return f"{100 * found.value:+.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
