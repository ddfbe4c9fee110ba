"""Pairs of neighbouring inputs: given by a caller, or known to make mechanisms fail.

A refutation on two inputs that are no neighbours refutes nothing. So every pair is checked, as far as the revealed
facts can be computed from the text.
"""

import contextlib
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.report import Report
from dptext.audits.subjects import (
    Privatizer,
    Subject,
    Value,
    as_record,
    as_vector,
    claim_of,
    labels_read,
    unclaimed,
)
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import Estimate
from dptext.mechanism import HasMetric
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit
from dptext.sampling.randomness import Randomness, secure
from dptext.text.records import Record
from dptext.text.tokens import REVEALED, sentences, tokenize
from dptext.types import Json

# Revealed facts that do not depend on the text of a record. An audit's run has one record.
_ABOUT_THE_FILE = re.compile(r"the number of (skipped |training )?records|the ids( \(.*\))?|the field '.*'")

#: A word that no vocabulary contains.
UNKNOWN = "zqxjkvbpw"
_OTHER_UNKNOWN = "wvqkzzxqj"
_ADDRESS = "ann@example.com"
_LONG_WORD = 120  # characters
_LENGTH = 41  # tokens of both first sentences and a comma
#: Two sentences with as many tokens that share no number, and two that share no name and no address.
_NUMBERS: Final = (
    "paid $120.50 and 75 EUR on 2021-05-03 for order 48213, call +44 2079460958",
    "paid $7.25 and 900 EUR on 1998-11-27 for order 60757, call +49 3069990142",
)
_ADDRESSES: Final = (
    f"ask Jos\u00e9 Lee at {_ADDRESS} or https://example.com/ann?",
    "ask Bob Fox at bob@sample.org or https://sample.org/bob.",
)
#: Texts that differ in one token.
_ONE_TOKEN: Final = (
    ("name", "we met Ann", "we met Bob"),
    ("amount", "paid $120.50 EUR", "paid $7.25 EUR"),
    ("date", "2021-05-03", "1998-05-03"),
    ("link", "https://ann.org", "https://bob.org"),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring inputs: texts, records or vectors. The `repr` shows neither.

    The `name` of the kind of pair is public. The `distance` between the two is in the metric of the guarantee; if it is
    None, the mechanism computes the distance.
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
        """The distance, or 1 without a metric."""
        return 1.0 if self.distance is None else self.distance

    def per_distance(self, bound: float) -> float:
        """Return a bound on epsilon from a bound on epsilon * distance; at distance 0 any difference is infinite."""
        if self.gap == 0:
            return math.inf if bound > 0 else 0.0
        return bound if self.gap == 1 else bound / self.gap * (1 - 1e-12)


def checked_pair(subject: Subject, pair: Pair, claim: Guarantee) -> Pair:
    """The pair, with its distance if the claim has a metric; IncomparableError for no neighbours or no distance."""
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
    labels: Sequence[str] = (),
) -> list[Pair]:
    """Return pairs of texts on which mechanisms tend to fail, all of them neighbours under a guarantee.

    The pairs differ in known or unknown words, names, capitals, punctuation, numbers (amounts, dates, telephones),
    addresses (e-mail, links), the last word, the length of a word, or one of several equal words. The last kind shows
    noise that tokens share. If lengths are protected, the empty text is paired with `max_tokens` words. Not covered:
    other scripts and languages, other notations of numbers and dates, the order of words, rules about certain words.
    `words` are at least two words of the mechanism's vocabulary, else ConfigError. `labels` are the public labels of a
    mechanism that reads private labels: if the unit is the document and no label is revealed, they add pairs of records
    with one text and two labels, or a label and none. IncomparableError for a unit or relation that one record cannot
    show, or a revealed fact that is not a known function of the text: in that case give two inputs yourself.
    """
    if len(words) < 2:
        raise ConfigError(f"Expected words={tuple(words)!r} to be at least two. Give words that the mechanism knows.")
    for name in reveals:
        if name not in REVEALED and not _ABOUT_THE_FILE.fullmatch(name):
            raise IncomparableError(f"No pair is known to agree on {name!r}: give the two inputs yourself.")
    pairs = []
    _check_kind(unit, relation)
    for name, first, second in (*_candidates(tuple(words), max_tokens), *_telling(tuple(words), unit)):
        with contextlib.suppress(IncomparableError):  # they are no neighbours
            check_neighbours(Record("0", first), Record("0", second), unit, relation, reveals)
            pairs.append(Pair(first, second, name))
    if labels and unit is Unit.DOCUMENT and relation is Relation.REPLACE_ONE and not any("label" in n for n in reveals):
        labelled = [Record("0", words[0], label=label) for label in (*labels[:2], None)]
        pairs += [Pair(labelled[0], other, "labels") for other in labelled[1:]]
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


