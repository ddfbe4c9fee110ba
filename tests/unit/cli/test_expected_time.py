"""The estimate of a private phase, by public texts alone."""

from __future__ import annotations

import time

import pytest

from dptext import sample_records
from dptext.cli import corpus_runs
from dptext.runs.specs import synthesis_from_settings
from dptext.synthesis.space import PublicSpace
from dptext.synthesis.summary import FittedSummary

POOL = [each.text for each in sample_records(200, seed=2)]


def fitted(**more: object) -> FittedSummary:
    own = {"kind": "summary", "labels": ["a", "b"], "encoder": "glove", "about": 5_000, **more}
    found = synthesis_from_settings(own).fit(public=POOL)
    assert isinstance(found, FittedSummary)
    return found


def test_the_estimate_is_the_time_of_some_public_texts_times_the_public_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reading, which may compile, does not count."""
    ready, read = fitted(), list[int]()

    def slow(space: PublicSpace, texts: list[str]) -> None:
        read.append(len(texts))
        end = time.process_time() + 0.001 * len(texts) * (5 if len(read) == 1 else 1)
        while time.process_time() < end:
            pass

    monkeypatch.setattr(PublicSpace, "features", slow)
    assert 5 <= corpus_runs._expected(ready) < 50
    assert len(read) == 2
    assert 64 <= read[0] <= 128


def test_there_is_none_for_authors_or_without_points() -> None:
    assert corpus_runs._expected(fitted(unit="author")) == 0
    assert corpus_runs._expected(fitted(labels=[], columns=["x: a|b"], text_follows=["none"])) == 0
