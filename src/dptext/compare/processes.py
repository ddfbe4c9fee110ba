"""One worker process as its parent sees it: what it is asked, what it answers, and why it died."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Final

from dptext.compare.cells import Cell

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class WorkerProcess:
    """One worker. It ends when our end of its pipe is closed, and so it ends with us.

    It runs the `cell` of this signature since it `began`, in seconds of `time.monotonic`.
    """

    def __init__(self, first: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dptext.compare.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a trace might show private text
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            start_new_session=True,  # Ctrl-C is for us; we end the workers
        )
        assert self._process.stdin is not None  # noqa: S101  # both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._questions, self.answers = self._process.stdin, self._process.stdout
        self.cell = ""
        self.began = time.monotonic()
        self._write(first)

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, name: str, cell: Cell) -> None:
        """Let it run a cell."""
        self.cell, self.began = name, time.monotonic()
        self._write(json.dumps({"signature": name, "cell": cell.to_dict()}).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died: that shows when its answer is read
            self._questions.write(line)
            self._questions.flush()

    def answer(self) -> str | None:
        """None where the cell is written; else what the process said before it died, which may be empty."""
        try:
            found = json.loads(self.answers.readline())
        except ValueError:
            return ""
        return None if found.get("done") == self.cell else str(found.get("broken", ""))

    def reap(self, said: str) -> tuple[str, float]:
        """Wait for its end. Returns why it died, and the most memory that it held, in MiB."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.close()
        peak = usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)
        return said or _ending(self._process.returncode), peak

    def close(self) -> None:
        """End the process, if it has not ended."""
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.answers.close()


def _ending(code: int) -> str:
    if code >= 0:
        return f"WorkerDied: its process ended with status {code} and said nothing."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    advice = (
        ", as the system does where memory runs out: run fewer --workers, or bound each with --memory"
        if (-code == signal.SIGKILL)
        else ""
    )
    return f"WorkerDied: its process was ended by {name}{advice}."
