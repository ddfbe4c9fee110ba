"""Which two texts are neighbours under a guarantee.

A refutation on two inputs that are no neighbours refutes nothing. Every pair is checked, as far as what is revealed can
be computed from the text.
"""

import math
from collections.abc import Sequence

from dptext.errors import IncomparableError
from dptext.privacy.guarantee import Relation, Unit
from dptext.text.records import Record
from dptext.text.tokens import REVEALED, sentences, tokenize


def check_neighbours(first: Record, second: Record, unit: Unit, relation: Relation, reveals: Sequence[str]) -> None:
    """Raise IncomparableError unless the texts are neighbours that agree on what is revealed.

    For the unit TOKEN exactly one token differs. For SENTENCE exactly one of `tokens.sentences` differs, or is left out
    where the relation says so. For DOCUMENT any two texts are neighbours. What is revealed is compared where it is a
    known function of the text (`dptext.text.tokens.REVEALED`); for the rest the caller's word is taken.
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
    """How many positions differ; infinite where the lengths do."""
    if len(first) != len(second):
        return math.inf
    return sum(a != b for a, b in zip(first, second, strict=True))
