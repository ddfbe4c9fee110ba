"""Findings of attribute inference: rows of a table from scores, shares of hits, and the bound on epsilon."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, accuracy_implies, epsilon_from_attribution
from dptext.audits.report import InferenceReport, InferenceRow, Report, Result, exactly
from dptext.audits.roc import area_interval
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.privacy.guarantee import Relation, Unit
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.randomness import seeded
from dptext.types import Booleans, Floats, Integers, Json, jsonable

#: Number of guesses in the second column.
TOP_GUESSES: Final = 5


@dataclass(frozen=True, slots=True)
class AttributionRow(InferenceRow):
    """The accuracy of one attacker on texts, or bundles, and the similarity of the texts to their originals.

    `name` names the attacker, and the attacked texts if they are not the releases.

    `accuracy` is the share of texts whose author has the highest score, Clopper-Pearson. For fixed texts hits are
    independent, with probabilities of their own; the interval is for the mean probability, and errs on the safe side
    where the probabilities differ (Hoeffding 1956), unless less than one hit or miss is expected. The interval speaks
    of further texts of these authors as far as the attacked texts are an independent sample of them; the interval for
    originals, where nothing is random, speaks of further texts alone. `top5` is the share of texts whose author is
    among the five highest scores, Clopper-Pearson; 1 if there are no more authors. `macro_f1` is the mean F1 over the
    authors who wrote some text or were named for some text; bootstrap over texts (bundles), right in the limit of many.
    `similarity` is the mean cosine of the attacked texts to their own originals; bootstrap over texts.
    """

    name: str
    accuracy: Estimate
    top5: Estimate
    macro_f1: Estimate
    similarity: Estimate
    attributed: int

    CELLS = (
        ("accuracy", "accuracy"), (f"top {TOP_GUESSES}", "top5"), ("macro-F1", "macro_f1"), ("similarity", "similarity")
    )  # fmt: skip


#: Notes of every report on authors.
GARBAGE: Final = "Garbage hides authors perfectly: read each accuracy with the similarity beside it."
NO_PROOF: Final = "A low accuracy proves nothing: another attacker, more training text or larger bundles may do more."


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorshipReport(InferenceReport[AttributionRow]):
    """The outcome of attributing releases to their authors. The report shows no text and no author.

    The texts are counted over all authors; `bundle` texts of one author are attributed together. The baselines are the
    static attackers on the originals, a random guess (exact), and the author with the most training texts for every
    text. `report` has the lower bound on epsilon by the best attack, with the error divided among all attacks. The
    bound is of single texts, for replacing one document, whatever the bundles. `report.refutes(guarantee)` compares.
    """

    report: Report
    authors: int
    bundle: int

    def _guessed(self) -> tuple[int, float]:
        return self.attacks[0].attributed, 1 / self.authors

    def _said(self) -> tuple[str, str]:
        together = "" if self.bundle == 1 else f", {self.bundle} texts of one author at a time"
        settings = (
            f"{self.authors:,} authors, {self.training_texts:,} training texts, {self.attacked_texts:,} attacked "
            f"texts{together}; similarity by {self.embedder}; intervals at {100 * self.report.confidence:.6g}%."
        )
        found = (
            f"Single texts: epsilon is at least {self.report.epsilon_lower_bound:.3g} at delta {self.report.delta:g}, "
            f"for replacing one document ({self.report.ceiling:.3g} if every guess were right)."
        )
        return settings, found


def bundles(true: Integers, bundle: int) -> Integers:
    """Return the positions of the texts of each bundle, `(n_bundles, bundle)`. A bundle has one author."""
    rows = []
    for author in np.unique(true):
        own = np.flatnonzero(true == author)
        rows.append(own[: len(own) // bundle * bundle].reshape(-1, bundle))
    return np.concatenate(rows)


@dataclass(frozen=True, slots=True, repr=False)
class AuthorJudge:
    """Rows of the report from scores `(n_texts, authors)`.

    `true` `(n_texts,)` is the author of each attacked text, `units` `(n_bundles, bundle)` the positions of the texts of
    each bundle, `priority` `(authors,)` the order in which authors with equal scores are taken. `permuted` returns
    authors in a random order, for controls.
    """

    authors: int
    true: Integers
    units: Integers
    priority: Integers
    permuted: Callable[[Integers], Integers]
    seed: int
    confidence: float

    def row(self, name: str, scores: Floats, similarity: Estimate, *, control: bool = False) -> AttributionRow:
        """Return the row of an attack; a control compares the scores with permuted authors.

        Shuffling the authors in training would be no better control. Texts of one author are alike and get the same
        wrong guess, so hits would not be independent and the interval would be too short.
        """
        true = self.true[self.units[:, 0]]
        true = self.permuted(true) if control else true
        ranked = self._ranked(scores[self.units].sum(axis=1))
        hits, pairs = ranked == true[:, None], np.stack([true, ranked[:, 0]], axis=1)
        counts = (int(hits[:, :most].sum()) for most in (1, TOP_GUESSES))
        one, five = (clopper_pearson(count, len(true), confidence=self.confidence) for count in counts)

        def f1(rows: Integers) -> float:
            return _macro_f1(rows[:, 0], rows[:, 1], self.authors)

        macro = bootstrap(pairs, f1, source=seeded(self.seed), bounds=(0.0, 1.0), confidence=self.confidence)
        return AttributionRow(name, one, five, macro, similarity, len(true))

    def chance(self, name: str, similarity: Estimate) -> AttributionRow:
        """Return the row of a random guess: exact, with the F1 of the expected counts."""
        one, five = (exactly(min(1.0, n / self.authors), self.confidence) for n in (1, TOP_GUESSES))
        return AttributionRow(name, one, five, one, similarity, len(self.units))

    def _ranked(self, scores: Floats) -> Integers:
        if np.isnan(scores).any():
            raise ConfigError("Expected scores without NaN: an attacker could not be trained on these texts.")
        return np.asarray(self.priority[np.argsort(-scores[:, self.priority], axis=1, kind="stable")], np.int64)

    def report(self, scores: Mapping[str, Floats], *, delta: float, signature: Mapping[str, Json]) -> Report:
        """Return the report with the bound on epsilon by the best attack on single texts."""
        guesses = {name: self._ranked(found)[:, 0] for name, found in scores.items()}
        hits = {name: int((found == self.true).sum()) for name, found in guesses.items()}
        best, texts = max(hits, key=lambda name: hits[name]), len(self.true)

        def bound(correct: int) -> float:
            given = {"delta": delta, "confidence": self.confidence}
            return epsilon_from_attribution(correct, texts, authors=self.authors, tests=len(scores), **given).epsilon

        mixed = int((guesses[best] == self.permuted(self.true)).sum())
        return Report(
            attack="authorship",
            main=clopper_pearson(hits[best], texts, confidence=self.confidence),
            baseline=exactly(1 / self.authors, self.confidence),
            control=clopper_pearson(mixed, texts, confidence=self.confidence),
            measures=f"share of single releases given to their author among {self.authors:,}, by {best}",
            epsilon_lower_bound=bound(hits[best]),
            delta=delta,
            confidence=self.confidence,
            ceiling=bound(texts),
            unit=Unit.DOCUMENT,
            relation=Relation.REPLACE_ONE,
            signature=signature,
        )


def _macro_f1(true: Integers, given: Integers, authors: int) -> float:
    """Mean of 2 TP / (2 TP + FP + FN) over the authors that occur in `true` or `given`, `(n,)` each."""
    right = np.bincount(true[true == given], minlength=authors)
    seen = np.bincount(true, minlength=authors) + np.bincount(given, minlength=authors)
    return float(np.mean(2 * right[seen > 0] / seen[seen > 0]))


#: Notes of every report on two sets.
NO_GUARANTEE: Final = (
    "A measurement of these attackers on these texts, no guarantee: another attacker, or more training text, may do "
    "more, and a low accuracy proves nothing."
)
TWO_SETS: Final = (
    "Epsilon is of the two redacted sets, for one text drawn of either: Pr[S | one set] <= e^epsilon Pr[S | other set] "
    "+ delta. It is bounded from below only, and it is not differential privacy of any record."
)
EMPTY_TEXTS: Final = "Empty texts hide every trait: read each accuracy with the similarity beside it."


@dataclass(frozen=True, slots=True)
class TraitRow(InferenceRow):
    """The success of one attacker at telling the sets apart, and the similarity of the texts to their originals.

    `name` names the attacker, and the attacked texts if they are not the releases. Half of the texts are of each set.
    `auc` is the chance that a text of the first set has a higher score than a text of the second set, ties as one half;
    bootstrap over texts, right in the limit of many, without width where scores separate all. `accuracy` is the share
    of texts on their side of the threshold 0, which was fixed beforehand; Clopper-Pearson, because hits are independent
    for fixed texts. The accuracy speaks of further texts as far as the attacked texts are an independent sample of
    them, which sentences of few documents are not. `epsilon` is the epsilon that this accuracy needs, ln((accuracy -
    delta) / (1 - accuracy)), also at the ends of its interval. `similarity` is the mean cosine of the attacked texts to
    their own originals; bootstrap over texts.
    """

    name: str
    auc: Estimate
    accuracy: Estimate
    epsilon: Estimate
    similarity: Estimate
    attacked: int

    CELLS = (("AUC", "auc"), ("accuracy", "accuracy"), ("epsilon needed", "epsilon"), ("similarity", "similarity"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraitReport(InferenceReport[TraitRow]):
    """The outcome of telling two redacted sets apart. The report shows no text.

    The texts are counted for each set. The baselines are the static attackers on the originals, and one set for every
    text (exact). The `best` attack has the highest accuracy. `bound` is the lower bound on the epsilon of the two sets
    by this attack, with the error divided among all attacks; `ceiling` is the bound if every guess were right.
    """

    best: str
    bound: EpsilonLowerBound
    ceiling: float

    LEFT_OUT = ("bound",)

    def _guessed(self) -> tuple[int, float]:
        return self.attacks[0].attacked, 0.5

    def refutes(self, epsilon: float) -> bool:
        """True if the sets cannot be indistinguishable at this epsilon and the report's delta; False is no proof.

        Such an epsilon of the sets may come from a measured divergence. ConfigError for a negative epsilon.
        """
        _validate.within(0, math.inf, epsilon=epsilon)
        return epsilon < self.bound.epsilon

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, without anything about the records."""
        bound = self.bound
        stated = {"epsilon_lower_bound": jsonable(bound.epsilon), "delta": bound.delta, "confidence": bound.confidence}
        return {**Result.to_dict(self), **stated}

    def _said(self) -> tuple[str, str]:
        settings = (
            f"Two sets, {self.training_texts:,} training texts and {self.attacked_texts:,} attacked texts of each; "
            f"similarity by {self.embedder}; intervals at {100 * self.bound.confidence:.6g}%."
        )
        right = next(row.accuracy.value for row in self.attacks if row.name == self.best)
        found = (
            f"The best of {len(self.attacks)} attacks, {self.best}, is right in {right:.3f}. With a correction for the "
            f"choice among them, epsilon of the two sets is at least {self.bound.epsilon:.3g} at delta "
            f"{self.bound.delta:g} ({self.ceiling:.3g} if every guess were right)."
        )
        return settings, found


