"""Which words are one token, by tokenizers that treat line breaks, spaces and digits in their own ways."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dptext.synthesis.word_tokens import WordTokens, spellings, token_requests

Pieces = Callable[[str], list[str]]
#: The pieces of texts: as those of most byte-level tokenizers; one that divides numbers, and joins a break and a space
#: before them; one that puts a space before a text; one that joins signs and a break after them.
HOW: dict[str, Pieces] = {
    "plain": lambda text: re.findall(r"\n| ?\w+| ?[^\w\s]+", text),
    "digits": lambda text: re.findall(r"\n (?=\d)|\n|\d| ?[a-z]+| ?[^\w\s]+", text, re.IGNORECASE),
    "space": lambda text: [" ", *re.findall(r"\n| ?\w+| ?[^\w\s]+", text)],
    "signs": lambda text: re.findall(r"\n| ?\w+| ?[^\w\s]+\n*", text),
    "no breaks": lambda text: [text],
}
WORDS = (
    "train",
    "rome",
    "u.s.a.",
    "2024",
    "3d",
    "7",
    *(f"word{'abcdefghij'[i % 10]}{'xyz' * (i // 10)}" for i in range(300)),
)


class Tokenizer:
    def __init__(self, how: str) -> None:
        self.how, self.asked, self.numbers = HOW[how], list[str](), dict[str, int]()

    def __call__(self, text: str) -> list[int]:
        self.asked.append(text)
        return [self.numbers.setdefault(piece, len(self.numbers)) for piece in self.how(text)]


@pytest.mark.parametrize("how", [*HOW])
def test_many_words_have_the_tokens_that_each_has_by_itself(how: str) -> None:
    ask = Tokenizer(how)
    words = WordTokens(ask)
    texts = [spelled for word in WORDS for spelled in spellings(word)]
    words.learn(texts)
    n = len(ask.asked)
    for text in texts:
        alone = ask.how(f"\n{text}")
        own = alone[alone.index("\n") + 1 :] if "\n" in alone else []
        assert words.of(text) == (ask.numbers[own[0]] if len(own) == 1 else None), text
    if how != "no breaks":
        assert words.of(" train") is not None
    assert n <= {"signs": 30, "no breaks": 9_999}.get(how, token_requests(len(WORDS)))
    words.learn(texts)
    assert len(ask.asked) == n  # what is known is not asked for again


def test_a_server_that_tells_no_tokens_is_asked_once() -> None:
    asked: list[str] = []
    words = WordTokens(asked.append)  # type: ignore[func-returns-value]
    words.learn([" train", " rome"])
    words.learn([" hotel"])
    assert [words.of(each) for each in (" train", " rome", " hotel")] == [None] * 3
    assert asked == ["\n"]


def test_spellings_are_small_and_with_a_capital() -> None:
    assert spellings("rome") == (" rome", " Rome")
    assert spellings("2024") == (" 2024",)
