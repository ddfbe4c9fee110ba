"""PII redaction: what a tagger finds is masked, whatever the tagger; the errors where presidio is absent are real."""

import importlib.util
import math
import re
import sys
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError, MissingExtraError, NoGuaranteeError
from dptext.privacy.events import NoEvent
from dptext.privacy.guarantee import Basis, Unit
from dptext.runs.models import load_model, save_model
from dptext.runs.results import privatize
from dptext.sampling.randomness import secure, seeded
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext_lab.redaction.pii import PiiRedaction, PiiRedactionMechanism, _overlaps, model_version

without_presidio = pytest.mark.skipif(
    importlib.util.find_spec("presidio_analyzer") is not None, reason="presidio is installed"
)


@dataclass(frozen=True)
class Piece:
    start: int
    end: int


class Capitals:
    """Takes words with a capital for names, digits for numbers: what presidio is asked for, without presidio."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str] | None, float | None]] = []

    def analyze(self, text: str, language: str, entities=None, *, score_threshold=None) -> list[Piece]:
        self.asked.append((language, entities, score_threshold))
        return [Piece(*found.span()) for found in re.finditer(r"[A-Z]\w+(?: [A-Z]\w+)*|\d[\d ]+", text)]


def made(**changes) -> PiiRedactionMechanism:
    return PiiRedactionMechanism(replace(PiiRedaction(), **changes), Capitals(), "stand-in 1")


def output(mechanism, text: str) -> str:
    return mechanism.privatize([Record("0", text)], secure())[0].output


def test_no_guarantee_and_it_must_be_asked_for() -> None:
    spec = PiiRedaction()
    for unit in (None, Unit.TOKEN, Unit.DOCUMENT):
        found = spec.guarantee(unit)
        assert (found.basis, found.epsilon, found.reason) == (Basis.NONE, math.inf, spec.reason)
    assert isinstance(spec.events(Unit.DOCUMENT)[0], NoEvent)
    assert "every word that is not masked" in spec.guarantee().reveals
    with pytest.raises(ConfigError, match="guarantee to calibrate"):
        spec.calibrate(1.0)
    with pytest.raises(NoGuaranteeError):
        list(privatize([Record("0", "x")], made()))
    assert len(list(privatize([Record("0", "x")], made(), without_guarantee=True))) == 1


def test_what_is_found_is_masked_and_the_rest_leaves() -> None:
    text = "we met Maria Lopez's son,\n\ncall 030 1234 at noon"
    assert output(made(), text) == "we met [MASK] [MASK] 's son ,\n\ncall [MASK] [MASK] at noon"
    assert output(made(runs="merge", mask="#"), text) == "we met # 's son ,\n\ncall # at noon"
    assert output(made(), "maria told us") == "maria told us"  # overlooked: it leaves
    assert output(made(), "") == ""
    assert output(made(), " \n ") == "\n"


def test_the_tagger_is_asked_as_the_settings_say() -> None:
    mechanism = made(entities=("PERSON",), threshold=0.4)
    output(mechanism, "Maria")
    output(mechanism, " ")  # nothing to ask about
    assert mechanism._analyzer.asked == [("en", ["PERSON"], 0.4)]
    everything = made()
    output(everything, "Maria")
    assert everything._analyzer.asked == [("en", None, 0.0)]


def test_a_token_of_which_a_part_was_found_is_masked() -> None:
    text = "ab cd\tef"
    tokens = ["ab", "cd", "ef"]
    assert _overlaps(tokens, text, []) == [False, False, False]
    assert _overlaps(tokens, text, [Piece(1, 4)]) == [True, True, False]
    assert _overlaps(tokens, text, [Piece(2, 3), Piece(5, 6)]) == [False, False, False]  # whitespace alone
    assert _overlaps(tokens, text, [Piece(-5, 1), Piece(7, 99)]) == [True, False, True]
    assert _overlaps(tokens, text, [Piece(4, 3)]) == [False, False, False]


@given(st.text(max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_every_character_that_was_found_is_gone(text: str, start: int, end: int) -> None:
    tokens = [token for line in tokenize(text) for token in line]
    hidden = _overlaps(tokens, text, [Piece(start, end)])
    before = "".join(text[:start].split())
    inside = "".join(text[start:end].split())
    place = 0
    for token, masks in zip(tokens, hidden, strict=True):
        reached = place + len(token)
        assert masks == (place < len(before) + len(inside) and reached > len(before) and bool(inside))
        place = reached


def test_half_a_surrogate_pair_is_tagged_around() -> None:
    assert output(made(), "Maria \ud800 x") == "[MASK] \ud800 x"


DRAWN = ("distribution", "guarantee")  # of which nothing is drawn here


@pytest.mark.parametrize("drawn", [False, pytest.param(True, marks=pytest.mark.slow)])  # "batches" compares releases
def test_it_keeps_the_contract_with_a_tagger_of_ours(drawn: bool) -> None:
    class Quiet(Capitals):
        def analyze(self, *arguments, **named) -> list[Piece]:
            self.asked.clear()
            return super().analyze(*arguments, **named)

    mechanism = PiiRedactionMechanism(PiiRedaction.tiny()[0], Quiet(), "stand-in 1")
    checks = [each for each in CHECKS if each not in ("fit", "model") and (each in DRAWN) == drawn]  # two load a tagger
    assert check_mechanism(mechanism, checks=checks) == tuple(checks)


def test_the_digest_names_the_versions() -> None:
    other = PiiRedactionMechanism(PiiRedaction(), Capitals(), "stand-in 2")
    assert made().digests["tagger"] != other.digests["tagger"]
    assert len(made().digests["tagger"]) == 64


@without_presidio
def test_without_presidio_the_line_to_install_it_is_given(tmp_path) -> None:
    spec = PiiRedaction()
    with pytest.raises(MissingExtraError, match=r"pip install --find-links dist 'dptext-lab\[pii\]'"):
        spec.fit()
    save_model(made(), tmp_path / "model")
    with pytest.raises(MissingExtraError, match=r"dptext-lab\[pii\]"):
        load_model(tmp_path / "model")
    assert "presidio_analyzer" not in sys.modules


def test_an_absent_model_is_a_plain_error_and_nothing_is_downloaded() -> None:
    with pytest.raises(ConfigError, match=r"model='en_none_such'.*python -m spacy download en_none_such"):
        model_version("en_none_such")
    assert model_version("numpy")


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"model": ""}, "model"),
        ({"entities": "PERSON"}, "entities"),
        ({"entities": ("",)}, "entities"),
        ({"threshold": 1.5}, "threshold"),
        ({"mask": " "}, "mask"),
        ({"runs": "x"}, "runs"),
    ],
)
def test_wrong_settings_are_refused(wrong, match) -> None:
    with pytest.raises(ConfigError, match=match):
        PiiRedaction(**wrong)


def test_a_list_of_entities_becomes_a_tuple_and_batches_change_nothing() -> None:
    assert PiiRedaction(entities=["PERSON"]).entities == ("PERSON",)  # type: ignore[arg-type]
    batch = [Record(str(i), text, kept={"n": i}) for i, text in enumerate(["Ann", "", "x Bo 12"])]
    together = made().privatize(batch, seeded(0))
    assert [made().privatize([record], seeded(0))[0] for record in batch] == together
    assert [release.output for release in together] == ["[MASK]", "", "x [MASK] [MASK]"]
