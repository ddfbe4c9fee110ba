"""Closed-set authorship attribution: who of the known authors wrote this privatized text?

Two attackers, character n-grams with a linear classifier and sentence vectors with a logistic regression, each *static*
(trained on originals of the same authors, not on those that are attacked) and *adaptive* (trained on what the mechanism
made of them). Garbage hides authors perfectly, so every row has the similarity of the attacked texts to their own
originals beside it, and there is no row without one::

    split = split_authors(records, training=20, attacked=10, seed=0)
    found = attribute(mechanism, split, embedder=load_sentence_encoder(), seed=0)
    print(found.to_markdown())

What is measured is these attackers on these authors. Little success proves nothing: other attackers may do better.

Much success bounds epsilon from below, for replacing one document: `dptext.audits.inference.attribution` has the proof.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.inference.attribution import (
    AttributionRow,
    Judge,
    at_chance,
    bundles,
    epsilon_from_attribution,
    table,
)
from dptext.audits.inference.authors import (
    ENCODER,
    NGRAMS,
    AuthorSplit,
    author_of,
    embed_distinct,
    split_authors,
    train_encoder,
    train_ngrams,
)
from dptext.audits.membership.members import shared_texts
from dptext.audits.report import Report
from dptext.audits.subjects import Progress
from dptext.embeddings.vectors import Embedder
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record, Release
from dptext.types import Floats, Json

__all__ = [
    "AttributionRow",
    "AuthorSplit",
    "AuthorshipReport",
    "attribute",
    "attribute_releases",
    "epsilon_from_attribution",
    "release_split",
    "split_authors",
]


#: The notes that every report has.
GARBAGE: Final = "Garbage hides authors perfectly: read each accuracy with the similarity beside it."
NO_PROOF: Final = (
    "A low accuracy proves nothing: another attacker, more training text or more texts a bundle may do more."
)

_BATCH = 256
#: Where the stream of the training releases begins: far from that of the attacked ones.
_TRAINING = 1 << 40


@dataclass(frozen=True, slots=True)
class AuthorshipReport:
    """The outcome of attributing releases to their authors. It shows no text and no author.

    Attributes:
        attacks: on the releases, static ones first.
        controls: the same guesses held against permuted authors: at chance, or the audit counts wrongly.
        baselines: the static attackers on the originals (no privacy at all); a guess at random (exact); the author
            with most training texts.
        report: of single texts, for replacing one document, whatever the bundles: the lower bound on epsilon by the
            best attack, for which the error is divided among all. `report.refutes(guarantee)` compares.
        authors: how many there are.
        training_texts, attacked_texts: how many there are, of all authors.
        bundle: texts of one author that were attributed together.
        embedder: name of the embedder behind one attacker and the similarities.
        notes: what a reader must know.
        signature: the settings that made the numbers.
    """

    attacks: tuple[AttributionRow, ...]
    controls: tuple[AttributionRow, ...]
    baselines: tuple[AttributionRow, ...]
    report: Report
    authors: int
    training_texts: int
    attacked_texts: int
    bundle: int
    embedder: str
    notes: tuple[str, ...] = ()
    signature: Mapping[str, Json] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> tuple[AttributionRow, ...]:
        """All rows, in the order of the table."""
        return (*self.attacks, *self.controls, *self.baselines)

    @property
    def control_holds(self) -> bool:
        """Whether chance is in the interval of every control, as in at least 95 of 100 honest audits."""
        return at_chance([(row.accuracy, row.attributed) for row in self.controls], 1 / self.authors)

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, without anything of the records."""
        return {
            "attacks": [row.to_dict() for row in self.attacks],
            "controls": [row.to_dict() for row in self.controls],
            "baselines": [row.to_dict() for row in self.baselines],
            "control_holds": self.control_holds,
            "report": self.report.to_dict(),
            "authors": self.authors,
            "training_texts": self.training_texts,
            "attacked_texts": self.attacked_texts,
            "bundle": self.bundle,
            "embedder": self.embedder,
            "notes": list(self.notes),
            "signature": dict(self.signature),
        }

    def to_markdown(self) -> str:
        """A table in Markdown between its settings and what to know when reading it."""
        together = "" if self.bundle == 1 else f", {self.bundle} texts of one author at a time"
        settings = (
            f"{self.authors:,} authors, {self.training_texts:,} training texts, {self.attacked_texts:,} attacked "
            f"texts{together}; similarity by {self.embedder}; intervals at {100 * self.report.confidence:.6g}%."
        )
        bound, ceiling = self.report.epsilon_lower_bound, self.report.ceiling
        found = (
            f"Single texts: epsilon is at least {bound:.3g} at delta {self.report.delta:g}, for replacing one document "
            f"({ceiling:.3g} if every guess were right)."
        )
        fault = () if self.control_holds else ("A control is not at chance: do not rely on these numbers.",)
        signed = "[" + "|".join(f"{key}:{json.dumps(value)}" for key, value in self.signature.items()) + "]"
        return "\n".join([settings, "", *table(self.rows), "", found, *fault, *self.notes, signed]) + "\n"


