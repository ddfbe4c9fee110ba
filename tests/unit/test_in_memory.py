"""`make test` writes to memory where there is room: the command's end and output are its own, and nothing stays."""

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "in_memory.sh"


def ran(folder: Path, line: str, *, free: int | None) -> subprocess.CompletedProcess[str]:
    """Runs the line beside a `df` that knows of so many free kilobytes; None for no such disk."""
    (folder / "bin").mkdir()
    known = "exit 1" if free is None else f"echo; echo disk 9000000 0 {free} 0% /"
    (folder / "bin" / "df").write_text(f"#!/bin/sh\n{known}\n", "utf-8")
    (folder / "bin" / "df").chmod(0o755)
    (folder / "memory").mkdir()
    env = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "MEMORY": str(folder / "memory"),
        "TMPDIR": "as it was",
    }
    return subprocess.run(["sh", SCRIPT, "sh", "-c", line], env=env, capture_output=True, text=True, check=False)


def test_the_folder_lasts_as_long_as_the_command(tmp_path: Path) -> None:
    done = ran(tmp_path, ': >"$TMPDIR/left" && echo "$TMPDIR" && exit 3', free=4_000_000)
    assert (done.returncode, done.stderr) == (3, "")
    assert Path(done.stdout.strip()).parent == tmp_path / "memory"
    assert list((tmp_path / "memory").iterdir()) == []


def test_where_little_is_free_the_command_is_run_as_it_stands(tmp_path: Path) -> None:
    done = ran(tmp_path, 'echo "$TMPDIR" && exit 3', free=3_999_999)
    assert (done.returncode, done.stdout, done.stderr) == (3, "as it was\n", "")


def test_a_machine_without_such_memory_runs_the_command_as_it_stands(tmp_path: Path) -> None:
    done = ran(tmp_path, 'echo "$TMPDIR" && exit 3', free=None)
    assert (done.returncode, done.stdout, done.stderr) == (3, "as it was\n", "")
