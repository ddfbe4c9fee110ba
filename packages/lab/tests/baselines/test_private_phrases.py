"""PrivatePhrases: it keeps common words, says so, guarantees nothing, and comes back as it was saved."""

from dataclasses import replace
from pathlib import Path

import pytest

from dptext.errors import ConfigError
from dptext.mechanism import HasDistribution, HasLatent, HasMetric, Mechanism
from dptext.mechanisms.words.word_metric import REVEALS
from dptext.privacy.guarantee import Basis
from dptext.runs.models import load_model, save_model
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext_lab.baselines.words import PrivatePhrases
from vectors import WORDS, sentences


def outputs(mechanism: Mechanism[str], text: str, n: int) -> list[str]:
    return [release.output for release in mechanism.privatize([Record(str(i), text) for i in range(n)], seeded(0))]


def test_common_words_are_kept_and_that_is_said(vectors: Path) -> None:
    phrases = PrivatePhrases(variance=100.0, vectors=str(vectors), n_words=300, common_words=100)
    found = phrases.guarantee()
    assert found.basis is Basis.NONE
    assert "every common word" in found.reveals
    assert set(REVEALS) < set(found.reveals)
    common, rare = WORDS[3], WORDS[250]
    released = outputs(phrases.fit(), f"{common} {rare} zebra", 200)
    assert all(output.split()[0] == common for output in released)
    assert sum(output.split()[1] == rare for output in released) < 100
    assert all("zebra" not in output for output in released)
    with pytest.raises(ConfigError, match="guarantee"):
        phrases.calibrate(1.0)


def test_audits_of_word_metrics_do_not_apply(vectors: Path) -> None:
    assert not isinstance(PrivatePhrases(1.0, str(vectors), 300).fit(), HasDistribution | HasLatent | HasMetric)


def test_a_saved_model_comes_back(vectors: Path, tmp_path: Path) -> None:
    spec = PrivatePhrases(variance=6.0, common_words=50, vectors=str(vectors), n_words=300)
    fitted, text = spec.fit(), f"{' '.join(sentences(5))}\nZebra!"
    save_model(fitted, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.spec, loaded.digests) == (fitted.spec, fitted.digests)
    assert outputs(loaded, text, 20) == outputs(fitted, text, 20)
    with pytest.raises(ConfigError, match="n_words=299"):
        replace(spec, n_words=299).load(tmp_path / "model")


def test_the_tiny_spec_is_fitted() -> None:
    assert [spec.fit().spec for spec in PrivatePhrases.tiny()] == [*PrivatePhrases.tiny()]
