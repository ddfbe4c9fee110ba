"""A real server of llama.cpp on this machine, with SmolLM2. As a command, it serves until it is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def main() -> None:
    """Serve on a free port of this machine, and print the address."""
    import xllamacpp

    from dptext.language.reading import packaged

    given = xllamacpp.CommonParams()
    given.model.path = str(packaged())
    given.n_ctx, given.n_parallel, given.hostnames, given.port = 16_384, 8, ["127.0.0.1"], 0
    # Threads of llama.cpp wait for each other in busy loops: on cores that are shared, two take many times as long.
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = int(os.environ.get("OMP_NUM_THREADS", "-1"))
    server = xllamacpp.Server(given)
    print("listening", server.listening_address, flush=True)
    while True:
        time.sleep(3_600)


@contextmanager
def serving() -> Iterator[str]:
    """Yield the base address of the server, with its /v1."""
    with subprocess.Popen(
        [sys.executable, __file__], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = next((each for each in process.stdout if each.startswith("listening")), "")
            if not line:
                raise RuntimeError("Expected the server of llama.cpp to begin, but it ended.")
            yield f"{line.split()[1]}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    main()
