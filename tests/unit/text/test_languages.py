"""The language of most texts: what is sure, what is not said, and what is not loaded."""

from __future__ import annotations

import pytest

import tongues
from dptext import sample_records
from dptext.text import languages
from dptext.text.languages import MainLanguage, main_language

GERMAN = [row["text"] for row in tongues.rows("de", 60, private=False, seed=1)]
SPANISH = [row["text"] for row in tongues.rows("es", 60, private=False, seed=1)]
ENGLISH = [record.text for record in sample_records(200, seed=3)]
#: A passage of at least 200 letters in each.
OTHERS = {
    "fr": "Le train de nuit est parti avec deux heures de retard, et personne ne nous a dit pourquoi. Nous avons "
    "attendu sur le quai sous la pluie, puis un agent est venu nous proposer une chambre dans un hôtel près "
    "de la gare, mais il n'y avait plus de place pour les enfants.",
    "nl": "De trein van gisteravond vertrok met twee uur vertraging en niemand vertelde ons waarom. We stonden in "
    "de regen op het perron te wachten, tot iemand van het spoor ons een kamer aanbood in een hotel bij het "
    "station, maar voor de kinderen was er geen plaats meer.",
    "pl": "Nocny pociąg odjechał z dwugodzinnym opóźnieniem i nikt nam nie powiedział dlaczego. Czekaliśmy na "
    "peronie w deszczu, aż ktoś z kolei zaproponował nam pokój w hotelu przy dworcu, ale dla dzieci nie było "
    "już żadnego miejsca i musieliśmy szukać dalej.",
    "pt": "O comboio da noite partiu com duas horas de atraso e ninguém nos disse porquê. Ficámos à espera no cais "
    "debaixo de chuva, até que alguém da estação nos ofereceu um quarto num hotel ali perto, mas já não havia "
    "lugar para as crianças e tivemos de procurar outro.",
    "tr": "Gece treni iki saat gecikmeyle kalktı ve kimse bize nedenini söylemedi. Yağmurun altında peronda "
    "bekledik, sonunda bir görevli bize istasyonun yanındaki otelde bir oda önerdi, ama çocuklar için artık "
    "yer kalmamıştı ve başka bir yer aramak zorunda kaldık.",
}


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> tongues.Planted:
    found = tongues.Planted()
    monkeypatch.setattr(languages, "load_identifier", lambda: found)
    return found


def test_texts_with_english_words_are_english_and_no_model_is_loaded(planted: tongues.Planted) -> None:
    short = [" ".join(text.lower().split()[:5]) for text in ENGLISH]
    assert main_language(ENGLISH) == main_language(short) == MainLanguage("en", 1.0)
    assert planted.asked == []


def test_a_language_is_named_where_passages_agree(planted: tongues.Planted) -> None:
    assert main_language(GERMAN) == MainLanguage("de", 1.0)
    assert main_language(SPANISH) == MainLanguage("es", 1.0)
    assert MainLanguage("de", 1.0).name == "German"
    assert MainLanguage("zzz", 1.0).name == "the language 'zzz' of ISO 639"
    assert all(sum(map(str.isalpha, passage)) >= 200 for passage in planted.asked)


def test_what_is_not_sure_is_not_said(planted: tongues.Planted) -> None:
    assert main_language([*GERMAN[:30], *SPANISH[:30]]) is None
    mostly = main_language([*GERMAN, *SPANISH[:8]])
    assert mostly is not None
    assert (mostly.code, 0.8 <= mostly.share < 1) == ("de", True)
    asked = len(planted.asked)
    assert main_language([]) is main_language(GERMAN[:6]) is main_language(["12 34"] * 500) is None
    assert len(planted.asked) == asked  # too few letters
    assert main_language(["zq xk qz wq jx"] * 200) is None  # in no language


def test_a_public_number_of_characters_is_read(planted: tongues.Planted) -> None:
    long = [f"{text} {'der ' * 200_000}" for text in GERMAN[:3]]
    assert main_language([*long, *GERMAN * 100]) == MainLanguage("de", 1.0)
    assert len(planted.asked) <= 40
    assert max(map(len, planted.asked)) < 1_200
    assert main_language([*GERMAN * 50, *SPANISH * 50]) is None  # evenly spaced: the end is seen, too
    assert main_language([*GERMAN * 5, *SPANISH * 5]) is None


@pytest.mark.slow  # loads the model; the test of agreement has a planted one
def test_languages_as_they_are() -> None:
    found = {code: main_language([text] * 4) for code, text in OTHERS.items()}
    assert {code: each and each.code for code, each in found.items()} == {code: code for code in OTHERS}
    assert (main_language(GERMAN), main_language(SPANISH)) == (MainLanguage("de", 1.0), MainLanguage("es", 1.0))
    assert main_language([text.lower() for text in GERMAN]) == MainLanguage("de", 1.0)
    identifier = languages.load_identifier()
    for texts in (ENGLISH, [" ".join(text.lower().split()[:5]) for text in ENGLISH]):
        passages = ["\n".join(texts[i : i + 20]) for i in range(0, 200, 20)]
        assert {identifier.classify(each)[0] for each in passages} == {"en"}
