"""What the paper's Table 1 shows by examples, counted: how outputs of an auto-encoder differ from their originals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from dptext.estimates import clopper_pearson
from dptext.text.records import Record, Release
from dptext.text.tokens import tokenize


def words_of(text: str) -> list[str]:
    """Tokens of all lines, without regard to case."""
    return [token.casefold() for line in tokenize(text) for token in line]


def stutters(words: Sequence[str]) -> bool:
    """Whether a word stands beside itself, as in "flights flights flights boston"."""
    return any(first == second for first, second in pairwise(words))


def repeats_pair(words: Sequence[str]) -> bool:
    """Whether some two neighbouring words stand together again."""
    return any(count > 1 for count in Counter(pairwise(words)).values())


def slot_words(words: Sequence[str], tags: Sequence[str]) -> set[str]:
    """The words with a tag other than O; none where tags do not fit the words."""
    return {word.casefold() for word, tag in zip(words, tags, strict=True) if tag != "O"}


def changes(
    originals: Sequence[Record], releases: Sequence[Release[str]], slots: Mapping[str, set[str]]
) -> dict[str, dict[str, float | str]]:
    """Shares of the outputs, each with its exact interval.

    Args:
        originals: what was rewritten.
        releases: one for each, in their order.
        slots: the slot words (names, dates, cities) of each record by its id.
    """
    texts = [words_of(record.text) for record in originals]
    outputs = [words_of(release.output) for release in releases]
    known = {tuple(words) for words in texts}
    pairs = list(zip(originals, texts, releases, outputs, strict=True))
    with_slots = [(slots[record.id], set(out)) for record, _, _, out in pairs if slots.get(record.id)]
    counted = {
        "label and text exact": [a == b and r.label == x.label for r, a, x, b in pairs],
        "text of another training record": [a != b and tuple(b) in known for _, a, _, b in pairs],
        "no label": [not x.label for _, _, x, _ in pairs],
        "a slot word lost": [not names <= out for names, out in with_slots],
        "all slot words lost": [names.isdisjoint(out) for names, out in with_slots],
        "a word beside itself": [stutters(b) for b in outputs],
        "a word beside itself, in originals": [stutters(a) for a in texts],
        "a pair of words again": [repeats_pair(b) for b in outputs],
        "a pair of words again, in originals": [repeats_pair(a) for a in texts],
    }
    return {name: clopper_pearson(sum(found), len(found)).to_dict() for name, found in counted.items() if found}
