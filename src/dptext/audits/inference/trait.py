"""The trait attack: from which of two sets, a sensitive and a safe one, does a redacted text come?

Attackers give scores; what they are worth is the area under their ROC curve and the accuracy at the threshold 0, fixed
beforehand, on as many texts of either set. Each is *static* (trained on originals of both sets, not on those that are
attacked), *adaptive* (trained on what the mechanism made of them) and taught by *both* together: who can run the
mechanism has both. A static one meets text that it never learned to read, and its accuracy flatters the mechanism even
where its AUC does not, as its threshold is off: on cancer sentences with 70% of the words masked, 3,000 texts a set,
TF-IDF had .58, .69 and .72 (AUC .77, .76 and .79). Empty texts have no trait left, so every row has the similarity of
the attacked texts to their own originals beside it::

    split = split_sets(cancer, other, training=3000, attacked=1000, seed=0)
    found = infer_trait(mechanism, split, embedder=load_sentence_encoder(), seed=0)
    print(found.to_markdown())

What the accuracy says of epsilon. Let P and Q be the distributions of the redacted text of a random text of either set.
If P(S) <= e^eps Q(S) + delta and the reverse for all S, then any guess has an accuracy s with 2 s = P(S) + Q(not S) <=
e^eps (Q(S) + P(not S)) + 2 delta = 2 e^eps (1 - s) + 2 delta, so eps >= ln((s - delta) / (1 - s)). It bounds from below
the epsilon at which the *two sets* are indistinguishable, for one draw. That is no differential privacy of a record,
there is no upper bound in it, and of n texts known to be of one set an attacker sees n times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.bounds import EpsilonLowerBound, accuracy_implies
from dptext.audits.inference.attribution import at_chance, epsilon_from_attribution, table
from dptext.audits.inference.authors import AuthorSplit
from dptext.audits.inference.authorship import release_split
from dptext.audits.inference.sets import Attacker, SetSplit, TextVectors, TrainAttacker, split_sets, standard_attackers
from dptext.audits.membership.members import shared_texts
from dptext.audits.roc import area_interval, check_scores
from dptext.audits.subjects import Progress
from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.mechanism import Mechanism
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record, Release
from dptext.types import Booleans, Floats, Json

__all__ = [
    "SetSplit",
    "TraitReport",
    "TraitRow",
    "epsilon_from_accuracy",
    "infer_trait",
    "infer_trait_from_releases",
    "release_sets",
    "split_sets",
    "standard_attackers",
]

#: Of the first set and of the second.
Releases = tuple[Sequence[Release[str]], Sequence[Release[str]]]

#: The notes that every report has.
NO_GUARANTEE: Final = (
    "A measurement of these attackers on these texts, no guarantee: another attacker, or more training text, may do "
    "more, and a low accuracy proves nothing."
)
TWO_SETS: Final = (
    "Epsilon is of the two redacted sets, for one text drawn of either: Pr[S | one set] <= e^epsilon Pr[S | other set] "
    "+ delta. It is bounded from below only, and it is not differential privacy of any record."
)
GARBAGE: Final = "Empty texts hide every trait: read each accuracy with the similarity beside it."


@dataclass(frozen=True, slots=True)
class TraitRow:
    """How well one attacker told the sets apart, and how much the texts still say.

    Attributes:
        name: of the attacker, and of what it attacked where that is not the releases.
        auc: chance that a text of the first set has a higher score than one of the second, ties as one half;
            bootstrap over texts, right in the limit of many and of no width where the scores separate all.
        accuracy: share of the texts on their side of the threshold 0, fixed beforehand. Clopper-Pearson: given the
            texts, releases are independent, and so are hits. Of further texts it speaks as far as the attacked ones
            are an independent sample of them, which sentences of few documents are not.
        epsilon: what that accuracy needs, ln((accuracy - delta) / (1 - accuracy)), at the ends of its interval, too.
        similarity: mean cosine of the attacked texts to their own originals; bootstrap over texts.
        attacked: how many texts, half of each set.
    """

    name: str
    auc: Estimate
    accuracy: Estimate
    epsilon: Estimate
    similarity: Estimate
    attacked: int

    def cells(self) -> dict[str, Estimate]:
        """The numbers by the heading of their column."""
        return {
            "AUC": self.auc,
            "accuracy": self.accuracy,
            "epsilon needed": self.epsilon,
            "similarity": self.similarity,
        }

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data."""
        return {
            "name": self.name,
            "auc": {**self.auc.to_dict()},
            "accuracy": {**self.accuracy.to_dict()},
            "epsilon": {**self.epsilon.to_dict()},
            "similarity": {**self.similarity.to_dict()},
            "attacked": self.attacked,
        }


