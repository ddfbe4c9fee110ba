"""Progress on stderr: a bar on a terminal, now and then a line elsewhere; and what a command says that is stopped."""

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

from dptext.cli.terminal import bars, escaped

LINE_EVERY_SECONDS = 10.0


class Tell(Protocol):
    """Shows how far a command is."""

    def __call__(self, done: int, total: int | None, what: str = ..., /) -> None:
        """So much is done of so much, or of an unknown total, in this unit: "texts"."""


def say(line: str) -> None:
    """One line on stderr, whatever names are in it."""
    print(line.replace("\n", "\\n"), file=sys.stderr, flush=True)


@contextlib.contextmanager
def counted(title: str, unit: str = "", *, every: float = LINE_EVERY_SECONDS) -> Iterator[Tell]:
    """A bar, or a line every so many seconds (with 0: at each call), of what is counted unless a call says so."""
    if not sys.stderr.isatty():
        yield _lines(title, unit, every)
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[what]}", markup=False),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=bars()) as bar:
        task = bar.add_task(escaped(title), total=None, what=unit)

        def tell(done: int, total: int | None, what: str = unit, /) -> None:
            bar.update(task, completed=done, total=total, what=what)

        yield tell


def _lines(title: str, unit: str, every: float) -> Tell:
    began = phase = last = time.monotonic()
    before = 0

    def tell(done: int, total: int | None, what: str = unit, /) -> None:
        nonlocal last, phase, before
        now = time.monotonic()
        if done < before:  # something else is counted now
            phase = now
        before = done
        if now - last >= every:
            last = now
            among = "" if total is None else f" of {total:,}"
            left = f", about {(now - phase) * (total - done) / done:.0f} s more" if total and 0 < done < total else ""
            say(f"{title}: {done:,}{among} {what}, {now - began:.0f} s{left}")

    return tell


_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopped(BaseException):
    """The command was asked to stop; `advice` says what to do now. No error: what catches errors lets it pass."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number  # 130 after Ctrl-C (SIGINT), 143 after SIGTERM
        self.cause = _SIGNALS[signal.Signals(number)]
        self.advice = "Run the command again."

    def __str__(self) -> str:
        return f"stopped by {self.cause}. {self.advice}"


def listen() -> None:
    """Raise `Stopped` at the first signal; the second one ends the process as it is. An ignored one stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    raise Stopped(number)


@contextlib.contextmanager
def advising(advice: Callable[[], str]) -> Iterator[None]:
    """Say this where the block is stopped."""
    try:
        yield
    except Stopped as stopped:
        stopped.advice = advice()
        raise
