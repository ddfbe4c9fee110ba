"""A model writes in a fresh process where private text was read: how that begins, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

import tiny_language
from commands import dptext

pytest.importorskip("numba")

#: A script without a guard, as users write them: a process that ran it again would read and draw again.
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import dptext as dp
from dptext.synthesis import desks, from_model

with Path("ran").open("a") as file:
    file.write("once\\n")
from_model.load_language_model = None  # of this process, which therefore cannot write
texts = desks.Desks.texts

def stopped(self, *_):
    Path("writer").write_text(str(self._pool.submit(os.getpid).result()))
    self._pool.submit(time.sleep, 60)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyboardInterrupt

if sys.argv[2] != "write":
    desks.Desks.texts = stopped
found = dp.synthesize(
    dp.sample_records(60, seed=1), dp.sample_records(30, seed=3), kind="steering", label="label",
    labels=["travel", "money"], model=sys.argv[1], about=60, tokens=8, size=40, options=40, examples=0, marks=3,
    vocabulary=30, drafts=2, matches=1, encoder="glove", seed=1,
)
print(*found.sentences)
"""


def ran(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script with a tiny model."""
    script = folder / "script.py"
    script.write_text(SCRIPT, "utf-8")
    model = tiny_language.saved(folder / "model", tiny_language.weights(), apart=True)
    done = dptext(model, how, script=script, cwd=folder)
    assert (folder / "ran").read_text() == "once\n", "a process ran the script again"
    return done


def test_a_script_without_a_guard_is_run_once_and_a_fresh_process_writes(tmp_path: Path) -> None:
    done = ran("write", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Copies of public texts: 0 of " in done.stdout


def test_what_is_interrupted_does_not_wait_for_what_is_being_written(tmp_path: Path) -> None:
    began = time.monotonic()
    done = ran("interrupt", tmp_path)
    assert "KeyboardInterrupt" in done.stderr
    assert "error.unwritten.write() writes from them" in done.stderr
    assert time.monotonic() - began < 50  # the process was asleep for 60 s


def test_a_writer_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    assert ran("kill", tmp_path).returncode == -signal.SIGKILL
    status = Path("/proc") / (tmp_path / "writer").read_text() / "stat"
    for _ in range(400):
        try:
            if status.read_text("ascii").rpartition(")")[2].split()[0] == "Z":
                return  # it has ended, and nobody has asked for its exit code
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.05)
    pytest.fail("the process that writes is still there")
