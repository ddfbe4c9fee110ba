"""Processes of this computer that do tasks, of one thread each; they end when this one does.

`python -m dptext.runs.processes PIPE` reads a job and then tasks, and answers each.
"""

import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

from dptext.errors import ConfigError, DataError, DPTextError, HeaderError, PrivacyError

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
SEND_SECONDS: Final = 60  # that a worker takes nothing of what is sent to it, its start among them
#: What ends a pipe whose other end is gone.
_GONE: Final = (EOFError, BrokenPipeError, ConnectionResetError)
_HOW: Final = "Models go through the temporary folder: give it room, name another one as TMPDIR, or take --workers 1."
Task = tuple[str, tuple[Any, ...]]  #: The name of a method of the job, and what it takes


def packed(job: object) -> bytes:
    """The job as `Process` takes it; ConfigError where it cannot be sent, as where the temporary folder is full."""
    try:
        return bytes(ForkingPickler.dumps(job))
    except DPTextError:
        raise
    except Exception as error:  # noqa: BLE001  # of whatever a model is made of: its message could hold anything
        reason = _named(error)
    raise ConfigError(f"Cannot send the work to a worker: {reason}. {_HOW}")


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


def _named(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


class Process:
    """One process with its job, `packed`. The answer to what is sent comes by the pipe, which ends where it died.

    DPTextError: the system starts no process.
    """

    def __init__(self, job: bytes) -> None:
        self.pipe, theirs = Pipe()
        reason = None
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "dptext.runs.processes", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # a trace might show private text
                    env={**os.environ, **dict.fromkeys(_THREADS, "1")},
                    start_new_session=True,  # Ctrl-C is for us; we end the workers
                )
            except OSError as error:
                reason = error.strerror
        if reason is not None:
            self.pipe.close()
            raise DPTextError(f"Cannot start a worker: {reason}. Run fewer --workers.")
        with socket.socket(fileno=os.dup(self.pipe.fileno())) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        self._send(job)

    def send(self, task: Task) -> None:
        """Send a task."""
        self._send(packed(task))

    def _send(self, data: bytes) -> None:
        try:
            self.pipe.send_bytes(data)
        except _GONE:
            pass  # it died: that shows when its answer is read
        except BlockingIOError:  # it takes nothing: as if it had died
            self._process.kill()

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
    with suppress(*_GONE):
        data = pipe.recv_bytes()
        job, fault = _loaded(data)
        while True:
            task = pipe.recv()
            pipe.send(fault or answered(job, task))


def _loaded(data: bytes) -> tuple[object, DPTextError | None]:
    """The job that `packed` packed, or why it cannot be had."""
    try:
        return pickle.loads(data), None  # noqa: S301  # of the process that started this one
    except DPTextError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  # as above
        reason = _named(error)
    return None, ConfigError(f"A worker cannot load the model: {reason}. {_HOW}")


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
