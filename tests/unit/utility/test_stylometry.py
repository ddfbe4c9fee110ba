"""Features of style against hand-made counts and another library's readability; distances with planted styles."""

import math

import numpy as np
import pytest

from dptext.errors import ConfigError
from dptext.text.records import Record, Release
from dptext.text.samples import sample_records
from dptext.text.tokens import detokenize, tokenize
from dptext.utility.stylometry import FEATURES, FUNCTION_WORDS, LIMIT, MARKS, StyleSpace, features, syllables

PUBLIC = sample_records(150)
PRIVATE = sample_records(60, seed=1)
SPACE = StyleSpace.fit(PUBLIC)


def named(text):
    return dict(zip(FEATURES, features([text])[0].tolist(), strict=True))


def releases(texts, originals=PRIVATE):
    return [Release(record.id, text) for record, text in zip(originals, texts, strict=True)]


# ------------------------------------------------------------------------------------------------- features


def test_names_are_unique_and_few_enough_to_read():
    assert len(set(FEATURES)) == len(FEATURES) == 26 + len(FUNCTION_WORDS) + len(MARKS)
    assert 90 <= len(FUNCTION_WORDS) <= 130
    assert all(word == word.lower() and word.isalpha() for word in FUNCTION_WORDS)
    assert all(len(mark) == 1 and not mark.isalnum() and not mark.isspace() for mark in MARKS)


def test_lengths_and_ratios_by_hand():
    found = named("The U.S. sold 12 big HATS, didn't it?!\n\u201cYes\u201d \u2014 so")
    # words: The U.S. sold big HATS didn't it Yes so; sentences: up to "?!", and the rest without an end
    text = "TheU.S.sold12bigHATS,didn'tit?!\u201cYes\u201d\u2014so"
    assert found["characters"] == len(text)
    assert (found["words"], found["sentences"], found["words per sentence"]) == (9, 2, 4.5)
    assert found["longest word"] == 6
    assert found["characters per word"] == pytest.approx((3 + 4 + 4 + 3 + 4 + 6 + 2 + 3 + 2) / 9)
    assert found["letter ratio"] == pytest.approx(sum(map(str.isalpha, text)) / len(text))
    assert found["upper case ratio"] == pytest.approx(len("TUSHATSY") / len(text))
    assert found["digit ratio"] == pytest.approx(2 / len(text))
    assert found["other ratio"] == pytest.approx(len("..,'?!\u201c\u201d\u2014") / len(text))
    assert found["whitespace ratio"] == pytest.approx(10 / (len(text) + 10))
    assert found["short words"] == pytest.approx(5 / 9)
    assert found["long words"] == 0
    assert found["capitalised words"] == pytest.approx(2 / 9)
    assert found["words in capitals"] == pytest.approx(2 / 9)
    assert found["contracted words"] == pytest.approx(1 / 9)
    assert [found[f"word {word}"] for word in ("the", "it", "so", "a")] == pytest.approx([1 / 9, 1 / 9, 1 / 9, 0])
    assert found['mark "'] == pytest.approx(2 / len(text))
    assert found["mark \N{EN DASH}"] == pytest.approx(1 / len(text))
    assert found["mark ."] == pytest.approx(2 / len(text))


def test_classes_of_words():
    found = named("ABCDEFG 4th everything mp3 I")
    assert found["words"] == 5
    assert found["words with a digit"] == pytest.approx(2 / 5)
    assert found["long words"] == pytest.approx(2 / 5)
    assert found["capitalised words"] == pytest.approx(1 / 5)
    assert found["words in capitals"] == pytest.approx(1 / 5)


def test_richness_by_hand():
    found = named("the cat The dog a")  # V_1 = 3, V_2 = 1
    assert found["type-token ratio"] == 4 / 5
    assert found["root type-token ratio"] == pytest.approx(4 / math.sqrt(5))
    assert found["hapax share"] == 3 / 5
    assert found["dis legomena share"] == 1 / 5
    assert found["Yule's K"] == pytest.approx(1e4 * (3 * 1 + 1 * 4 - 5) / 25)  # 800
    assert found["Simpson's D"] == pytest.approx(2 / 20)
    assert named("one two three")["Yule's K"] == 0
    assert named("so so so so")["Yule's K"] == pytest.approx(1e4 * (16 - 4) / 16)


