"""From scores of authors to shares of hits, with intervals, controls and the bound on epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dptext.audits.inference.attribution import epsilon_from_attribution
from dptext.audits.inference.authorship_report import TOP_GUESSES, AttributionRow
from dptext.audits.inference.judging import mean_cosine
from dptext.audits.report import Report
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.privacy.guarantee import Relation, Unit
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.source import seeded
from dptext.types import Floats, Integers, Json


def bundles(true: Integers, bundle: int) -> Integers:
    """Positions of the texts of each bundle, `(n_bundles, bundle)`. A bundle has one author."""
    rows = []
    for author in np.unique(true):
        own = np.flatnonzero(true == author)
        rows.append(own[: len(own) // bundle * bundle].reshape(-1, bundle))
    return np.concatenate(rows)


@dataclass(frozen=True, slots=True, repr=False)
class AuthorJudge:
    """Turns scores `(n_texts, authors)` into rows of the report.

    Attributes:
        authors: how many there are.
        true: the author of each attacked text, `(n_texts,)`.
        units: positions of the texts of each bundle, `(n_bundles, bundle)`.
        priority: the order in which authors with equal scores are taken, `(authors,)`.
        permuted: gives authors in a random order, for controls.
        seed: of the bootstrap.
        confidence: of all intervals.
    """

    authors: int
    true: Integers
    units: Integers
    priority: Integers
    permuted: Callable[[Integers], Integers]
    seed: int
    confidence: float

    def row(self, name: str, scores: Floats, similarity: Estimate) -> AttributionRow:
        """The row of an attack."""
        return self._row(name, scores, self.true[self.units[:, 0]], similarity)

    def control(self, name: str, scores: Floats, similarity: Estimate) -> AttributionRow:
        """The row of scores that are held against permuted authors.

        To shuffle the authors in training would be no better control. Texts of one author are alike and get the same
        wrong guess, so hits would not be independent and the interval too short.
        """
        return self._row(name, scores, self.permuted(self.true[self.units[:, 0]]), similarity)

    def _row(self, name: str, scores: Floats, true: Integers, similarity: Estimate) -> AttributionRow:
        ranked = self._ranked(scores[self.units].sum(axis=1))
        hits = ranked == true[:, None]
        return AttributionRow(
            name,
            clopper_pearson(int(hits[:, 0].sum()), len(true), confidence=self.confidence),
            clopper_pearson(int(hits[:, :TOP_GUESSES].sum()), len(true), confidence=self.confidence),
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
        """The row of a guess at random: exact, with the F1 of the expected counts."""
        one, five = (
            Estimate(x, x, x, self.confidence) for x in (1 / self.authors, min(1.0, TOP_GUESSES / self.authors))
        )
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
        return mean_cosine(first, second, seed=self.seed, confidence=self.confidence)


def _macro_f1(true: Integers, given: Integers, authors: int) -> float:
    """Mean of 2 TP / (2 TP + FP + FN) over the authors that occur in `true` or `given`, `(n,)` each."""
    right = np.bincount(true[true == given], minlength=authors)
    seen = np.bincount(true, minlength=authors) + np.bincount(given, minlength=authors)
    return float(np.mean(2 * right[seen > 0] / seen[seen > 0]))
