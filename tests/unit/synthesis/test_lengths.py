"""Lengths: bins, noisy shares, how many texts of each bin are written, with which examples, and when they end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.language.writing import RUN, repeating
from dptext.sampling.randomness import seeded
from dptext.synthesis.agreement import Known
from dptext.synthesis.by_length import ByLength, examples_by_length, examples_of_bin, shares_of_public
from dptext.synthesis.lengths import (
    USUAL_LENGTHS,
    LengthBins,
    LengthNumbers,
    drawn_numbers,
    length_shares,
    whole_sentences,
)
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.writer import Writer
from dptext.text.records import Record
from tiny_language import model

BINS = LengthBins((3, 6))
#: Texts of a letter a word: two, four and eight words.
SHORT, MIDDLE, LONG = ("a b", "a b c d", "a b c d e f g h")


def test_a_text_is_in_the_bin_of_its_number_of_words() -> None:
    texts = ["", "a", "a b", " a\tb\nc ", "a b c d e", "a b c d e f", "word " * 5_000]
    assert BINS.of(texts).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert len(BINS) == 3
    assert [str(each) for each in BINS.lengths] == ["fewer than 3 words", "3 to 5 words", "6 words or more"]
    assert LengthBins().of(texts).tolist() == [0] * 7
    assert len(LengthBins(USUAL_LENGTHS)) == 6


@pytest.mark.parametrize("edges", [(0, 3), (3, 3), (5, 4), (-1,), tuple(range(1, 20))])
def test_lengths_that_do_not_grow_or_are_too_many_are_refused(edges: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        LengthBins(edges)


def test_shares_without_noise_are_those_of_each_label() -> None:
    numbers = np.array([[10.0, 30.0, 60.0], [50.0, 50.0, 0.0]])
    found = length_shares(Known(numbers, 1e-6), np.array([100.0, 100.0]))
    np.testing.assert_allclose(found, numbers / 100, atol=1e-6)


def test_noise_pulls_a_label_towards_the_mix_of_all_labels() -> None:
    """A small label is as the whole; a large one keeps its own numbers."""
    rng, mix, other = np.random.default_rng(0), np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    true, sizes = np.array([10_000 * mix, 10_000 * other, 5 * other]), np.array([10_000.0, 10_000.0, 5.0])
    errors = []
    for _ in range(200):
        known = Known(true + rng.normal(0, 30, true.shape), 30.0)
        found = length_shares(known, sizes)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        raw = np.maximum(known.numbers[2], 0)
        errors.append((np.abs(found[2] - other).sum(), np.abs(raw / max(raw.sum(), 1e-9) - other).sum()))
        np.testing.assert_allclose(found[:2], [mix, other], atol=0.03)
    ours, plain = np.mean(errors, axis=0)
    assert ours < 0.8 * plain


def test_bins_that_nobody_is_in_get_few_texts() -> None:
    """Noise alone would give long bins a tenth of the texts, which would have half of the words."""
    true, rng = np.array([96.0, 280.0, 24.0, 0.0, 0.0, 0.0]), np.random.default_rng(1)
    empty = []
    for _ in range(300):
        known = Known(np.tile(true / 4, (4, 1)) + rng.normal(0, 8, (4, 6)), 8.0)
        empty.append(length_shares(known, np.full(4, 100.0))[:, 3:].sum(axis=1).mean())
    plain = np.maximum(rng.normal(0, 16, (300, 3)), 0).sum(axis=1).mean() / 400
    assert np.mean(empty) < plain / 2


def test_numbers_that_are_all_noise_give_shares() -> None:
    found = length_shares(Known(np.full((2, 3), -5.0), 1.0), np.array([1.0, 1.0]))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all()


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6), st.integers(0, 300), st.integers(0, 2**32 - 1))
def test_each_bin_gets_its_share_of_the_texts_up_to_rounding(parts: list[float], n: int, seed: int) -> None:
    shares = np.array(parts) / sum(parts)
    found = drawn_numbers(shares, n, seeded(seed))
    assert sum(found) == n
    assert (np.abs(np.array(found) - shares * n) < 1 + 1e-6).all()


def test_rounding_favours_no_bin() -> None:
    """A bin with a share of a tenth gets one of two texts in a fifth of the parts, not never."""
    shares = np.array([0.1, 0.9])
    mean = np.mean([drawn_numbers(shares, 2, seeded(seed))[0] for seed in range(2_000)])
    assert mean == pytest.approx(0.2, abs=4 * (0.2 * 0.8 / 2_000) ** 0.5)
    assert mean > 0.2 * 2 / 3


@pytest.mark.parametrize(
    ("text", "least", "expected"),
    [
        ("今天下雨。我们回家", 0, "今天下雨。"),
        ("It rained all day. We left ear", 0, "It rained all day."),
        ('He said "no." Then he', 0, 'He said "no."'),
        ("It rained. We left early and never came back to", 0, "It rained. We left early and never came back to"),
        ("It rained all day. We left ear", 5, "It rained all day. We left ear"),  # too short without its end
        ("It rained. We left.", 0, "It rained. We left."),
        ("no sentence at all", 0, "no sentence at all"),
        ("At 3.50 a pound it is dear! And th", 0, "At 3.50 a pound it is dear!"),
    ],
)
def test_a_text_that_was_cut_off_ends_with_a_whole_sentence(text: str, least: int, expected: str) -> None:
    assert whole_sentences(text, least) == expected


def test_estimates_of_the_report_add_up_to_its_whole() -> None:
    found = LengthNumbers.of(BINS, Known(np.array([[40.0, 5.0, -9.0], [20.0, 60.0, 3.0]]), 6.0))
    shown = found.estimates(Known(np.array([36.0, 80.0]), 3.0), 120.0)
    assert shown.numbers.sum() == pytest.approx(120)
    assert (shown.numbers >= 0).all()
    assert (shown.low <= shown.numbers + 1e-9).all()
    assert (shown.numbers <= shown.high + 1e-9).all()


def records() -> list[Record]:
    return [Record(str(i), text, "a" if i % 2 else "b") for i, text in enumerate([SHORT, MIDDLE, LONG] * 4)]


def test_examples_are_of_every_length_and_those_of_a_bin_are_shown() -> None:
    found = examples_by_length(records(), BINS, 2, tokens=300, seed=0)
    assert Counter(BINS.of([each.text for each in found]).tolist()) == {0: 2, 1: 2, 2: 2}
    for place, text in enumerate((SHORT, MIDDLE, LONG)):
        assert {each.text for each in examples_of_bin(found, BINS, place)} == {text}
    lacking = [each for each in found if each.text != LONG]
    assert {each.text for each in examples_of_bin(lacking, BINS, 2)} == {MIDDLE}  # the nearest bin that has some
    assert examples_of_bin([], BINS, 0) == []
    whole = examples_by_length(records(), LengthBins(), 2, tokens=24, seed=0)
    assert len(whole) == 2


def test_fewer_examples_of_long_texts_are_shown() -> None:
    texts = [Record(str(i), "word " * 250) for i in range(9)] + [Record(str(i), "word") for i in range(9, 18)]
    found = examples_by_length(texts, LengthBins(USUAL_LENGTHS), 6, tokens=300, seed=0)
    assert Counter(BINS.of([each.text for each in found]).tolist()) == {0: 6, 2: 2}


@pytest.fixture(scope="module")
def writers() -> ByLength:
    """Writers of a tiny model that spells texts by letters."""
    shown = [Record(str(i), text, "a") for i, text in enumerate((SHORT, MIDDLE, LONG))]
    return ByLength.of(
        Writer, model(), ("one", "two"), ("a", "b"), shown, bins=BINS, shares=np.array([[0.2, 0.3, 0.5], [0, 1.0, 0]]),
        tokens=18, temperature=0.7, options=16,
    )  # fmt: skip


def test_texts_are_written_in_lengths_by_their_shares(writers: ByLength) -> None:
    told: list[int] = []
    found = list(writers.shifted(0, 20, np.zeros(96), seeded(1), told.append))
    numbers = [len(drafts.texts) for _, drafts in found]
    assert sum(numbers) == sum(told) == 20
    assert np.abs(np.array(numbers) - [4, 6, 10]).max() <= 1
    for (writer, drafts), length in zip(found, BINS.lengths, strict=True):
        assert writer.length == length
        assert max(map(len, drafts.texts)) <= writer.tokens
        assert min(map(len, drafts.texts)) >= writer.least
    assert [writer.least for writer, _ in found] == sorted(writer.least for writer, _ in found)
    assert found[0][0].least == 0 < found[1][0].least < found[2][0].least
    ((only, drafts),) = writers.shifted(1, 7, np.zeros(96), seeded(1))
    assert (only.length, len(drafts.texts)) == (BINS.lengths[1], 7)


def test_without_a_least_number_of_tokens_texts_end_earlier(writers: ByLength) -> None:
    """The bound is what holds texts: the same writer without it ends some of them before."""
    *_, (last, _) = writers.shifted(0, 20, np.zeros(96), seeded(1))
    ended = np.zeros(96)
    ended[last.end] = 6.0  # an end is likely
    free = replace(last, least=0).shifted(0, 20, ended, seeded(1)).texts
    held = last.shifted(0, 20, ended, seeded(1)).texts
    assert min(map(len, held)) == last.least > min(map(len, free))


def test_what_would_repeat_a_run_of_tokens_is_known() -> None:
    assert repeating([1, 2, 3, 4, 5, 9, 1, 2, 3, 4]) == [5]
    assert repeating([1, 2, 3, 4, 5, 1, 2, 3, 4, 6, 1, 2, 3, 4]) == [5, 6]
    assert repeating([7, 7, 7, 7]) == []
    assert repeating([7, 7, 7, 7, 7]) == [7]
    assert repeating([]) == []


def test_a_long_text_has_no_run_of_tokens_twice(writers: ByLength) -> None:
    *_, (last, _) = writers.shifted(0, 20, np.zeros(96), seeded(1))
    same = np.zeros(96)
    same[5] = 9.0  # one letter is by far the most likely
    both = [replace(last, tokens=40, least=least, temperature=0.1) for least in (0, 30)]
    loose, held = (each.shifted(0, 9, same * 4, seeded(1)).texts for each in both)
    runs = [[tuple(text[i : i + RUN]) for i in range(len(text) - RUN + 1)] for text in held]
    assert all(len(set(own)) == len(own) for own in runs)
    assert any(len(text) - len(set(text)) > 5 for text in loose)


def test_public_shares_are_those_of_the_pool() -> None:
    found = shares_of_public([SHORT, SHORT, LONG, MIDDLE], BINS, 2)
    assert found.tolist() == [[0.5, 0.25, 0.25]] * 2


words = st.lists(st.sampled_from(["rent", "bank", "train", "dollar", "café", "zq"]), max_size=9)


@given(words, st.integers(1, 4))
def test_drawn_marks_are_words_of_the_text_and_follow_the_text_alone(own: list[str], most: int) -> None:
    lexicon = Lexicon(("rent", "bank", "train", "dollar", "café"), most, drawn=True)
    text = " ".join(own)
    ((*row,),) = lexicon.marks([text]).tolist()
    marks = [place for place in row if place >= 0]
    assert len(marks) == min(most, len(lexicon.known(text)))
    assert set(marks) <= lexicon.known(text)
    assert len(set(marks)) == len(marks)
    assert lexicon.marks(["bank rent", text]).tolist()[1] == row
    assert lexicon.digest != Lexicon(lexicon.words, most).digest


def test_every_word_of_long_texts_is_drawn_as_often() -> None:
    """The order of the list gives the last words no mark at all; the draw gives each its share."""
    listed = tuple(f"w{i}" for i in range(20))
    texts = [f"text {i} {' '.join(listed)}" for i in range(4_000)]
    drawn = np.bincount(Lexicon(listed, 5, drawn=True).marks(texts).ravel(), minlength=20)
    assert drawn.sum() == 5 * len(texts)
    expected, deviation = len(texts) / 4, (len(texts) * 0.25 * 0.75) ** 0.5
    assert np.abs(drawn - expected).max() < 5 * deviation
    first = np.bincount(Lexicon(listed, 5).marks(texts).ravel(), minlength=20)
    assert (first[:5] == len(texts)).all()
    assert not first[5:].any()
