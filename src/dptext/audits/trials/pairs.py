"""Neighbouring inputs: which pairs are neighbours, and pairs on which mechanisms tend to fail.

A refutation on two inputs that are no neighbours refutes nothing. So a proposed pair is always checked, and a given
one as far as what is revealed can be computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dptext import _validate
from dptext.audits.subjects import Subject, Value, as_record
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import HasMetric
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.text.records import Record
from dptext.text.tokens import REVEALED, sentences, tokenize

# One record a run: these do not depend on what the record says.
_ABOUT_THE_FILE = re.compile(r"the number of (skipped |training )?records|the ids( \(.*\))?|the field '.*'")

#: A word that no vocabulary has.
UNKNOWN = "zqxjkvbpw"
_OTHER_UNKNOWN = "wvqkzzxqj"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring inputs. Its `repr` shows neither.

    Attributes:
        first, second: texts, records or vectors.
        name: what kind of pair it is; public.
        distance: between the two in the guarantee's metric; None asks the mechanism.
    """

    first: Value = field(repr=False)
    second: Value = field(repr=False)
    name: str = "given"
    distance: float | None = None

    def __post_init__(self) -> None:
        if self.distance is not None:
            _validate.not_negative(distance=self.distance)

    @property
    def gap(self) -> float:
        """The distance, 1 where there is no metric."""
        return 1.0 if self.distance is None else self.distance

    def per_distance(self, bound: float) -> float:
        """A lower bound on epsilon times the distance as one on epsilon: at distance 0 any difference is too much."""
        if self.gap == 0:
            return math.inf if bound > 0 else 0.0
        return bound if self.gap == 1 else bound / self.gap * (1 - 1e-12)


def check_neighbours(first: Record, second: Record, unit: Unit, relation: Relation, reveals: Sequence[str]) -> None:
    """Raise IncomparableError unless the texts are neighbours that agree on what is revealed.

    TOKEN: exactly one token differs. SENTENCE: exactly one of `tokens.sentences` differs, or is left out where the
    relation says so. DOCUMENT: any two. What is revealed is compared where it is a known function of the text
    (`dptext.text.tokens.REVEALED`); others are the caller's word.

    Raises:
        IncomparableError: no neighbours, or a unit or relation that one record cannot show.
    """
    if unit is Unit.AUTHOR:
        raise IncomparableError(
            "Expected unit token, sentence or document: audit the documents of an author one by one."
        )
    if relation is Relation.ADD_OR_REMOVE_ONE and unit is not Unit.SENTENCE:
        raise IncomparableError("Expected relation replace_one or replace_special: one record cannot be left out.")
    if relation is Relation.REPLACE_SPECIAL and bool(first.text) == bool(second.text):
        raise IncomparableError("Expected one of the two texts to be empty: the relation is replace_special.")
    if unit is Unit.TOKEN and _differing(_tokens(first.text), _tokens(second.text)) != 1:
        raise IncomparableError("Expected two texts that differ in exactly one token: the unit is the token.")
    if unit is Unit.SENTENCE:
        one, other = sentences(first.text), sentences(second.text)
        if relation is Relation.ADD_OR_REMOVE_ONE and not _one_more(one, other):
            raise IncomparableError("Expected two texts of which one has one sentence more than the other.")
        if relation is not Relation.ADD_OR_REMOVE_ONE and _differing(one, other) != 1:
            raise IncomparableError("Expected two texts that differ in exactly one sentence: the unit is the sentence.")
    if any("label" in name for name in reveals) and first.label != second.label:
        raise IncomparableError("Expected two records with the same label, which the guarantee reveals.")
    for name in reveals:
        if name in REVEALED and REVEALED[name](first.text) != REVEALED[name](second.text):
            raise IncomparableError(f"Expected two texts that agree on {name}, which the guarantee reveals.")


def _tokens(text: str) -> list[str]:
    return [token for line in tokenize(text) for token in line]


def _one_more(first: list[str], second: list[str]) -> bool:
    """Whether one list is the other with one element taken out."""
    short, long = sorted((first, second), key=len)
    return len(long) == len(short) + 1 and any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def _differing(first: list[str], second: list[str]) -> float:
    """How many positions differ; infinite for different lengths."""
    if len(first) != len(second):
        return math.inf
    return sum(a != b for a, b in zip(first, second, strict=True))