# ------------------------------------------------------------------ the audit


def attribute(
    mechanism: Mechanism[str],
    split: AuthorSplit,
    *,
    embedder: Embedder,
    bundle: int = 1,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    randomness: Randomness | None = None,
    on_release: Progress | None = None,
    on_attacker: Progress | None = None,
) -> AuthorshipReport:
    """Release every text of a split once and attribute the releases of the attacked ones.

    Args:
        mechanism: on trial. Only the text that it releases is attacked.
        split: of `split_authors`.
        embedder: public; of one attacker, and of the similarities.
        bundle: texts of one author that are attributed together.
        seed: of classifiers, controls and bootstrap.
        confidence: of all intervals, and of the bound on epsilon.
        delta: that the bound on epsilon is for.
        randomness: of the releases; `seeded(seed)` by default, as nothing is released to anybody.
        on_release: called with texts released and texts in all.
        on_attacker: called with attackers trained and attackers in all.

    Raises:
        ConfigError: a mechanism that releases no text, or as `attribute_releases`.
        MissingExtraError: scikit-learn is absent.
    """
    released, training_released = release_split(
        mechanism, split, randomness=seeded(seed) if randomness is None else randomness, on_progress=on_release
    )
    return attribute_releases(
        split.training,
        split.attacked,
        released=released,
        training_released=training_released,
        embedder=embedder,
        bundle=bundle,
        seed=seed,
        confidence=confidence,
        delta=delta,
        on_attacker=on_attacker,
    )


def release_split(
    mechanism: Mechanism[str], split: AuthorSplit, *, randomness: Randomness, on_progress: Progress | None = None
) -> tuple[list[Release[str]], list[Release[str]]]:
    """One release of each attacked text and of each training text, all drawn independently.

    Args:
        mechanism: on trial.
        split: of `split_authors`.
        randomness: of the releases. Training texts have streams of their own.
        on_progress: called with texts released and texts in all.

    Raises:
        ConfigError: the mechanism releases no text.
    """
    if not mechanism.spec.traits.releases_text:
        raise ConfigError(f"Expected a mechanism that releases text: {mechanism.spec.kind} releases vectors only.")
    total = len(split.attacked) + len(split.training)

    def released(records: Sequence[Record], *, position: int, done: int) -> list[Release[str]]:
        found: list[Release[str]] = []
        for start in range(0, len(records), _BATCH):
            found += mechanism.privatize(records[start : start + _BATCH], randomness.at(position + start))
            if on_progress is not None:
                on_progress(done + len(found), total)
        return found

    return (
        released(split.attacked, position=0, done=0),
        released(split.training, position=_TRAINING, done=len(split.attacked)),
    )


