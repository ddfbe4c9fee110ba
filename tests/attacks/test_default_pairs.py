"""Without inputs, `distinguish` refutes mechanisms that give away one thing of a text; sound ones survive."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from dptext import audits
from dptext.privacy import accounting
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.text.records import Record, Release
from dptext.text.tokens import LINE_STRUCTURE, TOKEN_COUNT
from vectors import WORDS

#: What shows in so few runs shows in the 20,000 of the default.
FEW = 200
REVEALED = {Unit.DOCUMENT: (), Unit.SENTENCE: (), Unit.TOKEN: (TOKEN_COUNT, LINE_STRUCTURE)}


@dataclass(frozen=True)
class Telling:
    """A random public word, and in clear what a function tells of the text."""

    tells: Callable[[str], str] = field(repr=False)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        drawn = uniform_below(4, len(records), randomness).tolist()
        return [Release(r.id, f"{WORDS[i]} {self.tells(r.text)}") for i, r in zip(drawn, records, strict=True)]


def amounts(text: str) -> str:
    return " ".join(re.findall(r"\$\d+\.\d\d", text))


def another_currency(text: str) -> str:
    return " ".join(re.findall(r"\d[\d.]* EUR", text))


def total(text: str) -> str:
    return str(round(sum(map(float, re.findall(r"\d+\.\d+|\d+", text))), -1))


def digits(text: str) -> str:
    return "".join(re.findall(r"\d", text))


def long_numbers(text: str) -> str:
    return " ".join(re.findall(r"\d{5,}", text))


def dates(text: str) -> str:
    return " ".join(re.findall(r"\d{4}-\d\d-\d\d", text))


def whether_numbers(text: str) -> str:
    return str(any(map(str.isdigit, text)))


def addresses(text: str) -> str:
    return " ".join(re.findall(r"\S+@\S+\.\w+", text))


def links(text: str) -> str:
    return " ".join(re.findall(r"https?://\S+", text))


def names(text: str) -> str:
    return " ".join(re.findall(r"(?<=[a-z] )[A-Z][a-z]+", text))


def length(text: str) -> str:
    return str(len(text))


def length_by_tens(text: str) -> str:
    return str(len(text) // 10)


def capitals(text: str) -> str:
    return str(sum(map(str.isupper, text)))


def words_in_capitals(text: str) -> str:
    return " ".join(re.findall(r"\b[A-Z]{2,}\b", text))


def last_word(text: str) -> str:
    words = text.casefold().split()
    return words[-1] if len(words) > 2 else ""


TOLD = (
    *(amounts, another_currency, total, digits, long_numbers, dates, whether_numbers, addresses, links, names, length),
    *(length_by_tens, capitals, words_in_capitals, last_word),
)
#: Of the others a quick test says that a pair differs in them.
QUICK = (amounts, addresses, length, capitals, last_word)


def claim_of(unit: Unit, relation: Relation = Relation.REPLACE_ONE):
    return accounting.guarantee(
        [PureEvent(1.0)], unit=unit, relation=relation, reveals=REVEALED[unit], basis=Basis.PROVEN
    )


def refuted(subject: object, unit: Unit, trials: int = FEW, seed: int = 1) -> bool:
    claim = claim_of(unit)
    return audits.distinguish(subject, claim=claim, trials=trials, randomness=seeded(seed)).refutes(claim)


@pytest.mark.parametrize(
    "tells", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in TOLD]
)
def test_what_is_told_in_clear_is_refuted(tells: Callable[[str], str]) -> None:
    assert refuted(Telling(tells), Unit.DOCUMENT)


@pytest.mark.parametrize("unit", [Unit.DOCUMENT, Unit.SENTENCE, Unit.TOKEN])
def test_some_pair_of_each_unit_differs_in_it(unit: Unit) -> None:
    pairs = audits.worst_pairs(unit, reveals=REVEALED[unit])
    assert [f for f in TOLD if all(f(pair.first) == f(pair.second) for pair in pairs)] == []


@pytest.mark.parametrize("tells", [amounts, last_word])
def test_what_tells_of_one_token_is_refuted(tells: Callable[[str], str]) -> None:
    assert refuted(Telling(tells), Unit.TOKEN)


def test_a_sentence_more_or_a_text_against_none_has_numbers_and_addresses() -> None:
    for unit, relation in ((Unit.SENTENCE, Relation.ADD_OR_REMOVE_ONE), (Unit.DOCUMENT, Relation.REPLACE_SPECIAL)):
        pairs = audits.worst_pairs(unit, relation)
        for tells in (amounts, dates, addresses, links, names):
            assert any(tells(pair.first) != tells(pair.second) for pair in pairs), tells


@dataclass(frozen=True)
class Attaining:
    """Two answers, with an epsilon of 1 between texts that come first in the default pairs and other texts."""

    firsts: frozenset[str]

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        rows = np.eye(2)[[int(record.text in self.firsts) for record in records]]
        drawn = TopKRandomizedResponse(1.0, 1, 2).choose(rows, randomness).tolist()
        return [Release(record.id, WORDS[i]) for i, record in zip(drawn, records, strict=True)]


@pytest.mark.parametrize(("audits_made", "most"), [(3, 1), pytest.param(100, 12, marks=pytest.mark.slow)])
def test_what_attains_its_epsilon_on_most_pairs_survives(audits_made: int, most: int) -> None:
    """The error of 5% is divided among all pairs."""
    subject = Attaining(frozenset(pair.first for pair in audits.worst_pairs(Unit.DOCUMENT)))
    assert sum(refuted(subject, Unit.DOCUMENT, seed=i) for i in range(audits_made)) <= most


def test_what_tells_nothing_survives() -> None:
    assert not refuted(Telling(lambda _: ""), Unit.DOCUMENT)
    assert not refuted(Telling(lambda _: ""), Unit.TOKEN)
