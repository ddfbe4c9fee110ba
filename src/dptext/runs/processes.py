"""Worker processes of this computer, of one thread each. They end when this process ends.

`python -m dptext.runs.processes PIPE` reads a job and then its tasks from the pipe, and answers each task, until
another job comes.
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

from dptext.errors import ConfigError, DataError, DPTextError, HeaderError, OtherFormError, PrivacyError

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
SEND_SECONDS: Final = 60  # after so many seconds without a byte taken, during its start too, a worker is killed
#: Errors that a pipe raises when its other end is gone.
_GONE: Final = (EOFError, BrokenPipeError, ConnectionResetError)
_HOW: Final = "Models go through the temporary folder: give it room, name another one as TMPDIR, or take --workers 1."
Task = tuple[str, tuple[Any, ...]]  #: The name of a method of the job, and its arguments


def packed(job: object) -> bytes:
    """Return the pickled job for `Process`. ConfigError: the job cannot be sent, as with a full temporary folder."""
    try:
        return bytes(ForkingPickler.dumps(job))
    except DPTextError:
        raise
    except Exception as error:  # noqa: BLE001  # from any part of a model: its message could hold anything
        reason = _named(error)
    raise ConfigError(f"Cannot send the work to a worker: {reason}. {_HOW}")


def answered(job: object, task: Task) -> Any:
    """Return the answer of a task, or its error as a value: a raised error's trace could show private text."""
    name, given = task
    try:
        return getattr(job, name)(*given)
    except OtherFormError as error:
        return OtherFormError(error.said, error.path)
    except DPTextError as error:
        kinds = (ConfigError, HeaderError, DataError, PrivacyError, DPTextError)
        kind = next(each for each in kinds if isinstance(error, each))
        return kind(str(error))  # an error class with its own fields may not pickle
    except Exception as error:  # noqa: BLE001  # from any code that reads a text: its message could hold the text
        return DPTextError(f"A worker failed with {type(error).__name__}. Nothing of this part is released.")


def _named(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


class Process:
    """One worker process. `pipe` receives the answer to each task of its job; it ends if the worker dies.

    DPTextError: the system starts no process.
    """

    def __init__(self) -> None:
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
                    start_new_session=True,  # Ctrl-C reaches this process alone, which ends its workers
                )
            except OSError as error:
                reason = error.strerror
        if reason is not None:
            self.pipe.close()
            raise DPTextError(f"Cannot start a worker: {reason}. Run fewer --workers.")
        with socket.socket(fileno=os.dup(self.pipe.fileno())) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))

    def take(self, job: bytes) -> None:
        """Send a job, `packed`, to which further tasks belong."""
        self._send(packed(job))

    def send(self, task: Task) -> None:
        """Send a task."""
        self._send(packed(task))

    def _send(self, data: bytes) -> None:
        try:
            self.pipe.send_bytes(data)
        except _GONE:
            pass  # the worker died; reading its answer shows that
        except BlockingIOError:  # the worker takes no bytes and counts as dead
            self._process.kill()

    def reap(self) -> tuple[int, float]:
        """Wait for the end of a process that died. Return its exit code and its peak memory in MiB."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.close()
        return self._process.returncode, usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)

    def close(self) -> None:
        """Close the pipe, and end the process if it runs."""
        self.pipe.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def _end_with(parent: int) -> None:
    """End this process after its parent has ended: nobody would read further draws."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main(pipe: Connection) -> None:
    """Answer tasks until the pipe is closed."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(*_GONE):
        job: object = None
        fault: DPTextError | None = None
        while True:
            given = pipe.recv()
            if isinstance(given, bytes):
                job, fault = _loaded(given)
            else:
                pipe.send(fault or answered(job, given))


def _loaded(data: bytes) -> tuple[object, DPTextError | None]:
    """Return the job that `packed` packed, or None and the error that prevents loading."""
    try:
        return pickle.loads(data), None  # noqa: S301  # the data come from the parent process
    except DPTextError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  # as in `packed`
        reason = _named(error)
    return None, ConfigError(f"A worker cannot load the model: {reason}. {_HOW}")


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
