"""Random-R: rates and words as stated, unknown words gone, and no guarantee of any kind."""

from dataclasses import replace

import numpy as np
import pytest

from dptext.errors import ConfigError, NoGuaranteeError
from dptext.privacy.events import NoEvent
from dptext.privacy.guarantee import Basis, Unit
from dptext.runs.results import privatize
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext_lab.baselines.words import RandomReplacement
from vectors import WORDS


@pytest.fixture
def spec(vectors):
    return RandomReplacement(rate=0.3, vectors=str(vectors), n_words=300)


def outputs(mechanism, text, runs=1, seed=0):
    return [release.output for release in mechanism.privatize([Record("0", text)] * runs, seeded(seed))]


def test_no_guarantee_and_the_reason(spec):
    assert spec.units == (Unit.TOKEN,)
    for unit in (None, Unit.TOKEN, Unit.DOCUMENT):
        found = spec.guarantee(unit)
        assert (found.basis, found.epsilon, found.reason) == (Basis.NONE, np.inf, spec.reason)
    assert "every word that is not replaced" in spec.guarantee().reveals
    assert isinstance(spec.events(Unit.DOCUMENT)[0], NoEvent)
    assert "verbatim" in spec.reason
    with pytest.raises(ConfigError, match="guarantee to calibrate"):
        spec.calibrate(1.0)


def test_the_whole_text_replaced_has_no_guarantee_either(spec):
    every = replace(spec, rate=1.0)
    assert every.guarantee().basis is Basis.NONE
    assert every.guarantee().reveals == ("the number of tokens", "the line structure")
    with pytest.raises(NoGuaranteeError):
        list(privatize([Record("0", WORDS[0])], every.fit()))
    assert len(list(privatize([Record("0", WORDS[0])], every.fit(), without_guarantee=True))) == 1


def kept_share(mechanism, randomness):
    text = " ".join(WORDS[:250])
    releases = mechanism.privatize([Record("0", text)] * 40, randomness)
    kept = [a == b for r in releases for a, b in zip(r.output.split(), WORDS[:250], strict=True)]
    return sum(kept), len(kept)


@pytest.mark.parametrize("randomness", [secure(), seeded(3)])
def test_so_many_words_stay_as_the_rate_says(spec, randomness):
    kept, n = kept_share(spec.fit(), randomness)
    expected = 0.7 + 0.3 / 300
    assert abs(kept / n - expected) < 5 * (expected * (1 - expected) / n) ** 0.5


@pytest.mark.parametrize("rate", [0.2, 0.45])
def test_another_rate_is_rejected(spec, rate):
    kept, n = kept_share(replace(spec, rate=rate).fit(), seeded(3))
    assert abs(kept / n - 0.7) > 5 * (0.21 / n) ** 0.5


def test_words_are_drawn_uniformly_and_independently(spec):
    mechanism = replace(spec, rate=1.0, n_words=100).fit()
    text = f"{WORDS[0]} {WORDS[0]}"
    drawn = np.array([[WORDS.index(word) for word in out.split()] for out in outputs(mechanism, text, 5_000)])
    for counts in (np.bincount(drawn[:, 0], minlength=100), np.bincount(drawn[:, 1], minlength=100)):
        assert len(counts) == 100
        assert ((counts - 50) ** 2 / 50).sum() < 161  # 99 degrees of freedom, 1e-4
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.05
    uneven = np.bincount(drawn[:, 0] // 2 * 2, minlength=100)
    assert ((uneven - 50) ** 2 / 50).sum() > 1000  # every other word only: would be seen


def test_unknown_words_never_stay_and_lines_do(spec):
    text = f"Zanzibar {WORDS[3]}!\n\n{WORDS[4].upper()} qqq"
    for out in outputs(replace(spec, rate=1e-9).fit(), text, 20):
        lines = tokenize(out)
        assert [len(line) for line in lines] == [3, 0, 2]
        assert lines[0][1] == WORDS[3]
        assert lines[2][0] == WORDS[4].upper()
        assert {lines[0][0], lines[0][2], lines[2][1]} <= set(WORDS)


def test_empty_texts_and_batches(spec):
    mechanism = spec.fit()
    assert mechanism.privatize([], secure()) == []
    batch = [Record("a", ""), Record("b", " ".join(WORDS[:9]), kept={"day": 3}), Record("c", "\n")]
    found = mechanism.privatize(batch, seeded(1))
    assert [r.output for r in found] == ["", found[1].output, "\n"]
    assert found[1].kept == {"day": 3}
    assert mechanism.privatize(batch[1:2], seeded(1).at(1))[0] == found[1]


def test_saved_and_loaded(spec, tmp_path):
    mechanism = spec.fit()
    mechanism.save(tmp_path)
    loaded = spec.load(tmp_path)
    assert loaded.digests == mechanism.digests
    assert outputs(loaded, " ".join(WORDS), 3) == outputs(mechanism, " ".join(WORDS), 3)
    with pytest.raises(ConfigError, match="n_words"):
        replace(spec, n_words=200).load(tmp_path)


@pytest.mark.parametrize(("wrong", "match"), [({"rate": 0.0}, "rate"), ({"rate": 1.1}, "rate"), ({"n_words": 0}, "n_")])
def test_wrong_settings_are_refused(wrong, match):
    with pytest.raises(ConfigError, match=match):
        RandomReplacement(**wrong)