def test_yules_k_does_not_grow_with_length_where_the_type_token_ratio_falls():
    rng = np.random.default_rng(0)
    words = [a + b for a in ("ba", "ce", "du", "fo") for b in ("la", "me", "no", "ru", "si")]
    short, long = (named(" ".join(rng.choice(words, n))) for n in (200, 4000))
    assert long["type-token ratio"] < 0.2 * short["type-token ratio"]
    assert long["Yule's K"] == pytest.approx(1e4 / 20, rel=0.05)
    assert short["Yule's K"] == pytest.approx(1e4 / 20, rel=0.25)


@pytest.mark.parametrize(
    "text", ["", " \n\t", "?!", "12 34", "\U0001f600", "e", "\u4e16\u754c", "n't", "'s", "a" * 5000]
)
def test_every_text_has_finite_features(text):
    found = features([text])
    assert found.shape == (1, len(FEATURES))
    assert np.isfinite(found).all()
    if not any(map(str.isalpha, text)):
        assert named(text)["Flesch reading ease"] == named(text)["words"] == named(text)["sentences"] == 0


def test_an_empty_text_is_the_zero_vector_and_no_text_is_no_row():
    assert not features([""]).any()
    assert features([]).shape == (0, len(FEATURES))


def test_blanks_between_tokens_change_the_whitespace_ratio_alone():
    texts = [record.text for record in PUBLIC] + [
        "We didn't - it's U.S. \u201cstyle\u201d, they'll say... Isn\u2019t it?"
    ]
    spaced = [detokenize(tokenize(text)) for text in texts]
    assert texts != spaced
    changed = np.abs(features(texts) - features(spaced)).max(axis=0) > 1e-12
    assert [FEATURES[i] for i in np.flatnonzero(changed)] == ["whitespace ratio"]


def test_rows_do_not_depend_on_each_other():
    texts = [record.text for record in PUBLIC[:20]]
    np.testing.assert_array_equal(features(texts)[7], features([texts[7]])[0])


# --------------------------------------------------------------------------------------------- readability

# What textstat 0.7.8 says: words, sentences, syllables, Flesch reading ease, Flesch-Kincaid grade.
READABLE = {
    "The quick brown fox jumps over the lazy dog. It was not amused, and said so at length! Would you believe it?": (
        22, 3, 26, 99.4098484848485, 1.2154545454545485,
    ),
    "I called my doctor on Monday because my back hurt again. She told me to rest for two days. I went to work anyway, "
    "and now I cannot stand up straight.": (31, 3, 38, 92.64344086021505, 2.9045161290322596),
    "Please send forty dollars to my sister before the weekend. Her electric bill is late. Do not forget to write a "
    "note!": (22, 3, 30, 84.02803030303033, 3.3609090909090895),
    "We didn't see the train. It's never on time, and they don't care at all.": (
        15, 2, 17, 103.3425, 0.7083333333333321,
    ),
    "Implementation of differential privacy necessitates considerable deliberation. Practitioners underestimate "
    "composition. Unfortunately, organisations repeatedly misinterpret guarantees.": (
        15, 3, 61, -142.27999999999994, 34.346666666666664,
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", READABLE)
def test_readability_is_that_of_another_library(text):
    words, sentences, n_syllables, ease, grade = READABLE[text]
    found = named(text)
    assert (found["words"], found["sentences"]) == (words, sentences)
    assert found["syllables per word"] * words == pytest.approx(n_syllables)
    assert found["Flesch reading ease"] == pytest.approx(ease)
    assert found["Flesch-Kincaid grade"] == pytest.approx(grade)


def test_readability_agrees_with_textstat_where_it_is_installed():
    textstat = pytest.importorskip("textstat")
    texts = [record.text for record in PUBLIC]
    ease = features(texts)[:, FEATURES.index("Flesch reading ease")]
    theirs = np.array([textstat.flesch_reading_ease(text) for text in texts])
    assert np.corrcoef(ease, theirs)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (1, "you the once there whole played eyes don't tsk"),
        (2, "people only table little being couldn't player likely movement"),
        (3, "radio family annual beautiful video finally carrying syllable"),
        (4, "january america variety experience immediate differential"),
    ],
)
def test_syllables_of_words(n, words):
    assert {word: syllables(word) for word in words.split()} == dict.fromkeys(words.split(), n)