def epsilon_from_accuracy(accuracy: Estimate, *, delta: float = 0.0) -> Estimate:
    """Return the epsilon of two sets that a balanced attack of this accuracy needs, by `accuracy_implies`.

    Epsilon rises with the accuracy, so the ends of the interval become ends of the same confidence. The attack shows
    the *low* end. The high end bounds no epsilon: another attack may be more accurate.
    """
    value, low, high = (accuracy_implies(x, delta=delta) for x in (accuracy.value, accuracy.low, accuracy.high))
    return Estimate(value, low, high, accuracy.confidence)


@dataclass(frozen=True, slots=True, repr=False)
class SetJudge:
    """Rows of the report from scores `(n_texts,)`.

    `true` `(n_texts,)` says which attacked texts are of the first set; `permuted` has the same values in a random
    order.
    """

    true: Booleans
    permuted: Booleans
    seed: int
    confidence: float
    delta: float

    def row(self, name: str, scores: Floats, similarity: Estimate, *, control: bool = False) -> TraitRow:
        """Return the row of an attack; a control compares the scores with permuted sets."""
        if control:
            return replace(self, true=self.permuted).row(name, scores, similarity)
        right = clopper_pearson(self.hits(scores), len(self.true), confidence=self.confidence)
        area = area_interval(scores[self.true], scores[~self.true], seed=self.seed, confidence=self.confidence)
        return TraitRow(name, area, right, epsilon_from_accuracy(right, delta=self.delta), similarity, len(self.true))

    def majority(self, similarity: Estimate) -> TraitRow:
        """Return the row of guessing one set for every text: exact, because each set has as many texts."""
        half, nothing = (exactly(x, self.confidence) for x in (0.5, 0.0))
        return TraitRow("majority: one set for all", half, half, nothing, similarity, len(self.true))

    def hits(self, scores: Floats) -> int:
        """Count the texts on their side of 0; a score of exactly 0 counts for the second set."""
        return int(((scores > 0) == self.true).sum())

    def bound(self, hits: int, *, tests: int) -> EpsilonLowerBound:
        """Return the bound on epsilon for this number of hits, as for two authors."""
        given = {"delta": self.delta, "confidence": self.confidence}
        return epsilon_from_attribution(hits, len(self.true), authors=2, tests=tests, **given)
