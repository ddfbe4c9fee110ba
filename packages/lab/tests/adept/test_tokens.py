"""Annotated utterances as numbers: what a token shows of a text, padding, and reading sequences back."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.text import tokens as text
from dptext.text.records import Record
from dptext_lab.nets.tokens import BEGIN, END, PAD, UNKNOWN, Tokens, words_of

PUBLIC = ("Book a flight to Oslo", "book a hotel in oslo", "Send money to Oslo !")
LABELS = ("travel", "money")
TOKENS = Tokens.from_public(PUBLIC, labels=LABELS, max_tokens=6, min_count=1, max_words=100)
PLAIN = Tokens(TOKENS.words, (), 6)
SPECIAL = (PAD, UNKNOWN, BEGIN, END)


def one(words: str, label: str | None = None, tokens: Tokens = TOKENS) -> list[int]:
    return tokens.sequences([Record("0", words, label=label)])[0].tolist()


def token(word: str, tokens: Tokens = TOKENS) -> int:
    return 4 + len(tokens.labels) + tokens.words.index(word)


# ------------------------------------------------------------------ the vocabulary


def test_the_vocabulary_is_what_occurs_often_enough_in_public_text() -> None:
    # by count, ties by the alphabet
    assert TOKENS.words[:4] == ("oslo", "a", "book", "to")
    assert TOKENS.words[4:] == ("!", "flight", "hotel", "in", "money", "send")
    assert len(TOKENS) == 4 + 2 + 10
    assert TOKENS.label_ids() == range(4, 6)
    assert PLAIN.label_ids() == range(4, 4)

    def words(**changes: int) -> tuple[str, ...]:
        given_ = {"max_tokens": 6, "min_count": 1, "max_words": 100, **changes}
        return Tokens.from_public(PUBLIC, labels=LABELS, **given_).words

    assert words(min_count=2) == ("oslo", "a", "book", "to")
    assert words(min_count=3) == ("oslo",)
    assert words(max_words=2) == ("oslo", "a")
    assert "oslo" not in words(max_tokens=3)  # what is cut away is not seen
    assert words(min_count=4) == ()


def test_words_are_cut_over_all_lines_and_folded() -> None:
    assert words_of("It DIDN'T\n\nStraße go", 100) == ["it", "did", "n't", "straße", "go"]
    assert words_of("a b\nc d\ne", 3) == ["a", "b", "c"]
    assert words_of(" \n\t", 3) == []
    with pytest.raises(ConfigError, match="max_tokens"):
        words_of("a", 0)


@given(
    st.text("aBn'tTsS\N{RIGHT SINGLE QUOTATION MARK}.,:19_ \n\r\t\x1c\x85\u2028\u0130\u00df\u0149\ud800!") | st.text(),
    st.integers(1, 9),
)
def test_words_are_those_of_the_lines_one_after_the_other(document: str, most: int) -> None:
    cut = text.cut(text.tokenize(document), most)
    # ß is a letter of its own, where folding would make it ss
    folded = ["ß".join(part.casefold() for part in re.split("[ßẞ]", word)) for line in cut for word in line]
    assert words_of(document, most) == folded


# ------------------------------------------------------------------ what is written


def test_a_sequence_is_label_words_end_padding() -> None:
    assert one("Book OSLO", "money") == [5, token("book"), token("oslo"), END, PAD, PAD, PAD, PAD]
    assert one("Book OSLO", tokens=PLAIN) == [4 + 2, 4, END, PAD, PAD, PAD, PAD]
    assert TOKENS.length == 8
    assert PLAIN.length == 7
    assert TOKENS.sequences([]).shape == (0, 8)


def test_an_empty_text_has_a_label_and_an_end() -> None:
    for words in ("", " \r\n\t "):
        assert one(words, "travel") == [4, END, *[PAD] * 6]
        assert one(words, tokens=PLAIN) == [END, *[PAD] * 6]


def test_unknown_words_and_labels_have_one_token_whatever_they_are() -> None:
    rows = {tuple(one(f"book {word}", label)) for word in ("zebra", "4711", "世界") for label in (None, "x", "Travel")}
    assert rows == {(UNKNOWN, token("book"), UNKNOWN, END, PAD, PAD, PAD, PAD)}
    # a word that is also a label, and a label that is also a word, are not mixed up
    assert one("money", "money")[:2] == [5, token("money")]
    assert one("travel", "travel")[:2] == [4, UNKNOWN]
    assert one("pad begin end", "travel")[1:4] == [UNKNOWN] * 3


def test_a_text_is_cut_at_max_tokens_and_still_ends() -> None:
    exactly, longer = one("a a a a a a", "travel"), one("a a a a a a oslo zebra " * 1000, "travel")
    assert exactly == longer == [4, *[token("a")] * 6, END]
    assert one("a\n" * 7, "travel") == exactly  # over all lines


def test_missing_and_unknown_labels_have_no_row() -> None:
    assert TOKENS.label_rows(["money", None, "MONEY", "travel", ""]).tolist() == [1, -1, -1, 0, -1]
    assert PLAIN.label_rows(["money", None]).tolist() == [-1, -1]
    assert TOKENS.label_rows([]).shape == (0,)


# ------------------------------------------------------------------ what is read


def test_inputs_are_padded_on_the_left() -> None:
    sequences = TOKENS.sequences([Record("0", words, label="money") for words in ("", "book oslo", "a " * 6)])
    assert TOKENS.inputs(sequences).tolist() == [
        [PAD] * 6 + [5, END],
        [PAD] * 4 + [5, token("book"), token("oslo"), END],
        sequences[2].tolist(),
    ]
    assert TOKENS.inputs(sequences[:0]).shape == (0, 8)


@given(st.lists(st.lists(st.sampled_from(["book", "oslo", "zebra", "\n"]), max_size=9), min_size=1, max_size=5))
def test_padding_moves_and_nothing_else(texts: list[list[str]]) -> None:
    sequences = TOKENS.sequences([Record(str(i), " ".join(words)) for i, words in enumerate(texts)])
    inputs = TOKENS.inputs(sequences)
    assert inputs.shape == sequences.shape == (len(texts), TOKENS.length)
    for before, after in zip(sequences, inputs, strict=True):
        assert after[-1] == END
        assert before[before != PAD].tolist() == after[after != PAD].tolist()
        n = int((after == PAD).sum())
        assert (after[:n] == PAD).all()  # all of it in front
        assert sorted(before.tolist()) == sorted(after.tolist())


# ------------------------------------------------------------------ reading a sequence back


def test_a_written_record_reads_back() -> None:
    assert TOKENS.read(one("Send  MONEY to\nOslo!", "money")) == ("money", "send money to oslo !")
    assert PLAIN.read(one("Oslo", tokens=PLAIN)) == (None, "oslo")
    assert TOKENS.read([]) == (None, "")


def test_what_follows_the_end_is_not_read() -> None:
    book = token("book")
    for stop in (END, PAD):
        assert TOKENS.read([4, book, stop, book, 5]) == ("travel", "book")
        assert TOKENS.read([stop, 4, book]) == (None, "")
    assert TOKENS.read([4, book]) == ("travel", "book")  # one that did not end


def test_special_tokens_are_not_written_and_a_label_only_when_first() -> None:
    book = token("book")
    assert TOKENS.read([UNKNOWN, book, BEGIN, UNKNOWN, book, END]) == (None, "book book")
    assert TOKENS.read([4, book, 5, 4, book, END]) == ("travel", "book book")
    assert TOKENS.read([book, 4, END]) == (None, "book")
    assert TOKENS.read([4, 4, END]) == ("travel", "")


def test_every_short_sequence_reads_without_special_tokens() -> None:
    small = Tokens(("x",), ("l",), 4)
    for ids in itertools.product(range(len(small)), repeat=4):
        label, words = small.read(ids)
        assert label == ("l" if ids[0] == 4 else None)
        before = list(itertools.takewhile(lambda token: token not in (END, PAD), ids))
        assert words.split() == ["x"] * before.count(5)


@given(st.text(max_size=40), st.sampled_from([*LABELS, None, "other"]))
def test_no_text_comes_back_but_known_words(words: str, label: str | None) -> None:
    found, written = TOKENS.read(one(words, label))
    assert found == (label if label in LABELS else None)
    assert set(written.split()) <= set(TOKENS.words)
    known = [word for word in words_of(words, 6) if word in TOKENS.words]
    assert written == " ".join(known)
    assert text.tokenize(written) == [known]


def test_ids_are_a_fixed_shape_of_integers() -> None:
    found = TOKENS.sequences([Record("0", "book " * n) for n in range(9)])
    assert found.dtype == np.int64
    assert found.shape == (9, 8)
    assert set(np.unique(found)) <= {*SPECIAL, token("book")}
