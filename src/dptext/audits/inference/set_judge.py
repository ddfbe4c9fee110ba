"""From scores of two sets to areas, accuracies and the bound on epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dptext.audits.bounds import EpsilonLowerBound
from dptext.audits.inference.attribution import epsilon_from_attribution
from dptext.audits.inference.judging import mean_cosine
from dptext.audits.inference.trait_report import TraitRow, epsilon_from_accuracy
from dptext.audits.roc import area_interval
from dptext.embeddings.distinct import TextVectors
from dptext.estimates import Estimate, clopper_pearson
from dptext.types import Booleans, Floats


@dataclass(frozen=True, slots=True, repr=False)
class SetJudge:
    """Turns scores `(n_texts,)` into rows of the report.

    Attributes:
        true: which attacked texts are of the first set, `(n_texts,)`.
        permuted: the same in a random order, for controls.
        seed: of the bootstrap.
        confidence: of all intervals.
        delta: that epsilon is for.
    """

    true: Booleans
    permuted: Booleans
    seed: int
    confidence: float
    delta: float

    def row(self, name: str, scores: Floats, similarity: Estimate) -> TraitRow:
        """The row of an attack."""
        return self._row(name, scores, self.true, similarity)

    def control(self, name: str, scores: Floats, similarity: Estimate) -> TraitRow:
        """The row of scores that are held against permuted sets."""
        return self._row(name, scores, self.permuted, similarity)

    def _row(self, name: str, scores: Floats, true: Booleans, similarity: Estimate) -> TraitRow:
        right = clopper_pearson(_hits(scores, true), len(true), confidence=self.confidence)
        return TraitRow(
            name,
            area_interval(scores[true], scores[~true], seed=self.seed, confidence=self.confidence),
            right,
            epsilon_from_accuracy(right, delta=self.delta),
            similarity,
            len(true),
        )

    def majority(self, similarity: Estimate) -> TraitRow:
        """The row of a guess at one set for every text: exact, as there are as many texts of each."""
        half, nothing = (Estimate(x, x, x, self.confidence) for x in (0.5, 0.0))
        return TraitRow("majority: one set for all", half, half, nothing, similarity, len(self.true))

    def hits(self, scores: Floats) -> int:
        """How many texts are on their side of 0."""
        return _hits(scores, self.true)

    def bound(self, hits: int, *, tests: int) -> EpsilonLowerBound:
        """The bound on epsilon for so many hits, as for two authors."""
        return epsilon_from_attribution(
            hits, len(self.true), authors=2, delta=self.delta, confidence=self.confidence, tests=tests
        )

    def similarity(self, vectors: TextVectors, first: Sequence[str], second: Sequence[str]) -> Estimate:
        """Mean cosine of texts, the first of one and the first of the other and so on."""
        return mean_cosine(vectors.at(first), vectors.at(second), seed=self.seed, confidence=self.confidence)


def _hits(scores: Floats, true: Booleans) -> int:
    """Texts on their side of 0; a score of exactly 0 counts for the second set."""
    return int(((scores > 0) == true).sum())