def _telling(words: tuple[str, ...], unit: Unit) -> list[tuple[str, str, str]]:
    """Return pairs that differ in what mechanisms may copy although they replace all words."""
    a, b, full = *words[:2], f"{_NUMBERS[0]}, {_ADDRESSES[0]}"
    found = [
        ("word against number", f"+{a}", "+442079460958"),
        ("e-mail address against none", _ADDRESS, _ADDRESS.replace("@", "-")),
        ("all capitals", a, a.upper()),
        ("last word", f"{a} {a} {a}", f"{a} {a} {b}"),
        ("length of a word", "i", "i" * _LONG_WORD),
    ]
    if unit is Unit.TOKEN:
        return [*found, *_ONE_TOKEN]
    return [
        *found,
        ("numbers", *_NUMBERS),
        ("names and addresses", *_ADDRESSES),
        ("numbers and addresses against words", full, " ".join([a] * _LENGTH)),
        ("numbers and addresses against no text", "", full),
        ("numbers and addresses in one sentence more", f"{a.capitalize()}. {full}", f"{a.capitalize()}."),
    ]


def worst_latents(dim: int, clip_norm: float = 1.0) -> list[Pair]:
    """Return pairs of vectors of L2 norm `clip_norm`, the largest that clipping keeps. Any two are neighbours.

    Antipodal corners of the cube in the ball have the largest L1 distance. Antipodal ends of an axis have the largest
    distance in every norm for vectors clipped in L1. One pair is a corner and zero. ConfigError for a setting out of
    its range.
    """
    _validate.count(dim=dim)
    _validate.positive(clip_norm=clip_norm)
    corner = np.full(dim, clip_norm / math.sqrt(dim))
    axis = np.zeros(dim)
    axis[0] = clip_norm
    pairs = [Pair(corner, -corner, "antipodal corners"), Pair(corner, np.zeros(dim), "a corner against zero")]
    return pairs if dim == 1 else [*pairs, Pair(axis, -axis, "antipodal ends of an axis")]


