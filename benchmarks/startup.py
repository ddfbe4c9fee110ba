"""`dptext --help` against `python -c 'import typer, rich'`, median of 20 runs in turn; exits 1 above a ratio of 1.5."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 20
MAX_RATIO = 1.5


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    commands = {
        "dptext --help": [str(Path(sys.executable).with_name("dptext")), "--help"],
        "import typer, rich": [sys.executable, "-c", "import typer, rich"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(RUNS + 1):
        for name, command in commands.items():
            taken = seconds(command)
            if round_:
                times[name].append(taken)
    ratio = statistics.median(times["dptext --help"]) / statistics.median(times["import typer, rich"])
    print(f"dptext --help takes {ratio:.2f} times as long as python -c 'import typer, rich' (median of {RUNS})")
    return int(ratio > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
