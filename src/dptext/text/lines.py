"""Lines of a stream, and faults as values.

Readers hand faults on as values (`Bad`, `Broken`), because exceptions of the parsers carry what they read:
``json.JSONDecodeError`` the whole document, ``UnicodeDecodeError`` the bytes.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_DRAIN: Final = 2**16
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that cannot be read; the next one can."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """Neither this record nor any after it can be read."""

    reason: str


RawLine = bytes | Bad | Broken
Row = Mapping[str, object] | Bad | Broken


def lines_of(stream: io.BufferedIOBase, limit: int) -> Iterator[RawLine]:
    """The lines of a stream with their ends, without a byte order mark; nothing follows a `Broken`."""
    first = True
    while True:
        line = _line(stream, limit)
        if isinstance(line, bytes):
            if first:
                line = line.removeprefix(_BOM)
            if not line:
                return
        first = False
        yield line
        if isinstance(line, Broken):
            return


def _line(stream: io.BufferedIOBase, limit: int) -> RawLine:
    """The next line with its end; no bytes at the end of the stream. A line longer than `limit` bytes is dropped."""
    try:
        line = stream.readline(limit)
        if len(line) < limit or line.endswith(b"\n"):
            return line
        while (rest := stream.readline(_DRAIN)) and not rest.endswith(b"\n"):
            pass
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return Broken("the gzip data is truncated or damaged")
    except OSError as error:
        return Broken(f"the file cannot be read on ({error.strerror})")
    return Bad(f"the line is longer than {limit} bytes")
