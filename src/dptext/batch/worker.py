"""A worker process: `python -m dptext.batch.worker PIPE` reads a job and then tasks, and answers each."""

import os
import sys
import threading
import time
from multiprocessing.connection import Connection

from dptext.batch.engines import answered


def _end_with(parent: int) -> None:
    """End where the parent has ended: what is drawn then would be for nobody."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main(pipe: Connection) -> None:
    """Answer tasks until the pipe is closed."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        job = pipe.recv()
        while True:
            pipe.send(answered(job, pipe.recv()))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
