"""`Embedded`: another mechanism's text as an embedding, under that mechanism's guarantee."""

from pathlib import Path

import numpy as np
import pytest

import dptext as dp
from dptext.config import load_model, save_model, spec_from_settings
from dptext.embedded import PUBLIC_ENCODER, Embedded
from dptext.embeddings import load_glove
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import settings, settings_digest
from dptext.randomness import seeded
from dptext.text import sentences

pytest.importorskip("torch")
from dptext.neural.sentence_encoder import load_word_mean

WORDS = dp.WordMetric(epsilon=6.0, n_words=2000)
SPEC = Embedded(WORDS, encoder="glove")
RECORDS = [dp.Record("0", "The train was late. Nobody told us why."), dp.Record("1", "")]


def test_the_guarantee_is_that_of_the_other_mechanism() -> None:
    ours, inner = SPEC.guarantee(), WORDS.guarantee()
    assert (ours.epsilon, ours.delta, ours.unit, ours.metric) == (inner.epsilon, inner.delta, inner.unit, inner.metric)
    assert ours.assumptions == (*inner.assumptions, PUBLIC_ENCODER)
    assert SPEC.calibrate(3.0).mechanism == WORDS.calibrate(3.0)
    with pytest.raises(IncomparableError):
        SPEC.guarantee(dp.Unit.DOCUMENT)


def test_nothing_can_be_promised_where_nothing_is() -> None:
    assert Embedded(dp.PrivatePhrases(variance=1.0)).guarantee().basis is dp.Basis.NONE


@pytest.mark.parametrize("output", ["embedding", "both"])
def test_a_release_is_the_mean_of_the_sentences_that_were_released(output: str) -> None:
    spec = Embedded(WORDS, encoder="glove", output=output)
    found = spec.fit().privatize(RECORDS, seeded(4))
    written = [release.output for release in WORDS.fit().privatize(RECORDS, seeded(4))]
    encoder = load_word_mean(load_glove())
    for release, text in zip(found, written, strict=True):
        rows = encoder.embed(sentences(text))
        wanted = rows.mean(axis=0) if len(rows) else np.zeros(encoder.dim)
        np.testing.assert_allclose(release.vector, wanted)
        assert release.output == ("" if output == "embedding" else text)
    assert written[0] != RECORDS[0].text
    assert not any(found[1].vector)


def test_labels_leave_as_the_other_mechanism_says() -> None:
    spec = Embedded(dp.LabelOnly(labels=("a", "b"), epsilon=2.0), encoder="glove")
    public = [dp.Record("0", "Good.", label="a"), dp.Record("1", "Bad.", label="b")]
    found = spec.fit(public=public, seed=0).privatize(public, seeded(0))
    assert {release.label for release in found} <= {"a", "b"}
    assert spec.labels == ("a", "b")


def test_settings_make_the_same_spec_again() -> None:
    assert spec_from_settings(settings(SPEC)) == SPEC
    other = Embedded(dp.WordMetric(epsilon=7.0, n_words=2000), encoder="glove")
    assert settings_digest(SPEC) != settings_digest(other)


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        ("word_metric", "settings of a mechanism"),
        ({"kind": "word_metrc", "epsilon": 1.0}, "did you mean 'word_metric'"),
        ({"kind": "word_metric", "epsilon": -1.0}, "epsilon=-1.0"),
        ({"kind": "truncation", "epsilon": 1.0}, "release text"),
    ],
)
def test_what_is_no_mechanism_of_text_is_refused(inner: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        spec_from_settings({"kind": "embedded", "mechanism": inner})  # type: ignore[dict-item]


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    mechanism = SPEC.fit()
    save_model(mechanism, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.digests == mechanism.digests
    assert again.privatize(RECORDS, seeded(1)) == mechanism.privatize(RECORDS, seeded(1))