def attribute_releases(
    training: Sequence[Record],
    attacked: Sequence[Record],
    *,
    released: Sequence[Release[str]],
    training_released: Sequence[Release[str]] = (),
    embedder: Embedder,
    bundle: int = 1,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    on_attacker: Progress | None = None,
) -> AuthorshipReport:
    """Attribute releases to their authors, with controls, baselines and similarity.

    In a bundle the scores of its texts are added up: log probabilities of the logistic regression, margins of the
    linear support vector machine. Bundles take the texts of an author in their order; what is left over is not
    attributed. Equal scores go to authors in one random order.

    Args:
        training: originals of all authors, none of them attacked.
        attacked: originals of the same authors, equally many of each, so that a guess at random is right for 1 in A.
        released: one release of each attacked original, drawn independently, in their order.
        training_released: one release of each training original by the same mechanism, drawn independently of the
            attacked ones, for the adaptive attackers; without them there are none.
        embedder: public; of one attacker, and of the similarities.
        bundle: texts of one author that are attributed together.
        seed: of classifiers, controls and bootstrap.
        confidence: of all intervals, and of the bound on epsilon.
        delta: that the bound on epsilon is for.
        on_attacker: called with attackers trained and attackers in all.

    Raises:
        ConfigError: records without authors, authors who differ or have unequal numbers of attacked texts, releases of
            other records, an embedder without finite vectors, or a setting out of its range.
        MissingExtraError: scikit-learn is absent.
    """
    names = _check_authors(training, attacked, bundle)
    _check_releases("released", attacked, released)
    if training_released:
        _check_releases("training_released", training, training_released)
    code = {name: i for i, name in enumerate(names)}
    learned, true = (np.array([code[author_of(r)] for r in side], np.int64) for side in (training, attacked))
    originals, outputs = [record.text for record in attacked], [release.output for release in released]
    taught = {"static": [record.text for record in training]}
    if training_released:
        taught["adaptive"] = [release.output for release in training_released]
    space = embed_distinct([*originals, *outputs, *(text for texts in taught.values() for text in texts)], embedder)
    rng = np.random.default_rng(seed)
    judge = Judge(
        authors=len(names),
        true=true,
        units=bundles(true, bundle),
        priority=rng.permutation(len(names)),
        permuted=rng.permutation,
        seed=seed,
        confidence=confidence,
    )
    close = judge.similarity(space.at(originals), space.at(outputs))
    scores: dict[str, Floats] = {}
    plain: dict[str, Floats] = {}
    for knowledge, texts in taught.items():
        for name, attacker in (
            (NGRAMS, train_ngrams(texts, learned, seed)),
            (ENCODER, train_encoder(texts, learned, space, seed)),
        ):
            scores[f"{name}, {knowledge}"] = attacker(outputs)
            if knowledge == "static":
                plain[f"originals: {name}, {knowledge}"] = attacker(originals)
            if on_attacker is not None:
                on_attacker(len(scores), 2 * len(taught))
    same = judge.similarity(space.at(originals), space.at(originals))
    most = np.tile(np.bincount(learned, minlength=len(names)).astype(np.float64), (len(true), 1))
    overlap = shared_texts(training, attacked)
    signature: dict[str, Json] = {
        "attack": "authorship",
        "authors": len(names),
        "training": len(training),
        "attacked": len(attacked),
        "bundle": bundle,
        "adaptive": bool(training_released),
        "embedder": embedder.name,
        "overlap": overlap,
        "seed": seed,
        "confidence": confidence,
        "delta": delta,
    }
    notes = [GARBAGE, NO_PROOF]
    if overlap:
        notes.append(f"{overlap:,} of the attacked texts are also training texts: the attacker knew them.")
    if len(true) > judge.units.size:
        notes.append(f"{len(true) - judge.units.size:,} attacked texts are left over and in no bundle.")
    return AuthorshipReport(
        attacks=tuple(judge.row(name, found, close) for name, found in scores.items()),
        controls=tuple(judge.control(f"control: {name}, authors permuted", s, close) for name, s in scores.items()),
        baselines=(
            *(judge.row(name, found, same) for name, found in plain.items()),
            judge.chance("chance", close),
            judge.row("majority: most training texts", most, close),
        ),
        report=judge.report(scores, delta=delta, signature=signature),
        authors=len(names),
        training_texts=len(training),
        attacked_texts=len(attacked),
        bundle=bundle,
        embedder=embedder.name,
        notes=tuple(notes),
        signature=signature,
    )


def _check_authors(training: Sequence[Record], attacked: Sequence[Record], bundle: int) -> list[str]:
    """The authors, sorted."""
    _validate.count(bundle=bundle)
    known, counts = {author_of(record) for record in training}, Counter(map(author_of, attacked))
    if len(known) < 2 or known != set(counts):
        raise ConfigError(
            f"Expected the same authors, at least 2, of training and attacked texts, found {len(known)} and "
            f"{len(counts)}, {len(known & set(counts))} in common: see split_authors."
        )
    fewest, most = min(counts.values()), max(counts.values())
    if fewest < most:
        raise ConfigError(
            f"Expected as many attacked texts of every author, found {fewest} to {most}: see split_authors."
        )
    if bundle > fewest:
        raise ConfigError(f"Expected bundle={bundle} <= {fewest}, the attacked texts of an author: make it smaller.")
    return sorted(known)


def _check_releases(name: str, records: Sequence[Record], releases: Sequence[Release[str]]) -> None:
    if [record.id for record in records] != [release.id for release in releases]:
        raise ConfigError(
            f"Expected {name} to be one release for each of {len(records)} originals, in the same order and with the "
            f"same ids, found {len(releases)}."
        )
