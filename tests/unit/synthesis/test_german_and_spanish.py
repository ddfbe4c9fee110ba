"""Summaries of German and Spanish corpora: which words count and are shown, and an encoder of the user's own."""

from __future__ import annotations

import csv
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dptext as dp
import tongues
from dptext.embeddings import encoders
from dptext.errors import ConfigError
from dptext.sampling.randomness import seeded
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.lexicon import fit_lexicon, untelling_words
from dptext.synthesis.pool import stop_words
from dptext.synthesis.summary import Summary, SummarySpec
from dptext.text import languages
from dptext.text.function_words import FUNCTION_WORDS
from dptext.text.tokens import sentences, words_of
from hashed_words import HashedWords


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> tongues.Planted:
    found = tongues.Planted()
    monkeypatch.setattr(languages, "load_identifier", lambda: found)
    return found


class Hashed(HashedWords):
    """An encoder of a folder."""

    digest = "ab" * 32

    def embed(self, texts: Any, *, on_progress: Any = None) -> np.ndarray:
        found = super().embed(texts)
        lengths = np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0)
        return np.rint(found / lengths * 1024) / 1024


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of an encoder."""
    monkeypatch.setattr(encoders, "load_encoder", lambda name: Hashed())
    return "./own"


@functools.cache
def summary(language: str, encoder: str) -> Any:
    """Make the summary once: each test has the same encoder in the folder."""
    private = tongues.rows(language, 300, private=True, seed=1)
    return dp.summarize(
        private, tongues.rows(language, 90, private=False, seed=2), label="label", also=["words", "topics"],
        labels=tuple(tongues.WORDS[language]), encoder=encoder, words=8, dim=8, topics=3, drafts=0, vocabulary=90,
        about=300, epsilon=30.0, seed=1, randomness=seeded(1),
    )  # fmt: skip


@pytest.mark.slow_cases("es", why="German goes the same way; other tests compare the Spanish list")
@pytest.mark.filterwarnings("ignore:No public drafts")
@pytest.mark.parametrize("language", ["de", "es"])
def test_content_words_are_shown_and_umlauts_survive_every_format(language: str, own: str, tmp_path: Path) -> None:
    found = summary(language, own)  # filterwarnings: nothing is said of an encoder of the user's own
    lexicon = set(found.summary.public.lexicon.words)
    assert not FUNCTION_WORDS[language] & lexicon
    assert found.summary.public.language == language
    each = dict(zip(tongues.WORDS[language], tongues.WORDS[language].values(), strict=True))
    report = found.summary.report
    for label, shown in zip(each, report.words.words, strict=True):
        assert each[label][0].lower() in {word for word, *_ in shown}  # Tür, Köln, señal, Logroño
    described = {word for words, _ in report.topics for word in words}
    assert described
    assert not FUNCTION_WORDS[language] & (described | tongues.shown_words(found.summary))
    found.write(tmp_path / "a.summary")
    corpus = dp.write(tmp_path / "a.summary", writer="pool", size=20, seed=1)
    texts = set(corpus.to_dict()["text"])
    assert texts <= {row["text"] for row in tongues.rows(language, 90, private=False, seed=2)}
    assert any(not text.isascii() for text in texts)
    for kind in ("csv", "tsv", "jsonl", "parquet"):
        corpus.write(tmp_path / f"out.{kind}")
    for kind, delimiter in (("csv", ","), ("tsv", "\t")):
        with (tmp_path / f"out.{kind}").open(encoding="utf-8", newline="") as file:
            assert {row["text"] for row in csv.DictReader(file, delimiter=delimiter)} == texts
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["text"] for line in lines} == texts
    assert set(pq.read_table(tmp_path / "out.parquet")["text"].to_pylist()) == texts
    page = (tmp_path / "a.summary.topics.html").read_text("utf-8")
    assert each[next(iter(each))][0].lower() in page


@pytest.mark.filterwarnings("ignore:No public drafts")
def test_the_language_is_stored_and_english_is_not(own: str) -> None:
    german = summary("de", own).summary
    again = Summary.of_bytes(german.to_bytes())
    assert again.public.language == "de"
    assert again.report.to_dict() == german.report.to_dict()
    spec = SummarySpec(labels=("a", "b"), encoder="glove", points=False, marks=3, drafts=0)
    english = spec.fit(public=dp.sample_records(60)).public
    described, _ = english.stored()
    assert (english.language, "language" in described) == ("en", False)  # files of English pools are as they were


@pytest.mark.filterwarnings("ignore:No public drafts")
def test_an_encoder_of_ones_own_is_stored_by_its_weights(
    own: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = summary("de", own)
    data, texts = found.summary.to_bytes(), ["Die Küche ist kalt."]
    again = Summary.of_bytes(data)
    space = again.public.pool.space
    assert space is not None
    assert found.summary.public.pool.space is not None
    assert space.points(texts).tolist() == found.summary.public.pool.space.points(texts).tolist()
    assert "hashed words" in repr(space.encoder.name)

    def changed(name: str) -> Hashed:
        encoder = Hashed()
        encoder.digest = "cd" * 32
        return encoder

    encoders.OwnEncoder.of(own)  # another encoder lies in the folder by now, and is the one that is loaded
    monkeypatch.setattr(encoders, "load_encoder", changed)
    other = encoders.OwnEncoder.of(own)
    with pytest.raises(ConfigError, match=r"Expected the encoder in \./own to have weights of sha256 abababababab"):
        space.points(texts)
    assert FromPool().write(again, seeded(1)).texts  # reads no text
    with pytest.raises(ConfigError, match="to have weights of sha256"):  # before anything is written
        dp.write(found, writer="endpoint:http://127.0.0.1:1/v1#m", size=9)
    changed_space = SummarySpec(labels=("a", "b"), encoder=own, words=8, dim=8).fit(
        public=[dp.Record(str(i), row["text"]) for i, row in enumerate(tongues.rows("de", 90, private=False, seed=2))]
    )
    assert other.digest != "ab" * 32
    assert changed_space.public.digests["space"] != again.public.digests["space"]


@pytest.mark.parametrize("encoder", ["", "sentense", "mine", 3])
def test_an_encoder_is_a_name_or_a_path(encoder: Any) -> None:
    with pytest.raises(ConfigError, match=r"as a path with a slash: \./FOLDER"):
        SummarySpec(labels=("a", "b"), encoder=encoder)


def test_words_that_say_nothing_are_those_of_the_language() -> None:
    german = ["Die Straße war kalt, und the bus will not come.", "Über die Höhe der Miete wird nicht gesprochen."]
    assert set(fit_lexicon(german, size=90, most=3, language="de").words) == {
        "straße", "kalt", "the", "bus", "not", "come", "höhe", "miete", "gesprochen",
    }  # fmt: skip
    spanish = fit_lexicon(["¿Qué pasó con el baño? ¡Nada funciona!"], size=90, most=3, language="es").words
    assert spanish == ("baño", "funciona", "pasó")
    assert "le" in fit_lexicon(["le train"], size=9, most=2, language="fr").words
    assert untelling_words("de") == stop_words("de") == FUNCTION_WORDS["de"]
    assert untelling_words("fr") == stop_words("fr") == frozenset()
    assert untelling_words() == untelling_words("en") > FUNCTION_WORDS["en"]


def test_function_words_are_as_texts_are_cut() -> None:
    for language, words in FUNCTION_WORDS.items():
        assert 100 <= len(words) <= 300
        assert [word for word in words if words_of(word, 2) != [word] and word != "daß"] == [], language
    telling = {word.lower() for own in tongues.WORDS.values() for each in own.values() for word in each}
    assert not telling & frozenset().union(*FUNCTION_WORDS.values())


def test_tokens_and_sentences_of_german_and_spanish() -> None:
    assert words_of("¿Cuándo llega el NIÑO? ¡Ya!", 20) == ["¿", "cuándo", "llega", "el", "niño", "?", "¡", "ya", "!"]
    assert words_of("STRAßE Straße STRAẞE Strasse Äpfel", 9) == ["straße", "straße", "straße", "strasse", "äpfel"]
    assert sentences("Das ist schön. Über die Straße ging er nicht. „Warum?“ Weil es regnet.")[:2] == [
        "Das ist schön.",
        "Über die Straße ging er nicht.",
    ]
    assert sentences("¿Dónde está? ¡No lo sé! Mañana llega.") == ["¿Dónde está?", "¡No lo sé!", "Mañana llega."]
