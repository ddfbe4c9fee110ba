"""Words of all scripts: a letter takes its marks along, however it is spelled, wherever words are counted or masked."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dptext as dp
from commands import dptext
from dptext.audits.features import text_key
from dptext.embeddings.tfidf import has_word, words_tfidf
from dptext.embeddings.vectors import WordVectors
from dptext.mechanisms.candidates.rankers import tfidf_of
from dptext.text.lines import are_names
from dptext.text.tokens import composed, detokenize, sentences, tokenize, words_of
from dptext.utility.stylometry import features
from dptext_lab import CountRedaction, RandomRedaction, SmartRedaction
from dptext_lab.compare.corpora import _key

WORDS = [
    "Müller",
    "Việt",
    "प्रधानमंत्री",
    "مُحَمَّد",
    "שָׁלוֹם",
    "ภาษาไทย",
    "தமிழ்",
    "ព្រះរាជា",
    "ガギグ",
    "한국어",
    "می\u200cخواهم",
    "ශ්\u200dරී",
    "Wort\u00adteil",
    "i̇stanbul",
    "ɔ̃ɛ̀",
    "ג׳ורג׳",
    "word\ufeffword",
    "ab\u2060cd",
    "שלום\u200fעולם",
]
#: With a mark between their letters, where the words of tf-idf end, as they do at an apostrophe.
INNER = ["col·lecció", "il\u2027lusió", "צה״ל", 'צה"ל', "ג'ורג", "λόγος\u0387λόγος"]
EMOJI = ["❤\ufe0f", "👍🏽", "👩\u200d👩\u200d👧", "🇩🇪", "1\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e007f"]
PIECES = [
    *WORDS,
    *INNER,
    *EMOJI,
    "\u0301",
    "\u094d",
    "'",
    "\u2019s",
    "n't",
    "U.S.",
    ".",
    "_",
    " ",
    "\n",
    "a",
    "1",
    ",",
    "<",
    "·",
    '"',
    "\ufeff",
    "\u200f",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("word", [*WORDS, *INNER, *EMOJI])
def test_a_word_is_one_token(word: str, form: str) -> None:
    spelled = unicodedata.normalize(form, word)
    assert tokenize(f"{spelled} {spelled}!") == [[spelled, spelled, "!"]]
    assert words_of(spelled, 5) == [composed(word).casefold()]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (nfd("André's Ü.S. d'été"), [nfd("André"), "'s", nfd("Ü.S."), nfd("d'été")]),
        (nfd("it'ś"), [nfd("it'ś")]),  # no clitic: an s with a mark is another letter
        ("١٬٠٠٠٫٥٠ १,०००.५०", ["١٬٠٠٠٫٥٠", "१,०००.५०"]),
        ("क्या? हाँ।", ["क्या", "?", "हाँ", "।"]),
        ("zero\u200bwidth", ["zero", "width"]),  # it parts words, in Khmer and Thai
        ("\ufeffword and \u200fword\u200f \u200f", ["\ufeffword", "and", "\u200fword\u200f", "\u200f"]),
        ("don\uff07t, it\uff07s", ["do", "n\uff07t", ",", "it", "\uff07s"]),
        ("2·3 a· ·b", ["2", "·", "3", "a", "·", "·", "b"]),
        ('"צה" "צה"', ['"', "צה", '"', '"', "צה", '"']),
        ("１，０００．５０ 12：30 ١،٢", ["１，０００．５０", "12：30", "١،٢"]),
        ("时间：下午", ["时间", "：", "下午"]),
        ("\u0301a", ["\u0301", "a"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("漢字", ["漢字"]),  # a script without spaces: one word
    ],
)
def test_marks_go_with_what_is_before_them(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == [tokens]


@given(TEXTS)
@example("🇩🇩\u200dU.S.\u0301n't\u0301's")
def test_no_spelling_makes_other_tokens_and_nothing_is_lost(text: str) -> None:
    lines = tokenize(text)
    assert "".join(token for line in lines for token in line) == "".join(text.split())
    assert tokenize(detokenize(lines)) == lines
    spellings = [[[composed(token) for token in line] for line in tokenize(form(text))] for form in (nfd, composed)]
    assert spellings[0] == spellings[1]
    assert words_of(nfd(text), 9) == words_of(composed(text), 9)
    assert composed(composed(text)) == composed(text)


@given(st.lists(st.sampled_from([*WORDS, ". ", "! ", "Ü. ", "\n\n", "Mr. ", "।\n"]), max_size=12).map("".join))
def test_no_spelling_makes_other_sentences(text: str) -> None:
    assert [composed(each) for each in sentences(nfd(text))] == sentences(composed(text))
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("वह गया। क्या? हाँ।", 3),
        ("متى؟ الآن. یہ ہے۔ وہ گیا۔", 4),
        ("これは本です。私は行く。", 1),
        (nfd("Ü. Schmidt auch. Er."), 2),
    ],
)
def test_sentences_of_other_scripts(text: str, n: int) -> None:
    assert len(sentences(text)) == n


@pytest.mark.parametrize(
    "unit",
    [
        "\u0301\u0323",
        "👩\u200d",
        "n't\u0301",
        "ü. ",
        # marks, joiners, apostrophes and ends of sentences stay
        *(
            pytest.param(unit, marks=pytest.mark.slow)
            for unit in ("a\u0301", "क्षि", "🇩", "'\u0301", "1\u066b", "a\u0301.", "\u200f", "ä·")
        ),
    ],
)
def test_many_marks_take_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    words_of(text, 5)
    tokenize(text)
    sentences(text[:40_000])
    assert time.process_time() - began < 4  # some .2 s; Python orders 200,000 marks in half a minute


def test_words_that_are_counted_are_those_that_are_read() -> None:
    assert has_word(["\u0e33"])
    assert not has_word(["\u0301 !"])
    texts = [*WORDS, "İstanbul snake_case naïve"]
    for form in (composed, nfd):
        counter = words_tfidf().fit([form(text) for text in texts])
        assert {composed(word.lower()) for word in [*WORDS, "snake_case", "naïve"]} == set(
            counter.get_feature_names_out()
        )
    rows = tfidf_of([*WORDS, "Oslo"])([*map(nfd, WORDS)])
    assert (rows.toarray() > 0).sum(axis=1).tolist() == [1] * len(WORDS)


def test_one_word_in_two_spellings_is_looked_up_as_one() -> None:
    found = WordVectors(("müller", "été", nfd("åse")), np.eye(3), name="toy")
    assert found.index_of([nfd("Müller"), "Müller", nfd("été"), nfd("åse"), "none", "\u0301"]).tolist() == [
        0,
        0,
        1,
        2,
        -1,
        -1,
    ]
    assert text_key(dp.Record("", nfd("Müller"))) == text_key(dp.Record("", "müller"))
    assert _key(nfd("Müller")) == _key("müller")
    assert (features([nfd("Müller était là.")]) == features(["Müller était là."])).all()


def test_redaction_masks_whole_words() -> None:
    records = [dp.Record(str(i), form(" ".join(WORDS))) for i, form in enumerate((composed, nfd))]
    for spec in (RandomRedaction(1.0), CountRedaction(1.0)):
        found = dp.privatize(records, spec.fit(), without_guarantee=True)
        assert [release.output for release in found] == [" ".join(["[MASK]"] * len(WORDS))] * 2
    public = [dp.Record("", "Müller kam", label="1"), dp.Record("", "Er ging", label="0")] * 5
    smart = SmartRedaction(level=0.5, sensitive="1").fit(public=public)
    (release,) = dp.privatize([dp.Record("", nfd("Müller ging"))], smart, without_guarantee=True)
    assert release.output == "[MASK] ging"


def test_columns_named_in_any_script_are_names() -> None:
    assert are_names(["समीक्षा", nfd("Größe"), "id"])
    assert not are_names(["\u0301", "id"])


def test_a_command_masks_words_of_every_script(tmp_path: Path) -> None:
    rows = [{"text": " ".join([*map(nfd, WORDS), *INNER])}, {"text": "one\u200btwo"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    how = ("--mechanism", "random_redaction", "--set", "level=1", "--without-guarantee")
    done = dptext("privatize", "in.jsonl", "out.jsonl", *how, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == [" ".join(["[MASK]"] * n) for n in (len(WORDS) + len(INNER), 2)]
