"""Mounts that end with their process, where a user may make some."""

import functools
import subprocess
from pathlib import Path

import pytest

_OWN = ("unshare", "--mount", "--propagation", "private", "sh", "-c")


@functools.cache
def _allowed() -> bool:
    try:
        return subprocess.run([*_OWN, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:  # no Linux
        return False


def with_mounts(mounts: str, *command: object, cwd: Path, env: dict[str, str] | None = None, seconds: float = 60):
    """Run a command where lines of shell have mounted something first; skips where nobody may."""
    if not _allowed():
        pytest.skip("nobody may mount here")
    script = f'set -e; {mounts}; exec "$@"'
    words = [*_OWN, script, "sh", *map(str, command)]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=seconds, check=False)
