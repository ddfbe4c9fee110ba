"""The terminal: progress, and text without control characters. A reader that closes the pipe does not end the run.

Progress on stderr is a bar on a terminal, and an occasional line elsewhere. A stopped command says what to do.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import IO, TYPE_CHECKING, Protocol, TextIO, cast

from dptext.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


#: Control characters but tab and line end; characters that reverse the direction of text or end a line invisibly.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    r"""Return the text with control characters as `\x1b`: names and certificates of others must not steer a terminal.

    Example:
        >>> print(escaped("a\x1b[31mb\u202ec"))
        a\x1b[31mb\u202ec
    """
    return _CONTROLS.sub(_code, text)


def _code(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Printed(io.TextIOBase):
    """stdout or stderr, for prose.

    Control characters are escaped, and so are characters that the encoding lacks. If the reader closes the pipe, as
    `head` does, further output is lost and the command goes on.
    """

    def __init__(self, stream: TextIO, *, essential: bool, prose: bool = True) -> None:
        """Print to `stream`. If it is `essential`, a refusal of the system, as on a full disk, is an error."""
        self.stream = stream
        self._essential, self._prose = essential, prose

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute in the base class
        return self.stream.encoding

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError("Expected text.")
        self._try(self.stream.write, escaped(text) if self._prose else text)
        return len(text)

    def flush(self) -> None:
        self._try(self.stream.flush)

    def _try(self, act: Callable[..., object], *text: str) -> None:
        try:
            act(*text)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            if self._essential and not isinstance(error, BrokenPipeError):
                raise ConfigError(f"Cannot print the result: {error.strerror}. Written files are whole.") from None


def open_streams() -> None:
    """Replace stdout and stderr by `Printed`. Output to a closed stream is dropped; a closed stdin is empty."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The system takes the lowest free number, which is this one. Otherwise the next opened file would get the
            # number, and prints would write to this file.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:  # Python sets None if stdin is closed
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123  # as long as the process lives
    sys.stdout = _printed(sys.stdout, essential=True)
    sys.stderr = _printed(sys.stderr, essential=False)


def _printed(stream: TextIO | None, *, essential: bool) -> TextIO:
    if isinstance(stream, Printed):
        return stream
    if stream is None:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # as long as the process lives
    elif isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return cast("TextIO", Printed(stream, essential=essential))  # it has all methods that print needs


def plain_console() -> Console:
    """Return a console on stdout without the escape sequences of styles, which `Printed` would show as text."""
    from rich.console import Console

    return Console(file=sys.stdout, color_system=None, markup=False, emoji=False, highlight=False)


def bars() -> Console:
    """Return a console on stderr that moves the cursor, for progress. Text printed meanwhile is escaped as usual."""
    from rich.console import Console, ConsoleRenderable, RenderHook
    from rich.text import Text

    class Escaping(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [Text(escaped(each.plain)) if isinstance(each, Text) else each for each in renderables]

    stream = sys.stderr
    raw: object = Printed(stream.stream, essential=False, prose=False) if isinstance(stream, Printed) else stream
    found = Console(file=cast("IO[str]", raw))
    found.push_render_hook(Escaping())
    return found


DRAFTED = "texts and drafts"  #: what a language model writes, as progress counts it
LINE_EVERY_SECONDS = 10.0
FIRST_LINE_SECONDS = 2.0  # after which the first line comes, and the least time from one to the next
#: Share of all items, and seconds, one of which must have passed since the first items for an estimate of the rest.
_SHARE_KNOWN, _SECONDS_KNOWN = 0.05, 20.0


#: What is on the screen now, at most one: a second one would write its movements of the cursor as text above the first.
_shown: list[Progress] = []


class Tell(Protocol):
    def __call__(self, done: int, total: int | None, what: str = ..., /) -> None:
        """Tell that `done` of `total` (None if unknown) are done. `what` names the unit, such as "texts"."""


def say(line: str) -> None:
    """Print one line on stderr. Names in the line may hold any character."""
    escaped_ends = line.replace("\n", "\\n")
    sys.stderr.write(f"{escaped_ends}\n")  # at once, as other threads write, too
    sys.stderr.flush()


@contextlib.contextmanager
def counted(
    title: str, unit: str = "", *, every: float = LINE_EVERY_SECONDS, began: float | None = None
) -> Iterator[Tell]:
    """Show progress as a bar, or as lines: the first after two seconds, the last ones `every` seconds apart.

    From one to the next half of the time passes that has passed already. The first line comes at once if nothing is
    done yet, as a model may be loaded now. `every=0`: a line at each call.
    `unit` is the default unit. A count within another is a bar beneath it, as long as it lasts. The bar's clock starts
    at `began`, a time of `time.monotonic`; by default now.
    """
    if not sys.stderr.isatty():
        yield _lines(title, unit, every)
        return
    within = bool(_shown)
    with contextlib.nullcontext(_shown[0]) if within else _on_screen() as bar:
        task = bar.add_task(escaped(title), total=None, what=unit)
        if began is not None:
            bar.tasks[-1].start_time = began

        def tell(done: int, total: int | None, what: str = unit, /) -> None:
            bar.update(task, completed=done, total=total, what=what)

        try:
            yield tell
        finally:
            if within:
                bar.remove_task(task)


@contextlib.contextmanager
def counted_if_slow(title: str, unit: str) -> Iterator[Tell]:
    """Show progress as `counted` does, from the first call on that comes after two seconds."""
    if not sys.stderr.isatty():
        yield _lines(title, unit, LINE_EVERY_SECONDS)
        return
    began = time.monotonic()
    with contextlib.ExitStack() as shown:
        bar: Tell | None = None

        def tell(done: int, total: int | None, what: str = unit, /) -> None:
            nonlocal bar
            if time.monotonic() - began >= FIRST_LINE_SECONDS:
                bar = bar or shown.enter_context(counted(title, unit, began=began))
                bar(done, total, what)

        yield tell


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is done now, if it has no count and takes longer than two seconds."""
    late = threading.Timer(FIRST_LINE_SECONDS, say, [what])
    late.daemon = True
    try:
        with contextlib.suppress(RuntimeError):  # no thread can be started
            late.start()
        yield
    finally:
        late.cancel()


@contextlib.contextmanager
def _on_screen() -> Iterator[Progress]:
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
        _shown.append(bar)
        try:
            yield bar
        finally:
            _shown.clear()


def _lines(title: str, unit: str, every: float) -> Tell:
    began = time.monotonic()
    last, before = began, -1
    first: tuple[float, int] | None = None  # when the first items were done, and how many

    def tell(done: int, total: int | None, what: str = unit, /) -> None:
        nonlocal last, before, first
        now = time.monotonic()
        if done < before:  # a new count begins
            first = None
        if first is None and done:
            first = now, done
        begins, before = before < 0 and not done, done
        if begins or now - last >= min(every, max(FIRST_LINE_SECONDS, (last - began) / 2)):
            last = now
            among = "" if total is None else f" of {total:,}"
            left = "" if first is None or total is None else _left(now - first[0], done - first[1], total - done, total)
            say(f"{title}: {done:,}{among} {what}, {now - began:.0f} s{left}")

    return tell


def _left(seconds: float, gained: int, left: int, total: int) -> str:
    """Return an estimate of the time for what is left, or "" as long as little is known.

    `seconds` and `gained` are counted from the first items on: before them a model may be loaded.
    """
    known = gained > 0 and seconds > 0 and (gained >= _SHARE_KNOWN * total or seconds >= _SECONDS_KNOWN)
    return f", about {seconds * left / gained:.0f} s more" if known and left else ""


_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopped(BaseException):
    """The command was asked to stop. `advice` says what to do now. Handlers of Exception do not catch this class."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number  # 130 after Ctrl-C (SIGINT), 143 after SIGTERM
        self.cause = _SIGNALS[signal.Signals(number)]
        self.advice = "Run the command again."

    def __str__(self) -> str:
        return f"stopped by {self.cause}. {self.advice}"


def listen() -> None:
    """Raise `Stopped` at the first signal. The second signal ends the process at once. Ignored signals stay ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, _: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    raise Stopped(number)


@contextlib.contextmanager
def finishing() -> Iterator[None]:
    """Complete a short block even if a signal arrives. The first signal is dropped: after the block, the work is done.

    The second signal ends the process at once.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def wait(*_: object) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    for number, handler in before.items():
        if handler is _stop:
            signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def advising(advice: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except Stopped as stopped:
        stopped.advice = advice()
        raise
