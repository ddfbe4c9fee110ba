"""Findings on authors: rows of a table from scores, shares of hits, and the bound on epsilon."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.audits.bounds import epsilon_from_attribution
from dptext.audits.report import InferenceReport, InferenceRow, Report, exactly
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.privacy.guarantee import Relation, Unit
from dptext.sampling.bootstrap import bootstrap_f1
from dptext.sampling.randomness import seeded
from dptext.types import Floats, Integers, Json

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
        hits = ranked == true[:, None]
        counts = (int(hits[:, :most].sum()) for most in (1, TOP_GUESSES))
        one, five = (clopper_pearson(count, len(true), confidence=self.confidence) for count in counts)
        macro = bootstrap_f1(true, ranked[:, 0], self.authors, source=seeded(self.seed), confidence=self.confidence)
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
