"""A mechanism of somebody else whose `fit` does not take what its traits say."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from dptext.cli import terminal
from dptext.cli.chosen import fitted_on
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, OnProgress, Traits
from dptext.mechanisms.candidates import rankers
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.text.records import Record


@dataclass(frozen=True)
class Silent:
    kind = "silent"
    traits = Traits(trains=True)

    def fit(self, *, public: object = (), seed: int | None = None) -> None:
        raise AssertionError("nobody gets here")


@dataclass(frozen=True)
class Broken(Silent):
    def fit(self, *, public: object = (), seed: int | None = None, on_progress: object = None) -> None:
        raise TypeError("of its own")


def test_an_argument_that_the_traits_promise_and_the_fit_lacks_is_a_named_error() -> None:
    with pytest.raises(ConfigError, match="fit of silent to take public, seed, on_progress, as its traits say"):
        fitted_on(Silent())


def test_an_error_within_the_fit_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="of its own"):
        fitted_on(Broken())


@dataclass(frozen=True)
class Telling(Silent):
    def fit(self, *, on_progress: OnProgress, public: object = (), seed: int | None = None) -> None:
        for unit, total in (("texts", 200), ("words", 60)):
            for done in range(1, total + 1):
                on_progress(FitProgress(done, total, unit))


def test_a_fit_says_how_far_it_is_and_how_long_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines come further and further apart, up to ten seconds: here a twentieth takes three."""
    seconds = itertools.count(step=3)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(seconds))
    fitted_on(Telling())
    lines = capsys.readouterr().err.splitlines()
    told = (("texts", 200, (1, 2, 3, 5, 8, 12, 16, 20)), ("words", 60, (4, 8, 12, 16, 20)))
    assert [line.split(",")[0] for line in lines] == [
        f"fitting: {n * total // 20} of {total} {unit}" for unit, total, found in told for n in found
    ]
    last = [line.split(",")[0] for line in lines if not line.endswith(" s more")]
    assert last == ["fitting: 10 of 200 texts", "fitting: 200 of 200 texts", "fitting: 60 of 60 words"]


def test_a_quick_fit_fills_no_file_with_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal.time, "monotonic", lambda: 100.0)
    fitted_on(Telling())
    assert capsys.readouterr().err == ""


class Reader:
    """In the place of a sentence encoder."""

    name, dim, digest = "reader", 3, "0" * 64

    def embed(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None = None) -> np.ndarray:
        distinct = sorted(set(texts))
        for done in range(1, len(distinct) + 1):
            if on_progress is not None:
                on_progress(done)
        return np.array([[len(text), text.count("a"), 1.0] for text in texts]) / 99


def test_candidates_tell_how_many_texts_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankers, "load_encoder", lambda *_, **__: Reader())
    public = [Record(str(i), f"A text. And {'a' * i} more of {i}.") for i in range(300)]
    told: list[FitProgress] = []
    spec = Candidates(epsilon=4.0)
    fitted = spec.fit(public=public, seed=1, on_progress=told.append)
    assert spec.traits.trains
    assert fitted.digests == spec.fit(public=public, seed=1).digests
    assert [at.done for at in told] == sorted(at.done for at in told)
    assert told[-1] == FitProgress(300, 300, "texts embedded")
    assert len({at.done for at in told}) > 100
    assert not Candidates(epsilon=4.0, ranker="tfidf").traits.trains
