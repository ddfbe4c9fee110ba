"""Processes of this computer that do tasks, of one thread each; they end when this one does.

`python -m dptext.runs.processes PIPE` reads a job and then tasks, and answers each.
"""

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

from dptext.errors import ConfigError, DataError, DPTextError, HeaderError, PrivacyError

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
Task = tuple[str, tuple[Any, ...]]  #: The name of a method of the job, and what it takes


def answered(job: object, task: Task) -> Any:
    """The answer of a task, or its error as a value: a trace could show private text."""
    name, given = task
    try:
        return getattr(job, name)(*given)
    except DPTextError as error:
        kinds = (ConfigError, HeaderError, DataError, PrivacyError, DPTextError)
        kind = next(each for each in kinds if isinstance(error, each))
        return kind(str(error))  # of those with fields of their own not all can be sent
    except Exception as error:  # noqa: BLE001  # of whatever reads a text: its message could hold it
        return DPTextError(f"A worker failed with {type(error).__name__}. Nothing of this part is released.")


class Process:
    """One process with its job. The answer to what is sent comes by the pipe, which ends where the process died."""

    def __init__(self, job: object) -> None:
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dptext.runs.processes", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a trace might show private text
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
                start_new_session=True,  # Ctrl-C is for us; we end the workers
            )
        self.send(job)

    def send(self, what: object) -> None:
        """Send the job, or a task."""
        with suppress(OSError):  # it died: that shows when its answer is read
            self.pipe.send(what)

    def reap(self) -> tuple[int, float]:
        """Wait for the end of a process that died. Returns how it ended, and the most memory that it held, in MiB."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.close()
        return self._process.returncode, usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)

    def close(self) -> None:
        """End the process, if it has not ended."""
        self.pipe.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def _end_with(parent: int) -> None:
    """End where the parent has ended: what is drawn then would be for nobody."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main(pipe: Connection) -> None:
    """Answer tasks until the pipe is closed."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(EOFError, OSError):
        job = pipe.recv()
        while True:
            pipe.send(answered(job, pipe.recv()))


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