@dataclass(frozen=True, slots=True)
class Trial:
    """Checked pairs of neighbours with their distances, and `trials` runs on each input of each pair."""

    pairs: list[Pair]
    claim: Guarantee
    delta: float
    trials: int
    randomness: Randomness

    @classmethod
    def of(
        cls,
        subject: Subject,
        first: Value | None,
        second: Value | None,
        pairs: Sequence[Pair],
        claim: Guarantee | None,
        distance: float | None,
        delta: float | None,
        trials: int,
        randomness: Randomness | None,
    ) -> "Trial":
        """Fill in the defaults of `distinguish`; ConfigError for a single input, or if no pair can be proposed."""
        claim = claim or claim_of(subject) or unclaimed()
        if (first is None) != (second is None) or (first is not None and pairs):
            raise ConfigError("Expected two inputs, or pairs, or neither.")
        if first is not None and second is not None:
            found = [Pair(first, second, distance=distance)]
        elif pairs:
            found = list(pairs)
        elif hasattr(subject, "dim"):
            found = worst_latents(subject.dim, subject.clip_norm if hasattr(subject, "clip_norm") else 1.0)
        elif isinstance(subject, Privatizer):
            found = worst_pairs(claim.unit, claim.relation, claim.reveals, labels=labels_read(subject))
        else:
            raise ConfigError("Expected two inputs: none can be proposed for this subject.")
        if not found:
            raise IncomparableError(
                f"No neighbours are known for unit {claim.unit} and relation {claim.relation} that agree on what is "
                "revealed: give the two inputs yourself."
            )
        checked = [checked_pair(subject, pair, claim) for pair in found]
        for pair in checked:
            sizes = {len(as_vector(each)) for each in (pair.first, pair.second) if not isinstance(each, str | Record)}
            if len(sizes) > 1:
                raise ConfigError("Expected two vectors of one size.")
        delta = claim.delta if delta is None else delta
        _validate.probability(delta=delta)
        return cls(checked, claim, delta, trials, randomness or secure())

    @property
    def runs(self) -> int:
        """The number of runs in all."""
        return 2 * self.trials * len(self.pairs)

    def measures(self, declared: str) -> str:
        """Describe the numbers of an audit that reads the subject's declaration."""
        nothing = self.claim.basis is Basis.NONE
        at = "0" if nothing else f"{self.claim.epsilon:.6g}" + (" x distance" if self.claim.metric else "")
        return f"delta at epsilon {at}; baseline: the delta allowed; control: p-value of the declared {declared}"

    def claimed(self, pair: Pair) -> float:
        """The claimed epsilon of a pair; 0 if nothing is claimed."""
        return 0.0 if self.claim.basis is Basis.NONE else self.claim.epsilon * pair.gap

    def report(
        self,
        best: Pair,
        bound: float,
        *,
        attack: str,
        measures: str,
        numbers: tuple[Estimate, Estimate, Estimate],
        confidence: float,
        ceiling: float = math.inf,
        settings: Mapping[str, Json],
        defects: tuple[str, ...] = (),
    ) -> Report:
        """Return the report on the best pair, with its bound on epsilon; numbers are main, baseline and control."""
        signature: dict[str, Json] = {"pair": best.name, "pairs": len(self.pairs), **settings, "delta": self.delta}
        signature |= {"distance": best.gap, "randomness": self.randomness.fingerprint[:12]}
        return Report(
            main=numbers[0],
            baseline=numbers[1],
            control=numbers[2],
            **{name: getattr(self.claim, name) for name in ("unit", "relation", "metric", "reveals")},
            attack=attack,
            measures=measures,
            epsilon_lower_bound=bound,
            delta=self.delta,
            confidence=confidence,
            ceiling=ceiling,
            defects=defects,
            signature=signature,
        )


def check_neighbours(first: Record, second: Record, unit: Unit, relation: Relation, reveals: Sequence[str]) -> None:
    """Raise IncomparableError unless the texts are neighbours that agree on the revealed facts.

    For the unit TOKEN exactly one token differs. For SENTENCE exactly one of `tokens.sentences` differs, or is left out
    if the relation says so. For DOCUMENT any two texts are neighbours. Revealed facts are compared if they are known
    functions of the text (`dptext.text.tokens.REVEALED`); for other facts the caller is trusted.
    """
    _check_kind(unit, relation)
    if relation is Relation.REPLACE_SPECIAL and bool(first.text) == bool(second.text):
        raise IncomparableError("Expected one of the two texts to be empty: the relation is replace_special.")
    tokens = ([token for line in tokenize(record.text) for token in line] for record in (first, second))
    if unit is Unit.TOKEN and _differing(*tokens) != 1:
        raise IncomparableError("Expected two texts that differ in exactly one token: the unit is the token.")
    if unit is Unit.SENTENCE:
        one, other = sentences(first.text), sentences(second.text)
        short, long = sorted((one, other), key=len)
        if relation is Relation.ADD_OR_REMOVE_ONE and short not in (long[:i] + long[i + 1 :] for i in range(len(long))):
            raise IncomparableError("Expected two texts of which one has one sentence more than the other.")
        if relation is not Relation.ADD_OR_REMOVE_ONE and _differing(one, other) != 1:
            raise IncomparableError("Expected two texts that differ in exactly one sentence: the unit is the sentence.")
    if any("label" in name for name in reveals) and first.label != second.label:
        raise IncomparableError("Expected two records with the same label, which the guarantee reveals.")
    for name in reveals:
        if name in REVEALED and REVEALED[name](first.text) != REVEALED[name](second.text):
            raise IncomparableError(f"Expected two texts that agree on {name}, which the guarantee reveals.")


def _check_kind(unit: Unit, relation: Relation) -> None:
    if unit is Unit.AUTHOR:
        raise IncomparableError("Expected unit token, sentence or document: audit an author's documents one by one.")
    if relation is Relation.ADD_OR_REMOVE_ONE and unit is not Unit.SENTENCE:
        raise IncomparableError("Expected relation replace_one or replace_special: one record cannot be left out.")


def _differing(first: Sequence[object], second: Sequence[object]) -> float:
    return math.inf if len(first) != len(second) else sum(map(operator.ne, first, second))
