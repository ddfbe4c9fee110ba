"""What a block makes visible to others: files that are opened for writing, processes, sockets, bytes written.

An audit hook of Python cannot be taken away, so it is set once and looks only while a block is watched.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

_watching: list[list[str]] = []


#: Other events by which Python makes data visible to others.
_OUTWARD: Final = (
    *("sqlite3.connect", "os.mkdir", "os.rename", "os.link", "os.symlink", "os.system", "os.exec", "os.fork"),
    *("os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "socket.sendto", "socket.sendmsg"),
    *("shutil.copyfile", "syslog.syslog"),
)


@cache
def _install() -> None:

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not _watching:
            return
        if event == "open":
            path, mode, flags = arguments
            if set(mode or "") & set("wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                _watching[-1].append(str(path))
        elif event in _OUTWARD:
            _watching[-1].append(event)

    sys.addaudithook(hook)


@contextlib.contextmanager
def writes() -> Iterator[list[str]]:
    """Collect the files that are opened for writing, and other outward events, also by code that is not Python's."""
    _install()
    _watching.append([])
    before = _bytes_written()
    try:
        yield _watching[-1]
        if _bytes_written() != before:
            _watching[-1].append("bytes")
    finally:
        _watching.pop()


def _bytes_written() -> int:
    try:
        counted = Path("/proc/thread-self/io").read_bytes()
    except OSError:
        return 0
    return int(counted.split(b"wchar: ")[1].split()[0])
