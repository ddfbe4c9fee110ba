"""How long `dptext --help` and `import dptext` take, against the libraries that they stand on.

`dptext --help` against `import typer, rich`, and `import dptext` against `import numpy`, each in a fresh interpreter
with compiled bytecode, in turn. Prints the quartiles of the ratios of the rounds. Exits 1 where a median is above its
bound.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 40
#: What is measured, what it is compared with, and the largest ratio.
PAIRS = (
    # help lists the commands of packages: reading entry points takes half as long as importing typer
    ("dptext --help", "import typer, rich", 1.75),
    ("import dptext", "import numpy", 1.2),
)


def command(what: str) -> list[str]:
    if what.startswith("dptext "):
        return [str(Path(sys.executable).with_name("dptext")), *what.split()[1:]]
    return [sys.executable, "-c", what]


def seconds(what: str) -> float:
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command(what), check=True, stdout=subprocess.DEVNULL, env=compiled)
    return time.perf_counter() - began


def measured(ours: str, other: str) -> float:
    """The median over the rounds of each round's ratio, which is printed."""
    seconds(ours), seconds(other)  # bytecode is compiled, files are in memory
    times = [(seconds(ours), seconds(other)) for _ in range(ROUNDS)]
    low, ratio, high = statistics.quantiles(one / two for one, two in times)
    print(
        f"{ours} takes {ratio:.2f} times as long as python -c '{other}' "
        f"(median of {ROUNDS}; half of the rounds {low:.2f} to {high:.2f})"
    )
    return ratio


def main() -> int:
    missed = [ours for ours, other, most in PAIRS if measured(ours, other) > most]
    for ours in missed:
        print(f"MISSED: {ours}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
