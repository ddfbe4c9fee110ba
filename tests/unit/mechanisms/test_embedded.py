"""`Embedded`: another mechanism's text as an embedding, under that mechanism's guarantee."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dptext as dp
from dptext.cli.app import app
from dptext.embeddings.vector_files import load_glove
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import (
    settings,
)
from dptext.mechanisms.embedded import PUBLIC_ENCODER, Embedded
from dptext.privacy.guarantee import Basis, Trust
from dptext.registry import MECHANISMS
from dptext.runs.models import load_model, save_model
from dptext.runs.specs import spec_from_settings
from dptext.sampling.randomness import seeded
from dptext.testing import check_mechanism
from dptext.text.tokens import sentences
from dptext_lab import RandomRedaction
from dptext_lab.adept.dpsgd import AdeptDpSgd
from dptext_lab.adept.published import PublishedAdept
from kept_words import KeptWords

pytest.importorskip("torch")
from dptext.embeddings.encoders import WordMean

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
    assert Embedded(KeptWords()).guarantee().basis is Basis.NONE


@pytest.mark.parametrize("output", ["embedding", "both"])
def test_a_release_is_the_mean_of_the_sentences_that_were_released(output: str) -> None:
    spec = Embedded(WORDS, encoder="glove", output=output)
    found = spec.fit().privatize(RECORDS, seeded(4))
    written = [release.output for release in WORDS.fit().privatize(RECORDS, seeded(4))]
    encoder = WordMean(load_glove())
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
    assert spec.traits.labels == ("a", "b")


LABELS = ("health", "travel", "money", "leisure")
INNER = [
    spec
    for cls in MECHANISMS.values()
    for spec in cls.tiny()
    if spec.traits.releases_text and not spec.traits.releases_vectors
]
SEVERAL = [
    *(spec for spec in INNER if spec.guarantee().trust is not Trust.CENTRAL),
    dp.DeepCandidate(2.0, labels=LABELS),  # releases public labels, and reads no private one
    dp.Candidates(2.0, labels=LABELS, ranker="tfidf", label_weight=0.0),  # the same without a weight of labels
    dp.Candidates(2.0, labels=LABELS, ranker="tfidf", label_weight=1.0),
]


@pytest.mark.parametrize("inner", SEVERAL, ids=lambda spec: spec.kind)
def test_what_is_said_of_labels_and_words_is_true_of_the_other_mechanism(inner) -> None:
    for output in ("embedding", "both"):
        spec = Embedded(inner, output=output)
        assert spec.traits.releases_labels == inner.traits.releases_labels
        assert spec.traits.reads_labels == inner.traits.reads_labels
        assert spec.traits.learns_labels == inner.traits.learns_labels
        assert spec.traits.keeps_words == (output == "both" and inner.traits.keeps_words)


def test_several_kinds_of_them_were_tried() -> None:
    assert {(spec.traits.releases_labels, spec.traits.reads_labels) for spec in SEVERAL} == {(0, 0), (1, 0), (1, 1)}
    assert any(spec.traits.learns_labels for spec in SEVERAL)
    assert any(spec.traits.keeps_words for spec in SEVERAL)


def test_private_labels_that_nobody_reads_are_not_asked_for(tmp_path: Path) -> None:
    public = [dp.Record(str(i), f"{word} now", label) for i, word in enumerate("abcd") for label in ("x", "y")]
    for weight, asked in ((0.0, False), (1.0, True)):
        inner = dp.Candidates(2.0, labels=("x", "y"), ranker="tfidf", candidates=8, label_weight=weight)
        model = tmp_path / f"model{weight}"
        save_model(Embedded(inner, encoder="glove").fit(public=public, seed=0), model)
        source, target = tmp_path / "in.jsonl", tmp_path / f"out{weight}.jsonl"
        source.write_text('{"text": "a b"}\n', "utf-8")
        done = CliRunner().invoke(app, ["privatize", str(source), str(target), "--model", str(model)])
        assert target.exists() is not asked
        assert ("Expected --label-field" in str(done.exception)) is asked


def test_words_that_are_kept_are_announced() -> None:
    for output in ("embedding", "both"):
        spec = Embedded(RandomRedaction(0.5), encoder="glove", output=output)
        assert check_mechanism(spec.fit(), checks=["verbatim", "files"])


@pytest.mark.parametrize("inner", [AdeptDpSgd(2.0), AdeptDpSgd.tiny()[1], PublishedAdept(variance=1.0)])
def test_a_training_on_private_text_that_would_never_be_is_refused(inner) -> None:
    with pytest.raises(ConfigError, match=f"{inner.kind} to learn from public text alone"):
        Embedded(inner)
    with pytest.raises(ConfigError, match="is not trained on private text"):
        spec_from_settings({"kind": "embedded", "mechanism": settings(inner)})


def test_settings_make_the_same_spec_again() -> None:
    assert spec_from_settings(settings(SPEC)) == SPEC
    other = Embedded(dp.WordMetric(epsilon=7.0, n_words=2000), encoder="glove")
    assert settings(SPEC) != settings(other)


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        ("word_metric", "settings of another"),
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
