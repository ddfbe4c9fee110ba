"""Ctrl-C and SIGTERM: a command that is stopped says what lies there and how to go on, with an exit code of its own."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

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
