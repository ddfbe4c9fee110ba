"""The public list of words: which words are on it, in what order they count, and what a text marks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.synthesis.lexicon import Lexicon, fit_lexicon, untelling_words
from dptext.synthesis.readings import PublicReader
from dptext.text.function_words import FUNCTION_WORDS

LIST = ("rent", "bank", "train", "dollar", "café")
words = st.lists(st.sampled_from([*LIST, "the", "zq", "Bank", "TRAIN"]), max_size=12)


@given(words, st.integers(1, 6), st.randoms())
def test_marks_follow_the_order_of_the_list_and_never_that_of_the_text(
    own: list[str], most: int, mixed: object
) -> None:
    lexicon, text = Lexicon(LIST, most), " ".join(own)
    there = [i for i, word in enumerate(LIST) if word in {each.lower() for each in own}]
    (row,) = lexicon.marks([text]).tolist()
    assert row == [*there[:most], *[-1] * (most - len(there[:most]))]
    assert lexicon.known(text) == set(there)
    other = [*own]
    mixed.shuffle(other)  # type: ignore[attr-defined]
    assert lexicon.marks([" ".join(other)]).tolist() == [row]
    assert lexicon.marks([f"{text} {text}"]).tolist() == [row]  # a word counts once


@given(st.lists(words, min_size=1, max_size=6))
def test_the_marks_of_a_text_do_not_depend_on_the_texts_beside_it(many: list[list[str]]) -> None:
    lexicon, texts = Lexicon(LIST, 3), [" ".join(own) for own in many]
    together = lexicon.marks(texts)
    assert together.shape == (len(texts), 3)
    assert np.array_equal(together, np.concatenate([lexicon.marks([text]) for text in texts]))


def test_the_order_is_that_of_public_texts() -> None:
    public = ["bank rent bank", "bank train", "train bank", "zeta"]
    found = fit_lexicon(public, more=["dollar", "bank", "the", "x", "euro"], size=6, most=2)
    assert found.words == ("bank", "train", "rent", "zeta", "dollar", "euro")  # a word counts once a text
    named = fit_lexicon(public, names=["a late train", "Playlists of songs"], size=6, most=2)
    assert named.words[:4] == ("late", "train", "playlists", "songs")  # also those that no public text has
    assert named.words[4:] == ("bank", "rent")
    assert fit_lexicon(reversed(public), more=["dollar"], size=3, most=2).words == ("bank", "train", "rent")
    assert fit_lexicon(public, size=3, most=2).digest != fit_lexicon(public, size=3, most=3).digest
    assert Lexicon(("a b", "c"), 2).digest != Lexicon(("a", "b c"), 2).digest
    assert Lexicon(("b", "a"), 2).digest != Lexicon(("a", "b"), 2).digest


def test_words_that_say_nothing_are_not_on_the_list() -> None:
    found = fit_lexicon(["It's the rent, and I don't pay 3 of 40 dollars! a ü 水 ..."], size=100, most=3)
    assert not {"the", "and", "of", "a", "i", "...", ",", "!"} & set(found.words)
    assert {"rent", "pay", "3", "40", "dollars", "ü", "水"} <= set(found.words)
    assert not any("'" in word for word in found.words)
    assert not FUNCTION_WORDS["en"] & set(found.words)
    for nothing in ([], [""], ["the of and"], ["... !"]):
        with pytest.raises(ConfigError, match="words to count"):
            fit_lexicon(nothing, size=10, most=2)


def test_a_very_long_text_is_read_to_a_public_length() -> None:
    lexicon = Lexicon(LIST, 2)
    assert lexicon.marks([f"{'so ' * 5_000}rent"]).tolist() == [[-1, -1]]
    assert lexicon.marks([f"{'so ' * 4_000}rent"]).tolist() == [[0, -1]]


def test_computers_with_another_unicode_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text could have other words there, though the probed texts have the same."""
    reader, texts = PublicReader(None, fit_lexicon(["a red bus"], size=9, most=2)), ["red bus"]
    here = reader.rounding(texts)
    assert reader.rounding(texts) == here
    monkeypatch.setattr("unicodedata.unidata_version", "3.2.0")
    assert reader.rounding(texts) != here


def test_words_that_say_nothing_of_a_subject_count_and_are_not_shown() -> None:
    dull = untelling_words()
    assert {"come", "says", "take", "does", "used", "the", "because", "i"} <= dull
    assert not {"bill", "interest", "work", "call", "pill", "train", "dollars"} & dull
    listed = fit_lexicon(["come says bank", "come bank", "says take"], size=9, most=2)
    assert listed.words == ("bank", "come", "says", "take")
    assert listed.marks(["take says come"]).tolist() == [[1, 2]]