@dataclass(frozen=True, slots=True)
class TraitReport:
    """The outcome of telling two redacted sets apart. It shows no text.

    Attributes:
        attacks: on the releases, static ones first.
        controls: the same scores held against permuted sets: at chance, or the audit counts wrongly.
        baselines: the static attackers on the originals (no redaction at all); one set for all (exact).
        best: name of the attack with the highest accuracy.
        bound: the least epsilon of the two sets by the best attack, for which the error is divided among all.
        ceiling: what the bound would be if every guess were right.
        training_texts, attacked_texts: how many there are of each set.
        embedder: name of the embedder behind some attackers and the similarities.
        notes: what a reader must know.
        signature: the settings that made the numbers.
    """

    attacks: tuple[TraitRow, ...]
    controls: tuple[TraitRow, ...]
    baselines: tuple[TraitRow, ...]
    best: str
    bound: EpsilonLowerBound
    ceiling: float
    training_texts: int
    attacked_texts: int
    embedder: str
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> tuple[TraitRow, ...]:
        """All rows, in the order of the table."""
        return (*self.attacks, *self.controls, *self.baselines)

    @property
    def control_holds(self) -> bool:
        """Whether chance is in the interval of every control's accuracy, as in at least 95 of 100 honest audits."""
        return at_chance([(row.accuracy, row.attacked) for row in self.controls], 0.5)

    def refutes(self, epsilon: float) -> bool:
        """Whether the two sets cannot be indistinguishable at this epsilon and the report's delta.

        For an epsilon that somebody states of the sets, by a measured divergence say. False is no proof of it.

        Raises:
            ConfigError: epsilon is negative or NaN.
        """
        _validate.within(0, math.inf, epsilon=epsilon)
        return epsilon < self.bound.epsilon

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        return {
            "attacks": [row.to_dict() for row in self.attacks],
            "controls": [row.to_dict() for row in self.controls],
            "baselines": [row.to_dict() for row in self.baselines],
            "control_holds": self.control_holds,
            "best": self.best,
            "epsilon_lower_bound": _number(self.bound.epsilon),
            "delta": self.bound.delta,
            "confidence": self.bound.confidence,
            "ceiling": _number(self.ceiling),
            "training_texts": self.training_texts,
            "attacked_texts": self.attacked_texts,
            "embedder": self.embedder,
            "notes": list(self.notes),
            "signature": dict(self.signature),
        }

    def to_markdown(self) -> str:
        """A table in Markdown between its settings and what to know when reading it."""
        settings = (
            f"Two sets, {self.training_texts:,} training texts and {self.attacked_texts:,} attacked texts of each; "
            f"similarity by {self.embedder}; intervals at {100 * self.bound.confidence:.6g}%."
        )
        found = (
            f"Best attack: {self.best}. Epsilon of the two sets is at least {self.bound.epsilon:.3g} at delta "
            f"{self.bound.delta:g} ({self.ceiling:.3g} if every guess were right)."
        )
        fault = () if self.control_holds else ("A control is not at chance: do not rely on these numbers.",)
        signed = "[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in self.signature.items()) + "]"
        return "\n".join([settings, "", *table(self.rows), "", found, *fault, *self.notes, signed]) + "\n"


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def epsilon_from_accuracy(accuracy: Estimate, *, delta: float = 0.0) -> Estimate:
    """The epsilon of two sets that a balanced attack needs: ln((accuracy - delta) / (1 - accuracy)), see above.

    It rises with the accuracy, so the ends of the interval go to ends of the same confidence; the *low* end is what the
    attack shows. The high end bounds no epsilon: another attack may be more accurate.

    >>> print(epsilon_from_accuracy(Estimate(0.7, 0.67, 0.73, 0.95)))
    0.85 [0.71, 0.99] (95%)

    Args:
        accuracy: on as many texts of either set.
        delta: of the indistinguishability.

    Raises:
        ConfigError: an accuracy or delta outside [0, 1].
    """
    value, low, high = (accuracy_implies(x, delta=delta) for x in (accuracy.value, accuracy.low, accuracy.high))
    return Estimate(value, low, high, accuracy.confidence)


# ------------------------------------------------------------------ the audit


