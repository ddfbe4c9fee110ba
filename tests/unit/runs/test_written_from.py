"""What certificates, their explanation and the legal page say of the writer of texts from a summary."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import rome
from dptext.errors import ConfigError
from dptext.runs.certificate import Certificate
from dptext.runs.writing import OUR_WRITERS
from dptext.runs.written_from import OWN_WRITERS, said_of_writer
from dptext.synthesis.asking import MOVED_BY
from dptext.synthesis.from_drafts import PACKAGE_IS_PUBLIC
from dptext.synthesis.from_endpoint import SERVER_IS_PUBLIC, FromEndpoint

SUMMARY = "5" * 64
SERVER: dict[str, Any] = {
    "summary": SUMMARY, "writer": "endpoint", "model": "tiny", "base": "http://127.0.0.1:8080", "remote": False,
    "steered": True, "assumptions": [SERVER_IS_PUBLIC], "moved_by": "bias", "biases_taken": 300,
}  # fmt: skip
PACKAGE: dict[str, Any] = {
    "summary": SUMMARY, "writer": "echo", "steered": True, "assumptions": [PACKAGE_IS_PUBLIC],
}  # fmt: skip


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    found: Certificate = rome.summary().certificate
    return found


def test_our_writers_are_known() -> None:
    assert tuple(OUR_WRITERS) == OWN_WRITERS


def test_of_a_server_is_said_what_nobody_can_check() -> None:
    said = said_of_writer(SERVER)
    assert (
        "by endpoint with the model 'tiny' of the server at http://127.0.0.1:8080 (its weights were not checked" in said
    )
    assert "Nobody can check what the model was trained on, whether the server looks things up in private texts" in said
    assert "whether it keeps or passes on what it is asked." in said
    assert said.endswith(f"It is assumed that {SERVER_IS_PUBLIC}.")
    assert "were sent" not in said
    assert "noisy words were sent to that server." in said_of_writer({**SERVER, "remote": True})
    still = said_of_writer({**SERVER, "remote": True, "steered": False})
    assert "Public examples, names of labels and how many texts each should have were sent to that server." in still
    assert "with the model None" in said_of_writer({"writer": "endpoint", "summary": SUMMARY})


@pytest.mark.parametrize("by", [*MOVED_BY])
def test_of_a_server_is_said_what_moved_it(by: str) -> None:
    most = 0 if by == "words" else 300
    said = said_of_writer({**SERVER, "moved_by": by, "biases_taken": most})
    assert f"What moved the model: {MOVED_BY[by]}{', at most 300 in a request' * bool(most)}." in said
    assert "What moved" not in said_of_writer({**SERVER, "moved_by": "magic"})


def test_of_a_package_is_said_that_its_code_was_not_checked() -> None:
    said = said_of_writer(PACKAGE)
    assert "were written by echo from the summary" in said
    assert "echo is a writer of a package, whose code was not checked: it got public examples, names of labels" in said
    assert "and may have sent them elsewhere." in said
    assert said.endswith(f"It is assumed that {PACKAGE_IS_PUBLIC}.")
    assert "sha256 of its weights, as the package says, 777777777777..." in said_of_writer(
        {**PACKAGE, "weights": "7" * 64}
    )
    assert "noisy" not in said_of_writer({**PACKAGE, "steered": False})


@pytest.mark.parametrize("writer", ["pool", "builtin", "model"])
def test_of_other_writers_nothing_is_added(writer: str) -> None:
    said = said_of_writer({"writer": writer, "summary": SUMMARY})
    assert said == (
        f"The texts were written by {writer} from the summary with sha256 555555555555..., which has this guarantee; "
        "writing reads no private text and costs nothing."
    )


@pytest.mark.parametrize("derived", [SERVER, PACKAGE])
def test_a_certificate_holds_it_and_the_explanation_says_it(derived: dict[str, Any], certificate: Certificate) -> None:
    made = replace(certificate, derived=derived)
    again = Certificate.from_json(made.to_json())
    assert dict(again.derived) == derived
    assert said_of_writer(derived) in again.explain()
    assert again.assumed_of_writer == tuple(derived["assumptions"])
    assert certificate.assumed_of_writer == ()


@pytest.mark.parametrize(
    "wrong", [{"assumptions": "none"}, {"assumptions": [1]}, {"moved_by": 1}, {"biases_taken": "x"}]
)
def test_a_certificate_with_other_types_is_refused(wrong: dict[str, Any], certificate: Certificate) -> None:
    data = json.loads(replace(certificate, derived=SERVER).to_json())
    data["derived"] |= wrong
    with pytest.raises(ConfigError, match="not a certificate that dptext wrote"):
        Certificate.from_json(json.dumps(data))


def test_settings_say_what_is_assumed() -> None:
    said = FromEndpoint(base="http://127.0.0.1/v1", model="m").said()
    assert said["assumptions"] == [SERVER_IS_PUBLIC]
