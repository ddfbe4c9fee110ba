"""`dptext mechanisms NAME` of a package's class whose docstring says little."""

from __future__ import annotations

import json

import pytest

import kept_words
from dptext.cli.mechanisms import mechanisms
from dptext.registry import MECHANISMS


@pytest.mark.parametrize("doc", ["Keep the words.", None, "KeptWords(kind='kept_words')"])
def test_what_there_is_is_printed_and_what_lacks_is_named(
    doc: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(MECHANISMS.brought, *kept_words.BROUGHT)
    monkeypatch.setattr(kept_words.KeptWords, "__doc__", doc)
    mechanisms("kept_words")
    screen = " ".join(capsys.readouterr().out.split())
    head = "Keep the words." if doc == "Keep the words." else "its package does not say what it does."
    assert screen.startswith(f"kept_words: {head} It learns from nothing. With the settings of its example: ")
    assert "all words leave verbatim" in screen  # what its settings state
    assert "take it ." not in screen
    assert ": Example" not in screen
    assert "of KeptWords has no `Use:` or `Guarantee:`" in screen
    assert "docs/guides/add-a-mechanism.md" in screen
    mechanisms("kept_words", as_json=True)
    (told,) = json.loads(capsys.readouterr().out)
    assert told["summary"] == ("Keep the words." if doc == "Keep the words." else "")
    assert "all words leave verbatim" in told["guarantee"]


def test_the_example_of_a_mechanism_that_always_reads_labels_names_their_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, reads in (("label_only", True), ("candidates", False)):
        mechanisms(name)
        (example,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Example: "))
        assert ("--label-field LABEL" in example) == reads


def test_our_own_have_both_sections(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("candidates", "votes"):
        mechanisms(name)
        assert "has no `" not in capsys.readouterr().out
