"""The tokenizer: the public rule, nothing lost, linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dptext.embeddings.tfidf import words_counter
from dptext.errors import ConfigError
from dptext.text.tokens import cut, detokenize, tokenize

# Random text seldom holds what the rule is about, so half of the texts are made of its critical pieces.
PIECES = [
    "'",
    "\u2019",
    "n't",
    "N\u2019T",
    "'s",
    "'ll",
    "don't've",
    ".",
    ",",
    ":",
    "1",
    "20",
    "a",
    "n",
    "t",
    "s",
    "U.S.",
    "_",
]
PIECES += [
    "-",
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "é",
    "e\u0301",
    "漢字",
    "²",
    "٣",
    "\u2028",
    "\x0b",
    "\x1c",
    "\x85",
    "\x00",
]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)
LINES = st.lists(st.lists(st.text(min_size=1, max_size=5), max_size=6), max_size=6)


def flat(lines: list[list[str]]) -> list[str]:
    return [token for line in lines for token in line]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("didn't", ["did", "n't"]),
        ("can't won't", ["ca", "n't", "wo", "n't"]),
        ("it's", ["it", "'s"]),
        ("I'm I'd they'll we're I've", ["I", "'m", "I", "'d", "they", "'ll", "we", "'re", "I", "'ve"]),
        ("DIDN'T IT'S THEY'LL", ["DID", "N'T", "IT", "'S", "THEY", "'LL"]),
        ("didn\u2019t it\u2019s", ["did", "n\u2019t", "it", "\u2019s"]),
        ("don't've", ["do", "n't", "'ve"]),
        ("she'dn't", ["she", "'d", "n't"]),
        ("did n't it 's", ["did", "n't", "it", "'s"]),
        ("O'Brien's", ["O'Brien", "'s"]),
        ("dogs' 'tis 'quoted'", ["dogs", "'", "'", "tis", "'", "quoted", "'"]),
        ("rock'n'roll", ["rock'n'roll"]),
        ("a'n't", ["a'n't"]),
        ("'some 'd", ["'", "some", "'d"]),
        ("1,000.50 10:30 3. 4,", ["1,000.50", "10:30", "3", ".", "4", ","]),
        ("$5 5% 1990s 2nd", ["$", "5", "5", "%", "1990s", "2nd"]),
        ("the U.S. and e.g. Mr. X. a.b", ["the", "U.S.", "and", "e.g.", "Mr", ".", "X", ".", "a", ".", "b"]),
        ("U.S.'s", ["U.S.", "'s"]),
        ("well-known", ["well", "-", "known"]),
        ("_great_ snake_case", ["_", "great", "_", "snake", "_", "case"]),
        ('Wow!!! "No..." (really)', ["Wow", "!", "!", "!", '"', "No", ".", ".", ".", '"', "(", "really", ")"]),
        ("<br />", ["<", "br", "/", ">"]),
        ("naïve Ünïcode 漢字 😀😀", ["naïve", "Ünïcode", "漢字", "😀", "😀"]),
        ("  a \t b\u00a0c\u3000", ["a", "b", "c"]),
        ("zero\u200bwidth", ["zero", "width"]),
        ("", []),
    ],
)
def test_rule(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == [tokens]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb", [["a"], ["b"]]),
        ("a\r\nb\rc", [["a"], ["b"], ["c"]]),
        ("a\n", [["a"], []]),
        ("\n\n", [[], [], []]),
        ("a\n\r\nb", [["a"], [], ["b"]]),
        ("don\n't", [["don"], ["'", "t"]]),
        # Form feeds and Unicode line separators are whitespace within a line.
        ("a\x0cb\u2028c\x85d", [["a", "b", "c", "d"]]),
    ],
)
def test_lines(text: str, lines: list[list[str]]) -> None:
    assert tokenize(text) == lines


def test_case_is_kept() -> None:
    assert flat(tokenize("The END. iPhone")) == ["The", "END", ".", "iPhone"]


@given(TEXTS)
def test_only_whitespace_is_dropped(text: str) -> None:
    assert "".join(flat(tokenize(text))) == "".join(text.split())


@given(TEXTS)
def test_tokens_are_not_empty_and_hold_no_whitespace(text: str) -> None:
    assert all(token.split() == [token] for token in flat(tokenize(text)))


@given(TEXTS)
@example("'s's")
@example("n't've's")
@example("1.2n't")
@example("0'SN'T")
@example("an'tn'tx'sn't")
@example("a.b.'s'd")
def test_written_tokens_are_read_back_as_they_are(text: str) -> None:
    lines = tokenize(text)
    assert tokenize(detokenize(lines)) == lines


@given(TEXTS)
def test_lines_are_line_ends_plus_one(text: str) -> None:
    assert len(tokenize(text)) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


@given(TEXTS, TEXTS)
def test_lines_are_tokenized_one_by_one(first: str, second: str) -> None:
    # A "\r" before the joining "\n" would become part of it.
    first = first.rstrip("\r")
    assert tokenize(first + "\n" + second) == tokenize(first) + tokenize(second)


@given(TEXTS)
def test_tokens_do_not_depend_on_the_spacing(text: str) -> None:
    assert tokenize(text.replace(" ", "   ")) == tokenize(text)


@pytest.mark.parametrize(
    "unit",
    [
        "'",
        "1,",
        "a.",
        "n't",
        "_",
        "\u0301",
        "''s",
        # apostrophes, numbers, dots, clitics, words and marks stay
        *(
            pytest.param(unit, marks=pytest.mark.slow)
            for unit in ("a", "\u2019", " ", "\n", ".", "a'", "'s", "an't", "1:", "-", "!", "é")
        ),
    ],
)
def test_adversarial_texts_take_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    start = time.perf_counter()
    lines = tokenize(text)
    # Linear needs at most .2 s; a quadratic rule would need an hour.
    assert time.perf_counter() - start < 6
    assert sum(map(len, flat(lines))) == len("".join(text.split()))


def test_detokenize() -> None:
    assert detokenize([["It", "'s"], [], ["a"]]) == "It 's\n\na"
    assert detokenize([]) == detokenize([[]]) == ""
    assert detokenize((("a", "b"),)) == "a b"


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [
        (1, [["a"]]),
        (2, [["a", "b"]]),
        (3, [["a", "b"], [], ["c"]]),
        (4, [["a", "b"], [], ["c", "d"]]),
        (5, [["a", "b"], [], ["c", "d"], ["e"]]),
        (99, [["a", "b"], [], ["c", "d"], ["e"], []]),
    ],
)
def test_cut(max_tokens: int, expected: list[list[str]]) -> None:
    assert cut([["a", "b"], [], ["c", "d"], ["e"], []], max_tokens) == expected


@given(LINES, st.integers(1, 12))
def test_cut_keeps_the_first_tokens(lines: list[list[str]], max_tokens: int) -> None:
    before = [list(line) for line in lines]
    kept = cut(lines, max_tokens)
    assert flat(kept) == flat(lines)[:max_tokens]
    assert all(head == line[: len(head)] for head, line in zip(kept, lines, strict=False))
    assert lines == before
    assert cut(kept, max_tokens) == kept


@pytest.mark.parametrize("max_tokens", [0, -1, True])
def test_cut_refuses_a_bad_bound(max_tokens: int) -> None:
    with pytest.raises(ConfigError, match="max_tokens"):
        cut([["a"]], max_tokens)


ASCII_TEXTS = st.text(st.characters(codec="ascii")) | st.lists(
    st.sampled_from([piece for piece in PIECES if piece.isascii()])
).map("".join)


@given(ASCII_TEXTS)
def test_a_text_of_ascii_has_the_same_tokens_beside_other_characters(text: str) -> None:
    """ASCII texts have a pattern of their own."""
    assert tokenize(f"é\n{text}") == [["é"], *tokenize(text)]


@given(ASCII_TEXTS)
def test_a_text_of_ascii_has_the_same_words_beside_other_characters(text: str) -> None:
    words = words_counter().build_analyzer()
    assert words(f"{text} é") == [*words(text), "é"]
