"""How long `dptext --help` and `import dptext` take, against the libraries that they stand on.

`dptext --help` against `import typer, rich`, and `import dptext` against `import numpy`, each in a fresh interpreter
with compiled bytecode, in turn. Exits 1 where a median of the rounds is above its bound.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from _timing import Rows, paired

ROUNDS = 30
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


def main() -> int:
    rows = Rows()
    for ours, other, most in PAIRS:
        seconds(ours), seconds(other)  # bytecode is compiled, files are in memory
        times = [(seconds(ours), seconds(other)) for _ in range(ROUNDS)]
        rows.add(ours, f"of the time of python -c '{other}'", paired(*zip(*times, strict=True)), most=most)
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
