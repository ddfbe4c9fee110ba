"""Members and non-members of a training set, and classifiers that are attacked or trained to mimic the target.

An audit knows a classifier only as a `Scorer`, and the training of a classifier only as a `Trainer`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from dptext.audits.features import distinct_texts, learn_ngrams, shared_texts
from dptext.errors import ConfigError
from dptext.text.records import Record, Release
from dptext.types import Floats


@dataclass(frozen=True, slots=True)
class MemberSplit:
    """Distinct members and as many non-members: members train the model, or trained it; both are attacked.

    `duplicates` counts records that were removed because an earlier record has the same text, `left_over` counts
    records that were removed to make the sides equal.
    """

    members: tuple[Record, ...] = field(repr=False)
    non_members: tuple[Record, ...] = field(repr=False)
    duplicates: int
    left_over: int


def split_members(records: Iterable[Record], *, seed: int) -> MemberSplit:
    """Remove duplicates, then split at random into members and as many non-members.

    Two records are duplicates if their tokens are equal without regard to case, whatever their labels: a non-member
    whose text is also a member's is a non-member in name only. Each side can be split again, so that an attacker has
    records of its own. ConfigError for fewer than two distinct texts.
    """
    distinct, count = distinct_texts(records)
    kept = list(distinct.values())
    if len(kept) < 2:
        raise ConfigError(f"Expected at least 2 distinct texts, found {len(kept)}.")
    order = np.random.default_rng(seed).permutation(len(kept)).tolist()
    half = len(kept) // 2
    sides = [tuple(kept[i] for i in part) for part in (order[:half], order[half : 2 * half])]
    return MemberSplit(sides[0], sides[1], duplicates=count - len(kept), left_over=len(kept) - 2 * half)


def match_members(members: Iterable[Record], others: Iterable[Record], *, seed: int) -> MemberSplit:
    """Pair the distinct members of a model with as many distinct other records; a text of both is a member's.

    Fewer than two of either raise ConfigError.
    """
    inside, first = distinct_texts(members)
    outside, second = distinct_texts(others)
    sides = list(inside.values()), [record for key, record in outside.items() if key not in inside]
    size = min(map(len, sides))
    if size < 2:
        raise ConfigError(
            f"Expected at least 2 distinct texts of members and 2 others that are no member's, found {len(sides[0])} "
            f"and {len(sides[1])}."
        )
    rng = np.random.default_rng(seed)
    drawn = [tuple(side[i] for i in rng.permutation(len(side))[:size].tolist()) for side in sides]
    distinct = sum(map(len, sides))
    return MemberSplit(drawn[0], drawn[1], duplicates=first + second - distinct, left_over=distinct - 2 * size)


def check_members(
    members: Sequence[Record], non_members: Sequence[Record], names: tuple[str, str] = ("members", "non_members")
) -> None:
    """Raise ConfigError for fewer than two records, unequal numbers, a text on both sides, or a missing label."""
    first, second = names
    if len(members) < 2 or len(members) != len(non_members):
        raise ConfigError(
            f"Expected at least 2 {first} and as many {second}, found {len(members)} and {len(non_members)}: see "
            "split_members."
        )
    if leaked := shared_texts(members, non_members):
        raise ConfigError(
            f"Expected no text of {second} among {first}, found {leaked}: remove duplicates first, by split_members."
        )
    if any(record.label is None for record in (*members, *non_members)):
        raise ConfigError(f"Expected a label for every record of {first} and {second}: the classifier learns it.")


#: The least probability that is used: one model that never saw a label must not decide all variances.
_SMALLEST: Final = 1e-12


class Scorer(Protocol):
    """A trained classifier that returns confidence scores."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the classifier, in the order of its scores."""

    def probabilities(self, texts: Sequence[str], /) -> Floats:
        """Return scores `(n_texts, n_labels)`; rows sum to 1."""


#: Trains a classifier on texts and labels, by a seed.
Trainer = Callable[[Sequence[str], Sequence[str], int], Scorer]
#: Privatizes records, by a seed: one release for each record, in order. A release without a label keeps the record's.
Transform = Callable[[Sequence[Record], int], Sequence[Release[str]]]


def train_on(records: Sequence[Record], *, train: Trainer, transform: Transform | None, seed: int) -> Scorer:
    """Train a classifier on records, or on their transform; ConfigError for another number of releases."""
    labels = [record.label or "" for record in records]
    if transform is None:
        return train([record.text for record in records], labels, seed)
    releases = transform(records, seed)
    if len(releases) != len(records):
        raise ConfigError(f"Expected a release for each of {len(records)} records, found {len(releases)}.")
    released = [own if release.label is None else release.label for release, own in zip(releases, labels, strict=True)]
    return train([release.output for release in releases], released, seed)


def halves_of_both(members: Sequence[Record], non_members: Sequence[Record], rng: np.random.Generator) -> list[Record]:
    """Draw half of the members and half of the non-members. A model trained on both halves cannot tell them apart."""
    halves = [sorted(rng.permutation(len(s))[: max(1, len(s) // 2)].tolist()) for s in (members, non_members)]
    return [side[i] for side, half in zip((members, non_members), halves, strict=True) for i in half]


def logit_confidence(scorer: Scorer, records: Sequence[Record]) -> Floats:
    """Return log p - log(1 - p) of the true label, `(n,)` (Carlini et al. 2022, section 6); falls as the loss rises.

    1 - p is summed over the other labels, so it keeps its digits near p = 1. A label that the scorer does not know has
    p = 0. Both p and 1 - p are at least 1e-12.
    """
    scores = np.asarray(scorer.probabilities([record.text for record in records]), np.float64)
    if scores.shape != (len(records), len(scorer.labels)) or np.isnan(scores).any():
        raise ConfigError(
            f"Expected probabilities of shape {(len(records), len(scorer.labels))} without NaN, found {scores.shape}."
        )
    columns = {label: i for i, label in enumerate(scorer.labels)}
    column = np.array([columns.get(record.label or "", -1) for record in records])
    known = np.flatnonzero(column >= 0)
    right = np.zeros(len(records))
    right[known] = scores[known, column[known]]
    scores = scores.copy()
    scores[known, column[known]] = 0.0
    return np.asarray(np.log(np.maximum(right, _SMALLEST)) - np.log(np.maximum(scores.sum(axis=1), _SMALLEST)))


def blind_scores(members: Sequence[Record], non_members: Sequence[Record], *, seed: int) -> tuple[Floats, Floats]:
    """Score members and non-members without a look at the model: the attacker learns from the words of half of them.

    Members and non-members that differ as texts, for example by their date, can be told apart without any leak. An
    attack on a model means something only as far as it beats this baseline. ConfigError for fewer than two of either,
    """
    if len(members) < 2 or len(non_members) < 2:
        raise ConfigError("Expected at least two members and two non-members.")
    rng = np.random.default_rng(seed)
    sides = [np.array([record.text for record in side], dtype=object) for side in (members, non_members)]
    folds = [rng.permutation(len(side)) % 2 for side in sides]
    scores = [np.empty(len(side)) for side in sides]
    for fold in (0, 1):
        learned = learn_ngrams(*([*side[own != fold]] for side, own in zip(sides, folds, strict=True)))
        for side, own, score in zip(sides, folds, scores, strict=True):
            score[own == fold] = learned([*side[own == fold]])
    return scores[0], scores[1]
