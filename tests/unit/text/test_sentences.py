"""Sentences by nupunkt: stated outcomes for any text, nothing lost, linear time, nothing loaded before it is needed."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import time
import weakref

import nupunkt
import pytest

from dptext.text import tokens
from dptext.text.tokens import sentences

PIECES = [*" .!?…\"')*\n\t-aA1,;(’\r:\u00a0\u2028\x1c", "\n\n", "Dr. ", "word ", "Yes. ", "\ud800", "这。"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", []),
        (" \n\t\u00a0\n", []),
        ("no end mark", ["no end mark"]),
        (" One. ", ["One."]),
        ("One. Two", ["One.", "Two"]),
        ("Dr. Smith paid $3.50 at 5 p.m. sharp.", ["Dr. Smith paid $3.50 at 5 p.m. sharp."]),
        ('She said: "Go!" He went?', ['She said: "Go!"', "He went?"]),
        ("One line\nand the next. Then\r\nmore", ["One line\nand the next.", "Then\r\nmore"]),
        ("A heading\n\nA line.", ["A heading", "A line."]),  # a blank line ends it
        ("broken by\n\na page", ["broken by\n\na page"]),  # unless it goes on with a small letter
        ("...", ["..."]),
        ("One." + " " * 50 + "Two.", ["One.", "Two."]),
        ("A heading" + "\n" * 50 + "A line.", ["A heading", "A line."]),
        ("wait" + "!" * 300 + " Then.", ["wait" + "!" * 300, "Then."]),
    ],
)
def test_stated_outcomes(given, expected):
    assert sentences(given) == expected


def test_nothing_but_whitespace_is_lost_and_the_same_text_gives_the_same_sentences():
    rng = random.Random(0)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(0, 200))) for _ in range(300)]
    first = [sentences(text) for text in texts]
    for text, found in zip(texts, first, strict=True):
        assert all(sentence == sentence.strip() != "" for sentence in found)
        assert "".join("".join(found).split()) == "".join(text.split())
    assert [sentences(text) for text in reversed(texts)] == first[::-1]
    assert max(map(len, first)) > 20


def test_long_runs_are_shortened_in_place_and_change_no_sentence():
    plain = nupunkt.load_default_model().texts
    rng = random.Random(1)
    texts = [
        "".join(rng.choices(["Yes. ", "Mr. A! ", "no ", "\n\n", " \n", "x.y", '."', "(1) "], k=60)) for _ in range(200)
    ]
    assert [sentences(text) for text in texts] == [plain(text) for text in texts]


@pytest.mark.parametrize(
    "pattern",
    [
        "a. ",
        "!",
        "x\n\n",
        "x" + "\n" * 19,
        ".\"'",
        "1.1 ",
        # ends of sentences, blank lines, quotes and numbers stay
        *(
            pytest.param(pattern, marks=pytest.mark.slow)
            for pattern in ("a", "word ", "a.", ". ", "? ", "\n", "\r\n", "x.)", "\xa0?", "-")
        ),
    ],
)
def test_the_time_is_linear_on_any_text(pattern):
    text = (pattern * (80_000 // len(pattern))) + "x"
    began = time.process_time()
    found = sentences(text)
    # At most .9 s on a busy core. nupunkt alone takes 6 s for the exclamation marks, hours for the blank lines.
    assert time.process_time() - began < 4
    assert len(found) >= 1


@pytest.mark.slow_cases("(. ", why="four other patterns stay")
@pytest.mark.parametrize("pattern", ["(. ", "Yes. ", ".)", "a\n\n", "word "])
def test_what_the_splitter_is_shown_at_once_is_bounded(pattern, monkeypatch):
    """By public numbers; what it is shown in all grows as the text does."""
    whole, shown = nupunkt.PunktSentenceTokenizer.spans, []
    monkeypatch.setattr(
        nupunkt.PunktSentenceTokenizer, "spans", lambda self, text: shown.append(len(text)) or whole(self, text)
    )
    for length in (4_000, 100_000):
        shown.clear()
        sentences((pattern * length)[:length])
        assert max(shown) <= 5_000
        assert length <= sum(shown) <= 1.3 * length


@pytest.mark.parametrize(
    "pattern", ["(. ", *(pytest.param(s, marks=pytest.mark.slow) for s in ("Yes. ", "[. ", "a. "))]
)
def test_more_of_the_same_takes_so_much_longer(pattern):
    """32 times the text: 32 times the time where it is linear, 1,000 times where it is quadratic."""

    def seconds(n: int) -> float:
        began = time.process_time()
        sentences(pattern * n)
        return time.process_time() - began

    seconds(100)
    little = min(seconds(1_000) for _ in range(3))
    assert any(seconds(32_000) < 100 * little for _ in range(3))  # the least of three is, as soon as one


LONG = [
    "Yes. ",
    "Mr. A! ",
    "no ",
    "\n\n",
    " \n",
    "x.y",
    '."',
    "(1) ",
    " 1. It",
    "... ",
    ". . . ",
    "- ",
    "Page 3\n\n",
    "word-\n\n",
]


def _whole(text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "PIECE_CHARACTERS", len(text) + 1)
        return sentences(text)


@pytest.mark.slow_cases("pieces1", why="the pieces stay in which more text decides on an end")
@pytest.mark.parametrize("pieces", [LONG, PIECES])
def test_a_text_in_pieces_has_the_sentences_of_the_whole(pieces, monkeypatch):
    rng = random.Random(2)
    texts = ["".join(rng.choices(pieces, k=6_000)) for _ in range(6)]
    assert min(map(len, texts)) > 7_000
    assert [sentences(text) for text in texts] == [_whole(text, monkeypatch) for text in texts]


def test_and_has_not_without_what_stands_around_a_piece(monkeypatch):
    text = "".join(random.Random(3).choices(LONG, k=20_000))
    monkeypatch.setattr(tokens, "AROUND_CHARACTERS", 0)
    assert sentences(text) != _whole(text, monkeypatch)


def test_five_thousand_sentences():
    text = "This is one of the sentences of it. " * 5000
    began = time.process_time()
    assert sentences(text) == ["This is one of the sentences of it."] * 5000
    assert time.process_time() - began < 4


def test_what_was_decided_is_not_kept(monkeypatch):
    whole, splitters = nupunkt.PunktSentenceTokenizer.spans, []
    monkeypatch.setattr(
        nupunkt.PunktSentenceTokenizer,
        "spans",
        lambda self, text: splitters.append(weakref.ref(self)) or whole(self, text),
    )
    sentences("Canary Mr. Kanarienvogel. Canary!")
    gc.collect(1)  # what the call left in cycles; all of the heap takes seconds
    assert splitters
    kept = [vars(splitter).get("_decision_memo") for found in splitters if (splitter := found()) is not None]
    assert "Kanarienvogel" not in repr(kept)
    planted = nupunkt.load_default_model()
    planted.texts("Canary Mr. Kanarienvogel. Canary!")
    assert "Kanarienvogel" in repr(vars(planted).get("_decision_memo"))


def test_nupunkt_is_loaded_by_the_first_call_only():
    code = (
        "import sys, dptext, dptext.text.tokens; assert 'nupunkt' not in sys.modules; "
        "dptext.text.tokens.sentences('A. B.'); assert 'nupunkt' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
