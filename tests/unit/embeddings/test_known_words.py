"""Words of a list in many texts: compiled loops find in ASCII texts what Python finds in all."""

import sys
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.embeddings.known_words import KnownWords
from dptext.embeddings.tfidf import _words
from dptext.text.tokens import composed, words_of

MOST = 6
SPLITS: dict[str, Callable[[str], list[str]]] = {
    "runs": lambda text: _words(composed(text.lower())),
    "tokens": lambda text: words_of(text, MOST),
}
READ = {"runs": sys.maxsize, "tokens": MOST}
# What clitics, numbers and abbreviations are made of, all that ASCII calls space, and a letter that is not ASCII.
PIECES = [*"nNtTsmdlrevU0195_-é\n\x1c\x00", "'", "'", "n't", "'ll", ".", ",", ":", " ", "can't", "U.S.", "1,000.50"]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), max_size=5)


def by_python(words: list[str], split: Callable[[str], list[str]], texts: list[str]) -> list[tuple[int, int, int]]:
    """Row, place and number of each known word, in order."""
    places = {word: i for i, word in enumerate(words)}
    counts = Counter((row, places[word]) for row, text in enumerate(texts) for word in split(text) if word in places)
    return [(*cell, counts[cell]) for cell in sorted(counts)]


def found(words: list[str], search: str, texts: list[str]) -> list[tuple[int, int, int]]:
    known = KnownWords(words, SPLITS[search], search=search, most=READ[search])
    return [tuple(map(int, each)) for each in zip(*known.counted(texts), strict=True)]


@pytest.mark.parametrize("search", SPLITS)
@given(TEXTS, st.lists(st.sampled_from(["n't", "can't", "é", "x", "1", "'"]), max_size=3), st.integers(0, 20))
def test_compiled_loops_find_what_python_finds(search: str, texts: list[str], more: list[str], left_out: int) -> None:
    every = sorted({word for text in texts for word in SPLITS[search](text)})
    words = more + [word for i, word in enumerate(every) if i != left_out]  # the list may have a word twice
    assert found(words, search, texts) == by_python(words, SPLITS[search], texts)


@pytest.mark.parametrize("search", SPLITS)
def test_all_words_of_a_long_list_are_found(search: str) -> None:
    words = [f"w{i}" for i in range(5_000)]  # whose slots collide
    texts = ["W7 w4999 w7 w5000", "", "w0é w1 w2", "w3"]
    assert found(words, search, texts) == by_python(words, SPLITS[search], texts)
    assert found(words, search, texts)[:2] == [(0, 7, 2), (0, 4_999, 1)]
    for start in range(0, len(words), MOST):
        own = words[start : start + MOST]
        assert found(words, search, [" ".join(own)]) == [(0, start + i, 1) for i in range(len(own))]


@pytest.mark.parametrize("search", SPLITS)
def test_nothing_is_found_without_words_or_texts(search: str) -> None:
    assert found([], search, ["a b", "é"]) == []
    assert found(["a"], search, []) == []
    assert found(["a"], search, ["", " ", "\ud800"]) == []


def test_words_after_the_most_that_are_read_are_not_found() -> None:
    assert found(["b"], "tokens", ["a " * (MOST - 1) + "b b"]) == [(0, 0, 1)]
    assert found(["b"], "tokens", ["a " * MOST + "b"]) == []