def infer_trait(
    mechanism: Mechanism[str],
    split: SetSplit,
    *,
    embedder: Embedder,
    attackers: Mapping[str, TrainAttacker] | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    randomness: Randomness | None = None,
    on_release: Progress | None = None,
    on_attacker: Progress | None = None,
) -> TraitReport:
    """Release every text of a split once and tell the sets of the attacked ones apart.

    Args:
        mechanism: on trial. Only the text that it releases is attacked.
        split: of `split_sets`.
        embedder: public; of some attackers, and of the similarities.
        attackers: by name; `standard_attackers()` by default.
        seed: of attackers, controls and bootstrap.
        confidence: of all intervals, and of the bound on epsilon.
        delta: that epsilon is for.
        randomness: of the releases; `seeded(seed)` by default, as nothing is released to anybody.
        on_release: called with texts released and texts in all.
        on_attacker: called with attackers trained and attackers in all.

    Raises:
        ConfigError: a mechanism that releases no text, or as `infer_trait_from_releases`.
        MissingExtraError: scikit-learn is absent.
    """
    released, training_released = release_sets(
        mechanism, split, randomness=seeded(seed) if randomness is None else randomness, on_progress=on_release
    )
    return infer_trait_from_releases(
        split,
        released=released,
        training_released=training_released,
        embedder=embedder,
        attackers=attackers,
        seed=seed,
        confidence=confidence,
        delta=delta,
        on_attacker=on_attacker,
    )


def release_sets(
    mechanism: Mechanism[str], split: SetSplit, *, randomness: Randomness, on_progress: Progress | None = None
) -> tuple[Releases, Releases]:
    """One release of each attacked text and of each training text, all drawn independently.

    Args:
        mechanism: on trial.
        split: of `split_sets`.
        randomness: of the releases. Training texts have streams of their own.
        on_progress: called with texts released and texts in all.

    Raises:
        ConfigError: the mechanism releases no text.
    """
    learned, tried = _joined(split.training), _joined(split.attacked)
    attacked, training = release_split(
        mechanism, AuthorSplit(learned, tried, 0), randomness=randomness, on_progress=on_progress
    )
    m, n = len(split.attacked[0]), len(split.training[0])
    return (attacked[:m], attacked[m:]), (training[:n], training[n:])


