"""Loaded by every process of a test of kills: some end on the spot at a step of publishing a part, as by kill -9.

The folder KILLS holds a file for each kill that is still to come, named by its step. Whoever takes one away dies.
"""

import os
import random
import signal
from pathlib import Path

_FOLDER = os.environ.get("DPTEXT_TEST_KILLS")


def _maybe(step: str) -> None:
    if random.random() > 0.3:
        return
    for each in Path(_FOLDER).glob(f"{step}-*"):
        try:
            each.unlink()
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


if _FOLDER:
    _link = os.link

    def link(source: str, target: str) -> None:
        """A part is published by `os.link`."""
        if "part-" not in os.fspath(target):
            _link(source, target)
            return
        _maybe("before")  # it has its temporary name
        _link(source, target)
        _maybe("after")  # it is visible, and nobody was told

    os.link = link