def test_syllables_of_what_is_no_english_word():
    assert syllables("") == syllables("\u4e16\u754c") == syllables("n't") == 1
    assert syllables("DIDN\u2019T") == syllables("didn't") == 2
    assert syllables("na\u00efvet\u00e9s") == syllables("naivetes")


# -------------------------------------------------------------------------------------------------- spaces


def test_public_texts_have_mean_zero_and_deviation_one():
    found = (features([record.text for record in PUBLIC]) - SPACE.mean) / SPACE.scale
    varies = SPACE.scale != 1
    assert 20 < varies.sum() < len(FEATURES)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(found.std(axis=0)[varies], 1)
    assert not found[:, ~varies].any()


def test_a_feature_that_public_text_never_shows_is_neither_dropped_nor_blown_up():
    public = [Record("0", "so it is ."), Record("1", "now it is here .")]
    space = StyleSpace.fit(public)
    original = [Record("0", "so it is .")]
    assert space.distance(original, [Release("0", "so it is #")]).value > 0
    assert np.abs(space.standardise(["so _ is ."])).max() <= LIMIT


def test_a_rare_mark_counts_as_five_deviations():
    texts = ["a plain text ."] * 400 + ["a plain text _ ."]
    space = StyleSpace.fit([Record(str(i), text) for i, text in enumerate(texts)])
    assert np.abs((features(["_"]) - space.mean) / space.scale).max() > 10 * LIMIT
    assert np.abs(space.standardise(["_"])).max() == LIMIT


def test_distances_are_those_of_standardised_vectors():
    written = [record.text.upper() for record in PRIVATE]
    found = SPACE.distances(PRIVATE, releases(written))
    for i in (0, 17, 59):
        one, other = SPACE.standardise([PRIVATE[i].text])[0], SPACE.standardise([written[i]])[0]
        assert found[i] == pytest.approx(math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True))))
    estimate = SPACE.distance(PRIVATE, releases(written))
    assert estimate.value == pytest.approx(found.mean())
    assert estimate.low < estimate.value < estimate.high
    assert estimate == SPACE.distance(PRIVATE, releases(written))


def test_a_copy_is_at_distance_zero_and_style_changes_are_ordered():
    texts = [record.text for record in PRIVATE]
    assert SPACE.distance(PRIVATE, releases(texts)).value == 0
    slight = SPACE.distance(PRIVATE, releases([text.replace("?", ".") for text in texts]))
    strong = SPACE.distance(PRIVATE, releases(["!".join(text.upper().split()) for text in texts]))
    assert 0 < slight.value < slight.high < strong.low


def test_pairs_and_spaces_that_cannot_be_used_are_refused():
    with pytest.raises(ConfigError, match="same order"):
        SPACE.distance(PRIVATE, releases([r.text for r in PRIVATE])[::-1])
    with pytest.raises(ConfigError, match="two public texts"):
        StyleSpace.fit(PUBLIC[:1])
    with pytest.raises(ConfigError, match="finite"):
        StyleSpace(SPACE.mean[:3], SPACE.scale)
    with pytest.raises(ConfigError, match="above 0"):
        StyleSpace(SPACE.mean, np.zeros(len(FEATURES)))


def test_a_space_shows_nothing_and_cannot_be_changed():
    assert repr(SPACE) == f"StyleSpace({len(FEATURES)} features)"
    with pytest.raises(ValueError, match="read-only"):
        SPACE.mean[0] = 1
