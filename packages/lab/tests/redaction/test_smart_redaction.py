"""Smart redaction: what weighs most goes first, deterministically, and nothing is guaranteed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dptext.errors import ConfigError, DataError, NoGuaranteeError
from dptext.privacy.events import NoEvent
from dptext.privacy.guarantee import Basis, Unit
from dptext.runs.results import privatize
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext_lab.redaction.smart import SmartRedaction

pytest.importorskip("sklearn")

ILL, WELL = (
    ("the tumor grew", "a tumor again", "the tumor is old"),
    ("the dinner was good", "a dinner again", "old dinner"),
)
PUBLIC = [
    *(Record(f"i{i}", text, "cancer") for i, text in enumerate(ILL)),
    *(Record(f"w{i}", text, "other") for i, text in enumerate(WELL)),
]
SPEC = SmartRedaction(0.5)


@pytest.fixture(scope="module")
def fitted():
    return SPEC.fit(public=PUBLIC)


def output(mechanism, text: str) -> str:
    return mechanism.privatize([Record("0", text)], secure())[0].output


def at(level: float, **changes):
    return replace(SPEC, level=level, **changes).fit(public=PUBLIC)


def test_no_guarantee_and_it_must_be_asked_for(fitted) -> None:
    assert SPEC.units == (Unit.TOKEN,)
    for unit in (None, Unit.TOKEN, Unit.DOCUMENT):
        found = SPEC.guarantee(unit)
        assert (found.basis, found.epsilon, found.reason) == (Basis.NONE, math.inf, SPEC.reason)
    assert isinstance(SPEC.events(Unit.DOCUMENT)[0], NoEvent)
    assert "every word that is not masked" in SPEC.guarantee().reveals
    with pytest.raises(ConfigError, match="guarantee to calibrate"):
        SPEC.calibrate(1.0)
    with pytest.raises(NoGuaranteeError):
        list(privatize(PUBLIC, fitted))
    assert len(list(privatize(PUBLIC, fitted, without_guarantee=True))) == 6


def test_the_telling_words_go_first_in_either_direction() -> None:
    assert output(at(0.25), "The old Tumor grew") == "The old [MASK] grew"
    assert output(at(0.25), "the old dinner again") == "the old [MASK] again"
    assert output(at(0.34), "tumor dinner the") == "tumor [MASK] the"  # "dinner" weighs more, wherever it stands
    assert output(at(0.34), "dinner tumor the") == "[MASK] tumor the"


def test_weights_speak_for_the_sensitive_kind_and_ignore_case(fitted) -> None:
    named = replace(SPEC, sensitive="cancer").fit(public=PUBLIC)
    assert named.weight("Tumor") > 0.3
    assert named.weight("dinner") < -0.3
    assert fitted.weight("tumor") == -named.weight("tumor")  # "other" sorts last
    assert named.weight("zanzibar") == 0
    texts = ["the tumor grew at dinner", "dinner again ?", "x y z"]
    assert [output(named, text) for text in texts] == [output(fitted, text) for text in texts]


def test_unknown_words_go_last_and_ties_go_to_the_first(fitted) -> None:
    assert output(at(0.5), "u v x y") == "[MASK] [MASK] x y"
    assert output(at(0.5), "u v tumor x") == "[MASK] v [MASK] x"
    assert output(at(0.75), "u v tumor tumor") == "[MASK] v [MASK] [MASK]"


def test_levels_are_nested_and_exact(fitted) -> None:
    text = "the tumor grew and the dinner was good again in old Rome ."
    before: set[int] = set()
    for level in np.linspace(0, 1, 14).round(4).tolist():
        words = output(at(level), text).split()
        gone = {place for place, word in enumerate(words) if word == "[MASK]"}
        assert len(gone) == math.floor(round(level * 13, 6))
        assert before <= gone
        before = gone
    assert len(before) == 13


def test_levels_0_and_1_lines_runs_and_empty_texts() -> None:
    text = "a tumor .\n\nBye"
    assert output(at(0.0), text) == text
    assert output(at(1.0), text) == "[MASK] [MASK] [MASK]\n\n[MASK]"
    assert output(at(1.0, runs="merge", mask="_"), text) == "_\n\n_"
    assert output(at(0.5), "") == ""
    assert at(0.5).privatize([], secure()) == []
    (release,) = at(0.5).privatize([Record("7", "a b", label="cancer", kept={"day": 3})], seeded(0))
    assert (release.id, release.label, release.kept) == ("7", None, {"day": 3})


def test_the_same_text_leaves_in_the_same_way_whatever_is_drawn(fitted) -> None:
    batch = sample_records(30)
    first, again = fitted.privatize(batch, secure()), fitted.privatize(batch, secure())
    assert [r.output for r in first] == [r.output for r in again]
    refitted = SPEC.fit(public=PUBLIC, seed=7)
    assert dict(refitted.digests) == dict(fitted.digests)
    other = SPEC.fit(public=[*PUBLIC[:-1], Record("5", "young dinner", "other")])
    assert all(other.digests[name] != fitted.digests[name] for name in ("weights", "public"))


def test_what_it_masks_costs_a_classifier_more_than_random_words_do() -> None:
    from dptext_lab.redaction.random import CountRedaction

    public, private = sample_records(600)[:400], sample_records(600)[400:]
    mechanism = SmartRedaction(0.6, sensitive="health").fit(public=public)

    def guessed(releases) -> float:
        scores = [sum(mechanism.weight(word) for word in release.output.split()) for release in releases]
        kinds = [record.label == "health" for record in private]
        ill, well = ([s for s, kind in zip(scores, kinds, strict=True) if kind is which] for which in (True, False))
        return float(np.mean([(a > b) + (a == b) / 2 for a in ill for b in well]))

    smart = guessed(mechanism.privatize(private, seeded(0)))
    random = guessed(CountRedaction(0.6).fit().privatize(private, seeded(0)))
    assert smart < random - 0.1


def test_saved_and_loaded(fitted, tmp_path) -> None:
    fitted.save(tmp_path)
    loaded = SPEC.load(tmp_path)
    assert dict(loaded.digests) == dict(fitted.digests)
    assert output(loaded, "the tumor grew at dinner") == output(fitted, "the tumor grew at dinner")
    with pytest.raises(ConfigError, match="other settings"):
        replace(SPEC, sensitive="cancer").load(tmp_path)
    with pytest.raises(ConfigError, match="other settings"):
        replace(SPEC, n_words=3).load(tmp_path)
    with pytest.raises(ConfigError, match=r"weights\.json"):
        SPEC.load(tmp_path / "absent")
    whole = json.loads((tmp_path / "weights.json").read_text())
    for broken in (
        "{",
        "[]",
        json.dumps({**whole, "weights": ["tumor"]}),
        json.dumps({**whole, "weights": {"a": None}}),
    ):
        (tmp_path / "weights.json").write_text(broken)
        with pytest.raises(ConfigError, match="cut short or edited"):
            SPEC.load(tmp_path)
    (tmp_path / "weights.json").write_text(json.dumps({**whole, "weights": {"a": math.nan}}))
    with pytest.raises(ConfigError, match="edited"):
        SPEC.load(tmp_path)


@pytest.mark.parametrize(
    ("spec", "public", "match"),
    [
        (SPEC, [], "two labels, found 0"),
        (SPEC, PUBLIC[:3], "two labels, found 1"),
        (SPEC, [*PUBLIC, Record("6", "more", "third")], "two labels, found 3"),
        (SPEC, [Record("0", "no label")], "two labels, found 0"),
        (replace(SPEC, sensitive="flu"), PUBLIC, "sensitive='flu'"),
        (replace(SPEC, sensitive="cancer"), PUBLIC[:3], "sensitive='cancer'"),
        (SPEC, [Record("0", "", "x"), Record("1", " \n", "y")], "words"),
        (SPEC, [*PUBLIC, Record("6", "\ud800", "other")], "record 7"),
    ],
)
def test_public_texts_that_will_not_do_are_refused(spec, public, match) -> None:
    with pytest.raises((ConfigError, DataError), match=match):
        spec.fit(public=public)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"level": 2.0}, "level"), ({"n_words": 0}, "n_words"), ({"sensitive": 3}, "sensitive"), ({"runs": "x"}, "runs")],
)
def test_wrong_settings_are_refused(wrong, match) -> None:
    with pytest.raises(ConfigError, match=match):
        SmartRedaction(**{"level": 0.5, **wrong})


def test_only_so_many_words_are_known() -> None:
    few = SmartRedaction(0.5, n_words=2).fit(public=PUBLIC)
    assert sum(few.weight(word) != 0 for text in (*ILL, *WELL) for word in set(text.split())) <= 6
    assert len({word for text in (*ILL, *WELL) for word in text.split() if few.weight(word) != 0}) <= 2
