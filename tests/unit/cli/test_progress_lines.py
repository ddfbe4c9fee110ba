"""Lines of progress, where stderr is no terminal: when they come, and what they estimate."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dptext.cli import terminal
from dptext.cli.terminal import counted, counted_if_slow, waiting

Passes = Callable[[float], None]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Lets time pass."""
    now = [100.0]

    def later(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return later


def test_the_first_line_comes_after_two_seconds_and_later_ones_are_further_apart(
    passes: Passes, capsys: pytest.CaptureFixture[str]
) -> None:
    with counted("writing", "texts") as tell:
        for done in range(1, 51):
            passes(1)
            tell(done, 60)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "writing: 2 of 60 texts, 2 s",
        "writing: 4 of 60 texts, 4 s, about 56 s more",
        "writing: 6 of 60 texts, 6 s, about 54 s more",
        "writing: 9 of 60 texts, 9 s, about 51 s more",
        "writing: 14 of 60 texts, 14 s, about 46 s more",
        "writing: 21 of 60 texts, 21 s, about 39 s more",
        "writing: 31 of 60 texts, 31 s, about 29 s more",
        "writing: 41 of 60 texts, 41 s, about 19 s more",
    ]


def test_what_comes_before_the_first_count_is_not_counted_in_an_estimate(
    passes: Passes, capsys: pytest.CaptureFixture[str]
) -> None:
    with counted("fitting") as tell:
        passes(30)  # a model is loaded
        tell(0, 100, "drafts")
        passes(10)
        tell(10, 100, "drafts")
        passes(10)
        tell(50, 100, "drafts")
        passes(10)
        tell(25, 100, "texts")  # a new count
        passes(10)
        tell(75, 100, "texts")
    assert capsys.readouterr().err.splitlines() == [
        "fitting: 0 of 100 drafts, 30 s",
        "fitting: 10 of 100 drafts, 40 s",
        "fitting: 50 of 100 drafts, 50 s, about 12 s more",
        "fitting: 25 of 100 texts, 60 s",
        "fitting: 75 of 100 texts, 70 s, about 5 s more",
    ]


def test_an_estimate_waits_for_a_twentieth_or_for_twenty_seconds(
    passes: Passes, capsys: pytest.CaptureFixture[str]
) -> None:
    """After 21 s, in which a model was loaded, and 10 of 1,512 texts it was said that 3096 s were left: 44 were."""
    with counted("writing", "texts") as tell:
        tell(0, 1_512)  # nothing is done, and yet something is shown
        for done, seconds in ((4, 20), (10, 1), (40, 11), (300, 10), (310, 30)):
            passes(seconds)
            tell(done, 1_512)
    with counted("slow", "texts") as tell:
        for done in (1, 2, 3):
            tell(done, 1_000)
            passes(19)
    assert capsys.readouterr().err.splitlines() == [
        "writing: 0 of 1,512 texts, 0 s",
        "writing: 4 of 1,512 texts, 20 s",
        "writing: 40 of 1,512 texts, 32 s",
        "writing: 300 of 1,512 texts, 42 s, about 90 s more",
        "writing: 310 of 1,512 texts, 72 s, about 204 s more",
        "slow: 2 of 1,000 texts, 19 s",
        "slow: 3 of 1,000 texts, 38 s, about 18943 s more",
    ]


def test_what_is_soon_done_shows_no_count(passes: Passes, capsys: pytest.CaptureFixture[str]) -> None:
    with counted_if_slow("reading", "rows") as tell:
        for done in (10, 20, 30):
            passes(0.6)
            tell(done, None)
    assert capsys.readouterr().err == ""
    with counted_if_slow("reading", "rows") as tell:
        for done in (10, 20, 30):
            passes(1.5)
            tell(done, None)
    assert capsys.readouterr().err == "reading: 20 rows, 3 s\n"


def test_what_has_no_count_is_named_once_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting("Computing."):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(terminal, "FIRST_LINE_SECONDS", 0.01)
    with waiting("Computing."):
        time.sleep(0.3)
    assert capsys.readouterr().err == "Computing.\n"


def test_where_no_thread_can_be_started_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", none)
    done = list[int]()
    with waiting("Computing."):
        done.append(1)
    assert done == [1]