def infer_trait_from_releases(
    split: SetSplit,
    *,
    released: Releases,
    training_released: Releases | None = None,
    embedder: Embedder,
    attackers: Mapping[str, TrainAttacker] | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    on_attacker: Progress | None = None,
) -> TraitReport:
    """Tell from which set releases come, with controls, baselines and similarity.

    Args:
        split: of `split_sets`, or made by hand: as many texts of either set, no attacked one among the training texts.
        released: one release of each attacked original, drawn independently, in their order.
        training_released: one release of each training original by the same mechanism, drawn independently of the
            attacked ones, for the attackers that learn from releases; without them there are none.
        embedder: public; of some attackers, and of the similarities.
        attackers: by name; `standard_attackers()` by default.
        seed: of attackers, controls and bootstrap.
        confidence: of all intervals, and of the bound on epsilon.
        delta: that epsilon is for.
        on_attacker: called with attackers trained and attackers in all.

    Raises:
        ConfigError: sets of unequal numbers, an attacked text among the training texts, releases of other records,
            attackers without scores, an embedder without finite vectors, or a setting out of its range.
        MissingExtraError: scikit-learn is absent.
    """
    _check_split(split)
    _check_releases("released", split.attacked, released)
    known = standard_attackers() if attackers is None else attackers
    if not known:
        raise ConfigError("Expected at least one attacker: see standard_attackers.")
    taught = {"static": [record.text for record in _joined(split.training)]}
    if training_released is not None:
        _check_releases("training_released", split.training, training_released)
        taught["adaptive"] = _outputs(training_released)
        taught["both"] = taught["static"] + taught["adaptive"]
    originals, outputs = [record.text for record in _joined(split.attacked)], _outputs(released)
    vectors = TextVectors(embedder)
    learned, true = (np.repeat([True, False], len(side[0])) for side in (split.training, split.attacked))
    judge = _Judge(true, np.random.default_rng(seed).permutation(true), seed, confidence, delta)
    close = judge.similarity(vectors, originals, outputs)
    scores: dict[str, Floats] = {}
    plain: dict[str, Floats] = {}
    for knowledge, texts in taught.items():
        for name, train in known.items():
            attacker = train(texts, np.tile(learned, len(texts) // len(learned)), vectors, seed)
            scores[f"{name}, {knowledge}"] = _scores(name, attacker, outputs)
            if knowledge == "static":
                plain[f"originals: {name}, {knowledge}"] = _scores(name, attacker, originals)
            if on_attacker is not None:
                on_attacker(len(scores), len(known) * len(taught))
    attacks = tuple(judge.row(name, found, close) for name, found in scores.items())
    best = max(attacks, key=lambda row: row.accuracy.value)
    same = judge.similarity(vectors, originals, originals)
    again = len(set(outputs) & set(taught["adaptive"])) if training_released is not None else 0
    signature: dict[str, Json] = {
        "attack": "trait",
        "training": len(split.training[0]),
        "attacked": len(split.attacked[0]),
        "duplicates": split.duplicates,
        "shared": split.shared,
        "adaptive": training_released is not None,
        "attackers": list(known),
        "embedder": embedder.name,
        "seed": seed,
        "confidence": confidence,
        "delta": delta,
    }
    notes = [NO_GUARANTEE, TWO_SETS, GARBAGE]
    if split.shared:
        notes.append(f"{split.shared:,} texts that both sets had were left in one of them, by the flip of a coin.")
    if again:
        notes.append(f"{again:,} different outputs occur in training and under attack, though their originals differ.")
    return TraitReport(
        attacks=attacks,
        controls=tuple(judge.control(f"control: {name}, sets permuted", s, close) for name, s in scores.items()),
        baselines=(*(judge.row(name, found, same) for name, found in plain.items()), judge.majority(close)),
        best=best.name,
        bound=judge.bound(judge.hits(scores[best.name]), tests=len(attacks)),
        ceiling=judge.bound(len(true), tests=len(attacks)).epsilon,
        training_texts=len(split.training[0]),
        attacked_texts=len(split.attacked[0]),
        embedder=embedder.name,
        notes=tuple(notes),
        signature=signature,
    )


@dataclass(frozen=True, slots=True, repr=False)
class _Judge:
    """Scores to rows. `permuted` are the sets in a random order, `(n_texts,)` as the true ones."""

    true: Booleans
    permuted: Booleans
    seed: int
    confidence: float
    delta: float

    def row(self, name: str, scores: Floats, similarity: Estimate) -> TraitRow:
        return self._row(name, scores, self.true, similarity)

    def control(self, name: str, scores: Floats, similarity: Estimate) -> TraitRow:
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
        """One set for every text: exact, as there are as many of each."""
        half, nothing = (Estimate(x, x, x, self.confidence) for x in (0.5, 0.0))
        return TraitRow("majority: one set for all", half, half, nothing, similarity, len(self.true))

    def hits(self, scores: Floats) -> int:
        return _hits(scores, self.true)

    def bound(self, hits: int, *, tests: int) -> EpsilonLowerBound:
        """As for two authors: hits are independent, with chances of their own, and the mean of those is bounded."""
        return epsilon_from_attribution(
            hits, len(self.true), authors=2, delta=self.delta, confidence=self.confidence, tests=tests
        )

    def similarity(self, vectors: TextVectors, first: Sequence[str], second: Sequence[str]) -> Estimate:
        cosines = np.clip(np.einsum("ij,ij->i", vectors.at(first), vectors.at(second)), -1.0, 1.0)
        return bootstrap(cosines, lambda rows: float(rows.mean()), source=seeded(self.seed), confidence=self.confidence)


def _hits(scores: Floats, true: Booleans) -> int:
    """Texts on their side of 0; a score of exactly 0 counts for the second set."""
    return int(((scores > 0) == true).sum())


def _scores(name: str, attacker: Attacker, texts: Sequence[str]) -> Floats:
    found = check_scores(name, attacker(texts))
    if len(found) != len(texts):
        raise ConfigError(f"Expected a score for each of {len(texts)} texts by {name}, found {len(found)}.")
    return found


def _joined(sides: tuple[Sequence[Record], Sequence[Record]]) -> tuple[Record, ...]:
    return (*sides[0], *sides[1])


def _outputs(sides: Releases) -> list[str]:
    return [release.output for side in sides for release in side]


def _check_split(split: SetSplit) -> None:
    for name, sides in (("training", split.training), ("attacked", split.attacked)):
        if len(sides[0]) != len(sides[1]) or len(sides[0]) < 2:
            raise ConfigError(
                f"Expected as many {name} texts of each set, at least 2, found {len(sides[0])} and {len(sides[1])}: "
                "see split_sets."
            )
    if leaked := shared_texts(_joined(split.training), _joined(split.attacked)):
        raise ConfigError(
            f"Expected no attacked text among the training texts, found {leaked}: the attacker would know them. "
            "Remove them, or see split_sets."
        )


def _check_releases(name: str, sides: tuple[Sequence[Record], Sequence[Record]], releases: Releases) -> None:
    for records, own in zip(sides, releases, strict=True):
        if [record.id for record in records] != [release.id for release in own]:
            raise ConfigError(
                f"Expected {name} to be one release for each of {len(records)} originals of each set, in the same "
                f"order and with the same ids, found {len(own)}."
            )