def checked_pair(subject: Subject, pair: Pair, claim: Guarantee) -> Pair:
    """The pair, known to be neighbours under the claim, with its distance where the claim has a metric.

    Raises:
        IncomparableError: they are no neighbours, or there is a metric and nobody knows the distance.
    """
    if isinstance(pair.first, str | Record) and isinstance(pair.second, str | Record):
        check_neighbours(as_record(pair.first), as_record(pair.second), claim.unit, claim.relation, claim.reveals)
    if claim.metric is None:
        return replace(pair, distance=None)
    if pair.distance is not None:
        return pair
    if not isinstance(subject, HasMetric):
        raise IncomparableError(f"Expected distance=, as the guarantee is a multiple of the {claim.metric}.")
    return replace(pair, distance=subject.distance(as_record(pair.first), as_record(pair.second)))


def worst_pairs(
    unit: Unit,
    relation: Relation = Relation.REPLACE_ONE,
    reveals: Sequence[str] = (),
    *,
    words: Sequence[str] = ("good", "bad", "the", "paris"),
    max_tokens: int = 50,
) -> list[Pair]:
    """Pairs of texts on which mechanisms tend to fail, all of them neighbours.

    Known against known word, known against unknown, two unknown ones, a stop-word, capitals and punctuation, a
    repeated word of which one is replaced (noise that tokens share), and where lengths are protected the empty text
    against the longest.

    Args:
        unit: of the guarantee.
        relation: of the guarantee.
        reveals: of the guarantee; every pair agrees on it.
        words: at least two known words of the mechanism's vocabulary.
        max_tokens: length of the longest text.

    Raises:
        IncomparableError: a unit or relation that one record cannot show, or something revealed that is not a known
            function of the text, so that no pair can be known to agree on it: give the pair yourself.
        ConfigError: fewer than two words.
    """
    if len(words) < 2:
        raise ConfigError(f"Expected words={tuple(words)!r} to be at least two.")
    for name in reveals:
        if name not in REVEALED and not _ABOUT_THE_FILE.fullmatch(name):
            raise IncomparableError(f"No pair is known to agree on {name!r}: give the two inputs yourself.")
    pairs = []
    for name, first, second in _candidates(tuple(words), max_tokens):
        try:
            check_neighbours(Record("0", first), Record("0", second), unit, relation, reveals)
        except IncomparableError:
            if unit is Unit.AUTHOR or (relation is Relation.ADD_OR_REMOVE_ONE and unit is not Unit.SENTENCE):
                raise
            continue
        pairs.append(Pair(first, second, name))
    return pairs


def _candidates(words: tuple[str, ...], max_tokens: int) -> list[tuple[str, str, str]]:
    a, b = words[:2]
    known = [(f"known words {i}", a, word) for i, word in enumerate(words[1:], start=1)]
    long = " ".join([a] * max_tokens)
    return [
        *known,
        ("known against unknown word", a, UNKNOWN),
        ("two unknown words", UNKNOWN, _OTHER_UNKNOWN),
        ("capital", a, a.capitalize()),
        ("punctuation", "!", "?"),
        ("one word of several", " ".join([a] * 4), " ".join([b, *[a] * 3])),
        ("all words", " ".join([a] * 4), " ".join([b] * 4)),
        ("one sentence", f"{a.capitalize()} {a}. {b.capitalize()}.", f"{b.capitalize()} {a}. {b.capitalize()}."),
        ("one sentence, unknown", f"{a.capitalize()}. {a}.", f"{UNKNOWN.capitalize()}. {a}."),
        ("one sentence more", f"{a.capitalize()} {a}. {b.capitalize()}.", f"{a.capitalize()} {a}."),
        ("one sentence more of four", f"{b.capitalize()}. " * 3 + f"{a.capitalize()}.", f"{b.capitalize()}. " * 3),
        ("one sentence of four", f"{b.capitalize()}. " * 3 + f"{a.capitalize()}.", f"{b.capitalize()}. " * 4),
        ("empty against one word", "", a),
        ("empty against longest", "", long),
        ("short against longest", b, long),
        ("empty against unknown", "", UNKNOWN),
        ("two lines against one", f"{a}\n{a}", f"{a} {a}"),
    ]


def worst_latents(dim: int, clip_norm: float = 1.0) -> list[Pair]:
    """Pairs of vectors of L2 norm `clip_norm`, the largest that clipping lets through: any two are neighbours.

    Antipodal corners of the cube in the ball (the largest L1 distance), antipodal ends of an axis (the largest in
    every norm for vectors clipped in L1), and a corner against zero.

    Raises:
        ConfigError: a setting out of its range.
    """
    _validate.count(dim=dim)
    _validate.positive(clip_norm=clip_norm)
    corner = np.full(dim, clip_norm / math.sqrt(dim))
    axis = np.zeros(dim)
    axis[0] = clip_norm
    pairs = [Pair(corner, -corner, "antipodal corners"), Pair(corner, np.zeros(dim), "a corner against zero")]
    return pairs if dim == 1 else [*pairs, Pair(axis, -axis, "antipodal ends of an axis")]
