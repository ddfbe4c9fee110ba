"""Lines of progress, where stderr is no terminal: when they come, and what they estimate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dptext.cli import terminal
from dptext.cli.terminal import counted

Passes = Callable[[float], None]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Lets time pass."""
    now = [100.0]

    def later(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return later


def test_the_first_line_comes_after_two_seconds_and_others_every_ten(
    passes: Passes, capsys: pytest.CaptureFixture[str]
) -> None:
    with counted("writing", "texts") as tell:
        for done in range(1, 31):
            passes(1)
            tell(done, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "writing: 2 of 40 texts, 2 s, about 38 s more",
        "writing: 12 of 40 texts, 12 s, about 28 s more",
        "writing: 22 of 40 texts, 22 s, about 18 s more",
    ]


def test_what_comes_before_the_first_count_is_not_counted_in_an_estimate(
    passes: Passes, capsys: pytest.CaptureFixture[str]
) -> None:
    with counted("fitting") as tell:
        passes(30)  # a model is loaded
        tell(0, 100, "drafts")
        passes(10)
        tell(50, 100, "drafts")
        passes(10)
        tell(25, 100, "texts")  # a new count, since the last of the other
        passes(10)
        tell(75, 100, "texts")
    assert capsys.readouterr().err.splitlines() == [
        "fitting: 0 of 100 drafts, 30 s",
        "fitting: 50 of 100 drafts, 40 s, about 10 s more",
        "fitting: 25 of 100 texts, 50 s, about 30 s more",
        "fitting: 75 of 100 texts, 60 s, about 7 s more",
    ]
