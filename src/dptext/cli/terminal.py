"""The terminal: what is printed shows as text and controls nothing, and a reader that has left ends no run."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, TextIO, cast

from dptext.errors import ConfigError

if TYPE_CHECKING:  # slow to load
    from rich.console import Console

#: Control characters but tab and line end, and what turns the direction of text round or ends a line unseen.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    r"""The text with control characters shown, as `\x1b`: names and certificates of others must not steer a terminal.

    Example:
        >>> print(escaped("a\x1b[31mb\u202ec"))
        a\x1b[31mb\u202ec
    """
    return _CONTROLS.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Printed(io.TextIOBase):
    """stdout or stderr, for prose.

    Control characters are escaped, and so is what the encoding does not have. Where the reader has left (as `head`
    does), what else is printed is lost and the command goes on.
    """

    def __init__(self, stream: TextIO, *, essential: bool, prose: bool = True) -> None:
        """Print to the stream. Where it is essential, a refusal of the system (as on a full disk) is an error."""
        self.stream = stream
        self._essential, self._prose = essential, prose

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute there
        """The encoding of the stream."""
        return self.stream.encoding

    def fileno(self) -> int:
        """The descriptor of the stream."""
        return self.stream.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.stream.isatty()

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, text: str, /) -> int:
        """Print the text."""
        if not isinstance(text, str):
            raise TypeError("Expected text.")
        self._try(self.stream.write, escaped(text) if self._prose else text)
        return len(text)

    def flush(self) -> None:
        """Hand all that was printed to the system."""
        self._try(self.stream.flush)

    def _try(self, act: Callable[..., object], *text: str) -> None:
        """After a fault of the stream, print to nowhere."""
        try:
            act(*text)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            if self._essential and not isinstance(error, BrokenPipeError):
                raise ConfigError(
                    f"Cannot print the result: {error.strerror}. Whatever files were written are whole."
                ) from None


def open_streams() -> None:
    """Put `Printed` in the place of stdout and stderr; one that is closed leads nowhere."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, so this one. Else the next file that is opened would get it, and be
            # written to by whatever prints.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _printed(sys.stdout, essential=True)
    sys.stderr = _printed(sys.stderr, essential=False)


def _printed(stream: TextIO | None, *, essential: bool) -> TextIO:
    if isinstance(stream, Printed):
        return stream
    if stream is None:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # as long as the process lives
    elif isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return cast("TextIO", Printed(stream, essential=essential))  # it has what print needs


def plain_console() -> Console:
    """A console on stdout, without the escape sequences of styles, which would be shown as text."""
    from rich.console import Console

    return Console(file=sys.stdout, color_system=None, markup=False, emoji=False, highlight=False)


def bars() -> Console:
    """A console on stderr that moves the cursor, for progress; what is printed meanwhile is escaped as ever."""
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
