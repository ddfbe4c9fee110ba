"""From scores of authors to shares of hits, and from those to a lower bound on epsilon.

Let A authors have m attacked texts each, the texts fixed, and let P_a be the distribution of the output for a text that
is drawn uniformly from those of author a: a mixture. Under (epsilon, delta) for replacing one document P(x)(S) <= e^eps
P(y)(S) + delta for *any* two texts x and y; averaged over both, P_a(S) <= e^eps P_b(S) + delta. So the guess at the
author is a guess among A equally likely inputs, and its expected accuracy is

    s <= (e^eps + (A - 1) delta) / (e^eps + A - 1)

by `bounds.reconstruction_bound`, whose proof asks no more of the P_a: sum P_a(guess a) <= e^eps P_b(guess a) +
delta over all pairs a != b; the left side is (A - 1) A s, the right one e^eps A (1 - s) + A (A - 1) delta.

The attacker is any function of one release that was fixed before the release was drawn. It may have learned from other
texts, from other releases, or from the attacked texts themselves. The bound says nothing about bundles, where several
releases are seen, nothing under a metric, and nothing where a function that is revealed, such as the length, may differ
between the texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound
from dptext.audits.report import Report
from dptext.errors import ConfigError
from dptext.estimates import (
    Estimate,
    bonferroni,
    check_part,
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from dptext.privacy.guarantee import Relation, Unit
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.randomness import seeded
from dptext.types import Floats, Integers, Json

#: So many guesses count as a hit in the second column.
TOP: Final = 5

_FLOAT_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class AttributionRow:
    """How well one attacker named the authors of some texts, and how much the texts still say.

    Attributes:
        name: of the attacker, and of what it attacked where that is not the releases.
        accuracy: share of the texts (or bundles) whose author has the highest score. Clopper-Pearson: for fixed texts
            releases are independent, and so are hits, with chances of their own. The interval is of their mean, and
            errs on the safe side where they differ (Hoeffding 1956) unless less than one hit or miss is expected. Of
            further texts of these authors (for originals, of anything) it speaks as far as the attacked ones are an
            independent sample of them; of other authors it does not speak.
        top5: share whose author is among the five highest scores; 1 where there are no more authors. Likewise.
        macro_f1: mean F1 over the authors who wrote, or were taken for having written, some text; bootstrap over texts
            (bundles), right in the limit of many.
        similarity: mean cosine of the attacked texts to their own originals; bootstrap over texts.
        attributed: how many texts, or bundles, were attributed.
    """

    name: str
    accuracy: Estimate
    top5: Estimate
    macro_f1: Estimate
    similarity: Estimate
    attributed: int

    def cells(self) -> dict[str, Estimate]:
        """The numbers by the heading of their column."""
        return {
            "accuracy": self.accuracy,
            f"top {TOP}": self.top5,
            "macro-F1": self.macro_f1,
            "similarity": self.similarity,
        }

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "name": self.name,
            "accuracy": {**self.accuracy.to_dict()},
            "top5": {**self.top5.to_dict()},
            "macro_f1": {**self.macro_f1.to_dict()},
            "similarity": {**self.similarity.to_dict()},
            "attributed": self.attributed,
        }


class _Row(Protocol):
    @property
    def name(self) -> str: ...

    def cells(self) -> Mapping[str, Estimate]: ...


def table(rows: Sequence[_Row]) -> list[str]:
    """Rows of attacks as lines of Markdown: the attacker, then each number with its interval."""
    head = ["attacker", *rows[0].cells()]
    lines = [
        [row.name, *(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" for found in row.cells().values())]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (head, ["-" * width for width in widths], *lines)
    ]


def at_chance(controls: Sequence[tuple[Estimate, int]], chance: float) -> bool:
    """Whether chance is in the interval of every control, as in at least 95 of 100 honest audits.

    Args:
        controls: accuracy of each, and how many texts it is of.
        chance: accuracy of a guess at random.
    """
    confidence = 1 - bonferroni(0.95, len(controls))
    intervals = [clopper_pearson(round(found.value * n), n, confidence=confidence) for found, n in controls]
    return all(found.low <= chance <= found.high for found in intervals)


def epsilon_from_attribution(
    correct: int, texts: int, *, authors: int, delta: float = 0.0, confidence: float = 0.95, tests: int = 1
) -> EpsilonLowerBound:
    """Lower bound on a document-level epsilon from how many of `texts` were given to their true authors.

    For A authors with as many texts each, one release of each text, and guesses that look at one release each: the
    expected share of hits is s <= (e^eps + (A - 1) delta) / (e^eps + A - 1), as proved above, so e^eps >= (A - 1)
    (s - delta) / (1 - s). The texts were chosen by design and the attacker was trained on others: given both, hits are
    independent, because releases are, with chances of their own. `mean_chance` bounds the mean of those from below.

    Args:
        correct: hits K.
        texts: n, at most 1e9, as many of each author.
        authors: A, at least 2.
        delta: of the guarantee under test.
        confidence: in (0, 1).
        tests: attackers among which the best was chosen.

    Raises:
        ConfigError: counts that are not possible, or a setting out of its range.
    """
    _validate.count(authors=authors, tests=tests)
    _validate.probability(delta=delta)
    check_part("correct", correct, "texts", texts)
    if authors < 2 or texts % authors:
        raise ConfigError(f"Expected texts={texts!r} to be as many of each of authors={authors!r} >= 2.")
    low, miss = mean_chance(correct, texts, alpha=bonferroni(confidence, tests))
    hit = (authors - 1) * (low - delta)
    found = math.log(hit / miss) - _FLOAT_SLACK if hit > miss else 0.0
    return EpsilonLowerBound(max(0.0, found), delta, confidence, tests)


def mean_chance(correct: int, texts: int, *, alpha: float) -> tuple[float, float]:
    """Lower bound on the mean s of n independent chances of which K came true, wrong with probability at most alpha.

    Clopper-Pearson's limit l(k) is for equal chances: Pr[Bin(n, s) >= k] < alpha where l(k) > s. By Hoeffding 1956
    (Annals of Mathematical Statistics 27, theorem 4) Pr[K >= k] <= Pr[Bin(n, s) >= k] for every k >= n s + 1, whatever
    the chances of mean s. The bound is min(l(K), (K - 1) / n). It is wrong only where Pr[Bin(n, s) >= K] < alpha *and*
    K > n s + 1, that is where K is at least the smallest k with both; for that k Hoeffding's bound holds. Without the
    second term a single hit could err more often: all of the chance may sit on one text.

    Returns:
        The bound, rounded down, and one minus it, rounded up: from the counted misses, as 1 - bound would lose digits.
    """
    low = clopper_pearson_lower(correct, texts, alpha=alpha)
    miss = clopper_pearson_upper(texts - correct, texts, alpha=alpha)
    return max(0.0, min(low, (correct - 1) / texts)), min(1.0, max(miss, (texts - correct + 1) / texts))


def bundles(true: Integers, bundle: int) -> Integers:
    """Positions of texts, `(nbundles, bundle)`; each row of one author."""
    rows = []
    for author in np.unique(true):
        own = np.flatnonzero(true == author)
        rows.append(own[: len(own) // bundle * bundle].reshape(-1, bundle))
    return np.concatenate(rows)


@dataclass(frozen=True, slots=True, repr=False)
class Judge:
    """Scores to rows. `priority` is the order in which authors with equal scores are taken."""

    authors: int
    true: Integers
    units: Integers
    priority: Integers
    permuted: Callable[[Integers], Integers]
    seed: int
    confidence: float

    def row(self, name: str, scores: Floats, similarity: Estimate) -> AttributionRow:
        """Scores `(n_texts, authors)` against the authors."""
        return self._row(name, scores, self.true[self.units[:, 0]], similarity)

    def control(self, name: str, scores: Floats, similarity: Estimate) -> AttributionRow:
        """Scores against permuted authors.

        To shuffle the authors in training would be no better control: texts of one author are alike and get the same
        wrong guess, so that hits are not independent and the interval is too short.
        """
        return self._row(name, scores, self.permuted(self.true[self.units[:, 0]]), similarity)

    def _row(self, name: str, scores: Floats, true: Integers, similarity: Estimate) -> AttributionRow:
        ranked = self._ranked(scores[self.units].sum(axis=1))
        hits = ranked == true[:, None]
        return AttributionRow(
            name,
            clopper_pearson(int(hits[:, 0].sum()), len(true), confidence=self.confidence),
            clopper_pearson(int(hits[:, :TOP].sum()), len(true), confidence=self.confidence),
            bootstrap(
                np.stack([true, ranked[:, 0]], axis=1),
                lambda rows: _macro_f1(rows[:, 0], rows[:, 1], self.authors),
                source=seeded(self.seed),
                confidence=self.confidence,
            ),
            similarity,
            len(true),
        )

    def chance(self, name: str, similarity: Estimate) -> AttributionRow:
        """A guess at random: exact, and F1 of the expected counts."""
        one, five = (Estimate(x, x, x, self.confidence) for x in (1 / self.authors, min(1.0, TOP / self.authors)))
        return AttributionRow(name, one, five, one, similarity, len(self.units))

    def _ranked(self, scores: Floats) -> Integers:
        """Authors from the likeliest on, `(n, authors)`."""
        if np.isnan(scores).any():
            raise ConfigError("Expected scores without NaN: an attacker could not be trained on these texts.")
        return np.asarray(self.priority[np.argsort(-scores[:, self.priority], axis=1, kind="stable")], np.int64)

    def report(self, scores: Mapping[str, Floats], *, delta: float, signature: Mapping[str, Json]) -> Report:
        """The bound on epsilon by the best attack on single texts."""
        guesses = {name: self._ranked(found)[:, 0] for name, found in scores.items()}
        hits = {name: int((found == self.true).sum()) for name, found in guesses.items()}
        best, texts = max(hits, key=lambda name: hits[name]), len(self.true)

        def bound(correct: int) -> float:
            return epsilon_from_attribution(
                correct,
                texts,
                authors=self.authors,
                delta=delta,
                confidence=self.confidence,
                tests=len(scores),
            ).epsilon

        chance = 1 / self.authors
        mixed = int((guesses[best] == self.permuted(self.true)).sum())
        return Report(
            attack="authorship",
            main=clopper_pearson(hits[best], texts, confidence=self.confidence),
            baseline=Estimate(chance, chance, chance, self.confidence),
            control=clopper_pearson(mixed, texts, confidence=self.confidence),
            measures=f"share of single releases given to their author among {self.authors:,}, by {best}",
            epsilon_lower_bound=bound(hits[best]),
            delta=delta,
            confidence=self.confidence,
            ceiling=bound(texts),
            unit=Unit.DOCUMENT,
            relation=Relation.REPLACE_ONE,
            metric=None,
            reveals=(),
            signature=signature,
        )

    def similarity(self, first: Floats, second: Floats) -> Estimate:
        """Mean cosine of vectors of norm 1 (or 0), row by row, `(n_texts, dim)` each."""
        cosines = np.clip(np.einsum("ij,ij->i", first, second), -1.0, 1.0)
        return bootstrap(cosines, lambda rows: float(rows.mean()), source=seeded(self.seed), confidence=self.confidence)


def _macro_f1(true: Integers, given: Integers, authors: int) -> float:
    """Mean of 2 TP / (2 TP + FP + FN) over the authors that occur in `true` or `given`, `(n,)` each."""
    right = np.bincount(true[true == given], minlength=authors)
    seen = np.bincount(true, minlength=authors) + np.bincount(given, minlength=authors)
    return float(np.mean(2 * right[seen > 0] / seen[seen > 0]))
